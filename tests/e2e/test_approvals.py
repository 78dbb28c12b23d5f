"""Calls that wait for a person, with a real daemon, real servers and mcpctl as the person (a31, n05, n07)."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Daemon, attached, heard, kind_of, lively, text_of, until

UNTRUSTED: dict[str, Any] = {"default_policy": {}}


def waiting(daemon: Daemon) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(daemon.ctl("--json", "approvals").stdout)["approvals"]
    return found


def only(daemon: Daemon) -> dict[str, Any]:
    [approval] = until(lambda: waiting(daemon))
    return approval


def calls(log: Path) -> list[dict[str, Any]]:
    """What a lively server heard of tools/call."""
    return heard(log, "heard", method="tools/call")


def recorded(daemon: Daemon, approval: str) -> list[tuple[str, str]]:
    """(kind, outcome) of all entries about a question, the oldest first."""
    with sqlite3.connect(daemon.home.state / "mcpd" / "journal.db") as db:
        query = "select kind, outcome from entries where approval = ? order by id"
        return list(db.execute(query, (approval,)))


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_on_a_fresh_install_the_first_call_asks(
    daemon: Daemon, real_clock: None, revision: str
) -> None:
    log = daemon.home.root / "lively.log"
    daemon.server("files", lively(log, **UNTRUSTED))
    daemon.start()
    async with attached(daemon, revision=revision) as agent:
        number = await agent.begin_call("files__echo", text="hi", path="/etc/passwd")
        approval = only(daemon)
        shown = daemon.ctl("approvals").stdout
        assert 'agent "default" asks to call files__echo  (risk high)' in shown
        assert "path      path = /etc/passwd" in shown
        assert f"files: {sys.executable}" in shown
        assert "untrusted (b11)" in shown
        assert "mcpctl approvals (1 call waits for you)" in daemon.ctl("status").stdout
        assert calls(log) == []
        answered = daemon.ctl("approve", approval["id"]).stdout
        assert answered == "approved: files__echo for agent default\n"
        assert text_of(await agent.answer(number)) == "hi"
        assert len(calls(log)) == 1


async def test_a_cron_like_agent(daemon: Daemon, real_clock: None) -> None:
    """A pending result with an id; approved from elsewhere; the repeat runs once and only once."""
    log = daemon.home.root / "lively.log"
    daemon.server("files", lively(log, **UNTRUSTED))
    daemon.write("config.toml", {"schema": 1, "defaults": {"approval_wait": "300ms"}})
    daemon.start()
    async with attached(daemon) as agent:
        began = time.monotonic()
        result = await agent.call("files__echo", text="nightly")
        assert kind_of(result) == "pending"
        assert time.monotonic() - began < 20
    name = result["_meta"]["dev.mcpd/approval"]
    assert f"mcpctl approve {name}" in text_of(result)
    daemon.ctl("approve", name)
    async with attached(daemon) as agent:
        assert text_of(await agent.call("files__echo", text="nightly")) == "nightly"
        assert kind_of(await agent.call("files__echo", text="nightly")) == "pending"
    assert len(calls(log)) == 1
    until(lambda: ("request", "ok") in recorded(daemon, name))
    assert [each for each in recorded(daemon, name) if each[0] != "decision"] == [
        ("approval", "asked"),
        ("request", "pending"),
        ("approval", "approved"),
        ("request", "ok"),
    ]


async def test_a_daemon_that_is_killed_while_a_call_waits_has_denied_it(
    daemon: Daemon, real_clock: None
) -> None:
    log = daemon.home.root / "lively.log"
    daemon.server("files", lively(log, **UNTRUSTED))
    daemon.start()
    async with attached(daemon) as agent:
        number = await agent.begin_call("files__echo", text="hi")
        name = only(daemon)["id"]
        until(lambda: recorded(daemon, name))
        daemon.end(signal.SIGKILL)
        with pytest.raises(ConnectionError):
            await agent.answer(number)
    daemon.start()
    assert waiting(daemon) == []
    assert daemon.ctl("approve", name, check=False).returncode == 6
    async with attached(daemon) as agent:
        await agent.begin_call("files__echo", text="hi")
        assert only(daemon)["id"] != name
    assert calls(log) == []
    assert recorded(daemon, name) == [("approval", "asked")]


async def test_a_daemon_that_stops_while_a_call_waits_says_so(daemon: Daemon, real_clock: None) -> None:
    log = daemon.home.root / "lively.log"
    daemon.server("files", lively(log, **UNTRUSTED))
    daemon.start()
    async with attached(daemon) as agent:
        number = await agent.begin_call("files__echo", text="hi")
        name = only(daemon)["id"]
        assert daemon.proc is not None
        daemon.proc.send_signal(signal.SIGTERM)
        assert kind_of(await agent.answer(number)) == "stopping"
    assert daemon.wait() == 0
    assert calls(log) == []
    assert recorded(daemon, name) == [
        ("approval", "asked"),
        ("approval", "withdrawn"),
        ("request", "stopping"),
    ]


async def test_what_a_yes_survives_and_what_not(daemon: Daemon, real_clock: None) -> None:
    """n07, n24: a restart of the server or an unrelated edit is no other call; rules and command are."""
    log = daemon.home.root / "lively.log"
    daemon.server("files", lively(log, **UNTRUSTED))
    daemon.write("config.toml", {"schema": 1, "defaults": {"approval_wait": "200ms"}})
    daemon.start()

    async def approved() -> str:
        name = (await agent.call("files__echo", text="hi"))["_meta"]["dev.mcpd/approval"]
        daemon.ctl("approve", name)
        assert isinstance(name, str)
        return name

    async with attached(daemon) as agent:
        # The same: a process of its own starts again, another server comes, another tool gets a policy.
        await approved()
        daemon.ctl("reconnect", "files")
        assert text_of(await agent.call("files__echo", text="hi")) == "hi"
        await approved()
        daemon.server("other", lively(daemon.home.root / "other.log"))
        policies = {"other__*": {"approval": "deny"}}
        defaults = {"approval_wait": "200ms"}
        daemon.write("config.toml", {"schema": 1, "defaults": defaults, "tool_policies": policies})
        daemon.ctl("reload")
        assert text_of(await agent.call("files__echo", text="hi")) == "hi"
        ran = len(calls(log))
        assert ran == 2
        # Not the same: the rules of this tool.
        name = await approved()
        policies = {"files__echo": {"approval": "always"}}
        daemon.write("config.toml", {"schema": 1, "defaults": defaults, "tool_policies": policies})
        daemon.ctl("reload")
        result = await agent.call("files__echo", text="hi")
        assert kind_of(result) == "pending"
        assert result["_meta"]["dev.mcpd/approval"] != name
        # Not the same: the arguments, by the spelling of a number.
        name = (await agent.call("files__echo", text="hi", n=1))["_meta"]["dev.mcpd/approval"]
        daemon.ctl("approve", name)
        assert kind_of(await agent.call("files__echo", text="hi", n=1.0)) == "pending"
        # Not the same: the command line.
        daemon.server("files", lively(log, "--other", **UNTRUSTED))
        daemon.ctl("reload")
        review = json.loads(daemon.ctl("accept", "files", "--json", check=False).stdout)
        daemon.ctl("accept", "files", "--shown", review["shown"])
        assert kind_of(await agent.call("files__echo", text="hi", n=1)) == "pending"
        assert len(calls(log)) == ran


async def test_a_call_by_mcpctl_without_a_terminal(daemon: Daemon, real_clock: None) -> None:
    daemon.server("files", lively(daemon.home.root / "lively.log", **UNTRUSTED))
    daemon.start()
    done = daemon.ctl("call", "files__echo", "text=hi", check=False)
    assert done.returncode == 5
    name = only(daemon)["id"]
    assert name in done.stderr
    daemon.ctl("approve", name)
    assert daemon.ctl("call", "files__echo", "text=hi").stdout == "hi\n"
    daemon.ctl("call", "files__echo", "text=hi", check=False)
    name = only(daemon)["id"]
    daemon.ctl("deny", name)
    denied = daemon.ctl("call", "files__echo", "text=hi", check=False)
    assert denied.returncode == 5
    assert "a person said no" in denied.stderr
    assert "mcpctl explain - files__echo" in denied.stderr, "who reads it is the user"
