"""Server-sent events in a stream of bytes (protocol reference 3.5; HTML standard, 9.2.6).

Data stays bytes: a line cannot be told from half of one by its characters, and JSON-RPC mends what is
no UTF-8 anyway.
"""

from __future__ import annotations

import re

import msgspec

from mcpd.protocol.framing import BOM, ENDS, LINE_LIMIT

#: Digits of a `retry` that are read; more would be longer than three hundred years.
_RETRY_DIGITS = 13

#: An `id` that can be kept: it goes into a header (RFC 9110 5.5), and nothing real comes near that length.
_ID = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]{0,4096}")


class Event(msgspec.Struct, frozen=True):
    """One event that carries data."""

    data: bytes
    name: str = "message"


class EventBuffer:
    """Cuts chunks into events. One over the limit is dropped and counted, only its two ends are kept.

    Nothing is kept of an event that the stream's end leaves unfinished, its `id` neither.
    """

    __slots__ = (
        "_after_cr",
        "_cut",
        "_data",
        "_filled",
        "_first",
        "_head",
        "_id",
        "_limit",
        "_line",
        "_name",
        "_over",
        "_tail",
        "dropped",
        "ends",
        "last_id",
        "retry",
    )

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        """`limit`: bytes of one event's data."""
        self._limit = limit
        self._line = bytearray()
        """The line that is not over yet; of one that is too long only the beginning."""
        self._cut = b""
        """The last bytes of a line that is too long."""
        self._first = True
        self._after_cr = False
        self._data = bytearray()
        self._filled = False
        """The event has a data line, which may be an empty one."""
        self._over = False
        self._head = b""
        self._tail = b""
        self._name = ""
        self._id = b""
        self.last_id = b""
        """The id that a resumed stream continues after; empty where there is none."""
        self.retry: float | None = None
        """Seconds that the server wants to pass before a stream is opened again."""
        self.dropped = 0
        self.ends: list[tuple[bytes, bytes]] = []
        """Beginning and end of each dropped event's data, until `take_ends`."""

    @property
    def held(self) -> int:
        """Bytes of an event that is not over yet."""
        return len(self._line) + len(self._data)

    def take_ends(self) -> list[tuple[bytes, bytes]]:
        ends, self.ends = self.ends, []
        return ends

    def restart(self) -> None:
        """What is fed from here on belongs to a new stream that continues this one."""
        self._line.clear()
        self._data.clear()
        self._cut = self._head = self._tail = b""
        self._first = True
        self._after_cr = self._filled = self._over = False
        self._name = ""
        self._id = self.last_id

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that this chunk completes. Those without data are no messages, and left out."""
        if self._after_cr and chunk:
            # The second half of a CRLF; the line was over with the first.
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = chunk.split(b"\n")
        events: list[Event] = []
        for part in ended:
            self._keep(part)
            event = self._line_ended()
            if event is not None:
                events.append(event)
        self._keep(rest)
        return events

    def _keep(self, part: bytes) -> None:
        if self._cut:
            self._cut = (self._cut + part)[-ENDS:]
            return
        self._line += part
        # A line is a field's name, a colon and a blank longer than its value.
        if len(self._line) > self._limit + ENDS:
            self._cut = bytes(self._line[-ENDS:])
            del self._line[ENDS:]

    def _line_ended(self) -> Event | None:
        line, cut = bytes(self._line), self._cut
        self._line.clear()
        self._cut = b""
        if self._first:
            self._first = False
            line = line.removeprefix(BOM)
        if not line:
            return self._event_ended()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._add(value, cut)
            case b"event":
                self._name = value[:ENDS].decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value if _ID.fullmatch(value) and not cut else b""
            case b"retry" if value.isdigit():
                self.retry = int(value.lstrip(b"0")[:_RETRY_DIGITS] or b"0") / 1000
        return None

    def _add(self, value: bytes, cut: bytes) -> None:
        """One data line; `cut`: its end, where it is too long to be there whole."""
        if not self._over and (cut or len(self._data) + len(value) > self._limit):
            self._over = True
            self._head = bytes(self._data[:ENDS] + value[:ENDS])[:ENDS]
            self._tail = bytes(self._data[-ENDS:])
            self._data.clear()
        if self._over:
            self._tail = (self._tail + (cut or value))[-ENDS:]
            return
        if self._filled:
            self._data += b"\n"
        self._data += value
        self._filled = True

    def _event_ended(self) -> Event | None:
        self.last_id = self._id
        data, name = bytes(self._data), self._name or "message"
        if self._over:
            self.dropped += 1
            self.ends.append((self._head, self._tail))
        self._data.clear()
        self._filled = self._over = False
        self._head = self._tail = b""
        self._name = ""
        return Event(data, name) if data else None
