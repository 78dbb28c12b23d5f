"""`*/list`: what this agent may use, page by page under cursors of mcpd's own (5.10, b24)."""

from __future__ import annotations

from mcpd import listing
from mcpd.agents import cursors
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.entries import Kind
from mcpd.errors import Failure
from mcpd.protocol import dialect, jsonrpc
from mcpd.protocol.shapes import LIST_CACHING, ListParams, read_params
from mcpd.upstream.fetch import Primitive

#: The member of the answer that holds the entries.
MEMBERS: dict[Kind, bytes] = {
    "tools": b'"tools":[',
    "resources": b'"resources":[',
    "templates": b'"resourceTemplates":[',
    "prompts": b'"prompts":[',
}


PRIMITIVES: dict[Kind, Primitive] = {
    "tools": "tools",
    "resources": "resources",
    "templates": "resources",
    "prompts": "prompts",
}


async def list_tools(session: Session, request: Request) -> bytes:
    return await _list(session, request, "tools")


async def list_resources(session: Session, request: Request) -> bytes:
    return await _list(session, request, "resources")


async def list_templates(session: Session, request: Request) -> bytes:
    return await _list(session, request, "templates")


async def list_prompts(session: Session, request: Request) -> bytes:
    return await _list(session, request, "prompts")


async def _list(session: Session, request: Request, kind: Kind) -> bytes:
    cursor = read_params(request.params, ListParams).cursor
    start = 0
    shown = session.notices.listed.get(kind)
    if cursor is None:
        with request.ticket.stoppable():
            view = await listing.view(session.broker, session.key, session.id, PRIMITIVES[kind])
        shown = session.notices.listed[kind] = view.listing(kind)
    elif shown is not None:
        start = cursors.read(session.broker.secret, session.id, shown.number, cursor)
    if shown is None:
        raise Failure("invalid_params", "unknown or outdated cursor", hint="list from the start again")
    entries, following = shown.page(start, request.stateless)
    members = [MEMBERS[kind], entries, b"]"]
    if following is not None:
        mark = cursors.make(session.broker.secret, session.id, shown.number, following)
        members += (b',"nextCursor":', jsonrpc.quoted(mark))
    if request.stateless:
        members += (b",", LIST_CACHING)
    return dialect.own_result(b"".join(members), request.stateless)
