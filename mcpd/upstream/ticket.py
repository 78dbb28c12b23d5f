"""One agent's request while it runs, as far as waiting concerns it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

import msgspec
import trio

from mcpd.errors import Failure
from mcpd.transport.pending import Slot


class Withdrawn(Failure):
    """The caller took the request back; no answer is sent (5.9)."""

    def __init__(self) -> None:
        super().__init__("cancelled", "the caller cancelled the request")


class Superseded(Exception):
    """While the request waited for its server, what it was decided on has changed; it did not run."""


class Places(Protocol):
    """So many requests of one session are at servers at a time."""

    def leave(self, ticket: Ticket) -> None:
        """The request waits for something else, and leaves its place, if it has one, to others."""
        ...

    async def enter(self, ticket: Ticket) -> None:
        """Wait until it has a place again."""
        ...


class Ticket(msgspec.Struct, eq=False):
    """How a request is taken back wherever it waits.

    Most requests wait in one slot, which needs no scope; the rare other waits enter `stoppable`.
    """

    places: Places | None = None
    """None for a request that takes none."""
    placed: bool = False
    """It has one of them."""
    withdrawn: bool = False
    reached: bool = False
    """Something that was sent for it may have reached its server."""
    _slot: Slot | None = None
    _scope: trio.CancelScope | None = None

    def waits_in(self, slot: Slot | None) -> None:
        """Raises Withdrawn when the request was taken back before it came to waiting."""
        if slot is None:
            if self._slot is not None and self._slot.written:
                self.reached = True
        elif self.withdrawn:
            raise Withdrawn
        self._slot = slot

    def withdraw(self) -> None:
        self.withdrawn = True
        if self._slot is not None:
            self._slot.settle(Withdrawn())
        if self._scope is not None:
            self._scope.cancel()

    async def come_back(self) -> None:
        """Before the request goes to its server: take a place again if it has left its own, else all that
        have waited for a server would reach it at once. Raises Withdrawn."""
        if self.places is not None and not self.placed:
            with self.stoppable():
                await self.places.enter(self)

    def stoppable(self) -> Stoppable:
        """`with ticket.stoppable():` around a wait; leaves by Withdrawn when the request is taken back."""
        return Stoppable(self)


class Stoppable:
    __slots__ = ("_scope", "_ticket")

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._scope = trio.CancelScope()

    def __enter__(self) -> None:
        if self._ticket.withdrawn:
            raise Withdrawn
        self._ticket._scope = self._scope
        self._scope.__enter__()
        if self._ticket.places is not None:
            self._ticket.places.leave(self._ticket)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._ticket._scope = None
        swallowed = self._scope.__exit__(kind, error, trace)
        if self._scope.cancelled_caught:
            raise Withdrawn
        return bool(swallowed)
