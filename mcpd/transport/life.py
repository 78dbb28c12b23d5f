"""The tasks of one connection, from its beginning to its end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from mcpd.transport.base import Ending, Receiver

Task = Callable[[], Awaitable[None]]


class Life:
    """Starts what a connection does, or holds it back. Mutable; one owner, the transport.

    From the beginning everything is held back until `release`, and again after `hold`.
    """

    def __init__(self) -> None:
        self.receiver: Receiver
        """Known to every task, as none begins before `run`."""
        self._nursery: trio.Nursery | None = None
        self._held: list[Task] = []
        self._holding = True
        self._over = trio.Event()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def start(self, task: Task) -> None:
        if self._nursery is None or self._holding:
            self._held.append(task)
        else:
            self._nursery.start_soon(task)

    def start_held(self, task: Task) -> None:
        """Start what the others are held for."""
        if self._nursery is not None and not self.over:
            self._nursery.start_soon(task)

    def hold(self) -> None:
        self._holding = True

    def release(self) -> None:
        self._holding = False
        held, self._held = self._held, []
        for task in held:
            self.start(task)

    def end(self, ending: Ending) -> None:
        """The connection is lost; the first reason counts."""
        if not self.over:
            self._over.set()
            self.receiver.lost(ending)

    async def run(self, receiver: Receiver, first: Task) -> None:
        """Until `end`, or until cancelled; what still runs then is cancelled. `first` begins at once."""
        self.receiver = receiver
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(first)
            try:
                await self._over.wait()
            finally:
                # While the nursery is still open: what is written from here on goes nowhere.
                self._over.set()
            nursery.cancel_scope.cancel()
