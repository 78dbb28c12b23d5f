"""Dress requests for a server of one revision, and answers for an agent of one revision.

Only what an era demands is added; everything else crosses as the same JSON text (4.2, 4.8, 8.2).
"""

from __future__ import annotations

from typing import Any

import msgspec

from mcpd import __version__
from mcpd.errors import Failure
from mcpd.protocol.abilities import NONE, Ability, declare
from mcpd.protocol.extensions import Extensions
from mcpd.protocol.jsonrpc import ABSENT, error_text, read_error
from mcpd.protocol.revisions import NEWEST_HANDSHAKE, Revision
from mcpd.protocol.shapes import (
    LEVELS,
    META_CAPABILITIES,
    META_CLIENT,
    META_LEVEL,
    META_REVISION,
    META_SERVER,
    META_SUBSCRIPTION,
    ListenFilter,
    LogMessage,
    check_token,
    read_result,
)

_encode = msgspec.json.encode
_decode_meta = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

#: What "no such resource" is until 2025-11-25 (5.3)...
NOT_FOUND = -32002
#: ...and from 2026-07-28 on, among much else.
INVALID_PARAMS = -32602

#: Bytes of a server's log message that pass.
LOG = 64 * 1024

IMPLEMENTATION = {"name": "mcpd", "version": __version__}


def _members(values: dict[str, Any]) -> bytes:
    """The members of an object as JSON text without the braces."""
    return _encode(values)[1:-1]


# ------------------------------------------------------------- towards servers


def standing_meta(revision: Revision, can: Ability = NONE, extensions: Extensions | None = None) -> bytes:
    """The `_meta` members that every request to a server of this revision carries (4.2).

    `can`: what the caller can be asked; `extensions`: what both sides have besides (5.17).
    """
    if not revision.stateless:
        return b""
    capabilities = declare(can, stateless=True)
    if extensions:
        capabilities["extensions"] = extensions
    return _members(
        {META_REVISION: revision.name, META_CAPABILITIES: capabilities, META_CLIENT: IMPLEMENTATION}
    )


def params(members: bytes, *metas: bytes) -> bytes:
    """An object of the given members with the given `_meta` members; all without braces, all may be empty."""
    meta = b",".join([m for m in metas if m])
    if meta:
        members = b"".join((members, b"," if members else b"", b'"_meta":{', meta, b"}"))
    return b"{" + members + b"}"


def initialize_params(revision: str, capabilities: dict[str, Any]) -> bytes:
    return _encode({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": IMPLEMENTATION})


def request_line(key: bytes, method: str, members: bytes, standing: bytes, kept: bytes) -> bytes:
    """A request to a server whose id is its progress token as well.

    `members`: params without braces; `standing` and `kept`: members of `_meta`; all may be empty.
    """
    meta = b',"_meta":{"progressToken":' if members else b'"_meta":{"progressToken":'
    more = b"".join([b"," + m for m in (standing, kept) if m]) if standing or kept else b""
    head = (b'{"jsonrpc":"2.0","id":', key, b',"method":', _encode(method), b',"params":{', members)
    return b"".join((*head, meta, key, more, b"}}}\n"))


def with_level(kept: bytes, level: str) -> bytes:
    """`_meta` members of a request whose log messages are wanted from a level on (5.6)."""
    said = _encode(META_LEVEL) + b":" + _encode(level)
    return kept + b"," + said if kept else said


def forwarded_meta(raw: bytes) -> bytes:
    """An agent's `_meta` members that go on to the server, without braces (5.19).

    Reserved keys are rebuilt on each hop, `baggage` leaks data, and `dev.mcpd/` is mcpd's own. Raises
    Failure `invalid_params` for what is no object, or has a progress token that is none.
    """
    if raw in (b"", b"null"):
        return b""
    try:
        values = _decode_meta(raw)
        check_token(bytes(values.get("progressToken", ABSENT)))
    except (ValueError, msgspec.DecodeError, RecursionError) as e:
        raise Failure("invalid_params", f"invalid params: _meta: {e}") from None
    kept = {name: value for name, value in values.items() if _crosses(name, value)}
    return _encode(kept)[1:-1] if kept else b""


def _crosses(name: str, value: msgspec.Raw) -> bool:
    if name in ("progressToken", "baggage"):
        return False
    if name == "traceparent":
        return _is_traceparent(bytes(value))
    prefix, slash, _ = name.partition("/")
    labels = prefix.split(".")
    if not slash:
        return True
    return prefix != "dev.mcpd" and not (len(labels) > 1 and labels[1] in ("modelcontextprotocol", "mcp"))


def _is_traceparent(text: bytes) -> bool:
    """W3C Trace Context, version 00: 00-<32 hex>-<16 hex>-<2 hex>."""
    parts = text.strip(b'"').split(b"-")
    digits = b"0123456789abcdef"
    return [len(p) for p in parts] == [2, 32, 16, 2] and all(c in digits for p in parts for c in p)


# -------------------------------------------------------------- towards agents


def complete(result: bytes) -> bytes:
    """A result for a stateless agent: `resultType` is required there (4.2)."""
    if result == b"{}":
        return b'{"resultType":"complete"}'
    return b'{"resultType":"complete",' + result[1:]


def own_result(members: bytes, stateless: bool, more_meta: bytes = b"") -> bytes:
    """A result of mcpd's own from its members without braces, as the agent's era wants it.

    `more_meta`: further members of `_meta`, for stateless agents.
    """
    if not stateless:
        return b"{" + members + b"}"
    own = _members({META_SERVER: IMPLEMENTATION})
    meta = b'"resultType":"complete","_meta":{' + own + (b"," + more_meta if more_meta else b"") + b"}"
    return b"".join((b"{", members, b"," if members else b"", meta, b"}"))


def initialize_result(revision: Revision, capabilities: dict[str, Any], instructions: str) -> bytes:
    result: dict[str, Any] = {
        "protocolVersion": revision.name,
        "capabilities": capabilities,
        "serverInfo": IMPLEMENTATION,
    }
    if instructions:
        result["instructions"] = instructions
    return _encode(result)


def discover_members(stateless: list[str], capabilities: dict[str, Any], instructions: str) -> bytes:
    """`server/discover`: only revisions that are served by that route are listed (8.1)."""
    result: dict[str, Any] = {"supportedVersions": stateless, "capabilities": capabilities}
    if instructions:
        result["instructions"] = instructions
    return _members(result)


def answer_revision(asked: str, known: dict[str, Revision]) -> Revision:
    """What `initialize` is answered with: the asked one if it has a handshake, else the newest (4.1)."""
    row = known.get(asked)
    return row if row is not None and not row.stateless else NEWEST_HANDSHAKE


def acknowledged(key: bytes, honoured: ListenFilter) -> bytes:
    """Params of `notifications/subscriptions/acknowledged`: the honoured subset (5.14)."""
    return b"".join((b'{"_meta":{', subscription_meta(key), b'},"notifications":', _encode(honoured), b"}"))


def with_subscription(text: bytes, key: bytes) -> bytes:
    """The params of a notice for the stream of the request `key`; no other `_meta` is for who gets them."""
    values = _decode_meta(text)
    values["_meta"] = msgspec.Raw(b"{" + subscription_meta(key) + b"}")
    return _encode(values)


def subscription_meta(key: bytes) -> bytes:
    return _encode(META_SUBSCRIPTION) + b":" + key


def not_found(raw: bytes, uri: str, *, stateless: bool) -> bytes | None:
    """A server's error about a read, where it says in its own era's way that there is no such resource,
    in the way of the other one (5.3); None for any other error.

    `uri`: what was asked for; 2026-07-28 wants one in `data`, and only by it is "not found" known there.
    """
    error = read_error(raw)
    try:
        data = _decode_meta(error.data) if error.data else {}
    except (msgspec.DecodeError, RecursionError):
        data = {}
    if error.code != (NOT_FOUND if stateless else INVALID_PARAMS) or not (stateless or "uri" in data):
        return None
    data.setdefault("uri", msgspec.Raw(_encode(uri)))
    return error_text(INVALID_PARAMS if stateless else NOT_FOUND, error.message, data)


def log_params(raw: bytes, server: str) -> bytes | None:
    """A server's log message for an agent; None when it has no proper shape (5.6).

    `server`: its name, which the logger's name begins with where several servers are seen as one.
    """
    if len(raw) > LOG:
        raw = b'{"level":"warning","data":"[mcpd: a log message of %d bytes is left out]"}' % len(raw)
    message = read_result(raw, LogMessage)
    if message is None or message.level not in LEVELS:
        return None
    logger = "/".join(filter(None, (server, message.logger)))
    members = b'"level":' + _encode(message.level) + (b',"logger":' + _encode(logger) if logger else b"")
    data = bytes(message.data).replace(b"\n", b" ").replace(b"\r", b" ")
    return b"{" + members + b',"data":' + data + b"}"


def left_out_logs(count: int) -> bytes:
    """Params of a log message of mcpd's own."""
    return _encode({"level": "warning", "logger": "mcpd", "data": f"{count} log messages are left out"})


def progress_params(raw: bytes, token: bytes) -> bytes | None:
    """A server's progress notice under the agent's own token; None when it is not an object (5.8)."""
    try:
        values = _decode_meta(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    values["progressToken"] = msgspec.Raw(token)
    values.pop("_meta", ABSENT)
    # Some clients take a lone carriage return for the end of the line.
    return _encode(values).replace(b"\r", b" ")
