"""Requests of agents to servers. Only `calls` may import this: every request takes the one path (a01)."""

from __future__ import annotations

from collections.abc import Callable

from mcpd.errors import Failure
from mcpd.transport.base import ConnectionLost
from mcpd.transport.pending import Slot
from mcpd.upstream.connection import Connection
from mcpd.upstream.ticket import Ticket, Withdrawn
from mcpd.upstream.upstream import REACH, Upstream


class Superseded(Exception):
    """While the request waited for its server, what it was decided on has changed; nothing was sent."""


async def request(
    upstream: Upstream,
    ticket: Ticket,
    method: str,
    members: bytes,
    kept_meta: bytes,
    idle: float,
    total: float,
    on_progress: Callable[[bytes], None] | None,
    may_replay: Callable[[bool], bool],
    holds: Callable[[], bool],
) -> bytes:
    """The result's JSON text.

    `members`: params without braces. `idle`: seconds since the sending or its own last progress,
    `total`: seconds in all; 0 switches either off (D9). `may_replay(reached)` decides, when the
    connection is lost under the request, whether it is sent once more after the restart (D3).
    `holds()` says, after every wait for the server, whether the decision still does.

    Raises Superseded when it does not, ServerError for the server's own error, Failure `unavailable`,
    `disabled`, `timed_out`, `outcome_unknown`, `bad_answer`, `busy`, Withdrawn when the ticket is
    taken back.
    """
    written = replayed = False
    while True:
        connection = upstream.connection
        if connection is None:
            try:
                connection = await _reach(upstream, ticket)
            except Failure as e:
                if written and not isinstance(e, Withdrawn):
                    raise _unknown(upstream, written) from None
                raise
            if not holds():
                if written:
                    raise _unknown(upstream, written)
                raise Superseded
        slot = Slot(idle, total, on_progress)
        ticket.waits_in(slot)
        try:
            result = await connection.exchange(method, members, kept_meta, slot)
        except ConnectionLost:
            written = written or slot.written
            if not replayed and may_replay(slot.written):
                replayed = True
                continue
            raise _unknown(upstream, written) from None
        except Failure as e:
            if e.kind == "timed_out":
                raise _late(upstream, slot) from None
            raise
        finally:
            ticket.waits_in(None)
        upstream.succeeded()
        return result


async def _reach(upstream: Upstream, ticket: Ticket) -> Connection:
    # Waiting for the server does not count towards the call (D9).
    with ticket.stoppable():
        return await upstream.reach(REACH)
    raise Withdrawn


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


def _late(upstream: Upstream, slot: Slot) -> Failure:
    if slot.used_up:
        why = f"did not finish within {slot.total:g} s"
        hint = "a longer `timeout_max` can be set under [defaults] in config.toml"
    else:
        why = f"gave no answer and no progress for {slot.idle:g} s"
        hint = "a longer `timeout` can be set in the server's default_policy"
    return Failure(
        "timed_out",
        f'server "{upstream.name}" {why}; the request was cancelled',
        hint=hint,
        server=upstream.name,
    )
