"""Tools of all servers, as the operator sees them: `tools.*`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mcpd.api import Params
from mcpd.api.terms import Approval, Risk


class ListTools(Params, frozen=True, kw_only=True):
    server: str = ""
    agent: str = ""
    """Only what this agent may use, in its spelling; empty: everything."""
    cursor: str = ""


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    tool: str
    """The server's own name."""
    name: str
    """The name that agents see (D2)."""
    title: str
    description: str
    risk: Risk
    approval: Approval
    annotations: dict[str, bool]
    held: str
    """Why its definition waits for a person, so that agents do not see it; else empty."""


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    tools: tuple[ToolInfo, ...]
    next_cursor: str = ""
    left_out: tuple[str, ...] = ()
    """What is missing from the list, each with the reason (b24)."""


class NamedTool(Params, frozen=True, kw_only=True):
    """Either `server` and `tool`, or `name` as agents see it."""

    server: str = ""
    tool: str = ""
    name: str = ""


class ToolDetails(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    tool: str
    name: str
    definition: msgspec.Raw
    """As the server sent it."""
    risk: Risk
    approval: Approval
    timeout: float
    because: tuple[str, ...]
    """The chain of rules, the deciding one first for each field."""
    held: str
    """As in `ToolInfo`."""
    flags: tuple[str, ...]
    """What a person should know of its definition (n18); the server's words in it are untrusted."""


class CallTool(NamedTool, frozen=True, kw_only=True):
    arguments: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    """A JSON object; it reaches the server as the same text (b29)."""
    timeout: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Seconds; it can only shorten what policy allows. `patience` is added to it."""
    patience: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds to wait for a person before the answer is `pending`; absent: what the settings say (n05)."""


class Called(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    tool: str
    result: msgspec.Raw
    """The CallToolResult; `isError` in it is the tool's own word."""
    duration: float
