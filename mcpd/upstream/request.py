"""Requests of agents to servers. Only `calls` may import this: every request takes the one path (a01)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from mcpd.errors import Failure
from mcpd.transport.base import ConnectionLost
from mcpd.transport.pending import Slot
from mcpd.upstream.connection import Connection
from mcpd.upstream.ticket import Ticket
from mcpd.upstream.upstream import Upstream


class Limits(msgspec.Struct, frozen=True):
    """Seconds; 0 switches a limit off (D9)."""

    idle: float
    """Since the request was sent or since its own last progress."""
    total: float
    """In all, from the sending on."""
    reach: float
    """For the connection to come up."""


async def request(
    upstream: Upstream,
    ticket: Ticket,
    method: str,
    members: bytes,
    kept_meta: bytes,
    limits: Limits,
    on_progress: Callable[[bytes], None] | None,
    may_replay: Callable[[bool], bool],
) -> bytes:
    """The result's JSON text.

    `members`: params without braces. `may_replay(reached)` decides, when the connection is lost under
    the request, whether it is sent once more after the restart (D3). Raises ServerError for the
    server's own error, Failure `unavailable`, `disabled`, `timed_out`, `outcome_unknown`,
    `bad_answer`; Withdrawn when the ticket is taken back.
    """
    replayed = False
    while True:
        connection = upstream.connection
        if connection is None or upstream.stale:
            connection = await _reach(upstream, ticket, limits.reach)
        ceiling = trio.current_time() + limits.total if limits.total else 0.0
        slot = Slot(limits.idle, ceiling, on_progress)
        ticket.waits_in(slot)
        try:
            result = await connection.exchange(method, members, kept_meta, slot)
        except ConnectionLost:
            if not replayed and may_replay(slot.written):
                replayed = True
                continue
            raise _unknown(upstream, slot.written) from None
        except Failure as e:
            if e.kind == "timed_out":
                raise _late(upstream, limits) from None
            raise
        finally:
            ticket.waits_in(None)
        upstream.succeeded()
        return result


async def _reach(upstream: Upstream, ticket: Ticket, within: float) -> Connection:
    with ticket.stoppable():
        connection = await upstream.reach(within)
        await upstream.fresh()
    return connection


def _unknown(upstream: Upstream, reached: bool) -> Failure:
    status = upstream.status
    why = f": {status.error}" if status.error else ""
    if not reached:
        return Failure(
            "unavailable",
            f'server "{upstream.name}" ended before the request reached it{why}',
            hint=f"mcpctl logs {upstream.name}",
            server=upstream.name,
        )
    return Failure(
        "outcome_unknown",
        f'server "{upstream.name}" ended during the request, which may or may not have taken effect{why}',
        hint="check before repeating it",
        server=upstream.name,
    )


def _late(upstream: Upstream, limits: Limits) -> Failure:
    return Failure(
        "timed_out",
        f'server "{upstream.name}" gave no answer and no progress for {limits.idle:g} s'
        f" (at most {limits.total:g} s in all); the request was cancelled",
        hint="a longer `timeout` can be set in the server's default_policy",
        server=upstream.name,
    )
