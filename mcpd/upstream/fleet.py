"""All upstreams of the daemon, by server and scope: the only place that makes and drops them (DESIGN 7).

Every server has a main instance, from the definition's coming to its going. Where agents or projects have
instances of their own, the first session that may use it brings one about, which starts when it is used,
and it is dropped when it rests and no session of its scope is left.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import trio

from mcpd.api.status import Status
from mcpd.catalog.tool import Catalog
from mcpd.changes import Changes
from mcpd.config.accepted import Launched
from mcpd.config.spec import Config, Faulty, Hold, Instance, Server
from mcpd.errors import Failure
from mcpd.policy.patterns import nearest
from mcpd.protocol.abilities import NONE, Ability
from mcpd.secrets.held import HeldValues
from mcpd.transport.base import AS_IT_IS, Inherited
from mcpd.transport.pending import Asker, Deadlines
from mcpd.transport.reader import Reader
from mcpd.transport.stdio import STDERR_LINES
from mcpd.upstream.attempt import Surroundings, at_once
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.instance import MAIN, Scope, overall, scope_of
from mcpd.upstream.upstream import Upstream

log = logging.getLogger("mcpd.upstream")

#: Instances of one server that run at a time; one that nobody attached has used makes room.
INSTANCES = 64

#: Lines of its log that a dropped instance leaves behind.
LAST_LINES = 50

Place = tuple[str, Scope]
"""A server's name, and whose instance of it."""


class LogLine(NamedTuple):
    """A line that an instance of a server wrote; `at`: seconds since the epoch."""

    at: float
    text: str
    scope: Scope


class Fleet:
    """Owns every upstream. `run` is its task; `apply` is how it learns of definitions."""

    def __init__(
        self,
        changes: Changes,
        cache: CatalogCache,
        environ: Mapping[str, str],
        marker: str,
        inherited: Inherited = AS_IT_IS,
        spawned: Callable[[int], None] = lambda pid: None,
        ended: Callable[[int], None] = lambda pid: None,
        held_values: HeldValues | None = None,
    ) -> None:
        """`marker`: prefix of the marker of every child; `inherited`: what children get;
        `spawned` and `ended` are told the pid of each server process, for who must know when mcpd dies;
        `held_values` takes out of servers' words what nobody is to read (n17)."""
        self.changes = changes
        self.sole: Callable[[str, Scope], Asker | None] = lambda server, scope: None
        """The one session that may use a server, by the instance of this scope, see `Surroundings`."""
        self.available: Callable[[str, Scope], Ability] = lambda server, scope: NONE
        """What the attached sessions that may use a server, by the instance of this scope, can be asked."""
        self.known_launch: Callable[[Server], Launched | None] = lambda server: None
        self.launched: Callable[[Server, Launched], str] = lambda server, found: ""
        self.examine: Callable[[Server, Catalog], Awaitable[None]] = at_once
        """See `Surroundings`."""
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
            inherited=inherited,
            spawned=spawned,
            ended=ended,
            sole=lambda server, scope: self.sole(server, scope),
            available=lambda server, scope: self.available(server, scope),
            known_launch=lambda server: self.known_launch(server),
            launched=lambda server, found: self.launched(server, found),
            examine=lambda server, catalog: self.examine(server, catalog),
            held_values=held_values or HeldValues(),
        )
        self._upstreams: dict[str, Upstream] = {}
        """The main instances."""
        self._others: dict[str, dict[Scope, Upstream]] = {}
        """Those of agents and projects, by the server's name."""
        self._attached: dict[str, tuple[Scope, Scope]] = {}
        """For each session, whose instances it uses of servers per agent, and of those per project."""
        self._sessions: Counter[Scope] = Counter()
        """How many sessions are attached of an agent, and of a project."""
        self._last_words: dict[str, deque[LogLine]] = {}
        """What instances that were dropped have left in their logs, by the server's name."""
        self._scopes: dict[Place, trio.CancelScope] = {}
        self._endings: dict[Place, trio.Event] = {}
        """For each instance that runs or is being stopped, what is set when that is over."""
        self._nursery: trio.Nursery | None = None
        self._waiting: list[Upstream] = []

    def names(self) -> list[str]:
        return list(self._upstreams)

    def all(self) -> list[Upstream]:
        """The main instance of each server, in the order of the configuration."""
        return list(self._upstreams.values())

    def instances(self, name: str) -> list[Upstream]:
        """Those that agents and projects have of a server."""
        return list(self._others.get(name, {}).values())

    def status(self, name: str) -> Status:
        """The one status of a server, whoever's its instances are. Raises Failure `no_such_server`."""
        return overall(self.find(name).status, [upstream.status for upstream in self.instances(name)])

    def logs(self, name: str, count: int) -> list[LogLine]:
        """The last lines of all instances of a server, oldest first. Raises Failure `no_such_server`."""
        lines = list(self._last_words.get(name, ()))
        for upstream in (self.find(name), *self.instances(name)):
            lines += [LogLine(at, text, upstream.scope) for at, text in upstream.ring.last(count)]
        return sorted(lines, key=lambda line: line.at)[-count:]

    def joined(self, session: str, agent: str, root: str) -> None:
        """A session is attached; called again when it says who it is."""
        before = self._attached.get(session, ())
        self._attached[session] = now = (Scope("agent", agent), Scope("project", root))
        self._sessions.update(now)
        self._sessions.subtract(before)
        self._attend((*before, *now))

    def left(self, session: str) -> None:
        """An attached session has ended; nothing is kept running for it any more."""
        scopes = self._attached.pop(session, ())
        for upstream in (*self._upstreams.values(), *self._of(scopes)):
            upstream.users.discard(session)
            upstream.wanters.discard(session)
            upstream.relay.forget(session)
            upstream.wishes.forget(session)
        self._sessions.subtract(scopes)
        self._attend(scopes)

    def at(self, main: Upstream, agent: str, root: str) -> Upstream:
        """The instance of a server that a session uses; without an agent the main one, which is the
        operator's. It is made if there is none, and starts when it is reached."""
        scope = scope_of(main.definition, agent, root)
        if scope is MAIN:
            return main
        found = self._others.setdefault(main.name, {}).get(scope)
        return found or self._add_other(main, scope)

    def find(self, name: str) -> Upstream:
        """Raises Failure `no_such_server`."""
        upstream = self._upstreams.get(name)
        if upstream is None:
            meant = nearest(name, self._upstreams)
            message = f'no server is named "{name}"{meant}'
            raise Failure("no_such_server", message, hint="mcpctl list", server=name)
        return upstream

    def apply(
        self,
        config: Config,
        switched_off: frozenset[str],
        held: Mapping[str, Hold],
        waiting: frozenset[str] = frozenset(),
        *,
        connect: bool = True,
    ) -> None:
        """Make the upstreams what the configuration says; what did not change is not touched.

        `held`: names whose new definition waits for the operator, with the reason; what runs goes on as it
        is. `waiting`: those of them that must not run. `connect`: new and changed ones connect once in the
        background (D5).
        """
        wanted: dict[str, Server | Faulty] = {**config.servers, **config.faulty}
        for name in [n for n in self._upstreams if n not in wanted]:
            self._drop(name)
        for name, definition in wanted.items():
            off = name in switched_off or (isinstance(definition, Server) and not definition.enabled)
            block = "disabled" if off else "held" if name in waiting else ""
            existing = self._upstreams.get(name)
            if existing is None:
                upstream = self._add(definition, block, held.get(name), connect)
                upstream.idle_after = _idle_after(config, definition)
                continue
            if _kind(existing.definition) != _kind(definition):
                # Whoever used it has another one from here on.
                self._drop_others(name)
                existing.users.clear()
            for upstream in (existing, *self.instances(name)):
                upstream.held = held.get(name)
                upstream.idle_after = _idle_after(config, definition)
                upstream.replace(definition, block)
        # Listings follow the order of the configuration.
        self._upstreams = {name: self._upstreams[name] for name in wanted}
        self.changes.publish("servers", None)

    def _add(self, definition: Server | Faulty, block: str, held: Hold | None, connect: bool) -> Upstream:
        upstream = Upstream(definition, self._around, block)
        upstream.held = held
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
            place = (upstream.name, upstream.scope)
            self._scopes[place] = scope = trio.CancelScope()
            before, done = self._endings.get(place), trio.Event()
            self._endings[place] = done
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
            place = (upstream.name, upstream.scope)
            if self._endings.get(place) is done:
                del self._endings[place]

    def _drop(self, name: str) -> None:
        self._drop_others(name)
        self._others.pop(name, None)
        self._last_words.pop(name, None)
        self._end(self._upstreams.pop(name))

    def _end(self, upstream: Upstream) -> None:
        upstream.retire()
        scope = self._scopes.pop((upstream.name, upstream.scope), None)
        if scope is not None:
            scope.cancel()
        self._waiting = [other for other in self._waiting if other is not upstream]

    # ------------------------------------------- instances of agents and projects

    def _of(self, scopes: Iterable[Scope]) -> list[Upstream]:
        """The instances, of all servers, of an agent or project."""
        return [others[scope] for others in self._others.values() for scope in scopes if scope in others]

    def _attend(self, scopes: Iterable[Scope]) -> None:
        """Sessions of these have come or gone."""
        for scope in scopes:
            if not self._sessions[scope]:
                del self._sessions[scope]
        for upstream in self._of(dict.fromkeys(scopes)):
            upstream.attended = upstream.scope in self._sessions
            self._drop_if_left(upstream)

    def _add_other(self, main: Upstream, scope: Scope) -> Upstream:
        upstream = Upstream(main.definition, self._around, main.block, main, scope)
        upstream.held = main.held
        upstream.idle_after = main.idle_after
        upstream.attended = scope in self._sessions
        upstream.admit = partial(self._admit, upstream)
        upstream.rested = partial(self._drop_if_left, upstream)
        upstream.relay.budget = main.relay.budget
        self._others[main.name][scope] = upstream
        self._start(upstream)
        return upstream

    def _drop_if_left(self, upstream: Upstream) -> None:
        if not upstream.attended and upstream.resting:
            self._drop_other(upstream)

    def _drop_others(self, name: str) -> None:
        for upstream in self.instances(name):
            self._drop_other(upstream)

    def _drop_other(self, upstream: Upstream) -> None:
        others = self._others[upstream.name]
        if others.get(upstream.scope) is upstream:
            del others[upstream.scope]
            words = self._last_words.setdefault(upstream.name, deque(maxlen=STDERR_LINES))
            words += [LogLine(at, text, upstream.scope) for at, text in upstream.ring.last(LAST_LINES)]
            self._end(upstream)
            # Views hold the instances that they are for.
            self.changes.publish("instances", upstream.name)

    def _admit(self, upstream: Upstream) -> str:
        """Why one more instance may not run; empty when it may, if need be because one that nobody needs
        has made room for it."""
        others = [each for each in self.instances(upstream.name) if each.running and each is not upstream]
        if len(others) >= INSTANCES:
            spare = [each for each in others if each.spare]
            if not spare:
                return f"{INSTANCES} instances of it run already, and all of them are in use"
            min(spare, key=lambda each: each.last_used).stop()
        return ""

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
    if not isinstance(definition, Server):
        return 0.0
    if definition.start == "eager" and definition.instance == "shared":
        return 0.0
    own = definition.idle_timeout
    return config.settings.idle_timeout if own is None else own


def _kind(definition: Server | Faulty) -> Instance:
    return definition.instance if isinstance(definition, Server) else "shared"
