"""Listening sockets on a real file system, with real peers."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from mcpd.daemon import lock, paths, sockets
from mcpd.daemon.paths import Paths
from mcpd.daemon.sockets import Doors
from mcpd.errors import Failure
from tests.conftest import Home

#: n21: "a vanished socket file is bound again within 5 s"
AGAIN = 5.0


class Place:
    """The folders of one daemon, its lock and its doors; who says hello reads the name of the door."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.runtime = Path(paths.runtime)
        self.control = Path(paths.control_socket)
        self.default = Path(paths.agent_socket("default"))
        self.lock = lock.take(paths.lock)
        self.stop = trio.Event()
        self.doors = self.make_doors(paths)

    def make_doors(self, paths: Paths) -> Doors:
        return Doors(paths, self.lock, self.stop, control=self.greet("control"), agent=self.greet)

    @staticmethod
    def greet(name: str) -> Callable[[trio.SocketStream], Awaitable[None]]:
        async def handler(stream: trio.SocketStream) -> None:
            if await stream.receive_some() != b"hello":
                return
            await stream.send_all(name.encode() + b"\n")
            await stream.receive_some()

        return handler

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Doors]:
        async with trio.open_nursery() as nursery:
            self.doors.open({})
            await nursery.start(self.doors.run)
            yield self.doors
            nursery.cancel_scope.cancel()


@pytest.fixture
def place(home: Home) -> Iterator[Place]:
    found = paths.resolve(home.environ, os.getuid())
    paths.make_private(found.runtime, os.getuid())
    place = Place(found)
    yield place
    place.lock.release()


async def greet(stream: trio.SocketStream) -> str:
    with contextlib.suppress(trio.BrokenResourceError):  # refused already
        await stream.send_all(b"hello")
    return (await stream.receive_some()).decode().strip()


@contextlib.asynccontextmanager
async def visit(path: Path) -> AsyncIterator[trio.SocketStream]:
    """A peer that was greeted."""
    async with await trio.open_unix_socket(path) as stream:
        assert (await greet(stream)).isalnum()
        yield stream


async def greeting(path: Path) -> str:
    async with await trio.open_unix_socket(path) as stream:
        return await greet(stream)


async def greeted_again(path: Path) -> str:
    """The greeting once the socket is back; TooSlowError after the time that n21 allows."""
    with trio.fail_after(AGAIN):
        while True:
            with contextlib.suppress(OSError):
                return await greeting(path)
            await trio.sleep(0.02)


class Said(logging.Handler):
    """Lets a test wait until something was logged."""

    def __init__(self) -> None:
        super().__init__()
        self._lines, self._wait = trio.open_memory_channel[str](100)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.send_nowait(record.getMessage())

    async def line(self) -> str:
        with trio.fail_after(AGAIN):
            return await self._wait.receive()


@pytest.fixture
def said() -> Iterator[Said]:
    handler = Said()
    sockets.log.addHandler(handler)
    yield handler
    sockets.log.removeHandler(handler)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_sockets_and_folders_are_private_whatever_the_umask(place: Place, real_clock: None) -> None:
    before = os.umask(0)
    try:
        async with place.running():
            assert (mode(place.control), mode(place.default)) == (0o600, 0o600)
            folders = (place.runtime, place.runtime / "agents", place.default.parent)
            assert [mode(folder) for folder in folders] == [0o700] * 3
            assert await greeting(place.control) == "control"
            assert await greeting(place.default) == "default"
    finally:
        os.umask(before)
    assert (place.control.exists(), place.default.exists()) == (False, False)
    assert place.default.parent.is_dir(), "a sandbox may have the folder mounted"


async def test_a_dead_socket_file_is_replaced(place: Place, real_clock: None) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place.control))
    async with place.running():
        assert await greeting(place.control) == "control"


@pytest.mark.parametrize("kind", ["a regular file", "a folder", "a symbolic link", "a named pipe"])
async def test_what_is_no_socket_is_refused_and_stays(place: Place, kind: str) -> None:
    precious = place.runtime / "precious"
    precious.write_text("precious")
    if kind == "a regular file":
        place.control.write_text("precious")
    elif kind == "a folder":
        place.control.mkdir()
    elif kind == "a symbolic link":
        place.control.symlink_to(precious)
    else:
        os.mkfifo(place.control)
    before = place.control.lstat()
    with pytest.raises(Failure, match=f'cannot listen on ".*/control.sock": {kind} is in the way'):
        place.doors.open({})
    assert os.path.samestat(place.control.lstat(), before)
    assert precious.read_text() == "precious"


async def test_a_path_too_long_for_a_socket_is_named(place: Place) -> None:
    long = msgspec.structs.replace(place.paths, runtime=str(place.runtime / ("x" * 100)))
    with pytest.raises(Failure, match=r'cannot use socket path ".*/x+/control.sock": \d+ bytes, at most 107'):
        place.make_doors(long).open({})


@pytest.mark.parametrize("what", ["file", "folder", "runtime", "moved"])
async def test_what_vanishes_is_bound_again(place: Place, real_clock: None, what: str) -> None:
    async with place.running(), visit(place.default) as visitor:
        if what == "file":
            place.default.unlink()
        elif what == "folder":
            shutil.rmtree(place.default.parent)
        elif what == "runtime":
            shutil.rmtree(place.runtime)
        else:
            place.runtime.rename(place.runtime.with_name("elsewhere"))
        assert await greeted_again(place.default) == "default"
        assert await greeted_again(place.control) == "control"
        assert mode(place.default) == 0o600
        assert place.lock.intact
        await visitor.send_all(b"still here")
        assert await visitor.receive_some() == b"", "the visitor of the old socket was served to its end"


async def test_a_socket_put_in_our_place_is_replaced(place: Place, said: Said, real_clock: None) -> None:
    async with place.running():
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(place.runtime / "other"))
            other.listen()
            (place.runtime / "other").rename(place.control)
            assert "somebody had removed or replaced it" in await said.line()
            assert await greeting(place.control) == "control"


async def test_a_file_put_in_our_place_stays_until_somebody_moves_it(
    place: Place, said: Said, real_clock: None
) -> None:
    async with place.running():
        place.control.unlink()
        place.control.write_text("precious")
        assert "a regular file is in the way" in await said.line()
        assert place.control.read_text() == "precious"
        place.control.unlink()
        assert await greeted_again(place.control) == "control"
    assert not place.control.exists()


async def test_only_the_own_inode_is_removed_at_the_end(place: Place) -> None:
    place.doors.open({})
    place.control.unlink()
    place.control.write_text("somebody's")
    place.doors.close()
    assert place.control.read_text() == "somebody's"
    assert not place.default.exists()


async def test_closed_doors_stay_closed_and_who_is_in_stays(place: Place, real_clock: None) -> None:
    async with place.running() as doors, visit(place.default) as visitor:
        doors.close()
        await trio.sleep(1)  # longer than changes in a folder take to settle
        assert (place.control.exists(), place.default.exists()) == (False, False)
        await visitor.send_all(b"x")
        assert await visitor.receive_some() == b""


async def test_another_daemon_that_took_the_folder_ends_this_one(place: Place, real_clock: None) -> None:
    async with place.running():
        shutil.rmtree(place.runtime)
        place.runtime.mkdir(mode=0o700)
        other = lock.take(place.paths.lock)
        with trio.fail_after(AGAIN):
            await place.stop.wait()
        assert not place.control.exists()
    other.release()


async def test_sockets_of_systemd_are_served_and_stay(place: Place, real_clock: None) -> None:
    paths.make_private(str(place.default.parent), os.getuid())
    passed = {}
    for name, path in (
        ("control", place.control),
        ("agent-default", place.default),
        ("what", place.runtime / "what"),
    ):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind(str(path))
        listener.listen()
        passed[name] = [listener]
    inode = place.control.stat().st_ino
    async with trio.open_nursery() as nursery:
        place.doors.open(passed)
        await nursery.start(place.doors.run)
        assert await greeting(place.control) == "control"
        assert await greeting(place.default) == "default"
        assert passed["what"][0].fileno() == -1
        place.default.unlink()
        assert await greeted_again(place.default) == "default"
        nursery.cancel_scope.cancel()
    assert place.control.stat().st_ino == inode
    assert not place.default.exists(), "that one was ours in the end"


@pytest.mark.parametrize("kind", ["tcp", "without a path", "not listening", "datagram"])
async def test_what_systemd_passes_by_mistake_is_not_served(
    place: Place, said: Said, real_clock: None, kind: str
) -> None:
    family = socket.AF_INET if kind == "tcp" else socket.AF_UNIX
    passed = socket.socket(family, socket.SOCK_DGRAM if kind == "datagram" else socket.SOCK_STREAM)
    if kind == "tcp":
        passed.bind(("127.0.0.1", 0))
    else:
        passed.bind(f"\0mcpd-test-{os.getpid()}" if kind == "without a path" else str(place.control))
    if kind in ("tcp", "without a path"):
        passed.listen()
    place.doors.open({"control": [passed]})
    assert "of use here" in await said.line()
    assert passed.fileno() == -1
    async with trio.open_nursery() as nursery:
        await nursery.start(place.doors.run)
        assert await greeting(place.control) == "control"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ["a file for the folder", "a folder for the lock", "open to others"])
async def test_a_runtime_folder_that_cannot_be_had_again_ends_nobody(
    place: Place, said: Said, real_clock: None, kind: str
) -> None:
    lock_file = Path(place.paths.lock)
    async with place.running(), visit(place.default) as visitor:
        if kind == "a file for the folder":
            shutil.rmtree(place.runtime)
            place.runtime.write_text("")
        else:
            if kind == "open to others":
                place.runtime.chmod(0o755)
            lock_file.unlink()
            if kind == "a folder for the lock":
                lock_file.mkdir()
        assert "cannot" in await said.line()
        if kind == "a file for the folder":
            place.runtime.unlink()
        elif kind == "open to others":
            place.runtime.chmod(0o700)  # no event tells of this
        else:
            lock_file.rmdir()
        while not place.lock.intact:
            assert await said.line()
        assert await greeted_again(place.control) == "control"
        assert not place.stop.is_set()
        await visitor.send_all(b"still here")
        assert await visitor.receive_some() == b""


async def test_without_a_descriptor_left_what_vanishes_is_bound_again_later(
    place: Place, said: Said, real_clock: None
) -> None:
    async with place.running():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        probe = os.dup(0)
        os.close(probe)
        resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
        try:
            place.control.unlink()
            place.default.unlink()
            assert "cannot listen" in await said.line()
            assert "cannot listen" in await said.line()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await greeted_again(place.control) == "control"
        assert await greeted_again(place.default) == "default"


async def test_an_agent_comes_and_goes(place: Place, said: Said, real_clock: None) -> None:
    coder = Path(place.paths.agent_socket("coder"))
    async with place.running() as doors:
        doors.apply(["coder"])
        assert set(doors.agent_sockets) == {"default", "coder"}
        async with visit(coder) as visitor, visit(place.default) as other:
            assert mode(coder.parent) == 0o700
            coder.unlink()
            assert await greeted_again(coder) == "coder"
            assert "again" in await said.line()
            doors.apply([])
            assert await visitor.receive_some() == b"", "an agent that is removed loses its sessions"
            assert not coder.parent.exists()
            await other.send_all(b"x")
            assert await other.receive_some() == b"", "the others keep theirs"


async def test_an_agent_whose_folder_cannot_be_used_is_reported_and_the_rest_works(
    place: Place, said: Said, real_clock: None
) -> None:
    bad = Path(place.paths.agent_folder("bad"))
    paths.make_private(str(bad), os.getuid())
    bad.chmod(0o755)
    async with place.running() as doors:
        doors.apply(["bad", "good"])
        assert "open to others" in await said.line()
        assert set(doors.agent_sockets) == {"default", "good"}
        assert await greeting(Path(place.paths.agent_socket("good"))) == "good"


async def test_there_is_room_for_so_many_and_the_next_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch, real_clock: None
) -> None:
    monkeypatch.setattr(sockets, "AGENT_CONNECTIONS", 2)
    place.doors = place.make_doors(place.paths)
    async with place.running(), visit(place.default) as first, visit(place.default):
        refusal = msgspec.json.decode(await greeting(place.default))
        assert refusal["error"]["data"]["kind"] == "busy"
        assert refusal["id"] is None
        assert await greeting(place.control) == "control", "agents cannot shut the operator out"
        await first.send_all(b"bye")
        assert await first.receive_some() == b""
        assert await greeting(place.default) == "default"


async def test_one_agents_socket_keeps_nobody_else_out(
    place: Place, monkeypatch: pytest.MonkeyPatch, real_clock: None
) -> None:
    monkeypatch.setattr(sockets, "CONNECTIONS_OF_ONE", 2)
    place.doors = place.make_doors(place.paths)
    async with place.running() as doors:
        doors.apply(["coder"])
        coder = Path(place.paths.agent_socket("coder"))
        async with visit(coder), await trio.open_unix_socket(coder):
            refusal = msgspec.json.decode(await greeting(coder))
            assert (
                refusal["error"]["message"] == 'cannot serve more than 2 sessions of agent "coder" at a time'
            )
            assert await greeting(place.default) == "default"


@pytest.mark.parametrize("who", ["control", "default"])
async def test_who_says_nothing_makes_room_when_there_is_none(
    place: Place, monkeypatch: pytest.MonkeyPatch, real_clock: None, who: str
) -> None:
    for limit in ("CONTROL_CONNECTIONS", "CONNECTIONS_OF_ONE"):
        monkeypatch.setattr(sockets, limit, 3)
    for patience in ("CONTROL_SILENCE", "SILENCE"):
        monkeypatch.setattr(sockets, patience, 0.0)
    place.doors = place.make_doors(place.paths)
    path = place.control if who == "control" else place.default
    async with place.running(), visit(path) as speaker:
        async with await trio.open_unix_socket(path) as first, await trio.open_unix_socket(path) as second:
            assert await greeting(path) == who
            assert await first.receive_some() == b"", "the oldest went"
            assert await greet(second) == who
        await speaker.send_all(b"still here")
        assert await speaker.receive_some() == b""


async def test_who_has_just_come_or_has_spoken_keeps_the_place(
    place: Place, monkeypatch: pytest.MonkeyPatch, real_clock: None
) -> None:
    monkeypatch.setattr(sockets, "CONNECTIONS_OF_ONE", 2)
    place.doors = place.make_doors(place.paths)
    async with place.running(), visit(place.default), await trio.open_unix_socket(place.default) as silent:
        assert "busy" in await greeting(place.default)
        assert await greet(silent) == "default"


def test_agents_get_no_more_than_half_of_the_descriptors(place: Place) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        assert place.make_doors(place.paths)._sessions.limit == 100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_process_without_descriptors_left_goes_on_when_there_are_some(
    place: Place, said: Said, real_clock: None
) -> None:
    async with place.running():
        client = trio.socket.socket(socket.AF_UNIX)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        probe = os.dup(0)
        os.close(probe)
        resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
        try:
            await client.connect(str(place.control))
            assert "cannot accept connections" in await said.line()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await client.send(b"hello")
        with trio.fail_after(AGAIN):
            assert await client.recv(100) == b"control\n"
        client.close()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_another_user_is_refused_even_if_the_modes_let_him_in(
    place: Place, home: Home, said: Said, real_clock: None
) -> None:
    nobody = 65534
    program = (
        "import os, socket, sys; os.setuid(int(sys.argv[2]));"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(9))"
    )
    async with place.running():
        for folder in (home.root, home.runtime, place.runtime):
            folder.chmod(0o711)
        place.control.chmod(0o666)
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program, str(place.control), str(nobody)],
            stdout=subprocess.PIPE,
        ) as peer:
            assert f"refused a process of user {nobody}" in await said.line()
            output, _ = await trio.to_thread.run_sync(peer.communicate)
        assert output == b"b''\n"
