"""How a daemon begins and ends: one owner, and no process of a server outlives it (c04, n21)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.harness import Control, Daemon, attached, heard, is_alive, lively, text_of, until

HOW = {
    "mcpctl stop": lambda daemon: daemon.ctl("stop"),
    "SIGTERM": lambda daemon: daemon.proc.terminate(),
    "SIGINT": lambda daemon: daemon.proc.send_signal(signal.SIGINT),
    "SIGKILL": lambda daemon: daemon.proc.kill(),
}


@pytest.mark.parametrize("how", list(HOW))
async def test_no_server_outlives_the_daemon(daemon: Daemon, real_clock: None, how: str) -> None:
    logs = {name: daemon.home.root / f"{name}.log" for name in ("plain", "stubborn", "detach")}
    for name, log in logs.items():
        daemon.server(name, lively(log, f"--{name}"))
    daemon.start()
    async with attached(daemon) as agent:
        for name in logs:
            assert text_of(await agent.call(f"{name}__echo", text=name)) == name
        await agent.begin_call("stubborn__nap", seconds=60)
        until(lambda: heard(logs["stubborn"], name="nap"))
        pids = [row["pid"] for log in logs.values() for row in heard(log)]
        assert len(set(pids)) == 4, "three servers, and what one of them detached"
        HOW[how](daemon)
        end = time.monotonic() + 10
        code = daemon.wait()
        until(lambda: not [pid for pid in pids if is_alive(pid)], within=end - time.monotonic())
    assert code == (-signal.SIGKILL if how == "SIGKILL" else 0)


async def test_a_removed_server_is_gone_with_all_it_started(daemon: Daemon, real_clock: None) -> None:
    log = daemon.home.root / "detach.log"
    daemon.server("detach", lively(log, "--detach"))
    daemon.start()
    daemon.ask("servers.test", server="detach")
    pids = {row["pid"] for row in heard(log)}
    daemon.ctl("remove", "detach")
    until(lambda: not [pid for pid in pids if is_alive(pid)], within=10)
    assert not (daemon.folder / "servers.d" / "detach.toml").exists()
    assert daemon.ask("servers.list")["servers"] == []


async def test_the_next_start_sweeps_what_a_killed_daemon_and_guard_left(
    daemon: Daemon, real_clock: None
) -> None:
    log = daemon.home.root / "stubborn.log"
    daemon.server("stubborn", lively(log, "--stubborn", "--detach"))
    daemon.start()
    daemon.ask("servers.test", server="stubborn")
    pids = {row["pid"] for row in heard(log)}
    for pid in daemon.relatives():
        if pid not in pids:
            os.kill(pid, signal.SIGKILL)
    daemon.wait()
    assert all(is_alive(pid) for pid in pids)
    daemon.start()
    until(lambda: not [pid for pid in pids if is_alive(pid)], within=10)
    assert daemon.ask("servers.test", server="stubborn")["ok"]


def test_a_second_daemon_is_refused(daemon: Daemon) -> None:
    log = daemon.home.root / "lively.log"
    daemon.server("lively", lively(log, start="eager"))
    daemon.start()
    until(lambda: daemon.status("lively")["state"] == "connected")
    before = daemon.log.read_text()
    second = daemon.spawn()
    assert second.wait(10) not in (0, None)
    words = daemon.log.read_text()[len(before) :]
    assert "already" in words, words
    assert "Traceback" not in words
    assert daemon.ask("daemon.status")["pid"] == daemon.proc.pid  # type: ignore[union-attr]
    assert len(heard(log, "start")) == 1


async def test_a_vanished_socket_is_bound_again(daemon: Daemon, real_clock: None) -> None:
    daemon.start()
    control = daemon.sockets / "control.sock"
    agent_socket = daemon.sockets / "agents" / "default" / "mcp.sock"
    async with attached(daemon) as early:
        with Control(control) as kept:
            control.unlink()
            agent_socket.unlink()
            until(lambda: control.exists() and agent_socket.exists(), within=5)
            assert kept.ask("daemon.status")["pid"] == daemon.ask("daemon.status")["pid"]
        async with attached(daemon) as late:
            await late.request("ping")
            await early.request("ping")


def test_only_its_own_socket_is_removed(daemon: Daemon) -> None:
    daemon.start()
    control = daemon.sockets / "control.sock"
    daemon.end()
    assert not control.exists()
    daemon.sockets.mkdir(mode=0o700, exist_ok=True)
    control.write_text("mine")
    refused = daemon.spawn()
    assert refused.wait(10) not in (0, None)
    assert control.read_text() == "mine"


def test_modes_do_not_depend_on_the_umask(daemon: Daemon) -> None:
    old = os.umask(0)
    try:
        daemon.start()
    finally:
        os.umask(old)
    sockets = list(daemon.sockets.rglob("*.sock"))
    assert len(sockets) == 2
    assert {path.stat().st_mode & 0o777 for path in sockets} == {0o600}
    folders = {path.parent for path in sockets} | {daemon.sockets}
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_ten_callers_at_once_start_one_daemon(daemon: Daemon) -> None:
    command = [sys.executable, "-I", "-m", "mcpctl", "rpc", "daemon.status"]
    callers = [
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=daemon.environ,
            cwd=daemon.home.root,
        )
        for _ in range(10)
    ]
    # A daemon that inherited the pipes would keep `communicate` waiting for ever.
    answers = [caller.communicate(timeout=60) for caller in callers]
    assert [caller.returncode for caller in callers] == [0] * 10, answers
    pids = {json.loads(out)["pid"] for out, _ in answers}
    assert len(pids) == 1
    [pid] = pids
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    daemon.ctl("stop")
    until(lambda: not is_alive(pid))
    assert daemon.ctl("status", "--no-spawn", check=False).returncode == 3


def test_stop_is_not_held_up_by_an_idle_connection(daemon: Daemon) -> None:
    daemon.start()
    paths = [daemon.sockets / "control.sock", daemon.sockets / "agents" / "default" / "mcp.sock"]
    lines = [socket.socket(socket.AF_UNIX) for _ in paths]
    for line, path in zip(lines, paths, strict=True):
        line.connect(str(path))
        line.sendall(b'{"jsonrpc":"2.0","id":1,"meth')
    started = time.monotonic()
    assert daemon.end() == 0
    assert time.monotonic() - started < 5
    for line in lines:
        line.settimeout(5)
        while line.recv(65536):
            pass
        line.close()


def test_a_hostile_working_folder_is_never_imported(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported from the working folder')\n")
    daemon.start()
    assert json.loads(daemon.ctl("status", "--json", cwd=tmp_path).stdout)["pid"] == daemon.proc.pid  # type: ignore[union-attr]
