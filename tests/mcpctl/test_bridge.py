"""The byte pump between a host and an agent socket (n01), as a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from mcpctl import bridge
from mcpctl.errors import CallError
from tests.mcpctl.harness import LIMIT, Control, Hang, Hangup, Refusal, command, environment, run, server

BIG = 24 * 1024 * 1024
"""Bytes: far more than all pipes and sockets on the way can hold."""


class Listener:
    """An agent's socket with one connection."""

    def __init__(self, folder: Path, agent: str = "default") -> None:
        place = folder / "agents" / agent
        place.mkdir(parents=True)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT)
        self.socket.bind(str(place / "mcp.sock"))
        self.socket.listen()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def accept(self) -> socket.socket:
        connection = self.socket.accept()[0]
        connection.settimeout(LIMIT)
        return connection


def start(folder: Path, *words: str, **more: Any) -> subprocess.Popen[bytes]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    process: subprocess.Popen[bytes] = subprocess.Popen(
        command("bridge", *words), env=environment(folder), cwd=folder, **pipes
    )
    return process


def read_all(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as file:
        return file.read()


@pytest.mark.parametrize(
    ("words", "attached"),
    [
        ([], None),
        (["--server", "fs"], {"server": "fs"}),
        (['--server=f\n"ü'], {"server": 'f\n"ü'}),
        (["--root", "."], {"root": "{folder}"}),
        (["--agent", "coder", "--server", "fs"], {"agent": "coder", "server": "fs"}),
        (["--agent", "default"], None),
        (["--without", "fs"], {"without": ["fs"]}),
        (["--without", "fs", "--root=.", "--without=web"], {"without": ["fs", "web"], "root": "{folder}"}),
    ],
)
def test_the_first_line(folder: Path, words: list[str], attached: dict[str, Any] | None) -> None:
    with Listener(folder) as listener:
        done = start(folder, *words)
        with listener.accept() as connection:
            out, err = b"", b""
            assert done.stdin is not None
            done.stdin.write(b"hello\n")
            done.stdin.close()
            first, _, rest = read_all(connection).partition(b"\n")
            connection.sendall(b"bye\n")
        with done:
            assert done.stdout is not None
            assert done.stderr is not None
            out, err = done.stdout.read(), done.stderr.read()
    assert (done.returncode, out, err) == (0, b"bye\n", b"")
    if attached is None:
        assert (first, rest) == (b"hello", b"")
    else:
        message = json.loads(first)
        assert message == {
            "jsonrpc": "2.0",
            "method": "notifications/dev.mcpd/attach",
            "params": {
                k: v.format(folder=folder.resolve()) if k == "root" else v for k, v in attached.items()
            },
        }
        assert rest == b"hello\n"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["fs"], ""),
        (["fs", "no\x1bsuch", "web", "web"], 'no server is named "no\\u001bsuch" or "web"'),
        (["no_such_server"], ""),
    ],
)
def test_what_is_left_out_and_is_not_there_is_said(
    daemon: Control, folder: Path, names: list[str], said: str
) -> None:
    def get(params: Any) -> Any:
        name = params["server"]
        return server(name) if name in ("fs", "no_such_server") else Refusal("no_such_server", server=name)

    daemon.answers["servers.get"] = get
    with Listener(folder) as listener:
        process = start(folder, *(f"--without={name}" for name in names), stdin=subprocess.DEVNULL)
        with process, listener.accept() as connection:
            attached = json.loads(read_all(connection))
            connection.close()
            assert process.stderr is not None
            told = process.stderr.read().decode()
            assert process.wait(LIMIT) == 0
    assert attached["params"]["without"] == names, "one may get the name later"
    assert told == (f"mcpctl: bridge: nothing to leave out now: {said}\n" if said else "")


def test_an_agents_socket_that_was_named_is_not_asked(folder: Path) -> None:
    """It would be one more session, which understands nothing of this."""
    with Listener(folder) as listener:
        process = start(
            folder,
            *("--without=fs", "--socket", f"{folder}/agents/default/mcp.sock"),
            stdin=subprocess.DEVNULL,
        )
        with process, listener.accept() as connection:
            assert read_all(connection)
            connection.close()
            assert process.wait(LIMIT) == 0
        listener.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.socket.accept()


@pytest.mark.parametrize("answer", [Hang(), Hangup(), Refusal("stopping")])
def test_a_daemon_that_does_not_say_holds_no_host_up(daemon: Control, folder: Path, answer: Any) -> None:
    daemon.answers["servers.get"] = answer
    with Listener(folder) as listener:
        process = start(folder, *["--without=fs", "--without=web"] * 5, stdin=subprocess.DEVNULL)
        with process, listener.accept() as connection:
            began = time.monotonic()
            assert read_all(connection)
            assert time.monotonic() - began < 4 * bridge.PATIENCE
            connection.close()
            assert process.stderr is not None
            assert (process.stderr.read(), process.wait(LIMIT)) == (b"", 0)


def test_a_slow_daemon_is_not_waited_for_once_for_each_name(daemon: Control, folder: Path) -> None:
    def slow(params: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.8 * bridge.PATIENCE)
        return {}

    daemon.answers["servers.get"] = slow
    with Listener(folder) as listener:
        process = start(folder, *(f"--without=s{number}" for number in range(9)), stdin=subprocess.DEVNULL)
        with process, listener.accept() as connection:
            began = time.monotonic()
            assert read_all(connection)
            assert time.monotonic() - began < 4 * bridge.PATIENCE
            connection.close()
            assert process.wait(LIMIT) == 0


def test_an_agents_own_socket_needs_no_name(folder: Path) -> None:
    with Listener(folder), Listener(folder, "coder") as own:
        process = start(folder, "--agent", "coder", stdin=subprocess.DEVNULL)
        with process, own.accept() as connection:
            assert read_all(connection) == b""
            connection.close()
            assert process.wait(LIMIT) == 0


@pytest.mark.parametrize(
    "sockets", [["--socket", "{folder}/agents/default/mcp.sock"], ["--socket", "{folder}/control.sock"]]
)
def test_a_named_socket(folder: Path, sockets: list[str]) -> None:
    words = [word.format(folder=folder) for word in sockets]
    with Listener(folder) as listener:
        process = start(folder, *words, "--agent", "coder", stdin=subprocess.DEVNULL)
        with process, listener.accept() as connection:
            assert json.loads(read_all(connection))["params"] == {"agent": "coder"}
            connection.close()
            assert process.wait(LIMIT) == 0


def test_much_in_both_directions_at_once(folder: Path) -> None:
    """Neither side reads while it writes more than fits: one direction may not hold up the other."""
    up, down = os.urandom(BIG // 8) * 8, os.urandom(BIG // 8) * 8
    got: dict[str, bytes] = {}
    with Listener(folder) as listener:
        process = start(folder)
        assert process.stdin is not None
        assert process.stdout is not None
        with process, listener.accept() as connection:
            # The daemon's side: write everything first, then read.
            def serve() -> None:
                connection.sendall(down)
                got["up"] = read_all(connection)
                connection.close()

            reader = threading.Thread(target=lambda: got.update(down=process.stdout.read()))  # type: ignore[union-attr]
            server = threading.Thread(target=serve)
            reader.start()
            server.start()
            process.stdin.write(up)
            process.stdin.close()
            server.join(LIMIT)
            reader.join(LIMIT)
            assert process.wait(LIMIT) == 0
    assert [hashlib.sha256(got[name]).digest() for name in ("up", "down")] == [
        hashlib.sha256(data).digest() for data in (up, down)
    ]


def test_a_host_that_does_not_read_holds_up_the_daemon_not_the_memory(folder: Path) -> None:
    with Listener(folder) as listener:
        process = start(folder)
        with process, listener.accept() as connection:
            connection.setblocking(False)
            sent, stuck = 0, False
            while not stuck and sent < BIG:
                try:
                    sent += connection.send(bytes(65536))
                except BlockingIOError:
                    # Full for now: it stays full unless the bridge takes more in.
                    connection.settimeout(0.3)
                    try:
                        sent += connection.send(bytes(65536))
                        connection.setblocking(False)
                    except TimeoutError:
                        stuck = True
            assert stuck
            assert sent < 4 * 1024 * 1024
            process.kill()


def test_the_daemon_ends_first(folder: Path) -> None:
    with Listener(folder) as listener:
        process = start(folder)
        with process:
            listener.accept().close()
            assert process.wait(LIMIT) == 1
            assert process.stderr is not None
            assert process.stderr.read() == b"mcpctl: bridge: mcpd closed the connection\n"


def test_answers_after_the_end_of_input_still_arrive(folder: Path) -> None:
    with Listener(folder) as listener:
        process = start(folder, stdin=subprocess.DEVNULL)
        with process, listener.accept() as connection:
            assert read_all(connection) == b""
            connection.sendall(b"late\n")
            connection.close()
            assert process.stdout is not None
            assert process.stdout.read() == b"late\n"
            assert process.wait(LIMIT) == 0


def test_input_from_a_file(folder: Path) -> None:
    (folder / "input").write_bytes(b"x" * 200_000)
    with Listener(folder) as listener, open(folder / "input", "rb") as file:
        process = start(folder, stdin=file)
        with process, listener.accept() as connection:
            assert len(read_all(connection)) == 200_000
            connection.close()
            assert process.wait(LIMIT) == 0


def test_descriptors_that_the_host_made_non_blocking(folder: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    ours.settimeout(LIMIT)
    with Listener(folder) as listener, ours:
        process = start(folder, stdin=theirs, stdout=theirs)
        theirs.close()
        with process, listener.accept() as connection:
            ours.sendall(b"up\n")
            assert connection.recv(10) == b"up\n"
            sender = threading.Thread(target=connection.sendall, args=(bytes(BIG),))
            sender.start()
            left = BIG
            while left:
                left -= len(ours.recv(65536))
            sender.join(LIMIT)
            ours.shutdown(socket.SHUT_WR)
            assert read_all(connection) == b""
            connection.close()
            assert process.wait(LIMIT) == 0


def test_a_host_that_is_gone(folder: Path) -> None:
    with Listener(folder) as listener:
        process = start(folder)
        assert process.stdout is not None
        with process, listener.accept() as connection:
            process.stdout.close()
            connection.sendall(b"x\n")
            assert process.wait(LIMIT) == 1
            assert process.stderr is not None
            assert process.stderr.read() == b""


@pytest.mark.parametrize("way", ["pipes", "socket", "socket for both"])
def test_a_host_that_dies_while_it_waits_ends_the_bridge(folder: Path, way: str) -> None:
    """Nothing is written any more, so only the descriptors can tell: the daemon must see the end."""
    ours, theirs = socket.socketpair()
    ends: dict[str, Any] = {
        "pipes": {},
        "socket": {"stdout": theirs},
        "socket for both": {"stdin": theirs, "stdout": theirs},
    }[way]
    with Listener(folder) as listener, ours, theirs:
        process = start(folder, **ends)
        theirs.close()
        with process, listener.accept() as connection:
            # The host is killed: the kernel closes all of its descriptors.
            for held in (process.stdin, process.stdout, ours):
                if held is not None:
                    held.close()
            assert process.wait(LIMIT) == 1
            assert read_all(connection) == b""
            with pytest.raises(BrokenPipeError):
                connection.sendall(b"late answer\n")
            assert process.stderr is not None
            assert process.stderr.read() == b""


def test_the_end_of_input_alone_lets_the_answer_come(folder: Path) -> None:
    """Also through one socket for both directions, whose host is done with writing alone."""
    ours, theirs = socket.socketpair()
    with Listener(folder) as listener, ours, theirs:
        process = start(folder, stdin=theirs, stdout=theirs)
        theirs.close()
        ours.settimeout(LIMIT)
        with process, listener.accept() as connection:
            ours.shutdown(socket.SHUT_WR)
            assert read_all(connection) == b""
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)
            connection.sendall(b"late\n")
            connection.close()
            assert read_all(ours) == b"late\n"
            assert process.wait(LIMIT) == 0


def test_without_standard_input(folder: Path) -> None:
    """`mcpctl bridge <&-`: the socket may not take the number of the input, which it would read itself."""
    with Listener(folder) as listener:
        process = subprocess.Popen(
            ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *command("bridge")], env=environment(folder), cwd=folder
        )
        with process, listener.accept() as connection:
            assert read_all(connection) == b""
            connection.close()
            assert process.wait(LIMIT) == 0


def test_nobody_there(folder: Path) -> None:
    done = run(folder, "bridge", "--no-spawn")
    assert (done.returncode, done.stdout) == (3, "")
    assert "mcpd is not running" in done.stderr
    assert str(folder) in done.stderr


def test_a_sandboxed_bridge_starts_no_daemon(folder: Path) -> None:
    (folder / "agents" / "coder").mkdir(parents=True)
    environ = environment(folder)
    del environ["MCPD_NO_SPAWN"]
    for words in (["bridge"], ["bridge", "--agent", "coder"]):
        done = run(folder, *words, environ=environ)
        assert done.returncode == 3
        assert "not running" in done.stderr
    assert not (folder / "start.lock").exists()


def test_a_dead_socket_of_its_own_is_no_reason_to_be_somebody_else(folder: Path) -> None:
    with Listener(folder, "coder"):
        pass
    with Listener(folder):
        assert run(folder, "bridge", "--agent", "coder").returncode == 3


@pytest.mark.parametrize("words", [["--agent"], ["--agent="], ["x"], ["--json"], ["-h"]])
def test_usage(words: list[str]) -> None:
    with pytest.raises(CallError) as caught:
        bridge.parse(words)
    assert caught.value.exit_code == 2


def test_almost_nothing_is_imported(folder: Path) -> None:
    """A bridge starts with every host; reference: performance 5, item 9."""
    script = (
        "import sys, os, _socket, _thread; before = set(sys.modules)\n"
        "from mcpctl.__main__ import main\n"
        "code = main(sys.argv[1:])\n"
        "print(*sorted(set(sys.modules) - before), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    with Listener(folder) as listener:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", script, "bridge", "--server", "fs", "--without", "web"],
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        with process, listener.accept() as connection:
            assert read_all(connection)
            connection.close()
            assert process.wait(LIMIT) == 0
            assert process.stderr is not None
            loaded = process.stderr.read().decode().split()
    assert {name for name in loaded if not name.startswith("mcpctl")} <= {
        *("__future__", "_json"),
        "select",  # after the end of input
    }
