"""What of a server's catalogue agents may see: each definition beside its pin (n09, n18).

A definition that waits for a person is seen, and decided on, as it was approved, as long as calls made for
that still fit the server; else it is not listed, and a call says why. First contact holds nothing but what is
hidden or encoded (search-and-leaks reference 3.2).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from mcpd.catalog.plain import is_plain
from mcpd.catalog.prompt import Prompt, read_prompts
from mcpd.catalog.resource import Resource, Template, read_templates
from mcpd.catalog.tool import Catalog, Tool, read_tools
from mcpd.policy import pins, poison
from mcpd.policy.leaks.strings import shown
from mcpd.policy.payloads import Room
from mcpd.policy.pins import Kind
from mcpd.policy.poison import Flag
from mcpd.policy.schemas import Change


class Place(NamedTuple):
    """Which definition of a server."""

    kind: Kind
    name: str
    """A tool's or prompt's own name, a template's URI template; of instructions empty."""


class Pin(msgspec.Struct, frozen=True):
    """A definition that a person has seen."""

    digest: str
    definition: bytes
    """All of it as JSON text, so that it can be shown and used again."""
    pinned_at: float
    """Seconds since the epoch."""


Pins = Mapping[Place, Pin]


class Finding(msgspec.Struct, frozen=True):
    """A definition that is not plainly what was seen, or has something to be seen."""

    place: Place
    live: bytes
    """As the server tells it now."""
    pin: Pin | None
    changes: tuple[Change, ...]
    """Since it was pinned."""
    flags: tuple[Flag, ...]
    """Hard ones that nobody has accepted."""
    held: str
    """Why it waits for a person; empty where it counts as it is."""
    listed: bool = True
    """Agents see it, as it was approved where it is held."""


class Compared(msgspec.Struct, frozen=True):
    """One definition beside its pin: what takes long to find out, and holds as long as both stay."""

    live: bytes
    pin: Pin | None
    findings: tuple[Finding | None, Finding | None]
    """Of a server that is not trusted, and of one that is."""
    approved: Tool | Prompt | Template | str | None
    """What agents see of it where it is held; None for nothing."""


#: Bytes that it takes besides: measured of a tool with another description than its pin.
FOUND: Final = 1700


class Review(msgspec.Struct, frozen=True):
    """One catalogue of a server beside the pins of that server and destination."""

    catalog: Catalog
    """As agents may see it; the very one where nothing is held."""
    live: Catalog
    findings: Mapping[Place, Finding]
    pinned: frozenset[str]
    """Tools that are seen as a person has seen them."""
    unlisted: tuple[Tool, ...]
    """Tools that wait and cannot be used meanwhile."""
    barred: Mapping[str, str]
    """Why, by their names."""
    compared: Mapping[Place, Compared]
    """All that was not at once seen to be as it was, for the next review."""

    @property
    def size(self) -> int:
        """Bytes of those definitions, with what was found out about them."""
        return sum(len(each.live) + FOUND for each in self.compared.values())


def entry_of(kind: Kind, thing: Tool | Prompt | Template) -> tuple[Place, bytes]:
    """A definition's place and its whole JSON text."""
    if isinstance(thing, Tool):
        return Place(kind, thing.name), thing.entry(thing.name, stateless=True)
    if isinstance(thing, Prompt):
        return Place(kind, thing.name), thing.entry(thing.name)
    return Place(kind, thing.uri_template), thing.entry(thing.uri_template)


def definitions(catalog: Catalog, without: Container[Place] = ()) -> Iterator[tuple[Place, bytes]]:
    """All definitions of a catalogue that can be pinned, but for those at the places that are named."""
    if catalog.instructions and INSTRUCTIONS not in without:
        yield INSTRUCTIONS, pins.instructions_entry(catalog.instructions)
    for tool in catalog.tools:
        if (place := Place("tool", tool.name)) not in without:
            yield place, tool.entry(tool.name, stateless=True)
    for prompt in catalog.prompts:
        if (place := Place("prompt", prompt.name)) not in without:
            yield place, prompt.entry(prompt.name)
    for template in catalog.templates:
        if (place := Place("template", template.uri_template)) not in without:
            yield place, template.entry(template.uri_template)


INSTRUCTIONS: Final = Place("instructions", "")


#: Bytes of definitions that are compared while others wait: 10 ms of the worst that can be in them.
SMALL: Final = 16 * 1024
#: Tools that are looked at in a review while others wait: 5 ms, if all are as they were.
FEW: Final = 1000


def is_small(catalog: Catalog, seen: Pins, past: Sequence[Review] = ()) -> bool:
    """Whether a review takes so little that nobody needs to be let by meanwhile."""
    tools = [tool for tool in catalog.tools if not _is_new(tool, seen)]
    if len(tools) > FEW:
        return False
    left = SMALL
    for place, live in definitions(replace(catalog, tools=tuple(tools))):
        pin = seen.get(place)
        if pin and pin.definition == live:
            continue
        if _known(past, place, live, pin) is None:
            left -= len(live)
            if left < 0:
                return False
    return True


def _is_new(tool: Tool, seen: Pins) -> bool:
    """Whether nobody has seen it, and nothing in it needs to be: most tools of most servers."""
    return tool.plain and not (seen and Place("tool", tool.name) in seen)


def _known(past: Sequence[Review], place: Place, live: bytes, pin: Pin | None) -> Compared | None:
    """What was found out about the very same two definitions."""
    for each in past:
        found = each.compared.get(place)
        if found is not None and found.pin is pin and found.live == live:
            return found
    return None


def review(catalog: Catalog, seen: Pins, *, trusted: bool, past: Sequence[Review] = ()) -> Review:
    """Each definition beside its pin. `seen`: of this server and destination; `past`: reviews of the same,
    whatever was pinned then, whose work need not be done again."""
    reviewer = _Reviewer(seen, trusted, past)
    tools = tuple(filter(None, map(reviewer.tool, catalog.tools)))
    prompts = tuple(filter(None, map(reviewer.prompt, catalog.prompts)))
    templates = tuple(filter(None, map(reviewer.template, catalog.templates)))
    resources = tuple(map(reviewer.resource, catalog.resources))
    instructions = reviewer.instructions(catalog.instructions)
    offered = catalog
    if reviewer.differs:
        offered = replace(
            catalog,
            tools=tools,
            prompts=prompts,
            templates=templates,
            resources=resources,
            instructions=instructions,
        )
    unlisted = tuple(reviewer.unlisted)
    barred = {tool.name: reviewer.findings[Place("tool", tool.name)].held for tool in unlisted}
    pinned = frozenset(reviewer.pinned)
    return Review(offered, catalog, reviewer.findings, pinned, unlisted, barred, reviewer.compared)


class _Reviewer:
    """One pass over a catalogue. Mutable: what it finds grows."""

    def __init__(self, seen: Pins, trusted: bool, past: Sequence[Review]) -> None:
        self._seen = seen
        self._trusted = trusted
        self._past = past
        self._room = Room()
        self._room_of_old = Room()
        self.findings: dict[Place, Finding] = {}
        self.compared: dict[Place, Compared] = {}
        self.pinned: list[str] = []
        self.unlisted: list[Tool] = []
        self.differs = False

    def tool(self, tool: Tool) -> Tool | None:
        if _is_new(tool, self._seen):
            return tool
        place, live = entry_of("tool", tool)
        finding, approved = self._look(place, live, tool)
        if finding is None or not finding.held:
            if place in self._seen:
                self.pinned.append(tool.name)
            return tool
        self.differs = True
        if isinstance(approved, Tool):
            self.pinned.append(tool.name)
            return approved
        self.unlisted.append(tool)
        return None

    def prompt(self, prompt: Prompt) -> Prompt | None:
        finding, approved = self._look(*entry_of("prompt", prompt))
        if finding is None or not finding.held:
            return prompt
        self.differs = True
        return approved if isinstance(approved, Prompt) else None

    def template(self, template: Template) -> Template | None:
        finding, approved = self._look(*entry_of("template", template))
        if finding is None or not finding.held:
            return template
        self.differs = True
        return approved if isinstance(approved, Template) else None

    def resource(self, resource: Resource) -> Resource:
        """Resources come and go and give no orders: they are not pinned; what is hidden is marked (b25)."""
        if resource.rest.isascii() and b"\\" not in resource.rest:
            return resource
        text, runs = shown(b"{" + resource.rest + b"}")
        if not runs:
            return resource
        self.differs = True
        return replace(resource, rest=text[1:-1])

    def instructions(self, text: str) -> str:
        if not text:
            # Taken back, like a tool that is gone; nobody has to agree to that.
            return text
        finding, approved = self._look(INSTRUCTIONS, pins.instructions_entry(text))
        if finding is None or not finding.held:
            return text
        self.differs = True
        return approved if isinstance(approved, str) else ""

    def _look(
        self, place: Place, live: bytes, tool: Tool | None = None
    ) -> tuple[Finding | None, Tool | Prompt | Template | str | None]:
        """What is to be said of a definition, None for what is as it was seen, or new and plain; and what
        is seen of it where it is held."""
        pin = self._seen.get(place)
        if pin is not None and pin.definition == live:
            return None, None
        if pin is None and (tool.plain if tool is not None else is_plain(live)):
            return None, None
        found = _known(self._past, place, live, pin) or self._compare(place, live, pin, tool)
        self.compared[place] = found
        finding = found.findings[self._trusted]
        if finding is not None:
            self.findings[place] = finding
        return finding, found.approved

    def _compare(self, place: Place, live: bytes, pin: Pin | None, tool: Tool | None) -> Compared:
        plain = tool.plain if tool is not None else is_plain(live)
        flags = () if plain else poison.hard(live, self._room)
        changes: tuple[Change, ...] = ()
        approved = None
        if pin is not None:
            changes = pins.compare(place.kind, pin.definition, live)
            if flags:
                # Those that stood there when a person said yes are accepted.
                old = set(poison.hard(pin.definition, self._room_of_old))
                flags = tuple(flag for flag in flags if flag not in old)
            if pins.usable(changes):
                approved = _approved(place, pin, tool)
        if not flags and not changes:
            return Compared(live, pin, (None, None), None)
        findings = []
        for trusted in (False, True):
            waits = pin is not None and pins.held(changes, trusted=trusted)
            held = words(changes, flags) if flags or waits else ""
            listed = not held or approved is not None
            findings.append(Finding(place, live, pin, changes, flags, held, listed))
        return Compared(live, pin, (findings[0], findings[1]), approved)


def _approved(place: Place, pin: Pin, live: Tool | None) -> Tool | Prompt | Template | str | None:
    """A definition as it was seen; None where it cannot be used any more."""
    match place.kind:
        case "tool":
            tools, _ = read_tools([pin.definition])
            if not tools or live is None:
                return None
            # Milder than before is not believed, stricter is.
            return replace(tools[0], annotations=pins.strictest(tools[0].annotations, live.annotations))
        case "prompt":
            return next(iter(read_prompts([pin.definition])[0]), None)
        case "template":
            return next(iter(read_templates([pin.definition])[0]), None)
        case "instructions":
            return _approved_instructions(pin)


def _approved_instructions(pin: Pin) -> str:
    said = pins.read(pin.definition)
    return str(said.get("instructions", "")) if isinstance(said, dict) else ""


#: Places that the words of a held definition name.
_NAMED: Final = 3


def words(changes: tuple[Change, ...], flags: tuple[Flag, ...]) -> str:
    """Why a definition is held, in few words. They reach agents: nothing of the server's text is in them."""
    parts = []
    kinds = {flag.code for flag in flags}
    if "hidden" in kinds:
        parts.append("it has hidden characters")
    if "payload" in kinds:
        parts.append("it has an encoded command")
    if changes:
        grave = pins.classes(changes)
        parts.append(f"it has changed since it was approved ({', '.join(grave[:_NAMED])})")
    return " and ".join(parts)
