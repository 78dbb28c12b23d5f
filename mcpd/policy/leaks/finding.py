"""What a scan found. Never the value itself."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

Layer = Literal[1, 2, 3]
"""1: a held value; 2: a shape that only secrets have; 3: a random text assigned to a telling name."""


class Finding(NamedTuple):
    """A secret at some place of a text."""

    start: int
    end: int
    """Offsets in the text that was given: bytes of bytes, characters of a string."""
    layer: Layer
    type: str
    """The name under which a value is held, or the type of the rule."""
    form: str = ""
    """How a held value was written."""
    servers: frozenset[str] = frozenset()
    """The servers whose value it is."""

    @property
    def mark(self) -> str:
        """What stands in its place."""
        return f"[redacted:{self.type}]"


class Leak(msgspec.Struct, frozen=True):
    """What the arguments of a call hold that should not go to its server."""

    action: Literal["block", "ask", "warn"]
    words: str
    """For people and the journal: what it is, and where it belongs."""
    type: str
    form: str = ""


def cleaned(type_: str) -> str:
    """The name of a value, fit to stand in a mark: short, in print, without the brackets of the mark."""
    name = "".join(char for char in type_[:60] if char.isprintable() and char not in "[]")
    return name or "value"
