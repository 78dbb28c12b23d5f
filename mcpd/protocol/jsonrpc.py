"""The JSON-RPC 2.0 envelope: reading one message, writing one line.

Ids and payloads keep the sender's JSON text. `Raw` checks less than a full
decode does (no UTF-8, and very deep nesting raises RecursionError), so
everything that comes in passes `read` or `read_lenient` here.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

from mcpd.errors import Failure
from mcpd.protocol.arrays import elements
from mcpd.protocol.framing import ENDS

ABSENT = msgspec.Raw()

#: Messages of one array: what is in a line is taken at one go, and nobody else is served meanwhile.
BATCH = 256

#: Values in what is read whole: the arguments of a call, and a server's message that must be mended.
#: Far more would hold the loop for seconds.
VALUES = 100_000

#: Bytes in which braces are counted: 8 ms, if there is nothing else.
COUNTED = 4 * 1024 * 1024

#: Characters of a peer's text that stand in one of mcpd's own, which is kept, logged and shown.
WORDS = 300

_NULL = msgspec.Raw(b"null")
_VERSION = b'"2.0"'
#: As a number it is found in a fifth of the time.
_BACKSLASH = ord("\\")
_KEY = rb'("[^"\\]{0,100}"|-?[0-9]{1,30})\s*'
#: Both anchored at the message's end, so that no inner object's id is taken for it.
_ID_FIRST = re.compile(
    rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]*"\s*,\s*){0,2}"id"\s*:\s*' + _KEY + rb","
)
_KEY_WHOLE = re.compile(_KEY)
_ID_LAST = re.compile(rb'[,{]\s*"id"\s*:\s*' + _KEY + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')


class Message(msgspec.Struct, frozen=True):
    """One request, notification or answer; absent members are empty."""

    jsonrpc: msgspec.Raw = ABSENT
    id: msgspec.Raw = ABSENT
    method: str = ""
    params: msgspec.Raw = ABSENT
    result: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT

    @property
    def key(self) -> bytes:
        """The id's JSON text; empty for a notification."""
        return bytes(self.id)


class _Named(msgspec.Struct):
    """What of a message can be anything, but for the id."""

    id: msgspec.Raw = ABSENT
    method: msgspec.Raw = ABSENT


class ErrorObject(msgspec.Struct, frozen=True):
    """The `error` member of an answer; data stays JSON text."""

    code: int | float = -32603
    message: str = ""
    data: msgspec.Raw = ABSENT

    @property
    def words(self) -> str:
        return words(self.message)


_decode = msgspec.json.Decoder(Message).decode
_decode_named = msgspec.json.Decoder(_Named).decode
_decode_error = msgspec.json.Decoder(ErrorObject).decode
_encode = msgspec.json.encode


def read(line: bytes) -> Message:
    """Read one line of a peer that is held to the letter (an agent, an operator).

    Raises Failure: `parse_error` for what is no JSON, `invalid_request` for what is no message.
    """
    try:
        if not line.isascii():
            line.decode()
        message = _decode(line)
    except msgspec.ValidationError as e:
        raise Failure("invalid_request", f"not a JSON-RPC message: {e}") from None
    except RecursionError:
        raise Failure("invalid_request", "the message is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise Failure("parse_error", f"not JSON: {e}") from None
    if bytes(message.jsonrpc) != _VERSION:
        raise Failure("invalid_request", 'not a JSON-RPC message: its member `jsonrpc` must be "2.0"')
    if not message.method and not message.result and not message.error:
        raise Failure("invalid_request", "a message needs a method, a result or an error")
    return message


def is_id(text: bytes) -> bool:
    """Whether JSON text is what an id or a progress token may be: a string or an integer (2, 5.8).

    An integer may be written as 7.0, which is what some languages make of theirs.
    """
    if text[:1] == b'"' or text.isdigit():
        return True
    try:
        return float(text).is_integer()
    except ValueError:
        return False


def bare(key: bytes) -> bytes:
    """An id's JSON text as far as it counts: some servers echo 7 as "7" or 7.0 (protocol reference 2)."""
    return key.strip(b'"').removesuffix(b".0")


def same_id(key: bytes, other: bytes) -> bool:
    """Whether two ids, as JSON text, mean the same one; an absent one is none."""
    return bool(key) and bare(key) == bare(other)


def read_batch(line: bytes) -> list[bytes]:
    """The members of an array of messages (2025-03-26 only), as lines of their own.

    Raises Failure: `parse_error` for what is no array, `invalid_request` for more members than BATCH.
    """
    try:
        members, more = elements(line, BATCH)
    except (msgspec.MsgspecError, RecursionError) as e:
        raise Failure("parse_error", f"not a batch of messages: {e}") from None
    if more:
        raise Failure("invalid_request", f"a batch has at most {BATCH} messages")
    return members


def read_lenient(line: bytes) -> Message | None:
    """Read one line of a server; None when nothing can be made of it.

    Bytes that are not UTF-8 and lone surrogates are replaced. An answer that no strict reader takes
    (NaN) still yields its id with a null result, so that its caller hears of it at once. `error` and
    `method` count as absent when they are null.
    """
    if not line.isascii():
        try:
            line.decode()
        except UnicodeDecodeError:
            line = line.decode("utf-8", "replace").encode()
    try:
        message = _decode(line)
    except RecursionError:
        return None
    except msgspec.DecodeError:
        return _salvage(line)
    if message.error and bytes(message.error) == b"null":
        return msgspec.structs.replace(message, error=ABSENT)
    return message


def answered_id(head: bytes, tail: bytes) -> bytes:
    """The id's JSON text of an answer of which only the two ends are known; empty if it cannot be seen.

    Writers put `id` among the first members or last (protocol reference 2).
    """
    if b'"method"' in head or not (b'"result"' in head or b'"error"' in head):
        return b""
    return _seen_id(head, tail)


def requested_id(head: bytes, tail: bytes) -> bytes:
    """The same of a request."""
    return _seen_id(head, tail) if b'"method"' in head else b""


def unread_id(line: bytes) -> bytes:
    """The same of a whole line that `read` has refused. What lacks a brace was cut off: the id at its end may
    be one within its params. So it may be of what is very long."""
    try:
        named = _decode_named(line if len(line) <= VALUES else b"")
    except (msgspec.MsgspecError, RecursionError):
        is_whole = len(line) <= COUNTED and line.count(b"{") == line.count(b"}")
        return requested_id(line[:ENDS], line[-ENDS:] if is_whole else b"")
    key = bytes(named.id)
    return key if named.method and _KEY_WHOLE.fullmatch(key) and _is_json(key) else b""


def _seen_id(head: bytes, tail: bytes) -> bytes:
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    return found[1] if found and _is_json(found[1]) else b""


def _is_json(key: bytes) -> bool:
    """07 and bytes that are no text are none, and would make none of an answer."""
    try:
        msgspec.json.decode(key)
    except msgspec.MsgspecError:
        return False
    return True


def _salvage(line: bytes) -> Message | None:
    """What a lenient reader makes of a line that msgspec refuses: JavaScript cuts emoji in half."""
    if len(line) > VALUES and holds_many(line):
        key = answered_id(line[:ENDS], line[-ENDS:])
        return Message(id=msgspec.Raw(key), result=_NULL) if key else None
    try:
        value = json.loads(line)
        if not isinstance(value, dict):
            return None
        for name in ("method", "error"):
            if name in value and value[name] is None:
                del value[name]
        mended = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        return _decode(mended)
    except msgspec.DecodeError:
        ident = value.get("id")
        if "method" in value or not isinstance(ident, str | int):
            return None
        return Message(id=msgspec.Raw(json.dumps(ident).encode()), result=_NULL)
    except (ValueError, RecursionError):
        return None


def read_error(raw: bytes) -> ErrorObject:
    """Read an error object; what has no proper shape becomes an internal error with its text."""
    try:
        return _decode_error(raw)
    except (msgspec.DecodeError, RecursionError):
        return ErrorObject(message=bytes(raw[:500]).decode("utf-8", "replace"))


def words(text: str, most: int = WORDS) -> str:
    """A peer's text as a part of mcpd's own: one line, and not longer than so many characters."""
    return " ".join(text[:most].split())


def quoted(text: str) -> bytes:
    """A string as JSON text."""
    return _encode(text)


def request_line(key: bytes, method: str, params: bytes) -> bytes:
    return b"".join(
        (b'{"jsonrpc":"2.0","id":', key, b',"method":', _encode(method), b',"params":', params, b"}\n")
    )


def notification_line(method: str, params: bytes = b"{}") -> bytes:
    return b"".join((b'{"jsonrpc":"2.0","method":', _encode(method), b',"params":', params, b"}\n"))


def result_line(key: bytes, result: bytes) -> bytes:
    return b"".join((b'{"jsonrpc":"2.0","id":', key, b',"result":', result, b"}\n"))


def error_text(code: int, message: str, data: Any = None) -> bytes:
    """An error object as JSON text."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return _encode(error)


def error_line(key: bytes, error: bytes) -> bytes:
    return b"".join((b'{"jsonrpc":"2.0","id":', key or b"null", b',"error":', error, b"}\n"))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the member {name!r} appears twice")
            seen.add(name)
    for name, value in pairs:
        name.encode()
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, list):
            _check_strings(value)
    return out


def _check_strings(values: list[Any]) -> None:
    for value in values:
        if isinstance(value, str):
            value.encode()
        elif isinstance(value, list):
            _check_strings(value)


def holds_many(text: bytes) -> bool:
    """Whether JSON text holds more than VALUES values; what strings hold does not count."""
    if _marks(text) <= VALUES:
        return False
    # Without escapes every quote begins or ends a string.
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if bare.count(b'"') > 2 * VALUES:
        return True
    return _marks(b"".join(bare.split(b'"')[::2])) > VALUES


def _marks(text: bytes) -> int:
    """At least the number of values, where there are no strings."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def check_arguments(raw: bytes) -> None:
    """Refuse arguments that two readers could understand differently (b29).

    `raw` is part of a line that `read` has accepted. Raises Failure `invalid_params` for anything
    but an object, for duplicate member names, NaN and infinities, lone surrogates, and for more
    values than VALUES.
    """
    if raw[:1] == b"{" and _BACKSLASH not in raw and raw.count(b":") <= 1:
        # One member at most and no escapes; what else could be wrong, `read` has refused.
        return
    if len(raw) > VALUES and holds_many(raw):
        raise Failure("invalid_params", f"the arguments hold more than {VALUES:,} values")
    try:
        value = msgspec.json.decode(raw)
        # A flat object with as many members as it has colons has no member twice.
        if type(value) is dict and len(value) == raw.count(b":"):
            return
    except RecursionError:
        raise Failure("invalid_params", "the arguments are nested too deeply") from None
    except msgspec.DecodeError:
        pass
    try:
        value = json.loads(raw, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except UnicodeEncodeError:
        raise Failure("invalid_params", "the arguments hold a lone surrogate") from None
    except RecursionError:
        raise Failure("invalid_params", "the arguments are nested too deeply") from None
    except ValueError as e:
        raise Failure("invalid_params", f"the arguments have no single meaning: {e}") from None
    if not isinstance(value, dict):
        raise Failure("invalid_params", "the arguments must be an object")
