"""`prompts/get` (5.4)."""

from __future__ import annotations

from mcpd import calls, listing
from mcpd.agents.methods import rounds
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.errors import Failure
from mcpd.protocol.jsonrpc import check_arguments, quoted
from mcpd.protocol.shapes import PromptParams, read_params
from mcpd.rows import Row
from mcpd.upstream.ticket import Withdrawn


async def get(session: Session, request: Request) -> bytes:
    params = read_params(request.params, PromptParams)
    row, own = await find(session, request, params.name, "prompts/get")
    return await rounds.call(session, request, row, members(own, bytes(params.arguments)), bytes(params.meta))


def members(own: str, arguments: bytes) -> bytes:
    """Params of prompts/get, without braces; what the agent left out is left out there too.

    Raises Failure `invalid_params`, also for arguments that are no texts: no server is sent such.
    """
    if arguments in (b"", b"null"):
        return b'"name":' + quoted(own)
    check_arguments(arguments)
    read_params(arguments, dict[str, str])
    return b'"name":' + quoted(own) + b',"arguments":' + arguments


async def find(session: Session, request: Request, name: str, method: str) -> tuple[Row, str]:
    """The row of `method` for a prompt, and the server's own name. What is not found is recorded (n12)."""
    try:
        with request.ticket.stoppable():
            row, own = await listing.find_prompt(session.broker, session.key, name, method)
            request.row = row
            row.upstream.users.add(session.id)
            return row, own
    except Failure as e:
        calls.record_unfound(session.broker, session.caller, method, name, e.kind)
        raise
    raise Withdrawn
