"""What one session is told without asking: that a list has changed, that a resource has, what servers log.

Everything here is about what this agent was shown or asked for, never a broadcast (n03).
"""

from __future__ import annotations

import contextlib
from typing import Protocol

import trio

from mcpd.broker import Broker
from mcpd.catalog import qualify
from mcpd.catalog.wrappers import READ_RESOURCE
from mcpd.entries import Kind, Listing
from mcpd.errors import Failure
from mcpd.listing import view_now, wanted
from mcpd.policy.decide import Deny
from mcpd.protocol import dialect
from mcpd.protocol.jsonrpc import quoted
from mcpd.protocol.shapes import USUAL_LEVEL, ListenFilter
from mcpd.rows import ViewKey
from mcpd.upstream.wishes import Tell
from mcpd.views import View

#: Seconds in which a resource that changes again and again is told of once.
SPACING = 0.05

#: Log messages of all servers that pass at once, and a second after that; of the others the number is told.
LOGS = 200
LOGS_REFILL = 50.0

#: What is said when a listing of one of the kinds has changed, and which wish is for it (5.14).
CHANGES: tuple[tuple[str, str, tuple[Kind, ...]], ...] = (
    ("notifications/tools/list_changed", "tools_list_changed", ("tools",)),
    ("notifications/prompts/list_changed", "prompts_list_changed", ("prompts",)),
    ("notifications/resources/list_changed", "resources_list_changed", ("resources", "templates")),
)


class Told(Protocol):
    """The session, as far as it is told something."""

    id: str
    broker: Broker
    key: ViewKey

    @property
    def handshaken(self) -> bool:
        """Whether there was a handshake, so that notices come unasked."""
        ...

    @property
    def behind(self) -> bool:
        """Whether the agent does not read what it is sent."""
        ...

    async def drained(self) -> None:
        """Wait until it has read everything."""
        ...

    def notice(self, method: str, params: bytes, on: bytes = b"") -> None:
        """Send a notification, unless the agent is behind. `on`: the request it belongs to, if any."""
        ...


class Notices:
    """The owner of what the session was shown and asked to hear. `nursery` is the session's."""

    def __init__(self, told: Told, nursery: trio.Nursery) -> None:
        self.listed: dict[Kind, Listing] = {}
        """What the agent was shown last of each kind; with a handshake, a notice follows when that is
        no longer true."""
        self.streams: dict[bytes, Stream] = {}
        """Open `subscriptions/listen` requests."""
        self._told = told
        self._nursery = nursery
        self._level: int | None = None
        self._waiting = False
        self._updates: dict[tuple[bytes, str, str], str] = {}
        """(stream, server, watched URI) -> the URI that changed last, not told yet."""
        self._telling = False
        self._logs = float(LOGS)
        self._logged = 0.0
        self._unlogged = 0

    # ------------------------------------------------------------ changed lists

    def changed(self) -> None:
        """Catalogues or servers changed: say so where this agent's listings did (a22, b23)."""
        self._spread_level()
        if self._waiting or not (self.listed or self.streams):
            return
        if self._told.behind:
            # It hears once, when it has caught up, that things have changed.
            self._waiting = True
            self._nursery.start_soon(self._change_later)
            return
        try:
            view = view_now(self._told.broker, self._told.key)
        except Failure:
            return  # its agent is gone from the configuration
        for method, wish, kinds in CHANGES:
            if self._told.handshaken:
                if self._moved(view, kinds):
                    self._told.notice(method, b"{}")
                continue
            for on, stream in self.streams.items():
                if getattr(stream.filtered, wish) and stream.moved(view, kinds):
                    self._told.notice(method, dialect.params(b"", dialect.subscription_meta(stream.key)), on)

    def _moved(self, view: View, kinds: tuple[Kind, ...]) -> bool:
        moved = False
        for kind in kinds:
            if kind in self.listed:
                now = view.listing(kind)
                moved = moved or now.number != self.listed[kind].number
                self.listed[kind] = now
        return moved

    async def _change_later(self) -> None:
        await self._told.drained()
        self._waiting = False
        self.changed()

    # -------------------------------------------------------------- streams

    def open(self, on: bytes, key: bytes, filtered: ListenFilter) -> None:
        """The stream of the request `on` has been acknowledged; `key`: its id in what is told on it."""
        view = view_now(self._told.broker, self._told.key)
        self.streams[on] = Stream(key, filtered, view)
        self._begin_telling()

    def close(self, on: bytes) -> None:
        self.streams.pop(on, None)
        for update in [update for update in self._updates if update[0] == on]:
            del self._updates[update]

    # ------------------------------------------------------------ resources

    def teller(self, server: str, on: bytes = b"") -> Tell:
        """What tells the agent of a server's changed resources: unasked, or on the stream `on`, from when
        that is open on."""

        def tell(watched: str, uri: str) -> None:
            self._updates[on, server, watched] = uri
            self._begin_telling()

        return tell

    def _begin_telling(self) -> None:
        if self._updates and not self._telling:
            self._telling = True
            self._tell_updates()
            self._nursery.start_soon(self._tell_on)

    async def _tell_on(self) -> None:
        """Tell what gathers, at most once in SPACING seconds of each resource."""
        while True:
            await trio.sleep(SPACING)
            if self._told.behind:
                await self._told.drained()
            if not self._tell_updates():
                self._telling = False
                return

    def _tell_updates(self) -> bool:
        """Tell of every update that is due; whether there was one."""
        if self._told.behind:
            return True
        due = [update for update in self._updates if not update[0] or update[0] in self.streams]
        for update in due:
            on, server, _ = update
            self._tell_update(on, server, self._updates.pop(update))
        return bool(due)

    def _tell_update(self, on: bytes, server: str, uri: str) -> None:
        try:
            view = view_now(self._told.broker, self._told.key)
        except Failure:
            return  # its agent is gone from the configuration
        row = view.native(server, READ_RESOURCE, "resources/read")
        if row is None or isinstance(row.decision, Deny):
            return  # it was allowed when the agent asked
        name = uri if view.alone else qualify.qualified(server, uri)
        meta = dialect.subscription_meta(self.streams[on].key) if on else b""
        params = dialect.params(b'"uri":' + quoted(name), meta)
        params = self._told.broker.held_values.json(params)
        self._told.notice("notifications/resources/updated", params, on)

    # ------------------------------------------------------------------ logs

    @property
    def level(self) -> int:
        """The rank from which on an agent with a handshake hears of logs."""
        return USUAL_LEVEL if self._level is None else self._level

    def set_level(self, rank: int) -> None:
        self._level = rank
        self._spread_level()

    def _spread_level(self) -> None:
        """Every server that the agent may use learns of its wish, also one that came later."""
        if self._level is None:
            return
        # An agent that is gone from the configuration may use none.
        with contextlib.suppress(Failure):
            for upstream in wanted(self._told.broker, self._told.key):
                upstream.wishes.want_level(self._told.id, self._level)

    def log(self, server: str, raw: bytes, on: bytes) -> None:
        """Pass on a log message that belongs to a request of this session. Storms are cut (n03)."""
        now = trio.current_time()
        self._logs = min(LOGS, self._logs + (now - self._logged) * LOGS_REFILL)
        self._logged = now
        if self._logs < 1 or self._told.behind:
            self._unlogged += 1
            return
        self._logs -= 1
        if self._unlogged:
            self._told.notice("notifications/message", dialect.left_out_logs(self._unlogged), on)
            self._unlogged = 0
        params = dialect.log_params(raw, "" if self._told.key[1] else server)
        if params is not None:
            params = self._told.broker.held_values.json(params)
            self._told.notice("notifications/message", params, on)


class Stream:
    """An open `subscriptions/listen` request, and which lists were true when it was told last."""

    def __init__(self, key: bytes, filtered: ListenFilter, view: View) -> None:
        self.key = key
        self.filtered = filtered
        self._numbers: dict[Kind, int] = {}
        for _, wish, kinds in CHANGES:
            if getattr(filtered, wish):
                self.moved(view, kinds)

    def moved(self, view: View, kinds: tuple[Kind, ...]) -> bool:
        """Whether a listing of these kinds is another than at the last look."""
        now = {kind: view.listing(kind).number for kind in kinds}
        before = {kind: self._numbers.get(kind) for kind in kinds}
        self._numbers |= now
        return now != before
