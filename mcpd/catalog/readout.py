"""Results of resources/read and prompts/get: bounded (a18), or read out as a tool's result (a17, a19)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from mcpd.catalog.blocks import (
    BESIDE,
    BLOCKS,
    UNREADABLE,
    Budget,
    block_text,
    cut_block,
    cut_resource,
    foreign_block,
    foreign_members,
    may_speak,
    one_line,
    resource_text,
    text_block,
    told,
    with_member,
)
from mcpd.catalog.content import Bounded, check_complete
from mcpd.catalog.members import join_members, split_members
from mcpd.errors import Failure
from mcpd.protocol.arrays import elements

#: Seconds that a read may be kept at most, whatever the server says (5.18).
LONGEST_TTL: Final = 86_400

#: What 2026-07-28 adds to a result; mcpd says it anew for each agent's era (4.8).
_ERA: Final = ("resultType", "ttlMs", "cacheScope")


class _Message(msgspec.Struct):
    role: str
    content: msgspec.Raw


_MESSAGE: Final = msgspec.json.Decoder(_Message)


class _Kind(msgspec.Struct, frozen=True):
    """What the two results differ in."""

    key: str
    """The member that holds what was asked for, an array."""
    foreign: Callable[[bytes], bytes]
    """An element without what only mcpd itself may say."""
    cut: Callable[[bytes, Budget], bytes | None]
    """An element as far as it fits; None for one that is left out."""


def bound_read(result: bytes, cap: int, uri: str) -> Bounded:
    """A resources/read result within the limits of a18; `cap` is in bytes of text, 0 for no limit.

    `uri` is the one that was asked for; what was left out is said in an entry under it. Values that
    need no change pass byte for byte. Raises Failure("bad_answer") for what is no such result.
    """
    try:
        members = _opened(result, _READ.key)
        return _bound(_READ, members, cap, partial(_noted_resource, uri), _caching(members))
    except UNREADABLE as error:
        raise _unreadable(error) from None


def bound_prompt(result: bytes, cap: int) -> Bounded:
    """The same of a prompts/get result; what was left out is said in a message of its own."""
    try:
        return _bound(_PROMPT, _opened(result, _PROMPT.key), cap, _noted_message, b"")
    except UNREADABLE as error:
        raise _unreadable(error) from None


def render_read(result: bytes, cap: int) -> Bounded:
    """A resources/read result as that of a tool: its text, each binary part in a few words (a17).

    Raises Failure("bad_answer") for what is no such result.
    """
    return _render(_READ, result, cap, resource_text)


def render_prompt(result: bytes, cap: int) -> Bounded:
    """A prompts/get result as that of a tool: one text, `[role] text` for each message (a19).

    Raises Failure("bad_answer") for what is no such result.
    """
    return _render(_PROMPT, result, cap, _message_text)


def render_text(text: str, cap: int, more: bool = False) -> Bounded:
    """A tool's result of one text, cut at a character where it is longer than `cap` bytes (0: no limit).

    `more` says that not even all of it is in the text.
    """
    budget = Budget(cap or len(text.encode()))
    kept = budget.take(text)
    notes = told(budget, more)
    blocks = b",".join(map(text_block, (kept, *notes)))
    return Bounded(b'{"content":[' + blocks + b"]}", cut=bool(notes))


def _opened(result: bytes, key: str) -> dict[str, bytes]:
    """The members of a complete result whose member `key` is an array. Raises UNREADABLE, and Failure."""
    members = split_members(one_line(result))
    if members.get("resultType") == b"null":
        del members["resultType"]
    check_complete(members)
    if members.get(key, b"")[:1] != b"[":
        raise Failure("bad_answer", f"cannot use the server's result: its {key} are no list")
    return members


def _unreadable(error: Exception) -> Failure:
    return Failure("bad_answer", f"cannot read the server's result: {error}")


def _bound(
    kind: _Kind, members: dict[str, bytes], cap: int, noted: Callable[[str], bytes], caching: bytes
) -> Bounded:
    for key in _ERA:
        members.pop(key, None)
    text = b"{" + join_members(members) + b"}"
    if may_speak(text):
        members = foreign_members(text)
        found, more = elements(members[kind.key], BLOCKS)
        if more:
            raise Failure("bad_answer", f"cannot use the server's result: more than {BLOCKS:,} {kind.key}")
        members[kind.key] = b"[" + b",".join(map(kind.foreign, found)) + b"]"
        text = b"{" + join_members(members) + b"}"
    if not cap or len(text) <= min(cap, BESIDE):
        return Bounded(text, caching=caching)
    found, more = elements(members[kind.key], BLOCKS)
    budget = Budget(cap)
    kept = [new for item in found if (new := kind.cut(item, budget)) is not None]
    notes = told(budget, more)
    beside = len(text) - len(members[kind.key])
    if beside > BESIDE:
        notes.append(f"[mcpd: further members of the result, {beside:,} bytes, are left out]")
        members = {kind.key: b""}
    if not notes and kept == found:
        return Bounded(text, caching=caching)
    members[kind.key] = b"[" + b",".join(kept + [noted(note) for note in notes]) + b"]"
    return Bounded(b"{" + join_members(members) + b"}", cut=True, caching=caching)


def _caching(members: dict[str, bytes]) -> bytes:
    """How long an agent may keep a read: as the server says, and for itself alone (5.18)."""
    said = members.get("ttlMs", b"")
    ttl = min(int(said), LONGEST_TTL * 1000) if said.isdigit() and len(said) < 16 else 0
    return b'"ttlMs":%d,"cacheScope":"private"' % ttl


def _noted_resource(uri: str, note: str) -> bytes:
    return msgspec.json.encode({"uri": uri, "mimeType": "text/plain", "text": note})


def _noted_message(note: str) -> bytes:
    return b'{"role":"user","content":' + text_block(note) + b"}"


def _cut_message(text: bytes, budget: Budget) -> bytes | None:
    members = split_members(text) if text[:1] == b"{" else {}
    block = members.get("content", b"")
    if block[:1] != b"{":
        if budget.fits(len(text)):
            return text
        budget.blocks += 1
        return None
    if not budget.bears(len(text) - len(block)):
        return None
    kept = cut_block(block, budget)
    return text if kept == block else kept and with_member(text, "content", kept)


def _foreign_message(text: bytes) -> bytes:
    if text[:1] != b"{":
        return text
    members = foreign_members(text)
    if "content" in members:
        members["content"] = foreign_block(members["content"])
    return b"{" + join_members(members) + b"}"


_READ: Final = _Kind("contents", foreign_block, cut_resource)
_PROMPT: Final = _Kind("messages", _foreign_message, _cut_message)


def _render(kind: _Kind, result: bytes, cap: int, said: Callable[[bytes], str]) -> Bounded:
    try:
        found, more = elements(_opened(result, kind.key)[kind.key], BLOCKS)
        return render_text("\n".join(map(said, found)), cap, more)
    except UNREADABLE as error:
        raise _unreadable(error) from None


def _message_text(text: bytes) -> str:
    try:
        message = _MESSAGE.decode(text)
    except msgspec.ValidationError:
        return "[unknown] [content of an unknown form]"
    # A role of the server's own invention must not look like something else.
    role = message.role if message.role in ("user", "assistant") else "unknown"
    return f"[{role}] {block_text(bytes(message.content))}"
