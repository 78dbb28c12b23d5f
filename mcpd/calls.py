"""The one path of every request that reaches a server (a01, DESIGN 6).

`go_on` only sequences: check, decide, send, bound, record. What a tool, a wrapper and a native method differ
in is said by their rows. The steps live in their own modules; a feature extends a step or adds a line
here, it never goes round the path.

Where nothing but the server's answer has to be waited for, the same steps are taken without a task that
waits: `begin` until it is sent, `Call.answered` when it is answered. Whatever is not as plain as that is
left to `go_on`, before or after (measured: a third of a small call).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from mcpd import listing, scanning
from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.catalog.content import Bounded
from mcpd.errors import Failure, ServerError
from mcpd.journal import About, Entry
from mcpd.permit import Permit, at_once, give_back, holds, is_free, obtain
from mcpd.protocol import dialect
from mcpd.protocol.jsonrpc import quoted
from mcpd.rows import Following, Native, Row, chain
from mcpd.tasks import Held, Making, Told, take
from mcpd.transport.pending import Asker, Slot
from mcpd.upstream.drive import Await, Drive, Make
from mcpd.upstream.request import Watch, request
from mcpd.upstream.request import begin as begin_request
from mcpd.upstream.rounds import Gather, Rounds
from mcpd.upstream.step import Begun, Sending, Step
from mcpd.upstream.ticket import Superseded, Ticket, Withdrawn
from mcpd.upstream.wishes import Tell

log = logging.getLogger("mcpd.calls")

#: How often a call is decided when what it was decided on changes while it waits for its server.
DECISIONS = 3

#: The step that asks the server once.
PLAIN: Step = request


class Call(msgspec.Struct, eq=False):
    """One request to one server for one caller: of a tool, or whatever else the row stands for."""

    broker: Broker
    caller: Caller
    row: Row
    payload: bytes
    """What the row takes, the caller's JSON text; empty when absent."""
    meta: bytes
    """The caller's `_meta`, the same."""
    ticket: Ticket
    asker: Asker | None
    through: Callable[[Call, Bounded | None], bool] | None = None
    """Takes the result of one that was begun, and says whether it could. Where it could not, or gets None,
    `go_on` says what comes of it."""
    began: float = msgspec.field(default_factory=time.perf_counter)
    permit: Permit = msgspec.field(default_factory=Permit)
    arguments: bytes = b""
    """What policy reads, once the payload is checked."""
    kept_meta: bytes = b""
    """What of `_meta` goes on, without braces."""
    begun: Begun | None = None
    """It has been sent."""
    result: Bounded | None = None
    """As the caller gets it, once it is there."""
    outcome: str = "cancelled"
    """Where there is none, why."""

    def check(self) -> None:
        """Raises Failure `invalid_params`."""
        self.payload = self.row.checked(self.payload)
        self.arguments = self.row.arguments(self.payload)
        if self.meta:
            self.kept_meta = dialect.forwarded_meta(self.meta)

    @property
    def beside(self) -> bytes:
        """What goes to the server besides the params: of `_meta`, and of the caller's extensions (5.17)."""
        extensions = self.asker.extensions if self.asker is not None else b""
        return b",".join(filter(None, (self.kept_meta, extensions[1:-1]))) if extensions else self.kept_meta

    def sending(self) -> Sending:
        """What the step that sends it is handed."""
        row = self.row
        return Sending(
            row.upstream,
            self.ticket,
            row.method,
            row.members(self.payload),
            self.kept_meta,
            row.ruling.timeout,
            self.broker.config.settings.timeout_max,
            self.asker,
            row.may_replay,
            partial(holds, self.broker, row, self.permit),
            begun=self.begun,
        )

    def answered(self, slot: Slot) -> None:
        """What was begun is settled. Of most answers it can be said at once what they come to."""
        assert self.begun is not None
        assert self.through is not None
        bounded = None
        raw, row, broker = slot.outcome, self.row, self.broker
        try:
            if type(raw) is bytes and broker.held_values.passes(raw, gives_secrets=row.ruling.gives_secrets):
                bounded = row.bound(raw, self.payload, broker.config.settings.max_result)
        except Exception:
            # Said where all is said that goes wrong, see `go_on`.
            bounded = None
        try:
            if self.through(self, bounded):
                self.begun.connection.end(self.begun.key, slot)
                slot.asker = None  # which holds the slot, by its ticket
                row.upstream.succeeded()
                self.result = bounded
                self.record()
        except Exception:
            # The server, whose reader this is, has nothing to do with it.
            log.exception("a call of %s: internal error", row.name)

    def record(self) -> None:
        """It is over: the last line of every request."""
        row, permit, result = self.row, self.permit, self.result
        size = 0
        if result is not None:
            size = len(result.text)
            self.outcome = "tool_error" if result.is_error else "ok"
        self.broker.journal.record(
            Entry(
                caller=self.caller,
                about=row.about,
                decision=permit.decision,
                because=row.because if permit.because is row.decision.because else chain(permit.because),
                approval=permit.approved,
                grant=permit.cover,
                waited=permit.waited,
                decided=permit.decided,
                outcome=self.outcome,
                findings=permit.findings,
                duration=time.perf_counter() - self.began,
                request_bytes=len(self.payload),
                result_bytes=size,
            ),
            self.arguments,
        )


def call(
    broker: Broker,
    caller: Caller,
    row: Row,
    payload: bytes,
    meta: bytes,
    ticket: Ticket,
    asker: Asker | None,
    send: Step = PLAIN,
) -> Awaitable[Bounded]:
    """One request, see `Call`; to be awaited.

    Raises ServerError for the server's own JSON-RPC error, Failure with the kinds of D13, Withdrawn when the
    caller gives up.
    """
    return go_on(Call(broker, caller, row, payload, meta, ticket, asker, arguments=payload), send)


def begin(
    broker: Broker,
    caller: Caller,
    row: Row,
    payload: bytes,
    meta: bytes,
    ticket: Ticket,
    asker: Asker,
    through: Callable[[Call, Bounded | None], bool],
) -> bool:
    """`call` up to the answer, where nothing but that has to be waited for: most requests are so. False where
    it is not so, and nothing was done. `through` is that of `Call`.

    `row` is what is true now.
    """
    if row.local or row.tool.task == "required" or asker.extensions:
        return False
    call = Call(broker, caller, row, payload, meta, ticket, asker, through)
    try:
        call.check()
    except Failure:
        return False
    if not is_free(broker, row, call.arguments, call.kept_meta, call.permit):
        return False
    slot = Slot(row.ruling.timeout, broker.config.settings.timeout_max, asker, told=call.answered)
    call.begun = begin_request(row.upstream, row.method, row.members(call.payload), call.kept_meta, slot)
    if call.begun is None:
        return False
    ticket.waits_in(slot)
    return True


async def go_on(call: Call, send: Step = PLAIN) -> Bounded:
    """The path: check, decide, send, bound, record. Of a request that was begun, and is settled, what comes
    of that: it has failed, or its answer wants a longer look, or is not the last word."""
    broker, caller, ticket, asker = call.broker, call.caller, call.ticket, call.asker
    try:
        if call.begun is None:
            call.check()
            if call.row.local:
                call.row = await _renewed(broker, call.row, ticket)
        for _ in range(DECISIONS):
            try:
                if call.begun is None:
                    await _decide(call)
                raw = b"" if call.row.local else await _send(call, send)
                break
            except Superseded:
                call.begun = None
                call.row = await _find_again(broker, call.row, ticket)
        else:
            row = call.row
            raise Failure(
                "busy", f'tool "{row.name}" keeps changing', hint="try again", server=row.upstream.name
            )
        made = None
        if send is not PLAIN or (asker is not None and asker.extensions):
            made = take(broker.tasks, caller, call.row, raw, asker, send)
        call.result = made or call.row.bound(raw, call.payload, broker.config.settings.max_result)
        return call.result
    except ServerError as e:
        call.outcome = e.kind
        raise await scanning.error(broker, caller, call.row, e) from None
    except Failure as e:
        call.outcome = e.kind
        raise
    except Exception:
        call.outcome = "internal"
        raise
    finally:
        if call.result is None and not ticket.reached:
            give_back(broker, call.permit)
        call.record()


async def _decide(call: Call) -> None:
    """Return once it may go to its server. Raises what `obtain` does."""
    broker, row, permit = call.broker, call.row, call.permit
    if at_once(broker, row, call.arguments, call.beside, permit):
        return
    await obtain(broker, call.caller, row, call.arguments, call.ticket, call.asker, permit, call.beside)
    if not (row.local or holds(broker, row, permit)):
        # A long look at the arguments, or the journal's disk: the decision is an old one now.
        raise Superseded


async def _send(call: Call, send: Step) -> bytes:
    """The server's result as its caller may have it. Raises what `request` does."""
    row, permit = call.row, call.permit
    step = send if row.tool.task != "required" else _following(row, send, call.asker)
    raw = await step(call.sending())
    if call.broker.held_values.passes(raw, gives_secrets=row.ruling.gives_secrets):
        return raw
    raw, found = await scanning.result(call.broker, call.caller, row, raw)
    if found:
        permit.findings = f"{permit.findings}; {found}" if permit.findings else found
    return raw


async def watch(
    broker: Broker,
    caller: Caller,
    row: Row,
    uri: str,
    meta: bytes,
    ticket: Ticket,
    asker: Asker,
    watcher: str,
    tell: Tell,
) -> None:
    """Ask for news of a resource of the row's server, under its own URI, on behalf of `watcher`.

    Raises what `call` does; then nothing is watched.
    """
    members = b'"uri":' + quoted(uri)
    await call(broker, caller, row, members, meta, ticket, asker, Watch(watcher, uri, tell))


def rounds(gather: Gather, first: bytes = b"") -> Step:
    """The step that asks the server as often as it wants to know more first; see there."""
    return Rounds(request, gather, first)


def making(wish: bytes, told: Told) -> Making:
    """The step that makes a task which its caller follows itself; see there."""
    return Making(request, wish, told)


def awaiting(held: Held) -> Step:
    """The step for the result of a task, once there is one."""
    return Await(request, held.own, held.connection)


def _following(row: Row, send: Step, asker: Asker | None) -> Step:
    """The step that asks the server where its tool insists on a task: mcpd follows one that the caller does
    not know (8.2)."""
    if row.method != "tools/call" or isinstance(send, Make):
        return send
    if asker is not None and asker.makes_tasks:
        return send
    catalog = row.upstream.catalog
    return Drive(request) if catalog is not None and "tasks" in catalog.features else send


def record_unfound(broker: Broker, caller: Caller, method: str, name: str, kind: str) -> None:
    """A request that never came to a row is recorded as well (n12): for something that is not there, or not
    for this agent, or not served. `kind`: of its failure."""
    broker.journal.record(
        Entry(
            caller=caller,
            about=About(tool=name[:200], method=method),
            outcome=kind,
        )
    )


async def _renewed(broker: Broker, row: Row, ticket: Ticket) -> Row:
    """The same row when what it is answered from is as new as a listing (a22, 5.18)."""
    with ticket.stoppable():
        await listing.renew(row.upstream, "prompts" if row.method == "prompts/list" else "resources")
    return row if broker.views.holds(row) else await _find_again(broker, row, ticket)


async def _find_again(broker: Broker, row: Row, ticket: Ticket) -> Row:
    with ticket.stoppable():
        if isinstance(row, Following):
            tool = row.tool.name
            return listing.find_following(broker, row.key, row.upstream, tool, row.name, row.method)
        if isinstance(row, Native):
            return listing.find_native(broker, row.key, row.upstream.name, row.tool, row.method, row.name)
        return await listing.find_tool(broker, row.key, row.name)
    raise Withdrawn
