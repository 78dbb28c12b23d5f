"""Cursors of mcpd's own: where a listing goes on, for the session that got them alone (n03)."""

from __future__ import annotations

from mcpd.agents import states
from mcpd.errors import Failure


def make(secret: bytes, session: str, number: int, start: int) -> str:
    """A cursor for entry `start` of the view with this number."""
    return states.seal(secret, str(start), "cursor", session, number)


def read(secret: bytes, session: str, number: int, cursor: str) -> int:
    """The entry at which to go on. Raises Failure `invalid_params` for any other cursor."""
    text = states.unseal(secret, cursor, "cursor", session, number)
    if text is None:
        raise Failure("invalid_params", "unknown or outdated cursor", hint="list from the start again")
    return int(text)
