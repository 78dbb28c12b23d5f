"""sd_notify(3), sd_listen_fds(3) and systemd.exec(5), spoken without systemd."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mcpd.daemon import systemd


@pytest.mark.parametrize("abstract", [False, True])
def test_notify_sends_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool) -> None:
    address = f"@mcpd-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + address[1:] if abstract else address)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        assert systemd.notify("READY=1", "STATUS=2 servers: 1 ready")
        assert manager.recv(4096) == b"READY=1\nSTATUS=2 servers: 1 ready"


def test_without_a_manager_notify_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not systemd.notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    assert not systemd.notify("READY=1")


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, {}),
        ({"LISTEN_FDS": "1"}, {}),
        ({"LISTEN_FDS": "1", "LISTEN_PID": "8"}, {}),
        ({"LISTEN_FDS": "x", "LISTEN_PID": "7"}, {}),
        ({"LISTEN_FDS": "2", "LISTEN_PID": "7"}, {3: "unknown", 4: "unknown"}),
        (
            {"LISTEN_FDS": "3", "LISTEN_PID": "7", "LISTEN_FDNAMES": "control:agent-default"},
            {3: "control", 4: "agent-default", 5: "unknown"},
        ),
    ],
)
def test_passed_names(environ: dict[str, str], names: dict[int, str]) -> None:
    assert systemd.passed_names(environ, 7) == names


TAKER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"] = str(os.getpid())
from mcpd.daemon import systemd
for name, socks in systemd.take_sockets().items():
    for sock in socks:
        print(name, sock.getsockname(), sock.fileno(), os.get_inheritable(sock.fileno()), sock.getblocking())
print(sorted(name for name in os.environ if name.startswith("LISTEN_")))
"""


def test_passed_sockets_are_taken_over_once(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        run = subprocess.run(
            [sys.executable, "-c", TAKER, str(listener.fileno())],
            pass_fds=[listener.fileno()],
            env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "control", "PYTHONPATH": os.getcwd()},
            capture_output=True,
            text=True,
            check=True,
        )
    assert run.stdout.splitlines() == [f"control {tmp_path / 's'} 3 False False", "[]"]


def test_what_is_no_socket_is_closed_and_the_rest_is_taken() -> None:
    reader, writer = os.pipe()
    run = subprocess.run(
        [sys.executable, "-c", TAKER, str(reader)],
        pass_fds=[reader],
        env={**os.environ, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "control:gone", "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=True,
    )
    os.close(reader)
    os.close(writer)
    assert run.stdout.splitlines() == ["[]"]
    assert 'closing descriptor 3 passed as "control": it is no socket' in run.stderr


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 10.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_interval(environ: dict[str, str], interval: float | None) -> None:
    assert systemd.watchdog_interval(environ, 7) == interval


def test_standard_error_is_the_journal_only_if_it_is_that_very_stream(tmp_path: Path) -> None:
    with open(tmp_path / "log", "wb") as file:
        found = os.fstat(file.fileno())
        right = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert systemd.stderr_is_journal(right, file.fileno())
        assert not systemd.stderr_is_journal({"JOURNAL_STREAM": f"{found.st_dev}:1"}, file.fileno())
        assert not systemd.stderr_is_journal({"JOURNAL_STREAM": "no"}, file.fileno())
        assert not systemd.stderr_is_journal({}, file.fileno())
    assert not systemd.stderr_is_journal(right, 10**6)
