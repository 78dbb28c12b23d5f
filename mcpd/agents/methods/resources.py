"""`resources/read`, `resources/subscribe`, `resources/unsubscribe` (5.3); all decided as reading (a01)."""

from __future__ import annotations

from mcpd import calls, listing
from mcpd.agents.methods import rounds
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.errors import Failure, ServerError
from mcpd.protocol import dialect
from mcpd.protocol.jsonrpc import quoted
from mcpd.protocol.revisions import REVISIONS
from mcpd.protocol.shapes import UriParams, read_params
from mcpd.rows import Row
from mcpd.upstream.ticket import Ticket, Withdrawn


async def read(session: Session, request: Request) -> bytes:
    params = read_params(request.params, UriParams)
    row, own = await find(session, request, params.uri, "resources/read")
    try:
        return await rounds.call(session, request, row, b'"uri":' + quoted(own), bytes(params.meta))
    except ServerError as e:
        raise _in_era(e, request, row, params.uri) from None


def _in_era(error: ServerError, request: Request, row: Row, uri: str) -> ServerError:
    """Where eras differ, "not found" is told as the agent's knows it (5.3); every other error as it came."""
    spoken = REVISIONS.get(row.upstream.status.revision)
    if spoken is None or spoken.stateless == request.stateless:
        return error
    raw = dialect.not_found(error.raw, uri, stateless=request.stateless)
    return error if raw is None else ServerError(raw, error.server_code, error.message)


async def subscribe(session: Session, request: Request) -> bytes:
    """From now on the agent hears of changes of this resource, and of what lies below it."""
    params = read_params(request.params, UriParams)
    row, own = await find(session, request, params.uri, "resources/subscribe")
    await watch(session, request, request.ticket, row, own, bytes(params.meta))
    return b"{}"


async def watch(
    session: Session, request: Request, ticket: Ticket, row: Row, own: str, meta: bytes, on: bytes = b""
) -> None:
    """Ask for news of a resource, `own` at its server; on the stream `on`, or unasked.

    Raises what `calls.call` does; then nothing is watched.
    """
    server = row.upstream.name
    tell = session.notices.teller(server, on)
    await calls.watch(
        session.broker, session.caller, row, own, meta, ticket, request, watcher(session, on), tell
    )


def watcher(session: Session, on: bytes) -> str:
    """Who watches, to a server's wishes: the session, or one of its streams."""
    return f"{session.id} {on.decode()}" if on else session.id


async def unsubscribe(session: Session, request: Request) -> bytes:
    """Nothing to decide: it can only end what was allowed. The server is told when nobody else watches."""
    params = read_params(request.params, UriParams)
    dialect.forwarded_meta(bytes(params.meta))  # it goes nowhere, but must be one
    row, own = await find(session, request, params.uri, "resources/subscribe")
    row.upstream.wishes.unwatch(session.id, own)
    request.record("ends what was allowed")
    return b"{}"


async def find(session: Session, request: Request, uri: str, method: str) -> tuple[Row, str]:
    """The row of `method` for a URI, and the server's own URI. What is not found is recorded (n12)."""
    try:
        with request.ticket.stoppable():
            row, own = await listing.find_resource(session.broker, session.key, uri, method)
            request.row = row
            row.upstream.users.add(session.id)
            return row, own
    except Failure as e:
        calls.record_unfound(session.broker, session.caller, method, uri, e.kind)
        raise
    raise Withdrawn
