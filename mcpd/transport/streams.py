"""Streams of a legacy server that end and are opened again (3.2, section 9)."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Final

import trio

from mcpd.http import Answer, HttpFailed
from mcpd.protocol import jsonrpc
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.sse import EventBuffer
from mcpd.transport import answers
from mcpd.transport.base import Receiver
from mcpd.transport.location import Location
from mcpd.transport.session import Session

#: Seconds before the first try, how they grow, and how far.
FIRST: Final = 1.0
GROWTH: Final = 1.5
LONGEST: Final = 30.0

#: What a server that wants no pause at all gets.
_SHORTEST: Final = 0.1

#: Tries for the rest of one answer, without anything new in between.
TRIES: Final = 5

#: Bytes that are taken at one go: as events they may be hundreds, and a few milliseconds of the loop.
PIECE: Final = 8192

#: Seconds that a stream must have lasted for its end to be the usual one: proxies cut idle ones.
LONG_LIVED: Final = 30.0


class Backoff:
    """How long to wait before a stream is opened again. Mutable: each time longer, until `reset`."""

    def __init__(self) -> None:
        self._next = FIRST

    def reset(self) -> None:
        self._next = FIRST

    def wait(self) -> float:
        """Seconds until the next try, a tenth more or less, so that many clients do not come at once."""
        seconds = self._next * random.uniform(0.9, 1.1)
        self._next = min(self._next * GROWTH, LONGEST)
        return seconds


def wanted(retry: float | None, backoff: Backoff) -> float:
    """Seconds before the rest of an answer is asked for: what the server wants counts (3.2)."""
    return backoff.wait() if retry is None else max(retry, _SHORTEST)


class Pieces:
    """The body of a stream in small pieces: others have their turn however many events come at once."""

    def __init__(self, answer: Answer) -> None:
        self._chunks = answer.chunks()
        self._rest = b""

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> bytes:
        if self._rest:
            await trio.lowlevel.checkpoint()
        else:
            self._rest = await anext(self._chunks)
        piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
        return piece


async def listen(
    location: Location,
    session: Session,
    receiver: Receiver,
    came: Callable[[Message], None],
    there: Callable[[], None],
) -> None:
    """Hold the session's own stream open where the server has one; that it has none is usual, and quiet.

    `came` sees each message before it is handed on; `there` is called once the server has answered, or
    cannot be asked. An outage of a stream that was there is told as `failed`
    of no request. Returns when the server does not offer the stream, or not any more.
    """
    events, backoff, opened = EventBuffer(), Backoff(), False
    while True:
        began = trio.current_time()
        try:
            async with location.stream("GET", session.resuming(events.last_id), long_lived=True) as answer:
                there()
                if answers.is_stream(answer):
                    opened = True
                    await _hear(answer, events, receiver, came)
                elif opened:
                    await _missed(answer, location.url, receiver)
                    if not answers.is_passing(answer.status):
                        return
                elif answer.status not in answers.BUSY:
                    return
        except HttpFailed as e:
            there()
            receiver.failed(b"", answers.unsent(e))
        if trio.current_time() - began >= LONG_LIVED:
            backoff.reset()
        await trio.sleep(max(backoff.wait(), events.retry or 0.0))
        events.restart()


async def _hear(
    answer: Answer, events: EventBuffer, receiver: Receiver, came: Callable[[Message], None]
) -> None:
    """Hand on what comes until the stream ends, in whatever way: proxies cut idle ones."""
    with contextlib.suppress(HttpFailed):
        async for piece in Pieces(answer):
            for event in events.feed(piece):
                if event.name != "message":
                    continue
                line = answers.one_line(event.data)
                message = jsonrpc.read_lenient(line)
                if message is not None:
                    came(message)
                receiver.receive(line)
            for head, tail in events.take_ends():
                receiver.dropped(head, tail)


async def _missed(answer: Answer, url: str, receiver: Receiver) -> None:
    """A stream that was there is refused: by an outage, a lost session, a withdrawn login. Only 405 says
    no more than that there is none."""
    if answer.status != 405:
        receiver.failed(b"", answers.unanswered(url, answer, await answers.rest(answer)))
