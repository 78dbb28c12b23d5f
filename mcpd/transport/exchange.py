"""One request over Streamable HTTP: its POST, the forms of its answer, the rest of a stream that broke."""

from __future__ import annotations

import trio

from mcpd.catalog.mirror import Unmirrorable
from mcpd.errors import Failure
from mcpd.http import Answer, HttpFailed, TooLarge
from mcpd.protocol import headers, jsonrpc
from mcpd.protocol.framing import LINE_LIMIT
from mcpd.protocol.jsonrpc import Message, same_id
from mcpd.protocol.sse import EventBuffer
from mcpd.transport import answers
from mcpd.transport.base import ConnectionLost, Receiver, Unanswered
from mcpd.transport.location import OWN_PATIENCE, PATIENCE, Location
from mcpd.transport.session import Session
from mcpd.transport.streams import TRIES, Backoff, Pieces, wanted

#: Answers of one connection that are taken in at once of those with more bytes than LARGE: each may grow to
#: LINE_LIMIT, and a server may leave as many unfinished as it is asked.
LARGE, LARGE_AT_ONCE = 1024 * 1024, 4

#: A request whose answer is a stream of notices, for as long as it lasts (5.14).
LISTEN = "subscriptions/listen"


class Exchanges:
    """The requests under way on one connection, by their ids' JSON text. Its owner adds and removes."""

    def __init__(self) -> None:
        self._by_key: dict[bytes, Exchange] = {}
        self.large = trio.Semaphore(LARGE_AT_ONCE)

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, exchange: Exchange) -> None:
        self._by_key[exchange.key] = exchange

    def remove(self, exchange: Exchange) -> None:
        self._by_key.pop(exchange.key, None)

    def find(self, key: bytes) -> Exchange | None:
        return self._by_key.get(key) or self._by_key.get(jsonrpc.bare(key))

    def close_answered(self, message: Message) -> None:
        """An answer came on another stream than its request's own, which nobody needs any more."""
        other = None if message.method else self.find(message.key)
        if other is not None:
            other.scope.cancel()

    @property
    def queued(self) -> int:
        """Bytes of those to which the server has not reacted yet."""
        return sum(len(exchange.line) for exchange in self._by_key.values())


class Exchange:
    """Mutable: its stream goes on in others, and is closed by `scope`."""

    def __init__(self, message: Message, line: bytes, session: Session, others: Exchanges) -> None:
        self.message = message
        self.key = message.key
        self.line = line
        """Empty once the server has reacted: nobody needs it again."""
        self.scope = trio.CancelScope()
        self.sent = False
        self._session = session
        self._others = others
        self._named = False
        """It was sent in a session."""
        self._large = False
        """It has one of the places for large answers."""
        self._events = EventBuffer()

    async def run(self, location: Location, receiver: Receiver, *, apart: bool) -> None:
        """Until the answer has been handed on. `apart`: on a connection of its own, outside of the pool.

        Raises Unanswered, and ConnectionLost where the server knows the session no more.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self.sent = True
        try:
            await self._run(location, receiver, apart=apart)
        finally:
            self._release()

    async def _run(self, location: Location, receiver: Receiver, *, apart: bool) -> None:
        try:
            heading = self._session.heading(self.message)
            self._named = headers.SESSION in heading
            apart = apart or self.message.method == LISTEN
            patience = OWN_PATIENCE if _is_own(self.message.method) else PATIENCE
            async with location.stream(
                "POST", heading, self.line, long_lived=apart, patience=patience
            ) as answer:
                self.line = b""
                if not answers.is_success(answer.status):
                    await self._refused(answer, location.url, receiver)
                    return
                if self.message.method == "initialize":
                    self._session.offer(answer.headers.get(headers.SESSION.lower(), ""))
                if not answers.is_stream(answer):
                    await self._answered(answer, location.url, receiver)
                    return
                why = await self._follow(answer, receiver)
                if not why:
                    await answers.drain(answer)
                    return
        except HttpFailed as e:
            raise answers.unsent(e) from None
        except Unmirrorable as e:
            raise Unanswered("too_large", str(e), reason="", reached=False) from None
        await self._resume(why, location, receiver)

    async def _answered(self, answer: Answer, url: str, receiver: Receiver) -> None:
        """One body, whatever it is called: some servers name no type, or a wrong one."""
        try:
            line = answers.one_line(await answer.read(LINE_LIMIT, self._paced))
        except TooLarge:
            raise answers.too_large() from None
        if line[:1] not in (b"{", b"[") or not self._deliver(line, receiver):
            raise answers.unanswered(url, answer, line)

    async def _refused(self, answer: Answer, url: str, receiver: Receiver) -> None:
        """Any status but success. A JSON-RPC error in the body is the answer (3.3)."""
        line = await answers.rest(answer)
        failure = answers.unanswered(url, answer, line)
        message = jsonrpc.read_lenient(line) if line[:1] == b"{" else None
        own = message is not None and same_id(message.key, self.key)
        if answer.status == 401:
            raise failure
        if self._named and answers.session_gone(answer.status, answers.error_of(line), own=own):
            raise ConnectionLost(failure.message)
        if message is None or (answer.status == 403 and not own) or not self._deliver(line, receiver):
            raise failure

    async def _follow(self, answer: Answer, receiver: Receiver) -> str:
        """Hand on what comes on a stream. Empty once the answer was there; else how it ended, in words."""
        try:
            async for piece in Pieces(answer):
                for event in self._events.feed(piece):
                    if event.name == "message" and self._deliver(answers.one_line(event.data), receiver):
                        return ""
                for head, tail in self._events.take_ends():
                    if same_id(jsonrpc.answered_id(head, tail), self.key):
                        raise answers.too_large()
                    receiver.dropped(head, tail)
                await self._paced(self._events.held)
        except HttpFailed as e:
            return e.message
        finally:
            self._release()
        return "the server ended the stream of the answer before the answer"

    async def _paced(self, held: int) -> None:
        """So many bytes of the answer are there; more than LARGE need a place, which may take its time."""
        if held <= LARGE:
            self._release()
        elif not self._large:
            await self._others.large.acquire()
            self._large = True

    def _release(self) -> None:
        if self._large:
            self._large = False
            self._others.large.release()

    async def _resume(self, why: str, location: Location, receiver: Receiver) -> None:
        """Ask for the rest of a stream that ended, for as long as something new comes (3.2)."""
        events, backoff, tries = self._events, Backoff(), 0
        while events.last_id and not self._session.stateless and tries < TRIES:
            await trio.sleep(wanted(events.retry, backoff))
            events.restart()
            last = events.last_id
            try:
                async with location.stream("GET", self._session.resuming(last), long_lived=True) as answer:
                    if answers.is_stream(answer):
                        why = await self._follow(answer, receiver)
                        if not why:
                            return
                    else:
                        refused = answers.unanswered(location.url, answer, await answers.rest(answer))
                        why = f"the stream of the answer ended; asked for the rest, {refused.message}"
                        if not answers.is_passing(answer.status):
                            break
            except HttpFailed as e:
                why = e.message
            tries += 1
            if events.last_id != last:
                tries = 0
                backoff.reset()
        raise Unanswered("outcome_unknown", why, reason="failed", status=200)

    def _deliver(self, line: bytes, receiver: Receiver) -> bool:
        """Hand on what came for this request; whether it was the answer."""
        revision = self._session.revision
        if line[:1] == b"[" and revision is not None and revision.batches:
            return self._deliver_batch(line, receiver)
        message = jsonrpc.read_lenient(line)
        answered = message is not None and not message.method and self._is_answer(message)
        if message is not None:
            if not answered:
                self._others.close_answered(message)
            elif message.result and self.message.method == "initialize":
                self._session.adopt()
        receiver.receive(line, self.key)
        return answered

    def _deliver_batch(self, line: bytes, receiver: Receiver) -> bool:
        try:
            members = jsonrpc.read_batch(line)
        except Failure:
            # Whoever receives it says what is wrong with it.
            receiver.receive(line, self.key)
            return False
        # An array within an array is no message (JSON-RPC 2.0, section 6).
        found = [member[:1] == b"{" and self._deliver(member, receiver) for member in members]
        return any(found)

    def _is_answer(self, message: Message) -> bool:
        """Whether an answer is this request's: an error under nobody else's id is as well (2)."""
        if same_id(message.key, self.key):
            return True
        return bytes(message.error)[:1] == b"{" and self._others.find(message.key) is None


def _is_own(method: str) -> bool:
    """Whether mcpd asks it for itself; agents are answered from the catalogue."""
    return method in ("initialize", "server/discover", "ping") or method.endswith("/list")
