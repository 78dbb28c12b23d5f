"""An agent's socket: the lines of one process go into its session, and the session's messages go out."""

from __future__ import annotations

import logging

import trio

from mcpd.agents.session import QUEUE_HIGH, Session
from mcpd.errors import Failure
from mcpd.protocol import jsonrpc
from mcpd.protocol.framing import LineBuffer
from mcpd.transport.lines import LineWriter
from mcpd.transport.reader import Reader

log = logging.getLogger("mcpd.agents")

#: Lines in a row that are no request, notification or answer, after which nothing better is expected.
MALFORMED = 100


class SocketOutlet(LineWriter):
    """Where the messages of a session on a socket go: one stream for all of them."""

    __slots__ = ()

    answer = LineWriter.write

    def unanswered(self, on: bytes) -> None:
        """Silence says it."""

    def attended(self, on: bytes) -> bool:
        """The session ends with its reader."""
        return True


class Pipe:
    """The reading side. The daemon's one reader hands in what arrives; nothing here waits."""

    def __init__(self, session: Session, reader: Reader, fd: int, nursery: trio.Nursery) -> None:
        self._session = session
        self._outlet = session.outlet
        self._reader = reader
        self._fd = fd
        self._nursery = nursery
        self._buffer = LineBuffer()

    def received(self, chunk: bytes | None) -> None:
        """Take what the reader read. Whatever goes wrong here is the end of this session alone."""
        session = self._session
        try:
            if chunk:
                self._feed(session, chunk)
            elif chunk is None:
                session.over.set()
            else:
                # It may have only finished writing (`printf ... | mcpctl bridge`) and want its answers.
                session.finish()
        except Exception:
            log.exception("session %s ends: internal error", session.id)
            session.over.set()

    def _feed(self, session: Session, chunk: bytes) -> None:
        for line in self._buffer.feed(chunk):
            if line[:1] == b"[" and session.revision is not None and session.revision.batches:
                session.take_batch(line)
            else:
                try:
                    message = jsonrpc.read(line)
                except Failure as e:
                    session.refuse(e, key=jsonrpc.unread_id(line))
                else:
                    session.take(message)
            if session.malformed and self._is_hopeless():
                return
        if self._buffer.ends:
            self._refuse_dropped()
        if self._outlet.queued > QUEUE_HIGH:
            self._reader.pause(self._fd)
            self._nursery.start_soon(self._read_on_later)

    async def _read_on_later(self) -> None:
        await self._outlet.drained()
        self._reader.resume(self._fd)

    def _is_hopeless(self) -> bool:
        """Whether the peer sends nothing but malformed lines; then this was the last one."""
        session = self._session
        if session.malformed < MALFORMED:
            return False
        log.info("session %s ends: %d malformed lines in a row", session.id, MALFORMED)
        session.refuse(
            Failure("invalid_request", f"this is closed after {MALFORMED} malformed messages in a row")
        )
        session.over.set()
        return True

    def _refuse_dropped(self) -> None:
        """Answer lines that were too long to be kept, under their ids where those can be seen."""
        for head, tail in self._buffer.take_ends():
            key = jsonrpc.requested_id(head, tail)
            failure = Failure("invalid_request", "a message is at most 16 MiB long")
            error = jsonrpc.error_text(failure.code, failure.message, failure.details())
            line = jsonrpc.error_line(b"null" if self._session.runs(key) else key, error)
            self._outlet.write(line)
