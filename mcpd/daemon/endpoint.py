"""The endpoint's listening sockets on 127.0.0.1 and ::1, and the connections that came in there (n23)."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import trio

from mcpd.agents import loopback
from mcpd.agents.endpoint.app import App
from mcpd.agents.endpoint.head import ALL
from mcpd.agents.endpoint.rooms import Rooms
from mcpd.agents.methods import serve as methods
from mcpd.broker import Broker
from mcpd.caller import DEFAULT_AGENT
from mcpd.daemon.sockets import BACKLOG, BREATH
from mcpd.errors import Failure

if TYPE_CHECKING:
    from mcpd.daemon.web import Web

log = logging.getLogger(__name__)

#: Both ways by which this machine reaches itself. Where one belonged to somebody else, that somebody would be
#: shown the tokens of hosts that say `localhost`.
ADDRESSES = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))

#: Connections at a time: every stream has one of its own.
CONNECTIONS = 512

#: Milliseconds after which a connection is given up whose peer takes nothing.
STUCK = 60_000

#: Tries to find a port that is free at both addresses.
TRIES = 20

#: What `socket` says where the machine has no IPv6.
_NO_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})


class Endpoint:
    """The only owner of these sockets, and of the sessions that came in by them (`broker.Endpoint`)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._uid = os.getuid()
        self._nursery: trio.Nursery | None = None
        self._rooms: Rooms | None = None
        self._web: Web | None = None
        self._listeners: list[socket.socket] = []
        self._connections: set[trio.SocketStream] = set()
        self.problem = ""
        """Why it does not listen although it should."""

    @property
    def port(self) -> int:
        """0 while it does not listen."""
        return int(self._listeners[0].getsockname()[1]) if self._listeners else 0

    @property
    def urls(self) -> tuple[str, ...]:
        hosts = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "[::1]"}
        return tuple(f"http://{hosts[sock.family]}:{self.port}{ALL}" for sock in self._listeners)

    @property
    def sessions(self) -> int:
        return len(self._rooms) if self._rooms is not None else 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen if it is enabled, and serve until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._rooms = Rooms(self._broker, methods, nursery)
            switch = self._broker.state.endpoint
            if switch.enabled:
                try:
                    await self.open(switch.port)
                except Failure as failure:
                    self.problem = failure.message
                    log.error("%s", failure.message)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = self._rooms = None
                self.shut()
                for stream in self._connections:
                    stream.socket.close()

    async def open(self, port: int) -> None:
        """Listen, or move to that port; 0 is any. Raises Failure `refused`, and goes on as before then."""
        if self._nursery is None or self._rooms is None:
            raise Failure("stopping", "the daemon is stopping")
        if self._listeners and port in (0, self.port):
            return
        if self._web is None:
            self._web = _web(App(self._broker, self._rooms))
        listeners = _listen(port)
        self.shut()
        self._listeners = listeners
        self.problem = ""
        for sock in listeners:
            self._nursery.start_soon(self._accept, sock, self._web)
        log.info("agents can come in by %s", ", ".join(self.urls))

    async def close(self) -> None:
        """Listen no more and end every session. Answers that are on their way still go out."""
        self.shut()
        self.problem = ""
        web, self._web = self._web, None
        if self._rooms is not None:
            self._rooms.close_all()
        if web is not None:
            await web.finish()

    def shut(self) -> None:
        """Let nobody in any more; who is in stays."""
        for sock in self._listeners:
            trio.lowlevel.notify_closing(sock)
            sock.close()
        self._listeners = []

    def end_sessions(self, agent: str) -> None:
        """End those of one agent: its token is of no use any more."""
        if self._rooms is not None:
            self._rooms.close_all(agent)

    def apply(self, agents: Iterable[str]) -> None:
        """End the sessions of agents that are not configured any more."""
        if self._rooms is not None:
            for agent in self._rooms.agents() - {*agents, DEFAULT_AGENT}:
                self._rooms.close_all(agent)

    # ------------------------------------------------------------- connections

    async def _accept(self, sock: socket.socket, web: Web) -> None:
        """Until the socket is closed."""
        trouble = 0
        while sock.fileno() >= 0:
            try:
                await trio.lowlevel.wait_readable(sock)
                accepted = sock.accept()[0]
            except trio.ClosedResourceError:
                break
            except (BlockingIOError, ConnectionAbortedError):
                continue
            except OSError as e:
                # Out of descriptors or memory, most likely: the queue keeps who comes.
                if e.errno != trouble:
                    log.error("cannot accept connections of the endpoint: %s", str(e.strerror).lower())
                    trouble = e.errno or 0
                await trio.sleep(BREATH)
                continue
            trouble = 0
            self._let_in(accepted, web)

    def _let_in(self, accepted: socket.socket, web: Web) -> None:
        owner = loopback.owner_of(accepted)
        if owner is not None and owner.uid not in (self._uid, 0):
            log.warning("refused a process of user %d at the endpoint", owner.uid)
            accepted.close()
            return
        if self._nursery is None or not self._make_room(web):
            accepted.close()
            return
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
        self._connections.add(stream)
        self._nursery.start_soon(self._serve, stream, owner.inode if owner is not None else 0, web)

    def _make_room(self, web: Web) -> bool:
        """Whether there is a place, if need be that of the connection which was without a request longest."""
        if len(self._connections) >= CONNECTIONS and web.idle:
            longest = next(iter(web.idle))
            del web.idle[longest]
            self._connections.discard(longest)
            longest.socket.close()
        return len(self._connections) < CONNECTIONS

    async def _serve(self, stream: trio.SocketStream, inode: int, web: Web) -> None:
        """One connection. What its peer or hypercorn does wrong is the end of this connection alone."""
        try:
            await web.serve(stream, inode)
        except* Exception:
            log.exception("a connection of the endpoint ends: internal error")
        finally:
            self._connections.discard(stream)
            stream.socket.close()


def _web(app: App) -> Web:
    """Raises Failure where hypercorn is missing."""
    try:
        from mcpd.daemon.web import Web
    except ModuleNotFoundError as e:
        raise Failure(
            "refused",
            f"cannot serve HTTP: {e.name} is not installed",
            hint=f'{sys.executable} -m pip install "mcpd-local[endpoint]"',
        ) from None
    return Web(app)


def _listen(port: int) -> list[socket.socket]:
    """A listening socket for each address, all on one port; 0 is any that is free at all. Raises Failure."""
    for _ in range(TRIES if port == 0 else 1):
        sockets: list[socket.socket] = []
        try:
            for family, host in ADDRESSES:
                sock = _bind(family, host, sockets[0].getsockname()[1] if sockets else port)
                if sock is not None:
                    sockets.append(sock)
        except OSError as e:
            for sock in sockets:
                sock.close()
            trouble = f"cannot listen on {host} port {port or 'of any number'}: {str(e.strerror).lower()}"
        else:
            return sockets
    raise Failure("refused", trouble, hint="mcpctl endpoint enable --port N")


def _bind(family: socket.AddressFamily, host: str, port: int) -> socket.socket | None:
    """None where the machine has no IPv6. Raises OSError."""
    kind = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    with contextlib.ExitStack() as undo:
        try:
            sock = undo.enter_context(socket.socket(family, kind))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((host, port))
        except OSError as e:
            if family == socket.AF_INET6 and e.errno in _NO_IPV6:
                return None
            raise
        sock.listen(BACKLOG)
        undo.pop_all()
        return sock
