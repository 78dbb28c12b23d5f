"""The daemon itself: `hello` and `daemon.*`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mcpd.api import API_MAX, API_MIN, Params

Access = Literal["read", "narrow", "widen"]
"""What a method may change: nothing, only towards less, or also towards more (n06)."""


class Hello(Params, frozen=True, kw_only=True):
    client: str = ""
    version: str = ""
    api: tuple[int, int] = (API_MIN, API_MAX)
    """The lowest and the highest API number that the client speaks."""
    want: tuple[str, ...] = ()
    need: tuple[str, ...] = ()
    """Features without which the client cannot work; a missing one is an error."""


class HelloResult(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    api: int
    """The highest API number that both speak."""
    features: dict[str, bool]
    role: Literal["control"]
    instance: str
    """Random, new with each start of the daemon."""
    pid: int
    started: float


class Problem(msgspec.Struct, frozen=True):
    """Something wrong in a file; the rest of the file counts."""

    file: str
    place: str
    message: str


class Sockets(msgspec.Struct, frozen=True):
    control: str
    agents: dict[str, str]
    """Agent name -> path of its socket."""


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    pid: int
    instance: str
    started: float
    uptime: float
    servers: dict[str, int]
    """State -> number of servers in it."""
    sessions: int
    approvals: int
    """Calls that wait for a person."""
    problems: tuple[Problem, ...]
    sockets: Sockets
    config_file: str
    servers_dir: str
    agents: tuple[str, ...]


class Applied(msgspec.Struct, frozen=True):
    """One change that now counts, in words; values of variables and headers are not told (D12)."""

    place: str
    """`servers.NAME`, `agents.NAME`, `tool_policies.PATTERN`, `defaults.FIELD` or `servers_dir`."""
    what: str


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """Names of servers, sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Servers, among the others, whose definition cannot be used now: what ran before goes on."""
    held: dict[str, str] = {}
    """Servers, among the others, that would lead elsewhere and wait for `servers.accept`, and why (n24)."""
    problems: tuple[Problem, ...] = ()
    applied: tuple[Applied, ...] = ()
    """Everything that changed, agents and policies included (a03)."""


class MethodInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    access: Access
    doc: str
    params: dict[str, Any]
    """JSON Schema; `$ref` points into `components` of the description."""
    result: dict[str, Any]
    errors: tuple[str, ...]
    """The kinds that this method answers with, beside those that every method has."""


class Description(msgspec.Struct, frozen=True, kw_only=True):
    api: tuple[int, int]
    methods: tuple[MethodInfo, ...]
    components: dict[str, Any]
    errors: tuple[str, ...]
    """The kinds that every method may answer with."""
