"""One instance of one server: its loop, its status, its catalogue (DESIGN 7).

`run` is a loop in one task: wait until somebody wants the server, open, publish, stay until the
connection is lost, withdraw, close, and ask `retry` what follows. Disabling, reconnecting and a new
definition are a cancelled turn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

import msgspec
import trio

from mcpd.api.status import Reason, Status
from mcpd.catalog.tool import Catalog
from mcpd.config.spec import Faulty, Hold, Server
from mcpd.errors import Failure
from mcpd.transport.base import ConnectFailed, Ending
from mcpd.transport.pending import Asker
from mcpd.transport.stdio import StderrRing
from mcpd.upstream import refusals, retry, vetting
from mcpd.upstream.attempt import Attempt, Surroundings
from mcpd.upstream.connection import Connection
from mcpd.upstream.establish import establish
from mcpd.upstream.fetch import Primitive
from mcpd.upstream.health import Health, watch_sleep
from mcpd.upstream.instance import MAIN, Scope
from mcpd.upstream.keeper import Keeper
from mcpd.upstream.relay import Relay
from mcpd.upstream.remote import Remote
from mcpd.upstream.wishes import Wishes

log = logging.getLogger("mcpd.upstream")

#: Seconds that a call waits for its server to come up: a launcher's first start and a bit.
REACH = 125.0

#: Seconds that an instance goes on running that was started for its catalogue alone.
CATALOGUE_ONLY = 60.0

#: Characters of the words in a status.
ERROR_LENGTH = 1500


#: A list or a call waits this long for the refetch after a list_changed notice (a22).
FRESH_WAIT = 5.0


class Hears(Protocol):
    """What is told of a server's notifications that concern no request."""

    def notice(self, method: str, params: bytes) -> None: ...


class Upstream:
    """The owner of one instance's connection, status and catalogue.

    `block` names why it must not run: "disabled", "held" or "".
    """

    def __init__(
        self,
        definition: Server | Faulty,
        around: Surroundings,
        block: str = "",
        main: Upstream | None = None,
        scope: Scope = MAIN,
    ) -> None:
        """`main`: the server's main instance, where this one belongs to an agent or project: `scope`."""
        self.name = definition.name
        self.definition = definition
        self.main = main or self
        """The instance that stands for the definition; a catalogue is fetched by it when nobody knows it."""
        self.scope = scope
        self.attended = False
        """Some session of its scope is attached. The fleet says so."""
        self.admit: Callable[[], str] = str
        """Why no further instance of this server may run; empty when one may. The fleet says so."""
        self.rested: Callable[[], None] = lambda: None
        """Called when a turn is over; the fleet listens."""
        self.connection: Connection | None = None
        self.status = Status()
        self.ring = StderrRing(around.held_values.text)
        self.held: Hold | None = None
        """What waits for `reload` or `accept`, in words (a03, n24); what runs goes on meanwhile."""
        self._idle_after = 0.0
        self._idle_changed = trio.Event()
        self.users: set[str] = set()
        """Attached sessions that have used this instance; it is not stopped for idleness while one lives."""
        self.wanters: set[str] = set()
        """Attached sessions that were given a listing without its tools and wait for them (D5)."""
        self.wishes = Wishes(self._remark)
        self.follows: set[Hears] = set()
        """Streams that tell agents of its tasks."""
        self.relay = Relay(
            self.name,
            lambda: around.available(self.name, self.scope),
            around.environ.get("HOME", ""),
            self._remark,
        )
        self.relay.sole = lambda: around.sole(self.name, self.scope)
        self.opened_in = 0.0
        """Seconds of the last opening, up to the settled revision; the catalogue not included."""
        self._around = around
        self._block = block
        self._keeper = Keeper(
            self.name,
            around.cache,
            around.changes,
            self._catalog_kept,
            self._remark,
            around.held_values.definition,
            self._examine,
        )
        self._history = retry.History()
        self._due: float | None = None
        self._not_before = 0.0
        self._interest = 0
        self._background = False
        self._called = False
        """Somebody has called something on this connection, and got an answer."""
        self._ended = 0
        self._poke = trio.Event()
        self._news = trio.Event()
        self._turn: trio.CancelScope | None = None
        self._restore()
        self._set_resting_state()

    # ------------------------------------------------------------- for callers

    @property
    def catalog(self) -> Catalog | None:
        """What the server offers, by its last word or from the cache; None when nobody knows.

        An instance that does not run offers what the definition's last one did.
        """
        if self.connection is None and self.main is not self:
            return self.main.catalog
        return self._keeper.catalog

    @property
    def verified(self) -> bool:
        """Whether the server itself has told its catalogue since mcpd runs. What the cache says may list and
        search, and lowers no risk (DESIGN 4)."""
        if self.connection is None and self.main is not self:
            return self.main.verified
        return self._keeper.verified

    @property
    def forgets(self) -> bool:
        """Whether it knows nothing any more of what it was told on an earlier connection: a process."""
        return isinstance(self.definition, Server) and bool(self.definition.command)

    def remembers(self, connection: Connection | None) -> bool:
        """Whether it may still know of what it was told on that one."""
        return not self.forgets or (connection is not None and connection is self.connection)

    @property
    def stale(self) -> bool:
        """The tools are not what they were, and the refetch is not through yet."""
        return self._keeper.tools.stale

    def stale_in(self, primitive: Primitive) -> bool:
        """The same of all lists of one primitive."""
        return self._keeper.pace(primitive).stale

    def look(self, primitive: Primitive) -> None:
        """Somebody is about to list: what is too old, and nobody announces, becomes stale (5.18)."""
        self._keeper.look(primitive)

    @property
    def block(self) -> str:
        """Why it must not run: "disabled", "held", "removed" or ""."""
        return self._block

    @property
    def usable(self) -> bool:
        """Whether its tools may be listed and called at all: defined, enabled and not held."""
        return not self._block and isinstance(self.definition, Server)

    @property
    def resting(self) -> bool:
        """Nothing runs, and nobody waits for it to."""
        return self._turn is None and not self._interest

    @property
    def running(self) -> bool:
        """It takes one of the places that `admit` gives."""
        return self._turn is not None and not self._turn.cancel_called

    @property
    def spare(self) -> bool:
        """Nobody attached has used it, and nothing is under way: it may be stopped to make room."""
        connection = self.connection
        return connection is not None and not self.users and not connection.busy

    @property
    def last_used(self) -> float:
        """When the last request was sent (trio clock)."""
        return self.connection.last_sent if self.connection is not None else 0.0

    def stop(self) -> None:
        """Stop it now, as if its idle time were over; the next demand starts it again."""
        self._end_turn()

    @property
    def idle_after(self) -> float:
        """Seconds without use after which it is stopped; 0 for never (n15)."""
        return self._idle_after

    @idle_after.setter
    def idle_after(self, seconds: float) -> None:
        self._idle_after = seconds
        self._idle_changed.set()

    async def reach(self, within: float) -> Connection:
        """The connection, waiting for it if need be.

        Raises Failure `disabled`, `unavailable` and `needs_login`.
        """
        if self.connection is not None:
            return self.connection
        self.refuse_out_of_reach()
        ended = self._ended
        self._interest += 1
        self._poke.set()
        try:
            with trio.move_on_after(within):
                while (connection := self._current()) is None:
                    await self._news.wait()
                    self._refuse_blocked()
                    if self._ended != ended and self.status.state in ("failed", "crashed", "needs_auth"):
                        raise self._unavailable()
                return connection
        finally:
            self._interest -= 1
        raise Failure("unavailable", f'server "{self.name}" is still {self.status.state}', server=self.name)

    def refuse_out_of_reach(self) -> None:
        """Raises what `reach` would without waiting: it is not to be tried now, or not before a while."""
        if self.connection is None:
            self._refuse_blocked()
            if trio.current_time() < self._not_before:
                raise self._unavailable()

    async def fresh(self, primitive: Primitive = "tools") -> None:
        """Wait until the catalogue covers the last notice, at most FRESH_WAIT after it (a22)."""
        with trio.move_on_at(self._keeper.pace(primitive).stale_since + FRESH_WAIT):
            while self.stale_in(primitive) and self._current() is not None:
                await self._news.wait()

    async def relist(self) -> None:
        """The server's listing seems to have changed without a word: wait for a new one, as `fresh` does."""
        self._keeper.changed("tools")
        await self.fresh()

    def told_enough(self, asker: Asker) -> bool:
        """Whether the server knows what this caller can be asked. Where it does not, and nobody else uses
        it, it is opened anew: a handshake says such things once (5.1)."""
        connection = self.connection
        if connection is None or connection.settled.revision.stateless or not self.relay.wants_more(asker):
            return True
        if self.users - {asker.session} or connection.busy:
            return True
        log.info("MCP '%s': opened anew, its only user can be asked more than it was told", self._title)
        self._background = True
        self._end_turn()
        return False

    def knows(self, asker: Asker) -> bool:
        """Whether `told_enough` has nothing more to look at."""
        connection = self.connection
        if connection is None:
            return False
        return connection.settled.revision.stateless or self.relay.has_met(asker)

    def succeeded(self) -> None:
        """A call got its answer: the restart schedule begins again (D8)."""
        self._called = True
        if self._history.crashes or self._history.losses:
            self._history = retry.after_success(self._history)

    def _current(self) -> Connection | None:
        return self.connection

    def _refuse_blocked(self) -> None:
        if self._block == "disabled":
            raise refusals.disabled(self.name)
        if self._block == "removed":
            raise refusals.removed(self.name)
        if self._block == "held" or not isinstance(self.definition, Server):
            raise self._unavailable()

    def _unavailable(self) -> Failure:
        wait = self._not_before - trio.current_time()
        return refusals.unavailable(self.definition, self.status, self.held, wait)

    # ------------------------------------------------------------ for the owner

    def connect_once(self) -> None:
        """Connect in the background, as after adding or enabling (D5)."""
        self._background = True
        self._poke.set()

    def reconnect(self) -> None:
        """Drop the connection, forget the failures and connect now (c15)."""
        self._history = retry.History()
        self._due = None
        self._not_before = 0.0
        self._keeper.era = "auto"
        self._background = True
        if self._turn is not None:
            self._set(state="connecting")
        self._end_turn()

    def replace(self, definition: Server | Faulty, block: str) -> None:
        """Take a new definition or block; a change of what runs ends the turn, anything else does not."""
        old = self.definition
        same = (
            isinstance(old, Server)
            and isinstance(definition, Server)
            and old.digest == definition.digest
            and old.instance == definition.instance
            and self._block == block
        )
        self.definition = definition
        was_blocked, self._block = self._block, block
        self._poke.set()
        if same:
            return
        self._history = retry.History()
        self._due = None
        self._not_before = 0.0
        if was_blocked != block and not block:
            self._background = self.main is self
        if (
            not isinstance(old, Server)
            or not isinstance(definition, Server)
            or old.digest != definition.digest
        ):
            self._restore()
            # What an agent or project does not use at the moment starts when it does.
            self._background = self.main is self or self._turn is not None
        self._end_turn()
        if self._turn is None:
            self._set_resting_state()
        elif block:
            # What is switched off counts as off at once; `pid` stays until its process has ended.
            self._set(state=block, reason="", error="")
        elif isinstance(definition, Faulty):
            self._set(state="failed", reason=definition.reason, error=definition.message)
        else:
            self._set(state="connecting", reason="", error="")

    def retire(self) -> None:
        """The definition is gone: who waits is told; the owner cancels `run`."""
        self._block = "removed"
        self._withdraw()
        self._tell()

    def _end_turn(self) -> None:
        self._withdraw()
        if self._turn is not None:
            self._turn.cancel()
        self._poke.set()
        self._tell()

    # ----------------------------------------------------------------- the loop

    async def run(self) -> None:
        """Until cancelled. The second firewall: whatever fails here is this server's failure alone."""
        while True:
            await self._await_wish()
            self._turn = turn = trio.CancelScope()
            try:
                # The catch stands outside the scope: a turn that is cancelled may fail as well.
                with turn:
                    await self._live()
            except* Exception as group:
                log.error("MCP '%s': internal error", self._title, exc_info=group)
                self._failed(ConnectFailed("failed", "internal error of mcpd; see its log"))
            self._withdraw()
            self._turn = None
            if turn.cancelled_caught:
                self._set_resting_state()
            self.rested()

    async def _await_wish(self) -> None:
        while True:
            self._poke = poke = trio.Event()
            delay = self._delay()
            if delay is not None and delay <= 0:
                return
            with trio.move_on_after(float("inf") if delay is None else delay):
                await poke.wait()

    def _delay(self) -> float | None:
        """Seconds until an attempt is due; None: not before something changes."""
        if self._block or not isinstance(self.definition, Server):
            return None
        if self._due is not None:
            return 0.0 if self._background else self._due - trio.current_time()
        eager = self._eager and not self._history.failures and not self._history.crashes
        return 0.0 if self._interest or self._background or eager else None

    async def _live(self) -> None:
        """One turn: open, publish, stay, withdraw. The transport cleans up behind it."""
        server = self.definition
        assert isinstance(server, Server)
        self._due = None
        self._background = self._called = False
        began = trio.current_time()
        self._set(state="connecting", last_attempt=time.time(), retry_at=0.0, pid=0)
        if self.main is not self:
            self._keeper.follow(self.main._keeper)
        if full := self.admit():
            self._failed(ConnectFailed("too_many_instances", full))
            return
        async with trio.open_nursery() as nursery:
            attempt = self._attempt(server, nursery)
            try:
                if isinstance(attempt, Attempt):
                    await vetting.before(server, self._around)
                link, connection, catalog, self.opened_in = await establish(attempt, self._keeper)
                if isinstance(attempt, Attempt):
                    await vetting.after(server, self._around, attempt.marker)
            except ConnectFailed as e:
                # Said before the cleanup, which may take its time (c12).
                self._failed(e)
                nursery.cancel_scope.cancel()
                return
            self._keeper.take(catalog)
            await nursery.start(self.wishes.keep, connection)
            if not link.over.is_set():
                self._publish(connection, catalog, trio.current_time() - began)
            nursery.start_soon(self._keeper.store, server, connection, catalog)
            nursery.start_soon(self._keeper.keep, server, connection)
            nursery.start_soon(self._keeper.listen, connection)
            nursery.start_soon(self._stop_when_idle, connection)
            if server.url:
                health = Health(connection, link.lost)
                connection.doubted = health.doubt
                nursery.start_soon(health.run)
                nursery.start_soon(watch_sleep, health.doubt)
            opened = trio.current_time()
            await link.over.wait()
            self._lost(link.ending, trio.current_time() - opened)
            nursery.cancel_scope.cancel()

    def _attempt(self, server: Server, nursery: trio.Nursery) -> Attempt | Remote:
        notice, withdraw = self._noticed, self._withdraw
        if server.url:
            return Remote(
                server, self._around, self.ring, nursery, notice, withdraw, lambda: self.catalog, self.relay
            )
        return Attempt(server, self._around, self.ring, nursery, notice, withdraw, self._started, self.relay)

    async def _stop_when_idle(self, connection: Connection) -> None:
        """End the turn once nobody has used the server for `idle_after` and no user is attached (n15)."""
        began = trio.current_time()
        while True:
            self._idle_changed = trio.Event()
            used = max(began, connection.last_sent)
            patience = self._patience
            due = used + patience if patience else float("inf")
            if self.users or connection.busy or self._eager:
                due = max(due, trio.current_time() + patience)
            if due <= trio.current_time():
                log.info("MCP '%s': stopped, nobody has used it for %g s", self._title, patience)
                self._end_turn()
            with trio.move_on_at(due):
                await self._idle_changed.wait()
            await trio.lowlevel.checkpoint()

    @property
    def _patience(self) -> float:
        """Seconds without use after which it is stopped now; 0 for never.

        Where agents or projects have instances of their own, the main one has done its part when the
        catalogue is known, unless the operator calls something.
        """
        server = self.definition
        shared = not isinstance(server, Server) or server.instance == "shared"
        if self._called or shared or self.main is not self or not self._idle_after:
            return self._idle_after
        return min(self._idle_after, CATALOGUE_ONLY)

    def _started(self, pid: int) -> None:
        self._set(pid=pid)

    # ------------------------------------------------------- what became of it

    def _publish(self, connection: Connection, catalog: Catalog, took: float) -> None:
        self.wanters.clear()
        settled = connection.settled
        self.connection = connection
        self._set(
            state="connected",
            reason="",
            error="",
            tools=len(catalog.tools),
            revision=settled.revision.name,
            last_success=time.time(),
            latency=took,
            attempts=0,
        )
        self._history = msgspec.structs.replace(self._history, failures=0)
        self._not_before = 0.0
        self._share()
        info = settled.server_info
        log.info(
            "MCP '%s': connected to %.60s %.40s, revision %s, %d tools, %.2f s",
            self._title,
            info.get("name", "?"),
            info.get("version", ""),
            settled.revision.name,
            len(catalog.tools),
            took,
        )

    def _withdraw(self) -> None:
        """Nobody gets this connection from here on; who waits on it is told."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.lose()
            self.relay.end()
            if self.catalog != self._keeper.catalog:
                self._around.changes.publish("catalog", self.name)

    def _failed(self, e: ConnectFailed) -> None:
        self._history, following = retry.after_failure(self._history, lasting=e.lasting, wanted=self._wanted)
        self._after(following, e.reason, e.message)

    def _lost(self, ending: Ending, lived: float) -> None:
        """The connection ended, which had been open for `lived` seconds."""
        self._withdraw()
        server = self.definition
        words = ending.message
        if isinstance(server, Server) and server.url:
            self._history, following = retry.after_remote_loss(
                self._history, anew=ending.anew, lasting=ending.lasting, wanted=self._wanted, lived=lived
            )
        else:
            last = self.ring.last_words()
            words += f"; it wrote: {last}" if last else ""
            self._history, following = retry.after_loss(self._history)
        self._after(following, ending.reason, words)

    @property
    def _wanted(self) -> bool:
        """Something goes on wanting a connection."""
        return bool(self._eager or self.users or self.wanters or self._interest)

    @property
    def _eager(self) -> bool:
        """It is kept connected. Where agents or projects have instances of their own, as long as a session
        of theirs is attached."""
        server = self.definition
        if not isinstance(server, Server) or server.start != "eager":
            return False
        return self.attended if self.main is not self else server.instance == "shared"

    def _after(self, following: retry.Next, reason: Reason, message: str) -> None:
        message = self.ring.clean(message)[:ERROR_LENGTH]
        now = trio.current_time()
        self._due = None if following.delay is None else now + following.delay
        self._not_before = now + following.not_before
        self._ended += 1
        self._set(
            state="needs_auth" if reason == "needs_auth" else following.state,
            reason=reason,
            error=message,
            last_failure=time.time(),
            attempts=self._history.failures + self._history.crashes,
            retry_at=0.0 if following.delay is None else time.time() + following.delay,
            pid=0,
        )
        log.warning("MCP '%s': %s (%s): %s", self._title, self.status.state, reason, message)
        if isinstance(self.definition, Server) and self.definition.url:
            # A process writes to its stderr; of a remote there is nothing else to read.
            self._remark(f"{self.status.state} ({reason}): {message}")

    def _set_resting_state(self) -> None:
        """The status of an upstream that neither runs nor has just failed."""
        definition = self.definition
        if isinstance(definition, Faulty):
            self._set(state="failed", reason=definition.reason, error=definition.message, pid=0)
        elif self._block in ("disabled", "held"):
            why = self.held.words if self.held is not None and self._block == "held" else ""
            self._set(state=self._block, reason="", error=why, pid=0)
        elif self._turn is None:
            self._set(state="idle", reason="", pid=0)

    def _set(self, **fields: object) -> None:
        self.status = msgspec.structs.replace(self.status, **fields)
        self._around.changes.publish("status", self.name)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def _examine(self, catalog: Catalog) -> None:
        if isinstance(self.definition, Server):
            await self._around.examine(self.definition, catalog)

    def _catalog_kept(self) -> None:
        if self.catalog is not None:
            self._set(tools=len(self.catalog.tools))
            self._share()

    def _share(self) -> None:
        """What this instance has learned counts for all of the server that do not run."""
        main = self.main
        if main is self:
            return
        differs = main._keeper.catalog != self._keeper.catalog
        if main.connection is None:
            main._keeper.follow(self._keeper)
            if differs:
                main._set(tools=self.status.tools, revision=self.status.revision)
        if differs:
            self._around.changes.publish("catalog", self.name)

    def _restore(self) -> None:
        """Begin with the cached catalogue of this definition."""
        server = self.definition
        if self.main is not self:
            self._keeper.follow(self.main._keeper)
            known = self.main.status
            self.status = msgspec.structs.replace(self.status, tools=known.tools, revision=known.revision)
            return
        cached = self._keeper.restore(server) if isinstance(server, Server) else None
        if cached is not None:
            tools, revision = len(cached.catalog.tools), cached.revision
            self.status = msgspec.structs.replace(self.status, tools=tools, revision=revision)

    def _noticed(self, method: str, params: bytes) -> None:
        self._keeper.notice(method, params)
        self.wishes.notice(method, params)
        for each in list(self.follows):
            each.notice(method, params)

    @property
    def _title(self) -> str:
        """What it is called in the daemon's log."""
        return f"{self.name} ({self.scope})" if self.main is not self else self.name

    def _remark(self, text: str) -> None:
        self.ring.add(f"[mcpd] {text}")
