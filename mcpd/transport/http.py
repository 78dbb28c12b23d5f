"""Streamable HTTP, every revision: each message is a POST of its own (3.2, 3.3).

A request's task brings its answer, or says that none comes; nothing a server does raises here. A session is
opened by `initialize` and ended by DELETE; a server of 2026-07-28 has none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from functools import partial

import trio

from mcpd.catalog.mirror import Mirror
from mcpd.http import Answer, Client, HttpFailed
from mcpd.protocol import headers, jsonrpc
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.revisions import Revision
from mcpd.protocol.shapes import CancelledParams, read_result
from mcpd.transport import answers
from mcpd.transport.base import COST, INITIALIZED, ConnectionLost, Ending, Receiver, Unanswered
from mcpd.transport.exchange import Exchange, Exchanges
from mcpd.transport.life import Life
from mcpd.transport.location import Location
from mcpd.transport.session import Session
from mcpd.transport.streams import listen

CANCELLED = "notifications/cancelled"

#: Seconds for a message that brings no answer, and for taking leave of a session.
TELL_WAIT, LEAVE_WAIT = 30.0, 2.0

#: Such messages on their way at once, which find room in the pool beside MANY requests: a server can make
#: mcpd send as many as it likes, by pings.
TELLING = 32

#: Seconds that requests wait for the answer to the GET: some servers give it with the first event.
LISTEN_WAIT = 0.5

#: Requests under way above which every further message has a connection of its own outside of the pool:
#: calls that take long must not keep a cancellation or a short call waiting.
MANY = 50


class Http:
    """One connection to one server; `run` is its life.

    From `notifications/initialized` on, everything waits until that was accepted: servers refuse what comes
    before it (section 11).
    """

    def __init__(
        self,
        client: Client,
        url: str,
        own: Mapping[str, str],
        mirrors: Callable[[str], tuple[Mirror, ...]],
        remark: Callable[[str], None],
    ) -> None:
        """`own`: the definition's headers. `mirrors`: what a call of the tool repeats in headers. `remark`
        gets notes for the server's log. `client` stays its maker's to close."""
        self._location = Location(client, url, own, remark)
        self._session = Session(mirrors, remark)
        self._remark = remark
        self._exchanges = Exchanges()
        self._telling = 0
        """Bytes of notifications and answers on their way, and what they cost besides."""
        self._places = trio.Semaphore(TELLING)
        self._life = Life()

    @property
    def queued(self) -> int:
        """Bytes of messages to which the server has not reacted yet."""
        return self._telling + self._exchanges.queued

    def settle(self, revision: Revision) -> None:
        self._session.revision = revision

    def write(self, line: bytes) -> bool:
        """Send one message; False when the connection is over."""
        if self._life.over:
            return False
        message = jsonrpc.read(line)
        if message.method == CANCELLED:
            self._withdraw(message, line)
        elif message.method and message.id:
            exchange = Exchange(message, line, self._session, self._exchanges)
            self._exchanges.add(exchange)
            self._life.start(partial(self._ask, exchange))
        else:
            self._tell(message, line)
            if message.method == INITIALIZED:
                self._life.hold()
        return True

    def _withdraw(self, message: Message, line: bytes) -> None:
        """A request is not wanted any more. A stateless server learns it by the end of the stream (5.9)."""
        params = read_result(bytes(message.params), CancelledParams)
        exchange = self._exchanges.find(bytes(params.request_id)) if params else None
        if exchange is None:
            return
        if exchange.sent and not self._session.stateless:
            self._tell(message, line, then=exchange.scope.cancel)
        else:
            exchange.scope.cancel()

    async def run(self, receiver: Receiver) -> None:
        """Until the connection is lost or this is cancelled; then every stream and the session is closed."""
        try:
            await self._life.run(receiver, self._begin)
        finally:
            await self._leave()

    async def _begin(self) -> None:
        self._life.release()

    async def _leave(self) -> None:
        """End the session, whether the server likes that or not: 405 is a usual answer (3.2)."""
        if self._session.id:
            with trio.move_on_after(LEAVE_WAIT, shield=True), contextlib.suppress(HttpFailed):
                async with self._location.stream("DELETE", self._session.standing()):
                    pass

    def _end(self, ending: Ending) -> None:
        # The server has forgotten the session, or does not let us end it.
        self._session.id = ""
        self._life.end(ending)

    # ---------------------------------------------------------------- requests

    async def _ask(self, exchange: Exchange) -> None:
        try:
            with exchange.scope:
                await exchange.run(self._location, self._life.receiver, apart=len(self._exchanges) > MANY)
        except (Unanswered, ConnectionLost) as failure:
            self._failed(exchange, failure)
        finally:
            self._exchanges.remove(exchange)

    def _failed(self, exchange: Exchange, failure: Unanswered | ConnectionLost) -> None:
        if self._life.over:
            # Whoever waits has been told with the end.
            return
        self._life.receiver.failed(exchange.key, failure)
        if isinstance(failure, ConnectionLost):
            self._end(Ending("session_lost", failure.message, anew=True))
        elif failure.kind == "needs_login":
            self._end(Ending("needs_auth", failure.message, lasting=True))

    # ------------------------------------------------- notifications and answers

    def _tell(self, message: Message, line: bytes, then: Callable[[], None] | None = None) -> None:
        """Send what brings no answer; `then` follows, whatever becomes of it."""
        self._telling += len(line) + COST
        self._life.start(partial(self._post, message, line, then))

    async def _post(self, message: Message, line: bytes, then: Callable[[], None] | None) -> None:
        name = message.method or "an answer"
        try:
            with trio.move_on_after(TELL_WAIT) as late:
                heading, apart = self._session.heading(message), len(self._exchanges) > MANY
                async with (
                    self._places,
                    self._location.stream("POST", heading, line, long_lived=apart) as answer,
                ):
                    taken = answers.is_success(answer.status)
                    if taken:
                        await answers.drain(answer)
                    else:
                        await self._refused(name, answer, named=headers.SESSION in heading)
                if taken and message.method == INITIALIZED and not self._session.stateless:
                    await self._listen()
            if late.cancelled_caught:
                self._remark(f"{name} was not taken within {TELL_WAIT:g} s")
        except HttpFailed as e:
            self._remark(f"{name} was not taken: {e.message}")
        finally:
            self._telling -= len(line) + COST
            if message.method == INITIALIZED:
                self._life.release()
            if then is not None:
                then()

    async def _refused(self, name: str, answer: Answer, *, named: bool) -> None:
        """`named`: the message was sent in a session."""
        line = await answers.rest(answer)
        failure = answers.unanswered(self._location.url, answer, line)
        gone = answers.session_gone(answer.status, answers.error_of(line), own=True)
        if answer.status == 401:
            self._end(Ending("needs_auth", failure.message, lasting=True))
        elif named and gone:
            self._end(Ending("session_lost", failure.message, anew=True))
        else:
            self._remark(f"{name} was refused: {failure.message}")

    async def _listen(self) -> None:
        """Open the session's own stream before anything is asked: what a server says on it while it is not
        there is lost with many."""
        there = trio.Event()
        self._life.start_held(
            partial(
                listen,
                *(self._location, self._session, self._life.receiver),
                *(self._exchanges.close_answered, there.set),
            )
        )
        with trio.move_on_after(LISTEN_WAIT):
            await there.wait()
