"""Who shares a server's process, by a real daemon: pids, ends, and what the operator sees (n04, n15, b01)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from mcpd.processes import MARKER
from tests.e2e.harness import Agent, Daemon, attached, is_alive, lively, text_of, until

HERE = os.getcwd()
SERVERS = Path(__file__).parents[1] / "servers" / "node_modules"
THINKING = SERVERS / "@modelcontextprotocol" / "server-sequential-thinking" / "dist" / "index.js"


@pytest.fixture
def log(daemon: Daemon) -> Path:
    for name in ("a", "b"):
        daemon.write(f"agents.d/{name}.toml", {"schema": 1})
    return daemon.home.root / "lively.log"


async def process(agent: Agent, server: str = "lively") -> str:
    """What tells the process that serves an agent from every other."""
    environ: dict[str, str] = json.loads(text_of(await agent.call(f"{server}__env")))
    return environ[MARKER]


def instances(daemon: Daemon, server: str = "lively") -> dict[str, dict[str, Any]]:
    """Status by whose instance it is."""
    found = daemon.ask("servers.get", server=server)["instances"]
    return {each["of"] or each["kind"]: each["status"] for each in found}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_agents_do_not_share_what_is_per_agent(
    daemon: Daemon, log: Path, real_clock: None, revision: str
) -> None:
    daemon.server("lively", lively(log, instance="agent", idle_timeout="300ms"))
    daemon.start()
    async with (
        attached(daemon, "a", revision) as a,
        attached(daemon, "a", revision) as again,
        attached(daemon, "b", revision) as b,
    ):
        assert "lively__echo" in await a.tools()
        assert await process(a) == await process(again) != await process(b)
        found = instances(daemon)
        assert {of: status["state"] for of, status in found.items() if of != "operator"} == {
            "a": "connected",
            "b": "connected",
        }
        before, other = found["a"]["pid"], found["b"]["pid"]
        os.kill(before, signal.SIGKILL)
        await trio.to_thread.run_sync(until, lambda: instances(daemon)["a"]["pid"] not in (0, before))
        assert instances(daemon)["b"]["pid"] == other
        await process(a)
    until(lambda: not instances(daemon))
    until(lambda: daemon.status("lively")["state"] == "idle")
    async with attached(daemon, "b", revision) as b:
        assert "lively__echo" in await b.tools(), "from the cache"
        assert {status["pid"] for status in instances(daemon).values()} == {0}
        await process(b)
        assert instances(daemon)["b"]["state"] == "connected"


async def test_roots_do_not_share_what_is_per_project(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("lively", lively(log, instance="project"))
    daemon.start()
    above = str(Path(HERE).parent)
    async with (
        attached(daemon, "a", attach={"root": HERE}) as here,
        attached(daemon, "b", attach={"root": HERE}) as beside,
        attached(daemon, "a", attach={"root": above}) as other,
        attached(daemon, "a") as nowhere,
    ):
        assert await process(here) == await process(beside)
        assert len({await process(each) for each in (here, other, nowhere)}) == 3
        assert instances(daemon).keys() - {"operator"} == {HERE, above, "project"}


async def test_what_the_operator_does_with_them(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("lively", lively(log, instance="agent"))
    daemon.start()

    def ctl(*args: str) -> str:
        return daemon.ctl(*args).stdout

    async with attached(daemon, "a") as a, attached(daemon, "b") as b:
        mine, theirs = await process(a), await process(b)
        line = await trio.to_thread.run_sync(ctl, "list")
        assert "one per agent: " in line
        shown = await trio.to_thread.run_sync(ctl, "list", "lively")
        pid = instances(daemon)["a"]["pid"]
        assert f"agent a: connected, pid {pid}" in shown
        said = await trio.to_thread.run_sync(ctl, "call", "lively__env")
        assert mine not in said
        assert theirs not in said
        await trio.to_thread.run_sync(ctl, "test", "lively")
        await trio.to_thread.run_sync(ctl, "reconnect", "lively")
        assert await process(a) != mine
        assert await process(b) != theirs
        running = [status["pid"] for status in instances(daemon).values()]
        assert all(running)
        await trio.to_thread.run_sync(ctl, "disable", "lively")
        await trio.to_thread.run_sync(until, lambda: not any(map(is_alive, running)))
        assert "lively__echo" not in await a.tools()
        await trio.to_thread.run_sync(ctl, "enable", "lively")
        assert (await process(a)) != (await process(b))
        # Another way of sharing is a change that waits for the operator.
        daemon.server("lively", lively(log))
        await trio.to_thread.run_sync(until, lambda: daemon.ask("servers.get", server="lively")["held"])
        assert (await process(a)) != (await process(b))
        await trio.to_thread.run_sync(ctl, "reload")
        assert (await process(a)) == (await process(b))
        assert instances(daemon) == {}


@pytest.mark.npm
async def test_trains_of_thought_do_not_cross(daemon: Daemon, log: Path, real_clock: None) -> None:
    """A real server that keeps a state of its caller's is per agent without a word of the user's (n04)."""
    assert THINKING.exists(), "packaging/test.sh installs the servers"
    policy = {"approval": "never"}
    daemon.server("mind", {"command": "node", "args": [str(THINKING)], "default_policy": policy})
    daemon.server(
        "one", {"command": "node", "args": [str(THINKING)], "default_policy": policy, "instance": "shared"}
    )
    daemon.start()

    async def think(agent: Agent, server: str) -> int:
        """How many thoughts the server has heard then."""
        thought = {"thought": "x", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 9}
        result = await agent.call(f"{server}__sequentialthinking", **thought)
        length: int = json.loads(text_of(result))["thoughtHistoryLength"]
        return length

    async with attached(daemon, "a") as a, attached(daemon, "a") as again, attached(daemon, "b") as b:
        assert [await think(each, "mind") for each in (a, b, again, b)] == [1, 1, 2, 2]
        assert [await think(each, "one") for each in (a, b, again, b)] == [1, 2, 3, 4]
    shown = daemon.ask("servers.get", server="mind")
    assert (shown["instance"], shown["keeps"]) == ("agent", "thinking")
