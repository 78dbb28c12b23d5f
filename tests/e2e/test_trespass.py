"""A server's own tree opens neither socket (n06), whatever it does to parents, session and environment."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from mcpd.processes import Stat
from tests.e2e.harness import OPEN, Daemon, attached, until

INTRUDER = str(Path(__file__).parents[1] / "servers" / "intruder.py")
WAYS = ("directly", "setsid", "twice", "setsid twice", "clean", "setsid twice clean")


@pytest.fixture
def intruded(daemon: Daemon) -> Daemon:
    daemon.server("intruder", {"command": sys.executable, "args": ["-I", INTRUDER], "default_policy": OPEN})
    daemon.start()
    return daemon


async def test_a_servers_own_tool_opens_neither_socket(intruded: Daemon, real_clock: None) -> None:
    daemon = intruded
    sockets = {
        "daemon.status": daemon.sockets / "control.sock",
        "ping": daemon.sockets / "agents" / "default" / "mcp.sock",
    }
    async with attached(daemon) as agent:
        for way in WAYS:
            for method, path in sockets.items():
                out = daemon.home.root / f"{way} {method}"
                await agent.call("intruder__open", path=str(path), method=method, way=way, out=str(out))
                until(out.exists)
                answer = json.loads(out.read_bytes())
                assert answer["error"]["data"]["kind"] == "refused", (way, method)
                assert answer["error"]["message"] == "cannot serve what a server of mcpd's has started"
        # Everybody else is served as before, the server's own requests included.
        assert daemon.ask("daemon.status")["sessions"] == 1


async def test_what_a_server_leaves_behind_is_no_zombie(intruded: Daemon, real_clock: None) -> None:
    daemon = intruded
    out = daemon.home.root / "out"
    path = str(daemon.sockets / "control.sock")
    async with attached(daemon) as agent:
        await agent.call("intruder__open", path=path, method="daemon.status", way="twice", out=str(out))
    until(out.exists)
    assert daemon.proc is not None

    def zombies() -> list[int]:
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                stat = Stat(Path("/proc", entry, "stat").read_bytes())
            except OSError:
                continue
            if daemon.proc is not None and stat.parent == daemon.proc.pid and stat.state == b"Z":
                found.append(int(entry))
        return found

    until(lambda: not zombies())
