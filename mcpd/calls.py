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
from mcpd.config.spec import Server
from mcpd.errors import Failure
from mcpd.journal import Entry
from mcpd.policy.decide import Deny
from mcpd.policy.rules import may_replay
from mcpd.protocol import dialect, jsonrpc
from mcpd.upstream.request import Limits, request
from mcpd.upstream.ticket import Ticket
from mcpd.views import Row

#: Seconds that a call waits for its server to come up: a launcher's first start and a bit (c12).
REACH = 125.0


class Caller(msgspec.Struct, frozen=True):
    """Who a request is recorded under."""

    session: str
    agent: str
    pid: int
    exe: str


class CallResult(msgspec.Struct, frozen=True):
    text: bytes
    """The CallToolResult as one line of JSON text."""
    is_error: bool


async def call_tool(
    broker: Broker,
    caller: Caller,
    row: Row,
    arguments: bytes,
    meta: bytes,
    ticket: Ticket,
    on_progress: Callable[[bytes], None] | None,
) -> CallResult:
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
            _limits(broker, row),
            on_progress,
            lambda reached: _may_replay(row, reached),
        )
        bounded = content.bound(raw, broker.config.settings.max_result)
        size = len(bounded.text)
        outcome = "tool_error" if bounded.is_error else "ok"
        return CallResult(bounded.text, bounded.is_error)
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


def _limits(broker: Broker, row: Row) -> Limits:
    settings = broker.config.settings
    idle = row.ruling.timeout
    # Waiting for the connection does not count towards the call (D9).
    return Limits(idle, settings.timeout_max, REACH)


def _may_replay(row: Row, reached: bool) -> bool:
    server = row.upstream.definition
    replay = server.replay if isinstance(server, Server) else "never"
    return may_replay(replay, reached, row.tool.annotations, trusted=False)
