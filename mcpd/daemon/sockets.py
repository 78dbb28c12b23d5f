"""The listening sockets: control.sock and one folder with mcp.sock for each agent.

Two rules. Only the holder of the folder's lock binds, so a socket file that is in the way is a dead one;
anything else in the way is somebody's and stays. Only the inode that we made is ever removed (n21).

Nobody can keep others out: every agent's socket has a quota, and whoever has come in and said nothing
makes room, the oldest first, when there is none.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import resource
import socket
import stat
import struct
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import trio

from mcpd import processes
from mcpd.caller import DEFAULT_AGENT
from mcpd.config.watch import Watch
from mcpd.daemon.lock import Lock, Taken
from mcpd.daemon.paths import Paths, check_socket_path, make_private
from mcpd.errors import Failure
from mcpd.processes import Ident
from mcpd.protocol import jsonrpc

log = logging.getLogger(__name__)

Handler = Callable[[trio.SocketStream], Awaitable[None]]

#: Connections at a time of all agents (what systemd's varlink server gives one uid) and of one, and of
#: operators. No more than half of the descriptors are the agents': servers and operators need some.
AGENT_CONNECTIONS = 1024
CONNECTIONS_OF_ONE = 256
CONTROL_CONNECTIONS = 64
#: Seconds that an agent, or an operator, may say nothing while others wait for the place. A host opens its
#: bridge early; mcpctl speaks at once.
SILENCE = 30.0
CONTROL_SILENCE = 2.0

#: Connections that wait to be accepted: as many as the kernel allows.
BACKLOG = 4096

#: Seconds until the next try after the process or the machine ran out of descriptors or memory.
BREATH = 0.1
#: Seconds until the next look at what the kernel does not tell us about, or what could not be mended.
AGAIN = 2.0
#: What the sockets are called in the units (FileDescriptorName).
CONTROL_NAME = "control"
DEFAULT_NAME = "agent-default"


class Slots:
    """The places of one kind of connection, and who has them."""

    def __init__(self, limit: int, what: str, patience: float) -> None:
        self.limit = limit
        self.what = what
        self.patience = patience
        self.taken: set[_Visitor] = set()
        self.silent: dict[_Visitor, None] = {}
        """Those that have sent nothing yet, the oldest first."""

    def make_room(self) -> bool:
        """Whether there is a place, if need be by sending away who has been silent for too long."""
        if len(self.taken) >= self.limit:
            oldest = next(iter(self.silent), None)
            if oldest is not None and trio.current_time() - oldest.came >= self.patience:
                oldest.scope.cancel()
                oldest.leave()
        return len(self.taken) < self.limit

    def refusal(self) -> Failure:
        """What somebody reads for whom there is no room."""
        return Failure("busy", f"cannot serve more than {self.limit} {self.what} at a time")


class _Visitor:
    """One connection that was let in. Mutable: it is silent at first."""

    def __init__(self, slots: tuple[Slots, ...]) -> None:
        self.came = trio.current_time()
        self.scope = trio.CancelScope()
        """Of the wait for its first word."""
        self._slots = slots
        for kind in slots:
            kind.taken.add(self)
            kind.silent[self] = None

    def speak(self) -> None:
        for kind in self._slots:
            kind.silent.pop(self, None)

    def leave(self) -> None:
        """Give the places back. May be done twice."""
        self.speak()
        for kind in self._slots:
            kind.taken.discard(self)


class Door:
    """One listening socket with a path: ours, or one that systemd made and keeps."""

    def __init__(self, path: str, uid: int) -> None:
        self.path = path
        self._uid = uid
        self._sock: socket.socket | None = None
        self._ours = False
        self._identity: tuple[int, int] | None = None
        self._trouble = 0
        """errno of the last failed accept; 0 after one that went well. A long trouble is one log line."""

    def take(self, passed: socket.socket) -> None:
        """Listen on a socket that systemd passed."""
        self.path = passed.getsockname()
        self._sock, self._ours, self._identity = passed, False, _identity(self.path)

    @property
    def intact(self) -> bool:
        """Whether the file at the path still leads here."""
        return self._identity is not None and _identity(self.path) == self._identity

    def bind(self) -> None:
        """Listen at the path (anew). Raises Failure, and goes on as before, when it cannot."""
        make_private(os.path.dirname(self.path), self._uid)
        check_socket_path(self.path)
        _clear_way(self.path, self._uid)
        kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        try:
            sock = socket.socket(socket.AF_UNIX, kind)
        except OSError as e:
            raise _cannot_listen(self.path, e) from None
        try:
            # The file gets the mode of the unbound socket less the umask: it is never open to others.
            os.fchmod(sock.fileno(), 0o600)
            sock.bind(self.path)
            os.chmod(self.path, 0o600)
            sock.listen(BACKLOG)
        except OSError as e:
            sock.close()
            raise _cannot_listen(self.path, e) from None
        old, self._sock, self._ours = self._sock, sock, True
        self._identity = _identity(self.path)
        if old is not None:
            trio.lowlevel.notify_closing(old)
            old.close()

    async def accept(self) -> socket.socket:
        """The next connection, whatever socket leads here by then.

        Raises trio.ClosedResourceError after `close`, and nothing else.
        """
        while self._sock is not None:
            try:
                await trio.lowlevel.wait_readable(self._sock)
                accepted = self._sock.accept()[0]
            except trio.ClosedResourceError:
                await trio.lowlevel.checkpoint()  # bound anew, or closed
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as e:
                await self._pause(e)
            else:
                self._trouble = 0
                return accepted
        raise trio.ClosedResourceError

    async def _pause(self, e: OSError) -> None:
        """Out of descriptors or memory, most likely: the queue keeps who comes, we try again in a moment."""
        if e.errno != self._trouble:
            log.error('cannot accept connections on "%s": %s', self.path, str(e.strerror).lower())
            self._trouble = e.errno or 0
        await trio.sleep(BREATH)

    def close(self) -> None:
        """Stop listening; the file goes if it is the one that we made."""
        if self._sock is None:
            return
        if self._ours and self.intact:
            with contextlib.suppress(OSError):  # a dead socket that stays is in nobody's way
                os.unlink(self.path)
        trio.lowlevel.notify_closing(self._sock)
        self._sock.close()
        self._sock = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _clear_way(path: str, uid: int) -> None:
    """Remove a dead socket file. Raises Failure for anything else that has the name; it stays."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return
    except OSError as e:
        raise _cannot_listen(path, e) from None
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != uid:
        kind = (
            "a socket of another user"
            if stat.S_ISSOCK(found.st_mode)
            else _KINDS.get(stat.S_IFMT(found.st_mode), "something else")
        )
        raise Failure(
            "refused",
            f'cannot listen on "{path}": {kind} is in the way',
            hint="move it away; mcpd does not remove it",
        )
    try:
        os.unlink(path)
    except OSError as e:
        raise _cannot_listen(path, e) from None


def _cannot_listen(path: str, e: OSError) -> Failure:
    return Failure("refused", f'cannot listen on "{path}": {str(e.strerror).lower()}')


def _listens(sock: socket.socket) -> bool:
    """Whether it is a listening stream socket with a path; a unit can pass anything by mistake."""
    path = sock.getsockname() if sock.family == socket.AF_UNIX and sock.type == socket.SOCK_STREAM else ""
    listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    return bool(listening) and isinstance(path, str) and path.startswith("/")


_KINDS = {
    stat.S_IFREG: "a regular file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
}


def peer_of(sock: socket.socket) -> tuple[int, int]:
    """pid and user at the other end, by the kernel's word (SO_PEERCRED)."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return pid, uid


def _send_away(sock: socket.socket, failure: Failure) -> None:
    error = jsonrpc.error_text(failure.code, failure.message, failure.details())
    with contextlib.suppress(OSError):
        sock.send(jsonrpc.error_line(b"null", error), socket.MSG_DONTWAIT)
    sock.close()


class _Entrance:
    """One door with what happens behind it. Mutable: its door may be bound anew."""

    def __init__(self, door: Door, handler: Handler, *slots: Slots) -> None:
        """A connection takes a place of each of the `slots`."""
        self.door = door
        self.handler = handler
        self.slots = slots
        self.scope = trio.CancelScope()
        """Of the accepting task and of all that came in; an agent that is removed loses its sessions."""
        self.broken = ""
        """Why the door could not be bound anew when it was tried last."""


class Doors:
    """Owns every listening socket, and the tasks of what came in through them."""

    def __init__(
        self, paths: Paths, lock: Lock, stop: trio.Event, *, control: Handler, agent: Callable[[str], Handler]
    ) -> None:
        """`control` serves an operator, `agent(name)` gives what serves a session of that agent.

        `stop` is set when another daemon took a folder that somebody had removed under us.
        """
        self._paths = paths
        self._lock = lock
        self._stop = stop
        self._uid = os.getuid()
        self._agent = agent
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        sessions = (
            AGENT_CONNECTIONS if files == resource.RLIM_INFINITY else min(AGENT_CONNECTIONS, files // 2)
        )
        self._sessions = Slots(sessions, "sessions", SILENCE)
        operators = Slots(CONTROL_CONNECTIONS, "operators", CONTROL_SILENCE)
        self._control = _Entrance(Door(paths.control_socket, self._uid), control, operators)
        self._agents: dict[str, _Entrance] = {}
        self._nursery: trio.Nursery | None = None
        self._closed = False
        self._broken = ""
        """What was said last about a lock that cannot be had again."""
        self._blind = False
        """The kernel has no watch for us."""
        self._told: Ident | None = None
        """Which of a server's processes was refused last: one that tries on is one log line."""

    @property
    def agent_sockets(self) -> dict[str, str]:
        """Agent name -> path, of those that listen."""
        return {name: entrance.door.path for name, entrance in self._agents.items()}

    def open(self, passed: Mapping[str, list[socket.socket]]) -> None:
        """Listen for operators and for agents without a name, on what systemd passed or on our own sockets.

        Raises Failure when it cannot: then there is no daemon.
        """
        for name, socks in passed.items():
            if name not in (CONTROL_NAME, DEFAULT_NAME) or len(socks) != 1 or not all(map(_listens, socks)):
                log.warning('closing %d sockets passed as "%s": not of use here', len(socks), name)
                for sock in socks:
                    sock.close()
        usable = {name: [sock for sock in socks if sock.fileno() >= 0] for name, socks in passed.items()}
        for sock in usable.get(CONTROL_NAME, []):
            self._control.door.take(sock)
        self._open(self._control.door)
        self._add(DEFAULT_AGENT, usable.get(DEFAULT_NAME, []))

    def apply(self, agents: Iterable[str]) -> None:
        """Listen for exactly these agents and the default one; the sessions of a removed agent end."""
        wanted = {*agents, DEFAULT_AGENT}
        for name in sorted(self._agents.keys() - wanted):
            self._remove(name)
        for name in sorted(wanted - self._agents.keys()):
            try:
                self._add(name, [])
            except Failure as failure:
                log.error('agent "%s": %s', name, failure.message)

    def _add(self, name: str, passed: list[socket.socket]) -> None:
        door = Door(self._paths.agent_socket(name), self._uid)
        for sock in passed:
            door.take(sock)
        self._open(door)
        own = Slots(CONNECTIONS_OF_ONE, f'sessions of agent "{name}"', SILENCE)
        entrance = self._agents[name] = _Entrance(door, self._agent(name), own, self._sessions)
        if self._nursery is not None:
            self._nursery.start_soon(self._serve, entrance)

    def _open(self, door: Door) -> None:
        if not door.intact:
            make_private(self._paths.agents, self._uid)
            door.bind()

    def _remove(self, name: str) -> None:
        entrance = self._agents.pop(name)
        entrance.door.close()
        entrance.scope.cancel()
        with contextlib.suppress(OSError):  # somebody keeps a file there, or has it mounted
            os.rmdir(self._paths.agent_folder(name))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for entrance in self._entrances():
                    nursery.start_soon(self._serve, entrance)
                task_status.started()
                await self._keep()
        finally:
            self._nursery = None
            self.close()

    def close(self) -> None:
        """Let nobody in any more; who is in stays. The folders stay: a sandbox may have one mounted."""
        self._closed = True
        for entrance in self._entrances():
            entrance.door.close()

    def _entrances(self) -> list[_Entrance]:
        return [self._control, *self._agents.values()]

    async def _serve(self, entrance: _Entrance) -> None:
        with entrance.scope:
            async with trio.open_nursery() as visitors:
                with contextlib.suppress(trio.ClosedResourceError):
                    while True:
                        self._let_in(entrance, await entrance.door.accept(), visitors)

    def _let_in(self, entrance: _Entrance, sock: socket.socket, visitors: trio.Nursery) -> None:
        pid, uid = peer_of(sock)
        if uid not in (self._uid, 0):
            log.warning('refused a process of user %d on "%s"', uid, entrance.door.path)
            sock.close()
        elif why := self._refusal(pid, entrance.door.path):
            _send_away(sock, why)
        elif full := next((slots for slots in entrance.slots if not slots.make_room()), None):
            _send_away(sock, full.refusal())
        else:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
            visitors.start_soon(self._receive, entrance, stream, _Visitor(entrance.slots))

    def _refusal(self, pid: int, path: str) -> Failure | None:
        """Why this process may not come in: a server's own tree opens neither socket (n06)."""
        chain = processes.chain(pid)
        if pid and not chain:
            return Failure("refused", "the process that came in has ended, and nobody can tell whose it was")
        trespasser = processes.below(chain, os.getpid(), self._paths.runtime_id)
        if trespasser is None:
            return None
        if trespasser.ident != self._told:
            log.warning('refused %s, which a server has started, on "%s"', trespasser, path)
        self._told = trespasser.ident
        return Failure("refused", "cannot serve what a server of mcpd's has started")

    async def _receive(self, entrance: _Entrance, stream: trio.SocketStream, visitor: _Visitor) -> None:
        try:
            with visitor.scope:
                await trio.lowlevel.wait_readable(stream.socket)
            if not visitor.scope.cancel_called:
                visitor.speak()
                await entrance.handler(stream)
        finally:
            visitor.leave()
            stream.socket.close()

    async def _keep(self) -> None:
        """Bind again what vanished or was replaced, told by the kernel (inotify); until `close`."""
        while not self._closed:
            # Anew each time, because the agents change; that too is seen in the folder of their folders.
            watch = self._watch()
            with watch or contextlib.nullcontext():
                try:
                    whole = self._check()
                except Taken as taken:
                    log.critical("stopping: %s", taken.message)
                    self._stop.set()
                    return
                with trio.move_on_after(math.inf if watch and whole else AGAIN):
                    await _change(watch)

    def _watch(self) -> Watch | None:
        """None while the kernel has no watch left; then we look ourselves (n21)."""
        try:
            watch = Watch(map(Path, self._folders()))
        except OSError as e:
            if not self._blind:
                log.warning("cannot be told when a socket file is removed: %s", str(e.strerror).lower())
            self._blind = True
            return None
        self._blind = False
        return watch

    def _folders(self) -> list[str]:
        return [self._paths.runtime, self._paths.agents, *map(self._paths.agent_folder, self._agents)]

    def _check(self) -> bool:
        """Make every door lead here again; False when something could not be mended yet.

        Raises Taken when the folder is another daemon's now.
        """
        try:
            if not self._lock.intact:
                make_private(self._paths.runtime, self._uid)
                self._lock.renew()
                log.warning('took the lock "%s" again: somebody had removed the file', self._lock.path)
        except Taken:
            raise
        except Failure as failure:
            # Whoever is in stays and is served. Nothing is bound: only the lock's holder may.
            if failure.message != self._broken:
                log.error("%s", failure.message)
            self._broken = failure.message
            return False
        self._broken = ""
        for entrance in self._entrances():
            if not entrance.door.intact:
                self._bind_again(entrance)
        return all(entrance.door.intact for entrance in self._entrances())

    def _bind_again(self, entrance: _Entrance) -> None:
        try:
            self._open(entrance.door)
        except Failure as failure:
            if failure.message != entrance.broken:
                log.error("%s", failure.message)
            entrance.broken = failure.message
        else:
            log.warning('bound "%s" again: somebody had removed or replaced it', entrance.door.path)
            entrance.broken = ""


async def _change(watch: Watch | None) -> None:
    """Return when something changed in the folders, or their watch was lost."""
    if watch is None:
        await trio.sleep_forever()
    else:
        with contextlib.suppress(OSError):
            await watch.changed()
