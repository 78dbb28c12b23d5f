"""One request of one session while it is served, and the row of a method's table."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from math import inf

import msgspec
import trio
from msgspec.structs import replace

from mcpd.agents.parked import Call
from mcpd.agents.session import Session
from mcpd.journal import About, Entry
from mcpd.protocol import dialect
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.shapes import LEVELS, Carrier, Meta, read_params
from mcpd.rows import Row
from mcpd.transport.pending import Ask
from mcpd.upstream.ticket import Ticket

#: Progress notices of one request that are passed on at once, and a second after that; the rest is dropped.
PROGRESS = 10.0
PROGRESS_REFILL = 20.0
#: Bytes of one that passes.
NEWS = 64 * 1024


class Request(msgspec.Struct, eq=False):
    """A request, its era settled; towards a server it is the asker (`transport.pending.Asker`)."""

    by: Session
    message: Message
    key: bytes
    """Its id's JSON text, as it stands in the answer."""
    on: bytes
    """What it is called among the session's own requests."""
    ticket: Ticket
    params: bytes
    """The params' JSON text, empty when absent."""
    meta: Meta | None = None
    """Of a stateless request; of others it is read when it is asked for."""
    abilities: Ability = NONE
    """What it can be asked: declared by the agent's handshake, or with a stateless request."""
    extensions: bytes = b""
    """What a stateless agent has declared with it besides."""
    row: Row | None = None
    """What it asks of a server, once that is found."""
    token: bytes | None = None
    """The JSON text of its progress token, empty for none, once that is asked for."""
    progress: float = PROGRESS
    """Progress notices that may be passed on at once..."""
    noticed: float = -inf
    """...as counted then (trio clock)."""
    parked: Call | None = None
    """Where it waits for the agent's answers, if it does."""
    whole: tuple[str, str] | None = None
    """Its identity, once that is asked for."""

    @property
    def stateless(self) -> bool:
        return self.meta is not None

    def record(self, because: str) -> None:
        """That it was done; for what has nothing to decide and reaches servers by words of mcpd's (n12)."""
        about, row = About(method=self.message.method), self.row
        if row is not None:
            about = replace(about, server=row.upstream.name, destination=row.destination, tool=row.tool.name)
        self.by.broker.journal.record(
            Entry(
                caller=self.by.caller,
                about=about,
                because=because,
                outcome="ok",
                request_bytes=len(self.params),
            )
        )

    # -------------------------------------------------- what a server is told

    @property
    def session(self) -> str:
        return self.by.id

    @property
    def party(self) -> str:
        """Stateless requests of one session may come from several processes, so each stands for itself."""
        return self.by.id if self.meta is None else f"{self.by.id} {self.on.decode()}"

    @property
    def makes_tasks(self) -> bool:
        # Of many servers together no tool is shown to insist.
        return self.by.revision is not None and self.by.revision.tasks and bool(self.by.key[1])

    @property
    def tool(self) -> str:
        return self.row.tool.name if self.row is not None else ""

    @property
    def takes_secrets(self) -> bool:
        return self.row is not None and self.row.ruling.takes_secrets

    @property
    def identity(self) -> tuple[str, str]:
        """Its method, and a digest of all that it asks for: name, arguments, URI. Raises Failure."""
        if self.whole is None:
            self.whole = self.message.method, digest(self.params)
        return self.whole

    @property
    def level(self) -> int | None:
        """The rank of the lowest log messages that the agent wants; None for none at all (5.6)."""
        if self.meta is None:
            return self.by.notices.level
        said = self.meta.log_level
        return LEVELS.index(said) if said in LEVELS else None

    # ----------------------------------------------- what a server says to it

    def progressed(self, raw: bytes) -> None:
        """Progress goes on to the agent under its own token, if it gave one (5.8)."""
        if self.parked is not None and self.parked.waiter is not self:
            if self.parked.waiter is not None:
                self.parked.waiter.progressed(raw)
            return
        if self.token is None:
            self.token = self._read_token()
        now = trio.current_time()
        credit = min(PROGRESS, self.progress + (now - self.noticed) * PROGRESS_REFILL)
        if not self.token or credit < 1:
            return
        params = dialect.progress_params(raw, self.token) if len(raw) <= NEWS else None
        if params is not None:
            self.progress, self.noticed = credit - 1, now
            params = self.by.broker.held_values.json(params)
            self.by.notice("notifications/progress", params, self.on)

    def _read_token(self) -> bytes:
        meta = self.meta or read_params(self.params, Carrier).meta
        token = bytes(meta.progress_token)
        return b"" if token == b"null" else token

    def asked(self, ask: Ask) -> None:
        """A question of the server: put to the agent, or kept for the answer to this request (8.2)."""
        if self.meta is None:
            self.by.asks.put(self, ask)
        else:
            self.by.parked.put(self, ask)

    def logged(self, raw: bytes) -> None:
        """A log message of the server about this request, important enough for it."""
        if self.parked is not None and self.parked.waiter is not self:
            if self.parked.waiter is not None:
                self.parked.waiter.logged(raw)
            return
        if self.row is not None:
            self.by.notices.log(self.row.upstream.name, raw, self.on)


#: What may differ between a request and its retry (5.13).
_ROUND = ("_meta", "inputResponses", "requestState")


def digest(params: bytes) -> str:
    """A fingerprint of params, whatever the order and spelling of their members.

    Raises Failure `invalid_params` for what is no object, or has odd names.
    """
    members = read_params(params, dict[str, msgspec.Raw])
    kept = {name: _plain(value) for name, value in members.items() if name not in _ROUND}
    text = msgspec.json.encode(kept, order="deterministic")
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _plain(value: msgspec.Raw) -> msgspec.Raw:
    """JSON text in the one way to write it; what has none, as a number that nothing here holds, as it is."""
    try:
        return msgspec.Raw(msgspec.json.encode(msgspec.json.decode(value), order="deterministic"))
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        return value


Handler = Callable[[Session, Request], Awaitable[bytes]]


class Method(msgspec.Struct, frozen=True):
    """A row of the table. The handler returns the result's JSON text."""

    handler: Handler
    begin: Callable[[Session, Request], bool] | None = None
    """Begins what has to wait for nothing but one answer of a server, see `serve.begin`."""
    handshake: bool = True
    """Known in the revisions with a handshake."""
    stateless: bool = True
    """Known in 2026-07-28."""
    unopened: bool = False
    """Served before any handshake (4.1)."""
