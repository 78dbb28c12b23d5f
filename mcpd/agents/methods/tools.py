"""`tools/call`."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from mcpd import calls, listing
from mcpd.agents.methods import rounds, tasks
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.calls import Call
from mcpd.catalog.content import Bounded
from mcpd.errors import Failure
from mcpd.protocol import jsonrpc
from mcpd.protocol.shapes import CallParams, read_call
from mcpd.rows import Row
from mcpd.upstream.ticket import Withdrawn


def begin_call(session: Session, request: Request) -> bool:
    """See `serve.begin`."""
    params = read_call(request.params)
    row = listing.known_tool(session.broker, session.key, params.name)
    if row is None or (params.task and _makes(session, bytes(params.task))):
        return False
    if request.meta is not None and not rounds.can_begin(request, row):
        return False
    request.row = row
    arguments, meta = bytes(params.arguments), bytes(params.meta)
    through = partial(_through, request)
    if not calls.begin(
        session.broker, session.caller, row, arguments, meta, request.ticket, request, through
    ):
        return False
    row.upstream.users.add(session.id)
    return True


def _through(request: Request, call: Call, result: Bounded | None) -> bool:
    """What was begun has come to something: answered, unless there is more to do."""
    session, key = request.by, request.key
    if result is not None:
        try:
            line = jsonrpc.result_line(key, rounds.dressed(request, result))
        except Exception:
            # Said where all is said that goes wrong, see `calls.go_on`.
            result = None
        else:
            session.answered(request.on, key, request.ticket, line)
            return True
    session.go_on(request.message, key, request.on, request.ticket, _go_on(request, call))
    return False


async def _go_on(request: Request, call: Call) -> bytes:
    with rounds.visiting(request, call.row):
        return rounds.dressed(request, await calls.go_on(call, rounds.step(request, call.row)))


def _makes(session: Session, wish: bytes) -> bool:
    """Whether the call is to make a task."""
    return wish not in (b"", b"null") and session.revision is not None and session.revision.tasks


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
    if _makes(session, wish):
        return tasks.make(session, request, row, arguments, meta, wish)
    return rounds.call(session, request, row, arguments, meta)


async def _find_tool(session: Session, request: Request, name: str) -> Row:
    try:
        with request.ticket.stoppable():
            return await listing.find_tool(session.broker, session.key, name)
    except Failure as e:
        calls.record_unfound(session.broker, session.caller, "tools/call", name, e.kind)
        raise
    raise Withdrawn
