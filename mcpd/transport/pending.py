"""Requests that wait for an answer.

A slot is one waiting request: one task waits in it or one function is told, and exactly one outcome settles
it. It costs no scope, event or task of its own. Deadlines are swept from one set of live slots, by one
task, only while there are any.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

import msgspec
import trio

from mcpd.errors import Failure
from mcpd.protocol.abilities import Ability
from mcpd.protocol.input import Question

Outcome = bytes | BaseException

#: How late a deadline may be noticed, in seconds.
SWEEP = 0.1


class Ask(Protocol):
    """A question of a server, until it is answered, refused or no longer open."""

    server: str
    question: Question
    can: Ability
    """What its caller can be asked, as far as the server was told."""
    closed: Callable[[], None]
    """Called once when nobody waits for an answer any more; not after `answer` and `refuse`."""
    hurried: Callable[[], None]
    """Called now and then while others wait for the server because this is open."""

    def answer(self, result: bytes) -> None:
        """The result's JSON text, as the server gets it."""
        ...

    def refuse(self, code: int, message: str) -> None: ...

    def spend(self) -> None:
        """Count it among those that reach an agent. Raises `policy.asks.Refused` when there were too many."""
        ...

    def visit(self, name: str, completed: Callable[[], None]) -> None:
        """`completed` is called when the server says that the visit, by its own id, is done (5.12)."""
        ...


class Asker(Protocol):
    """Who a request was made for, as far as what the server says about it concerns them."""

    @property
    def session(self) -> str:
        """The attached session's id."""
        ...

    @property
    def party(self) -> str:
        """Who may be meant by a question that names no request: the session, or one request alone where
        many clients share a session (DESIGN 7)."""
        ...

    @property
    def abilities(self) -> Ability:
        """What the caller has declared that it can be asked (5.1)."""
        ...

    @property
    def extensions(self) -> bytes:
        """What it has declared besides, as `protocol.extensions.encode` says it; empty for none (5.17)."""
        ...

    @property
    def makes_tasks(self) -> bool:
        """Whether the caller was shown which tools insist on tasks, and makes them itself (5.15)."""
        ...

    @property
    def level(self) -> int | None:
        """The rank of the lowest log messages that are wanted; None for none (5.6)."""
        ...

    def progressed(self, raw: bytes) -> None:
        """A progress notice; `raw`: its params' JSON text."""
        ...

    def logged(self, raw: bytes) -> None:
        """A log message of a level that is wanted; `raw`: its params' JSON text."""
        ...

    def asked(self, ask: Ask) -> None:
        """The server asks the caller something. Must not wait."""
        ...


class Held(Protocol):
    """Why a request's time does not run."""

    def ended(self) -> None:
        """The request is over."""
        ...


class _Hold:
    """A request's clock while it stands still."""

    __slots__ = ("by", "expires", "since")

    def __init__(self, since: float, expires: float) -> None:
        self.by: list[Held] = []
        self.since = since
        self.expires = expires


class Slot(msgspec.Struct, eq=False):
    """One request on its way. `result` is its JSON text, or raises its failure, once that is settled."""

    idle: float
    """Seconds allowed since the start or the last progress; 0 for no limit (D9)."""
    total: float
    """Seconds in all, whatever comes; 0 for no limit."""
    asker: Asker | None = None
    """None for mcpd's own requests."""
    stream: bool = False
    """The request stands for a stream of notices, which the server may end (5.14)."""
    extensions: bytes = b""
    """What a request of mcpd's own declares, as an asker's does."""
    written: bool = False
    """The request's bytes have left mcpd, so the server may have acted on it (D3)."""
    expires: float = 0.0
    """When its time is over (trio clock); 0 for never, also while the clock stands still."""
    held: _Hold | None = None
    """Since when the clock stands still, and by whom."""
    _ceiling: float = 0.0
    outcome: Outcome | None = None
    """None until it is settled."""
    waiter: trio.lowlevel.Task | None = None
    """Who sleeps until it is: that one sets this, and waits to be rescheduled, with `abandon`. A coroutine
    for that would be a fiftieth of a small call (measured)."""
    told: Callable[[Slot], None] | None = None
    """Where nobody sleeps, is called at once when it is settled. Must not wait or raise."""

    def start(self, now: float) -> None:
        """The request was sent: its time begins (trio clock)."""
        if self.total:
            self._ceiling = now + self.total
        if self.held is not None:
            self.progressed(now)
            return
        idle = now + self.idle if self.idle else self._ceiling
        self.expires = min(idle, self._ceiling) if self._ceiling else idle

    def progressed(self, now: float) -> None:
        """The idle time begins again."""
        if self.held is not None:
            now = self.held.since
        expires = now + self.idle if self.idle else 0.0
        if self._ceiling and (not expires or self._ceiling < expires):
            expires = self._ceiling
        if self.held is None:
            self.expires = expires
        else:
            self.held.expires = expires

    def hold(self, by: Held, now: float) -> None:
        """The clock stands still until `release` by everyone: waiting for a person does not count (D9)."""
        if self.held is None:
            self.held = _Hold(now, self.expires)
            self.expires = 0.0
        self.held.by.append(by)

    def release(self, by: Held, now: float) -> None:
        hold = self.held
        if hold is None or by not in hold.by:
            return
        hold.by.remove(by)
        if not hold.by:
            self.held = None
            stood = now - hold.since
            self._ceiling += stood if self._ceiling else 0.0
            self.expires = hold.expires + stood if hold.expires else 0.0

    def over(self) -> None:
        """The request has ended; who holds its clock is told."""
        hold, self.held = self.held, None
        for by in hold.by if hold is not None else ():
            by.ended()

    def left(self, now: float) -> float:
        """Seconds until its time is over; infinite where it has no limit."""
        hold = self.held
        expires, now = (self.expires, now) if hold is None else (hold.expires, hold.since)
        return expires - now if expires else inf

    @property
    def used_up(self) -> bool:
        """Whether it is the time in all that ends the request, not its idle time."""
        return self._ceiling > 0 and self.expires == self._ceiling

    @property
    def settled(self) -> bool:
        return self.outcome is not None

    def settle(self, result: Outcome) -> None:
        """Give the outcome; the first one counts."""
        if self.outcome is not None:
            return
        self.outcome = result
        if self.waiter is not None:
            trio.lowlevel.reschedule(self.waiter)
            self.waiter = None
        elif self.told is not None:
            # Let go of, because most often it holds whatever holds this: no answer waits for the collector.
            told, self.told = self.told, None
            told(self)

    def result(self) -> bytes:
        """The result's JSON text, once settled. Raises what the slot was settled with."""
        got = self.outcome
        assert got is not None
        if isinstance(got, BaseException):
            raise got
        return got

    def abandon(self, _: object) -> trio.lowlevel.Abort:
        self.waiter = None
        return trio.lowlevel.Abort.SUCCEEDED


class Deadlines:
    """The live slots that have a deadline. One per daemon; `run` is its task."""

    def __init__(self) -> None:
        self._live: set[Slot] = set()
        self.discard: Callable[[Slot], None] = self._live.discard
        """The slot has no deadline any more, if it had one."""
        self._parked: trio.Event | None = None
        self.now: Callable[[], float] = trio.current_time
        """The time (trio clock), by the shortest way: every request asks for it."""

    def add(self, slot: Slot) -> None:
        self._live.add(slot)
        if self._parked is not None:
            self._parked.set()
            self._parked = None

    async def run(self) -> None:
        self.now = trio.lowlevel.current_clock().current_time
        while True:
            if not self._live:
                self._parked = trio.Event()
                await self._parked.wait()
            await trio.sleep(SWEEP)
            now = trio.current_time()
            for slot in [s for s in self._live if s.expires and s.expires <= now]:
                self._live.discard(slot)
                slot.settle(Failure("timed_out", "no answer within the time limit"))
