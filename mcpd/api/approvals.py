"""Calls that wait for a person: `approvals.*` (a31, n05, n07)."""

from __future__ import annotations

from typing import Literal

import msgspec

from mcpd.api import Params
from mcpd.api.terms import Risk


class ListApprovals(Params, frozen=True, kw_only=True):
    agent: str | None = None
    """Only this agent's; "" is the operator. Absent: everybody's."""


class ApprovalId(Params, frozen=True, kw_only=True):
    id: str


class Approve(Params, frozen=True, kw_only=True):
    id: str
    seen: str = ""
    """The question's own `seen`; wanted where its arguments are cut in `approvals.list`, which says that
    whoever answers was shown the whole of `approvals.get`."""


class MuteAgent(Params, frozen=True, kw_only=True):
    agent: str
    """Its name; "" is the operator."""


class ApprovalArgument(msgspec.Struct, frozen=True, kw_only=True):
    """One value of the arguments. Characters that show nothing are written like `<U+202E>`."""

    name: str
    """Its place, such as "options.path"."""
    kind: Literal["path", "url", "command", ""]
    """What it looks like; in this order they come first."""
    value: str
    left_out: int
    """Characters of it that are not shown."""
    hidden: tuple[str, ...]
    """Which characters in it show nothing, in words."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A question without an answer."""

    id: str
    agent: str
    """Empty for the operator."""
    session: str
    pid: int
    exe: str
    cwd: str
    host: str
    """The command line of the program behind a bridge; empty where the calling process is no bridge."""
    server: str
    runs: str
    """The server's command line or address."""
    tool: str
    name: str
    """What the caller calls the tool."""
    method: str
    description: str
    risk: Risk
    question: str
    """Why it is asked."""
    because: tuple[str, ...]
    once_only: bool
    """No grant can answer it."""
    trustable: bool
    """The server is not trusted, and may be; what it says of its tools would count then."""
    flags: tuple[str, ...]
    """What else speaks against it."""
    arguments: tuple[ApprovalArgument, ...]
    left_out: int
    """Arguments that are not shown."""
    cut: bool
    """Whether anything is not shown."""
    seen: str
    """For `approvals.approve`; empty where not everything is shown."""
    asked_at: float
    """Seconds since the epoch."""
    left: float | None
    """Seconds until no answer is a no; null without a limit."""
    waiting: int
    """Calls that wait for the answer now."""


class UnusedYes(msgspec.Struct, frozen=True, kw_only=True):
    """A yes that waits for its call to come again."""

    id: str
    agent: str
    server: str
    tool: str
    name: str
    left: float
    """Seconds that it still counts."""


class MutedAgent(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    left: float | None
    """Seconds; null where a person said so."""


class ApprovalList(msgspec.Struct, frozen=True, kw_only=True):
    approvals: tuple[Approval, ...]
    """The oldest first."""
    unused: tuple[UnusedYes, ...]
    muted: tuple[MutedAgent, ...]


class ApprovalDetails(Approval, frozen=True, kw_only=True):
    """A question with everything shown."""

    long: bool
    """A card does not show all of it: a yes needs `seen`."""
    text: msgspec.Raw
    """The arguments as they would reach the server (b29)."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    agent: str
    server: str
    tool: str
    name: str
    outcome: Literal["approved", "denied"]
    waiting: int
    """Calls that waited for it; 0: the agent has to call again."""


class Unmuted(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    was_muted: bool
