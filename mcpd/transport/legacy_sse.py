"""HTTP+SSE of 2024-11-05: one stream brings everything, what is sent goes to the URL it names (3.4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import trio

from mcpd.http import Answer, Client, HttpFailed, same_origin
from mcpd.protocol import jsonrpc
from mcpd.protocol.jsonrpc import Message, same_id
from mcpd.protocol.revisions import Revision
from mcpd.protocol.sse import Event, EventBuffer
from mcpd.transport import answers
from mcpd.transport.base import COST, INITIALIZED, ConnectionLost, Ending, Receiver, Unanswered
from mcpd.transport.life import Life
from mcpd.transport.location import Location
from mcpd.transport.session import MESSAGE, STREAM, Session
from mcpd.transport.streams import Pieces

#: Seconds in which the server must take a message; its answer comes on the stream, whenever.
TAKE_WAIT = 30.0

#: Messages that bring no answer, on their way at once: a server can make mcpd send as many as it likes, by
#: pings.
TELLING = 32

#: Messages on their way above which every further one has a connection of its own outside of the pool.
MANY = 50


class LegacySse:
    """One connection to one server; `run` is its life. Messages wait until the stream has said where to.

    With the stream everything is lost: session, and what waits.
    """

    def __init__(
        self, client: Client, url: str, own: Mapping[str, str], remark: Callable[[str], None]
    ) -> None:
        """`own`: the definition's headers. `client` stays its maker's to close."""
        self._client = client
        self._stream = Location(client, url, own, remark)
        self._target = self._stream
        """Where messages go, once that is known."""
        self._session = Session(lambda tool: (), remark)
        self._own = own
        self._remark = remark
        self._queued = 0
        """Bytes of messages, and what they cost besides."""
        self._places = trio.Semaphore(TELLING)
        self._posting = 0
        self._life = Life()

    @property
    def queued(self) -> int:
        """Bytes of messages that the server has not taken yet."""
        return self._queued

    def settle(self, revision: Revision) -> None:
        self._session.revision = revision

    def write(self, line: bytes) -> bool:
        """Send one message; False when the connection is over."""
        if self._life.over:
            return False
        self._queued += len(line) + COST
        message = jsonrpc.read(line)
        self._life.start(partial(self._post, message, line))
        if message.method == INITIALIZED:
            # Each message has its own connection, and this one must be the first to arrive (section 11).
            self._life.hold()
        return True

    async def run(self, receiver: Receiver) -> None:
        """Until the connection is lost or this is cancelled; then the stream is closed."""
        await self._life.run(receiver, self._listen)

    # ---------------------------------------------------------------- the stream

    async def _listen(self) -> None:
        try:
            async with self._stream.stream("GET", STREAM, long_lived=True) as answer:
                if not answers.is_stream(answer):
                    line = await answers.rest(answer)
                    self._life.end(_no_stream(answers.unanswered(self._stream.url, answer, line)))
                    return
                await self._hear(answer)
            how = "the server ended its stream"
        except HttpFailed as e:
            if not self._opened:
                self._life.end(Ending(e.reason, e.message))
                return
            how = e.message
        if not self._opened:
            self._life.end(Ending("bad_answer", f"{how} without saying where messages go"))
        elif self._settled:
            self._life.end(Ending("session_lost", how, anew=True))
        else:
            self._life.end(Ending("failed", how))

    @property
    def _opened(self) -> bool:
        return self._target is not self._stream

    @property
    def _settled(self) -> bool:
        return self._session.revision is not None

    async def _hear(self, answer: Answer) -> None:
        """Hand on what comes until the stream ends."""
        events = EventBuffer()
        async for piece in Pieces(answer):
            for event in events.feed(piece):
                if event.name == "message":
                    self._life.receiver.receive(answers.one_line(event.data))
                elif event.name == "endpoint" and not self._opened:
                    self._open(event)
            for head, tail in events.take_ends():
                self._life.receiver.dropped(head, tail)

    def _open(self, event: Event) -> None:
        """Learn where messages go: to the stream's own origin, or the credentials would leave it."""
        here = self._stream.url
        there = answers.target(here, event.data.decode("utf-8", "replace").strip())
        if not same_origin(here, there):
            words = "the server names an endpoint of another origin, or none that is valid; it is not used"
            self._life.end(Ending("bad_answer", words, lasting=True))
            return
        self._target = Location(self._client, there, self._own, lambda text: None)
        self._life.release()

    # ---------------------------------------------------------------- messages

    async def _post(self, message: Message, line: bytes) -> None:
        try:
            with trio.move_on_after(TAKE_WAIT) as late:
                if message.id and message.method:
                    await self._hand_over(message, line)
                else:
                    async with self._places:
                        await self._hand_over(message, line)
            if late.cancelled_caught:
                words = f"the server did not take the message within {TAKE_WAIT:g} s"
                self._failed(message, Unanswered("outcome_unknown", words, reason="not_responding"))
        except HttpFailed as e:
            self._failed(message, answers.unsent(e))
        finally:
            self._queued -= len(line) + COST
            if message.method == INITIALIZED:
                self._life.release()

    async def _hand_over(self, message: Message, line: bytes) -> None:
        self._posting += 1
        try:
            heading = {**MESSAGE, **self._session.standing()}
            apart = self._posting > MANY
            async with self._target.stream("POST", heading, line, long_lived=apart) as answer:
                await self._took(message, answer)
        finally:
            self._posting -= 1

    async def _took(self, message: Message, answer: Answer) -> None:
        if answers.is_success(answer.status):
            await answers.drain(answer)
            return
        line = await answers.rest(answer)
        failure = answers.unanswered(self._target.url, answer, line)
        said = jsonrpc.read_lenient(line) if line[:1] == b"{" else None
        if said is not None and message.id and not said.method and same_id(said.key, message.key):
            self._life.receiver.receive(line, message.key)
        else:
            self._failed(message, failure)

    def _failed(self, message: Message, failure: Unanswered) -> None:
        """A message was not taken. The session's id stands in the URL, which is gone with it."""
        if self._life.over:
            return
        gone = failure.status in (404, 410) and self._settled
        if not message.id or not message.method:
            self._remark(f"{message.method or 'an answer'} was not taken: {failure.message}")
        else:
            self._life.receiver.failed(message.key, ConnectionLost(failure.message) if gone else failure)
        if failure.status == 401:
            self._life.end(Ending("needs_auth", failure.message, lasting=True))
        elif gone:
            self._life.end(Ending("session_lost", failure.message, anew=True))


def _no_stream(failure: Unanswered) -> Ending:
    """The URL is answered by something else than a stream."""
    reason = failure.reason if failure.status in (401, 403) else "bad_answer"
    return Ending(reason, failure.message, lasting=failure.status == 401)
