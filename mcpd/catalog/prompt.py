"""Prompts as servers list them, kept as JSON text (protocol reference 5.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from mcpd.catalog.definition import (
    COMMON,
    LIMITS,
    STRING,
    Icon,
    Limits,
    Reading,
    Shapes,
    check_identity,
    drop_nulls,
    drop_odd,
    fits,
    read_definitions,
    take_apart,
)
from mcpd.catalog.members import join_members, split_members
from mcpd.catalog.schema import AnyObject


class Argument(msgspec.Struct, frozen=True):
    """One argument that a prompt takes."""

    name: str
    required: bool = False


class Prompt(msgspec.Struct, frozen=True):
    """One prompt of one server."""

    name: str
    """The server's own name, exactly."""
    rest: bytes
    """The members of the entry other than `name`, as JSON text without the braces; may be empty."""
    arguments: tuple[Argument, ...] = ()
    """As `rest` has them, too."""

    def entry(self, name: str) -> bytes:
        """The entry as JSON text under the given name; the same for agents of every revision."""
        text = b'{"name":' + msgspec.json.encode(name)
        return text + b"," + self.rest + b"}" if self.rest else text + b"}"


class _Argument(msgspec.Struct):
    """An argument that no client refuses."""

    name: str
    required: bool | UnsetType = UNSET
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET


class _Definition(msgspec.Struct):
    """A prompt that no client refuses."""

    name: str
    arguments: list[_Argument] | UnsetType = UNSET
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    meta: AnyObject | UnsetType = msgspec.field(name="_meta", default=UNSET)


_DEFINITION: Final = msgspec.json.Decoder(_Definition)
_ARGUMENT: Final = msgspec.json.Decoder(_Argument)
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])

_ARGUMENT_MEMBERS: Final[Shapes] = {
    "required": (msgspec.json.Decoder(bool), "neither true nor false"),
    "title": (STRING, "no string"),
    "description": (STRING, "no string"),
}


def read_prompts(
    pages: Iterable[bytes], limits: Limits = LIMITS, taken: int = 0
) -> tuple[tuple[Prompt, ...], tuple[str, ...]]:
    """The usable prompts of a server, in its order, and what was left out or mended.

    Parameters as those of `read_tools`. Never raises for anything a page may hold.
    """
    return read_definitions(pages, "prompt", _read_prompt, lambda prompt: prompt.name, limits, taken)


def _read_prompt(text: bytes, reading: Reading) -> Prompt:
    members, known, _ = take_apart(text, reading, _DEFINITION, _mend)
    check_identity(known.name, "name", reading.limits.name)
    del members["name"]
    arguments = tuple(Argument(one.name, one.required is True) for one in known.arguments or ())
    return Prompt(known.name, join_members(members), arguments)


def _mend(members: dict[str, bytes], notes: list[str]) -> None:
    """Mend, in place, what clients would refuse, except for the name."""
    drop_nulls(members, _Definition.__struct_encode_fields__)
    drop_odd(members, {**COMMON, "arguments": (_LIST, "no list")}, notes)
    if "arguments" in members:
        members["arguments"] = _mend_arguments(members["arguments"], notes)


def _mend_arguments(text: bytes, notes: list[str]) -> bytes:
    found = list(map(bytes, _LIST.decode(text)))
    kept = [mended for argument in found if (mended := _mend_argument(argument, notes))]
    if len(kept) < len(found):
        notes.append(f"list of arguments has {len(found) - len(kept)} without a name, dropped")
    return b"[" + b",".join(kept) + b"]"


def _mend_argument(text: bytes, notes: list[str]) -> bytes:
    """An argument that no client refuses; empty for one without a name."""
    if fits(_ARGUMENT, text):
        return text
    members = split_members(text) if text[:1] == b"{" else {}
    if not fits(STRING, members.get("name", b"null")):
        return b""
    own: list[str] = []
    drop_nulls(members, _ARGUMENT_MEMBERS)
    drop_odd(members, _ARGUMENT_MEMBERS, own)
    notes += [f"list of arguments has one whose {note}" for note in own]
    return b"{" + join_members(members) + b"}"
