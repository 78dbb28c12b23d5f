"""Requests that a stateless server answers once it knows more: round by round (5.13)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import trio

from mcpd.errors import Failure
from mcpd.protocol.input import ROUNDS as ROUNDS_OF
from mcpd.protocol.input import Wanted, read_wanted, wants_input
from mcpd.upstream.step import Sending, Step
from mcpd.upstream.ticket import Superseded
from mcpd.upstream.upstream import Upstream

#: Rounds of one request, and the seconds before a round without questions is repeated (5.13).
ROUNDS = 10
PAUSE = 0.05
PAUSE_MAX = 0.25

#: The members of the next round's params, without braces, from what a server wants to know.
Gather = Callable[[Upstream, Wanted], Awaitable[bytes]]


class Rounds(msgspec.Struct, frozen=True):
    """`ask`, as the step that asks the server, as often as the server wants to know more first (5.13)."""

    ask: Step
    gather: Gather
    first: bytes = b""
    """Members of the first round's params, where the caller has answered before."""

    async def __call__(self, sending: Sending) -> bytes:
        """Raises what `ask` does, and what `gather` does."""
        upstream, method = sending.upstream, sending.method
        more = self.first
        pause = PAUSE
        for _ in range(ROUNDS):
            asked = b",".join(part for part in (sending.members, more) if part)
            raw = await self.ask(msgspec.structs.replace(sending, members=asked))
            if method not in ROUNDS_OF or not wants_input(raw):
                return raw
            sending = msgspec.structs.replace(sending, begun=None)
            wanted = read_wanted(raw)
            with sending.ticket.stoppable():
                if not wanted.input_requests:
                    await trio.sleep(pause)
                    pause = min(2 * pause, PAUSE_MAX)
                more = await self.gather(upstream, wanted)
            if not sending.holds():
                raise Superseded
        raise Failure(
            "bad_answer",
            f'server "{upstream.name}" wanted more input {ROUNDS} times',
            server=upstream.name,
        )
