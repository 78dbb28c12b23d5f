"""Keeps one server's catalogue true: from the cache, from the server, and after its notices (a22, D5)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

import trio

from mcpd.catalog.tool import Catalog
from mcpd.changes import Changes
from mcpd.config.spec import Server
from mcpd.errors import Failure, ServerError
from mcpd.transport.base import ConnectionLost
from mcpd.transport.pending import Slot
from mcpd.upstream.cache import LEGACY_HOLDS, Cached, CatalogCache
from mcpd.upstream.connection import Connection
from mcpd.upstream.fetch import LARGE, fetch_catalog

log = logging.getLogger("mcpd.upstream")

#: Refetches are free up to this burst, then one a second, whatever a server sends.
REFETCH_BURST = 3
REFETCH_REFILL = 1.0

#: A server that announces changes where there are none is believed so many times in a row; after that
#: nobody waits for its refetches, and they get rarer, up to one a minute.
FRUITLESS = 2
FRUITLESS_FORGOTTEN = 10.0
REFETCH_REFILL_MAX = 60.0

#: Seconds until a lost subscription is asked for again; doubles up to a minute.
LISTEN_AGAIN = 1.0
LISTEN_AGAIN_MAX = 60.0

TOOLS_CHANGED = "notifications/tools/list_changed"

_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602


class Keeper:
    """The owner of `catalog`, an immutable snapshot that is replaced whole, and of its cached copy.

    `told` is called after every change here; `remark` gets notes for the server's log.
    """

    def __init__(
        self,
        name: str,
        cache: CatalogCache,
        changes: Changes,
        told: Callable[[], None],
        remark: Callable[[str], None],
    ) -> None:
        self.catalog: Catalog | None = None
        self.stale = False
        """A list_changed notice came and the refetch is not through yet."""
        self.era = "auto"
        """What the server spoke last: "legacy", "modern", "sse" (3.4), or "auto" for not known (4.6)."""
        self._era_since = 0.0
        self._name = name
        self._cache = cache
        self._changes = changes
        self._told = told
        self._remark = remark
        self.stale_since = 0.0
        """When the catalogue became stale (trio clock)."""
        self._wanted = trio.Event()
        self._notices = 0
        self._fruitless = 0
        self._uncovered = 0.0
        """When the first notice came that no fetch has been begun after; 0 for none."""
        self._noticed = 0.0
        """When the last notice came (trio clock)."""

    def restore(self, server: Server) -> Cached | None:
        """Begin with what is cached for this very definition, if anything."""
        cached = self._cache.load(server.name, server.digest, time.time())
        self.catalog = cached.catalog if cached else None
        self.era = (cached.era if cached else "") or "auto"
        self._era_since = cached.verified_at if cached else 0.0
        return cached

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

    def notice(self, method: str, params: bytes) -> None:
        """Take a notification of the server."""
        if method == TOOLS_CHANGED:
            self._changed()

    def _changed(self) -> None:
        """The list is not what it was."""
        now = trio.current_time()
        if now - self._noticed > FRUITLESS_FORGOTTEN:
            self._fruitless = 0
        self._noticed = now
        if not self._uncovered:
            self._uncovered = now
        if not self.stale and self._fruitless < FRUITLESS:
            self.stale = True
            self.stale_since = now
        self._notices += 1
        self._wanted.set()

    async def fetch(self, connection: Connection) -> Catalog:
        """Read the catalogue, for `take`. Raises what `fetch_catalog` raises."""
        self._wanted = trio.Event()
        self._uncovered = 0.0
        noticed = self._notices
        catalog = await fetch_catalog(connection)
        self._fruitless = 0 if catalog != self.catalog else self._fruitless + 1
        # A notice that came meanwhile is answered by the next fetch.
        self.stale = noticed != self._notices and self._fruitless < FRUITLESS
        self.stale_since = self._uncovered
        return catalog

    def take(self, catalog: Catalog) -> None:
        """Publish a catalogue that was fetched."""
        if catalog != self.catalog:
            self.catalog = catalog
            for warning in catalog.warnings[:20]:
                log.warning("MCP '%s': %s", self._name, warning)
            self._changes.publish("catalog", self._name)

    async def store(self, server: Server, connection: Connection, catalog: Catalog) -> None:
        """Keep the catalogue for times when the server does not run."""
        revision = connection.settled.revision.name
        store = partial(
            self._cache.store, server.name, server.digest, catalog, self.era, revision, time.time()
        )
        if sum(len(tool.rest) for tool in catalog.tools) < LARGE:
            store()
        else:
            # It takes its time; the loop is for others meanwhile.
            await trio.to_thread.run_sync(store)

    async def keep(self, server: Server, connection: Connection) -> None:
        """Fetch again after notices: one refetch running, one waiting, storms paced. Until cancelled."""
        credit = float(REFETCH_BURST)
        then = trio.current_time()
        while True:
            await self._wanted.wait()
            now = trio.current_time()
            rarer = 2.0 ** min(max(0, self._fruitless - FRUITLESS), 10)
            refill = min(REFETCH_REFILL * rarer, REFETCH_REFILL_MAX)
            credit = min(REFETCH_BURST, credit + (now - then) / refill)
            then = now
            if credit < 1:
                await trio.sleep((1 - credit) * refill)
                continue
            credit -= 1
            noticed = self._notices
            try:
                catalog = await self.fetch(connection)
            except ConnectionLost:
                return
            except Failure as e:
                # Nobody waits for it any longer, unless there is a newer notice; but it is asked again.
                self._remark(f"cannot list the tools again: {e.message}")
                self.stale = self.stale and noticed != self._notices
                self._fruitless += 1
                self._wanted.set()
                self._told()
                continue
            changed = catalog != self.catalog
            self.take(catalog)
            self._told()
            if changed:
                await self.store(server, connection, catalog)

    async def listen(self, connection: Connection) -> None:
        """A stateless server announces changes only on a stream that we ask for (5.14). Until cancelled."""
        if not _announces(connection):
            return
        wait = LISTEN_AGAIN
        while True:
            began = trio.current_time()
            try:
                await connection.exchange(
                    "subscriptions/listen",
                    b'"notifications":{"toolsListChanged":true}',
                    b"",
                    Slot(0.0, 0.0, stream=True),
                )
            except ConnectionLost:
                # The server ended this stream, or everything; then this task is cancelled presently.
                pass
            except Failure as e:
                self._remark(f"subscriptions/listen ended: {e.message}")
                if isinstance(e, ServerError) and e.server_code in (_METHOD_NOT_FOUND, _INVALID_PARAMS):
                    return
            # Nothing is replayed, so everything is listed again.
            self._changed()
            if trio.current_time() - began > LISTEN_AGAIN_MAX:
                wait = LISTEN_AGAIN
            await trio.sleep(wait)
            wait = min(wait * 2, LISTEN_AGAIN_MAX)


def _announces(connection: Connection) -> bool:
    tools = connection.settled.capabilities.get("tools")
    announces = isinstance(tools, dict) and tools.get("listChanged") is True
    return connection.settled.revision.stateless and announces
