"""The catalogue cache: what each server offered last, so that it is listed while stopped.

One file a server below `<cache>/catalogue/`, written whole, never needed: a file that is
missing, damaged, too large or of another definition is the same as none. What comes from
here may list, search and raise a risk, never lower one (DESIGN, section 4).

Methods read or write one file of up to 16 MiB and share no state, so they may be called
in worker threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from mcpd import files
from mcpd.catalog.blocks import one_line
from mcpd.catalog.members import split_members
from mcpd.catalog.prompt import read_prompts
from mcpd.catalog.resource import read_resources, read_templates
from mcpd.catalog.tool import Catalog, Tool, definition_is_plain, is_of_a_piece

log = logging.getLogger(__name__)

Era = Literal["legacy", "modern", "sse", ""]

_ERAS: dict[str, Era] = {"legacy": "legacy", "modern": "modern", "sse": "sse"}

SCHEMA = 2
"""A file of another one is none: in the first there were tools alone."""
MAX_FILE = 16 << 20
"""Bytes; as much as a catalogue may have (b24), so that only the very largest is not kept."""
LEGACY_HOLDS = 86400.0
"""Seconds after which a server is asked again whether it speaks the newer era by now."""


class Cached(msgspec.Struct, frozen=True):
    catalog: Catalog
    era: Era
    """What the server spoke; empty when that must be found out again."""
    revision: str
    verified_at: float
    """Seconds since the epoch: when the era was found out."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    schema: int
    name: str
    digest: str
    era: Era
    revision: str
    verified_at: float
    catalog: Catalog
    """Without its entries."""
    tools: list[tuple[Tool, msgspec.Raw]]
    """Each tool without `rest`, and `rest` as the JSON object it is the inside of."""
    resources: list[msgspec.Raw] = []
    """Each as it is listed; likewise the others."""
    templates: list[msgspec.Raw] = []
    prompts: list[msgspec.Raw] = []


_DECODER = msgspec.json.Decoder(_File)


class _Head(msgspec.Struct):
    """What of a file tells how old its verdict is; the definitions, which are the most of it, are not made
    into objects."""

    schema: int
    name: str
    digest: str
    era: Era
    verified_at: float


_HEAD: Final = msgspec.json.Decoder(_Head)


def _is_sound(tool: Tool) -> bool:
    """Whether the entry of a tool is one line and one object, which goes to agents as it stands, and policy
    reads of it what they do."""
    try:
        members = split_members(b"{" + tool.rest + b"}")
        if not is_of_a_piece(tool, members):
            return False
        for text in filter(None, tool.output or ()):
            msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        return False
    parts = (tool.rest, *(tool.output or ()))
    return "name" not in members and all(one_line(part) == part for part in parts)


def _tool(tool: Tool, rest: bytes) -> Tool:
    """The tool with its text; whether that is plain is seen again, because a file can say anything (n18)."""
    return replace(tool, rest=rest, plain=definition_is_plain(tool.name, rest, tool.output))


def _catalog(file: _File) -> Catalog | None:
    """The catalogue of a file, or None when one of its entries is not as it was written."""
    tools = tuple(_tool(tool, bytes(rest)[1:-1]) for tool, rest in file.tools)
    # What was read once is read again without a word.
    resources, odd = read_resources(map(bytes, file.resources))
    templates, odder = read_templates(map(bytes, file.templates))
    prompts, oddest = read_prompts(map(bytes, file.prompts))
    if odd or odder or oddest or not all(map(_is_sound, tools)):
        return None
    return replace(file.catalog, tools=tools, resources=resources, templates=templates, prompts=prompts)


def _holds(verified_at: float, now: float) -> bool:
    """Whether a verdict other than "modern" still counts. A time to come means that the clock was set back;
    how old it is cannot be known."""
    return 0 <= now - verified_at <= LEGACY_HOLDS


def _since(data: bytes, wanted: tuple[int, str, str, Era], now: float) -> float:
    """When the verdict of a file was found out, if it is the `wanted` one and still counts; else now."""
    try:
        head = _HEAD.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return now
    same = (head.schema, head.name, head.digest, head.era) == wanted
    return head.verified_at if same and _holds(head.verified_at, now) else now


class CatalogCache:
    """The owner of the folder of cached catalogues."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "catalogue"

    def load(self, name: str, digest: str, now: float) -> Cached | None:
        """What a server of this definition offered; None when that is not known.

        Never fails. A verdict other than "modern" is forgotten after 24 h: servers are updated.
        """
        try:
            file = _DECODER.decode(files.read_own(self._path(name), MAX_FILE))
        except FileNotFoundError:
            return None
        except (OSError, files.Unfit, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            log.info("MCP '%s': the cached catalogue is not used: %s", name, error)
            return None
        if (file.schema, file.name, file.digest) != (SCHEMA, name, digest):
            return None
        catalog = _catalog(file)
        if catalog is None:
            log.info("MCP '%s': the cached catalogue is not used: a definition is damaged", name)
            return None
        return Cached(
            catalog=catalog,
            era=file.era if file.era == "modern" or _holds(file.verified_at, now) else "",
            revision=file.revision,
            verified_at=file.verified_at,
        )

    def store(self, name: str, digest: str, catalog: Catalog, era: str, revision: str, now: float) -> None:
        """Keep what a server offers now; `era`: one of Era, anything else is not known.

        A verdict "legacy" or "sse" that still held keeps its age: nobody asked the server again.
        Never fails: at worst the next start knows less.
        """
        verdict = _ERAS.get(era, "")
        before = self._read(name)
        if verdict in ("legacy", "sse"):
            now = _since(before, (SCHEMA, name, digest, verdict), now)
        file = _File(
            schema=SCHEMA,
            name=name,
            digest=digest,
            era=verdict,
            revision=revision,
            verified_at=now,
            catalog=replace(catalog, tools=(), resources=(), templates=(), prompts=()),
            tools=[(replace(tool, rest=b""), msgspec.Raw(b"{" + tool.rest + b"}")) for tool in catalog.tools],
            resources=[msgspec.Raw(one.entry(one.uri)) for one in catalog.resources],
            templates=[msgspec.Raw(one.entry(one.uri_template)) for one in catalog.templates],
            prompts=[msgspec.Raw(prompt.entry(prompt.name)) for prompt in catalog.prompts],
        )
        data = msgspec.json.encode(file)
        if data == before:
            return
        if len(data) > MAX_FILE:
            self.forget(name)
            return
        try:
            files.make_private_folder(self._folder)
            files.write_whole(self._path(name), data, durable=False)
        except OSError as error:
            log.warning("MCP '%s': cannot keep its catalogue: %s", name, error.strerror or error)

    def forget(self, name: str) -> None:
        """Delete what is known of a server. Never fails."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def _read(self, name: str) -> bytes:
        """What there is, whatever it is; empty where nothing can be read."""
        try:
            return files.read_own(self._path(name), MAX_FILE)
        except (OSError, files.Unfit):
            return b""

    def _path(self, name: str) -> Path:
        """The file of a server; a name that c05 does not allow becomes a hash."""
        if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]{0,31}", name):
            name = "=" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self._folder / f"{name}.json"
