"""One opened connection: ids out, answers back, notices upward. No I/O of its own.

Ids count upward and are never reused; they are the progress tokens as well. Late, doubled and
unknown answers are dropped (protocol reference 2).
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from mcpd.errors import Failure, ServerError
from mcpd.protocol import dialect, extensions, jsonrpc
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.shapes import (
    LEVELS,
    CancelledParams,
    ErrorShape,
    LevelParams,
    ProgressParams,
    TaskParams,
    read_result,
)
from mcpd.transport.base import ConnectionLost, Outlet, Unanswered
from mcpd.transport.pending import Asker, Deadlines, Slot
from mcpd.upstream.opening import Settled
from mcpd.upstream.relay import Relay

#: Told the method and the params' JSON text (empty when absent) of what a server announces.
Noticed = Callable[[str, bytes], None]

#: The first ids belong to the opening.
FIRST_ID = 3

#: Bytes that may wait for a server that does not read; above, requests are refused and answers dropped.
QUEUE_MAX = 32 * 1024 * 1024

#: Characters of a server's request id.
LONGEST_ID = 300

#: Different callers' declarations that are kept as text.
STANDINGS = 64


class Followed:
    """A task that a request with a handshake has made, for its caller."""

    __slots__ = ("slot", "task", "told", "waits")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        """Stands for the request, which may be over."""
        self.task = ""
        """The server's own id of it, once that is known."""
        self.waits = True
        """The caller still waits for the result of its request, so that it counts as one under way."""
        self.told: Callable[[bytes], None] = _nothing
        """Told the params of a notice about its state."""


class Connection:
    """What requests are sent on. `settled` says what both sides agreed on."""

    def __init__(
        self,
        settled: Settled,
        sender: Outlet,
        deadlines: Deadlines,
        noticed: Noticed,
        remark: Callable[[str], None],
        relay: Relay | None = None,
        dead: Callable[[], None] = lambda: None,
    ) -> None:
        """`noticed` is told of notifications that concern no request; `remark` gets notes for the log;
        `relay` gets what the server asks, else nobody can be asked anything. `dead` is called when a message
        cannot leave, which may show before the transport notices: who tries again must wait for the next
        connection."""
        self.settled = settled
        self.last_sent = 0.0
        """When the last request was sent (trio clock)."""
        self.doubted: Callable[[], None] = _believed
        """Called when a request went without an answer, so that the server may be gone."""
        self._sender = sender
        self._dead = dead
        self._deadlines = deadlines
        self._notice = noticed
        self._remark = remark
        self._standing = dialect.standing_meta(settled.revision)
        self._standings: dict[tuple[Ability, bytes], bytes] = {}
        """The same for callers that can be asked something, or have extensions."""
        self._announced = extensions.read(settled.capabilities)
        self._followed: dict[bytes, Followed] = {}
        """Tasks, by the ids of the requests that made them, which are their progress tokens (5.15)."""
        self._relay = relay or Relay("", lambda: NONE, "", remark)
        self._logs_by_request = settled.revision.stateless and "logging" in settled.capabilities
        self._pending: dict[bytes, Slot] = {}
        self._next = FIRST_ID
        self._lost = False
        self._relay.wire = self

    @property
    def busy(self) -> bool:
        """Whether a request waits for its answer; a stream of notices does not count."""
        return any(not slot.stream for slot in self._pending.values())

    # ---------------------------------------------------------------- sending

    def send(self, method: str, members: bytes, kept_meta: bytes, slot: Slot) -> bytes:
        """Send one request; its answer settles `slot`. Returns its id's JSON text.

        `members`: the params without braces; `kept_meta`: `_meta` members of the caller.
        Raises ConnectionLost when the request provably did not leave, Failure `busy` when too much
        waits for the server already.
        """
        if self._sender.queued > QUEUE_MAX:
            raise Failure("busy", "the server does not read its input", hint="try again later")
        key = b"%d" % self._next
        self._next += 1
        if self._logs_by_request and slot.asker is not None and slot.asker.level is not None:
            kept_meta = dialect.with_level(kept_meta, LEVELS[slot.asker.level])
        standing = self._standing
        if standing:
            asker = slot.asker
            can, declared = (NONE, slot.extensions) if asker is None else (asker.abilities, asker.extensions)
            if can or declared or (asker is not None and self._relay.fixed):
                standing = self._standing_for(can, declared)
        line = dialect.request_line(key, method, members, standing, kept_meta)
        if self._lost:
            raise ConnectionLost
        if not self._sender.write(line):
            self._dead()
            raise ConnectionLost
        slot.written = True
        self.last_sent = now = self._deadlines.now()
        slot.start(now)
        self._pending[key] = slot
        if slot.expires:
            self._deadlines.add(slot)
        return key

    def _standing_for(self, can: Ability, declared: bytes) -> bytes:
        """What a stateless server is told with a request whose caller can be asked something, or has
        extensions (4.2, 5.1, 5.17)."""
        place = (self._relay.mask(can), declared)
        standing = self._standings.get(place)
        if standing is None:
            if len(self._standings) >= STANDINGS:
                self._standings.clear()
            both = extensions.towards_server(declared, self._announced)
            standing = dialect.standing_meta(self.settled.revision, place[0], both)
            self._standings[place] = standing
        return standing

    async def exchange(
        self,
        method: str,
        members: bytes,
        kept_meta: bytes,
        slot: Slot,
        sent: Callable[[bytes], None] | None = None,
    ) -> bytes:
        """Send one request and wait for its result as JSON text. `sent` is told its id's JSON text.

        Raises ServerError for the server's own error, ConnectionLost, Failure `timed_out` and
        `bad_answer`, and what `slot` was settled with. Whoever stops waiting before the answer,
        also by cancellation, makes the server hear of it (5.9).
        """
        key = self.send(method, members, kept_meta, slot)
        if sent is not None:
            sent(key)
        if slot.outcome is None:
            try:
                slot.waiter = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(slot.abandon)
            except BaseException:
                self.end(key, slot)
                raise
        return self.result(key, slot)

    def result(self, key: bytes, slot: Slot) -> bytes:
        """What a request that is settled has come to, see `exchange`; it is over."""
        try:
            return slot.result()
        except Failure as e:
            if e.kind == "timed_out":
                self.doubted()
            raise
        finally:
            self.end(key, slot)

    def end(self, key: bytes, slot: Slot) -> None:
        """A request is over; where it has no answer yet, the server hears that none is wanted (5.9)."""
        self._deadlines.discard(slot)
        if self._pending.pop(key, None) is not None:
            self._cancel(key)
        if slot.held is not None:
            slot.over()
        if self._relay.turns is not None:
            self._relay.turns.moved()

    async def ask(self, method: str, members: bytes = b"", *, timeout: float) -> bytes:
        """A request of mcpd's own."""
        return await self.exchange(method, members, b"", Slot(timeout, 0.0))

    def _cancel(self, key: bytes) -> None:
        params = dialect.params(b'"requestId":' + key + b',"reason":"no longer wanted"', self._standing)
        self.notify("notifications/cancelled", params)

    # ------------------------------------------------------------------- tasks

    def announces(self, extension: str) -> bool:
        """Whether the server has said that it speaks it (5.17)."""
        return extension in self._announced

    def follow(self, key: bytes, slot: Slot) -> Followed:
        """The request `key` is about to make a task: its progress, and what the server asks for it, belong to
        the asker of `slot` also when the request is over, until `unfollow` (5.15)."""
        followed = self._followed[key] = Followed(slot)
        return followed

    def unfollow(self, key: bytes) -> None:
        followed = self._followed.pop(key, None)
        if followed is not None and followed.slot.held is not None:
            followed.slot.over()
        if self._relay.turns is not None:
            self._relay.turns.moved()

    def notify(self, method: str, params: bytes) -> None:
        self._say(jsonrpc.notification_line(method, params))

    def _say(self, line: bytes) -> None:
        """Send what needs no answer, unless it cannot leave."""
        if not self._lost and self._sender.queued <= QUEUE_MAX and not self._sender.write(line):
            self._dead()

    def lose(self) -> None:
        """The transport ended: every request that waits is told."""
        self._lost = True
        pending, self._pending = self._pending, {}
        for slot in pending.values():
            self._deadlines.discard(slot)
            slot.settle(ConnectionLost())
        followed, self._followed = self._followed, {}
        for each in followed.values():
            each.slot.settle(ConnectionLost())

    # -------------------------------------------------------------- receiving

    def receive(self, line: bytes, on: bytes = b"") -> None:
        """Take one line from the server. `on`: the request on whose own stream it came, if there is such."""
        if line[:1] == b"[" and self.settled.revision.batches:
            self._receive_batch(line, on)
            return
        message = jsonrpc.read_lenient(line)
        if message is None:
            self._remark(f"not JSON-RPC: {line[:200].decode('utf-8', 'replace')}")
        elif not message.method:
            self._answered(message, on)
        elif message.id:
            self._asked(message, on)
        else:
            self._noticed(message, on)

    def _receive_batch(self, line: bytes, on: bytes) -> None:
        try:
            members = jsonrpc.read_batch(line)
        except Failure as e:
            self._remark(e.message)
            return
        for member in members:
            if member[:1] == b"[":
                self._remark("an array within an array is no message (JSON-RPC 2.0, section 6)")
            else:
                self.receive(member, on)

    def askers(self, on: bytes = b"") -> list[Asker]:
        """The requests under way that a message of the server may belong to, all of one session; none
        where that cannot be told (n03).

        `on`: the request on whose own stream the message came. Where it came on the one that all share,
        it can be told only while one session alone has requests here.
        """
        askers = [slot.asker for slot in self.slots(on) if slot.asker is not None]
        return askers if len({asker.session for asker in askers}) == 1 else []

    def slots(self, on: bytes) -> list[Slot]:
        """The requests under way that somebody has made; with `on`, the id's JSON text, that one alone."""
        found = [self._pending.get(on)] if on else [*self._pending.values(), *self._driven()]
        return [slot for slot in found if slot is not None and slot.asker is not None and not slot.settled]

    def _driven(self) -> list[Slot]:
        return [each.slot for each in self._followed.values() if each.waits]

    def of_task(self, task: str) -> list[Slot]:
        """The requests of whoever made the server's task of this id: that one and all under way."""
        for each in self._followed.values():
            if each.task == task and each.slot.asker is not None:
                session = each.slot.asker.session
                under_way = [slot for slot in self.slots(b"") if slot.asker and slot.asker.session == session]
                return [each.slot, *(slot for slot in under_way if slot is not each.slot)]
        return []

    def _answered(self, message: Message, on: bytes) -> None:
        key = bytes(message.id)
        slot = self._pending.pop(key, None) or self._pending.pop(jsonrpc.bare(key), None)
        if slot is None and message.error:
            # An error under no id of ours is about the request on whose stream it came (2).
            slot = self._pending.pop(on, None)
        if slot is None:
            # Late, doubled or unknown. An error may be about something that the server could not even read.
            if message.error:
                error = jsonrpc.read_error(bytes(message.error))
                self._remark(f"error answer to no request: {error.words}")
            return
        if message.error:
            slot.settle(_server_error(bytes(message.error)))
            return
        result = bytes(message.result)
        if result[:1] == b"{":
            slot.settle(result)
        else:
            slot.settle(Failure("bad_answer", "the server's answer has neither a result object nor an error"))

    def too_large(self, key: bytes) -> None:
        """The answer to the request `key` was larger than a line may be."""
        slot = self._pending.pop(jsonrpc.bare(key), None)
        if slot is not None:
            slot.settle(Failure("too_large", "the server's answer is larger than 16 MiB"))

    def failed(self, key: bytes, failure: Unanswered | ConnectionLost) -> None:
        """The transport brings no answer to the request `key`; empty where none of ours is concerned."""
        slot = self._pending.pop(key, None)
        if slot is not None:
            slot.written = isinstance(failure, Unanswered) and failure.reached
            slot.settle(failure)
        if isinstance(failure, Unanswered) and failure.kind != "too_large":
            self.doubted()

    def _asked(self, message: Message, on: bytes) -> None:
        if self.settled.revision.stateless:
            self._remark(f"request {message.method[:100]!r} on a stateless connection dropped")
        elif len(message.key) > LONGEST_ID or self._sender.queued > QUEUE_MAX:
            self._remark(
                f"request {message.method[:100]!r} not answered: the server does not read, or its id is odd"
            )
        else:
            self._relay.asked(self, message, on)

    def answer(self, line: bytes) -> None:
        """Send an answer to one of the server's requests."""
        self._say(line)

    def _noticed(self, message: Message, on: bytes) -> None:
        match message.method:
            case "notifications/progress":
                self._progressed(bytes(message.params))
            case "notifications/cancelled":
                # Of its own questions, and to end a listen stream; nothing else may be cancelled so (5.14).
                params = read_result(bytes(message.params or b"{}"), CancelledParams)
                if params is not None and not self.settled.revision.stateless:
                    self._relay.cancelled(bytes(params.request_id))
                slot = self._pending.get(bytes(params.request_id)) if params else None
                if slot is not None and slot.stream:
                    slot.settle(ConnectionLost())
            case "notifications/elicitation/complete":
                self._relay.completed(bytes(message.params))
            case "notifications/message":
                self._logged(bytes(message.params), on)
            case "notifications/tasks/status":
                self._task_changed(bytes(message.params))
            case method:
                self._notice(method, bytes(message.params))

    def _progressed(self, raw: bytes) -> None:
        params = read_result(raw, ProgressParams)
        if params is None:
            return
        token = bytes(params.progress_token)
        slot = self._pending.get(token) or self._pending.get(jsonrpc.bare(token))
        if slot is None and self._followed:
            followed = self._followed.get(token) or self._followed.get(jsonrpc.bare(token))
            slot = followed.slot if followed is not None else None
        if slot is not None and not slot.settled:
            slot.progressed(trio.current_time())
            if slot.asker is not None:
                slot.asker.progressed(raw)

    def _task_changed(self, raw: bytes) -> None:
        params = read_result(raw or b"{}", TaskParams)
        for each in list(self._followed.values()) if params is not None else ():
            assert params is not None
            if each.task == params.task_id:
                each.told(raw)

    def _logged(self, raw: bytes, on: bytes) -> None:
        """Every log message goes to the server's own log, and to the agent that it is for, if it wants it."""
        self._remark(raw[:500].decode("utf-8", "replace"))
        levels = [(asker.level, asker) for asker in self.askers(on)]
        wanting = [(level, asker) for level, asker in levels if level is not None]
        message = read_result(raw, LevelParams) if wanting else None
        if message is not None and message.level in LEVELS:
            least, asker = min(wanting, key=_least)
            if LEVELS.index(message.level) >= least:
                asker.logged(raw)


def _least(wanting: tuple[int, Asker]) -> int:
    return wanting[0]


def _nothing(raw: bytes) -> None:
    """Nobody wants to hear of it."""


def _believed() -> None:
    """A server's process tells by itself when it is gone."""


def _server_error(raw: bytes) -> ServerError:
    """The server's own error as it was sent, unless that is no error object: a strict agent would drop
    the whole answer and wait for ever."""
    error = jsonrpc.read_error(raw)
    if read_result(raw, ErrorShape) is None:
        data = error.data if error.data else None
        raw = jsonrpc.error_text(int(error.code), error.message or "an error without a message", data)
    return ServerError(raw.replace(b"\r", b" "), int(error.code), error.words)
