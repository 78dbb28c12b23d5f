"""Requests that wait for an answer.

A slot is one waiting request: exactly one task waits in it, exactly one outcome settles it. It
costs no scope, event or task of its own. Deadlines are swept from one set of live slots, by one
task, only while there are any.
"""

from __future__ import annotations

from typing import Protocol

import trio

from mcpd.errors import Failure

Outcome = bytes | BaseException

#: How late a deadline may be noticed, in seconds.
SWEEP = 0.1


class Asker(Protocol):
    """Who a request was made for, as far as what the server says about it concerns them."""

    @property
    def session(self) -> str:
        """The attached session's id."""
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


class Slot:
    """One request on its way: `wait` returns the result's JSON text or raises its failure."""

    __slots__ = (
        "_ceiling",
        "_outcome",
        "_task",
        "asker",
        "expires",
        "idle",
        "stream",
        "total",
        "written",
    )

    def __init__(
        self,
        idle: float,
        total: float,
        asker: Asker | None = None,
        *,
        stream: bool = False,
    ) -> None:
        """`idle`: seconds allowed since the start or the last progress; `total`: seconds in all,
        whatever comes; 0 switches either off (D9). `asker`: none for mcpd's own requests."""
        self._task: trio.lowlevel.Task | None = None
        self._outcome: Outcome | None = None
        self.idle = idle
        self.total = total
        self.expires = 0.0
        self._ceiling = 0.0
        self.asker = asker
        self.stream = stream
        """The request stands for a stream of notices, which the server may end (5.14)."""
        self.written = False
        """The request's bytes have left mcpd, so the server may have acted on it (D3)."""

    def start(self, now: float) -> None:
        """The request was sent: its time begins (trio clock)."""
        if self.total:
            self._ceiling = now + self.total
        self.progressed(now)

    def progressed(self, now: float) -> None:
        """The idle time begins again."""
        expires = now + self.idle if self.idle else 0.0
        if self._ceiling and (not expires or self._ceiling < expires):
            expires = self._ceiling
        self.expires = expires

    @property
    def used_up(self) -> bool:
        """Whether it is the time in all that ends the request, not its idle time."""
        return self._ceiling > 0 and self.expires == self._ceiling

    @property
    def settled(self) -> bool:
        return self._outcome is not None

    def settle(self, result: Outcome) -> None:
        """Give the outcome; the first one counts."""
        if self._outcome is not None:
            return
        self._outcome = result
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    async def wait(self) -> bytes:
        """The result's JSON text. Raises what the slot was settled with, and Cancelled."""
        if self._outcome is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        got = self._outcome
        assert got is not None
        if isinstance(got, BaseException):
            raise got
        return got

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Deadlines:
    """The live slots that have a deadline. One per daemon; `run` is its task."""

    def __init__(self) -> None:
        self._live: set[Slot] = set()
        self._parked: trio.Event | None = None

    def add(self, slot: Slot) -> None:
        self._live.add(slot)
        if self._parked is not None:
            self._parked.set()
            self._parked = None

    def discard(self, slot: Slot) -> None:
        self._live.discard(slot)

    async def run(self) -> None:
        while True:
            if not self._live:
                self._parked = trio.Event()
                await self._parked.wait()
            await trio.sleep(SWEEP)
            now = trio.current_time()
            for slot in [s for s in self._live if s.expires and s.expires <= now]:
                self._live.discard(slot)
                slot.settle(Failure("timed_out", "no answer within the time limit"))
