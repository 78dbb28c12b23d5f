"""The one path of every request that reaches a server (a01, DESIGN 6).

`call_tool` only sequences: find, check, decide, send, bound, record. The steps live in their own
modules; a feature extends a step or adds a line here, it never goes round the path.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import msgspec

from mcpd import listing
from mcpd.broker import Broker
from mcpd.catalog import content
from mcpd.errors import Failure
from mcpd.journal import Entry
from mcpd.policy.decide import Deny
from mcpd.protocol import dialect, jsonrpc
from mcpd.upstream.request import Superseded, request
from mcpd.upstream.ticket import Ticket, Withdrawn
from mcpd.views import Row


class Caller(msgspec.Struct, frozen=True):
    """Who a request is recorded under."""

    session: str
    agent: str
    pid: int
    exe: str


#: How often a call is decided when what it was decided on changes while it waits for its server.
DECISIONS = 3


async def call_tool(
    broker: Broker,
    caller: Caller,
    row: Row,
    arguments: bytes,
    meta: bytes,
    ticket: Ticket,
    on_progress: Callable[[bytes], None] | None,
) -> content.Bounded:
    """Call one tool of one server for one caller.

    `arguments` and `meta` are the caller's JSON text, empty when absent. Raises ServerError for the
    server's own JSON-RPC error, Failure with the kinds of D13, Withdrawn when the caller gives up.
    """
    began = time.perf_counter()
    outcome = "cancelled"
    verdict = ""
    size = 0
    try:
        if arguments in (b"", b"null"):
            # Some clients write an absent map as null (Go's nil); no tool can mean anything else by it.
            arguments = b"{}"
        jsonrpc.check_arguments(arguments)
        for _ in range(DECISIONS):
            decision = row.decision
            verdict = "allow"
            if isinstance(decision, Deny):
                verdict = "deny"
                held = row.upstream.held
                hint = f"{held}: mcpctl reload" if held else decision.hint
                raise Failure("denied", decision.message, hint=hint, server=row.upstream.name)
            try:
                raw = await request(
                    row.upstream,
                    ticket,
                    "tools/call",
                    row.head + arguments,
                    dialect.forwarded_meta(meta),
                    row.ruling.timeout,
                    broker.config.settings.timeout_max,
                    on_progress,
                    row.may_replay,
                    partial(_holds, broker, row),
                )
                break
            except Superseded:
                row = await _find_again(broker, row, ticket)
        else:
            raise Failure(
                "busy", f'tool "{row.name}" keeps changing', hint="try again", server=row.upstream.name
            )
        bounded = content.bound(raw, broker.config.settings.max_result)
        size = len(bounded.text)
        outcome = "tool_error" if bounded.is_error else "ok"
        return bounded
    except Failure as e:
        outcome = e.kind
        raise
    except Exception:
        outcome = "internal"
        raise
    finally:
        broker.journal.record(
            Entry(
                session=caller.session,
                agent=caller.agent,
                pid=caller.pid,
                exe=caller.exe,
                server=row.upstream.name,
                tool=row.tool.name,
                method="tools/call",
                decision=verdict,
                because=row.because if verdict else "",
                outcome=outcome,
                duration=time.perf_counter() - began,
                request_bytes=len(arguments),
                result_bytes=size,
            )
        )


def record_unfound(broker: Broker, caller: Caller, name: str, failure: Failure) -> None:
    """A call of something that is not there, or not for this agent, is recorded as well (n12)."""
    broker.journal.record(
        Entry(
            session=caller.session,
            agent=caller.agent,
            pid=caller.pid,
            exe=caller.exe,
            tool=name[:200],
            method="tools/call",
            outcome=failure.kind,
        )
    )


def _holds(broker: Broker, row: Row) -> bool:
    """Whether the tool is still the one that was decided on, under the same rules (DESIGN 6)."""
    view = broker.views.current(row.key)
    return view is not None and view.rows.get(row.name) is row


async def _find_again(broker: Broker, row: Row, ticket: Ticket) -> Row:
    with ticket.stoppable():
        return await listing.find_tool(broker, row.key, row.name)
    raise Withdrawn
