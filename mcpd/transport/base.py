"""What every transport to a server has in common."""

from __future__ import annotations

from typing import Protocol

import msgspec

from mcpd.api.status import Reason


class Launch(msgspec.Struct, frozen=True):
    """Everything that starting a process needs."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str


class ConnectFailed(Exception):
    """An attempt to reach a server ended without a connection.

    `lasting`: nothing but a change by a person can help, so it is not retried by itself (D8).
    """

    def __init__(self, reason: Reason, message: str, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.lasting = lasting


class ConnectionLost(Exception):
    """The connection ended while a request waited."""


class Sender(Protocol):
    """The sending half of a transport."""

    @property
    def queued(self) -> int:
        """Bytes that the peer has not taken yet."""
        ...

    def write(self, line: bytes) -> bool:
        """Send one message; False when it provably cannot arrive any more."""
        ...
