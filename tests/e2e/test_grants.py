"""Grants by mcpctl, over restarts and sudden deaths of the daemon (DESIGN 8.4, n10, n24)."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import trio

from tests.e2e.harness import Daemon, attached, kind_of, lively, text_of


async def ctl(daemon: Daemon, *words: str) -> str:
    """What mcpctl says, while agents go on reading."""
    done = await trio.to_thread.run_sync(lambda: daemon.ctl(*words))
    return done.stdout


def write(daemon: Daemon, tmp_path: Path, **fields: Any) -> None:
    daemon.server("lively", lively(tmp_path / "lively.log", default_policy={}, **fields))
    daemon.write("config.toml", {"defaults": {"approval_wait": "50ms"}, "agents": {"coder": {}}})


async def outcomes(daemon: Daemon, *texts: str) -> list[str]:
    """What becomes of calls of a coder who attaches anew."""
    found = []
    async with attached(daemon, "coder") as agent:
        for text in texts:
            result = await agent.call("lively__echo", text=text)
            found.append(kind_of(result) if result.get("isError") else text_of(result))
    return found


async def test_what_was_granted_lasts_over_a_kill_and_no_longer_than_said(
    daemon: Daemon, real_clock: None, tmp_path: Path
) -> None:
    write(daemon, tmp_path)
    daemon.start()
    await ctl(
        daemon, "grants", "add", "lively__echo", "--agent", "coder", "--count", "2", "--prefix", "text=a"
    )
    assert await outcomes(daemon, "b", "a1") == ["pending", "a1"]
    daemon.end(signal.SIGKILL)
    daemon.start()
    [listed] = json.loads(await ctl(daemon, "grants", "--json"))["grants"]
    assert listed["used"] == 1, "what was spent stays spent"
    assert await outcomes(daemon, "a2", "a3") == ["a2", "pending"]
    assert json.loads(await ctl(daemon, "grants", "--json")) == {"grants": []}
    daemon.end(signal.SIGKILL)
    daemon.start()
    assert await outcomes(daemon, "a2") == ["pending"]


async def test_explain_and_replay_say_what_calls_then_do(
    daemon: Daemon, real_clock: None, tmp_path: Path
) -> None:
    write(daemon, tmp_path)
    daemon.start()

    async def explained(text: str) -> str:
        said = await ctl(daemon, "explain", "coder", "lively__echo", f"text={text}", "--json")
        return str(json.loads(said)["verdict"])

    assert await explained("a") == "ask"
    key = json.loads(
        await ctl(daemon, "grants", "add", "lively__echo", "--agent", "coder", "--forever", "--json")
    )["grant"]["id"]
    assert await explained("a") == "allow"
    assert await outcomes(daemon, "a") == ["a"]
    assert json.loads(await ctl(daemon, "policy", "replay", "--json"))["differences"] == []
    await ctl(daemon, "revoke", key)
    assert await explained("a") == "ask"
    assert await outcomes(daemon, "b") == ["pending"]
    [difference] = json.loads(await ctl(daemon, "policy", "replay", "--json"))["differences"]
    assert (difference["tool"], difference["was"], difference["now"], difference["count"]) == (
        "echo",
        "allow",
        "ask",
        1,
    )


async def test_a_command_that_changes_leaves_its_grants_behind_n24(
    daemon: Daemon, real_clock: None, tmp_path: Path
) -> None:
    write(daemon, tmp_path)
    daemon.start()
    await ctl(daemon, "grants", "add", "lively__echo", "--agent", "coder", "--forever")
    assert await outcomes(daemon, "a") == ["a"]
    write(daemon, tmp_path, cwd="/")
    await ctl(daemon, "reload")
    held = next(each for each in daemon.ask("servers.list")["servers"])["held"]
    assert "mcpctl accept lively" in held
    review = daemon.ask("servers.review", server="lively")
    daemon.ask("servers.accept", server="lively", shown=review["shown"])
    [listed] = json.loads(await ctl(daemon, "grants", "--json"))["grants"]
    assert listed["idle"] == 'server "lively" has another command or address now'
    assert await outcomes(daemon, "a") == ["pending"]
