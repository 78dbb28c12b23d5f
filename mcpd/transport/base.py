"""What every transport to a server has in common.

A transport sends what its owner writes (`Sender`) and tells its owner what comes of it (`Receiver`).
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from mcpd.api.status import Reason
from mcpd.errors import Failure
from mcpd.protocol.revisions import Revision

#: Bytes that a message counts for besides its own where each is a POST with a task of its own, so that what
#: is queued bounds their number as well.
COST = 16 * 1024

#: The message that ends a handshake; nothing else may arrive before it (4.1, section 11).
INITIALIZED = "notifications/initialized"


class Launch(msgspec.Struct, frozen=True):
    """Everything that starting a process needs."""

    argv: tuple[str, ...]
    env: dict[str, str]
    cwd: str


class Inherited(msgspec.Struct, frozen=True):
    """What the daemon has changed of its own process, as it was before: its children get it back."""

    open_files: int | None = None
    """The soft limit; None for the daemon's own."""
    umask: int = -1
    """-1 for the daemon's own."""


AS_IT_IS = Inherited()


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
    """The connection ended while a request waited, or the request provably never reached the server."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class Unanswered(Failure):
    """A request to which a transport brought no JSON-RPC answer.

    `kind` is `bad_answer`, `unavailable`, `needs_login`, `outcome_unknown` or `too_large`.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        reason: Reason,
        status: int = 0,
        reached: bool = True,
        hint: str = "",
        **data: Any,
    ) -> None:
        super().__init__(kind, message, hint=hint, **data)
        self.reason = reason
        """What it says about the server, should the connection end by it."""
        self.status = status
        """The HTTP status that came instead; 0 where none did."""
        self.reached = reached
        """The server may have acted on the request (D3)."""


class Ending(msgspec.Struct, frozen=True):
    """How a connection ended."""

    reason: Reason
    message: str
    lasting: bool = False
    """Nothing but a person can help, so it is not retried by itself (D8)."""
    anew: bool = False
    """Only the session is gone: the server is there, and is opened again at once (3.2)."""


class Receive(Protocol):
    """Takes one message. `on`: the id's JSON text of the request on whose own stream it came; empty where
    there is one stream for everything."""

    def __call__(self, line: bytes, on: bytes = b"") -> None: ...


class Receiver(Protocol):
    """What a transport tells. All of it is called from the transport's tasks, and must not wait."""

    @property
    def receive(self) -> Receive:
        """For each message anew: it is another one once the connection is opened."""
        ...

    def failed(self, key: bytes, failure: Unanswered | ConnectionLost) -> None:
        """The request `key` (its id's JSON text) gets no answer; with ConnectionLost, it never arrived."""
        ...

    def lost(self, ending: Ending) -> None:
        """Nothing more comes, and nothing more can be sent."""
        ...

    def dropped(self, head: bytes, tail: bytes) -> None:
        """A message was over the limit; `head` and `tail` are its two ends."""
        ...


class Outlet(Protocol):
    """Where messages to a server go."""

    @property
    def queued(self) -> int:
        """Bytes that the peer has not taken yet."""
        ...

    def write(self, line: bytes) -> bool:
        """Send one message; False when it provably cannot arrive any more."""
        ...


class Sender(Outlet, Protocol):
    """The sending half of a transport."""

    def settle(self, revision: Revision) -> None:
        """Both sides speak this revision from here on."""
        ...
