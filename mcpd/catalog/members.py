"""JSON objects taken apart and put together again without touching the text of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

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
