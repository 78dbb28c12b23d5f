"""The loopback endpoint for agents that come over HTTP, and their tokens: `endpoint.*` (n23)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mcpd.api import Params

#: What `mcpd` spells on a telephone.
PORT = 6273


class EnableEndpoint(Params, frozen=True, kw_only=True):
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] | None = None
    """Absent: the one it had last, or 6273. 0: another free one at each start; where it listens it stays."""


class AgentToken(Params, frozen=True, kw_only=True):
    agent: str
    rotate: bool = False
    """Replace a token that the agent already has."""


class AgentWithToken(Params, frozen=True, kw_only=True):
    agent: str


class TokenInfo(msgspec.Struct, frozen=True):
    agent: str
    made: float
    """Seconds since the epoch."""
    usable: bool
    """False while no agent of that name is configured."""


class EndpointStatus(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool
    port: int
    """Where it listens, else the one it would take."""
    urls: tuple[str, ...]
    """Of everything an agent may use, at each address; empty while it does not listen. One server alone is at
    `/server/NAME` in place of `/mcp`."""
    problem: str
    """Why it does not listen although it is enabled."""
    sessions: int
    tokens: tuple[TokenInfo, ...]


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    token: str
    """Told this once: only a hash of it is kept."""
    replaced: bool
    """The one that the agent had before is of no use any more."""
    urls: tuple[str, ...]
    """Empty while the endpoint does not listen."""
