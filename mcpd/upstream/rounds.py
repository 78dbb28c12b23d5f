"""Requests that a stateless server answers once it knows more: round by round (5.13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import trio

from mcpd.errors import Failure
from mcpd.protocol.input import ROUNDS as ROUNDS_OF
from mcpd.protocol.input import Wanted, read_wanted, wants_input
from mcpd.transport.pending import Asker
from mcpd.upstream.drive import Requests
from mcpd.upstream.ticket import Superseded, Ticket
from mcpd.upstream.upstream import Upstream

#: Rounds of one request, and the seconds before a round without questions is repeated (5.13).
ROUNDS = 10
PAUSE = 0.05
PAUSE_MAX = 0.25

#: The members of the next round's params, without braces, from what a server wants to know.
Gather = Callable[[Upstream, Wanted], Awaitable[bytes]]


class Rounds(msgspec.Struct, frozen=True):
    """`ask`, as the step that asks the server, as often as the server wants to know more first (5.13)."""

    ask: Requests
    gather: Gather
    first: bytes = b""
    """Members of the first round's params, where the caller has answered before."""

    async def __call__(
        self,
        upstream: Upstream,
        ticket: Ticket,
        method: str,
        members: bytes,
        kept_meta: bytes,
        idle: float,
        total: float,
        asker: Asker | None,
        may_replay: Callable[[bool], bool],
        holds: Callable[[], bool],
    ) -> bytes:
        """Raises what `ask` does, and what `gather` does."""
        more = self.first
        pause = PAUSE
        for _ in range(ROUNDS):
            asked = b",".join(part for part in (members, more) if part)
            raw = await self.ask(
                upstream, ticket, method, asked, kept_meta, idle, total, asker, may_replay, holds
            )
            if method not in ROUNDS_OF or not wants_input(raw):
                return raw
            wanted = read_wanted(raw)
            with ticket.stoppable():
                if not wanted.input_requests:
                    await trio.sleep(pause)
                    pause = min(2 * pause, PAUSE_MAX)
                more = await self.gather(upstream, wanted)
            if not holds():
                raise Superseded
        raise Failure(
            "bad_answer",
            f'server "{upstream.name}" wanted more input {ROUNDS} times',
            server=upstream.name,
        )
