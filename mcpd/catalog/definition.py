"""Definitions as servers list them, whatever of: taken apart, checked, bounded, mended (b24, b25).

Reading is tolerant: one bad definition never loses another. What is listed is what every
official client accepts, because some drop a whole list for one odd entry. `tool`, `resource`
and `prompt` say what that means for each kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from mcpd.catalog.members import foreign_meta, join_members, split_members
from mcpd.catalog.schema import AnyObject
from mcpd.protocol.arrays import elements

T = TypeVar("T")
Known = TypeVar("Known")
More = TypeVar("More")


class Limits(msgspec.Struct, frozen=True):
    """How much of one server's catalogue is taken (b24)."""

    entries: int = 10_000
    """Of each kind."""
    definition: int = 64 * 1024
    """Bytes of JSON text."""
    catalogue: int = 16 * 1024 * 1024
    """Bytes of JSON text of all definitions."""
    depth: int = 100
    """Levels of nesting in a definition; serde_json, in Rust clients, refuses 128 in a message."""
    name: int = 256
    """Characters of a name (protocol reference, section 7.1)."""
    uri: int = 8000
    """Characters of a URI or URI template (RFC 9110, section 4.1)."""
    warnings: int = 100


LIMITS: Final = Limits()

#: Characters of a name or URI in a warning.
_SHOWN: Final = 256

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_STRING_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}

#: What msgspec raises for a text it cannot take; deep nesting is a RecursionError.
UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Icon(msgspec.Struct, rename="camel"):
    """What no client refuses (7.3)."""

    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["light", "dark"] | UnsetType = UNSET


STRING: Final = msgspec.json.Decoder(str)
OBJECT: Final = msgspec.json.Decoder(AnyObject)
ICONS: Final = msgspec.json.Decoder(list[Icon])

Shapes = Mapping[str, tuple[msgspec.json.Decoder[Any], str]]
"""Members that are dropped where they have another shape than the decoder's, and what is said then."""

#: Those that definitions of every kind may have.
COMMON: Final[Shapes] = {
    "description": (STRING, "no string"),
    "title": (STRING, "no string"),
    "icons": (ICONS, "no list of icons"),
    "_meta": (OBJECT, "no object"),
}


class Unusable(Exception):
    """Why a definition is left out."""


class Reading(msgspec.Struct, frozen=True):
    """One definition's way through its reader."""

    limits: Limits
    notes: list[str]
    """What was mended, each to be read after "its"; grows while the definition is read."""


def read_definitions(
    pages: Iterable[bytes],
    noun: str,
    read: Callable[[bytes, Reading], T],
    identity: Callable[[T], str],
    limits: Limits,
    taken: int,
) -> tuple[tuple[T, ...], tuple[str, ...]]:
    """The usable definitions of one kind, in the server's order, and what was left out or mended.

    Each page is the JSON text of an array, or of a single definition. `taken`: bytes that
    definitions of other kinds have of the catalogue already. `read` raises Unusable or UNREADABLE.
    Never raises for anything a page may hold.
    """
    found: dict[str, T] = {}
    warnings = _Warnings(limits.warnings)
    beyond = 0
    for count, text in enumerate(_definitions(pages, noun, limits, warnings)):
        if count >= limits.entries or taken + len(text) > limits.catalogue:
            beyond += 1
            continue
        reading = Reading(limits, [])
        try:
            definition = read(text, reading)
        except (Unusable, *UNREADABLE) as error:
            warnings.add(f"a {noun} is left out: {error} (it begins with {_beginning(text)})")
            continue
        name = identity(definition)
        if name in found:
            warnings.add(f'a second {noun} "{name[:_SHOWN]}" is left out')
            continue
        found[name] = definition
        taken += len(text)
        for note in reading.notes:
            warnings.add(f'{noun} "{name[:_SHOWN]}": its {note}')
    full = f"a server may have {limits.entries:,} of them, and {limits.catalogue:,} bytes of everything"
    first = f"{beyond:,} {noun}s are left out: {full}" if beyond else ""
    return tuple(found.values()), warnings.told(first)


class _Warnings:
    """What was left out or mended. Mutable: a list with an end, and a counter of what did not fit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[str] = []
        self._more = 0

    def add(self, text: str) -> None:
        if len(self._kept) < self._most:
            self._kept.append(text)
        else:
            self._more += 1

    def told(self, first: str) -> tuple[str, ...]:
        """All of them, headed by `first` unless that is empty."""
        all_kept = [first, *self._kept] if first else self._kept
        more = self._more + len(all_kept[self._most :])
        return (*all_kept[: self._most], *([f"and {more:,} more warnings"] if more else ()))


def _beginning(text: bytes) -> str:
    return ascii(text[:80].decode("utf-8", "replace"))


def _definitions(pages: Iterable[bytes], noun: str, limits: Limits, warnings: _Warnings) -> Iterator[bytes]:
    """Each definition's text, on one line: a page may be indented, an agent's line may not."""
    for page in pages:
        page = page.replace(b"\n", b" ").replace(b"\r", b" ").strip()
        if not page.startswith(b"["):
            yield page
            continue
        try:
            items, more = elements(page, limits.entries)
        except UNREADABLE as error:
            warnings.add(f"a page of {noun}s is left out: {error}")
        else:
            if more:
                warnings.add(f"a page has more than {limits.entries:,} entries; the rest is left out")
            yield from items


def take_apart(
    text: bytes,
    reading: Reading,
    decoder: msgspec.json.Decoder[Known],
    mend: Callable[[dict[str, bytes], list[str]], More],
) -> tuple[dict[str, Any], Known, More | None]:
    """A definition's members as JSON text, what `decoder` reads of them, and what `mend` returned.

    `decoder` takes what no client refuses; `mend` makes the members so, in place, where they are
    not. Raises Unusable and UNREADABLE.
    """
    text = _checked(text, reading)
    more = None
    members: dict[str, Any] = _MEMBERS.decode(text)
    try:
        known = decoder.decode(text)
    except msgspec.ValidationError:
        members = split_members(text)
        more = mend(members, reading.notes)
        known = decoder.decode(b"{" + join_members(members) + b"}")
    if "_meta" in members:
        members["_meta"] = foreign_meta(bytes(members["_meta"]))
    return members, known, more


def drop_nulls(members: dict[str, bytes], names: Iterable[str]) -> None:
    """Take out, in place, those of the named members that are null: it counts as absent."""
    for name in names:
        if members.get(name) == b"null":
            del members[name]


def drop_odd(members: dict[str, bytes], optional: Shapes, notes: list[str]) -> None:
    """Take out, in place, what has another shape than every client wants."""
    for name, (decoder, fault) in optional.items():
        if name in members and not fits(decoder, members[name]):
            del members[name]
            notes.append(f"{name} is {fault}, dropped")


def fits(decoder: msgspec.json.Decoder[Any], text: bytes) -> bool:
    """Whether JSON text has the decoder's shape."""
    try:
        decoder.decode(text)
    except msgspec.ValidationError:
        return False
    return True


def check_identity(text: str, what: str, most: int) -> None:
    """Raises Unusable for a name or URI that nothing could be called by."""
    if not text:
        raise Unusable(f"its {what} is empty")
    if not text.isprintable() and _CONTROL.search(text):
        raise Unusable(f"its {what} has control characters")
    if "\ufffd" in text:
        raise Unusable(f"its {what} is no valid text")
    if len(text) > most:
        raise Unusable(f"its {what} has more than {most:,} characters")


def _checked(text: bytes, reading: Reading) -> bytes:
    """A definition within the limits and of valid UTF-8, which msgspec.Raw does not check."""
    limits = reading.limits
    if len(text) > limits.definition:
        text = _shortened(text, reading)
    if text.count(b"{") + text.count(b"[") > limits.depth and _depth(text) > limits.depth:
        raise Unusable(f"its definition is nested more than {limits.depth} levels deep")
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            reading.notes.append("definition is no valid UTF-8, mended")
            return text.decode("utf-8", "replace").encode()
    return text


def _shortened(text: bytes, reading: Reading) -> bytes:
    """A definition that is too long for its description alone keeps the beginning of that.

    Raises Unusable when the rest is too long as well.
    """
    most = reading.limits.definition
    too_long = Unusable(f"its definition has more than {most:,} bytes")
    try:
        members = split_members(text)
        description = STRING.decode(members["description"])
    except (*UNREADABLE, KeyError):
        raise too_long from None
    room = most - (len(text) - len(members["description"]))
    # One character is at most 6 bytes of JSON text, escaped, so that this many fit whatever they are.
    kept = description[: max(0, room - 100) // 6]
    if not kept:
        raise too_long
    members["description"] = msgspec.json.encode(f"{kept} [cut by mcpd]")
    reading.notes.append(f"description of {len(description):,} characters is cut after {len(kept):,}")
    return b"{" + join_members(members) + b"}"


def _depth(text: bytes) -> int:
    brackets = _STRING_TEXT.sub(b"", text).translate(None, _NO_BRACKET)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)
