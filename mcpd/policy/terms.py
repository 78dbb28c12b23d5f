"""The vocabulary of policy: tiers and their order, what a person pinned, patterns.

Patterns know only `*` (any run, also empty) and `?` (one character) and never reach `re`:
a pattern may come from a file that somebody else wrote, and `re` can stall for seconds
(DESIGN, section 8, rule 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

import msgspec

Risk = Literal["low", "medium", "high"]
Approval = Literal["never", "unless_auto_approved", "always", "deny"]
Replay = Literal["auto", "always", "never"]

#: From the mildest to the strictest.
RISKS: Final[tuple[Risk, ...]] = ("low", "medium", "high")
APPROVALS: Final[tuple[Approval, ...]] = ("never", "unless_auto_approved", "always", "deny")


SecretsIn = Literal["ask", "allow"]
SecretsOut = Literal["redact", "allow"]
#: From the mildest to the strictest, as the others.
SECRETS_IN: Final[tuple[SecretsIn, ...]] = ("allow", "ask")
SECRETS_OUT: Final[tuple[SecretsOut, ...]] = ("allow", "redact")


class Leaks(msgspec.Struct, frozen=True):
    """What becomes of what looks like a secret (n17); None leaves it to the next rule. For what mcpd holds
    itself there is no choice."""

    arguments: SecretsIn | None = None
    """Of a tool that takes secrets: they may go there unasked."""
    results: SecretsOut | None = None
    """Of a tool that gives secrets, like a vault's: agents get them."""


class Policy(msgspec.Struct, frozen=True):
    """What a person pinned for a server or a tool; None leaves the field to the next rule (a23)."""

    risk: Risk | None = None
    approval: Approval | None = None
    timeout: float | None = None
    """Seconds; 0 means no limit (D9)."""
    leaks: Leaks = Leaks()


def risk_rank(risk: Risk) -> int:
    """0 for low, 2 for high."""
    return RISKS.index(risk)


def approval_rank(approval: Approval) -> int:
    """0 for never, 3 for deny."""
    return APPROVALS.index(approval)


def timeout_rank(timeout: float) -> float:
    """Larger is stricter; no limit (0) is the mildest."""
    return -timeout if timeout > 0 else -math.inf


class Specificity(NamedTuple):
    """How narrow a pattern is, in the order of a23; the greater one decides."""

    exact: bool
    prefix: int
    """Characters before the first wildcard."""
    literals: int
    """Characters that are no wildcard."""


def specificity(pattern: str) -> Specificity:
    """The place of a pattern among others (a23); of equal ones the stricter policy counts."""
    literals = len(pattern) - pattern.count("*") - pattern.count("?")
    prefix = next((at for at, char in enumerate(pattern) if char in "*?"), len(pattern))
    return Specificity(literals == len(pattern), prefix, literals)


def glob_match(pattern: str, text: str) -> bool:
    """Whether the whole text fits the pattern, by character, case-sensitive.

    Each piece between stars is looked for once, from left to right, so no input makes it
    go back: the leftmost place is as good as any later one.
    """
    head, *rest = pattern.split("*")
    if not rest:
        return len(text) == len(head) and _fits(head, text, 0)
    *middle, tail = rest
    end = len(text) - len(tail)
    if end < len(head) or not _fits(head, text, 0) or not _fits(tail, text, end):
        return False
    at = len(head)
    for piece in middle:
        found = _find(piece, text, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _fits(piece: str, text: str, at: int) -> bool:
    if "?" not in piece:
        return text.startswith(piece, at)
    return all(want in ("?", have) for want, have in zip(piece, text[at : at + len(piece)], strict=True))


def _find(piece: str, text: str, start: int, end: int) -> int:
    if "?" not in piece:
        return text.find(piece, start, end)
    return next((at for at in range(start, end - len(piece) + 1) if _fits(piece, text, at)), -1)


def covered(pattern: str, by: Iterable[str]) -> bool:
    """Whether one of the patterns surely matches all that this one matches.

    A pattern's own text, wildcards included, stands for all its matches as long as they
    can only have been met by a `*`; a `?` would also take a `*` for one character.
    """
    return any(
        wider == pattern or (glob_match(wider, pattern) and not ("?" in wider and "*" in pattern))
        for wider in by
    )
