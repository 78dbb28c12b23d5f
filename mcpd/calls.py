"""The one path of every request that reaches a server (a01, DESIGN 6).

`call` only sequences: find, check, decide, send, bound, record. What a tool, a wrapper and a native
method differ in is said by their rows. The steps live in their own modules; a feature extends a step
or adds a line here, it never goes round the path.
"""

from __future__ import annotations

import time
from functools import partial

from mcpd import listing, scanning
from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.catalog import content
from mcpd.errors import Failure, ServerError
from mcpd.journal import About, Entry
from mcpd.permit import Permit, at_once, give_back, holds, obtain
from mcpd.protocol import dialect
from mcpd.protocol.jsonrpc import quoted
from mcpd.rows import Following, Native, Row, chain
from mcpd.tasks import Held, Making, Told, take
from mcpd.transport.pending import Asker
from mcpd.upstream.drive import Await, Drive, Make
from mcpd.upstream.request import Watch, request
from mcpd.upstream.rounds import Gather, Rounds
from mcpd.upstream.step import Sending, Step
from mcpd.upstream.ticket import Superseded, Ticket, Withdrawn
from mcpd.upstream.wishes import Tell

#: How often a call is decided when what it was decided on changes while it waits for its server.
DECISIONS = 3


async def call(
    broker: Broker,
    caller: Caller,
    row: Row,
    payload: bytes,
    meta: bytes,
    ticket: Ticket,
    asker: Asker | None,
    send: Step = request,
) -> content.Bounded:
    """One request to one server for one caller: of a tool, or whatever else the row stands for.

    `payload`, what the row takes, and `meta` are the caller's JSON text, empty when absent. Raises
    ServerError for the server's own JSON-RPC error, Failure with the kinds of D13, Withdrawn when the
    caller gives up.
    """
    began = time.perf_counter()
    outcome = "cancelled"
    permit = Permit()
    size = 0
    arguments = payload
    try:
        payload = row.checked(payload)
        arguments = row.arguments(payload)
        if row.local:
            row = await _renewed(broker, row, ticket)
        kept_meta = dialect.forwarded_meta(meta) if meta else b""
        beside = _beside(kept_meta, asker.extensions) if asker is not None and asker.extensions else kept_meta
        for _ in range(DECISIONS):
            try:
                if not at_once(broker, row, arguments, beside, permit):
                    await obtain(broker, caller, row, arguments, ticket, asker, permit, beside)
                    if not (row.local or holds(broker, row, permit)):
                        # A long look at the arguments, or the journal's disk: the decision is an old one now.
                        raise Superseded
                if row.local:
                    raw = b""
                    break
                sending = Sending(
                    row.upstream,
                    ticket,
                    row.method,
                    row.members(payload),
                    kept_meta,
                    row.ruling.timeout,
                    broker.config.settings.timeout_max,
                    asker,
                    row.may_replay,
                    partial(holds, broker, row, permit),
                )
                step = send if row.tool.task != "required" else _following(row, send, asker)
                raw = await step(sending)
                if not broker.held_values.passes(raw, gives_secrets=row.ruling.gives_secrets):
                    raw, found = await scanning.result(broker, caller, row, raw)
                    if found:
                        permit.findings = f"{permit.findings}; {found}" if permit.findings else found
                break
            except Superseded:
                row = await _find_again(broker, row, ticket)
        else:
            raise Failure(
                "busy", f'tool "{row.name}" keeps changing', hint="try again", server=row.upstream.name
            )
        made = None
        if send is not request or (asker is not None and asker.extensions):
            made = take(broker.tasks, caller, row, raw, asker, send)
        bounded = made or row.bound(raw, payload, broker.config.settings.max_result)
        size = len(bounded.text)
        outcome = "tool_error" if bounded.is_error else "ok"
        return bounded
    except ServerError as e:
        outcome = e.kind
        raise await scanning.error(broker, caller, row, e) from None
    except Failure as e:
        outcome = e.kind
        raise
    except Exception:
        outcome = "internal"
        raise
    finally:
        if not (size or ticket.reached):
            give_back(broker, permit)
        broker.journal.record(
            Entry(
                caller=caller,
                about=row.about,
                decision=permit.decision,
                because=row.because if permit.because is row.decision.because else chain(permit.because),
                approval=permit.approved,
                grant=permit.cover,
                waited=permit.waited,
                decided=permit.decided,
                outcome=outcome,
                findings=permit.findings,
                duration=time.perf_counter() - began,
                request_bytes=len(payload),
                result_bytes=size,
            ),
            arguments,
        )


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


def record_unfound(broker: Broker, caller: Caller, method: str, name: str, failure: Failure) -> None:
    """A request for something that is not there, or not for this agent, is recorded as well (n12)."""
    broker.journal.record(
        Entry(
            caller=caller,
            about=About(tool=name[:200], method=method),
            outcome=failure.kind,
        )
    )


def _beside(kept_meta: bytes, extensions: bytes) -> bytes:
    """What goes to the server besides the params: of `_meta`, and of the caller's extensions (5.17)."""
    return b",".join(filter(None, (kept_meta, extensions[1:-1])))


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
