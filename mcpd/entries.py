"""The entries of one listing, in order and ready to send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from mcpd.catalog.prompt import Prompt
from mcpd.catalog.resource import Resource, Template
from mcpd.catalog.tool import Tool
from mcpd.upstream.upstream import Upstream

#: Entries of one listing answer (b24).
PAGE = 500

Kind = Literal["tools", "resources", "templates", "prompts"]


class Listed(msgspec.Struct, frozen=True, gc=False):
    """One entry of a listing. Nothing in it leads back to it, so that no collection looks at 10,000."""

    name: str
    """The name or URI that agents see."""
    upstream: Upstream
    thing: Tool | Resource | Template | Prompt
    """As agents see it: its URIs, but for its own, are qualified where several servers are shown."""


class Ready:
    """Pages that were joined before, of all listings together: what is listed again needs no work. More than
    ROOM is not kept, since the text of 10,000 tools would be there once more for each agent.

    Mutable: an owner of bytes, and a counter of those that still fit.
    """

    def __init__(self) -> None:
        self._pages: dict[tuple[int, int, bool], bytes] = {}
        self._left = ROOM

    def clear(self) -> None:
        """Something has changed: most of them will not be asked for again."""
        self._pages, self._left = {}, ROOM

    def get(self, number: int, start: int, stateless: bool) -> bytes | None:
        """A page of the listing that has this number."""
        return self._pages.get((number, start, stateless))

    def put(self, number: int, start: int, stateless: bool, text: bytes) -> None:
        takes = len(text) + _EACH
        if takes <= self._left:
            self._left -= takes
            self._pages[number, start, stateless] = text


#: Bytes of pages that are kept: those of 5,000 tools of usual length; 500 are joined in 0.3 ms.
ROOM: Final = 4 * 2**20
#: What a page takes besides, so that very many empty ones are as bounded.
_EACH: Final = 200


class Listing:
    """All entries of one kind, in order. `number` differs from that of every listing with other content."""

    def __init__(
        self, entries: Sequence[Listed], number: int, ready: Ready, warnings: tuple[str, ...] = ()
    ) -> None:
        self.entries = entries
        self._ready = ready
        self.number = number
        self.warnings = warnings
        """What was left out because of its name (a12)."""

    def page(self, start: int, stateless: bool) -> tuple[bytes, int | None]:
        """The entries from `start` on, joined as JSON text, and where the next page starts."""
        end = start + PAGE
        text = self._ready.get(self.number, start, stateless)
        if text is None:
            text = _joined(self.entries[start:end], stateless)
            self._ready.put(self.number, start, stateless, text)
        return text, end if end < len(self.entries) else None

    def same_content(self, other: Listing) -> bool:
        """Whether an agent could not tell the two apart."""
        if len(self.entries) != len(other.entries):
            return False
        pairs = zip(self.entries, other.entries, strict=True)
        return all(a.name == b.name and (a.thing is b.thing or a.thing == b.thing) for a, b in pairs)


def _joined(entries: Sequence[Listed], stateless: bool) -> bytes:
    pieces: list[bytes] = []
    for each in entries:
        thing = each.thing
        pieces += thing.pieces(each.name, stateless) if isinstance(thing, Tool) else (thing.entry(each.name),)
        pieces.append(b",")
    return b"".join(pieces[:-1])
