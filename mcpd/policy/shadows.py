"""Tools that speak of, or look like, those of another server (n18): soft flags, shown to whoever approves."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from mcpd.policy.poison import MOST, Flag, cut


class Known(NamedTuple):
    """Another server's tool, as far as it can be imitated."""

    server: str
    name: str
    describe: Callable[[], str]
    """Its description; read where the name is the same only."""


def plain_name(name: str) -> str:
    """A tool's name as people take it for the same: case, separators and compatibility forms aside."""
    if name.isascii():
        # As bytes in a third of the time: it is asked of 10,000 tools.
        return name.encode().translate(_LOWER, _SIGNS).decode()
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name).casefold())


_LOWER: Final = bytes(range(256)).lower()
_SIGNS: Final = bytes(code for code in range(128) if not chr(code).isalnum())


def by_name(known: Iterable[Known]) -> Mapping[str, tuple[Known, ...]]:
    """Tools by their plain names, for `find`."""
    found: defaultdict[str, list[Known]] = defaultdict(list)
    for each in known:
        found[plain_name(each.name)].append(each)
    return {key: tuple(alike) for key, alike in found.items()}


#: Names of two words and more, which no sentence has by chance: snake_case, kebab-case, camelCase.
_DISTINCTIVE: Final = re.compile(
    r"\b[A-Za-z][A-Za-z0-9]*(?:[_-][A-Za-z0-9]+)+\b|\b[a-z]+[a-z0-9]*(?:[A-Z][a-z0-9]+)+\b"
)
_WORD: Final = re.compile(r"\w+")
#: Characters of a description that are looked at.
_READ: Final = 16_000
#: Tools of one server with the same plain name that are: it may have 10,000 that differ in their signs alone.
_ALIKE: Final = 5
#: Words in which descriptions say nothing of their own.
_COMMON: Final = frozenset(
    {"a", "an", "and", "the", "of", "to", "in", "on", "for", "with", "by", "or", "from", "via", "between"}
    | {"is", "are", "this", "that", "it", "its"}
)
#: Shared words, of all words of both, from which on two descriptions are nearly equal.
_NEAR: Final = 0.6


def looked_for(name: str, description: str) -> frozenset[str]:
    """The plain names that `find` looks up for a tool: of 10,000 others few have one of these."""
    return frozenset(map(plain_name, (name, *_DISTINCTIVE.findall(description[:_READ]))))


def find(
    server: str, name: str, description: str, others: Mapping[str, tuple[Known, ...]]
) -> tuple[Flag, ...]:
    """Whether a tool speaks of, or looks like, a tool of another server; `others` is of `by_name`, and may
    hold the server's own tools too: of those it may speak."""
    found = []
    description = description[:_READ]
    looked_at: Counter[str] = Counter()
    for other in others.get(plain_name(name), ()):
        looked_at[other.server] += 1
        if other.server == server or looked_at[other.server] > _ALIKE:
            continue
        if _likeness(description, other.describe()[:_READ]) >= _NEAR:
            words = f'nearly the same words as "{other.name}" of server "{other.server}"'
            found.append(Flag("imitation", False, "description", cut(words)))
    for mention in dict.fromkeys(_DISTINCTIVE.findall(description)):
        meant = others.get(plain_name(mention), ())
        if meant and plain_name(mention) != plain_name(name) and all(each.server != server for each in meant):
            words = f'speaks of "{mention}" of server "{meant[0].server}"'
            found.append(Flag("shadow", False, "description", cut(words)))
    return tuple(found)[:MOST]


def _likeness(one: str, other: str) -> float:
    """Shared words of all words, 0 to 1; texts without words of their own are not alike."""
    a, b = ({word.casefold() for word in _WORD.findall(text)} - _COMMON for text in (one, other))
    return len(a & b) / len(a | b) if a and b else 0.0
