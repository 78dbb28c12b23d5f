"""Agents, what each may use, and the sessions that are attached: `agents.*`, `sessions.switch` (b20, c23)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mcpd.api import Params
from mcpd.api.terms import Risk

Patterns = Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=256)]


class NamedAgent(Params, frozen=True, kw_only=True):
    agent: str


class AddAgent(Params, frozen=True, kw_only=True):
    """The members are those of an agent's file; a server's name among the patterns means its tools."""

    agent: str
    allowed_tools: tuple[str, ...] | None = None
    """Absent: every server of the user's own; empty: none (D11)."""
    denied_tools: tuple[str, ...] = ()
    max_risk: Risk = "high"
    auto_approve: tuple[str, ...] = ()
    approver: Literal["person", "host"] = "person"
    open: bool = False
    spelling: Literal["server__tool", "mcp_server_tool"] = "server__tool"


class AgentTools(Params, frozen=True, kw_only=True):
    agent: str
    tools: Patterns
    """Names of servers, names of tools, patterns."""


class AgentRisk(Params, frozen=True, kw_only=True):
    agent: str
    max_risk: Risk


class ListSessions(Params, frozen=True, kw_only=True):
    agent: str = ""
    """Only those of this agent."""


class SwitchServer(Params, frozen=True, kw_only=True):
    session: str
    server: str
    on: bool


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    source: str
    """The file that defines it; empty for the default agent without an entry."""
    allowed_tools: tuple[str, ...] | None
    """null: every server of the user's own (D11)."""
    denied_tools: tuple[str, ...]
    max_risk: Risk
    auto_approve: tuple[str, ...]
    approver: str
    spelling: str
    open: bool
    sessions: int
    """How many are attached."""
    problems: tuple[str, ...]
    """What is wrong with its entry, or waits for `reload`."""


class Agents(msgspec.Struct, frozen=True):
    agents: tuple[AgentInfo, ...]


class ServerShare(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a server an agent may use."""

    server: str
    known: bool
    """Whether its catalogue is known; else the numbers are 0."""
    tools: int
    """Tools and wrapper tools that the agent may use."""
    of: int
    """How many there are."""
    above: int
    """How many of those it may use are above its `max_risk`: calls of them are denied."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    agent: str
    pid: int
    """0 where several processes share it."""
    exe: str
    cwd: str
    root: str
    """The project's folder; empty where none was said."""
    began: float
    """Seconds since the epoch."""
    server: str
    """The one server that it is shown; empty for all."""
    without: tuple[str, ...]
    """Servers that it left out when it came."""
    off: tuple[str, ...]
    """Servers that were switched off for it since."""


class AgentDetails(AgentInfo, frozen=True, kw_only=True):
    servers: tuple[ServerShare, ...]
    """Those that it may use something of."""
    attached: tuple[SessionInfo, ...]
    socket: str


class AgentChanged(msgspec.Struct, frozen=True, kw_only=True):
    agent: AgentInfo
    changed: bool
    """False where nothing was to be done."""
    file: str
    """What was written; empty where nothing was."""
    notes: tuple[str, ...]
    """What a person should know: patterns that match nothing now, denials that stay."""


class AgentRemoved(msgspec.Struct, frozen=True):
    file: str


class Sessions(msgspec.Struct, frozen=True):
    sessions: tuple[SessionInfo, ...]
