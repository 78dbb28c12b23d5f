"""One server's life: when it starts, what a crash does to its callers, what is said when it cannot start."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import (
    LIVELY,
    Control,
    Daemon,
    Refused,
    attached,
    heard,
    kind_of,
    lively,
    text_of,
    until,
)

VERDICTS = ("disabled", "unavailable", "outcome_unknown")


@pytest.fixture
def log(daemon: Daemon) -> Path:
    return daemon.home.root / "lively.log"


def connected(daemon: Daemon, server: str = "lively") -> dict[str, Any]:
    return until(lambda: status if (status := daemon.status(server))["state"] == "connected" else {})


# -- when it starts ---------------------------------------------------------------------------------
async def test_a_lazy_server_waits_for_demand(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("lively", lively(log))
    daemon.start()
    async with attached(daemon) as agent:
        await agent.request("ping")
        assert daemon.status("lively")["state"] == "idle"
        assert not heard(log)
        assert text_of(await agent.call("lively__echo", text="now")) == "now"
        status = daemon.status("lively")
        assert status["state"] == "connected"
        assert status["pid"] == heard(log, "start")[0]["pid"]
        assert status["tools"] == 12
        assert status["revision"] == "2025-11-25"


def test_an_eager_server_starts_with_the_daemon(daemon: Daemon, log: Path) -> None:
    daemon.server("lively", lively(log, start="eager"))
    daemon.start()
    assert connected(daemon)["pid"] == heard(log, "start")[0]["pid"]


def test_what_a_server_writes_is_not_made_private(daemon: Daemon, log: Path) -> None:
    """It gets the umask with which mcpd was started; mcpd's own files stay its user's alone."""
    server = {"command": "sh", "args": ["-c", f"umask > {log}"], "start": "eager"}
    daemon.server("writer", server)
    daemon.proc = daemon.spawn(umask=0o002)
    until(daemon.answers)
    assert until(lambda: log.read_text() if log.exists() else "") == "0002\n"
    assert log.stat().st_mode & 0o777 == 0o664
    ours = [path for path in (daemon.home.state / "mcpd").rglob("*") if path.is_file()]
    assert ours
    assert {path.stat().st_mode & 0o077 for path in ours} == {0}


def test_a_failing_eager_server_stops_nobody(daemon: Daemon, log: Path) -> None:
    daemon.server("broken", {"command": "no-such-command-xyz", "start": "eager"})
    daemon.server("lively", lively(log, start="eager"))
    daemon.start()
    connected(daemon)
    broken = until(lambda: status if (status := daemon.status("broken"))["state"] == "failed" else {})
    assert broken["reason"] == "command_not_found"
    assert "no-such-command-xyz" in broken["error"]


async def test_the_first_listing_waits_for_a_server_without_cache(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.server("lively", lively(log))
    daemon.start()
    async with attached(daemon) as agent:
        assert "lively__echo" in await agent.tools()


async def test_a_listing_waits_no_longer_than_five_seconds(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.server("lively", lively(log))
    late = {"command": "sh", "args": ["-c", f"sleep 7; exec {' '.join(quoted(lively(log)))}"]}
    daemon.server("late", {**late, "default_policy": {"approval": "never"}})
    daemon.start()
    async with attached(daemon) as agent:
        started = time.monotonic()
        names = await agent.tools()
        assert time.monotonic() - started < 7
        assert "lively__echo" in names
        assert "late__echo" not in names
        await agent.wait_for(lambda: agent.noticed("notifications/tools/list_changed"))
        assert "late__echo" in await agent.tools()


def quoted(fields: dict[str, Any]) -> list[str]:
    return [f"'{word}'" for word in (fields["command"], *fields["args"])]


async def test_the_cache_lists_a_server_that_is_not_running(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.server("lively", lively(log))
    daemon.start()
    async with attached(daemon) as agent:
        before = await agent.request("tools/list")
    assert daemon.end() == 0
    daemon.start()
    async with attached(daemon) as agent:
        assert await agent.request("tools/list") == before
        assert len(heard(log, "start")) == 1, "listed from the cache"
        assert text_of(await agent.call("lively__echo", text="up again")) == "up again"
    assert len(heard(log, "start")) == 2


async def test_listed_tools_of_a_server_that_cannot_start(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    script = daemon.home.root / "copy.py"
    shutil.copy(LIVELY, script)
    fields = lively(log)
    fields["args"][1] = str(script)
    daemon.server("lively", fields)
    daemon.start()
    async with attached(daemon) as agent:
        before = await agent.tools()
    daemon.end()
    script.unlink()
    daemon.start()
    async with attached(daemon) as agent:
        assert await agent.tools() == before
        result = await agent.call("lively__echo", text="hi")
        assert kind_of(result) == "unavailable"
        assert "lively" in text_of(result)
        assert "copy.py" in text_of(result), "the reason is the interpreter's own word"
        assert await agent.tools() == before, "its listed tools stay listed (b26)"


# -- what a crash does ------------------------------------------------------------------------------
async def test_a_server_killed_in_the_middle_of_a_call(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("lively", lively(log))
    daemon.server("other", lively(daemon.home.root / "other.log"))
    daemon.start()
    async with attached(daemon) as one, attached(daemon) as two:
        first = await one.begin_call("lively__nap", seconds=60)
        second = await two.begin_call("lively__nap", seconds=60)
        elsewhere = await two.begin_call("other__nap", seconds=3, text="unhurt")
        until(lambda: len(heard(log, name="nap")) == 2)
        pid = daemon.status("lively")["pid"]
        os.kill(pid, signal.SIGKILL)
        for agent, request_id in ((one, first), (two, second)):
            assert kind_of(await agent.answer(request_id)) == "outcome_unknown"
        assert text_of(await one.call("lively__echo", text="again")) == "again"
        assert text_of(await two.answer(elsewhere)) == "unhurt"
    assert len(heard(log, name="nap")) == 2, "never replayed: the tool is not idempotent (D3)"
    assert daemon.status("lively")["pid"] != pid


async def test_replay_always_calls_again(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("lively", lively(log, replay="always"))
    daemon.start()
    async with attached(daemon) as agent:
        request_id = await agent.begin_call("lively__nap", seconds=2, text="in the end")
        until(lambda: heard(log, name="nap"))
        os.kill(daemon.status("lively")["pid"], signal.SIGKILL)
        assert text_of(await agent.answer(request_id)) == "in the end"
    assert len(heard(log, name="nap")) == 2


def test_the_end_of_a_server_is_noticed_without_a_call(daemon: Daemon, log: Path) -> None:
    daemon.server("lively", lively(log, start="eager"))
    daemon.start()
    pid = connected(daemon)["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: daemon.status("lively")["state"] != "connected", within=2)
    assert connected(daemon)["pid"] != pid


async def test_a_server_that_dies_at_every_call_is_crashed_in_the_end(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.server("lively", lively(log))
    daemon.start()
    async with attached(daemon) as agent:
        assert kind_of(await agent.call("lively__bye")) == "outcome_unknown"
        status = daemon.status("lively")
        assert status["state"] in ("restarting", "connecting", "connected")
        assert "3" in status["error"], "the exit code is the reason"


# -- limits -----------------------------------------------------------------------------------------
async def test_the_timeout_of_a_policy_ends_a_call(daemon: Daemon, log: Path, real_clock: None) -> None:
    policy = {"risk": "low", "approval": "never", "timeout": "1s"}
    daemon.server("lively", lively(log, default_policy=policy))
    daemon.start()
    async with attached(daemon) as agent:
        await agent.tools()
        started = time.monotonic()
        assert kind_of(await agent.call("lively__nap", seconds=30)) == "timed_out"
        assert 0.9 < time.monotonic() - started < 5
        until(lambda: heard(log, "cancelled"))
        # Its own progress starts the limit anew, also where the agent asked for none (D9).
        assert text_of(await agent.call("lively__work", seconds=3, text="worked")) == "worked"


async def test_a_server_that_never_answers_is_settled(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("mute", {"command": "sleep", "args": ["600"], "connect_timeout": "1s"})
    daemon.server("lively", lively(log))
    daemon.start()
    async with attached(daemon) as agent:
        assert "lively__echo" in await agent.tools()
        status = until(lambda: status if (status := daemon.status("mute"))["state"] == "failed" else {})
    assert status["reason"] == "not_responding"
    tested = daemon.ask("servers.test", server="mute")
    assert tested["ok"] is False
    assert tested["status"]["reason"] == "not_responding"


# -- the operator -----------------------------------------------------------------------------------
async def test_disable_reaches_attached_agents(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("lively", lively(log))
    daemon.start()
    async with attached(daemon) as agent:
        assert "lively__echo" in await agent.tools()
        running = await agent.begin_call("lively__nap", seconds=60)
        until(lambda: heard(log, name="nap"))
        daemon.ask("servers.disable", server="lively")
        assert kind_of(await agent.answer(running)) in VERDICTS, "cancelled and told (c08)"
        await agent.wait_for(lambda: agent.noticed("notifications/tools/list_changed"))
        assert await agent.tools() == []
        until(lambda: heard(log, "eof"))
        assert daemon.status("lively")["state"] == "disabled"
        daemon.end()
        daemon.start()
        assert daemon.status("lively")["state"] == "disabled", "kept in state.db"
    async with attached(daemon) as agent:
        assert await agent.tools() == []
        daemon.ask("servers.enable", server="lively")
        assert text_of(await agent.call("lively__echo", text="back")) == "back"


def test_events_begin_with_a_snapshot(daemon: Daemon, log: Path) -> None:
    daemon.server("lively", lively(log))
    daemon.start()
    with Control(daemon.sockets / "control.sock") as control:
        begun = control.ask("events.subscribe", topics=["status"])
        assert [server["name"] for server in begun["snapshot"]["servers"]] == ["lively"]
        daemon.ask("servers.reconnect", server="lively")
        seen, last = [], begun["seq"]
        while "connected" not in seen:
            event = control.read()["params"]
            assert event["topic"] == "status"
            assert event["seq"] > last
            last = event["seq"]
            seen.append(daemon.status("lively")["state"])
    assert daemon.ask("servers.logs", server="lively")["lines"] == []


def test_every_method_is_described_and_marked(daemon: Daemon) -> None:
    daemon.start()
    methods = {method["name"]: method for method in daemon.ask("daemon.describe")["methods"]}
    assert {method["access"] for method in methods.values()} <= {"read", "narrow", "widen"}
    expected = {
        *("hello", "daemon.status", "daemon.describe", "daemon.reload", "daemon.stop", "events.subscribe"),
        *(f"tools.{verb}" for verb in ("list", "describe", "call")),
        *(
            f"servers.{verb}"
            for verb in ("list", "get", "add", "remove", "enable", "disable", "reconnect", "test", "logs")
        ),
    }
    assert expected <= set(methods)
    with pytest.raises(Refused) as refused:
        daemon.ask("no.such.method")
    assert refused.value.kind == "unknown_method"
    with pytest.raises(Refused) as refused:
        daemon.ask("servers.get", server="nobody")
    assert refused.value.kind == "no_such_server"
