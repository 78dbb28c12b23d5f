"""What the journal keeps of a request's arguments: names and types, never a value (n12)."""

from __future__ import annotations

from typing import Final

import msgspec

NAMES: Final = 32
"""Members shown of one object."""
NAME: Final = 40
"""Characters shown of one name; data may stand in names as well."""
LARGEST: Final = 1 << 20
"""Bytes of arguments that are looked into: reading them holds up the loop, a thread or not."""

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])

#: First character of a value -> its type; anything else begins a number.
_TYPES: Final = {
    ord(first): kind
    for first, kind in zip('"{[tfn', ("string", "object", "array", "boolean", "boolean", "null"), strict=True)
}


def shape(arguments: bytes) -> str:
    """The JSON text of an object that has each member's type for its value, objects in it likewise.

    Empty for no arguments, for what is no object, and for more than `LARGEST` bytes.
    """
    if not arguments or len(arguments) > LARGEST:
        return ""
    found = _object(arguments, deeper=True)
    return msgspec.json.encode(found).decode() if found else ""


def _object(text: bytes | memoryview, *, deeper: bool) -> dict[str, object]:
    try:
        members = _members.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    shown: dict[str, object] = {}
    for name, raw in members.items():
        if len(shown) == NAMES:
            shown["…"] = f"{len(members) - NAMES} more"
            break
        value = memoryview(raw)
        kind = _TYPES.get(value[0], "number")
        inner = _object(value, deeper=False) if deeper and kind == "object" else {}
        shown[name if len(name) <= NAME else name[: NAME - 1] + "…"] = inner or kind
    return shown
