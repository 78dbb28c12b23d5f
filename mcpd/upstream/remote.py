"""One attempt to reach a remote server: the transports it may speak, in the order of 3.6."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import trio

from mcpd.catalog.mirror import Mirror
from mcpd.catalog.tool import Catalog
from mcpd.config.spec import Server
from mcpd.transport.base import ConnectFailed, Receiver, Sender
from mcpd.transport.stdio import StderrRing
from mcpd.upstream.attempt import Surroundings, opening_for
from mcpd.upstream.connection import Connection, Noticed
from mcpd.upstream.link import Link
from mcpd.upstream.opening import FINAL, Opening
from mcpd.upstream.relay import Relay

if TYPE_CHECKING:
    from mcpd.http import Client

#: Seconds for a whole attempt up to the catalogue (c12).
TIMEOUT = 10.0

#: Seconds that closing the connections may take.
CLOSING = 2.0


class Transport(Sender, Protocol):
    async def run(self, receiver: Receiver) -> None: ...


class Remote:
    """What is started here lives in `nursery` and cleans up behind itself when that is cancelled.

    `noticed` is told what the server announces, `withdraw` called when the connection is lost; `catalog`
    says what the server offers now, `relay` gets what it asks.
    """

    def __init__(
        self,
        server: Server,
        around: Surroundings,
        ring: StderrRing,
        nursery: trio.Nursery,
        noticed: Noticed,
        withdraw: Callable[[], None],
        catalog: Callable[[], Catalog | None],
        relay: Relay,
    ) -> None:
        self.server = server
        self._around = around
        self._ring = ring
        self._nursery = nursery
        self._noticed = noticed
        self._withdraw = withdraw
        self._relay = relay
        self._mirrors = Mirrors(catalog)
        self._link: Link | None = None
        self._heard: list[tuple[str, str]] = []
        """Of transports that were given up: what was asked, and what came instead of an answer."""
        self.verdict = "auto"
        """The era to remember, once `open` has returned."""

    @property
    def limit(self) -> float:
        """Seconds for the whole attempt, the catalogue included; infinite where that is switched off."""
        own = self.server.connect_timeout
        return TIMEOUT if own is None else own or math.inf

    @property
    def late(self) -> str:
        """What is said when the time is over before the catalogue is there."""
        heard = self._heard + (self._link.opening.heard if self._link is not None else [])
        return report(heard, f"no answer within {self.limit:g} s")

    async def open(self, known: str) -> tuple[Link, Connection]:
        """`known`: what the server spoke before: "legacy", "modern", "sse" or "auto". Raises ConnectFailed.

        The old HTTP+SSE transport comes first only where it was spoken last; else it is tried when
        `initialize` was refused as its servers do.
        """
        failed: ConnectFailed | None = None
        for older in _ways(self.server.protocol, known):
            capabilities = self._relay.begin(self.server)
            if older:
                opening = Opening("legacy", pinned=True, capabilities=capabilities)
            else:
                opening = opening_for(self.server, _era(known), capabilities)
            scope = trio.CancelScope()
            link = self._link = await self._start(older, opening, scope)
            try:
                connection = await link.open()
            except ConnectFailed as e:
                scope.cancel()
                self._heard += opening.heard or [("GET" if older else "POST", e.message)]
                self._link = None
                failed = failed or e
                if e.reason in FINAL or e.lasting or not (older or opening.older_may_help):
                    failed = e
                    break
            else:
                self.verdict = "sse" if older else opening.verdict
                link.withdraw = self._withdraw
                return link, connection
        assert failed is not None
        raise ConnectFailed(failed.reason, report(self._heard, failed.message), lasting=failed.lasting)

    async def _start(self, older: bool, opening: Opening, scope: trio.CancelScope) -> Link:
        around = self._around
        # The first time, importing and reading the certificates takes a tenth of a second.
        client = await trio.to_thread.run_sync(_client, self.server.url, around)
        transport = self._transport(client, older)
        link = Link(
            transport,
            opening,
            around.deadlines,
            self._noticed,
            self._remark,
            silence=math.inf,
            relay=self._relay,
        )
        self._nursery.start_soon(self._run, transport, link, client, scope)
        return link

    def _transport(self, client: Client, older: bool) -> Transport:
        server = self.server
        if older:
            from mcpd.transport.legacy_sse import LegacySse

            return LegacySse(client, server.url, server.headers, self._remark)
        from mcpd.transport.http import Http

        return Http(client, server.url, server.headers, self._mirrors.of, self._remark)

    async def _run(self, transport: Transport, link: Link, client: Client, scope: trio.CancelScope) -> None:
        try:
            with scope:
                await transport.run(link)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSING):
                await client.aclose()

    def _remark(self, text: str) -> None:
        self._ring.add(f"[mcpd] {text}")


class Mirrors:
    """Which arguments of a tool are repeated in headers, by the catalogue of the moment (3.3)."""

    def __init__(self, catalog: Callable[[], Catalog | None]) -> None:
        self._catalog = catalog
        self._read: Catalog | None = None
        self._found: dict[str, tuple[Mirror, ...]] = {}

    def of(self, tool: str) -> tuple[Mirror, ...]:
        catalog = self._catalog()
        if catalog is not self._read:
            self._read = catalog
            tools = catalog.tools if catalog is not None else ()
            self._found = {tool.name: tool.mirrors for tool in tools if tool.mirrors}
        return self._found.get(tool, ())


def report(heard: list[tuple[str, str]], last: str) -> str:
    """Every answer that came, for a person; `last` is why the attempt ended."""
    said = {words for _, words in heard}
    if said <= {last}:
        return last
    answers = "; ".join(f"{asked}: {words}" for asked, words in heard)
    return answers if any(words in last for words in said) else f"{answers}; {last}"


def _ways(protocol: str, known: str) -> tuple[bool, ...]:
    """The transports to try, in order; True is the old HTTP+SSE one."""
    if protocol not in ("auto", "legacy"):
        return (False,)
    return (True, False) if known == "sse" else (False, True)


def _era(known: str) -> str:
    return "auto" if known == "sse" else known


def _client(url: str, around: Surroundings) -> Client:
    """The first remote loads what speaks HTTP; a daemon with processes alone never does.

    Raises ConnectFailed where the URL, a proxy or the certificates cannot be used.
    """
    from mcpd.http import Client, HttpFailed

    try:
        return Client(url, around.environ)
    except HttpFailed as e:
        raise ConnectFailed(e.reason, e.message, lasting=True) from None
