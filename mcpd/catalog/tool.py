"""Tools as servers define them, kept as JSON text and read only where a rule looks; and the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from mcpd.catalog.blocks import with_member
from mcpd.catalog.definition import (
    COMMON,
    LIMITS,
    OBJECT,
    Icon,
    Limits,
    Reading,
    Shapes,
    Unusable,
    check_identity,
    drop_nulls,
    drop_odd,
    read_definitions,
    take_apart,
)
from mcpd.catalog.members import join_members, split_members
from mcpd.catalog.mirror import Mirror, read_mirrors
from mcpd.catalog.plain import is_plain
from mcpd.catalog.prompt import Prompt
from mcpd.catalog.resource import Resource, Template
from mcpd.catalog.schema import AnyObject, Root, free_schema, object_schema


class Annotations(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A tool's hints about itself; untrusted input (b11). None means: not said."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


TaskSupport = Literal["forbidden", "optional", "required"]


class Tool(msgspec.Struct, frozen=True, gc=False):
    """One tool of one server. Nothing in it leads back to it, so that no collection looks at 10,000."""

    name: str
    """The server's own name, exactly."""
    rest: bytes
    """The members of the definition other than `name`, as JSON text without the braces."""
    annotations: Annotations = Annotations()
    output: tuple[bytes, bytes] | None = None
    """The outputSchema where its root is not plainly an object, which 2026-07-28 allows: as
    older agents may see it (empty: not at all), and as sent. It is not part of `rest` then."""
    wraps: str = ""
    """For a tool of mcpd's own that stands for another primitive (a10): the method it wraps, such as
    "resources/read". Empty for a server's own tool."""
    mirrors: tuple[Mirror, ...] = ()
    """The arguments that a call over HTTP repeats in headers (3.3)."""
    unmirrorable: str = ""
    """Why a client may not offer the tool over HTTP; empty where it may."""
    task: TaskSupport = "forbidden"
    """Whether a call may, or must, be made as a task, where the server has tasks of 2025-11-25 (5.15)."""
    plain: bool = False
    """Nothing in its definition is hidden or encoded: policy need not look closer (n18)."""

    def entry(self, name: str, *, stateless: bool = False) -> bytes:
        """The definition as JSON text under the given name, for an agent of either era."""
        return b"".join(self.pieces(name, stateless))

    def pieces(self, name: str, stateless: bool) -> tuple[bytes, ...]:
        """The same in pieces, for those who join many."""
        quoted = msgspec.json.encode(name)
        if self.rest and not self.output:
            return b'{"name":', quoted, b",", self.rest, b"}"
        rest = (b",", self.rest) if self.rest else ()
        output = self.output[stateless] if self.output else b""
        return b'{"name":', quoted, *rest, *((b',"outputSchema":', output) if output else ()), b"}"

    def eased(self) -> Tool:
        """The same as it is shown where mcpd itself follows a task that the tool insists on (8.2), so that
        clients that know no tasks do not refuse to call it."""
        if self.task != "required":
            return self
        members = split_members(b"{" + self.rest + b"}")
        members["execution"] = with_member(members["execution"], "taskSupport", b'"optional"')
        return replace(self, rest=join_members(members))


#: What a server may advertise that decides what agents can be offered (5.1).
Feature = Literal["tools", "resources", "resources.subscribe", "prompts", "completions", "logging", "tasks"]


class Catalog(msgspec.Struct, frozen=True):
    """All that one server offers, at one moment."""

    tools: tuple[Tool, ...] = ()
    instructions: str = ""
    warnings: tuple[str, ...] = ()
    """What was left out or mended, each with the entry and the reason (b24)."""
    resources: tuple[Resource, ...] = ()
    templates: tuple[Template, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    features: frozenset[Feature] = frozenset()
    """What the server advertises, in the era that it was spoken to in."""
    extensions: dict[str, dict[str, Any]] = {}
    """Its extensions that cross, with their settings (5.17)."""


class _Hints(msgspec.Struct, rename="camel"):
    title: str | UnsetType = UNSET
    read_only_hint: bool | UnsetType = UNSET
    destructive_hint: bool | UnsetType = UNSET
    idempotent_hint: bool | UnsetType = UNSET
    open_world_hint: bool | UnsetType = UNSET


class _Execution(msgspec.Struct, rename="camel"):
    task_support: TaskSupport | UnsetType = UNSET


class _Definition(msgspec.Struct, rename="camel"):
    """A definition that no client refuses, of the members that any of them checks."""

    name: str
    input_schema: Root
    output_schema: Root | UnsetType = UNSET
    description: str | UnsetType = UNSET
    title: str | UnsetType = UNSET
    annotations: _Hints | UnsetType = UNSET
    icons: list[Icon] | UnsetType = UNSET
    execution: _Execution | UnsetType = UNSET
    meta: AnyObject | UnsetType = msgspec.field(name="_meta", default=UNSET)


_DEFINITION: Final = msgspec.json.Decoder(_Definition)
_ANNOTATIONS: Final = msgspec.json.Decoder(Annotations)
_MEMBERS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

_OPTIONAL: Final[Shapes] = {
    **COMMON,
    "execution": (msgspec.json.Decoder(_Execution), "of an unknown form"),
    "annotations": (OBJECT, "no object"),
}

_DEFINITION_MEMBERS: Final = _Definition.__struct_encode_fields__
_BOOLEAN_HINTS: Final = frozenset(_Hints.__struct_encode_fields__) - {"title"}


def read_tools(
    pages: Iterable[bytes], limits: Limits = LIMITS, taken: int = 0
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The usable tools of a server, in its order, and what was left out or mended.

    Each page is the JSON text of a `tools` array, or of a single definition. `taken`: bytes of the
    server's other definitions. Never raises for anything a page may hold.
    """
    return read_definitions(pages, "tool", _read_tool, lambda tool: tool.name, limits, taken)


def _read_tool(text: bytes, reading: Reading) -> Tool:
    """One definition, mended where `_Definition` does not take it as it is."""
    members, known, output = take_apart(text, reading, _DEFINITION, _mend)
    check_identity(known.name, "name", reading.limits.name)
    del members["name"]
    annotations = Annotations()
    if known.annotations:
        members["annotations"] = hints = _unambiguous(bytes(members["annotations"]))
        annotations = _ANNOTATIONS.decode(hints)
    mirrors, unmirrorable = read_mirrors(bytes(members["inputSchema"]))
    rest = join_members(members)
    return Tool(
        known.name,
        rest,
        annotations,
        output,
        mirrors=mirrors,
        unmirrorable=unmirrorable,
        task=known.execution.task_support or "forbidden" if known.execution else "forbidden",
        plain=definition_is_plain(known.name, rest, output),
    )


def definition_is_plain(name: str, rest: bytes, output: tuple[bytes, bytes] | None) -> bool:
    """What `Tool.plain` says of a tool that is made of these."""
    texts = (msgspec.json.encode(name), rest, *(output or ()))
    return all(map(is_plain, texts))


def is_of_a_piece(tool: Tool, members: Mapping[str, bytes]) -> bool:
    """Whether what is read of a server's own tool is what its definition, whose `members` these are, says.

    What was read here is; a file need not be, and whoever writes one could call a tool read-only that agents
    and pins see otherwise. Raises msgspec.MsgspecError for a member that cannot be read.
    """
    hints, execution = members.get("annotations"), members.get("execution")
    annotations, task = Annotations(), "forbidden"
    if hints is not None:
        if _unambiguous(hints) != hints:
            return False
        annotations = _ANNOTATIONS.decode(hints)
    if execution is not None:
        task = msgspec.json.decode(execution, type=_Execution).task_support or task
    return (tool.annotations, tool.task, tool.wraps) == (annotations, task, "")


def _mend(members: dict[str, bytes], notes: list[str]) -> tuple[bytes, bytes] | None:
    """Mend, in place, what clients would refuse; returns `Tool.output`.

    Raises Unusable where nothing can be mended, except for the name.
    """
    drop_nulls(members, _DEFINITION_MEMBERS)
    _mend_input(members, notes)
    output = _mend_output(members, notes) if "outputSchema" in members else None
    drop_odd(members, _OPTIONAL, notes)
    if "annotations" in members:
        members["annotations"] = _mend_hints(members["annotations"], notes)
    return output


def _mend_input(members: dict[str, bytes], notes: list[str]) -> None:
    if "inputSchema" not in members:
        members["inputSchema"] = b'{"type":"object"}'
        notes.append("input schema is missing, taken as any object")
        return
    try:
        members["inputSchema"], mended = object_schema(members["inputSchema"])
    except ValueError as error:
        raise Unusable(f"its input schema {error}") from None
    notes += [f"input schema {note}" for note in mended]


def _mend_output(members: dict[str, bytes], notes: list[str]) -> tuple[bytes, bytes] | None:
    """Agents of older revisions must see an object's schema; where the server's is none, take it out."""
    text = members.pop("outputSchema")
    if text[:1] != b"{":
        notes.append("output schema is no object, dropped")
        return None
    free, plain = free_schema(text)
    try:
        strict, mended = object_schema(text)
    except ValueError as error:
        strict, mended = b"", (f"{error}, shown to agents of 2026-07-28 only",)
    notes += [f"output schema {note}" for note in mended]
    if not plain:
        return strict, free
    members["outputSchema"] = strict
    return None


def _mend_hints(text: bytes, notes: list[str]) -> bytes:
    """Annotations without null, and without hints that are no boolean (they count as not said)."""
    kept = {}
    for key, value in split_members(text).items():
        fits = value in (b"true", b"false") if key in _BOOLEAN_HINTS else key != "title" or value[:1] == b'"'
        if fits:
            kept[key] = value
        elif value != b"null":
            notes.append(f"annotation {key} is of the wrong type, dropped")
    return b"{" + join_members(kept) + b"}"


def _unambiguous(text: bytes) -> bytes:
    """Annotations without double members: policy and every agent must read the same hints."""
    members = _MEMBERS.decode(text)
    # Every member has a colon, so an equal count leaves no room for a double one.
    return text if text.count(b":") == len(members) else b"{" + join_members(members) + b"}"
