"""One rule of layers 2 and 3: the literals that call for a closer look, and the look."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from mcpd.policy.leaks.finding import Layer

Span = tuple[int, int]

Look = Callable[[bytes, int, int], Span | None]
"""(text, start and end of the literal) -> where the secret is, if there is one."""

#: Characters that a pattern takes of what has no end; what goes on is taken by `whole_run`.
LONGEST: Final = 1024
_OPEN: Final = re.compile(r"\{(\d+),\}")
_RUN: Final = re.compile(rb"[A-Za-z0-9+/=_.~-]*")


def bounded(pattern: str) -> str:
    """The pattern with an end to every `{n,}`, which takes all that it can and gives nothing back."""
    return _OPEN.sub(rf"{{\1,{LONGEST}}}+", pattern)


def whole_run(text: bytes, start: int, end: int) -> Span:
    """What was found, with the rest of a token that is longer than any pattern looks."""
    if end - start < LONGEST:
        return start, end
    match = _RUN.match(text, end)
    return start, match.end() if match is not None else end


class Rule(NamedTuple):
    type: str
    layer: Layer
    literals: tuple[bytes, ...]
    look: Look
    source: str
    """Who says that secrets look like this."""


class Lazy:
    """A pattern that is compiled when it is first needed: most never are.

    All of ours are static and looked for at one place, and take a bounded number of characters there: a text
    that is made of nothing but beginnings costs no more than so much for each.
    """

    __slots__ = ("_compiled", "_flags", "_pattern")

    def __init__(self, pattern: bytes, flags: re.RegexFlag = re.NOFLAG) -> None:
        self._pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[bytes] | None = None

    @property
    def compiled(self) -> re.Pattern[bytes]:
        if self._compiled is None:
            self._compiled = re.compile(self._pattern, self._flags)
        return self._compiled
