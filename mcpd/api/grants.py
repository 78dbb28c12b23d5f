"""Lasting yes of a person: `grants.*` (DESIGN 8.4)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mcpd.api import Params

Lifespan = Literal["once", "session", "until", "count", "forever"]

#: Ten years, in seconds: longer is for ever.
LONGEST = 315_360_000


class Where(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one argument must be; it does not hold where the argument is absent, or where another has the same
    name but for upper and lower case."""

    argument: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    """A member of the arguments themselves."""
    test: Literal["equals", "prefix", "glob", "under"]
    value: Annotated[str, msgspec.Meta(min_length=1, max_length=65_536)]
    """JSON text for `equals`; else a beginning, a pattern with `*` and `?`, or an absolute folder that the
    argument, a path, is in when "." and ".." are taken out. Of a list each text must fit."""


class AddGrant(Params, frozen=True, kw_only=True):
    """Which tool: `server` and `tool`, both exact, or `name` as agents see it; with `*` or `?` after the
    server's name that is a pattern for tools of the server, which counts up to medium risk (D10)."""

    agent: str
    """Its exact name; "*" is every agent and the operator, "" the operator."""
    server: str = ""
    tool: str = ""
    name: Annotated[str, msgspec.Meta(max_length=500)] = ""
    where: Annotated[tuple[Where, ...], msgspec.Meta(max_length=16)] = ()
    """All must hold."""
    only: bool = False
    """There must be no other arguments than those of `where`."""
    lifespan: Lifespan
    session: str = ""
    """Of `session`: one that is attached."""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=LONGEST)] | None = None
    """Of `until`: from now."""
    count: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    """Of `count`: requests."""
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""


class GrantInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    agent: str
    server: str
    tool: str
    """The server's own name, or a pattern for such names."""
    exact: bool
    """It is a name; only then the grant counts at high risk."""
    where: tuple[Where, ...]
    only: bool
    lifespan: Lifespan
    session: str
    until: float
    """Seconds since the epoch; 0 without such an end."""
    count: int
    used: int
    """Requests that needed it; where nothing counts them, since the daemon started."""
    reason: str
    made_at: float
    idle: str
    """Why it covers nothing at present; else empty."""


class Grants(msgspec.Struct, frozen=True):
    grants: tuple[GrantInfo, ...]
    """The oldest first."""


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    grant: GrantInfo
    answered: int
    """Open questions that it has answered."""
    covered: int
    """Tools that it covers at present."""
    beyond: tuple[str, ...]
    """Tools that it names and does not cover, with the reason; 20 at most."""


class GrantId(Params, frozen=True, kw_only=True):
    id: str
