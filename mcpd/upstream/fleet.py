"""All upstreams of the daemon, by server name: the only place that makes and drops them."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping

import trio

from mcpd.changes import Changes
from mcpd.config.spec import Config, Faulty, Server
from mcpd.errors import Failure
from mcpd.protocol.abilities import NONE, Ability
from mcpd.transport.pending import Deadlines
from mcpd.transport.reader import Reader
from mcpd.upstream.attempt import Surroundings
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.upstream import Upstream

log = logging.getLogger("mcpd.upstream")


class Fleet:
    """Owns every upstream. `run` is its task; `apply` is how it learns of definitions."""

    def __init__(
        self,
        changes: Changes,
        cache: CatalogCache,
        environ: Mapping[str, str],
        marker: str,
        open_files: int | None = None,
        spawned: Callable[[int], None] = lambda pid: None,
        ended: Callable[[int], None] = lambda pid: None,
    ) -> None:
        """`marker`: prefix of the marker of every child; `open_files`: the soft limit children get;
        `spawned` and `ended` are told the pid of each server process, for who must know when mcpd dies."""
        self.changes = changes
        self.available: Callable[[str], Ability] = lambda server: NONE
        """What the attached sessions that may use a server can be asked."""
        self.deadlines = Deadlines()
        self.reader = Reader()
        self._around = Surroundings(
            environ=environ,
            marker=marker,
            spawns=itertools.count(1),
            deadlines=self.deadlines,
            reader=self.reader,
            changes=changes,
            cache=cache,
            open_files=open_files,
            spawned=spawned,
            ended=ended,
            available=lambda server: self.available(server),
        )
        self._upstreams: dict[str, Upstream] = {}
        self._scopes: dict[str, trio.CancelScope] = {}
        self._endings: dict[str, trio.Event] = {}
        """For each name that runs or is being stopped, what is set when that is over."""
        self._nursery: trio.Nursery | None = None
        self._waiting: list[Upstream] = []

    def names(self) -> list[str]:
        return list(self._upstreams)

    def all(self) -> list[Upstream]:
        return list(self._upstreams.values())

    def left(self, session: str) -> None:
        """An attached session has ended; nothing is kept running for it any more."""
        for upstream in self._upstreams.values():
            upstream.users.discard(session)
            upstream.wanters.discard(session)
            upstream.relay.forget(session)
            upstream.wishes.forget(session)

    def find(self, name: str) -> Upstream:
        """Raises Failure `no_such_server`."""
        upstream = self._upstreams.get(name)
        if upstream is None:
            raise Failure("no_such_server", f'no server is named "{name}"', hint="mcpctl list", server=name)
        return upstream

    def apply(
        self, config: Config, switched_off: frozenset[str], held: Mapping[str, str], *, connect: bool = True
    ) -> None:
        """Make the upstreams what the configuration says; what did not change is not touched.

        `held`: names whose new definition waits for the operator, with the reason; one that runs
        goes on as it is, one that is new does not start. `connect`: new and changed ones connect
        once in the background (D5).
        """
        wanted: dict[str, Server | Faulty] = {**config.servers, **config.faulty}
        for name in [n for n in self._upstreams if n not in wanted]:
            self._drop(name)
        for name, definition in wanted.items():
            off = name in switched_off or (isinstance(definition, Server) and not definition.enabled)
            existing = self._upstreams.get(name)
            if existing is None:
                block = "disabled" if off else "held" if name in held else ""
                upstream = self._add(definition, block, held.get(name, ""), connect)
                upstream.idle_after = _idle_after(config, definition)
                continue
            existing.unaccepted = existing.unaccepted and name in held
            block = "disabled" if off else "held" if existing.unaccepted else ""
            existing.held = held.get(name, "")
            existing.idle_after = _idle_after(config, definition)
            existing.replace(definition, block)
        # Listings follow the order of the configuration.
        self._upstreams = {name: self._upstreams[name] for name in wanted}
        self.changes.publish("servers", None)

    def _add(self, definition: Server | Faulty, block: str, held: str, connect: bool) -> Upstream:
        upstream = Upstream(definition, self._around, block)
        upstream.held = held
        upstream.unaccepted = bool(held)
        self._upstreams[definition.name] = upstream
        if connect and not block and upstream.catalog is None:
            upstream.connect_once()
        if isinstance(definition, Faulty):
            log.warning("MCP '%s': %s: %s", definition.name, definition.reason, definition.message)
        self._start(upstream)
        return upstream

    def _start(self, upstream: Upstream) -> None:
        if self._nursery is None:
            self._waiting.append(upstream)
        else:
            self._scopes[upstream.name] = scope = trio.CancelScope()
            before, done = self._endings.get(upstream.name), trio.Event()
            self._endings[upstream.name] = done
            self._nursery.start_soon(self._run_one, upstream, scope, before, done)

    async def _run_one(
        self, upstream: Upstream, scope: trio.CancelScope, before: trio.Event | None, done: trio.Event
    ) -> None:
        try:
            with scope:
                if before is not None:
                    # A server of the same name is still being stopped; two on one data folder do harm.
                    await before.wait()
                await upstream.run()
        finally:
            done.set()
            if self._endings.get(upstream.name) is done:
                del self._endings[upstream.name]

    def _drop(self, name: str) -> None:
        upstream = self._upstreams.pop(name)
        upstream.retire()
        scope = self._scopes.pop(name, None)
        if scope is not None:
            scope.cancel()
        self._waiting = [other for other in self._waiting if other is not upstream]

    async def _serve_all(self, scope: trio.CancelScope) -> None:
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.deadlines.run)
                nursery.start_soon(self.reader.run)
        self.reader.close()

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Until cancelled; then all servers are stopped, side by side, in MCP's order."""
        # A server that is being stopped is still read, so these two end last.
        services = trio.CancelScope(shield=True)
        async with trio.open_nursery() as outer:
            outer.start_soon(self._serve_all, services)
            try:
                async with trio.open_nursery() as nursery:
                    self._nursery = nursery
                    waiting, self._waiting = self._waiting, []
                    for upstream in waiting:
                        self._start(upstream)
                    task_status.started()
                    await trio.sleep_forever()
            finally:
                services.cancel()


def _idle_after(config: Config, definition: Server | Faulty) -> float:
    """Seconds without use after which the server is stopped; 0 for never (n15)."""
    if not isinstance(definition, Server) or definition.start == "eager":
        return 0.0
    own = definition.idle_timeout
    return config.settings.idle_timeout if own is None else own
