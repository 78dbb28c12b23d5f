"""One rule of layers 2 and 3: the literals that call for a closer look, and the look."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mcpd.policy.leaks.finding import Layer

Span = tuple[int, int]

Look = Callable[[bytes, int, int], Span | None]
"""(text, start and end of the literal) -> where the secret is, if there is one."""


class Rule(NamedTuple):
    type: str
    layer: Layer
    literals: tuple[bytes, ...]
    look: Look
    source: str
    """Who says that secrets look like this."""


class Lazy:
    """A pattern that is compiled when it is first needed: most never are.

    All of ours are static, begin at a given place and repeat nothing within a repetition, so none can take
    longer than the text it looks at is long.
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
