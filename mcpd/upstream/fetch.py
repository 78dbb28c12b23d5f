"""Read a server's lists, all pages, with the guards that real servers need (5.10, b24).

Only the tools decide whether a server can be used: any other list that fails is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from math import inf
from typing import Any, Final, Literal

import msgspec
import trio

from mcpd.catalog.definition import LIMITS
from mcpd.catalog.prompt import Prompt, read_prompts
from mcpd.catalog.resource import Resource, Template, read_resources, read_templates
from mcpd.catalog.tool import Catalog, Feature, Tool, read_tools
from mcpd.errors import Failure, ServerError
from mcpd.protocol.jsonrpc import words
from mcpd.protocol.pages import LONGEST_TTL, List, read_page
from mcpd.transport.base import ConnectionLost
from mcpd.upstream.connection import Connection

Primitive = Literal["tools", "prompts", "resources"]

#: The lists of each primitive, in the order in which a catalogue fills.
LISTS: Final[dict[Primitive, tuple[List, ...]]] = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
}

MAX_PAGES = 100
#: Of all pages of a list, and of all lists but the tools together; more is not even gathered.
MAX_BYTES = LIMITS.catalogue
PAGE_TIMEOUT = 60.0

#: Seconds that the other lists may take longer than the tools when a server is opened...
OTHERS_WAIT = 5.0
#: ...as long as the attempt has so many left: they must not make it fail.
SPARE = 1.0

#: Bytes of definitions that are read in a thread, so that the loop goes on for others.
LARGE = 256 * 1024

_INVALID_PARAMS = -32602
_METHOD_NOT_FOUND = -32601


class Part(msgspec.Struct, frozen=True):
    """What one list holds; of the four, only the member of its kind is filled."""

    tools: tuple[Tool, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    resources: tuple[Resource, ...] = ()
    templates: tuple[Template, ...] = ()
    warnings: tuple[str, ...] = ()
    ttl: float = 0.0
    """Seconds for which the server says it is fresh (5.18)."""
    failed: bool = False
    """It could not be read; what is here is of an earlier time."""

    @property
    def size(self) -> int:
        """About its bytes of JSON text."""
        kinds: tuple[Iterable[Tool | Prompt | Resource | Template], ...] = (
            *(self.tools, self.prompts),
            *(self.resources, self.templates),
        )
        return sum(len(entry.rest) for entries in kinds for entry in entries)


Parts = Mapping[List, Part]


class _Gathered(msgspec.Struct, frozen=True):
    """The pages of one list, not looked into yet."""

    items: list[bytes]
    remarks: tuple[str, ...]
    ttl: float


class _Room:
    """Bytes of pages that may still be gathered. Mutable: a counter of several lists."""

    def __init__(self) -> None:
        self.left = MAX_BYTES


def primitives(capabilities: Mapping[str, Any]) -> tuple[Primitive, ...]:
    """What the server says that it has lists of (a08, 5.1)."""
    return tuple(name for name in LISTS if capabilities.get(name) not in (None, False))


def features(capabilities: Mapping[str, Any]) -> frozenset[Feature]:
    """What the server advertises of that which concerns agents."""
    found: set[Feature] = set(primitives(capabilities))
    if capabilities.get("completions") not in (None, False):
        found.add("completions")
    if capabilities.get("logging") not in (None, False):
        found.add("logging")
    resources = capabilities.get("resources")
    if isinstance(resources, dict) and resources.get("subscribe") is True:
        found.add("resources.subscribe")
    return frozenset(found)


def assemble(connection: Connection, parts: Parts) -> Catalog:
    """The catalogue that the lists make up."""
    settled = connection.settled
    order = [parts[method] for methods in LISTS.values() for method in methods if method in parts]
    return Catalog(
        tools=tuple(tool for part in order for tool in part.tools),
        instructions=settled.instructions,
        warnings=tuple(warning for part in order for warning in part.warnings),
        resources=tuple(one for part in order for one in part.resources),
        templates=tuple(one for part in order for one in part.templates),
        prompts=tuple(prompt for part in order for prompt in part.prompts),
        features=features(settled.capabilities),
    )


async def fetch_all(connection: Connection, before: Catalog, *, mirrored: bool) -> Parts:
    """All lists that the server advertises, read side by side; none where it advertises nothing (a08).

    `before` is what was known: the part of a list that fails stays. `mirrored`: calls repeat arguments
    in headers (3.3). Raises ServerError and Failure, as `Connection.exchange` does, for the tools
    alone; ConnectionLost.
    """
    methods = [method for name in primitives(connection.settled.capabilities) for method in LISTS[name]]
    found = await _gather_all(connection, methods)
    for method, outcome in found.items():
        if isinstance(outcome, ConnectionLost) or (method == "tools/list" and isinstance(outcome, Failure)):
            raise outcome
    parts: dict[List, Part] = {}
    for method in methods:
        gathered = found.get(method)
        if isinstance(gathered, _Gathered):
            taken = sum(part.size for part in parts.values())
            parts[method] = await _part(method, gathered, taken, mirrored=mirrored)
        else:
            why = gathered.message if isinstance(gathered, Failure) else "it was not answered in time"
            parts[method] = _failed(method, before, words(why))
    return parts


async def fetch_some(
    connection: Connection, primitive: Primitive, parts: Parts, *, mirrored: bool
) -> tuple[Parts, dict[List, Failure]]:
    """The lists of one primitive again: those that could be read, and the failures of the others.

    `parts` is all that is known. Raises ConnectionLost.
    """
    found: dict[List, Part] = {}
    failures: dict[List, Failure] = {}
    taken = sum(part.size for method, part in parts.items() if method not in LISTS[primitive])
    room = _Room()
    for method in LISTS[primitive]:
        try:
            gathered = await _gather(connection, method, room)
        except Failure as e:
            failures[method] = e
            taken += parts[method].size if method in parts else 0
        else:
            found[method] = await _part(method, gathered, taken, mirrored=mirrored)
            taken += found[method].size
    return found, failures


def _failed(method: List, before: Catalog, why: str) -> Part:
    """What was known of a list before it failed."""
    warnings = (f"{method} failed: {why}",)
    match method:
        case "prompts/list":
            return Part(prompts=before.prompts, warnings=warnings, failed=True)
        case "resources/list":
            return Part(resources=before.resources, warnings=warnings, failed=True)
        case "resources/templates/list":
            return Part(templates=before.templates, warnings=warnings, failed=True)
        case "tools/list":
            return Part(tools=before.tools, warnings=warnings, failed=True)


# ------------------------------------------------------------------ definitions


async def _part(method: List, gathered: _Gathered, taken: int, *, mirrored: bool) -> Part:
    read = partial(_read, method, gathered.items, taken)
    size = sum(map(len, gathered.items))
    part = await trio.to_thread.run_sync(read) if size > LARGE else read()
    if mirrored:
        part = _mirrorable(part)
    return msgspec.structs.replace(
        part, warnings=(*gathered.remarks, *part.warnings), ttl=min(gathered.ttl, LONGEST_TTL)
    )


def _mirrorable(part: Part) -> Part:
    """Without the tools that a client may not offer over HTTP, since it could not repeat their arguments
    in headers as they ask (3.3)."""
    odd = [tool for tool in part.tools if tool.unmirrorable]
    if not odd:
        return part
    left_out = [f'tool "{tool.name}" is left out: {tool.unmirrorable}' for tool in odd[: LIMITS.warnings]]
    return msgspec.structs.replace(
        part,
        tools=tuple(tool for tool in part.tools if not tool.unmirrorable),
        warnings=(*left_out, *part.warnings),
    )


def _read(method: List, items: Iterable[bytes], taken: int) -> Part:
    match method:
        case "tools/list":
            tools, warnings = read_tools(items, taken=taken)
            return Part(tools=tools, warnings=warnings)
        case "prompts/list":
            prompts, warnings = read_prompts(items, taken=taken)
            return Part(prompts=prompts, warnings=warnings)
        case "resources/list":
            resources, warnings = read_resources(items, taken=taken)
            return Part(resources=resources, warnings=warnings)
        case "resources/templates/list":
            templates, warnings = read_templates(items, taken=taken)
            return Part(templates=templates, warnings=warnings)


# ------------------------------------------------------------------------ pages


async def _gather_all(
    connection: Connection, methods: list[List]
) -> dict[List, _Gathered | Failure | ConnectionLost]:
    """The outcome of each list; the tools are waited for, the others not much longer."""
    found: dict[List, _Gathered | Failure | ConnectionLost] = {}

    async def gather(method: List, room: _Room) -> None:
        try:
            found[method] = await _gather(connection, method, room)
        except (Failure, ConnectionLost) as e:
            found[method] = e

    async with trio.open_nursery() as nursery:
        shared = _Room()
        for method in methods:
            if method != "tools/list":
                nursery.start_soon(gather, method, shared)
        if "tools/list" in methods:
            # It begins before the others: tasks start at the next checkpoint.
            await gather("tools/list", _Room())
        latest = min(trio.current_time() + OTHERS_WAIT, trio.current_effective_deadline() - SPARE)
        useless = isinstance(found.get("tools/list"), Exception)
        nursery.cancel_scope.deadline = -inf if useless else latest
    return found


async def _gather(connection: Connection, method: List, room: _Room) -> _Gathered:
    before = room.left
    try:
        return await _pages(connection, method, room)
    except ServerError as e:
        if e.server_code != _INVALID_PARAMS:
            raise
    # A cursor went bad on the way: all pages are thrown away, and once more from the start (5.10).
    room.left = before
    return await _pages(connection, method, room)


async def _pages(connection: Connection, method: List, room: _Room) -> _Gathered:
    pages: list[list[bytes]] = []
    # Older revisions know no such hint, whatever a server sends (4.8).
    ttl = inf if connection.settled.revision.stateless else 0.0
    seen: set[str] = set()
    members = b""
    size = count = 0

    def gathered(*remarks: str) -> _Gathered:
        return _Gathered([item for page in pages for item in page], remarks, ttl)

    for _ in range(MAX_PAGES):
        try:
            raw = await connection.ask(method, members, timeout=PAGE_TIMEOUT)
        except ServerError as e:
            if e.server_code == _METHOD_NOT_FOUND:
                # Advertised and yet unknown: an empty list, not a broken server.
                return gathered(*_unknown(method))
            raise
        page = read_page(method, raw)
        found = page.first(LIMITS.entries - count) if page else None
        if page is None or found is None:
            raise Failure("bad_answer", f"the answer to {method} has no proper shape")
        items, more = found
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
