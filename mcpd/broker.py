"""The owners of the daemon's state, in one struct that everything above is handed. No methods."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from mcpd import answers
from mcpd.changes import Changes
from mcpd.config.spec import Config, Hold, Problem, Server
from mcpd.consent.accepted import AcceptedBook
from mcpd.consent.approvals import Approvals
from mcpd.consent.factor import Factor
from mcpd.consent.grantbook import GrantBook
from mcpd.consent.hosts import Hosts
from mcpd.consent.launchbook import LaunchBook
from mcpd.consent.pinbook import PinBook
from mcpd.consent.state import StateBook
from mcpd.consent.store import Store
from mcpd.consent.trustbook import TrustBook
from mcpd.errors import Failure
from mcpd.journal import Journal
from mcpd.protocol.abilities import Ability
from mcpd.rows import ViewKey
from mcpd.secrets.held import HeldValues
from mcpd.tasks import Tasks
from mcpd.transport.pending import Asker
from mcpd.upstream.fleet import Fleet
from mcpd.views import Views

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class AttachedSession(Protocol):
    """One attached agent process, as far as others need to know it."""

    id: str
    agent: str
    pid: int
    exe: str
    cwd: str
    began: float
    """Seconds since the epoch."""
    off: frozenset[str]
    """Servers that were switched off for it (c23)."""

    def switch(self, server: str, on: bool) -> None:
        """Show it a server no more, or again."""
        ...

    @property
    def key(self) -> ViewKey:
        """What it may see."""
        ...

    @property
    def abilities(self) -> Ability:
        """What it can be asked (5.1)."""
        ...

    @property
    def standing(self) -> Asker | None:
        """It, as one who can be asked out of a request; None where it cannot."""
        ...

    def changed(self) -> None:
        """Some catalogue or server changed; tell the agent if what it was shown did."""
        ...


class Endpoint(Protocol):
    """Where agents come in over HTTP, as far as others need to know it."""

    @property
    def port(self) -> int:
        """0 while it does not listen."""
        ...

    @property
    def urls(self) -> tuple[str, ...]: ...

    @property
    def problem(self) -> str:
        """Why it does not listen although it should."""
        ...

    @property
    def sessions(self) -> int: ...

    async def open(self, port: int) -> None:
        """Listen, or move to that port; 0 is any. Raises Failure `refused`, and goes on as before then."""
        ...

    async def close(self) -> None:
        """Listen no more and end every session."""
        ...

    def end_sessions(self, agent: str) -> None:
        """End those of one agent: its token is of no use any more."""
        ...


class NoEndpoint:
    """Until somebody serves HTTP."""

    port = 0
    urls = ()
    problem = ""
    sessions = 0

    async def open(self, port: int) -> None:
        raise Failure("refused", "cannot listen: nothing here serves HTTP")

    async def close(self) -> None:
        pass

    def end_sessions(self, agent: str) -> None:
        pass


@dataclass(slots=True)
class Broker:
    """`config` is replaced whole by `applying`; everything else lives as long as the daemon."""

    config: Config
    fleet: Fleet
    journal: Journal
    store: Store
    """state.db, which the books are kept in."""
    changes: Changes
    config_dir: str
    control_socket: str
    agents_dir: str
    """The folder of the agents' sockets: <agents_dir>/<name>/mcp.sock."""
    environ: Mapping[str, str]
    instance: str
    started: float
    """Seconds since the epoch."""
    secret: bytes
    """Random for this run; authenticates cursors."""
    held_values: HeldValues = field(default_factory=HeldValues)
    """What nobody but its server is to read (n17)."""
    stop: trio.Event = field(default_factory=trio.Event)
    session_numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    sessions: dict[str, AttachedSession] = field(default_factory=dict)
    tasks: Tasks = field(default_factory=Tasks)
    """What agents follow of what servers do for them."""
    held: dict[str, Hold] = field(default_factory=dict)
    """Servers whose new definition waits for `reload` or `accept`, with the reason (a03, n24)."""
    waiting: dict[str, Server] = field(default_factory=dict)
    """Those of them that have no accepted definition to go on with: they are shown and do not start."""
    troubles: tuple[Problem, ...] = ()
    """What is wrong with the daemon's own process, for the status; replaced whole."""
    endpoint: Endpoint = field(default_factory=NoEndpoint)
    editing: trio.Lock = field(default_factory=trio.Lock)
    """Held by whoever changes the configuration; see `applying`."""
    state: StateBook = field(init=False)
    accepted: AcceptedBook = field(init=False)
    trust: TrustBook = field(init=False)
    launches: LaunchBook = field(init=False)
    grants: GrantBook = field(init=False)
    pins: PinBook = field(init=False)
    approvals: Approvals = field(init=False)
    hosts: Hosts = field(init=False)
    """Which processes are agents' own."""
    factor: Factor = field(init=False)
    views: Views = field(init=False)

    def __post_init__(self) -> None:
        self.state = StateBook(self.store)
        self.accepted = AcceptedBook(self.store)
        self.trust = TrustBook(self.store)
        self.launches = LaunchBook(self.store)
        self.grants = GrantBook(self.store)
        self.approvals = Approvals(self.changes, partial(answers.record, self.journal))
        self.hosts = Hosts(self.approvals.lives)
        self.factor = Factor(self.store)
        self.pins = PinBook(self.store)
        self.views = Views(self.changes, self.trust, self.pins)
