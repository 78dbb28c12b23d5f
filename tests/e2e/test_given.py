"""What an agent may use, given and taken by `mcpctl agents` while it is attached (b20, b33, c23, D10)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.e2e.harness import Agent, Daemon, Refused, attached, heard, kind_of, lively, text_of, until

CHANGED = "notifications/tools/list_changed"


async def ctl(daemon: Daemon, *words: str) -> str:
    """What mcpctl says, while agents go on reading."""
    done = await trio.to_thread.run_sync(lambda: daemon.ctl(*words))
    return done.stdout


async def told(agent: Agent) -> None:
    """Wait until the agent is told that its list changed."""
    await agent.wait_for(lambda: [n for n in agent.notices if n["method"] == CHANGED])
    agent.notices.clear()


def calls(log: Path) -> list[str]:
    """The tools that a server was asked for."""
    return [row["name"] for row in heard(log, "heard", method="tools/call")]


def servers_of(names: list[str]) -> set[str]:
    return {name.partition("__")[0] for name in names}


async def test_servers_are_given_and_taken_while_agents_are_attached(
    daemon: Daemon, real_clock: None, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        daemon.server(name, lively(tmp_path / f"{name}.log"))
    daemon.start()
    added = daemon.ctl("agents", "add", "coder", "--allow", "one")
    assert "one__*" in added.stdout
    socket = daemon.sockets / "agents" / "coder" / "mcp.sock"
    until(socket.exists)
    async with attached(daemon) as other, attached(daemon, "coder") as coder:
        everything = await other.tools()
        assert servers_of(everything) == {"one", "two"}
        assert servers_of(await coder.tools()) == {"one"}

        await ctl(daemon, "agents", "allow", "coder", "two")
        await told(coder)
        assert await coder.tools() == everything
        assert text_of(await coder.call("two__echo", text="hi")) == "hi"

        await ctl(daemon, "agents", "deny", "coder", "one", "two__wipe")
        await told(coder)
        left = await coder.tools()
        assert servers_of(left) == {"two"}
        assert "two__wipe" not in left
        for tool in ("one__echo", "two__wipe"):
            with pytest.raises(Refused):
                await coder.call(tool, text="no")
        # The other one has lost nothing and heard of nothing.
        assert await other.tools() == everything
        assert text_of(await other.call("one__echo", text="still")) == "still"
        assert [n for n in other.notices if n["method"] == CHANGED] == []
    assert calls(tmp_path / "one.log") == ["echo"]

    # The next daemon finds it the same, without a reload.
    daemon.end()
    daemon.start()
    async with attached(daemon, "coder") as coder:
        assert await coder.tools() == left
        daemon.ctl("agents", "remove", "coder")
        with trio.fail_after(10):
            async with coder.news:
                while not coder.closed:
                    await coder.news.wait()
    until(lambda: not socket.exists())


async def test_an_agent_that_only_reads_is_kept_from_what_changes_things(
    daemon: Daemon, real_clock: None, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    # Nothing is asked about these, so nothing but max_risk can keep an agent from them.
    open_to_all = {"approval": "never"}
    daemon.server("s", lively(log, default_policy=open_to_all))
    daemon.write("config.toml", {"tool_policies": {"s__echo": {"risk": "low"}, "s__add": {"risk": "medium"}}})
    daemon.start()
    daemon.ctl("agents", "add", "reader")
    until((daemon.sockets / "agents" / "reader" / "mcp.sock").exists)
    async with attached(daemon, "reader") as reader, attached(daemon) as other:
        assert text_of(await reader.call("s__echo", text="1")) == "1"
        assert not (await reader.call("s__wipe")).get("isError")
        await ctl(daemon, "agents", "max-risk", "reader", "low")
        denied = await reader.call("s__wipe")
        assert kind_of(denied) == "denied"
        assert 'agent "reader" may use up to low' in text_of(denied)
        assert text_of(await reader.call("s__echo", text="2")) == "2"
        assert not (await other.call("s__wipe")).get("isError")
        await ctl(daemon, "agents", "max-risk", "reader", "high")
        assert not (await reader.call("s__wipe")).get("isError")
    assert calls(log).count("wipe") == 3


async def test_what_needs_no_question(daemon: Daemon, real_clock: None, tmp_path: Path) -> None:
    """D10: a pattern covers up to medium risk, an exact name any."""
    log = tmp_path / "log"
    daemon.server("s", lively(log, default_policy={"approval": "unless_auto_approved"}))
    daemon.write(
        "config.toml",
        {
            "defaults": {"approval_wait": "10ms"},
            "tool_policies": {"s__echo": {"risk": "medium"}},
            "agents": {
                "globs": {"auto_approve": ["s__*"]},
                "names": {"auto_approve": ["s__wipe"]},
            },
        },
    )
    daemon.start()
    for agent, tool, runs in (
        ("globs", "s__echo", True),
        ("globs", "s__wipe", False),
        ("names", "s__wipe", True),
        ("names", "s__echo", False),
        ("default", "s__echo", False),
    ):
        async with attached(daemon, agent) as each:
            answer = await each.call(tool, text="x")
            if runs:
                assert not answer.get("isError"), (agent, tool)
            else:
                assert kind_of(answer) == "pending", (agent, tool)
    assert calls(log) == ["echo", "wipe"]


def test_a_bridge_leaves_servers_out(daemon: Daemon, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        daemon.server(name, lively(tmp_path / f"{name}.log"))
    daemon.start()
    daemon.ctl("list", "--tools")
    messages: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-m",
            "mcpctl",
            "bridge",
            "--without",
            "one",
            "--without=three",
            "--without=no",
        ],
        input="".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages),
        capture_output=True,
        text=True,
        timeout=30,
        env=daemon.environ,
    )
    unknown = 'mcpctl: bridge: nothing to leave out now: no server is named "no"\n'
    assert (done.returncode, done.stderr) == (0, unknown)
    listed = json.loads(done.stdout.splitlines()[-1])["result"]["tools"]
    assert servers_of([tool["name"] for tool in listed]) == {"two"}


async def test_a_session_is_switched_by_its_id(daemon: Daemon, real_clock: None, tmp_path: Path) -> None:
    for name in ("one", "two"):
        daemon.server(name, lively(tmp_path / f"{name}.log"))
    daemon.start()
    async with attached(daemon) as agent:
        await agent.tools()
        [session] = json.loads(await ctl(daemon, "agents", "session", "--json"))["sessions"]
        assert session["pid"] > 0
        assert Path(session["exe"]).name.startswith("python")
        await ctl(daemon, "agents", "session", session["id"], "--off", "one")
        await told(agent)
        assert servers_of(await agent.tools()) == {"two"}
        await ctl(daemon, "agents", "session", session["id"], "--on", "one")
        await told(agent)
        assert servers_of(await agent.tools()) == {"one", "two"}


def test_a_file_is_checked_before_it_counts(daemon: Daemon, tmp_path: Path) -> None:
    daemon.server("notes", lively(tmp_path / "log"))
    daemon.start()
    daemon.ctl("test", "notes")
    draft = daemon.home.root / "draft.toml"
    draft.write_text(
        '[tool_policies]\n"notes__ehco" = { approval = "never" }\n\n[agents.reader]\nmax_risk = "lwo"\n'
    )
    done = daemon.ctl("policy", "check", str(draft), check=False)
    assert done.returncode == 1
    first, second = done.stdout.splitlines()
    assert first.startswith(f"{draft}:5: agents.reader.max_risk: expected")
    assert 'did you mean "low"?' in first
    assert second.startswith(f"{draft}:2: perhaps: tool_policies.notes__ehco: ")
    assert 'did you mean "echo"?' in second
    assert daemon.ask("agents.list")["agents"][0]["name"] == "default"
    draft.write_text('[tool_policies]\n"notes__echo" = { approval = "never" }\n')
    assert daemon.ctl("policy", "check", str(draft)).stdout == ""


def test_an_entry_that_was_widened_while_mcpd_was_stopped_waits(daemon: Daemon, tmp_path: Path) -> None:
    daemon.server("one", lively(tmp_path / "one.log"))
    daemon.start()
    daemon.ctl("agents", "add", "coder", "--allow", "one__echo", "--max-risk", "low")
    file = daemon.folder / "agents.d" / "coder.toml"
    mine = file.read_text()
    daemon.end()
    file.write_text('allowed_tools = ["*"]\nauto_approve = ["one__wipe"]\n')
    (daemon.folder / "agents.d" / "other.toml").write_text("open = true\n")
    daemon.start()
    found = daemon.ask("agents.get", agent="coder")
    assert (found["allowed_tools"], found["auto_approve"], found["max_risk"]) == (["one__echo"], [], "low")
    assert any("wider or changed, waits for mcpctl reload" in problem for problem in found["problems"])
    assert [agent["name"] for agent in daemon.ask("agents.list")["agents"]] == ["default", "coder"]
    # Nothing of it comes in by another change either.
    refused = daemon.ctl("agents", "allow", "coder", "one", check=False)
    assert refused.returncode == 4
    assert "mcpctl reload" in refused.stderr
    file.write_text(mine)
    daemon.ctl("reload")
    assert daemon.ask("agents.get", agent="coder")["problems"] == []
