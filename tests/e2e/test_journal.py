"""The journal of a real daemon: what agents did is found again, and high risk needs it (n12)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from tests.e2e.harness import OPEN, Daemon, attached, heard, is_alive, kind_of, lively, text_of, until

HIGH = {"risk": "high", "approval": "never"}


def journal(daemon: Daemon, *words: str) -> list[dict[str, Any]]:
    """What `mcpctl journal --json` prints, oldest first."""
    return [json.loads(line) for line in daemon.ctl("--json", "journal", *words).stdout.splitlines()]


async def test_a_call_is_found_with_who_what_why_and_how_long(daemon: Daemon, real_clock: None) -> None:
    daemon.server("plain", lively(daemon.home.root / "plain.log"))
    daemon.write(
        "agents.d/coder.toml", {"schema": 1, "allowed_tools": ["plain__*"], "denied_tools": ["*__wipe"]}
    )
    daemon.start()
    async with attached(daemon, "coder") as agent:
        assert text_of(await agent.call("plain__echo", text="a private thought", more={"n": 1})) != ""
        await agent.call("plain__echo", text="a private thought", more={"n": 1})
        await agent.call("plain__echo", text="another")
        await agent.begin_call("plain__wipe")
        until(lambda: journal(daemon, "--tool", "*wipe"))
        last, again, first = journal(daemon, "--agent", "coder", "--tool", "plain__echo")[::-1]
    assert (first["agent"], first["exe"]) == ("coder", os.path.realpath(sys.executable))
    assert is_alive(first["pid"])
    assert (first["server"], first["tool"], first["method"]) == ("plain", "echo", "tools/call")
    assert (first["decision"], first["risk"], first["rule"], first["outcome"]) == (
        "allow",
        "low",
        "never",
        "ok",
    )
    assert "plain" in first["because"]
    assert 0 < first["duration"] < 60
    assert first["request_bytes"] == len('{"text": "a private thought", "more": {"n": 1}}')
    assert first["result_bytes"] > 0
    assert first["digest"] == again["digest"] != last["digest"]
    assert first["shape"] == '{"text":"string","more":{"n":"number"}}'
    assert first["pin"] == again["pin"] != ""
    assert first["destination"]
    assert first["arguments"] == ""
    [refused] = journal(daemon, "--outcome", "no_such_tool")
    assert refused["tool"] == "plain__wipe", (
        "it does not exist for this agent, and was asked for all the same"
    )
    file = daemon.home.state / "mcpd" / "journal.db"
    kept = b"".join(path.read_bytes() for path in file.parent.glob("journal.db*"))
    assert b"private thought" not in kept
    found = daemon.ctl("journal", "--tool", "plain__echo", "--since", "1h").stdout
    assert "plain__echo" in found
    one = daemon.ctl("journal", str(first["id"])).stdout
    assert '{"text":"string","more":{"n":"number"}}' in one


async def test_arguments_are_kept_where_that_is_asked_for(daemon: Daemon, real_clock: None) -> None:
    daemon.server("plain", lively(daemon.home.root / "plain.log"))
    daemon.write("config.toml", {"schema": 1, "defaults": {"journal_arguments": True}})
    daemon.start()
    async with attached(daemon) as agent:
        await agent.call("plain__echo", text="kept")
        [entry] = journal(daemon, "--tool", "plain__echo")
    assert json.loads(entry["arguments"]) == {"text": "kept"}


async def test_a_value_that_mcpd_holds_is_never_in_the_journal(daemon: Daemon, real_clock: None) -> None:
    held = "q9Zr-Vv71kLwPe0Tn4Xb"
    daemon.server("vault", lively(daemon.home.root / "vault.log", env={"API_TOKEN": held}))
    daemon.server("plain", lively(daemon.home.root / "plain.log"))
    daemon.write("config.toml", {"schema": 1, "defaults": {"journal_arguments": True}})
    daemon.start()
    async with attached(daemon) as agent:
        assert kind_of(await agent.call("plain__echo", text=f"it is {held}!")) == "denied"
        # Escapes change nothing, nor does a name.
        line = json.dumps({"text": held}).replace("q9Zr", "\\u0071\\u0039Zr")
        await agent.line(
            b'{"jsonrpc":"2.0","id":90,"method":"tools/call","params":{"name":"plain__echo","arguments":'
            + line.encode()
            + b"}}"
        )
        assert kind_of(await agent.answer(90)) == "denied"
        assert kind_of(await agent.call("plain__echo", **{held: 1})) == "denied"
        await agent.begin_call(f"plain__{held}")
        until(lambda: journal(daemon, "--outcome", "no_such_tool"))
        # Its own server may have it; what comes back is redacted, and so is what is kept.
        assert held not in text_of(await agent.call("vault__echo", text=held))
        entries = journal(daemon, "--kind", "request")
    assert [entry["outcome"] for entry in entries] == ["denied"] * 3 + ["no_such_tool", "ok"]
    assert all(
        "API_TOKEN" in entry["because"] + entry["findings"] for entry in entries if not entry["tool"][8:]
    )
    assert held not in json.dumps(entries)
    for path in (daemon.home.state / "mcpd").glob("journal.db*"):
        assert held.encode() not in path.read_bytes()


async def test_kill_9_loses_at_most_the_last_batch(daemon: Daemon, real_clock: None) -> None:
    daemon.server("plain", lively(daemon.home.root / "plain.log"))
    daemon.server("sharp", lively(daemon.home.root / "sharp.log", default_policy=HIGH))
    daemon.start()
    times: list[float] = []
    async with attached(daemon) as agent:
        while not times or times[-1] - times[0] < 1.5:
            await agent.call("plain__echo", text="x")
            times.append(time.time())
        # One of high risk is on the disk before the server hears of it, though it never ends.
        await agent.begin_call("sharp__nap", seconds=60)
        until(lambda: heard(daemon.home.root / "sharp.log", name="nap"))
        killed = time.time()
        daemon.end(signal.SIGKILL)
    until(lambda: not daemon.relatives())
    daemon.start()
    found = journal(daemon, "-n", "100000", "--tool", "plain__echo")
    assert len(found) >= len([at for at in times if at < killed - 0.75])
    [decision] = journal(daemon, "--tool", "sharp__nap")
    assert (decision["kind"], decision["decision"], decision["risk"]) == ("decision", "allow", "high")


async def test_high_risk_is_refused_while_the_journal_cannot_be_written(
    daemon: Daemon, real_clock: None
) -> None:
    sharp = daemon.home.root / "sharp.log"
    daemon.server("plain", lively(daemon.home.root / "plain.log", default_policy=OPEN))
    daemon.server("sharp", lively(sharp, default_policy=HIGH))
    daemon.start()
    async with attached(daemon) as agent:
        assert text_of(await agent.call("sharp__echo", text="before")) == "before"
        file = daemon.home.state / "mcpd" / "journal.db"
        for path in file.parent.glob("journal.db*"):
            path.unlink()
        file.mkdir()
        # The very first call after that, and without a word from anybody, is refused; nothing is sent.
        assert kind_of(await agent.call("sharp__echo", text="lost")) == "denied"
        assert text_of(await agent.call("plain__echo", text="harmless")) == "harmless"
        assert not heard(sharp, arguments={"text": "lost"})
        assert "journal" in daemon.ctl("status").stdout
        file.rmdir()
        until(lambda: "journal" not in daemon.ctl("status").stdout)
        assert text_of(await agent.call("sharp__echo", text="after")) == "after"
        outcomes = [entry["outcome"] for entry in journal(daemon, "--kind", "request")]
    assert outcomes == ["ok", "denied", "ok", "ok"], "what waited meanwhile was written as well"


async def test_following_prints_each_call_as_it_ends(daemon: Daemon, real_clock: None) -> None:
    daemon.server("plain", lively(daemon.home.root / "plain.log"))
    daemon.start()
    command = [sys.executable, "-I", "-m", "mcpctl", "journal", "--follow", "--json", "--server", "plain"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=daemon.environ) as follower:
        assert follower.stdout is not None
        async with attached(daemon) as agent:
            for text in ("one", "two"):
                await agent.call("plain__echo", text=text)
                assert json.loads(follower.stdout.readline())["tool"] == "echo"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(20) == 130
