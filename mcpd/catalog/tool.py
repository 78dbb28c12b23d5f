"""Tools as servers define them, kept as JSON text and read only where a rule looks.

Reading is tolerant: one bad definition never loses another. What is listed is what every
official client accepts, because some drop a whole list for one odd entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mcpd.catalog.members import foreign_meta, join_members, split_members
from mcpd.catalog.mirror import Mirror, read_mirrors
from mcpd.catalog.prompt import Prompt
from mcpd.catalog.resource import Resource, Template
from mcpd.catalog.schema import AnyObject, Root, free_schema, object_schema
from mcpd.protocol.arrays import elements


class Annotations(msgspec.Struct, frozen=True, rename="camel"):
    """A tool's hints about itself; untrusted input (b11). None means: not said."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class Tool(msgspec.Struct, frozen=True):
    """One tool of one server."""

    name: str
    """The server's own name, exactly."""
    rest: bytes
    """The members of the definition other than `name`, as JSON text without the braces."""
    annotations: Annotations = Annotations()
    output: tuple[bytes, bytes] | None = None
    """The outputSchema where its root is not plainly an object, which 2026-07-28 allows: as
    older agents may see it (empty: not at all), and as sent. It is not part of `rest` then."""
    wraps: str = ""
    """For a tool of mcpd's own that stands for another primitive (a10): the method it wraps, such as
    "resources/read". Empty for a server's own tool."""
    mirrors: tuple[Mirror, ...] = ()
    """The arguments that a call over HTTP repeats in headers (3.3)."""
    unmirrorable: str = ""
    """Why a client may not offer the tool over HTTP; empty where it may."""

    def entry(self, name: str, *, stateless: bool = False) -> bytes:
        """The definition as JSON text under the given name, for an agent of either era."""
        text = b'{"name":' + msgspec.json.encode(name)
        if self.rest:
            text += b"," + self.rest
        if self.output and self.output[stateless]:
            text += b',"outputSchema":' + self.output[stateless]
        return text + b"}"


#: What a server may advertise that decides what agents can be offered (5.1).
Feature = Literal["tools", "resources", "resources.subscribe", "prompts", "completions", "logging"]


class Catalog(msgspec.Struct, frozen=True):
    """All that one server offers, at one moment."""

    tools: tuple[Tool, ...] = ()
    instructions: str = ""
    warnings: tuple[str, ...] = ()
    """What was left out or mended, each with the entry and the reason (b24)."""
    resources: tuple[Resource, ...] = ()
    templates: tuple[Template, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    features: frozenset[Feature] = frozenset()
    """What the server advertises, in the era that it was spoken to in."""


class Limits(msgspec.Struct, frozen=True):
    """How much of one server's catalogue is taken (b24)."""

    tools: int = 10_000
    definition: int = 64 * 1024
    """Bytes of JSON text."""
    catalogue: int = 16 * 1024 * 1024
    """Bytes of JSON text of all definitions."""
    depth: int = 100
    """Levels of nesting in a definition; serde_json, in Rust clients, refuses 128 in a message."""
    name: int = 256
    """Characters of a tool's name (protocol reference, section 7.1)."""
    warnings: int = 100


LIMITS: Final = Limits()

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKET: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEP: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


class _Hints(msgspec.Struct, rename="camel"):
    title: str | UnsetType = UNSET
    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET


class _Icon(msgspec.Struct, rename="camel"):
    src: str
    mime_type: str | UnsetType = UNSET
    sizes: list[str] | UnsetType = UNSET
    theme: Literal["light", "dark"] | UnsetType = UNSET


class _Execution(msgspec.Struct, rename="camel"):
    task_support: Literal["forbidden", "optional", "required"] | UnsetType = UNSET


class _Definition(msgspec.Struct, rename="camel"):
    """A definition that no client refuses, of the members that any of them checks."""

    name: str
    input_schema: Root
    output_schema: Root | UnsetType = UNSET
    description: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    annotations: _Hints | UnsetType = UNSET
    icons: list[_Icon] | UnsetType = UNSET
    execution: _Execution | UnsetType = UNSET
    meta: AnyObject | UnsetType = msgspec.field(name="_meta", default=UNSET)


_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DEFINITION: Final = msgspec.json.Decoder(_Definition)
_ANNOTATIONS: Final = msgspec.json.Decoder(Annotations)

_OBJECT: Final = msgspec.json.Decoder(AnyObject)

#: Members that are dropped where they have another shape.
_OPTIONAL: Final[dict[str, tuple[msgspec.json.Decoder[Any], str]]] = {
    "description": (msgspec.json.Decoder(str), "no string"),
    "title": (msgspec.json.Decoder(str), "no string"),
    "icons": (msgspec.json.Decoder(list[_Icon]), "no list of icons"),
    "execution": (msgspec.json.Decoder(_Execution), "of an unknown form"),
    "_meta": (_OBJECT, "no object"),
    "annotations": (_OBJECT, "no object"),
}

_DEFINITION_MEMBERS: Final = _Definition.__struct_encode_fields__
_BOOLEAN_HINTS: Final = frozenset(_Hints.__struct_encode_fields__) - {"title"}

#: What msgspec raises for a text it cannot take; deep nesting is a RecursionError.
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)


def read_tools(pages: Iterable[bytes], limits: Limits = LIMITS) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The usable tools of a server, in its order, and what was left out or mended.

    Each page is the JSON text of a `tools` array, or of a single definition. Never raises
    for anything a page may hold.
    """
    tools: dict[str, Tool] = {}
    warnings = _Warnings(limits.warnings)
    taken = beyond = 0
    for count, text in enumerate(_definitions(pages, limits, warnings)):
        if count >= limits.tools or taken + len(text) > limits.catalogue:
            beyond += 1
            continue
        notes: list[str] = []
        try:
            tool = _read_tool(text, limits, notes)
        except _Unusable as error:
            warnings.add(f"a tool is left out: {error} (it begins with {_beginning(text)})")
            continue
        if tool.name in tools:
            warnings.add(f'a second tool "{tool.name}" is left out')
            continue
        tools[tool.name] = tool
        taken += len(text)
        for note in notes:
            warnings.add(f'tool "{tool.name}": its {note}')
    full = f"a server may have {limits.tools:,} tools in {limits.catalogue:,} bytes"
    return tuple(tools.values()), warnings.told(f"{beyond:,} tools are left out: {full}" if beyond else "")


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


class _Unusable(Exception):
    """Why a definition is left out."""


def _beginning(text: bytes) -> str:
    return ascii(text[:80].decode("utf-8", "replace"))


def _definitions(pages: Iterable[bytes], limits: Limits, warnings: _Warnings) -> Iterator[bytes]:
    """Each definition's text, on one line: a page may be indented, an agent's line may not."""
    for page in pages:
        page = page.replace(b"\n", b" ").replace(b"\r", b" ").strip()
        if not page.startswith(b"["):
            yield page
            continue
        try:
            items, more = elements(page, limits.tools)
        except _UNREADABLE as error:
            warnings.add(f"a page of tools is left out: {error}")
        else:
            if more:
                warnings.add(f"a page has more than {limits.tools:,} entries; the rest is left out")
            yield from items


def _read_tool(text: bytes, limits: Limits, notes: list[str]) -> Tool:
    """One definition, mended where `_Definition` does not take it as it is."""
    text = _checked(text, limits, notes)
    output = None
    try:
        members: dict[str, Any] = _MEMBERS.decode(text)
        try:
            known = _DEFINITION.decode(text)
        except msgspec.ValidationError:
            members = split_members(text)
            output = _mend(members, notes)
            known = _DEFINITION.decode(b"{" + join_members(members) + b"}")
    except _UNREADABLE as error:
        raise _Unusable(str(error)) from None
    _check_name(known.name, limits)
    del members["name"]
    annotations = Annotations()
    if known.annotations:
        members["annotations"] = hints = _unambiguous(bytes(members["annotations"]))
        annotations = _ANNOTATIONS.decode(hints)
    if known.meta:
        members["_meta"] = foreign_meta(bytes(members["_meta"]))
    mirrors, unmirrorable = read_mirrors(bytes(members["inputSchema"]))
    return Tool(
        known.name,
        join_members(members),
        annotations,
        output,
        mirrors=mirrors,
        unmirrorable=unmirrorable,
    )


def _checked(text: bytes, limits: Limits, notes: list[str]) -> bytes:
    """A definition within the limits and of valid UTF-8, which msgspec.Raw does not check."""
    if len(text) > limits.definition:
        text = _shortened(text, limits, notes)
    if text.count(b"{") + text.count(b"[") > limits.depth and _depth(text) > limits.depth:
        raise _Unusable(f"its definition is nested more than {limits.depth} levels deep")
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            notes.append("definition is no valid UTF-8, mended")
            return text.decode("utf-8", "replace").encode()
    return text


def _shortened(text: bytes, limits: Limits, notes: list[str]) -> bytes:
    """A definition that is too long for its description alone keeps the beginning of that.

    Raises _Unusable when the rest is too long as well.
    """
    too_long = _Unusable(f"its definition has more than {limits.definition:,} bytes")
    try:
        members = split_members(text)
        description = _OPTIONAL["description"][0].decode(members["description"])
    except (*_UNREADABLE, KeyError):
        raise too_long from None
    room = limits.definition - (len(text) - len(members["description"]))
    # One character is at most 6 bytes of JSON text, escaped, so that this many fit whatever they are.
    kept = description[: max(0, room - 100) // 6]
    if not kept:
        raise too_long
    members["description"] = msgspec.json.encode(f"{kept} [cut by mcpd]")
    notes.append(f"description of {len(description):,} characters is cut after {len(kept):,}")
    return b"{" + join_members(members) + b"}"


def _depth(text: bytes) -> int:
    brackets = _STRING.sub(b"", text).translate(None, _NO_BRACKET)
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


def _check_name(name: str, limits: Limits) -> None:
    if not name:
        raise _Unusable("its name is empty")
    if not name.isprintable() and _CONTROL.search(name):
        raise _Unusable("its name has control characters")
    if "\ufffd" in name:
        raise _Unusable("its name is no valid text")
    if len(name) > limits.name:
        raise _Unusable(f"its name has more than {limits.name} characters")


def _mend(members: dict[str, bytes], notes: list[str]) -> tuple[bytes, bytes] | None:
    """Mend, in place, what clients would refuse; returns `Tool.output`.

    Raises _Unusable where nothing can be mended, except for the name.
    """
    for key in _DEFINITION_MEMBERS:
        if members.get(key) == b"null":
            del members[key]
    _mend_input(members, notes)
    output = _mend_output(members, notes) if "outputSchema" in members else None
    for key, (decoder, fault) in _OPTIONAL.items():
        if key in members and not _fits(decoder, members[key]):
            del members[key]
            notes.append(f"{key} is {fault}, dropped")
    if "annotations" in members:
        members["annotations"] = _mend_hints(members["annotations"], notes)
    return output


def _fits(decoder: msgspec.json.Decoder[Any], text: bytes) -> bool:
    try:
        decoder.decode(text)
    except msgspec.ValidationError:
        return False
    return True


def _mend_input(members: dict[str, bytes], notes: list[str]) -> None:
    if "inputSchema" not in members:
        members["inputSchema"] = b'{"type":"object"}'
        notes.append("input schema is missing, taken as any object")
        return
    try:
        members["inputSchema"], mended = object_schema(members["inputSchema"])
    except ValueError as error:
        raise _Unusable(f"its input schema {error}") from None
    notes += [f"input schema {note}" for note in mended]


def _mend_output(members: dict[str, bytes], notes: list[str]) -> tuple[bytes, bytes] | None:
    """Agents of older revisions must see an object's schema; where the server's is none, take it out."""
    text = members.pop("outputSchema")
    if text[:1] != b"{":
        notes.append("output schema is no object, dropped")
        return None
    free, plain = free_schema(text)
    try:
        strict, mended = object_schema(text)
    except ValueError as error:
        strict, mended = b"", (f"{error}, shown to agents of 2026-07-28 only",)
    notes += [f"output schema {note}" for note in mended]
    if not plain:
        return strict, free
    members["outputSchema"] = strict
    return None


def _mend_hints(text: bytes, notes: list[str]) -> bytes:
    """Annotations without null, and without hints that are no boolean (they count as not said)."""
    kept = {}
    for key, value in split_members(text).items():
        fits = value in (b"true", b"false") if key in _BOOLEAN_HINTS else key != "title" or value[:1] == b'"'
        if fits:
            kept[key] = value
        elif value != b"null":
            notes.append(f"annotation {key} is of the wrong type, dropped")
    return b"{" + join_members(kept) + b"}"


def _unambiguous(text: bytes) -> bytes:
    """Annotations without double members: policy and every agent must read the same hints."""
    members = _MEMBERS.decode(text)
    # Every member has a colon, so an equal count leaves no room for a double one.
    return text if text.count(b":") == len(members) else b"{" + join_members(members) + b"}"
