"""Read a server's lists, all that it advertises, and make a catalogue of them (a08, b24).

Only the tools decide whether a server can be used: any other list that fails is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import inf
from typing import Any, Final, Literal, TypeVar

import msgspec
import trio

from mcpd.catalog.definition import LIMITS
from mcpd.catalog.prompt import Prompt, read_prompts
from mcpd.catalog.resource import Resource, Template, read_resources, read_templates
from mcpd.catalog.tool import Catalog, Feature, Tool, read_tools
from mcpd.errors import Failure
from mcpd.protocol import extensions
from mcpd.protocol.jsonrpc import words
from mcpd.protocol.pages import LONGEST_TTL, List
from mcpd.transport.base import ConnectionLost
from mcpd.upstream.connection import Connection
from mcpd.upstream.gather import LARGE, Gathered, Room, gather

T = TypeVar("T")

Primitive = Literal["tools", "prompts", "resources"]

#: The lists of each primitive, in the order in which a catalogue fills.
LISTS: Final[dict[Primitive, tuple[List, ...]]] = {
    "tools": ("tools/list",),
    "prompts": ("prompts/list",),
    "resources": ("resources/list", "resources/templates/list"),
}

#: Seconds that the other lists may take longer than the tools when a server is opened...
OTHERS_WAIT = 5.0
#: ...as long as the attempt has so many left: they must not make it fail.
SPARE = 1.0


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

Redact = Callable[[bytes], bytes]
"""Takes out of the JSON text of one definition what nobody is to read (n17); called in any thread."""


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
    if _has(capabilities, "tasks", "requests", "tools", "call"):
        found.add("tasks")
    return frozenset(found)


def _has(capabilities: Any, *path: str) -> bool:
    """Whether there is an object at this place."""
    for name in path:
        capabilities = capabilities.get(name) if isinstance(capabilities, dict) else None
    return isinstance(capabilities, dict)


def assemble(connection: Connection, parts: Parts, redact: Redact = bytes) -> Catalog:
    """The catalogue that the lists make up."""
    settled = connection.settled
    order = [parts[method] for methods in LISTS.values() for method in methods if method in parts]
    return Catalog(
        tools=tuple(tool for part in order for tool in part.tools),
        instructions=_redacted(settled.instructions, redact),
        warnings=tuple(warning for part in order for warning in part.warnings),
        resources=tuple(one for part in order for one in part.resources),
        templates=tuple(one for part in order for one in part.templates),
        prompts=tuple(prompt for part in order for prompt in part.prompts),
        features=features(settled.capabilities),
        extensions=_announced(settled.capabilities, redact) if settled.revision.stateless else {},
    )


def _announced(capabilities: dict[str, Any], redact: Redact) -> dict[str, dict[str, Any]]:
    text = msgspec.json.encode({"extensions": extensions.read(capabilities)})
    return extensions.read(msgspec.json.decode(redact(text)))


async def fetch_all(
    connection: Connection, before: Catalog, *, mirrored: bool, redact: Redact = bytes
) -> Parts:
    """All lists that the server advertises, read side by side; none where it advertises nothing (a08).

    `before` is what was known: the part of a list that fails stays. `mirrored`: calls repeat arguments
    in headers (3.3); `redact`: what nobody is to read goes out of each definition (n17). Raises ServerError
    and Failure, as `Connection.exchange` does, for the tools alone; ConnectionLost.
    """
    methods = [method for name in primitives(connection.settled.capabilities) for method in LISTS[name]]
    found = await _gather_all(connection, methods)
    for method, outcome in found.items():
        if isinstance(outcome, ConnectionLost) or (method == "tools/list" and isinstance(outcome, Failure)):
            raise outcome
    parts: dict[List, Part] = {}
    for method in methods:
        gathered = found.get(method)
        if isinstance(gathered, Gathered):
            taken = sum(part.size for part in parts.values())
            parts[method] = await _part(method, gathered, taken, before, redact, mirrored=mirrored)
        else:
            why = gathered.message if isinstance(gathered, Failure) else "it was not answered in time"
            parts[method] = _failed(method, before, _redacted(words(why), redact))
    return parts


def _redacted(text: str, redact: Redact) -> str:
    return msgspec.json.decode(redact(msgspec.json.encode(text)), type=str)


async def fetch_some(
    connection: Connection,
    primitive: Primitive,
    parts: Parts,
    before: Catalog,
    *,
    mirrored: bool,
    redact: Redact = bytes,
) -> tuple[Parts, dict[List, Failure]]:
    """The lists of one primitive again: those that could be read, and the failures of the others.

    `parts` is all that is known on this connection, `before` what was known. Raises ConnectionLost.
    """
    found: dict[List, Part] = {}
    failures: dict[List, Failure] = {}
    taken = sum(part.size for method, part in parts.items() if method not in LISTS[primitive])
    room = Room()
    for method in LISTS[primitive]:
        try:
            gathered = await gather(connection, method, room)
        except Failure as e:
            failures[method] = e
            taken += parts[method].size if method in parts else 0
        else:
            found[method] = await _part(method, gathered, taken, before, redact, mirrored=mirrored)
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


async def _part(
    method: List, gathered: Gathered, taken: int, before: Catalog, redact: Redact, *, mirrored: bool
) -> Part:
    read = partial(_read, method, gathered.items, taken, before, redact)
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


def _read(method: List, raw: Iterable[bytes], taken: int, before: Catalog, redact: Redact) -> Part:
    items = map(redact, raw)
    match method:
        case "tools/list":
            tools, warnings = read_tools(items, taken=taken)
            return Part(tools=_known(tools, before.tools), warnings=warnings)
        case "prompts/list":
            prompts, warnings = read_prompts(items, taken=taken)
            return Part(prompts=_known(prompts, before.prompts), warnings=warnings)
        case "resources/list":
            resources, warnings = read_resources(items, taken=taken)
            return Part(resources=_known(resources, before.resources), warnings=warnings)
        case "resources/templates/list":
            templates, warnings = read_templates(items, taken=taken)
            return Part(templates=_known(templates, before.templates), warnings=warnings)


def _known(found: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """The same, of equal definitions those that are there already: 10,000 take 10 MiB, and views, reviews
    and the cache hold them as well."""
    if not before:
        return found
    there = {each: each for each in before}
    return tuple([there.get(each, each) for each in found])


# ------------------------------------------------------------------------ pages


async def _gather_all(
    connection: Connection, methods: list[List]
) -> dict[List, Gathered | Failure | ConnectionLost]:
    """The outcome of each list; the tools are waited for, the others not much longer."""
    found: dict[List, Gathered | Failure | ConnectionLost] = {}

    async def read(method: List, room: Room) -> None:
        try:
            found[method] = await gather(connection, method, room)
        except (Failure, ConnectionLost) as e:
            found[method] = e

    async with trio.open_nursery() as nursery:
        shared = Room()
        for method in methods:
            if method != "tools/list":
                nursery.start_soon(read, method, shared)
        if "tools/list" in methods:
            # It begins before the others: tasks start at the next checkpoint.
            await read("tools/list", Room())
        latest = min(trio.current_time() + OTHERS_WAIT, trio.current_effective_deadline() - SPARE)
        useless = isinstance(found.get("tools/list"), Exception)
        nursery.cancel_scope.deadline = -inf if useless else latest
    return found
