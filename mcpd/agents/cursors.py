"""Cursors of mcpd's own: where a listing goes on, for the session that got them alone (n03)."""

from __future__ import annotations

import hashlib
import hmac

from mcpd.errors import Failure


def make(secret: bytes, session: str, number: int, start: int) -> str:
    """A cursor for entry `start` of the view with this number."""
    return f"{start}.{_mac(secret, session, number, start)}"


def read(secret: bytes, session: str, number: int, cursor: str) -> int:
    """The entry at which to go on. Raises Failure `invalid_params` for any other cursor."""
    start = cursor.partition(".")[0]
    if start.isascii() and start.isdigit() and len(start) < 10:
        true = make(secret, session, number, int(start))
        # As bytes: for text, compare_digest takes nothing but ASCII.
        if hmac.compare_digest(cursor.encode("utf-8", "surrogatepass"), true.encode()):
            return int(start)
    raise Failure("invalid_params", "unknown or outdated cursor", hint="list from the start again")


def _mac(secret: bytes, session: str, number: int, start: int) -> str:
    text = f"{session}\0{number}\0{start}".encode()
    return hashlib.blake2b(text, key=secret, digest_size=12).hexdigest()
