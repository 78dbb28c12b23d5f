"""Server-sent events as the endpoint writes them (3.2; HTML standard, 9.2.5). Pure.

An event's id is `STREAM-POSITION`: a cursor within one stream of one session, and nothing else.
"""

from __future__ import annotations

import re

#: A line that no client takes for a message; it shows proxies and timeouts that somebody is there.
KEEP_ALIVE = b": keep-alive\n\n"

#: Milliseconds that a client lets pass before it resumes a stream.
RETRY = 1000

_IDENT = re.compile(r"([0-9]{1,15})-([0-9]{1,15})")


def message(data: bytes, ident: str = "") -> bytes:
    """One JSON-RPC message as an event. `data`: a line of JSON text; `ident`: empty for a stream that
    cannot be resumed."""
    # A carriage return would end the field. It can only stand between values, where a blank is the same.
    data = data.rstrip(b"\n").replace(b"\r", b" ")
    head = b"event: message\n" + (b"id: %s\n" % ident.encode() if ident else b"")
    return b"".join((head, b"data: ", data, b"\n\n"))


def priming(ident: str) -> bytes:
    """The event with which a stream begins that a client may leave and resume (2025-11-25)."""
    return b"id: %s\nretry: %d\ndata:\n\n" % (ident.encode(), RETRY)


def ident(stream: int, position: int) -> str:
    return f"{stream}-{position}"


def read_ident(text: str) -> tuple[int, int] | None:
    """Stream and position of a `Last-Event-ID`; None when it is none of ours."""
    found = _IDENT.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None
