"""Blocks of content, of tools, prompts and embedded resources alike: bounded, summed up, and kept honest.

A block passes as the JSON text the server sent. What is too much is left out, and that is said (a17, a18).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from mcpd.catalog.members import foreign_meta, join_members, split_members
from mcpd.protocol.jsonrpc import words

#: Bytes, decoded, of an image, a sound or an embedded blob that pass (a18).
BINARY: Final = 4 * 1024 * 1024
#: Blocks that pass; more of them cost every reader time even when they are empty.
BLOCKS: Final = 10_000
#: Bytes that blocks have together beside their text and their binary data, and a result beside its content.
BESIDE: Final = 512 * 1024

_MIME = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,64}/[A-Za-z0-9!#$&^_.+-]{1,64}")
#: A letter of "dev.mcpd" as an escape, with which that could be written so that only a reader sees it.
_SPELLED = re.compile(rb"\\u00(?:6[345dD]|7[06]|2[eE])")

UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)


class _Resource(msgspec.Struct, rename="camel"):
    text: str | UnsetType = UNSET
    blob: str | UnsetType = UNSET
    mime_type: str | None = None


class _Link(msgspec.Struct):
    uri: str


class _Block(msgspec.Struct, rename="camel"):
    type: str
    text: str | UnsetType = UNSET
    data: str | UnsetType = UNSET
    mime_type: str | None = None
    resource: _Resource | UnsetType = UNSET


_BLOCK: Final = msgspec.json.Decoder(_Block)
_RESOURCE: Final = msgspec.json.Decoder(_Resource)
_URI: Final = msgspec.json.Decoder(_Link)


def may_speak(text: bytes) -> bool:
    """Whether there may be a member that only mcpd itself may set, however it is spelled."""
    return b"dev.mcpd" in text or (b"\\u00" in text and _SPELLED.search(text) is not None)


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


class Budget:
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


def told(budget: Budget, more: bool) -> list[str]:
    """What was left out, in words for the reader; `more`: there were more blocks than BLOCKS."""
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


def cut_block(text: bytes, budget: Budget) -> bytes | None:
    """A block as far as it fits; None for one that is left out."""
    try:
        block = _BLOCK.decode(text)
    except msgspec.ValidationError:
        block = _Block("")
    match block:
        case _Block(type="text", text=str() as whole):
            if not budget.bears(beside(text, "text")):
                return None
            kept = budget.take(whole)
            return _replaced(text, "text", kept, whole)
        case _Block(type="image" | "audio", data=str() as data):
            return _binary(text, ("data",), data, block.mime_type, budget)
        case _Block(type="resource", resource=_Resource(text=str() as whole)):
            if not budget.bears(beside(text, "resource", "text")):
                return None
            kept = budget.take(whole)
            inner = _replaced(split_members(text)["resource"], "text", kept, whole)
            return inner and (text if kept == whole else with_member(text, "resource", inner))
        case _Block(type="resource", resource=_Resource(blob=str() as data) as resource):
            return _binary(text, ("resource", "blob"), data, resource.mime_type, budget)
    if budget.fits(len(text)):
        return text
    budget.blocks += 1
    return None


def cut_resource(text: bytes, budget: Budget) -> bytes | None:
    """The same of what a resource holds: an entry of the `contents` of a read."""
    try:
        resource = _RESOURCE.decode(text)
    except msgspec.ValidationError:
        resource = _Resource()
    match resource:
        case _Resource(text=str() as whole):
            if not budget.bears(beside(text, "text")):
                return None
            return _replaced(text, "text", budget.take(whole), whole)
        case _Resource(blob=str() as data):
            size = decoded_size(data)
            if size <= BINARY:
                return text if budget.bears(beside(text, "blob")) else None
            members = split_members(text)
            del members["blob"]
            members["mimeType"] = b'"text/plain"'
            members["text"] = msgspec.json.encode(binary_summary(resource.mime_type, size))
            return b"{" + join_members(members) + b"}"
    if budget.fits(len(text)):
        return text
    budget.blocks += 1
    return None


def _replaced(text: bytes, key: str, kept: str, whole: str) -> bytes | None:
    """The object with the part that was kept; the very same text if that is all, None if it is nothing."""
    if kept == whole:
        return text
    return with_member(text, key, msgspec.json.encode(kept)) if kept else None


def with_member(text: bytes, key: str, value: bytes) -> bytes:
    """The object with another value for one member."""
    return b"{" + join_members(split_members(text) | {key: value}) + b"}"


def beside(text: bytes, *path: str) -> int:
    """Bytes of a block beside the one value that is meant, second copies of that included."""
    value = text
    for key in path:
        value = split_members(value)[key]
    return len(text) - len(value)


def _binary(text: bytes, path: tuple[str, ...], data: str, mime: str | None, budget: Budget) -> bytes | None:
    size = decoded_size(data)
    if size > BINARY:
        return text_block(binary_summary(mime, size))
    return text if budget.bears(beside(text, *path)) else None


def decoded_size(data: str) -> int:
    """The number of bytes that base64 text stands for."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def binary_summary(mime: str | None, size: int) -> str:
    """What stands in the place of binary data that is not passed on (a17)."""
    kind = mime if mime and _MIME.fullmatch(mime) else "data"
    return f"[binary {kind}: ~{size} bytes]"


def block_text(text: bytes) -> str:
    """A block as a reader of text alone sees it; what is no text in few words (a17, a19)."""
    try:
        block = _BLOCK.decode(text)
    except msgspec.ValidationError:
        block = _Block("")
    match block:
        case _Block(type="text", text=str() as whole):
            return whole
        case _Block(type="image" | "audio", data=str() as data):
            return binary_summary(block.mime_type, decoded_size(data))
        case _Block(type="resource", resource=_Resource() as resource):
            return _resource_text(resource)
        case _Block(type="resource_link"):
            return f"[resource {_uri(text)}]"
    return "[content of an unknown form]"


def resource_text(text: bytes) -> str:
    """The same of what a resource holds: an entry of the `contents` of a read."""
    try:
        return _resource_text(_RESOURCE.decode(text))
    except msgspec.ValidationError:
        return _resource_text(_Resource())


def _resource_text(resource: _Resource) -> str:
    if isinstance(resource.text, str):
        return resource.text
    if isinstance(resource.blob, str):
        return binary_summary(resource.mime_type, decoded_size(resource.blob))
    return "[content of an unknown form]"


def _uri(text: bytes) -> str:
    try:
        return words(_URI.decode(text).uri, 2000)
    except msgspec.ValidationError:
        return "without a URI"


def text_block(text: str) -> bytes:
    """A content block of text, as JSON."""
    return b'{"type":"text","text":' + msgspec.json.encode(text) + b"}"


def foreign_block(text: bytes) -> bytes:
    """A block without what only mcpd itself may say in `_meta`."""
    if text[:1] != b"{":
        return text
    members = foreign_members(text)
    if "resource" in members:
        members["resource"] = foreign_block(members["resource"])
    return b"{" + join_members(members) + b"}"


def foreign_members(text: bytes) -> dict[str, bytes]:
    """The members of an object without what only mcpd itself may say in its `_meta`."""
    members = split_members(text)
    if members.get("_meta", b"")[:1] == b"{":
        members["_meta"] = foreign_meta(members["_meta"])
    return members
