"""One attached agent process: messages in, answers out.

The session owns the requests that run and those that wait for a place. What a request means is the
method table's business; by which way messages come and go is that of who feeds it (`pipe`, `endpoint`)
and of its outlet. The end of the session cancels everything it had under way.

Most requests wait for one answer of a server and nothing else: they are begun as they come and answered as
that comes, by no task at all (measured: a task of its own is 15 % of a small call's time, a switch to one
another 10 %). The others a few tasks serve, which end when nothing waits.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

import trio

from mcpd.agents.asks import Asks, Standing
from mcpd.agents.batch import Batch
from mcpd.agents.identity import Attach, Peer, check_root
from mcpd.agents.notices import Notices
from mcpd.agents.outlet import Outlet
from mcpd.agents.parked import Parked
from mcpd.broker import Broker
from mcpd.caller import DEFAULT_AGENT, Caller
from mcpd.catalog.names import server_name_problem
from mcpd.errors import Failure
from mcpd.listing import find_agent
from mcpd.policy.rules import may_use_server
from mcpd.protocol import jsonrpc
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.revisions import Revision
from mcpd.protocol.shapes import CancelledParams, read_params
from mcpd.rows import ViewKey
from mcpd.upstream.ticket import Ticket

log = logging.getLogger("mcpd.agents")

ATTACH = "notifications/dev.mcpd/attach"

LISTEN = "subscriptions/listen"

#: Requests that take no place: a ping is answered promptly whatever runs (5.7), a subscription stays open.
PLACELESS = frozenset({"ping", LISTEN})

#: Open subscriptions of one session.
STREAMS = 16

#: Characters of a request's id.
LONGEST_ID = 300

#: Names in the list of servers to be left out, which is kept with every listing that is made by it.
LEFT_OUT = 256

#: Requests that wait for one of the session's places; more are refused as busy.
WAITING = 256

#: From a reader that lets this many bytes of answers lie no further request is read or served...
QUEUE_HIGH = 4 * 1024 * 1024
#: ...and gets no notifications: progress is lost, a changed list is told later.
NOTICE_HIGH = 256 * 1024


#: A request that waits for one of the session's places, its id's JSON text, its name in the session, and
#: the array it stood in.
Waiting = tuple[Message, bytes, bytes, Ticket, Batch | None]


class Face(Protocol):
    """What requests mean: the method table, as the session needs it."""

    def begin(self, session: Session, message: Message, key: bytes, on: bytes, ticket: Ticket) -> bool:
        """Begin what has to wait for nothing but one answer of a server; False when it is not so, and nothing
        was done. Later the session's `answered` or `go_on` is called, once. `key`: the id's JSON text."""
        ...

    async def serve(
        self,
        session: Session,
        message: Message,
        key: bytes,
        on: bytes,
        ticket: Ticket,
        rest: Awaitable[bytes] | None = None,
    ) -> bytes | None:
        """The answer's line; None when the caller no longer wants one. `rest`: what is left of a request that
        was begun."""
        ...

    def unserved(self, session: Session, message: Message, kind: str) -> None:
        """A request comes to nothing, of that kind, before it is served."""
        ...

    def refused(self, message: Message, failure: Failure, stateless: bool) -> bytes:
        """The line by which the agent learns of a failure."""
        ...


class Session:
    """`revision` is None until `initialize` has chosen one; stateless requests need none."""

    __slots__ = (
        "_attachable",
        "_called",
        "_ended",
        "_face",
        "_finished",
        "_named",
        "_nursery",
        "_places",
        "_returning",
        "_running",
        "_serving",
        "_streams",
        "_waiting",
        "_without",
        "abilities",
        "agent",
        "asks",
        "began",
        "broker",
        "caller",
        "cwd",
        "exe",
        "id",
        "key",
        "malformed",
        "notices",
        "off",
        "opens",
        "outlet",
        "over",
        "parked",
        "peer",
        "pid",
        "refusal",
        "revision",
        "root",
    )

    def __init__(
        self,
        broker: Broker,
        face: Face,
        peer: Peer,
        agent: str,
        outlet: Outlet,
        nursery: trio.Nursery,
        *,
        clients: int = 1,
    ) -> None:
        """`clients`: how many processes of the agent are expected to share it."""
        self.broker = broker
        self.id = f"s{next(broker.session_numbers)}"
        self.agent = agent
        self.pid = peer.pid
        self.exe = peer.exe
        self.peer = peer
        self.cwd = peer.cwd
        self.began = time.time()
        self.root = ""
        self.key = ViewKey((agent, "", frozenset(), ""))
        self.off: frozenset[str] = frozenset()
        """Servers that were switched off for it, beside those that it left out itself (c23)."""
        self._without: frozenset[str] = frozenset()
        self._named = False
        """It is another agent than its socket's, by its own word."""
        self.caller = Caller(self.id, agent, peer.pid, peer.exe, cwd=peer.cwd)
        broker.fleet.joined(self.id, agent, "")
        self.revision: Revision | None = None
        self.abilities: Ability = NONE
        """What it can be asked: by its handshake, or by all its stateless requests so far (5.1)."""
        self.notices = Notices(self, nursery)
        self.asks = Asks(self, nursery)
        self.parked = Parked(self, nursery, clients)
        self.opens = True
        """Whether an `initialize` can open it; else all requests are stateless."""
        self.refusal: Failure | None = None
        """Why nothing is served here: the attach line was wrong."""
        self.outlet = outlet
        self.malformed = 0
        """Malformed messages since the last request."""
        self._face = face
        self._nursery = nursery
        self._attachable = True
        """Nothing was said yet, so an attach line may come."""
        self._running: dict[bytes, Ticket] = {}
        """Every request without an answer, by its name: the id's JSON text, where one process alone asks."""
        self._waiting: list[Waiting] = []
        self._places = clients * (broker.config.settings.max_in_flight_session or WAITING)
        self._streams = clients * STREAMS
        self._serving = 0
        """Places that are taken: by requests, and by tasks that have been called to serve."""
        self._returning: list[trio.lowlevel.Task] = []
        """Those of requests that had left theirs, and wait for one."""
        self._called = 0
        """Those of the tasks that have not come yet."""
        self._finished = False
        """Nothing more will be asked."""
        self.over = trio.Event()
        """The peer is gone, or has got all it asked for."""
        self._ended = False

    @property
    def busy(self) -> bool:
        """Whether some request has no answer yet."""
        return bool(self._running)

    def runs(self, on: bytes) -> bool:
        """Whether the request of that name has no answer yet."""
        return on in self._running

    @property
    def handshaken(self) -> bool:
        """Whether there was an `initialize`, so that notices come unasked."""
        return self.revision is not None

    @property
    def standing(self) -> Standing | None:
        """It, as one who can be asked out of a request: only after a handshake."""
        return Standing(self.asks, self.id, self.abilities) if self.handshaken else None

    @property
    def behind(self) -> bool:
        """Whether the peer reads so slowly that it gets no notices."""
        return self.outlet.queued >= NOTICE_HIGH

    async def drained(self) -> None:
        """Return once the peer has taken everything, or is gone."""
        await self.outlet.drained()

    def finish(self) -> None:
        """The peer asks nothing more: this is over once all that it asked for is answered and read."""
        self._finished = True
        self._end_when_answered()

    def _end_when_answered(self) -> None:
        if not self._running:
            if self.outlet.queued:
                self._nursery.start_soon(self._end_when_read)
            else:
                self.over.set()

    async def _end_when_read(self) -> None:
        await self.outlet.drained()
        self.over.set()

    # --------------------------------------------------------------- serving

    def answered(self, on: bytes, key: bytes, ticket: Ticket, answer: bytes | None) -> None:
        """A request that was begun is through; `answer` is its line, None when it gets none. Whatever goes
        wrong here is the end of this session, not of the server that has answered."""
        try:
            self._served(on, key, ticket, None, answer)
            if ticket.placed:
                ticket.placed = False
                self._serving -= 1
            if self._waiting or self._returning:
                self._admit()
        except Exception:
            log.exception("session %s ends: internal error", self.id)
            self.over.set()

    def go_on(self, message: Message, key: bytes, on: bytes, ticket: Ticket, rest: Awaitable[bytes]) -> None:
        """The same for one that has to wait after all: `rest` is what remains of it."""
        self._nursery.start_soon(self._go_on, message, key, on, ticket, rest)

    async def _go_on(
        self, message: Message, key: bytes, on: bytes, ticket: Ticket, rest: Awaitable[bytes]
    ) -> None:
        self.answered(on, key, ticket, await self._face.serve(self, message, key, on, ticket, rest))

    def end(self) -> None:
        """Give up all that is under way, for which there may be no task; nothing is taken from here on. To be
        called while the nursery is still open."""
        self._ended = True
        for message, *_ in self._waiting:
            self._face.unserved(self, message, "cancelled")
        self._waiting.clear()
        for ticket in list(self._running.values()):
            ticket.withdraw()

    def leave(self, ticket: Ticket) -> None:
        """A request that waits for something else than its server's answer leaves its place to others."""
        if ticket.placed:
            ticket.placed = False
            self._serving -= 1
            self._admit()

    async def enter(self, ticket: Ticket) -> None:
        """It takes a place again, before those that have not begun."""
        if self._serving < self._places and not self._returning:
            self._serving += 1
        else:
            task = trio.lowlevel.current_task()
            self._returning.append(task)

            def stay_away(_: object) -> trio.lowlevel.Abort:
                self._returning.remove(task)
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(stay_away)
        ticket.placed = True

    def _admit(self) -> None:
        """Give what places there are to those that come back, and to those that wait."""
        while self._serving < self._places:
            if self._returning:
                trio.lowlevel.reschedule(self._returning.pop(0))
            elif len(self._waiting) > self._called:
                self._called += 1
                self._nursery.start_soon(self._work)
            else:
                return
            self._serving += 1

    async def _work(self) -> None:
        """One of the session's tasks: serve what waits, as long as it has a place."""
        self._called -= 1
        placed = True
        while placed and self._waiting and not self._returning:
            message, key, on, ticket, batch = self._waiting.pop(0)
            ticket.placed = True
            if self.outlet.queued > QUEUE_HIGH:
                await self.outlet.drained()
            self._served(on, key, ticket, batch, await self._face.serve(self, message, key, on, ticket))
            placed, ticket.placed = ticket.placed, False
        if placed:
            self._serving -= 1
            self._admit()

    async def _serve_aside(self, message: Message, key: bytes, on: bytes, batch: Batch | None) -> None:
        """A request that takes no place."""
        ticket = self._running[on]
        self._served(on, key, ticket, batch, await self._face.serve(self, message, key, on, ticket))

    def _served(
        self, on: bytes, key: bytes, ticket: Ticket, batch: Batch | None, answer: bytes | None
    ) -> None:
        if self._running.get(on) is not ticket:
            # It was answered before it was through, see `answer_now`.
            return
        del self._running[on]
        if batch is not None:
            batch.put(key, answer)
        elif answer is not None:
            self.outlet.answer(answer, on)
        else:
            self.outlet.unanswered(on)
        if self._finished:
            self._end_when_answered()

    def answer_now(self, on: bytes, line: bytes) -> None:
        """Answer a request whose handler goes on, and takes no place meanwhile; what the handler returns is
        not for this request any more (8.2)."""
        ticket = self._running.pop(on)
        self.outlet.answer(line, on)
        self.leave(ticket)
        if self._finished:
            self._end_when_answered()

    # --------------------------------------------------------------- messages

    def take(self, message: Message, on: bytes = b"", batch: Batch | None = None) -> None:
        """Take one message, and see to it that it is served. Nothing here waits.

        `on`: the name of a request, where its id is not unique in the session.
        """
        if self._ended:
            return
        first, self._attachable = self._attachable, False
        if not message.method:
            self.asks.answered(message)
            return
        key = bytes(message.id)
        if not key:
            if message.method == ATTACH:
                if first:
                    self._attach(bytes(message.params))
            else:
                self._notified(message)
            return
        on = on or key
        if len(key) > LONGEST_ID or not (key.isdigit() or jsonrpc.is_id(key)) or on in self._running:
            why = f"an id is a string or an integer, short ({LONGEST_ID}), not used by an open request"
            self.refuse(Failure("invalid_request", why), on, batch)
            return
        placeless = message.method in PLACELESS
        full = (
            len(self.notices.streams) >= self._streams
            if message.method == LISTEN
            else len(self._running) >= WAITING + self._places
        )
        if full and message.method != "ping":
            busy = Failure("busy", "too many requests of this session wait", hint="try again later")
            self._face.unserved(self, message, busy.kind)
            self._answer(self._face.refused(message, busy, self.revision is None), on, batch)
            return
        ticket = self._running[on] = Ticket(None if placeless else self)
        self.malformed = 0
        if batch is not None:
            batch.open(key)
        if placeless:
            self._nursery.start_soon(self._serve_aside, message, key, on, batch)
        elif (
            self._serving < self._places
            and not self._waiting
            and not self._returning
            and batch is None
            and self.outlet.queued <= QUEUE_HIGH
            and self._face.begin(self, message, key, on, ticket)
        ):
            self._serving += 1
            ticket.placed = True
        else:
            self._waiting.append((message, key, on, ticket, batch))
            self._admit()

    def take_batch(self, line: bytes, on: bytes = b"") -> None:
        """Take an array of messages; it is answered by an array (JSON-RPC 2.0, section 6)."""
        try:
            lines = jsonrpc.read_batch(line)
            if not lines:
                raise Failure("invalid_request", "an empty batch")
        except Failure as e:
            self.refuse(e, on)
            return
        batch = Batch(self.outlet, on)
        for item in lines:
            try:
                message = jsonrpc.read(item)
            except Failure as e:
                self.refuse(e, on, batch, jsonrpc.unread_id(item))
            else:
                self.take(message, b"", batch)
        batch.close()

    def refuse(self, failure: Failure, on: bytes = b"", batch: Batch | None = None, key: bytes = b"") -> None:
        """Answer what was no request. `key`: the id that can be seen in it, so that its caller need not wait;
        that of an open request is not told from it."""
        self.malformed += 1
        error = jsonrpc.error_text(failure.code, failure.message, failure.details())
        self._answer(jsonrpc.error_line(b"null" if self.runs(key) else key, error), on, batch)

    def _answer(self, line: bytes, on: bytes, batch: Batch | None) -> None:
        if batch is None:
            self.outlet.answer(line, on)
        else:
            batch.add(line)

    def withdraw(self, on: bytes) -> None:
        """Its caller no longer wants the answer to this request (5.9)."""
        ticket = self._running.get(on)
        if ticket is not None:
            ticket.withdraw()

    # ----------------------------------------------------------- notifications

    def _notified(self, message: Message) -> None:
        if message.method == "notifications/roots/list_changed":
            self.asks.roots_changed()
        if message.method != "notifications/cancelled":
            return
        try:
            key = bytes(read_params(bytes(message.params), CancelledParams).request_id)
        except Failure:
            return
        self.withdraw(key)
        self.parked.withdraw(key)

    def notice(self, method: str, params: bytes, on: bytes = b"") -> None:
        """Tell the agent something, unless it does not read. `on`: the request that it belongs to."""
        if not self.behind:
            self.outlet.write(jsonrpc.notification_line(method, params), on)

    def say(self, line: bytes, on: bytes) -> bool:
        """Send the agent a request, or what concerns one; unlike a notice it is never left out. False when
        nobody will read it."""
        return self.outlet.write(line, on)

    def attended(self, on: bytes) -> bool:
        """Whether somebody reads now what belongs to that request."""
        return self.outlet.attended(on)

    async def begin(self, run: Callable[..., Awaitable[object]]) -> None:
        """Start what goes on beside the session's requests, until it ends; return once it has started."""
        await self._nursery.start(run)

    def changed(self) -> None:
        """Catalogues or servers changed: the agent hears of it if what it was shown did. Whose word does not
        make it that agent any more is told nothing; that is its end."""
        if self._named:
            agent = self.broker.config.agents.get(self.agent)
            if agent is None or not agent.open:
                self.over.set()
                return
        self.notices.changed()

    # ------------------------------------------------------------------ attach

    def show(self, server: str) -> None:
        """Show one server alone, empty for all; nothing is attached from here on."""
        self._attachable = False
        self._look(server)

    def switch(self, server: str, on: bool) -> None:
        """Show the session a server no more, or again; what it left out when it came stays out (c23).

        A preference, effective at once: requests that are under way go on, and only what the agent may use
        comes back.
        """
        self.off = self.off - {server} if on else self.off | {server}
        self._look(self.key.only)
        self.changed()
        self.broker.changes.publish("sessions", self.id)

    def _look(self, server: str) -> None:
        """What is seen from here on: of one server alone, or of all for an empty name."""
        self.key = ViewKey((self.agent, server, self._without | self.off, self.root))

    def _attach(self, raw: bytes) -> None:
        """Fix agent, root and servers for the rest of the connection; a mistake refuses all of it."""
        try:
            attach = read_params(raw, Attach)
            agent = self._may_be(attach.agent)
            if attach.server:
                check_server(self.broker, agent, attach.server)
            if len(attach.without) > LEFT_OUT:
                raise Failure("invalid_params", f"at most {LEFT_OUT} servers can be left out")
            self.root = check_root(attach.root, self.peer) if attach.root else ""
        except Failure as e:
            self.refusal = e.again()
            return
        self._named = agent != self.agent
        self.agent = agent
        # Names that no server has now stay: one may get it later. What no server can ever be called does not.
        self._without = frozenset(name for name in attach.without if server_name_problem(name) is None)
        self._look(attach.server)
        self.broker.fleet.joined(self.id, agent, self.root)
        self.caller = Caller(self.id, agent, self.pid, self.exe, cwd=self.peer.cwd)

    def _may_be(self, name: str) -> str:
        """Which socket a process can open is its identity; on the default one it may name an open agent."""
        if not name or name == self.agent:
            return self.agent
        if self.agent == DEFAULT_AGENT and find_agent(self.broker, name).open:
            return name
        raise Failure(
            "refused",
            f'this socket is not for agent "{name[:60]}"',
            hint="use the agent's own socket, or set `open = true` for it",
            agent=name[:60],
        )


def check_server(broker: Broker, agent: str, name: str) -> None:
    """Raises Failure `no_such_server`: one of others does not differ from one that is not there."""
    known = name in broker.fleet.names()
    if not known or not may_use_server(find_agent(broker, agent), name):
        raise Failure("no_such_server", f'no server is named "{name[:60]}"', server=name[:60])
