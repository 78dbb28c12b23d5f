"""What has changed between two texts, word by word, for people who look (n09)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final, Literal, NamedTuple

Sign = Literal["same", "gone", "new"]


class Piece(NamedTuple):
    sign: Sign
    text: str


#: Words and blanks of the parts that differ; of longer ones the whole is shown as gone and new, because
#: comparing takes up to the third power of their length.
_MOST: Final = 600
_TOKEN: Final = re.compile(r"\s+|\w+|[^\w\s]")


def word_diff(before: str, after: str) -> tuple[Piece, ...]:
    """The pieces of both texts in order; those that are not "gone" make `after`."""
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    pieces = [
        Piece("same", "".join(new[:head])),
        *_middle(old[head : len(old) - tail], new[head : len(new) - tail]),
        Piece("same", "".join(new[len(new) - tail :])),
    ]
    return tuple(piece for piece in pieces if piece.text)


def whole_diff(before: str, after: str) -> tuple[Piece, ...]:
    """The same without a look into the texts."""
    pieces = (Piece("same", after),) if before == after else (Piece("gone", before), Piece("new", after))
    return tuple(piece for piece in pieces if piece.text)


def _common(one: list[str], other: list[str]) -> int:
    """With how many equal words both begin."""
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return min(len(one), len(other))


def _middle(old: list[str], new: list[str]) -> Iterator[Piece]:
    if len(old) + len(new) > _MOST:
        yield from whole_diff("".join(old), "".join(new))
        return
    for what, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            yield Piece("same", "".join(new[k:m]))
        else:
            yield Piece("gone", "".join(old[i:j]))
            yield Piece("new", "".join(new[k:m]))
