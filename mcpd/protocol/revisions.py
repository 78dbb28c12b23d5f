"""The five revisions of MCP as rows: code asks the row, it never compares date strings.

An unknown revision is neither newer nor older than a known one (protocol reference, section 0).
"""

from __future__ import annotations

import msgspec


class Revision(msgspec.Struct, frozen=True):
    name: str
    stateless: bool = False
    """No handshake: every request carries revision and capabilities in `_meta` (4.2)."""
    completions: bool = True
    """A server declares that it completes (5.1)."""
    batches: bool = False
    """A receiver must take an array of messages (2025-03-26 only)."""
    primes: bool = False
    """An HTTP stream begins with an event that has an id and no data; older clients take it for a message
    (3.2)."""
    tasks: bool = False
    """Requests may make tasks that both sides ask for by their ids, as a part of the core (5.15)."""
    plain: bool = False
    """A client says little of itself; members that 2025-11-25 knows besides may be anything (4.1)."""
    named: bool = True
    """Over HTTP a header names the revision after the opening (from 2025-06-18 on, 3.2)."""


REVISIONS: dict[str, Revision] = {
    row.name: row
    for row in (
        Revision("2024-11-05", completions=False, plain=True, named=False),
        Revision("2025-03-26", batches=True, plain=True, named=False),
        Revision("2025-06-18", plain=True),
        Revision("2025-11-25", primes=True, tasks=True),
        Revision("2026-07-28", stateless=True),
    )
}

#: Offered in `initialize`; a stateless revision is never offered there (4.1).
NEWEST_HANDSHAKE = REVISIONS["2025-11-25"]
NEWEST_STATELESS = REVISIONS["2026-07-28"]

HANDSHAKE = tuple(name for name, row in REVISIONS.items() if not row.stateless)
STATELESS = tuple(name for name, row in REVISIONS.items() if row.stateless)


def newest_mutual_stateless(supported: list[str]) -> Revision | None:
    """The newest stateless revision that both sides know."""
    known = [row for name, row in REVISIONS.items() if row.stateless and name in supported]
    return known[-1] if known else None


def newest_mutual_handshake(supported: list[str]) -> Revision | None:
    known = [row for name, row in REVISIONS.items() if not row.stateless and name in supported]
    return known[-1] if known else None
