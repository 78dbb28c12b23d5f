"""Gather one list of a server, page by page, with the guards that real servers need (5.10, b24)."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Final

import msgspec
import trio

from mcpd.catalog.definition import LIMITS
from mcpd.errors import Failure, ServerError
from mcpd.protocol.pages import List, Page, read_page
from mcpd.upstream.connection import Connection

MAX_PAGES = 100
#: Of all pages of a list, and of all lists but the tools together; more is not even gathered.
MAX_BYTES = LIMITS.catalogue
PAGE_TIMEOUT = 60.0

#: Bytes of definitions that are read in a thread, so that the loop goes on for others.
LARGE: Final = 256 * 1024

_INVALID_PARAMS = -32602
_METHOD_NOT_FOUND = -32601


class Gathered(msgspec.Struct, frozen=True):
    """The pages of one list, not looked into yet."""

    items: list[bytes]
    remarks: tuple[str, ...]
    ttl: float


class Room:
    """Bytes of pages that may still be gathered. Mutable: a counter of several lists."""

    def __init__(self) -> None:
        self.left = MAX_BYTES


async def gather(connection: Connection, method: List, room: Room) -> Gathered:
    """All pages of a list. Raises ServerError, ConnectionLost and Failure, as `Connection.exchange` does."""
    before = room.left
    try:
        return await _pages(connection, method, room)
    except ServerError as e:
        if e.server_code != _INVALID_PARAMS:
            raise
    # A cursor went bad on the way: all pages are thrown away, and once more from the start (5.10).
    room.left = before
    return await _pages(connection, method, room)


async def _pages(connection: Connection, method: List, room: Room) -> Gathered:
    pages: list[list[bytes]] = []
    # Older revisions know no such hint, whatever a server sends (4.8).
    ttl = inf if connection.settled.revision.stateless else 0.0
    seen: set[str] = set()
    members = b""
    size = count = 0

    def gathered(*remarks: str) -> Gathered:
        return Gathered([item for page in pages for item in page], remarks, ttl)

    for _ in range(MAX_PAGES):
        try:
            raw = await connection.ask(method, members, timeout=PAGE_TIMEOUT)
        except ServerError as e:
            if e.server_code == _METHOD_NOT_FOUND:
                # Advertised and yet unknown: an empty list, not a broken server.
                return gathered(*_unknown(method))
            raise
        taken = partial(_take, method, raw, LIMITS.entries - count)
        found = await trio.to_thread.run_sync(taken) if len(raw) > LARGE else taken()
        if found is None:
            raise Failure("bad_answer", f"the answer to {method} has no proper shape")
        page, (items, more) = found
        pages.append(items)
        ttl = min(ttl, page.ttl)
        size += len(raw)
        room.left -= len(raw)
        count += len(items)
        if more:
            return gathered(f"{method} has more than {LIMITS.entries:,} entries; the rest was left out")
        if page.next_cursor is None:
            return gathered()
        if room.left < 0:
            return gathered(f"{method} goes on after {size:,} bytes; the rest was left out")
        if page.next_cursor in seen:
            pages = _without_repeats(pages)
            return gathered(f"{method} repeated a cursor; the list may be incomplete")
        # An empty string is a cursor like any other (5.10).
        seen.add(page.next_cursor)
        members = b'"cursor":' + msgspec.json.encode(page.next_cursor)
    return gathered(f"{method} has more than {MAX_PAGES} pages; the rest was left out")


def _take(method: List, raw: bytes, most: int) -> tuple[Page, tuple[list[bytes], bool]] | None:
    """A page and its entries; None where it does not have the shape."""
    page = read_page(method, raw)
    found = page.first(most) if page else None
    return None if page is None or found is None else (page, found)


def _unknown(method: List) -> tuple[str, ...]:
    """What is said of a list that is advertised and not known to the server; few know templates."""
    if method == "resources/templates/list":
        return ()
    return (f"{method.partition('/')[0]} are advertised, but {method} is not known to the server",)


def _without_repeats(pages: list[list[bytes]]) -> list[list[bytes]]:
    """Pages without those that came twice, so that a looping list makes no duplicates."""
    out: list[list[bytes]] = []
    for page in pages:
        if page not in out:
            out.append(page)
    return out
