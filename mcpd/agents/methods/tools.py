"""`tools/call`."""

from __future__ import annotations

from collections.abc import Awaitable

from mcpd import calls, listing
from mcpd.agents.methods import rounds, tasks
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.errors import Failure
from mcpd.protocol.shapes import CallParams, read_call
from mcpd.rows import Row
from mcpd.upstream.ticket import Withdrawn


def call_tool(session: Session, request: Request) -> Awaitable[bytes]:
    """What is to be awaited. Most tools are known, and their calls need no coroutine here."""
    params = read_call(request.params)
    row = listing.known_tool(session.broker, session.key, params.name)
    if row is None:
        return _call_later(session, request, params)
    return _call(session, request, row, params)


async def _call_later(session: Session, request: Request, params: CallParams) -> bytes:
    return await _call(session, request, await _find_tool(session, request, params.name), params)


def _call(session: Session, request: Request, row: Row, params: CallParams) -> Awaitable[bytes]:
    request.row = row
    row.upstream.users.add(session.id)
    arguments, meta, wish = bytes(params.arguments), bytes(params.meta), bytes(params.task)
    if wish not in (b"", b"null") and session.revision is not None and session.revision.tasks:
        return tasks.make(session, request, row, arguments, meta, wish)
    return rounds.call(session, request, row, arguments, meta)


async def _find_tool(session: Session, request: Request, name: str) -> Row:
    try:
        with request.ticket.stoppable():
            return await listing.find_tool(session.broker, session.key, name)
    except Failure as e:
        calls.record_unfound(session.broker, session.caller, "tools/call", name, e)
        raise
    raise Withdrawn
