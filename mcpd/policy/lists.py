"""An agent's two lists, changed by what a person says: it may use this, it may not use that (b20).

Pure. `denied_tools` wins (D11), so what is given must be taken off there, and what is taken away is put
there: it stays away whatever else is allowed later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mcpd.policy.terms import covered


class Lists(NamedTuple):
    """Patterns, as the agent's entry has them."""

    allowed: tuple[str, ...] | None
    """None allows every server of the user's own (D11)."""
    denied: tuple[str, ...]


class Blocked(Exception):
    """What is to be allowed stays denied by a pattern that denies more than that."""

    def __init__(self, pattern: str, by: str) -> None:
        super().__init__(pattern, by)
        self.pattern = pattern
        self.by = by


def allow(lists: Lists, patterns: Iterable[str]) -> Lists:
    """The lists with everything that the patterns match allowed, except for what narrower denials name.

    Raises Blocked; what a wider denial names is not for one tool to undo.
    """
    allowed, denied = lists
    for pattern in patterns:
        denied = tuple(item for item in denied if item != pattern)
        if by := next((item for item in denied if covered(pattern, (item,))), ""):
            raise Blocked(pattern, by)
        if allowed is not None and not covered(pattern, allowed):
            allowed = (*(item for item in allowed if not covered(item, (pattern,))), pattern)
    return Lists(allowed, denied)


def deny(lists: Lists, patterns: Iterable[str]) -> Lists:
    """The lists with nothing that the patterns match allowed."""
    allowed, denied = lists
    for pattern in patterns:
        if allowed is not None:
            allowed = tuple(item for item in allowed if not covered(item, (pattern,)))
        # Also where a wider or narrower one stands: each is taken back by its own words alone.
        if pattern not in denied:
            denied = (*denied, pattern)
    return Lists(allowed, denied)
