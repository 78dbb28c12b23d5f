"""What attached sessions want to hear from one server: log messages from a level on, news of resources.

Many sessions share one connection, so their wishes are one (8.2): the lowest level that anybody
wants, and each watched URI once, as long as anybody watches it. A server with a handshake is told by
`logging/setLevel` and `resources/(un)subscribe`, a stateless one of URIs by a stream of its own
(`subscriptions/listen`) and of levels by each request.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from mcpd.errors import Failure
from mcpd.protocol.shapes import LEVELS, USUAL_LEVEL, Acknowledged, UriParams, read_result
from mcpd.transport.base import ConnectionLost
from mcpd.transport.pending import Slot
from mcpd.upstream.connection import Connection
from mcpd.upstream.subscription import Subscription, again

#: Seconds for a request of mcpd's own, which no agent waits for.
TIMEOUT = 30.0

#: Seconds that a server may take to acknowledge a subscription.
ACKNOWLEDGED = 10.0

#: URIs that sessions watch at one server together, and that one of them does; the server is told of each
#: again after a restart.
WATCHED = 4096
WATCHED_BY_ONE = 1000

Tell = Callable[[str, str], None]
"""Told the watched URI and the one that changed, which may lie below it (5.3)."""


class Wishes:
    """The owner of all that. Sessions are known by their ids; `remark` gets notes for the server's log."""

    def __init__(self, remark: Callable[[str], None]) -> None:
        self._remark = remark
        self._levels: dict[str, int] = {}
        self._told: int | None = None
        """The level that the server has agreed to, or refused, on this connection."""
        self._logs = False
        """There is a server with a handshake that logs."""
        self._watched: dict[str, dict[str, Tell]] = {}
        """URI -> watcher -> who is told."""
        self._agreed: set[str] = set()
        """URIs that a server with a handshake has been asked to tell of, and not to stop."""
        self._streams: list[_Stream] = []
        """The newest last; an older one ends when that is acknowledged."""
        self._news = trio.Event()

    # ------------------------------------------------------------ for sessions

    @property
    def level(self) -> int | None:
        """The rank of the lowest level that anybody wants; None when nobody has said.

        It is never above the usual one: who has not said may hear of that.
        """
        return min(*self._levels.values(), USUAL_LEVEL) if self._levels else None

    def want_level(self, session: str, rank: int) -> None:
        if self._levels.get(session) != rank:
            self._levels[session] = rank
            self._tell()

    def lower_level(self, session: str, rank: int) -> None:
        """`want_level`, unless the session wants more already."""
        self.want_level(session, min(rank, self._levels.get(session, rank)))

    async def level_told(self) -> None:
        """Wait until the server has answered to the level that is wanted now, if it can be told."""
        while self._logs and self.level not in (None, self._told):
            await self._news.wait()

    def watch(self, watcher: str, uri: str, tell: Tell) -> None:
        """From now on. A server with a handshake is then asked by who wants it, see `agreed`.

        `watcher`: the session's id, or another name for a part of it, which has to end its watching itself.
        Raises Failure `busy` when very many URIs are watched.
        """
        if uri not in self._watched and len(self._watched) >= WATCHED:
            raise Failure("busy", f"{WATCHED:,} resources of this server are watched already")
        known = watcher in self._watched.get(uri, {})
        if not known and sum(watcher in each for each in self._watched.values()) >= WATCHED_BY_ONE:
            raise Failure("busy", f"this session watches {WATCHED_BY_ONE:,} resources of this server already")
        self._watched.setdefault(uri, {})[watcher] = tell
        self._tell()

    def agreed(self, uri: str) -> None:
        """The server has agreed to tell of this URI; who watched it may have left meanwhile."""
        self._agreed.add(uri)
        self._tell()

    def unwatch(self, watcher: str, uri: str) -> None:
        watchers = self._watched.get(uri)
        if watchers is not None and watchers.pop(watcher, None) is not None and not watchers:
            del self._watched[uri]
            self._tell()

    def forget(self, session: str) -> None:
        """The session has ended."""
        if self._levels.pop(session, None) is not None:
            self._tell()
        for uri in [uri for uri, watchers in self._watched.items() if session in watchers]:
            self.unwatch(session, uri)

    async def honoured(self, uri: str) -> bool:
        """Whether a stateless server tells of a URI that is watched, once it has said so."""
        with trio.move_on_after(2 * ACKNOWLEDGED):
            while True:
                stream = self._streams[-1] if self._streams else None
                if stream is not None and uri in stream.asked and stream.answered.is_set():
                    return uri in stream.honoured
                await self._news.wait()
        return False

    # --------------------------------------------------------- from the server

    def notice(self, method: str, params: bytes) -> None:
        """Take a notification of the server that concerns no request."""
        if method == "notifications/resources/updated":
            updated = read_result(params or b"{}", UriParams)
            if updated is not None:
                self._updated(updated.uri)
        elif method == "notifications/subscriptions/acknowledged":
            said = read_result(params or b"{}", Acknowledged)
            for stream in self._streams if said is not None else ():
                assert said is not None
                if stream.subscription.is_ours(said.meta):
                    self._acknowledged(stream, frozenset(said.notifications.resource_subscriptions))

    def _updated(self, uri: str) -> None:
        for watched in [each for each in self._watched if lies_in(uri, each)]:
            for tell in list(self._watched.get(watched, {}).values()):
                tell(watched, uri)

    def _acknowledged(self, stream: _Stream, honoured: frozenset[str]) -> None:
        stream.honoured = honoured
        if stream.answered.is_set():
            # What happened since the stream was lost is told by nobody (5.14).
            for uri in stream.asked:
                self._updated(uri)
        stream.answered.set()
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()

    # ----------------------------------------------------------- to the server

    async def keep(
        self, connection: Connection, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep the server in step until it is lost. Started when it has been told the level, so that the
        first request is served under it."""
        if connection.settled.revision.stateless:
            task_status.started()
            await self._keep_streams(connection)
            return
        started = False

        def start(key: bytes = b"") -> None:
            nonlocal started
            if not started:
                started = True
                task_status.started()

        self._told = None
        try:
            await self._keep_telling(connection, start)
        except ConnectionLost:
            start()
        finally:
            self._logs = False
            self._tell()

    async def _keep_telling(self, connection: Connection, start: Callable[[bytes], None]) -> None:
        self._logs = "logging" in connection.settled.capabilities
        lost, self._agreed = self._agreed & self._watched.keys(), set()
        while True:
            news = self._news
            level = self.level
            if self._logs and level is not None and level != self._told:
                name = msgspec.json.encode(LEVELS[level])
                await self._ask(connection, "logging/setLevel", b'"level":' + name, start)
                self._told = level
                self._tell()
            start(b"")
            for uri in lost:
                self._agreed.add(uri)
                await self._ask(connection, "resources/subscribe", _uri(uri))
                # What happened while there was no connection is told by nobody.
                self._updated(uri)
            lost = set()
            for uri in self._agreed - self._watched.keys():
                self._agreed.discard(uri)
                await self._ask(connection, "resources/unsubscribe", _uri(uri))
            if news is self._news:
                await news.wait()

    async def _ask(
        self,
        connection: Connection,
        method: str,
        members: bytes,
        sent: Callable[[bytes], None] | None = None,
    ) -> None:
        """A request of mcpd's own. What becomes of it is for the server's log; raises ConnectionLost."""
        try:
            await connection.exchange(method, members, b"", Slot(TIMEOUT, 0.0), sent)
        except Failure as e:
            self._remark(f"{method} failed: {e.message}")

    async def _keep_streams(self, connection: Connection) -> None:
        """One stream for all watched URIs, from which a new one takes over when they change (5.14)."""
        try:
            async with trio.open_nursery() as nursery:
                while True:
                    news = self._news
                    await self._take_over(connection, nursery)
                    if news is self._news:
                        await news.wait()
        finally:
            self._streams = []

    async def _take_over(self, connection: Connection, nursery: trio.Nursery) -> None:
        asked = frozenset(self._watched)
        if asked == (self._streams[-1].asked if self._streams else frozenset()):
            return
        stream = _Stream(asked, self._remark)
        self._streams.append(stream)
        if asked:
            nursery.start_soon(self._keep_stream, connection, stream)
            with trio.move_on_after(ACKNOWLEDGED):
                await stream.answered.wait()
        for older in self._streams[:-1]:
            older.scope.cancel()
        del self._streams[:-1]

    async def _keep_stream(self, connection: Connection, stream: _Stream) -> None:
        uris = msgspec.json.encode(sorted(stream.asked))
        members = b'"notifications":{"resourceSubscriptions":' + uris + b"}"

        async def hold() -> bool:
            better = await stream.subscription.hold(connection, members)
            if not better:
                self._acknowledged(stream, frozenset())
            return better

        with stream.scope:
            await again(hold)


class _Stream:
    """One subscription at a stateless server."""

    def __init__(self, asked: frozenset[str], remark: Callable[[str], None]) -> None:
        self.asked = asked
        self.honoured: frozenset[str] = frozenset()
        self.answered = trio.Event()
        """It has been acknowledged, or refused."""
        self.subscription = Subscription(remark)
        self.scope = trio.CancelScope()


def lies_in(uri: str, watched: str) -> bool:
    """Whether who watches one URI is told of the other: it is the same, or lies below it (5.3)."""
    if not uri.startswith(watched):
        return False
    return len(uri) == len(watched) or watched.endswith("/") or uri[len(watched)] in "/?#"


def _uri(uri: str) -> bytes:
    return b'"uri":' + msgspec.json.encode(uri)
