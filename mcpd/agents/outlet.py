"""Where messages to an agent go, by whichever way it came."""

from __future__ import annotations

from typing import Protocol


class Outlet(Protocol):
    """Where messages to an agent go.

    `on` names the request that a message belongs to, empty where there is none: over HTTP each has a stream
    of its own.
    """

    @property
    def queued(self) -> int:
        """Bytes that the peer has not taken yet."""
        ...

    def write(self, line: bytes, on: bytes = b"") -> bool:
        """Send a notice or a request; False when nobody will read it."""
        ...

    def answer(self, line: bytes, on: bytes) -> bool:
        """Send the last word on a request."""
        ...

    def unanswered(self, on: bytes) -> None:
        """The request gets no answer."""
        ...

    def attended(self, on: bytes) -> bool:
        """Whether somebody reads now what is said about the request."""
        ...

    async def drained(self) -> None:
        """Return once the peer has taken everything, or is gone."""
        ...
