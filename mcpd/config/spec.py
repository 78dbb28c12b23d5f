"""Configuration as data: what the files say, checked and complete.

Pure: structs only. Reading files is `load`, writing them `save`.
Durations are seconds; 0 switches a limit off (D9). Sizes are bytes.
"""

from __future__ import annotations

import hashlib
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from mcpd.catalog.names import Spelling as Spelling
from mcpd.policy.asks import Roots as Roots
from mcpd.policy.terms import Approval as Approval
from mcpd.policy.terms import Policy as Policy
from mcpd.policy.terms import Replay as Replay
from mcpd.policy.terms import Risk as Risk

Start = Literal["lazy", "eager"]
Protocol = Literal["auto", "legacy", "2026-07-28"]
Instance = Literal["shared", "agent", "project"]
Approver = Literal["person", "host"]


#: The user's files, in the folder of the configuration: the main one, an agent's each, and by default a
#: server's each.
MAIN = "config.toml"
AGENTS_DIR = "agents.d"
SERVERS_DIR = "servers.d"


class Hold(msgspec.Struct, frozen=True):
    """Why what the files say of a server does not count yet."""

    server: str
    what: str
    step: Literal["reload", "accept", "mend"]
    """What it waits for: either command, or that the file is mended first."""

    @property
    def command(self) -> str:
        """What a person types."""
        return f"mcpctl accept {self.server}" if self.step == "accept" else "mcpctl reload"

    @property
    def words(self) -> str:
        return self.what if self.step == "mend" else f"{self.what}, waits for {self.command}"


class Problem(msgspec.Struct, frozen=True):
    """Something wrong in a file; the rest of the file still counts."""

    file: str
    place: str
    """Where in the file: a line ("line 3"), a table ("servers.search.url") or "" for the whole."""
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """One server as the user configured it, variables filled in (a04)."""

    name: str
    source: str
    """The file that defines it."""
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str = ""
    """Working folder; empty means the home folder (b03)."""
    path: str = ""
    """Folders, separated by ':', searched for the command before anything else (b03)."""
    executable: str = ""
    """The file that the command was found as when the files were read; empty where there was none."""
    url: str = ""
    headers: dict[str, str] = {}
    policy: Policy = Policy()
    trusted: bool | None = None
    """What config.toml says of trust in it (b30); None leaves that to `mcpctl trust`."""
    enabled: bool = True
    disabled_by: str = ""
    """The file that says no, where `enabled` is false (b31)."""
    start: Start = "lazy"
    replay: Replay = "auto"
    protocol: Protocol = "auto"
    sampling: bool = False
    """Whether it may ask agents' models (n03)."""
    roots: Roots = "none"
    """What it hears of folders: nothing, its own `cwd`, or those of the agent that calls it (DESIGN 7)."""
    instance: Instance = "shared"
    """Who shares a running instance: all, the sessions of an agent, or those of a project root (n04)."""
    keeps: str = ""
    """Why `instance` is "agent" without a word in the definition: "browser", "shell" or "thinking"."""
    connect_timeout: float | None = None
    """Seconds for one attempt up to the catalogue; None takes c12's value."""
    idle_timeout: float | None = None

    @property
    def digest(self) -> str:
        """A fingerprint of everything that decides what runs or is contacted."""
        parts: tuple[object, ...] = (
            self.command,
            self.args,
            sorted(self.env.items()),
            self.cwd,
            self.path,
            self.url,
            sorted(self.headers.items()),
            self.protocol,
        )
        if self.executable:
            parts += (self.executable,)
        if self.sampling or self.roots != "none":
            # Said once, when it is opened, so a change is a new beginning (5.1).
            parts += (self.sampling, self.roots)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    @property
    def destination(self) -> str:
        """A fingerprint of what gets the values of `env` and `headers`; under the server's name and this,
        what a person has agreed to is filed (n24)."""
        parts: tuple[object, ...]
        if self.url:
            url = urlsplit(self.url)
            port = url.port or {"http": 80}.get(url.scheme, 443)
            parts = (url.scheme, url.hostname, port, url.path or "/")
        else:
            parts = (self.executable or self.command, self.args, self.cwd)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


class Faulty(msgspec.Struct, frozen=True):
    """An entry that names a server but cannot be used; it stays listed as failed (a05, a07)."""

    name: str
    source: str
    reason: Literal["bad_definition", "unset_variable"]
    message: str
    disabled_by: str = ""
    """The file that says `enabled = false` all the same (b30)."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A named identity and what it may use (a29, D11)."""

    name: str
    source: str = ""
    allowed_tools: tuple[str, ...] | None = None
    """Exact names and globs; None allows every server of the user's own, () nothing (D11)."""
    denied_tools: tuple[str, ...] = ()
    spelling: Spelling = "server__tool"
    open: bool = False
    """A process on the default socket may say that it is this agent."""
    max_risk: Risk = "high"
    """Calls above it are denied, whatever else allows them (b33)."""
    auto_approve: tuple[str, ...] = ()
    """What needs no question: globs up to medium risk, exact names up to any (D10)."""
    approver: Approver = "person"
    """Whom questions of its calls go to; "host": up to medium risk also the program that called (a31)."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`[defaults]` of config.toml and the other settings, built-in values filled in."""

    risk: Risk = "medium"
    approval: Approval = "unless_auto_approved"
    timeout: float = 60.0
    unannotated: Risk = "medium"
    """What a trusted server's silent tools are (D7)."""
    timeout_max: float = 1800.0
    max_result: int = 102_400
    idle_timeout: float = 900.0
    max_in_flight_session: int = 8
    journal_keep_days: int = 90
    journal_keep_bytes: int = 524_288_000
    journal_arguments: bool = False
    """Whether the journal keeps the arguments of calls, without values that mcpd holds (n12)."""
    approval_wait: float = 45.0
    """Seconds that a call waits for a person, then it is answered as pending (n05); 0: until the deadline."""
    approval_deadline: float = 900.0
    """Seconds after which a question nobody answered counts as a no (n05); 0: it stays open."""
    notify: tuple[str, ...] = ()
    """A command line started for each new question, which gets it as JSON on stdin (a31); no shell."""
    servers_dir: str = ""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the files say. Loading never fails; what is wrong stands in `problems`."""

    settings: Settings = Settings()
    servers: dict[str, Server] = {}
    faulty: dict[str, Faulty] = {}
    agents: dict[str, Agent] = {}
    tool_policies: tuple[tuple[str, Policy], ...] = ()
    """(pattern, policy) in the order of the file (a26)."""
    problems: tuple[Problem, ...] = ()
    whole: bool = True
    """False where config.toml could not be read at the start, so that nothing is used."""

    def problems_of(self, file: str, place: str = "") -> tuple[str, ...]:
        """What is wrong in a file, in words; with `place`, only what stands there."""
        return tuple(
            str(problem)
            for problem in self.problems
            if problem.file == file and (not place or f"{problem.place}.".startswith(f"{place}."))
        )
