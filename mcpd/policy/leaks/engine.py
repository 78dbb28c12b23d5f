"""Everything that is looked for, in one automaton over bytes.

The automaton knows the literals of the rules and the first and last bytes of every form of a held value. It
is passed over a text once; where a literal stands, its rule looks closer. A held value is compared as a whole
then, also where it was broken into lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ahocorasick_rs import BytesAhoCorasick, Implementation

from mcpd.policy.leaks import assignments, prefixes, structures, whole
from mcpd.policy.leaks.finding import Finding, Layer, cleaned
from mcpd.policy.leaks.forms import forms
from mcpd.policy.leaks.rule import Look
from mcpd.policy.leaks.values import Held

#: Patterns up to which a table of all states is made: four times the speed, but it grows with each.
DFA: Final = 8000
#: Bytes looked through between two looks at who else wants to run.
SLICE: Final = 128 * 1024
#: Hits of the automaton looked at in the same way.
HITS: Final = 250
#: Closer looks for rules in a text that is looked through at once, and in one slice. Real texts need one or
#: two a kB; a text that is made to need more is looked through for held values alone from there on.
LOOKS: Final = 1000
LOOKS_IN_SLICE: Final = 4 * LOOKS
#: The type of the finding which says that.
UNFINISHED: Final = "more beginnings of secrets than are looked at"


class _Candidate(NamedTuple):
    look: Look
    layer: Layer
    type: str
    form: str
    servers: frozenset[str]


class Engine:
    """Immutable. Holds the values in memory, so it must not be pickled or printed; `values`: of one server
    each, as `values.matched` gives them."""

    def __init__(self, values: Iterable[Held] = ()) -> None:
        table: dict[bytes, list[_Candidate]] = {}
        for rule in (*prefixes.RULES, *structures.RULES, *assignments.RULES):
            for literal in rule.literals:
                table.setdefault(literal, []).append(
                    _Candidate(rule.look, rule.layer, rule.type, "", frozenset())
                )
        for value, (name, servers) in _owned(values).items():
            for form, pattern in forms(value):
                for anchor, look in whole.anchored(pattern):
                    table.setdefault(anchor, []).append(_Candidate(look, 1, name, form, servers))
        self._candidates = tuple(map(tuple, table.values()))
        kind = Implementation.DFA if len(table) <= DFA else Implementation.ContiguousNFA
        self._automaton = BytesAhoCorasick(list(table), implementation=kind)
        self._overlap = max(map(len, table)) - 1

    def __repr__(self) -> str:
        return f"<Engine of {len(self._candidates)} literals>"

    def __reduce__(self) -> str:
        raise TypeError("an engine holds secrets and is never written anywhere")

    def find(self, text: bytes, layers: int = 3) -> list[Finding]:
        """What there is of the layers up to `layers`, in the order of where it ends. `text` is UTF-8."""
        hits = self._automaton.find_matches_as_indexes(text, True)
        return self._judged(text, hits, layers, LOOKS)[0] if hits else []

    def steps(self, text: bytes, layers: int = 3) -> Iterator[list[Finding]]:
        """The same in steps of a bounded size, each with what it found."""
        for start in range(0, len(text), SLICE):
            part = text[start : start + SLICE + self._overlap]
            found = self._automaton.find_matches_as_indexes(part, True)
            # What lies in the overlap alone is found by the next slice.
            hits = [(index, at + start, end + start) for index, at, end in found if at < SLICE]
            yield []
            left = LOOKS_IN_SLICE
            for first in range(0, len(hits), HITS):
                findings, left = self._judged(text, hits[first : first + HITS], layers, left)
                yield findings

    def _judged(
        self, text: bytes, hits: Sequence[tuple[int, int, int]], layers: int, left: int
    ) -> tuple[list[Finding], int]:
        """What the hits are, and how many of the looks that were `left` for rules are left now."""
        found: list[Finding] = []
        covered = 0
        candidates = self._candidates
        for index, start, end in hits:
            for look, layer, type_, form, servers in candidates[index]:
                # A literal within what a rule has found says nothing new, a held value does.
                if layer > 1:
                    if layer > layers or start < covered or left < 0:
                        continue
                    left -= 1
                    if left < 0:
                        found.append(Finding(start, start, 3, UNFINISHED))
                        continue
                span = look(text, start, end)
                if span is not None and (layer == 1 or not _in_binary(text, *span)):
                    found.append(Finding(*span, layer, type_, form, servers))
                    if layer == 2:
                        covered = max(covered, span[1])
        return found, left


#: So much base64 without a break beside a finding, and it is a piece of an image.
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{256}")


def _in_binary(text: bytes, start: int, end: int) -> bool:
    """Whether only held values count here, since a shape comes about by chance in base64 (2.3)."""
    before = start >= 256 and _BASE64.match(text, start - 256, start) is not None
    return before or _BASE64.match(text, end) is not None


def _owned(values: Iterable[Held]) -> dict[str, tuple[str, frozenset[str]]]:
    """Each value with its first name and all servers that have it."""
    owned: dict[str, tuple[str, frozenset[str]]] = {}
    for server, name, value in values:
        first, servers = owned.get(value, (cleaned(name), frozenset()))
        owned[value] = (first, servers | {server})
    return owned
