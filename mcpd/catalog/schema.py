"""The roots of input and output schemas: what every agent's reader insists on.

Official clients check a whole listing at once and drop all of it for one odd entry
(TypeScript: `inputSchema.type` must be "object", `properties` an object of objects,
`required` an array of strings). So a root they would refuse is mended where its meaning
is plain; below the root a schema is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from mcpd.catalog.members import join_members, split_members


class AnyObject(msgspec.Struct):
    """Any JSON object."""


class Root(msgspec.Struct):
    """A schema that every reader takes for that of an object."""

    type: Literal["object"]
    dialect: str | UnsetType = msgspec.field(name="$schema", default=UNSET)
    properties: dict[str, AnyObject] | UnsetType = UNSET
    required: list[str] | UnsetType = UNSET


_ROOT: Final = msgspec.json.Decoder(Root)
_STRINGS: Final = msgspec.json.Decoder(list[str])
_ANY: Final = msgspec.json.Decoder()

#: JSON Schema's two boolean schemas as objects, which some readers want (2020-12, section 4.3.2).
_BOOLEANS: Final = {b"true": b"{}", b"false": b'{"not":{}}'}


def object_schema(text: bytes) -> tuple[bytes, tuple[str, ...]]:
    """A schema whose root is of type object, and what was mended; the same text if nothing was.

    The text is JSON. Raises ValueError with the reason when the schema is for anything else.
    """
    try:
        _ROOT.decode(text)
        return text, ()
    except msgspec.ValidationError:
        pass
    if text[:1] != b"{":
        raise ValueError("is no object")
    notes: list[str] = []
    members = split_members(text)
    declared = members.pop("type", b"null")
    if declared == b"null":
        notes.append('has no type, taken as "object"')
    elif not _allows_objects(declared):
        raise ValueError('is of a type other than "object"')
    elif declared != b'"object"':
        notes.append('allows other types than "object", which are dropped')
    notes += _mend_members(members)
    return b"{" + join_members({"type": b'"object"'} | members) + b"}", tuple(notes)


def free_schema(text: bytes) -> tuple[bytes, bool]:
    """An output schema as 2026-07-28 allows it, with any root, and whether its root is an object's."""
    members = split_members(text)
    if members.get("$schema", b'"')[:1] != b'"':
        del members["$schema"]
        text = b"{" + join_members(members) + b"}"
    return text, members.get("type") == b'"object"'


def _allows_objects(declared: bytes) -> bool:
    """Arguments are always an object, so a choice that includes objects means an object."""
    found = _ANY.decode(declared) if declared[:1] in (b'"', b"[") else None
    return found == "object" or (isinstance(found, list) and "object" in found)


def _mend_members(members: dict[str, bytes]) -> Iterable[str]:
    """Drop or mend, in place, the members of a root that readers check; null counts as absent."""
    if members.get("$schema", b'"')[:1] != b'"':
        del members["$schema"]
        yield "has a $schema that is no string, dropped"
    if not _is_strings(members.get("required", b"[]")) and members.pop("required") != b"null":
        yield 'has a "required" that is no list of names, dropped'
    properties = members.get("properties", b"{}")
    if properties[:1] == b"{":
        found = split_members(properties)
        odd = {key: _BOOLEANS.get(value, b"{}") for key, value in found.items() if value[:1] != b"{"}
        if odd:
            members["properties"] = b"{" + join_members(found | odd) + b"}"
            yield f"has {len(odd)} properties whose schema is no object, mended"
    elif members.pop("properties") != b"null":
        yield 'has "properties" that are no object, dropped'


def _is_strings(text: bytes) -> bool:
    try:
        _STRINGS.decode(text)
    except msgspec.ValidationError:
        return False
    return True
