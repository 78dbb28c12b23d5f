"""Comparing a form of a held value where its first or its last bytes were found.

Both ends are looked for, so that a value is found that was broken into lines, as base64 and terminals do:
unless it is broken within both.
"""

from __future__ import annotations

from typing import Final

from mcpd.policy.leaks.rule import Look, Span

#: Bytes of a form by which it is found; few, since each is a state of the automaton.
ANCHOR: Final = 8
#: Bytes beside its own that a broken value may take up, for its line breaks and indents.
SLACK: Final = 128

_BLANK: Final = b" \t\r\n"


def anchored(pattern: bytes) -> tuple[tuple[bytes, Look], ...]:
    """What is looked for of a form, each with the closer look."""
    size = min(ANCHOR, max(len(pattern) // 2, 1))
    return (pattern[:size], _from_start(pattern)), (pattern[-size:], _from_end(pattern))


def _from_start(pattern: bytes) -> Look:
    size = len(pattern)
    dense = pattern.translate(None, _BLANK)

    def look(text: bytes, start: int, end: int) -> Span | None:
        if text.startswith(pattern, start):
            return start, start + size
        window = text[start : start + size + SLACK]
        if b"\n" not in window or not window.translate(None, _BLANK).startswith(dense):
            return None
        return _broken(text, start, start + _reach(window, len(dense)))

    return look


def _from_end(pattern: bytes) -> Look:
    size = len(pattern)
    dense = pattern.translate(None, _BLANK)

    def look(text: bytes, start: int, end: int) -> Span | None:
        # The plain form has been found by its beginning.
        if end >= size and text.startswith(pattern, end - size):
            return None
        window = text[max(0, end - size - SLACK) : end]
        if b"\n" not in window or not window.translate(None, _BLANK).endswith(dense):
            return None
        return _broken(text, end - _reach(window[::-1], len(dense)), end)

    return look


def _broken(text: bytes, start: int, end: int) -> Span | None:
    """Blanks alone break nothing: columns of short words would come together by chance."""
    return (start, end) if b"\n" in text[start:end] else None


def _reach(window: bytes, count: int) -> int:
    """How far `count` characters that are no blanks reach."""
    for at, char in enumerate(window):
        count -= char not in _BLANK
        if not count:
            return at + 1
    return len(window)
