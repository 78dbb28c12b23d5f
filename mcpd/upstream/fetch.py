"""Read a server's whole catalogue, all pages, with the guards that real servers need (5.10, b24)."""

from __future__ import annotations

import msgspec
import trio

from mcpd.catalog.definition import LIMITS
from mcpd.catalog.tool import Catalog, read_tools
from mcpd.errors import Failure, ServerError
from mcpd.protocol.shapes import read_page
from mcpd.upstream.connection import Connection

MAX_PAGES = 100
#: Of all pages together; more than a catalogue may have is not even gathered.
MAX_BYTES = LIMITS.catalogue
PAGE_TIMEOUT = 60.0

#: Bytes of definitions that are read in a thread, so that the loop goes on for others.
LARGE = 256 * 1024

_INVALID_PARAMS = -32602


async def fetch_catalog(connection: Connection) -> Catalog:
    """The tools of the server; empty when it does not advertise any (a08).

    Raises ServerError, ConnectionLost and Failure as `Connection.exchange` does.
    """
    settled = connection.settled
    if "tools" not in settled.capabilities:
        return Catalog(instructions=settled.instructions)
    try:
        pages, remarks = await _pages(connection)
    except ServerError as e:
        if e.server_code != _INVALID_PARAMS:
            raise
        # A cursor went bad on the way: all pages are thrown away, and once more from the start (5.10).
        pages, remarks = await _pages(connection)
    items = [item for page in pages for item in page]
    if sum(map(len, items)) > LARGE:
        tools, warnings = await trio.to_thread.run_sync(read_tools, items)
    else:
        tools, warnings = read_tools(items)
    return Catalog(tools=tuple(tools), instructions=settled.instructions, warnings=(*remarks, *warnings))


async def _pages(connection: Connection) -> tuple[list[list[bytes]], list[str]]:
    pages: list[list[bytes]] = []
    seen: set[str] = set()
    members = b""
    size = count = 0
    for _ in range(MAX_PAGES):
        try:
            raw = await connection.ask("tools/list", members, timeout=PAGE_TIMEOUT)
        except ServerError as e:
            if e.server_code == -32601:
                # Advertised and yet unknown: an empty list, not a broken server.
                return pages, ["tools are advertised, but tools/list is not known to the server"]
            raise
        page = read_page(raw)
        found = page.first(LIMITS.entries - count) if page else None
        if page is None or found is None:
            raise Failure("bad_answer", "the answer to tools/list has no proper shape")
        items, more = found
        pages.append(items)
        size += len(raw)
        count += len(items)
        if more:
            return pages, [f"tools/list has more than {LIMITS.entries:,} entries; the rest was left out"]
        if page.next_cursor is None:
            return pages, []
        if size > MAX_BYTES:
            return pages, [f"tools/list goes on after {size:,} bytes; the rest was left out"]
        if page.next_cursor in seen:
            return _without_repeats(pages), ["tools/list repeated a cursor; the list may be incomplete"]
        # An empty string is a cursor like any other (5.10).
        seen.add(page.next_cursor)
        members = b'"cursor":' + msgspec.json.encode(page.next_cursor)
    return pages, [f"tools/list has more than {MAX_PAGES} pages; the rest was left out"]


def _without_repeats(pages: list[list[bytes]]) -> list[list[bytes]]:
    """Pages without those that came twice, so that a looping list makes no duplicates."""
    out: list[list[bytes]] = []
    for page in pages:
        if page not in out:
            out.append(page)
    return out
