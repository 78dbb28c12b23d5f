"""Definitions that a person has seen: `pins.*` (n09, n18)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mcpd.api import Params

Kind = Literal["tool", "prompt", "template", "instructions"]

State = Literal["held", "changed", "pinned", "new", "gone"]
"""held: waits for a person. changed: in a way that needs nobody. new: nobody has seen it yet. gone: pinned,
and the server has it no more."""


class ListPins(Params, frozen=True, kw_only=True):
    server: str = ""
    """Empty for all: those that nobody has seen yet are left out then."""


class Flag(msgspec.Struct, frozen=True):
    """Something in a definition that a person should know of. Its words are the server's: untrusted."""

    code: str
    hard: bool
    """It holds the definition, whatever the trust."""
    where: str
    words: str


class PinInfo(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    kind: Kind
    name: str
    """Its own name, of a resource template the URI template, of a server's instructions empty."""
    state: State
    classes: tuple[str, ...]
    """What has changed since: text, loosened, shape, tightened, cosmetic; the gravest first."""
    why: str
    """Why it waits; else empty."""
    usable: bool
    """Agents have it, as it was approved where it waits."""
    pinned_at: float
    """Seconds since the epoch; 0 for never."""
    flags: tuple[Flag, ...]
    """Those that hold it."""


class PinList(msgspec.Struct, frozen=True):
    pins: tuple[PinInfo, ...]
    """Those that wait first."""
    more: int
    """Further ones that were left out."""


class Flagged(msgspec.Struct, frozen=True):
    kind: Kind
    name: str
    flags: tuple[Flag, ...]
    """Hard ones first."""


class FlaggedPins(msgspec.Struct, frozen=True):
    definitions: tuple[Flagged, ...]
    more: int
    """Further definitions with flags that were left out."""


class DiffPins(Params, frozen=True, kw_only=True):
    server: str
    names: Annotated[tuple[str, ...], msgspec.Meta(max_length=100)] = ()
    """Own names of what is to be shown; none: all that waits."""


class Piece(msgspec.Struct, frozen=True):
    sign: Literal["same", "gone", "new"]
    text: str


class ChangeInfo(msgspec.Struct, frozen=True, kw_only=True):
    kind: Literal["text", "loosened", "shape", "tightened", "cosmetic"]
    where: str
    before: str
    """The text, or the JSON text of what is none; empty for absent."""
    after: str
    pieces: tuple[Piece, ...]
    """The same word by word."""


class PinDiff(msgspec.Struct, frozen=True, kw_only=True):
    pin: PinInfo
    changes: tuple[ChangeInfo, ...]
    phrases: tuple[Flag, ...]
    """What a person should have read besides; it holds nothing."""
    definition: str
    """The JSON text as the server tells it now."""
    seen: str
    """What `pins.accept` takes for having seen exactly this."""


class PinDiffs(msgspec.Struct, frozen=True):
    diffs: tuple[PinDiff, ...]
    more: int
    """Further ones that wait and were left out."""


class SeenPin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: Kind
    name: str
    seen: str
    """Of `pins.diff`."""


class AcceptPins(Params, frozen=True, kw_only=True):
    server: str
    definitions: Annotated[tuple[SeenPin, ...], msgspec.Meta(min_length=1, max_length=10_000)]


class Accepted(msgspec.Struct, frozen=True):
    pins: tuple[PinInfo, ...]
