"""`tools/call`."""

from __future__ import annotations

from mcpd import calls, listing
from mcpd.agents.methods import rounds, tasks
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.errors import Failure
from mcpd.protocol.shapes import read_call
from mcpd.rows import Row
from mcpd.upstream.ticket import Withdrawn


async def call_tool(session: Session, request: Request) -> bytes:
    params = read_call(request.params)
    row = listing.known_tool(session.broker, session.key, params.name)
    if row is None:
        row = await _find_tool(session, request, params.name)
    request.row = row
    row.upstream.users.add(session.id)
    wish = bytes(params.task)
    if wish not in (b"", b"null") and session.revision is not None and session.revision.tasks:
        return await tasks.make(session, request, row, bytes(params.arguments), bytes(params.meta), wish)
    return await rounds.call(session, request, row, bytes(params.arguments), bytes(params.meta))


async def _find_tool(session: Session, request: Request, name: str) -> Row:
    try:
        with request.ticket.stoppable():
            return await listing.find_tool(session.broker, session.key, name)
    except Failure as e:
        calls.record_unfound(session.broker, session.caller, "tools/call", name, e)
        raise
    raise Withdrawn
