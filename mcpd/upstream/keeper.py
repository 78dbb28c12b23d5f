"""Keeps one server's catalogue true: from the cache, from the server, and after its notices (a22, D5)."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import trio
from msgspec.structs import replace

from mcpd import memory
from mcpd.catalog.tool import Catalog
from mcpd.changes import Changes
from mcpd.config.spec import Server
from mcpd.errors import Failure
from mcpd.protocol.pages import List
from mcpd.transport.base import ConnectionLost
from mcpd.upstream.attempt import at_once
from mcpd.upstream.cache import LEGACY_HOLDS, Cached, CatalogCache
from mcpd.upstream.connection import Connection
from mcpd.upstream.fetch import (
    LISTS,
    Part,
    Primitive,
    Redact,
    assemble,
    fetch_all,
    fetch_some,
    primitives,
)
from mcpd.upstream.gather import LARGE
from mcpd.upstream.listen import Listener
from mcpd.upstream.pace import Pace

log = logging.getLogger("mcpd.upstream")

#: What each notice is about.
NOTICES: Final[dict[str, Primitive]] = {f"notifications/{name}/list_changed": name for name in LISTS}

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class Keeper:
    """The owner of `catalog`, an immutable snapshot that is replaced whole, and of its cached copy.

    `told` is called after every change here; `remark` gets notes for the server's log; `redact` takes out of
    a definition what nobody is to read (n17); `examine` is given each catalogue before it is published.
    """

    def __init__(
        self,
        name: str,
        cache: CatalogCache,
        changes: Changes,
        told: Callable[[], None],
        remark: Callable[[str], None],
        redact: Redact = bytes,
        examine: Callable[[Catalog], Awaitable[None]] = at_once,
    ) -> None:
        self.catalog: Catalog | None = None
        self.verified = False
        """The server itself has told it since mcpd runs; a cache anybody may have written."""
        self.era = "auto"
        """What the server spoke last: "legacy", "modern", "sse" (3.4), or "auto" for not known (4.6)."""
        self._era_since = 0.0
        self._name = name
        self._cache = cache
        self._changes = changes
        self._told = told
        self._remark = remark
        self._redact = redact
        self._examine = examine
        self._publishing = trio.Lock()
        """Held from the making of a catalogue to its publishing: of two, the later one is published last."""
        self._connection: Connection | None = None
        """The one that the catalogue is kept by."""
        self._mirrored = False
        """Calls repeat arguments in headers, as the tools ask (3.3)."""
        self._url = False
        self._parts: dict[List, Part] = {}
        """What was read on this connection."""
        self._expires: dict[List, float] = {}
        """Until when each list is fresh, as the server says (trio clock)."""
        self._paces = {name: Pace() for name in LISTS}
        self.tools = self._paces["tools"]
        """The pace of the tools' list, which every call looks at."""
        self._to_store: Catalog | None = None
        self._storing = False
        self._listener = Listener(self.changed, remark)

    def restore(self, server: Server) -> Cached | None:
        """Begin with what is cached for this very definition, if anything."""
        cached = self._cache.load(server.name, server.digest, time.time())
        self._url = bool(server.url)
        self.catalog = cached.catalog if cached else None
        self.verified = False
        self.era = (cached.era if cached else "") or "auto"
        self._era_since = cached.verified_at if cached else 0.0
        return cached

    def follow(self, other: Keeper) -> None:
        """Begin with what the keeper of another instance of the same definition knows."""
        self._url = other._url
        self.catalog, self.verified = other.catalog, other.verified
        self.era, self._era_since = other.era, other._era_since

    def era_now(self) -> str:
        """The era to begin with; an older one is asked anew after a day, servers are updated (4.6)."""
        if self.era in ("legacy", "sse") and not 0 <= time.time() - self._era_since <= LEGACY_HOLDS:
            self.era = "auto"
        return self.era

    def settle_era(self, era: str) -> None:
        """The server has just spoken so; "auto" where that says nothing for the next time."""
        if era != self.era:
            self.era = era
            self._era_since = time.time()

    # ------------------------------------------------------------ what is stale

    def pace(self, primitive: Primitive) -> Pace:
        """Whether and since when the lists of a primitive are stale."""
        return self._paces[primitive]

    def look(self, primitive: Primitive) -> None:
        """Somebody is about to see the lists of a primitive: they become stale if their time is over and
        nobody would announce a change (5.18). Older servers' tools change with an announcement only."""
        connection = self._connection
        if connection is None:
            return
        known = [method for method in LISTS[primitive] if method in self._parts]
        if not any(self._parts[method].failed for method in known):
            if self._listener.announces(connection, primitive):
                return
            if primitive == "tools" and not connection.settled.revision.stateless:
                return
            now = trio.current_time()
            if all(now < self._expires[method] for method in known):
                return
        self.changed(primitive)

    def notice(self, method: str, params: bytes) -> None:
        """Take a notification of the server; those that are no matter of the lists are passed over."""
        if method == ACKNOWLEDGED:
            self._listener.acknowledged(params)
        elif method in NOTICES and not self._is_unasked(params):
            self.changed(NOTICES[method])

    def _is_unasked(self, params: bytes) -> bool:
        """Whether a notice came without a stream where the era does not have that (4.8)."""
        connection = self._connection
        return connection is not None and (
            connection.settled.revision.stateless and not self._listener.heard(params)
        )

    def changed(self, primitive: Primitive) -> None:
        """The lists of a primitive are not what they were: they are stale until they were read again."""
        connection = self._connection
        if connection is None or primitive in primitives(connection.settled.capabilities):
            self._paces[primitive].notice()

    # ------------------------------------------------------------------- fetching

    async def fetch(self, connection: Connection) -> Catalog:
        """Read the whole catalogue, for `take`. Raises ServerError, Failure and ConnectionLost."""
        self._mirrored = self._url and connection.settled.revision.stateless
        begun = {name: pace.begin() for name, pace in self._paces.items()}
        began = trio.current_time()
        before = self.catalog or Catalog()
        parts = await fetch_all(connection, before, mirrored=self._mirrored, redact=self._redact)
        self._parts = dict(parts)
        self._expires = {method: began + part.ttl for method, part in parts.items()}
        catalog = assemble(connection, parts, self._redact)
        if catalog == self.catalog:
            catalog = self.catalog
        await self._examine(catalog)
        for name, pace in self._paces.items():
            pace.end(begun[name], changed=self.catalog is None or _differs(name, before, catalog))
            if any(parts[method].failed for method in LISTS[name] if method in parts):
                # It gets a second chance in its own time, nobody waits for it.
                pace.fail(begun[name])
        return catalog

    def take(self, catalog: Catalog) -> None:
        """Publish a catalogue that was fetched."""
        news, verified = catalog != self.catalog, self.verified
        self.verified = True
        if news:
            self.catalog = catalog
            for warning in catalog.warnings[:20]:
                log.warning("MCP '%s': %s", self._name, warning)
        if news or not verified:
            self._changes.publish("catalog", self._name)

    async def store(self, server: Server, connection: Connection, catalog: Catalog) -> None:
        """Keep the catalogue for times when the server does not run. Of two, the later is written last."""
        self._to_store = catalog
        if self._storing:
            return
        self._storing = True
        try:
            while (known := self._to_store) is not None:
                self._to_store = None
                revision = connection.settled.revision.name
                store = partial(
                    self._cache.store, server.name, server.digest, known, self.era, revision, time.time()
                )
                if sum(part.size for part in self._parts.values()) < LARGE:
                    store()
                else:
                    # It takes its time; the loop is for others meanwhile.
                    await trio.to_thread.run_sync(store)
                    await trio.to_thread.run_sync(memory.give_back)
        finally:
            self._storing = False

    async def keep(self, server: Server, connection: Connection) -> None:
        """Fetch again after notices: of each primitive one refetch running, one waiting, storms paced.
        Until cancelled, or the connection is lost."""
        self._connection = connection
        advertised = primitives(connection.settled.capabilities)
        for primitive in self._paces.keys() - advertised:
            self._paces[primitive] = Pace()
        self.tools = self._paces["tools"]
        try:
            async with trio.open_nursery() as nursery:
                for primitive in advertised:
                    nursery.start_soon(self._keep, server, connection, primitive)
        finally:
            self._connection = None

    async def _keep(self, server: Server, connection: Connection, primitive: Primitive) -> None:
        pace = self._paces[primitive]
        while True:
            await pace.turn()
            before = self.catalog
            begun = pace.begin()
            try:
                failures = await self._refetch(connection, primitive, begun)
            except ConnectionLost:
                return
            for method, failure in failures.items():
                self._remark(f"{method} failed: {failure.message}")
            self._told()
            if self.catalog is not None and self.catalog != before:
                await self.store(server, connection, self.catalog)

    async def _refetch(self, connection: Connection, primitive: Primitive, begun: int) -> dict[List, Failure]:
        """Read the lists of one primitive again and publish what has changed. Raises ConnectionLost."""
        pace = self._paces[primitive]
        began = trio.current_time()
        found, failures = await fetch_some(
            connection,
            primitive,
            self._parts,
            self.catalog or Catalog(),
            mirrored=self._mirrored,
            redact=self._redact,
        )
        for method, part in found.items():
            self._parts[method] = part
            self._expires[method] = began + part.ttl
        for method in failures:
            self._parts[method] = replace(self._parts[method], failed=True)
        async with self._publishing:
            catalog = assemble(connection, self._parts, self._redact)
            if catalog == self.catalog:
                catalog = self.catalog
            else:
                await self._examine(catalog)
            if failures:
                pace.fail(begun)
            else:
                pace.end(begun, changed=_differs(primitive, self.catalog or Catalog(), catalog))
            self.take(catalog)
        return failures

    async def listen(self, connection: Connection) -> None:
        """Ask for what the server offers to announce (5.14). Until cancelled."""
        await self._listener.run(connection)


def _differs(primitive: Primitive, before: Catalog, after: Catalog) -> bool:
    match primitive:
        case "tools":
            return before.tools != after.tools
        case "prompts":
            return before.prompts != after.prompts
        case "resources":
            return before.resources != after.resources or before.templates != after.templates
