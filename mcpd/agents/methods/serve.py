"""The firewall around each request of an agent: its method's row, its answer, and what it fails of.

Both eras are served: requests after `initialize` in the revision it chose, requests with their
revision in `_meta` statelessly (protocol reference 8.1).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable

import msgspec

from mcpd import calls
from mcpd.agents.methods.request import Method, Request
from mcpd.agents.methods.table import METHODS
from mcpd.agents.session import Session
from mcpd.catalog import content
from mcpd.errors import VERDICTS, Failure, ServerError
from mcpd.protocol import abilities, client, dialect, extensions, jsonrpc
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.revisions import REVISIONS, STATELESS
from mcpd.protocol.shapes import LEVELS, Carrier, Meta, read_params
from mcpd.upstream.ticket import Ticket, Withdrawn

log = logging.getLogger("mcpd.agents")

#: Methods whose requests are answered by a server.
TO_SERVERS = frozenset({"tools/call", "resources/read", "prompts/get", "completion/complete"})
#: Bytes of the params of one that was not served in which its name is looked for.
LONGEST = 64 * 1024


class _What(msgspec.Struct):
    """What of params says what they are about."""

    name: str = ""
    uri: str = ""


def begin(session: Session, message: Message, key: bytes, on: bytes, ticket: Ticket) -> bool:
    """Begin a request that has to wait for nothing but one answer of a server. False when it is not so, or
    it cannot be: then nothing was done, and `serve` says why."""
    method = METHODS.get(message.method)
    if method is None or method.begin is None:
        return False
    try:
        return method.begin(session, _request(session, message, key, on, ticket)[1])
    except Exception:
        # Nothing was sent. Whatever it is, it meets `serve` as well, which says so.
        return False


async def serve(
    session: Session,
    message: Message,
    key: bytes,
    on: bytes,
    ticket: Ticket,
    rest: Awaitable[bytes] | None = None,
) -> bytes | None:
    """The answer to one request as a line; None when the caller no longer wants one. `rest`: what is left of
    one that was begun.

    The first firewall: no failure of a request ends the session.
    """
    try:
        if rest is None:
            method, request = _request(session, message, key, on, ticket)
            rest = method.handler(session, request)
        return jsonrpc.result_line(key, await rest)
    except Withdrawn:
        return None
    except ServerError as e:
        return jsonrpc.error_line(key, e.raw)
    except Failure as e:
        return refused(message, e, session.revision is None)
    except Exception:
        log.exception("request %s of session %s failed", message.method[:60], session.id)
        return refused(message, Failure("internal", "internal error of mcpd"), session.revision is None)


def unserved(session: Session, message: Message, kind: str) -> None:
    """What would have gone to a server is recorded, also where it was not even looked at (n12)."""
    if message.method not in TO_SERVERS:
        return
    params = bytes(message.params)
    try:
        what = read_params(params, _What) if len(params) <= LONGEST else _What()
    except Failure:
        what = _What()
    calls.record_unfound(session.broker, session.caller, message.method, what.name or what.uri, kind)


def _request(
    session: Session, message: Message, key: bytes, on: bytes, ticket: Ticket
) -> tuple[Method, Request]:
    """The method's row, and the request with its era settled. Raises Failure for what is not served."""
    if session.refusal is not None:
        raise session.refusal.again()
    row = METHODS.get(message.method)
    params = bytes(message.params)
    if params == b"null":
        params = b""  # so some write what they leave out
    if session.revision is not None:
        if row is None or not row.handshake:
            raise _unknown(message)
    elif row is None or not row.unopened or not session.opens:
        meta = _read_meta(message)
        if row is None or not row.stateless:
            raise _unknown(message)
        return row, Request(session, message, key, on, ticket, params, meta, *_declared(meta))
    return row, Request(session, message, key, on, ticket, params, abilities=session.abilities)


def refused(message: Message, failure: Failure, stateless: bool) -> bytes:
    """How an agent learns of a failure of mcpd's own: a verdict on a call is a result (D13)."""
    if failure.kind in VERDICTS and message.method == "tools/call":
        text = content.verdict(failure.kind, failure.message, failure.hint, failure.data)
        result = content.Bounded(text, is_error=True)
        return jsonrpc.result_line(message.key, content.dress(result, stateless=stateless))
    code = failure.code
    if failure.kind.startswith("no_such_"):
        # Until 2025-11-25 a resource that is not found has a code of its own (5.3).
        old = failure.kind == "no_such_resource" and not stateless
        code = dialect.NOT_FOUND if old else dialect.INVALID_PARAMS
    data = failure.data if failure.kind == "unsupported_revision" else failure.details()
    return jsonrpc.error_line(message.key, jsonrpc.error_text(code, failure.message, data))


def _declared(meta: Meta) -> tuple[Ability, bytes]:
    """What a stateless agent can be asked, and its extensions."""
    declared = meta.capabilities
    if not declared:
        return NONE, b""
    known = extensions.encode(extensions.read(declared)) if "extensions" in declared else b""
    return abilities.read(declared), known


def _unknown(message: Message) -> Failure:
    return Failure("unknown_method", f"method not found: {message.method[:100]}")


def _read_meta(message: Message) -> Meta:
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
    if meta.log_level is not None and meta.log_level not in LEVELS:
        raise Failure("invalid_params", f"{meta.log_level!r:.60} is no log level")
    client.check(meta.client, meta.capabilities, REVISIONS[meta.revision])
    return meta
