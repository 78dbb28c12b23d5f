"""What happens while somebody watches: `events.subscribe` and the notifications after it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from mcpd.api import Params
from mcpd.api.servers import ServerInfo

Topic = Literal["status", "catalog", "servers", "sessions", "grants", "approvals", "leaks"]

TOPICS: tuple[Topic, ...] = ("status", "catalog", "servers", "sessions", "grants", "approvals", "leaks")


class Subscribe(Params, frozen=True, kw_only=True):
    topics: tuple[Topic, ...] = TOPICS
    since: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The last number seen before; what came after it is sent again where it is still known."""


class Snapshot(msgspec.Struct, frozen=True):
    servers: tuple[ServerInfo, ...]


class Subscribed(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    """The number of the last change that the snapshot contains."""
    gap: bool
    """Changes after `since` are lost; the snapshot is the truth."""
    snapshot: Snapshot


class Event(msgspec.Struct, frozen=True):
    """Params of the notification `event`. Numbers rise, but not by one: other topics use the same count."""

    seq: int
    topic: str
    data: Any
