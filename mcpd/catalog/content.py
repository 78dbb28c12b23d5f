"""Results of tool calls: bounded, dressed for an era, and those that mcpd itself gives.

A result passes as the JSON text the server sent. Only its top level is read, unless the
text is larger than the cap: then what is too much is left out, and that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mcpd.catalog.blocks import (
    BESIDE,
    BLOCKS,
    UNREADABLE,
    Budget,
    cut_block,
    foreign_block,
    foreign_members,
    may_speak,
    one_line,
    text_block,
    told,
)
from mcpd.catalog.members import OWN_META, join_members, split_members
from mcpd.errors import Failure
from mcpd.protocol.arrays import elements

#: Bytes of structuredContent that pass whole (a18).
STRUCTURED: Final = 1024 * 1024


class Bounded(msgspec.Struct, frozen=True):
    """A result as the agent gets it."""

    text: bytes
    """One line of JSON in valid UTF-8: an object, with an array `content` if it is a tool's result."""
    is_error: bool = False
    cut: bool = False
    """Whether anything was left out."""
    typed: bool = False
    """Whether it has a `resultType`."""
    caching: bytes = b""
    """Members, as JSON text without the braces, that agents of 2026-07-28 get besides (5.18)."""


class _Result(msgspec.Struct, rename="camel"):
    """The top level of a result in the specified form. `content` may have millions of elements."""

    content: msgspec.Raw
    structured_content: msgspec.Raw | UnsetType = UNSET
    is_error: bool = False
    result_type: Literal["complete"] | UnsetType = UNSET
    meta: msgspec.Raw | UnsetType = msgspec.field(name="_meta", default=UNSET)


#: Bytes without which no "_meta" is spelled; as numbers they are found in a third of the time.
_UNDERSCORE: Final = ord("_")
_BACKSLASH: Final = ord("\\")
_RESULT: Final = msgspec.json.Decoder(_Result)
_TYPE: Final = msgspec.json.Decoder(str)
#: What a result keeps when its further members are too large.
_KNOWN: Final = frozenset({"content", "structuredContent", "isError", "resultType"})


def bound(result: bytes, cap: int) -> Bounded:
    """A tools/call result within the limits of a18; `cap` is in bytes of text, 0 for no limit.

    What needs no change passes byte for byte. A missing `content` becomes an empty list, a
    string one block of text. Raises Failure("bad_answer") for what is no result at all.
    """
    text = one_line(result)
    try:
        try:
            top = _RESULT.decode(text)
            proper = bytes(top.content)[:1] == b"["
        except msgspec.ValidationError:
            proper = False
        if not proper:
            text = _mend(text)
            top = _RESULT.decode(text)
        if (_UNDERSCORE in text or _BACKSLASH in text) and may_speak(text):
            text = _without_own(text)
            top = _RESULT.decode(text)
        if not cap or len(text) <= min(cap, STRUCTURED):
            return Bounded(text, top.is_error, typed=top.result_type is not UNSET)
        return _cut(text, top, cap)
    except UNREADABLE as error:
        raise Failure("bad_answer", f"cannot read the server's result: {error}") from None


def _without_own(text: bytes) -> bytes:
    """A result without what only mcpd itself may say in `_meta`, anywhere: a server must not speak for it.

    Put together anew, so that no second copy of a member is left.
    """
    members = foreign_members(text)
    blocks, more = elements(members["content"], BLOCKS)
    if more:
        raise Failure("bad_answer", f"cannot use the server's result: it has more than {BLOCKS:,} blocks")
    members["content"] = b"[" + b",".join(map(foreign_block, blocks)) + b"]"
    return b"{" + join_members(members) + b"}"


def _mend(text: bytes) -> bytes:
    """The same result in the form the specification gives it; null counts as absent."""
    members = split_members(text)
    for key in ("content", "isError", "resultType"):
        if members.get(key) == b"null":
            del members[key]
    check_complete(members)
    content = members.setdefault("content", b"[]")
    if content[:1] == b'"':
        members["content"] = b'[{"type":"text","text":' + content + b"}]"
    elif content[:1] != b"[":
        raise Failure("bad_answer", "cannot use the server's result: its content is no list")
    if members.get("isError", b"false") not in (b"true", b"false"):
        # Said in a way that nobody specified; a success would be said by leaving it out.
        members["isError"] = b"true"
    return b"{" + join_members(members) + b"}"


def check_complete(members: Mapping[str, bytes]) -> None:
    """Raises Failure("bad_answer") for the members of a result that is not the last word."""
    kind = members.get("resultType", b'"complete"')
    if kind[:1] != b'"' or _TYPE.decode(kind) != "complete":
        # input_required and task need capabilities that were not declared (protocol reference, 5.13).
        raise Failure("bad_answer", "cannot use the server's result: it is not complete")


def _cut(text: bytes, top: _Result, cap: int) -> Bounded:
    """A result that may be too large; returns the same bytes if it is not after all."""
    blocks, more = elements(bytes(top.content), BLOCKS)
    budget = Budget(cap)
    kept = [new for block in blocks if (new := cut_block(block, budget)) is not None]
    notes = told(budget, more)
    changed = {}
    structured = 0 if top.structured_content is UNSET else len(memoryview(top.structured_content))
    if structured > STRUCTURED:
        notes.insert(
            0,
            f"[mcpd: the structured content, {structured:,} bytes, is left out:"
            f" more than {STRUCTURED:,} bytes are not passed on]",
        )
        changed["isError"] = b"true"
    # Also what a second copy of a member holds, of which only the last was read.
    beside = len(text) - len(memoryview(top.content)) - structured
    if beside > BESIDE:
        notes.append(f"[mcpd: further members of the result, {beside:,} bytes, are left out]")
    if notes or kept != blocks:
        changed["content"] = b"[" + b",".join(kept + [text_block(note) for note in notes]) + b"]"
    typed = top.result_type is not UNSET
    if not changed:
        return Bounded(text, top.is_error, typed=typed)
    members = split_members(text) | changed
    if beside > BESIDE:
        members = {key: value for key, value in members.items() if key in _KNOWN}
    if structured > STRUCTURED:
        del members["structuredContent"]
    return Bounded(b"{" + join_members(members) + b"}", top.is_error or "isError" in changed, True, typed)


def dress(result: Bounded, *, stateless: bool) -> bytes:
    """A result for an agent's era: `resultType` is required since 2026-07-28, unknown before (4.2, 8.1)."""
    if result.typed == stateless:
        return result.text
    if result.typed:
        members = split_members(result.text)
        del members["resultType"]
        return b"{" + join_members(members) + b"}"
    inner = result.text.lstrip()[1:].lstrip()
    head = b'{"resultType":"complete"' + (b"," + result.caching if result.caching else b"")
    return head + (inner if inner.startswith(b"}") else b"," + inner)


def verdict(kind: str, text: str, hint: str = "", data: Mapping[str, Any] | None = None) -> bytes:
    """A verdict of mcpd's own as a result that an agent sees: an error in words (D13).

    `data` holds further facts, such as `retry_after`, in values that JSON has.
    """
    meta = {OWN_META + key: value for key, value in {**(data or {}), "kind": kind}.items()}
    said = f"{text}\n{hint}" if hint else text
    return msgspec.json.encode({"content": [{"type": "text", "text": said}], "isError": True, "_meta": meta})
