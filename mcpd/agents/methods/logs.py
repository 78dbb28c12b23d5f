"""Log levels (5.6), of sessions and of stateless requests; servers are asked for the lowest of all (8.2)."""

from __future__ import annotations

import trio

from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.errors import Failure
from mcpd.listing import wanted
from mcpd.protocol.shapes import LEVELS, SetLevelParams, read_params
from mcpd.upstream.upstream import Upstream

#: Seconds until the agent is answered although a server has not heard of it; what it asks next is to be
#: logged as it wants.
PATIENCE = 5.0


async def set_level(session: Session, request: Request) -> bytes:
    level = read_params(request.params, SetLevelParams).level
    if level not in LEVELS:
        raise Failure("invalid_params", f'"{level[:60]}" is no log level', levels=list(LEVELS))
    session.notices.set_level(LEVELS.index(level))
    await _told(request, wanted(session.broker, session.key))
    request.record(f'log messages from level "{level}" on')
    return b"{}"


async def carried(session: Session, request: Request, upstream: Upstream, level: str) -> None:
    """A server with a handshake is told of the level that a stateless request carries, before the request
    itself; from there on it stays at that for the session, and each request hears its own."""
    upstream.wishes.lower_level(session.id, LEVELS.index(level))
    await _told(request, [upstream])


async def _told(request: Request, upstreams: list[Upstream]) -> None:
    with request.ticket.stoppable(), trio.move_on_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for upstream in upstreams:
                nursery.start_soon(upstream.wishes.level_told)
