"""What a step that asks a server is handed: `request.request`, and what is put around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from mcpd.transport.pending import Asker, Slot
from mcpd.upstream.connection import Connection
from mcpd.upstream.ticket import Ticket
from mcpd.upstream.upstream import Upstream


class Begun(msgspec.Struct, frozen=True):
    """One request that has been sent, and is settled or will be."""

    connection: Connection
    key: bytes
    """Its id's JSON text."""
    slot: Slot


class Sending(msgspec.Struct, frozen=True):
    """One request for one server, decided on and not sent yet."""

    upstream: Upstream
    ticket: Ticket
    method: str
    members: bytes
    """Params without braces."""
    kept_meta: bytes
    """`_meta` members of the caller."""
    idle: float
    """Seconds since the sending or its own last progress; 0 for no limit (D9)."""
    total: float
    """Seconds in all; 0 for no limit (D9)."""
    asker: Asker | None
    may_replay: Callable[[bool], bool]
    """Whether it is sent once more after a restart, given whether it may have reached the server (D3)."""
    holds: Callable[[], bool]
    """Whether, after a wait for the server, the decision still does."""
    sent: Callable[[Connection, bytes], None] | None = None
    """Is told the connection and the id's JSON text, each time that it is sent."""
    begun: Begun | None = None
    """It was sent already, and that is settled: what remains is what that has come to."""


Step: TypeAlias = Callable[[Sending], Awaitable[bytes]]
"""Gives the result's JSON text; raises what `request.request` does."""
