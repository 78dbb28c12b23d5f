"""The tasks that agents follow, under ids of mcpd's own (n03, 5.15, 5.16).

An id is random and good for its owner alone: an agent, or one session of the agent that every program
may be. What it stands for is kept in memory only: a server's own ids may be all that it takes to reach a
task, and most servers end with the daemon. A call that makes a task does so by a step of its own (5.15), or
its stateless server decides that (5.16): `take` sees both.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import trio

from mcpd.caller import Caller
from mcpd.catalog import tasks
from mcpd.catalog.content import Bounded
from mcpd.catalog.tasks import DETAIL, LONGEST_LIFE, TERMINAL, Task
from mcpd.errors import Failure
from mcpd.protocol import extensions
from mcpd.protocol.extensions import TASKS
from mcpd.rows import Row
from mcpd.transport.pending import Asker
from mcpd.upstream.connection import Connection
from mcpd.upstream.drive import Make, read
from mcpd.upstream.step import Step
from mcpd.upstream.upstream import Upstream

#: Tasks of one owner, and of all together; then the oldest goes.
OWN = 256
ALL = 8192

#: Seconds that a task stays known after its server has said that it keeps it no longer: clocks differ.
GRACE = 60.0


class Held(msgspec.Struct, eq=False):
    """A task that an agent follows."""

    id: str
    """mcpd's own."""
    owner: str
    upstream: Upstream
    """The very instance that runs it."""
    tool: str
    """The server's own name of the tool; with it stands and falls what may be done with the task (a01)."""
    name: str
    """What the agent called it."""
    own: str
    """The server's own id."""
    stateless: bool
    """It is one of 2026-07-28's extension."""
    end: Callable[[], None]
    """Called when it is no longer kept."""
    connection: Connection | None = None
    """That on which it was made: a server's next process may give its id to others (n03)."""
    text: bytes = b""
    """What the server has said of it last, JSON text under the server's id."""
    status: str = "working"
    expires: float = 0.0
    """Trio clock."""
    asked: dict[str, Any] = {}
    """What the server wants to know, as the agent was shown it, by the task's keys."""
    answered: set[str] = set()
    """Keys to which it has an answer."""

    @property
    def over(self) -> bool:
        return self.status in TERMINAL

    @property
    def gone(self) -> bool:
        """Whoever runs it has ended, and the task with it."""
        return not self.upstream.remembers(self.connection)

    def heard(self, task: Task, text: bytes) -> None:
        """The server has said something new of it."""
        self.status = task.status
        if len(text) <= DETAIL:
            self.text = text
        self.expires = trio.current_time() + min(task.life + GRACE, LONGEST_LIFE)
        if self.over:
            self.end()


class Tasks:
    """The owner of them all."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}
        """In the order in which they were made."""

    def __len__(self) -> int:
        return len(self._held)

    def keep(
        self,
        owner: str,
        upstream: Upstream,
        names: tuple[str, str],
        task: Task,
        text: bytes,
        end: Callable[[], None],
        *,
        stateless: bool,
    ) -> Held:
        """A task was made. `names`: of its tool, the server's own and the agent's."""
        self._make_room(owner)
        ident = secrets.token_urlsafe(24)
        held = Held(ident, owner, upstream, *names, task.id, stateless, end, upstream.connection)
        self._held[held.id] = held
        held.heard(task, text)
        return held

    def _make_room(self, owner: str) -> None:
        now = trio.current_time()
        for held in [held for held in self._held.values() if held.gone or held.expires <= now]:
            self.drop(held)
        own = self.of(owner)
        if len(own) >= OWN:
            # What has ended goes first: its owner has had the time to ask for it.
            self.drop(next((held for held in own if held.over), own[0]))
        elif len(self._held) >= ALL:
            self.drop(next(iter(self._held.values())))

    def find(self, ident: str, owner: str, *, stateless: bool) -> Held | None:
        """None for an id that is unknown, expired, of another owner or of the other form."""
        held = self._held.get(ident)
        if held is None or held.owner != owner or held.stateless != stateless:
            return None
        if held.gone or held.expires <= trio.current_time():
            self.drop(held)
            return None
        return held

    def of(self, owner: str) -> list[Held]:
        """The oldest first."""
        now = trio.current_time()
        own = [held for held in self._held.values() if held.owner == owner]
        return [held for held in own if held.expires > now and not held.gone]

    def drop(self, held: Held) -> None:
        if self._held.pop(held.id, None) is not None:
            held.end()

    def forget(self, owner: str) -> None:
        """The session that owned them has ended."""
        for held in [held for held in self._held.values() if held.owner == owner]:
            self.drop(held)


Told = Callable[[Held, bytes], None]
"""Hears of a server's notices about a task's state, JSON text."""


class Making(Make):
    """The step that makes a task for an agent with a handshake, which follows it itself (5.15)."""

    def __init__(self, ask: Step, wish: bytes, told: Told) -> None:
        """`wish`: the call's `task`, JSON text."""
        super().__init__(ask, wish)
        self.told = told


def take(
    book: Tasks, caller: Caller, row: Row, raw: bytes, asker: Asker | None, step: object
) -> Bounded | None:
    """What a caller gets that follows the task which its call has made; None for any other result.

    Raises Failure `bad_answer` for what is no task although it says so.
    """
    if isinstance(step, Making):
        text, end = tasks.made_handshake(raw), step.thread.end
    elif asker is not None and asker.extensions and row.method == "tools/call" and tasks.made_stateless(raw):
        catalog = row.upstream.catalog
        both = extensions.towards_server(asker.extensions, catalog.extensions if catalog is not None else {})
        text, end = raw if TASKS in both else b"", _nothing
    else:
        return None
    if not text:
        return None
    stateless = not isinstance(step, Making)
    names = (row.tool.name, row.name)
    task = read(row.upstream, text)
    held = book.keep(caller.owner, row.upstream, names, task, text, end, stateless=stateless)
    try:
        made = tasks.made(raw, held.id, stateless=stateless)
    except Failure:
        book.drop(held)
        raise
    if isinstance(step, Making):
        step.thread.followed.told = partial(step.told, held)
    return made


def _nothing() -> None:
    """No connection remembers the task."""
