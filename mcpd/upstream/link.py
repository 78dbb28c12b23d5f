"""One transport from its first message on: the opening, then the connection."""

from __future__ import annotations

from collections.abc import Callable

import trio

from mcpd.protocol import jsonrpc
from mcpd.transport.base import ConnectFailed, ConnectionLost, Ending, Receive, Sender, Unanswered
from mcpd.transport.pending import Deadlines
from mcpd.upstream.connection import QUEUE_MAX, Connection, Noticed
from mcpd.upstream.opening import PROBE_SILENCE, Opening
from mcpd.upstream.relay import Relay


class Link:
    """Hands what a transport receives to whoever is in charge, and notices its end.

    `withdraw` is called, before the waiting requests are told, when the transport ends.
    """

    def __init__(
        self,
        sender: Sender,
        opening: Opening,
        deadlines: Deadlines,
        noticed: Noticed,
        remark: Callable[[str], None],
        silence: float = PROBE_SILENCE,
        relay: Relay | None = None,
    ) -> None:
        """`silence`: seconds after the probe until the server is asked in the older way; `relay` gets what
        the server asks."""
        self.opening = opening
        self.connection: Connection | None = None
        self.ending = Ending("failed", "the connection ended")
        self.over = trio.Event()
        self.receive: Receive = self._opened
        self.withdraw: Callable[[], None] = lambda: None
        self._deadlines = deadlines
        self._noticed = noticed
        self._remark = remark
        self._relay = relay
        self._turned = trio.Event()
        self._sender = sender
        self._silence = silence

    async def open(self) -> Connection:
        """Settle the revision. Raises ConnectFailed; the caller bounds the time."""
        self._send(self.opening.start())
        with trio.move_on_after(self._silence) as silence:
            await self._turned.wait()
        if silence.cancelled_caught:
            self._send(self.opening.silence())
            await self._turned.wait()
        if self.opening.failed is not None:
            raise self.opening.failed
        if self.connection is None:
            ending = self.ending
            raise ConnectFailed(ending.reason, ending.message, lasting=ending.lasting)
        return self.connection

    def _opened(self, line: bytes, on: bytes = b"") -> None:
        """Take a message until the revision is settled; from then on it is the connection's."""
        message = jsonrpc.read_lenient(line)
        if message is None:
            self._remark(f"not JSON-RPC: {line[:200].decode('utf-8', 'replace')}")
            return
        if message.method and self._sender.queued > QUEUE_MAX:
            # It asks and asks, and does not take the answers.
            return
        lines = self.opening.receive(message, on)
        settled = self.opening.settled
        if settled is not None:
            self.connection = Connection(
                settled,
                self._sender,
                self._deadlines,
                self._noticed,
                self._remark,
                self._relay,
                self._withdraw,
            )
            self.receive = self.connection.receive
            self._sender.settle(settled.revision)
        self._went_on(lines)

    def dropped(self, head: bytes, tail: bytes) -> None:
        """A line was too long to be kept; if it was an answer, its request is told."""
        key = jsonrpc.answered_id(head, tail)
        if self.connection is not None and key:
            self.connection.too_large(key)

    def failed(self, key: bytes, failure: Unanswered | ConnectionLost) -> None:
        """A request gets no answer from the transport."""
        if self.connection is not None:
            self.connection.failed(key, failure)
        else:
            self._went_on(self.opening.unanswered(key, failure))

    def lost(self, ending: Ending) -> None:
        """The transport ended; what waits is told after the connection has been withdrawn."""
        if not self.over.is_set():
            self.ending = ending
        self._withdraw()
        self._turned.set()
        self.over.set()

    def _withdraw(self) -> None:
        self.withdraw()
        if self.connection is not None:
            self.connection.lose()

    def _went_on(self, lines: list[bytes]) -> None:
        self._send(lines)
        if self.opening.settled is not None or self.opening.failed is not None:
            self._turned.set()

    def _send(self, lines: list[bytes]) -> None:
        for line in lines:
            self._sender.write(line)
