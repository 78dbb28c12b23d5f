"""JSON objects taken apart and put together again without touching the text of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

#: What keys in `_meta` begin with that only mcpd itself may set (DESIGN, section 3).
OWN_META: Final = "dev.mcpd/"

_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def split_members(text: bytes) -> dict[str, bytes]:
    """The members of an object, each value's text as it is spelled; of equal names the last."""
    return {key: bytes(value) for key, value in _MEMBERS.decode(text).items()}


def join_members(members: Mapping[str, bytes | msgspec.Raw]) -> bytes:
    """Members as JSON text without the braces."""
    parts: list[bytes | msgspec.Raw] = []
    for key, value in members.items():
        parts += (b",", msgspec.json.encode(key), b":", value)
    return b"".join(parts[1:])


def foreign_meta(text: bytes) -> bytes:
    """`_meta` without what only mcpd itself may say; the same text if nothing of it is there."""
    members = _MEMBERS.decode(text)
    if not any(key.startswith(OWN_META) for key in members):
        return text
    return b"{" + join_members({key: members[key] for key in members if not key.startswith(OWN_META)}) + b"}"
