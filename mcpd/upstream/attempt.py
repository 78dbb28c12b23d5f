"""One attempt to reach a server that is a process: start it, and settle the revision with it."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import trio

from mcpd.catalog.tool import Catalog
from mcpd.changes import Changes
from mcpd.config.accepted import Launched
from mcpd.config.spec import Server
from mcpd.protocol.abilities import Ability
from mcpd.secrets.held import HeldValues
from mcpd.transport.base import ConnectFailed, Inherited
from mcpd.transport.pending import Asker, Deadlines
from mcpd.transport.reader import Reader
from mcpd.transport.stdio import StderrRing, Stdio
from mcpd.upstream import launch
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.connection import Connection, Noticed
from mcpd.upstream.instance import Scope
from mcpd.upstream.link import Link
from mcpd.upstream.opening import Opening
from mcpd.upstream.relay import Relay

#: Seconds for a whole attempt up to the catalogue (c12).
STDIO_TIMEOUT = 30.0
LAUNCHER_TIMEOUT = 120.0


async def at_once(*_: object) -> None:
    """Nothing has to be done before."""


class Surroundings(msgspec.Struct, frozen=True):
    """What every upstream shares; owned by the fleet."""

    environ: Mapping[str, str]
    marker: str
    """Prefix of the marker that every child bears; a number and a dot follow."""
    spawns: itertools.count[int]
    deadlines: Deadlines
    reader: Reader
    changes: Changes
    cache: CatalogCache
    inherited: Inherited
    """What children get, where the daemon has something else."""
    held_values: HeldValues
    """Takes out of a server's words what nobody is to read (n17)."""
    spawned: Callable[[int], None]
    """Told the pid of each server process that was started..."""
    ended: Callable[[int], None]
    """...and when all of its tree is gone."""
    sole: Callable[[str, Scope], Asker | None]
    """The one attached session that may use an instance of a server; None for several, and for one that
    cannot be asked unasked."""
    available: Callable[[str, Scope], Ability]
    """What the attached sessions that may use the server of this name can be asked."""
    known_launch: Callable[[Server], Launched | None] = lambda server: None
    """What the launcher of a server was found to start, and may (n09)."""
    launched: Callable[[Server, Launched], str] = lambda server, found: ""
    """Told what it starts now; why the server must not run by that, empty when it may."""
    examine: Callable[[Server, Catalog], Awaitable[None]] = at_once
    """Given each catalogue before anybody sees it, for what takes its time (n09)."""


def opening_for(server: Server, known: str, capabilities: dict[str, Any]) -> Opening:
    """How the conversation begins; what the definition says comes before what is `known` (4.6)."""
    match server.protocol:
        case "auto":
            return Opening(known, capabilities=capabilities)
        case "legacy":
            return Opening("legacy", pinned=True, capabilities=capabilities)
        case _:
            return Opening("modern", pinned=True)


class Attempt:
    """What is started here lives in `nursery` and cleans up behind itself when that is cancelled.

    `noticed` is told what the server announces, `withdraw` called when the connection is lost, `started`
    told the pid of each process, `relay` gets what the server asks.
    """

    def __init__(
        self,
        server: Server,
        around: Surroundings,
        ring: StderrRing,
        nursery: trio.Nursery,
        noticed: Noticed,
        withdraw: Callable[[], None],
        started: Callable[[int], None],
        relay: Relay,
    ) -> None:
        self.server = server
        self._around = around
        self._ring = ring
        self._nursery = nursery
        self._noticed = noticed
        self._withdraw = withdraw
        self._started = started
        self._relay = relay
        self.marker = ""
        """Which the processes of the last start bear."""
        self.verdict = "auto"
        """The era to remember, once `open` has returned."""

    @property
    def limit(self) -> float:
        """Seconds for the whole attempt, the catalogue included; infinite where that is switched off."""
        usual = LAUNCHER_TIMEOUT if launch.is_launcher(self.server) else STDIO_TIMEOUT
        own = self.server.connect_timeout
        return usual if own is None else own or float("inf")

    @property
    def late(self) -> str:
        """What is said when the time is over before the catalogue is there."""
        return f"no answer within {self.limit:g} s"

    async def open(self, known: str) -> tuple[Link, Connection]:
        """`known`: what the server spoke before, "legacy", "modern" or "auto". Raises ConnectFailed."""
        capabilities = self._relay.begin(self.server)
        link = await self._start(opening_for(self.server, known, capabilities))
        try:
            return link, await self._settle(link)
        except ConnectFailed as e:
            if e.reason != "exited" or not link.opening.fresh_may_help:
                raise
        # Some older servers leave on anything before `initialize`: once more, in their way (4.4).
        link = await self._start(Opening("legacy", pinned=True, capabilities=capabilities))
        return link, await self._settle(link)

    async def _start(self, opening: Opening) -> Link:
        around = self._around
        self.marker = marker = f"{around.marker}{next(around.spawns)}."
        plan = launch.plan(self.server, around.environ, marker)
        process = await Stdio.spawn(plan, self._ring, self._nursery, around.reader, around.inherited)
        link = Link(process, opening, around.deadlines, self._noticed, self._remark, relay=self._relay)
        self._nursery.start_soon(self._run, process, link)
        self._started(process.pid)
        return link

    async def _run(self, process: Stdio, link: Link) -> None:
        self._around.spawned(process.pid)
        try:
            await process.run(link)
        finally:
            self._around.ended(process.pid)

    async def _settle(self, link: Link) -> Connection:
        try:
            connection = await link.open()
            self.verdict = link.opening.verdict
            return connection
        except ConnectFailed as e:
            if e.reason != "exited":
                raise
            last = self._ring.last_words()
            words = f"{e.message}; it wrote: {last}" if last else e.message
            raise ConnectFailed("exited", words) from None
        finally:
            link.withdraw = self._withdraw

    def _remark(self, text: str) -> None:
        self._ring.add(f"[mcpd] {text}")
