"""Servers, their live side and what the operator does with them: `servers.*`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from mcpd.api import Params
from mcpd.api.status import Status
from mcpd.api.terms import Approval, Risk


class ServerName(Params, frozen=True, kw_only=True):
    server: str


class LeakPins(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What becomes of what looks like a secret (n17); absent leaves it to the next rule."""

    arguments: Literal["ask", "allow"] | None = None
    results: Literal["redact", "allow"] | None = None


class PolicyPins(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a person pinned for all tools of a server (a25); absent leaves it to the next rule."""

    risk: Risk | None = None
    approval: Approval | None = None
    timeout: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Seconds, 0 = no limit."""
    leaks: LeakPins | None = None


class InstanceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One of several that a server has (n04)."""

    kind: Literal["operator", "agent", "project"]
    """Whose it is."""
    of: str
    """The agent's name, or the project's root; empty for the operator and for sessions without a root."""
    status: Status


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    source: str
    """The file that defines it."""
    transport: Literal["stdio", "http", ""]
    """Empty where the definition cannot be used."""
    command: str
    args: tuple[str, ...]
    url: str
    enabled: bool
    disabled_by: str
    """The file that says `enabled = false`; empty when only `servers.disable` does, or nothing."""
    start: Literal["lazy", "eager"]
    instance: Literal["shared", "agent", "project"]
    """Who shares a running instance."""
    status: Status
    """Where there are several instances, of the one that says most."""
    instances: tuple[InstanceInfo, ...]
    """Those of agents and projects, and the operator's while it does not rest; empty where one is shared."""
    held: str
    """What waits for `reload` or `servers.accept`, and why; empty when nothing does (a03, n24)."""
    step: str
    """The command that it waits for; else empty."""
    trusted: bool
    """What it says of its tools may lower a risk (b12)."""


class Servers(msgspec.Struct, frozen=True):
    servers: tuple[ServerInfo, ...]


class ServerDetails(ServerInfo, frozen=True, kw_only=True):
    env: dict[str, str]
    """Values masked (D12)."""
    headers: dict[str, str]
    """Values masked (D12)."""
    cwd: str
    path: str
    executable: str
    """The file that the command was found as when the files were read; empty where it was not."""
    keeps: str
    """What it is known to keep for its caller, where `instance` is "agent" because of that; else empty."""
    default_policy: PolicyPins
    sampling: bool
    """Whether it may ask agents' models."""
    roots: Literal["none", "fixed", "agent"]
    """What it hears of folders: nothing, its own, or those of the agent that calls it."""
    told: tuple[str, ...]
    """What the running instance was told that its clients can be asked, such as "elicitation.form"; empty
    for one that is told with each request, and for none."""
    takes_turns: bool
    """It asks without saying about whose request, so that only one client at a time has requests there."""
    warnings: tuple[str, ...]
    """What was wrong with its catalogue or its entry."""


class AddServer(Params, frozen=True, kw_only=True):
    """Values are literal: no variables are filled in (a05)."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    cwd: str = ""
    path: str = ""
    start: Literal["lazy", "eager"] = "lazy"
    default_policy: PolicyPins = PolicyPins()
    enabled: bool = True
    url: str = ""
    env: dict[str, str] = msgspec.field(default_factory=dict)
    """Refused: there is no place for secret values yet."""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    """Refused like `env`."""


class Removed(msgspec.Struct, frozen=True):
    removed_file: str


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of the attempt that opened the connection; 0 where a step did not happen."""

    open: float = 0.0
    catalogue: float = 0.0
    total: float = 0.0


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """What runs or is contacted, and gets the values of env and headers (n24)."""

    command: str
    """The file that is started, or, where it was not found, the command."""
    args: tuple[str, ...]
    cwd: str
    url: str
    """Masked (D12)."""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """What accepting a server means."""

    server: str
    waits: str
    """Why it is held; empty where nothing waits."""
    old: Destination | None
    """As it was accepted last; None for a server that never was."""
    new: Destination
    changed: tuple[str, ...]
    """The fields of the definition that differ; of env and headers no values."""
    was: str = ""
    """What a launcher started when it was accepted, with its version."""
    becomes: str = ""
    """What it starts now instead; empty where it is the same, or cannot be told (n09)."""
    gets: tuple[str, ...]
    """The values of env and headers that the new destination gets, by name."""
    loses: tuple[str, ...]
    """What a person has agreed to for the old destination, which does not count for the new one."""
    default_policy: PolicyPins
    """That of the new definition."""
    trusted: bool
    """Whether it is trusted at the new one: because config.toml says so, or it was trusted there before."""
    shown: str
    """To be sent back to `servers.accept`, which takes exactly this."""


class AcceptServer(Params, frozen=True, kw_only=True):
    server: str
    shown: str
    """From `servers.review`: whoever accepts has seen old and new."""


class ServerTest(msgspec.Struct, frozen=True, kw_only=True):
    server: str
    ok: bool
    error: str
    """Why it is not ok."""
    hint: str
    status: Status
    revision: str
    server_info: dict[str, Any]
    capabilities: dict[str, Any]
    """As the server said it, like all of its words untrusted (b25)."""
    instructions: str
    tools: int
    """Of the server's own; wrappers of mcpd are not counted."""
    resources: int
    templates: int
    prompts: int
    warnings: tuple[str, ...]
    timings: Timings


class ServerLogs(Params, frozen=True, kw_only=True):
    server: str
    lines: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class LogLine(msgspec.Struct, frozen=True):
    at: float
    text: str
    instance: str
    """Which of several wrote it: "agent NAME" or "project ROOT"; else empty."""


class Logs(msgspec.Struct, frozen=True):
    server: str
    lines: tuple[LogLine, ...]
    """The last lines of its stderr, oldest first."""
