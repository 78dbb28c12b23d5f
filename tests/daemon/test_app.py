"""`mcpd run` as its starters see it: a terminal, systemd, mcpctl. What agents see of it: tests/e2e."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Home

LIMIT = 20.0


class Runner:
    """Starts daemons for one home. The guard keeps no descriptor of ours: every pipe ends with its daemon."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.control = home.runtime / "mcpd" / "control.sock"
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *options: str, **more: Any) -> subprocess.Popen[str]:
        environ = {"PATH": os.environ["PATH"], **self.home.environ, **more.pop("env", {})}
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "mcpd", "run", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            env=environ,
            cwd="/",
            **more,
        )
        self.started.append(process)
        return process

    def serving(self, *options: str, **more: Any) -> subprocess.Popen[str]:
        """A daemon that has said that it serves."""
        process = self.start(*options, **more)
        read_until(process, " serves ")
        return process

    def ask(self, method: str) -> Any:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(LIMIT)
            sock.connect(str(self.control))
            sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"%s","params":{}}\n' % method.encode())
            with sock.makefile() as lines:
                return json.loads(lines.readline())

    def close(self) -> None:
        for process in self.started:
            process.terminate()
            process.communicate(timeout=LIMIT)


@pytest.fixture
def runner(home: Home) -> Iterator[Runner]:
    runner = Runner(home)
    yield runner
    runner.close()


def read_until(process: subprocess.Popen[str], what: str) -> str:
    """The first line with `what` in it."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if what in line:
            return line
    raise AssertionError(f"{what!r} was not said: {''.join(seen)}")


@pytest.mark.parametrize(
    ("arguments", "code", "stdout", "stderr"),
    [
        (["--version"], 0, "mcpd 0.1.0\n", ""),
        (["--help"], 0, "usage: mcpd run", ""),
        ([], 2, "", "usage: mcpd run"),
        (["run", "--fast"], 2, "", "usage: mcpd run"),
    ],
)
def test_usage(arguments: list[str], code: int, stdout: str, stderr: str) -> None:
    done = subprocess.run([sys.executable, "-I", "-m", "mcpd", *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stdout[: len(stdout)], done.stderr[: len(stderr)]) == (code, stdout, stderr)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_in_good_order(runner: Runner, signum: int) -> None:
    process = runner.serving()
    assert runner.ask("daemon.status")["result"]["pid"] == process.pid
    process.send_signal(signum)
    output, _ = process.communicate(timeout=LIMIT)
    assert (process.returncode, "mcpd has stopped" in output) == (0, True)
    assert not runner.control.exists()
    assert (runner.control.parent / "agents" / "default").is_dir()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_start_without_a_traceback(runner: Runner, signum: int) -> None:
    state = runner.home.state / "mcpd" / "state.db"
    runner.serving().terminate()
    runner.started.pop().communicate(timeout=LIMIT)
    with contextlib.closing(sqlite3.connect(state, isolation_level=None)) as other:
        other.execute("begin exclusive")  # the start waits for it, 2 s at most
        process = runner.start()
        lock = runner.control.with_name("lock")
        end = time.monotonic() + LIMIT
        while lock.read_text() != f"{process.pid}\n":
            assert time.monotonic() < end
        process.send_signal(signum)
        output, _ = process.communicate(timeout=LIMIT)
    assert (process.returncode, output) == (-signum, "")


def test_mcpctl_stop_is_answered(runner: Runner) -> None:
    process = runner.serving()
    assert runner.ask("daemon.stop") == {"jsonrpc": "2.0", "id": 1, "result": {}}
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0


def test_hangup_reads_the_files_again_and_accepts_nothing(runner: Runner) -> None:
    """Whoever has sent the signal, it may have been an agent (n06)."""
    process = runner.serving(start_new_session=True)  # as under a service manager
    agents = runner.home.config / "mcpd" / "agents.d"
    agents.mkdir(parents=True)
    (agents / "coder.toml").write_text("schema = 1\n")
    process.send_signal(signal.SIGHUP)
    read_until(process, "mcpctl reload")
    assert runner.ask("daemon.status")["result"]["agents"] == ["default"]
    (agents.parent / "config.toml").write_text("[[[")
    process.send_signal(signal.SIGHUP)
    read_until(process, "nothing is applied")


#: Becomes what a terminal window starts: the leader of a session whose terminal is the one in argv[1].
IN_TERMINAL = """
import os, sys
os.close(os.open(os.ttyname(int(sys.argv[1])), os.O_RDWR))  # the first one that a leader opens is its own
os.execv(sys.executable, [sys.executable, "-I", "-m", "mcpd", "run"])
"""


def test_a_closed_terminal_accepts_nothing_that_is_held(runner: Runner) -> None:
    """Hazard: the hangup of the window in which `mcpd run` stands is SIGHUP as well (a03)."""
    agents = runner.home.config / "mcpd" / "agents.d"
    agents.mkdir(parents=True)
    window, terminal = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", IN_TERMINAL, str(terminal)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": os.environ["PATH"], **runner.home.environ},
        pass_fds=[terminal],
        start_new_session=True,
    )
    runner.started.append(process)
    os.close(terminal)
    read_until(process, " serves ")
    (agents / "coder.toml").write_text("schema = 1\n")
    os.close(window)
    read_until(process, "SIGHUP")
    assert runner.ask("daemon.status")["result"]["agents"] == ["default"]


def test_a_broken_configuration_is_shown_and_does_not_stop_the_start(runner: Runner) -> None:
    (runner.home.config / "mcpd").mkdir()
    (runner.home.config / "mcpd" / "config.toml").write_text("[[[")
    runner.serving()
    [problem] = runner.ask("daemon.status")["result"]["problems"]
    assert problem["file"] == str(runner.home.config / "mcpd" / "config.toml")


def test_a_servers_folder_of_the_users_own_is_watched_from_the_start(runner: Runner) -> None:
    config = runner.home.config / "mcpd"
    (config / "elsewhere").mkdir(parents=True)
    (config / "config.toml").write_text("servers_dir = 'elsewhere'\n")
    file = config / "elsewhere" / "tiny.toml"
    file.write_text("command = 'x'\n")
    runner.serving()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(LIMIT)
        sock.connect(str(runner.control))
        sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["status"]}}\n')
        with sock.makefile() as lines:
            [server] = json.loads(lines.readline())["result"]["snapshot"]["servers"]
            assert server["status"]["state"] == "idle"
            file.write_text("command = 'x'\nenabled = false\n")
            event = json.loads(lines.readline())["params"]
            assert event["data"]["status"]["state"] == "disabled"


def test_the_second_says_who_the_first_is(runner: Runner) -> None:
    first = runner.serving()
    second = runner.start()
    output, _ = second.communicate(timeout=LIMIT)
    assert second.returncode == 1
    assert f"mcpd already runs here, process {first.pid} holds" in output
    on_demand = runner.start("--on-demand")
    on_demand.communicate(timeout=LIMIT)
    assert on_demand.returncode == 0
    assert runner.ask("daemon.status")["result"]["pid"] == first.pid


@pytest.mark.parametrize("options", [(), ("--on-demand",)])
def test_two_daemons_never_share_a_state_folder(runner: Runner, options: tuple[str, ...]) -> None:
    first = runner.serving()
    second = runner.start(*options, env={"MCPD_RUNTIME_DIR": str(runner.home.root / "r")})
    output, _ = second.communicate(timeout=LIMIT)
    assert second.returncode == 1
    assert f"process {first.pid}, already uses the folder" in output
    assert f'listens on "{runner.control}"' in output
    assert not (runner.home.root / "r" / "control.sock").exists()


def test_a_file_in_the_way_is_refused_and_stays(runner: Runner) -> None:
    runner.control.parent.mkdir(mode=0o700)
    runner.control.write_text("precious")
    process = runner.start()
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert output.startswith(f'mcpd: cannot listen on "{runner.control}": a regular file is in the way')
    assert "Traceback" not in output
    assert runner.control.read_text() == "precious"


def test_a_runtime_folder_open_to_others_is_refused(runner: Runner) -> None:
    runner.control.parent.mkdir()
    runner.control.parent.chmod(0o755)
    process = runner.start()
    output, _ = process.communicate(timeout=LIMIT)
    assert (process.returncode, "open to others (mode 0755)" in output) == (1, True)


def test_a_database_of_a_newer_version_is_refused_in_a_sentence(runner: Runner) -> None:
    folder = runner.home.state / "mcpd"
    folder.mkdir()
    for name in ("state.db", "journal.db"):
        runner.serving().terminate()
        runner.started.pop().communicate(timeout=LIMIT)
        before = (folder / name).read_bytes()
        with contextlib.closing(sqlite3.connect(folder / name)) as database:
            database.execute("update meta set version = 999")
            database.commit()
        process = runner.start()
        output, _ = process.communicate(timeout=LIMIT)
        assert (process.returncode, "Traceback" in output) == (1, False), output
        assert name in output
        (folder / name).write_bytes(before)


def test_on_demand_it_logs_to_a_file_and_lets_go_of_its_caller(runner: Runner) -> None:
    """Hazard: a test driver waits for ever on a daemon that inherited its stdout."""
    process = runner.start("--on-demand")
    assert process.stdout is not None
    assert process.stdout.read() == ""
    assert process.poll() is None
    assert runner.ask("daemon.status")["result"]["pid"] == process.pid
    log = runner.home.state / "mcpd" / "mcpd.log"
    assert " serves " in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


class Manager:
    """What systemd does for a unit of Type=notify with sockets, as far as mcpd uses it."""

    def __init__(self, home: Home) -> None:
        self.address = str(home.root / "notify")
        self.notices = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notices.settimeout(LIMIT)
        self.notices.bind(self.address)
        self.listeners = []
        for path in (
            home.runtime / "mcpd" / "control.sock",
            home.runtime / "mcpd" / "agents" / "default" / "mcp.sock",
        ):
            for folder in (path.parent.parent, path.parent):
                folder.mkdir(mode=0o700, exist_ok=True, parents=True)
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            listener.listen()
            self.listeners.append(listener)

    def notice(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.notices.recv(4096).decode().splitlines())

    def wait_for(self, name: str) -> dict[str, str]:
        while name not in (notice := self.notice()):
            pass
        return notice

    def close(self) -> None:
        for sock in (self.notices, *self.listeners):
            sock.close()


#: Takes the place of systemd between fork and exec: the sockets become 3 and 4, LISTEN_PID is known.
EXEC = """
import os, sys
for fd, source in enumerate(map(int, sys.argv[1:3]), 3):
    os.dup2(source, fd + 100)
for fd in (3, 4):
    os.dup2(fd + 100, fd)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.executable, [sys.executable, "-I", "-m", "mcpd", "run"])
"""


@pytest.fixture
def manager(home: Home) -> Iterator[Manager]:
    manager = Manager(home)
    yield manager
    manager.close()


def test_a_guard_that_was_killed_is_replaced_and_the_status_says_so(runner: Runner) -> None:
    process = runner.serving()
    [guard] = children(process.pid)
    os.kill(guard, signal.SIGKILL)
    read_until(process, "has taken its place")
    [successor] = children(process.pid)
    [problem] = runner.ask("daemon.status")["result"]["problems"]
    assert problem["message"] == (
        f"the guard, process {guard}, was ended from outside; process {successor} has taken its place"
    )
    process.terminate()
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert not Path(f"/proc/{successor}").exists()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_under_systemd(home: Home, manager: Manager) -> None:
    fds = [listener.fileno() for listener in manager.listeners]
    early = socket.socket(socket.AF_UNIX)
    early.settimeout(LIMIT)
    early.connect(str(home.runtime / "mcpd" / "control.sock"))  # waits in the queue until somebody serves it
    early.sendall(b'{"jsonrpc":"2.0","id":1,"method":"daemon.status"}\n')
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", EXEC, *map(str, fds)],
        pass_fds=fds,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={
            "PATH": os.environ["PATH"],
            **home.environ,
            "NOTIFY_SOCKET": manager.address,
            "LISTEN_FDS": "2",
            "LISTEN_FDNAMES": "control:agent-default",
            "WATCHDOG_USEC": "300000",
        },
    )
    try:
        ready = manager.wait_for("READY")
        assert (ready["READY"], ready["STATUS"]) == ("1", "0 servers")
        assert json.loads(early.recv(65536))["result"]["pid"] == process.pid
        assert [manager.wait_for("WATCHDOG")["WATCHDOG"] for _ in range(3)] == ["1"] * 3
        process.terminate()
        stopping = manager.wait_for("STOPPING")
        assert stopping["STOPPING"] == "1"
        assert int(stopping["EXTEND_TIMEOUT_USEC"]) < 20_000_000  # TimeoutStopSec of the unit
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=LIMIT)
        early.close()
    assert process.returncode == 0, errors
    assert (home.runtime / "mcpd" / "control.sock").is_socket(), "that one is systemd's"


def test_nobody_but_the_daemon_holds_what_it_was_handed(runner: Runner) -> None:
    """Neither guard nor servers may keep a caller's pipe open: it ends with the daemon, also by SIGKILL."""
    reader, writer = os.pipe()
    process = runner.serving(pass_fds=[writer])
    os.close(writer)
    process.kill()
    assert select.select([reader], [], [], LIMIT)[0]
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_what_is_used_seldom_is_not_loaded_at_the_start() -> None:
    seldom = {"httpx", "keyring", "argparse", "asyncio", "systemd"}
    code = f"import sys, mcpd.__main__, mcpd.daemon.app; print({seldom} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_the_folders_of_the_daemon_are_where_the_environment_says(runner: Runner, tmp_path: Path) -> None:
    runner.serving(env={"MCPD_RUNTIME_DIR": str(runner.home.root / "r")})
    assert (runner.home.root / "r" / "control.sock").is_socket()
    assert not runner.control.exists()
