"""The rules, tried on a text."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

from ahocorasick_rs import AhoCorasick, Implementation

from mcpd.policy.phrases.harm import HARM
from mcpd.policy.phrases.orders import ORDERS
from mcpd.policy.phrases.rule import Rule
from mcpd.policy.phrases.ruses import RUSES


class Phrase(NamedTuple):
    """Where a rule fits: `folded[at:end]`."""

    code: str
    at: int
    end: int


RULES: Final[tuple[Rule, ...]] = (*ORDERS, *RUSES, *HARM)

#: Each anchor once, with the rules, by their places, that it is one of.
_ANCHORS: Final[dict[str, tuple[int, ...]]] = {
    anchor: tuple(at for at, rule in enumerate(RULES) if anchor in rule.anchors)
    for anchor in dict.fromkeys(anchor for rule in RULES for anchor in rule.anchors)
}
_RULES_OF: Final = tuple(_ANCHORS.values())
#: All anchors in one pass: one by one they cost 80 us a tool.
_AUTOMATON: Final = AhoCorasick(list(_ANCHORS), implementation=Implementation.DFA)

_BLANKS: Final = re.compile(r"[^\S\n]+")
_PARAGRAPHS: Final = re.compile(r" ?\n(?: ?\n)+ ?")
_LINES: Final = re.compile(r" ?\n ?")


def folded(text: str) -> str:
    """Text as the rules read it; compatibility forms (full-width letters and the like) are plain letters."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
    text = _BLANKS.sub(" ", text)
    if "\n" not in text:
        return text.lower()
    text = _PARAGRAPHS.sub("\x00", text)
    return _LINES.sub(" ", text).replace("\x00", "\n").lower()


def find(text: str) -> tuple[Phrase, ...]:
    """The rules that fit a folded text, each at its first place."""
    anchors = {anchor for anchor, _, _ in _AUTOMATON.find_matches_as_indexes(text, overlapping=True)}
    found = []
    for at in sorted({at for anchor in anchors for at in _RULES_OF[anchor]}):
        code, _, pattern = RULES[at]
        match = pattern.search(text)
        if match:
            found.append(Phrase(code, match.start(), match.end()))
    return tuple(found)
