"""The one path of every request that reaches a server (a01, DESIGN 6).

`call_tool` only sequences: find, check, decide, send, bound, record. The steps live in their own
modules; a feature extends a step or adds a line here, it never goes round the path.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from mcpd.broker import Broker
from mcpd.catalog import content
from mcpd.errors import Failure
from mcpd.journal import Entry
from mcpd.policy.decide import Deny
from mcpd.protocol import dialect, jsonrpc
from mcpd.upstream.request import request
from mcpd.upstream.ticket import Ticket
from mcpd.views import Row


class Caller(msgspec.Struct, frozen=True):
    """Who a request is recorded under."""

    session: str
    agent: str
    pid: int
    exe: str


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
        arguments = arguments or b"{}"
        jsonrpc.check_arguments(arguments)
        decision = row.decision
        verdict = "allow"
        if isinstance(decision, Deny):
            verdict = "deny"
            raise Failure("denied", decision.message, hint=decision.hint, server=row.upstream.name)
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
