"""A rule: a pattern with anchors, plain words of which one must be there, so that the patterns, which are
slow, are tried on few texts."""

from __future__ import annotations

import re
from typing import NamedTuple


class Rule(NamedTuple):
    code: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]


def rule(code: str, anchors: str, pattern: str) -> Rule:
    """`anchors` with a bar between them; `pattern` is for folded text."""
    return Rule(code, tuple(anchors.split("|")), re.compile(pattern))


def gap(most: int) -> str:
    """At most so many characters of the same sentence; a point inside a file's name does not end one."""
    return rf"(?:[^\n.;!?]|[.!?](?!\s)){{0,{most}}}?"


def any_of(*words: str) -> str:
    return f"(?:{'|'.join(words)})"
