"""Whether a text that has the shape of a secret could be a real one: random, and no placeholder."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final

#: What writers of examples put where a secret goes. Random text of base 62 holds one of these by chance once
#: in some thousand million tokens.
_WORDS = re.compile(
    rb"example|placeholder|redacted|your[_-]|[_-]your|changeme|replace|dummy|sample|insert|my[_-]?secret|xxxx"
    rb"|\*\*\*|\.\.\.|<[a-z]|\$\{|\{\{|todo|not[_-]?a[_-]?real|invalid|fake",
    re.I,
)
#: One character six times: once in 20,000 tokens of 64 hex digits, and the mark of a filled-in form.
_RUN = re.compile(rb"(.)\1{5}")
_SERIES: Final = b"0123456789 abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 9876543210"
#: Characters in a row, as the alphabet or the digits have them, that make a placeholder.
_IN_A_ROW: Final = 9


def genuine(body: bytes) -> bool:
    """Whether what follows a prefix is random enough; `body`: without the prefix."""
    size = len(body)
    if len(set(body)) < min(8, size // 3 + 1):
        return False
    if _RUN.search(body) or _WORDS.search(body):
        return False
    return not any(body[at : at + _IN_A_ROW] in _SERIES for at in range(size - _IN_A_ROW + 1))


def entropy(text: bytes) -> float:
    """Bits a character, of how often each occurs in the text."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())
