"""Whether a text that has the shape of a secret could be a real one: random, and no placeholder.

Asked for every text of a shape that anybody sends, so all of it is bounded and cheap.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

#: Bytes of a text that are looked at.
LOOKED_AT: Final = 256
#: What writers of examples put where a secret goes. Random text of base 62 holds one of these by chance once
#: in some million tokens.
_PLACEHOLDERS: Final = (
    *(
        b"example",
        b"placeholder",
        b"redacted",
        b"your_",
        b"your-",
        b"_your",
        b"-your",
        b"changeme",
        b"replace",
    ),
    *(b"dummy", b"sample", b"insert", b"mysecret", b"my_secret", b"my-secret", b"xxxx", b"***", b"...", b"<"),
    *(b"${", b"{{", b"not_a_real", b"not-a-real", b"invalid"),
)
#: One character six times: once in 20,000 tokens of 64 hex digits, and the mark of a filled-in form.
_RUNS: Final = tuple(bytes((char,)) * 6 for char in range(256))
_SERIES: Final = b"0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 9876543210"
#: Characters in a row, as the alphabet or the digits have them, that make a placeholder; a row of so many
#: has a whole piece of _PIECE wherever it begins.
_IN_A_ROW: Final = 9
_PIECE: Final = 5

_DIGITS: Final = b"0123456789"
_LOWER: Final = b"abcdefghijklmnopqrstuvwxyz"
_UPPER: Final = _LOWER.upper()


def genuine(body: bytes) -> bool:
    """Whether what follows a prefix is random enough; `body`: without the prefix."""
    body = body[:LOOKED_AT]
    size = len(body)
    characters = set(body)
    if len(characters) < min(8, size // 3 + 1):
        return False
    if any(_RUNS[char] in body for char in characters):
        return False
    lower = body.lower()
    if any(word in lower for word in _PLACEHOLDERS):
        return False
    return not any(
        body[at : at + _PIECE] in _SERIES and _is_row(body, at) for at in range(0, size - _PIECE + 1, _PIECE)
    )


def _is_row(body: bytes, at: int) -> bool:
    first = max(0, at - _IN_A_ROW + _PIECE)
    return any(
        len(row := body[start : start + _IN_A_ROW]) == _IN_A_ROW and row in _SERIES
        for start in range(first, at + 1)
    )


class Mix:
    """How many of a text's first bytes are what."""

    __slots__ = ("digits", "lower", "size", "upper")

    def __init__(self, text: bytes) -> None:
        text = text[:LOOKED_AT]
        self.size = size = len(text)
        self.digits = size - len(text.translate(None, _DIGITS))
        self.lower = size - len(text.translate(None, _LOWER))
        self.upper = size - len(text.translate(None, _UPPER))


def entropy(text: bytes) -> float:
    """Bits a character, of how often each occurs in the text."""
    text = text[:LOOKED_AT]
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())
