"""Results of tool calls: bounded, dressed for an era, and those that mcpd itself gives.

A result passes as the JSON text the server sent. Only its top level is read, unless the
text is larger than the cap: then what is too much is left out, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mcpd.catalog.members import OWN_META, foreign_meta, join_members, split_members
from mcpd.errors import Failure
from mcpd.protocol.arrays import elements

#: Bytes of structuredContent that pass whole (a18).
STRUCTURED: Final = 1024 * 1024
#: Bytes, decoded, of an image, a sound or an embedded blob that pass (a18).
BINARY: Final = 4 * 1024 * 1024
#: Blocks that pass; more of them cost every reader time even when they are empty.
BLOCKS: Final = 10_000
#: Bytes that blocks have together beside their text and their binary data, and a result beside its content.
BESIDE: Final = 512 * 1024

_MIME = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}")
#: A letter of "dev.mcpd" as an escape, with which that could be written so that only a reader sees it.
_SPELLED = re.compile(rb"\\u00(?:6[345dD]|7[06]|2[eE])")
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)


class Bounded(msgspec.Struct, frozen=True):
    """A result as the agent gets it."""

    text: bytes
    """One line of JSON in valid UTF-8, an object with an array `content`."""
    is_error: bool = False
    cut: bool = False
    """Whether anything was left out."""
    typed: bool = False
    """Whether it has a `resultType`."""


class _Result(msgspec.Struct, rename="camel"):
    """The top level of a result in the specified form. `content` may have millions of elements."""

    content: msgspec.Raw
    structured_content: msgspec.Raw | UnsetType = UNSET
    is_error: bool = False
    result_type: Literal["complete"] | UnsetType = UNSET
    meta: msgspec.Raw | UnsetType = msgspec.field(name="_meta", default=UNSET)


class _Resource(msgspec.Struct, rename="camel"):
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET
    mime_type: str | None = None


class _Block(msgspec.Struct, rename="camel"):
    type: str
    text: str | UnsetType = UNSET
    data: str | UnsetType = UNSET
    mime_type: str | None = None
    resource: _Resource | UnsetType = UNSET


#: Bytes without which no "_meta" is spelled; as numbers they are found in a third of the time.
_UNDERSCORE: Final = ord("_")
_BACKSLASH: Final = ord("\\")
_RESULT: Final = msgspec.json.Decoder(_Result)
_BLOCK: Final = msgspec.json.Decoder(_Block)
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
        if (_UNDERSCORE in text or _BACKSLASH in text) and _may_speak(text):
            text = _without_own(text)
            top = _RESULT.decode(text)
        if not cap or len(text) <= min(cap, STRUCTURED):
            return Bounded(text, top.is_error, typed=top.result_type is not UNSET)
        return _cut(text, top, cap)
    except _UNREADABLE as error:
        raise Failure("bad_answer", f"cannot read the server's result: {error}") from None


def _may_speak(text: bytes) -> bool:
    """Whether there may be a member that only mcpd itself may set, however it is spelled."""
    return b"dev.mcpd" in text or (b"\\u00" in text and _SPELLED.search(text) is not None)


def _without_own(text: bytes) -> bytes:
    """A result without what only mcpd itself may say in `_meta`, anywhere: a server must not speak for it.

    Put together anew, so that no second copy of a member is left.
    """
    members = _foreign_members(text)
    blocks, more = elements(members["content"], BLOCKS)
    if more:
        raise Failure("bad_answer", f"cannot use the server's result: it has more than {BLOCKS:,} blocks")
    members["content"] = b"[" + b",".join(map(_foreign_block, blocks)) + b"]"
    return b"{" + join_members(members) + b"}"


def _foreign_block(text: bytes) -> bytes:
    if text[:1] != b"{":
        return text
    members = _foreign_members(text)
    if "resource" in members:
        members["resource"] = _foreign_block(members["resource"])
    return b"{" + join_members(members) + b"}"


def _foreign_members(text: bytes) -> dict[str, bytes]:
    members = split_members(text)
    if members.get("_meta", b"")[:1] == b"{":
        members["_meta"] = foreign_meta(members["_meta"])
    return members


def one_line(text: bytes) -> bytes:
    """JSON text fit for a line of its own: no line breaks between tokens, valid UTF-8.

    msgspec.Raw checks neither; what is no UTF-8 becomes U+FFFD.
    """
    text = text.replace(b"\n", b" ").replace(b"\r", b" ")
    if text.isascii():
        return text
    try:
        text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace").encode()
    return text


def _mend(text: bytes) -> bytes:
    """The same result in the form the specification gives it; null counts as absent."""
    members = split_members(text)
    for key in ("content", "isError", "resultType"):
        if members.get(key) == b"null":
            del members[key]
    kind = members.get("resultType", b'"complete"')
    if kind[:1] != b'"' or _TYPE.decode(kind) != "complete":
        # input_required and task need capabilities that were not declared (protocol reference, 5.13).
        raise Failure("bad_answer", "cannot use the server's result: it is not complete")
    content = members.setdefault("content", b"[]")
    if content[:1] == b'"':
        members["content"] = b'[{"type":"text","text":' + content + b"}]"
    elif content[:1] != b"[":
        raise Failure("bad_answer", "cannot use the server's result: its content is no list")
    if members.get("isError", b"false") not in (b"true", b"false"):
        # Said in a way that nobody specified; a success would be said by leaving it out.
        members["isError"] = b"true"
    return b"{" + join_members(members) + b"}"


class _Budget:
    """What is left of the cap while blocks are taken in order, and what did not fit. Mutable: a counter."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.left = cap
        self.beside = BESIDE
        """What is left for everything that is neither text nor binary data."""
        self.text = 0
        """Bytes of text left out."""
        self.blocks = 0
        """Blocks left out whole that are no text."""

    def take(self, text: str) -> str:
        """As much of the text as fits, cut between two characters."""
        raw = text.encode()
        kept = raw[: self.left].decode("utf-8", "ignore")
        size = len(kept.encode())
        # Nothing may follow a cut, or the reader could not tell where the hole is.
        self.left = self.left - size if size == len(raw) else 0
        self.text += len(raw) - size
        return kept

    def fits(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        return True

    def bears(self, size: int) -> bool:
        """Whether a block may have so many bytes beside its text or data."""
        if size > self.beside:
            self.blocks += 1
            return False
        self.beside -= size
        return True


def _cut(text: bytes, top: _Result, cap: int) -> Bounded:
    """A result that may be too large; returns the same bytes if it is not after all."""
    blocks, more = elements(bytes(top.content), BLOCKS)
    budget = _Budget(cap)
    kept = [new for block in blocks if (new := _cut_block(block, budget)) is not None]
    notes = _notes(budget, more)
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


def _notes(budget: _Budget, more: bool) -> list[str]:
    notes = []
    if budget.text:
        notes.append(
            f"[mcpd: {budget.text:,} bytes of text left out, the limit is {budget.cap:,} bytes a result]"
        )
    if budget.blocks:
        notes.append(f"[mcpd: {budget.blocks:,} more blocks left out]")
    if more:
        notes.append(f"[mcpd: more than {BLOCKS:,} blocks, the others are left out]")
    return notes


def _cut_block(text: bytes, budget: _Budget) -> bytes | None:
    """A block as far as it fits; None for one that is left out."""
    try:
        block = _BLOCK.decode(text)
    except msgspec.ValidationError:
        block = _Block("")
    match block:
        case _Block(type="text", text=str() as whole):
            if not budget.bears(_beside(text, "text")):
                return None
            kept = budget.take(whole)
            return _replaced(text, "text", kept, whole)
        case _Block(type="image" | "audio", data=str() as data):
            return _binary(text, ("data",), data, block.mime_type, budget)
        case _Block(type="resource", resource=_Resource(text=str() as whole)):
            if not budget.bears(_beside(text, "resource", "text")):
                return None
            kept = budget.take(whole)
            inner = _replaced(split_members(text)["resource"], "text", kept, whole)
            return inner and (text if kept == whole else _with_member(text, "resource", inner))
        case _Block(type="resource", resource=_Resource(blob=str() as data) as resource):
            return _binary(text, ("resource", "blob"), data, resource.mime_type, budget)
    if budget.fits(len(text)):
        return text
    budget.blocks += 1
    return None


def _replaced(text: bytes, key: str, kept: str, whole: str) -> bytes | None:
    """The object with the part that was kept; the very same text if that is all, None if it is nothing."""
    if kept == whole:
        return text
    return _with_member(text, key, msgspec.json.encode(kept)) if kept else None


def _with_member(text: bytes, key: str, value: bytes) -> bytes:
    return b"{" + join_members(split_members(text) | {key: value}) + b"}"


def _beside(text: bytes, *path: str) -> int:
    """Bytes of a block beside the one value that is meant, second copies of that included."""
    value = text
    for key in path:
        value = split_members(value)[key]
    return len(text) - len(value)


def _binary(text: bytes, path: tuple[str, ...], data: str, mime: str | None, budget: _Budget) -> bytes | None:
    size = decoded_size(data)
    if size > BINARY:
        return text_block(binary_summary(mime, size))
    return text if budget.bears(_beside(text, *path)) else None


def decoded_size(data: str) -> int:
    """The number of bytes that base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def binary_summary(mime: str | None, size: int) -> str:
    """What stands in the place of binary data that is not passed on (a17)."""
    kind = mime if mime and _MIME.fullmatch(mime) else "data"
    return f"[binary {kind}: ~{size} bytes]"


def text_block(text: str) -> bytes:
    """A content block of text, as JSON."""
    return b'{"type":"text","text":' + msgspec.json.encode(text) + b"}"


def dress(result: Bounded, *, stateless: bool) -> bytes:
    """A result for an agent's era: `resultType` is required since 2026-07-28, unknown before (4.2, 8.1)."""
    if result.typed == stateless:
        return result.text
    if result.typed:
        members = split_members(result.text)
        del members["resultType"]
        return b"{" + join_members(members) + b"}"
    inner = result.text.lstrip()[1:].lstrip()
    return b'{"resultType":"complete"' + (inner if inner.startswith(b"}") else b"," + inner)


def verdict(kind: str, text: str, hint: str = "", data: Mapping[str, Any] | None = None) -> bytes:
    """A verdict of mcpd's own as a result that an agent sees: an error in words (D13).

    `data` holds further facts, such as `retry_after`, in values that JSON has.
    """
    meta = {OWN_META + key: value for key, value in {**(data or {}), "kind": kind}.items()}
    said = f"{text}\n{hint}" if hint else text
    return msgspec.json.encode({"content": [{"type": "text", "text": said}], "isError": True, "_meta": meta})
