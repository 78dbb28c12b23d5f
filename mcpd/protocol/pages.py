"""One page of a server's list, read no further than needed: the entries may be very many (5.10)."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mcpd.protocol.arrays import elements

List = Literal["tools/list", "resources/list", "resources/templates/list", "prompts/list"]

#: Seconds that a list may be taken for fresh at most, whatever the server says (5.18).
LONGEST_TTL: Final = 86_400.0

_NONE: Final = msgspec.Raw(b"[]")


class Page(msgspec.Struct, frozen=True):
    """What a page says beside its entries."""

    entries: bytes
    """JSON text, of an array if the page is sound."""
    next_cursor: str | None
    """Null counts as absent; an empty string is a cursor like any other."""
    ttl: float
    """Seconds for which it is fresh; 0 where nothing usable is said (5.18)."""

    def first(self, most: int) -> tuple[list[bytes], bool] | None:
        """At most so many entries and whether there are more; None when they are no array."""
        try:
            return elements(self.entries, most)
        except (msgspec.MsgspecError, RecursionError):
            return None


class _Shape(msgspec.Struct, rename="camel"):
    next_cursor: str | None = None
    ttl_ms: msgspec.Raw = msgspec.Raw()


class _Tools(_Shape):
    entries: msgspec.Raw = msgspec.field(default=_NONE, name="tools")


class _Resources(_Shape):
    entries: msgspec.Raw = msgspec.field(default=_NONE, name="resources")


class _Templates(_Shape):
    entries: msgspec.Raw = msgspec.field(default=_NONE, name="resourceTemplates")


class _Prompts(_Shape):
    entries: msgspec.Raw = msgspec.field(default=_NONE, name="prompts")


_Pages = _Tools | _Resources | _Templates | _Prompts

_DECODERS: Final[dict[List, msgspec.json.Decoder[_Pages]]] = {
    "tools/list": msgspec.json.Decoder(_Tools),
    "resources/list": msgspec.json.Decoder(_Resources),
    "resources/templates/list": msgspec.json.Decoder(_Templates),
    "prompts/list": msgspec.json.Decoder(_Prompts),
}


def read_page(method: List, raw: bytes) -> Page | None:
    """A page of the answer to `method`; None when it does not have the shape. Entries are not looked at."""
    try:
        page = _DECODERS[method].decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Page(bytes(page.entries), page.next_cursor, _seconds(bytes(page.ttl_ms)))


def _seconds(text: bytes) -> float:
    """A `ttlMs` in seconds; what is no whole number from 0 on counts as 0 (5.18)."""
    whole = text.isdigit() and len(text) < 16
    return min(int(text) / 1000, LONGEST_TTL) if whole else 0.0
