"""The entries of one listing, in order and ready to send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from mcpd.catalog import qualify
from mcpd.catalog.prompt import Prompt
from mcpd.catalog.resource import Resource, Template
from mcpd.catalog.tool import Tool
from mcpd.upstream.upstream import Upstream

#: Entries of one listing answer (b24).
PAGE = 500

Kind = Literal["tools", "resources", "templates", "prompts"]


class Listed(NamedTuple):
    """One entry of a listing."""

    name: str
    """The name or URI that agents see."""
    upstream: Upstream
    thing: Tool | Resource | Template | Prompt


class Listing:
    """All entries of one kind, in order. `number` differs from that of every listing with other content."""

    def __init__(
        self, entries: Sequence[Listed], number: int, warnings: tuple[str, ...] = (), *, alone: bool
    ) -> None:
        """`alone`: of one server, whose URIs are shown as they are."""
        self.entries = entries
        self._alone = alone
        self.number = number
        self.warnings = warnings
        """What was left out because of its name (a12)."""
        self._pages: dict[tuple[int, bool], bytes] = {}

    def page(self, start: int, stateless: bool) -> tuple[bytes, int | None]:
        """The entries from `start` on, joined as JSON text, and where the next page starts."""
        text = self._pages.get((start, stateless))
        end = start + PAGE
        if text is None:
            entries = self.entries[start:end]
            text = b",".join([_entry(each, stateless, self._alone) for each in entries])
            self._pages[start, stateless] = text
        return text, end if end < len(self.entries) else None

    def same_content(self, other: Listing) -> bool:
        """Whether an agent could not tell the two apart."""
        if len(self.entries) != len(other.entries):
            return False
        pairs = zip(self.entries, other.entries, strict=True)
        return all(a.name == b.name and (a.thing is b.thing or a.thing == b.thing) for a, b in pairs)


def _entry(listed: Listed, stateless: bool, alone: bool) -> bytes:
    thing = listed.thing
    if isinstance(thing, Tool):
        entry = thing.entry(listed.name, stateless=stateless)
        return entry if alone else qualify.qualify_tool(entry, listed.upstream.name)
    return thing.entry(listed.name)
