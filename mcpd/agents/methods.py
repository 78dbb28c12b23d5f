"""The MCP methods that agents may call, as a table, and the firewall around each request.

Both eras are served: requests after `initialize` in the revision it chose, requests with their
revision in `_meta` statelessly (protocol reference 8.1).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

import msgspec
import trio

from mcpd import listing
from mcpd.agents import cursors
from mcpd.agents.session import Listen, Session
from mcpd.calls import call_tool, record_unfound
from mcpd.catalog import content
from mcpd.errors import VERDICTS, Failure, ServerError
from mcpd.protocol import dialect, jsonrpc
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.revisions import REVISIONS, STATELESS
from mcpd.protocol.shapes import (
    LIST_CACHING,
    Carrier,
    InitializeParams,
    ListenParams,
    ListParams,
    read_call,
    read_params,
)
from mcpd.upstream.ticket import Ticket, Withdrawn
from mcpd.views import Row, View

log = logging.getLogger("mcpd.agents")

#: What mcpd offers agents today; only what is declared here has a row below.
CAPABILITIES: dict[str, Any] = {"tools": {"listChanged": True}}

#: Seconds between two progress notices of one request that are passed on; those in between are dropped (5.8).
PROGRESS_SPACING = 0.05

_INVALID_PARAMS = -32602
_EMPTY = b"{}"


class Request(msgspec.Struct, frozen=True):
    """One request of one session, its era settled."""

    message: Message
    key: bytes
    """Its id's JSON text."""
    on: bytes
    """Its name in the session, for what is sent on its behalf."""
    ticket: Ticket
    stateless: bool

    @property
    def params(self) -> bytes:
        return bytes(self.message.params)


Handler = Callable[[Session, Request], Awaitable[bytes]]


class Method(msgspec.Struct, frozen=True):
    """A row of the table. The handler returns the result's JSON text."""

    handler: Handler
    handshake: bool = True
    """Known in the revisions with a handshake."""
    stateless: bool = True
    """Known in 2026-07-28."""
    unopened: bool = False
    """Served before any handshake (4.1)."""


async def serve(session: Session, message: Message, key: bytes, on: bytes, ticket: Ticket) -> bytes | None:
    """The answer to one request as a line; None when the caller no longer wants one.

    The first firewall: no failure of a request ends the session.
    """
    try:
        row, stateless = _row(session, message)
        result = await row.handler(session, Request(message, key, on, ticket, stateless))
        return jsonrpc.result_line(key, result)
    except Withdrawn:
        return None
    except ServerError as e:
        return jsonrpc.error_line(key, e.raw)
    except Failure as e:
        return refused(message, e, session.revision is None)
    except Exception:
        log.exception("request %s of session %s failed", message.method[:60], session.id)
        return refused(message, Failure("internal", "internal error of mcpd"), session.revision is None)


def refused(message: Message, failure: Failure, stateless: bool) -> bytes:
    """How an agent learns of a failure of mcpd's own: a verdict on a call is a result (D13)."""
    if failure.kind in VERDICTS and message.method == "tools/call":
        text = content.verdict(failure.kind, failure.message, failure.hint, failure.data)
        result = content.Bounded(text, is_error=True)
        return jsonrpc.result_line(message.key, content.dress(result, stateless=stateless))
    code = _INVALID_PARAMS if failure.kind.startswith("no_such_") else failure.code
    data = failure.data if failure.kind == "unsupported_revision" else failure.details()
    return jsonrpc.error_line(message.key, jsonrpc.error_text(code, failure.message, data))


def _row(session: Session, message: Message) -> tuple[Method, bool]:
    """The method's row and whether the request is stateless. Raises Failure for what is not served."""
    if session.refusal is not None:
        raise session.refusal.again()
    row = METHODS.get(message.method)
    if session.revision is not None:
        if row is None or not row.handshake:
            raise _unknown(message)
        return row, False
    if row is not None and row.unopened and session.opens:
        return row, False
    _check_meta(message)
    if row is None or not row.stateless:
        raise _unknown(message)
    return row, True


def _unknown(message: Message) -> Failure:
    return Failure("unknown_method", f"method not found: {message.method[:100]}")


def _check_meta(message: Message) -> None:
    """A request outside a handshake carries its revision and capabilities (4.2, 8.1)."""
    meta = read_params(bytes(message.params), Carrier).meta
    if not isinstance(meta.revision, str) or not isinstance(meta.capabilities, dict):
        raise Failure(
            "invalid_params",
            "send initialize first, or carry protocolVersion and clientCapabilities in _meta",
        )
    if meta.revision not in STATELESS:
        raise Failure(
            "unsupported_revision",
            f"unsupported protocol version {meta.revision[:60]!r}",
            supported=list(STATELESS),
            requested=meta.revision[:60],
        )


# ----------------------------------------------------------------- the methods


async def _initialize(session: Session, request: Request) -> bytes:
    params = read_params(request.params, InitializeParams)
    session.revision = dialect.answer_revision(params.protocol_version, REVISIONS)
    return dialect.initialize_result(session.revision, CAPABILITIES, _instructions(session))


async def _discover(session: Session, request: Request) -> bytes:
    members = dialect.discover_members(list(STATELESS), CAPABILITIES, _instructions(session))
    return dialect.own_result(members + b"," + LIST_CACHING, True)


async def _ping(session: Session, request: Request) -> bytes:
    return _EMPTY


async def _list_tools(session: Session, request: Request) -> bytes:
    cursor = read_params(request.params, ListParams).cursor
    start = 0
    view = session.listed
    if cursor is None:
        with request.ticket.stoppable():
            view = await listing.view(session.broker, session.key, session.id)
        session.listed = view
    elif view is not None:
        start = cursors.read(session.broker.secret, session.id, view.number, cursor)
    if view is None:
        raise Failure("invalid_params", "unknown or outdated cursor", hint="list from the start again")
    entries, following = view.page(start, request.stateless)
    members = b'"tools":[' + entries + b"]"
    if following is not None:
        mark = cursors.make(session.broker.secret, session.id, view.number, following)
        members += b',"nextCursor":' + jsonrpc.quoted(mark)
    if request.stateless:
        members += b"," + LIST_CACHING
    return dialect.own_result(members, request.stateless)


async def _call_tool(session: Session, request: Request) -> bytes:
    params = read_call(request.params)
    row = listing.known_tool(session.broker, session.key, params.name)
    if row is None:
        row = await _find_tool(session, request, params.name)
    row.upstream.users.add(session.id)
    result = await call_tool(
        session.broker,
        session.caller,
        row,
        bytes(params.arguments),
        bytes(params.meta),
        request.ticket,
        _forward_progress(session, request.on, params.meta),
    )
    return content.dress(result, stateless=request.stateless)


async def _find_tool(session: Session, request: Request, name: str) -> Row:
    try:
        with request.ticket.stoppable():
            return await listing.find_tool(session.broker, session.key, name)
    except Failure as e:
        record_unfound(session.broker, session.caller, name, e)
        raise
    raise Withdrawn


def _forward_progress(session: Session, on: bytes, meta: bytes) -> Callable[[bytes], None] | None:
    """Progress goes on to the caller under its own token, if it gave one (5.8)."""
    if not meta:
        return None
    token = bytes(read_params(b'{"_meta":' + meta + b"}", Carrier).meta.progress_token)
    if token[:1] not in b'"-0123456789' or not token:
        return None

    due = -inf

    def forward(raw: bytes) -> None:
        nonlocal due
        now = trio.current_time()
        if now < due:
            return
        params = dialect.progress_params(raw, token)
        if params is not None:
            due = now + PROGRESS_SPACING
            session.notice("notifications/progress", params, on)

    return forward


async def _listen(session: Session, request: Request) -> bytes:
    """Stays open until the agent cancels it; mcpd's end gives the graceful result (5.14)."""
    wanted = read_params(request.params, ListenParams).notifications.tools_list_changed
    key, on = request.key, request.on
    # Unlike the notices that follow it is never left out: it must come first, and it is part of the answer.
    line = jsonrpc.notification_line(
        "notifications/subscriptions/acknowledged", dialect.acknowledged(key, wanted)
    )
    session.outlet.write(line, on)
    if session.listed is None:
        session.listed = current_view(session)
    session.listens[on] = Listen(key, wanted)
    try:
        with request.ticket.stoppable():
            await session.broker.stop.wait()
    finally:
        del session.listens[on]
    return dialect.own_result(b"", True, dialect.subscription_meta(key))


def current_view(session: Session) -> View:
    return listing.view_now(session.broker, session.key)


def _instructions(session: Session) -> str:
    """A single server's words pass; those of many would drown each other."""
    return current_view(session).instructions if session.key[1] else ""


METHODS: dict[str, Method] = {
    "initialize": Method(_initialize, stateless=False, unopened=True),
    "ping": Method(_ping, stateless=False, unopened=True),
    "server/discover": Method(_discover, handshake=False),
    "tools/list": Method(_list_tools),
    "tools/call": Method(_call_tool),
    "subscriptions/listen": Method(_listen, handshake=False),
}
