"""One attached agent process: its lines in, its answers out.

The session owns the requests that run and those that wait for a place. What a request means is the
method table's business. The end of the session cancels everything it had under way.

The daemon's one reader hands in what arrives; a few tasks serve, and one of them rests for the next
request, so that a small call costs no task of its own (measured: 15 % of its time).
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Protocol

import trio

from mcpd.agents.identity import Attach, Peer, check_root
from mcpd.broker import Broker
from mcpd.calls import Caller
from mcpd.catalog.names import server_name_problem
from mcpd.errors import KINDS, Failure
from mcpd.listing import DEFAULT_AGENT, find_agent, view_now
from mcpd.policy.rules import may_use_server
from mcpd.protocol import dialect, jsonrpc
from mcpd.protocol.framing import LINE_LIMIT, LineBuffer
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.revisions import Revision
from mcpd.protocol.shapes import CancelledParams, read_params
from mcpd.transport.lines import LineWriter
from mcpd.upstream.ticket import Ticket
from mcpd.views import View, ViewKey

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

#: Lines in a row that are no request, notification or answer, after which nothing better is expected.
MALFORMED = 100

#: Requests that wait for one of the session's places; more are refused as busy.
WAITING = 256

#: From a reader that lets this many bytes of answers lie no further request is read or served...
QUEUE_HIGH = 4 * 1024 * 1024
#: ...and gets no notifications: progress is lost, a changed list is told later.
NOTICE_HIGH = 256 * 1024


#: A request that waits for one of the session's places, its id's JSON text, and the array it stood in.
Waiting = tuple[Message, bytes, Ticket, "Batch | None"]


class Face(Protocol):
    """What requests mean: the method table, as the session needs it."""

    async def serve(self, session: Session, message: Message, key: bytes, ticket: Ticket) -> bytes | None:
        """The answer's line; None when the caller no longer wants one."""
        ...

    def refused(self, message: Message, failure: Failure, stateless: bool) -> bytes:
        """The line by which the agent learns of a failure."""
        ...


class Hopeless(Exception):
    """The peer sends nothing but malformed lines."""


class Session:
    """`revision` is None until `initialize` has chosen one; stateless requests need none."""

    def __init__(
        self,
        broker: Broker,
        face: Face,
        peer: Peer,
        agent: str,
        writer: LineWriter,
        nursery: trio.Nursery,
        fd: int,
    ) -> None:
        self.broker = broker
        self.id = f"s{next(broker.session_numbers)}"
        self.agent = agent
        self.pid = peer.pid
        self.exe = peer.exe
        self.peer = peer
        self.root = ""
        self.key = ViewKey((agent, "", frozenset()))
        self.caller = Caller(self.id, agent, peer.pid, peer.exe)
        self.revision: Revision | None = None
        self.listed: View | None = None
        """What the agent was shown last; a notice follows when it is no longer true."""
        self.listens: dict[bytes, bool] = {}
        """Open `subscriptions/listen` requests: id -> whether tool changes are wanted."""
        self.refusal: Failure | None = None
        """Why nothing is served here: the attach line was wrong."""
        self.writer = writer
        self._face = face
        self._nursery = nursery
        self._fd = fd
        self._reader = broker.fleet.reader
        self._buffer = LineBuffer()
        self._malformed = 0
        """Malformed messages since the last request."""
        self._first = True
        self._running: dict[bytes, Ticket] = {}
        """Every request without an answer, by its id's JSON text."""
        self._waiting: deque[Waiting] = deque()
        self._places = broker.config.settings.max_in_flight_session or WAITING
        self._serving = 0
        """Tasks that serve or have been called to serve."""
        self._resting: trio.lowlevel.Task | None = None
        self._ended = False
        """The peer has finished writing."""
        self._telling = False
        self.over = trio.Event()
        """The peer is gone, or has got all it asked for."""

    # --------------------------------------------------------------- reading

    def received(self, chunk: bytes | None) -> None:
        """Take what the reader read. Whatever goes wrong here is the end of this session alone."""
        try:
            if chunk:
                self._feed(chunk)
            elif chunk is None:
                self.over.set()
            else:
                # It may have only finished writing (`printf ... | mcpctl bridge`) and want its answers.
                self._ended = True
                self._end_when_answered()
        except Hopeless:
            log.info("session %s ends: %d malformed lines in a row", self.id, MALFORMED)
            self.over.set()
        except Exception:
            log.exception("session %s ends: internal error", self.id)
            self.over.set()

    def _feed(self, chunk: bytes) -> None:
        for line in self._buffer.feed(chunk):
            self.receive(line)
        if self._buffer.ends:
            self._refuse_dropped()
        if self._waiting:
            self._call_workers()
        if self.writer.queued > QUEUE_HIGH:
            self._reader.pause(self._fd)
            self._nursery.start_soon(self._read_on_later)

    async def _read_on_later(self) -> None:
        await self.writer.drained()
        self._reader.resume(self._fd)

    def _end_when_answered(self) -> None:
        """The peer has finished writing: this is over once all it asked for is answered and read."""
        if not self._running:
            if self.writer.queued:
                self._nursery.start_soon(self._end_when_read)
            else:
                self.over.set()

    async def _end_when_read(self) -> None:
        await self.writer.drained()
        self.over.set()

    # --------------------------------------------------------------- serving

    def _call_workers(self) -> None:
        """See to it that what waits is served, as far as there are places."""
        left = len(self._waiting)
        while left and self._serving < self._places:
            left -= 1
            self._serving += 1
            if self._resting is not None:
                task, self._resting = self._resting, None
                trio.lowlevel.reschedule(task)
            else:
                self._nursery.start_soon(self._work)

    def _park(self, waits: bool) -> None:
        """A request that waits for its server to come up, or for a catalogue, leaves its place to others."""
        if waits:
            self._serving -= 1
            self._call_workers()
        else:
            self._serving += 1

    async def _work(self) -> None:
        """One of the session's tasks: serve what waits, then rest if nobody does, else end."""
        while True:
            while self._waiting:
                await self._serve(self._waiting.popleft())
            self._serving -= 1
            if self._resting is not None:
                return
            self._resting = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._stop_resting)

    def _stop_resting(self, _: object) -> trio.lowlevel.Abort:
        self._resting = None
        return trio.lowlevel.Abort.SUCCEEDED

    async def _serve(self, waiting: Waiting) -> None:
        message, key, ticket, batch = waiting
        if self.writer.queued > QUEUE_HIGH:
            await self.writer.drained()
        answer = await self._face.serve(self, message, key, ticket)
        del self._running[key]
        if batch is not None:
            batch.put(key, answer)
        elif answer is not None:
            self.writer.write(answer)
        if self._ended:
            self._end_when_answered()

    # --------------------------------------------------------------- messages

    def receive(self, line: bytes) -> None:
        """Take one line. Requests are left to the tasks; nothing here waits."""
        if line[:1] == b"[" and self.revision is not None and self.revision.batches:
            self._receive_batch(line)
            return
        try:
            message = jsonrpc.read(line)
        except Failure as e:
            self._refuse_line(e)
            return
        self._take(message, None)

    def _take(self, message: Message, batch: Batch | None) -> None:
        first, self._first = self._first, False
        if not message.method:
            # mcpd asks agents nothing yet, so no answer is expected (2).
            return
        key = message.key
        if not key:
            if message.method == ATTACH:
                if first:
                    self._attach(bytes(message.params))
            else:
                self._notified(message)
            return
        if key[:1] not in b'"-0123456789' or key in self._running or len(key) > LONGEST_ID:
            why = "an id is a string or an integer, not used by an open request"
            self._refuse_line(Failure("invalid_request", why), batch)
            return
        placeless = message.method in PLACELESS
        full = (
            len(self.listens) >= STREAMS
            if message.method == LISTEN
            else len(self._running) >= WAITING + self._places
        )
        if full and message.method != "ping":
            busy = Failure("busy", "too many requests of this session wait", hint="try again later")
            self._send(self._face.refused(message, busy, self.revision is None), batch)
            return
        ticket = self._running[key] = Ticket(None if placeless else self._park)
        waiting = (message, key, ticket, batch)
        self._malformed = 0
        if batch is not None:
            batch.open(key)
        if placeless:
            self._nursery.start_soon(self._serve, waiting)
        else:
            self._waiting.append(waiting)

    def _receive_batch(self, line: bytes) -> None:
        """An array of messages is answered by an array (JSON-RPC 2.0, section 6)."""
        try:
            lines = jsonrpc.read_batch(line)
            if not lines:
                raise Failure("invalid_request", "an empty batch")
        except Failure as e:
            self._refuse_line(e)
            return
        batch = Batch(self.writer)
        for item in lines:
            try:
                self._take(jsonrpc.read(item), batch)
            except Failure as e:
                self._refuse_line(e, batch)
        batch.close()

    def _refuse_line(self, failure: Failure, batch: Batch | None = None) -> None:
        """Answer what was no request; its id, if it has one, cannot be told from another's."""
        self._malformed += 1
        if self._malformed > MALFORMED:
            failure = Failure(
                "invalid_request", f"this is closed after {MALFORMED} malformed messages in a row"
            )
        error = jsonrpc.error_text(failure.code, failure.message, failure.details())
        self._send(jsonrpc.error_line(b"null", error), None if self._malformed > MALFORMED else batch)
        if self._malformed > MALFORMED:
            raise Hopeless

    def _refuse_dropped(self) -> None:
        """Answer lines that were too long to be kept, under their ids where those can be seen."""
        for head, tail in self._buffer.take_ends():
            key = jsonrpc.requested_id(head, tail)
            failure = Failure("invalid_request", "a message is at most 16 MiB long")
            error = jsonrpc.error_text(failure.code, failure.message, failure.details())
            self.writer.write(jsonrpc.error_line(b"null" if key in self._running else key, error))

    def _send(self, line: bytes, batch: Batch | None) -> None:
        if batch is None:
            self.writer.write(line)
        else:
            batch.add(line)

    # ----------------------------------------------------------- notifications

    def _notified(self, message: Message) -> None:
        if message.method != "notifications/cancelled":
            return
        try:
            key = bytes(read_params(bytes(message.params), CancelledParams).request_id)
        except Failure:
            return
        ticket = self._running.get(key)
        if ticket is not None:
            ticket.withdraw()

    def notice(self, method: str, params: bytes) -> None:
        """Tell the agent something, unless it does not read."""
        if self.writer.queued < NOTICE_HIGH:
            self.writer.write(jsonrpc.notification_line(method, params))

    def tools_changed(self) -> None:
        """The catalogue of some server changed: say so if this agent's listing did (a22, b23)."""
        if self.listed is None or self._telling:
            return
        if self.writer.queued >= NOTICE_HIGH:
            self._telling = True
            self._nursery.start_soon(self._tell_later)
            return
        try:
            now = view_now(self.broker, self.key)
        except Failure:
            return
        if now is self.listed or now.number == self.listed.number:
            return
        self.listed = now
        if self.revision is not None:
            self.notice("notifications/tools/list_changed", b"{}")
        for key, wanted in self.listens.items():
            if wanted:
                params = dialect.params(b"", dialect.subscription_meta(key))
                self.notice("notifications/tools/list_changed", params)

    async def _tell_later(self) -> None:
        """The agent reads slowly: it hears once, when it has caught up, that things have changed."""
        await self.writer.drained()
        self._telling = False
        self.tools_changed()

    # ------------------------------------------------------------------ attach

    def _attach(self, raw: bytes) -> None:
        """Fix agent, root and servers for the rest of the connection; a mistake refuses all of it."""
        try:
            attach = read_params(raw, Attach)
            agent = self._may_be(attach.agent)
            if attach.server:
                self._check_server(agent, attach.server)
            if len(attach.without) > LEFT_OUT:
                raise Failure("invalid_params", f"at most {LEFT_OUT} servers can be left out")
            self.root = check_root(attach.root, self.peer) if attach.root else ""
        except Failure as e:
            self.refusal = e.again()
            return
        self.agent = agent
        # Names that no server has now stay: one may get it later. What no server can ever be called does not.
        without = frozenset(name for name in attach.without if server_name_problem(name) is None)
        self.key = ViewKey((agent, attach.server, without))
        self.caller = Caller(self.id, agent, self.pid, self.exe)

    def _check_server(self, agent: str, name: str) -> None:
        """A server of others does not differ from one that is not there."""
        known = name in self.broker.fleet.names()
        if not known or not may_use_server(find_agent(self.broker, agent), name):
            raise Failure("no_such_server", f'no server is named "{name[:60]}"', server=name[:60])

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


class Batch:
    """Collects the answers of one array until all are there; together they are one line within the limit."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._open: set[bytes] = set()
        self._answers: list[bytes] = []
        self._room = LINE_LIMIT
        self._closed = False

    def open(self, key: bytes) -> None:
        self._open.add(key)

    def add(self, line: bytes) -> None:
        """An answer to something that was not opened."""
        self._answers.append(line.rstrip(b"\n"))

    def put(self, key: bytes, line: bytes | None) -> None:
        """An answer, or None for a request that gets none."""
        self._open.discard(key)
        if line and len(line) > self._room:
            error = jsonrpc.error_text(KINDS["too_large"], "the answers of this batch are too large together")
            line = jsonrpc.error_line(key, error)
        if line:
            self._room -= len(line)
            self.add(line)
        self._flush()

    def close(self) -> None:
        """All members have been taken."""
        self._closed = True
        self._flush()

    def _flush(self) -> None:
        if self._closed and not self._open and self._answers:
            answers, self._answers = self._answers, []
            self._writer.write(b"[" + b",".join(answers) + b"]\n")
