"""What one session says over HTTP: every message goes on one stream, and one response at a time carries it.

A POST has a stream of its own for the answer and whatever else belongs to its request; the rest goes on the
general stream, which a GET carries (3.2). Streams of a session with a handshake can be resumed: what a
response has carried is kept, and what none has carried waits, both as far as there is room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import trio

from mcpd.protocol.framing import LINE_LIMIT

#: Bytes that are kept of one session so that a client can ask for them again.
KEPT = 1024 * 1024
#: Bytes that wait for clients which have left: one answer of the greatest length.
AWAITED = LINE_LIMIT
#: Streams of one session that are remembered; the oldest that is over is forgotten first.
REMEMBERED = 512

#: The number of the general stream.
GENERAL = 0


class Event(NamedTuple):
    position: int
    """From 1 on, within its stream."""
    message: bytes
    """A line of JSON text."""


class Stream:
    """Belongs to its `Streams`, which alone changes it."""

    def __init__(self, number: int, *, resumable: bool, mute: bool) -> None:
        self.number = number
        self.resumable = resumable
        self.mute = mute
        """Nothing but the answer can be said on it: its client reads no events."""
        self.waiting: deque[Event] = deque()
        self.kept: deque[Event] = deque()
        self.last = 0
        """The position of the newest event."""
        self.over = False
        """The answer is among the events, or there is none; no other will come."""
        self.carrier: Carrier | None = None


class Carrier:
    """One response, as long as it carries a stream. A newer one for the same stream takes its place."""

    def __init__(self, streams: Streams, stream: Stream) -> None:
        self.stream = stream
        self._streams = streams
        self.wake = trio.Event()

    @property
    def replaced(self) -> bool:
        return self.stream.carrier is not self

    async def news(self) -> None:
        """Return when there is something to take, or a reason to end."""
        while not (self.replaced or self.stream.waiting or self.stream.over):
            self.wake = trio.Event()
            await self.wake.wait()

    def take(self) -> list[Event]:
        """What is to be carried next; nothing when another carrier has taken over."""
        return [] if self.replaced else self._streams.take(self.stream)

    def leave(self) -> None:
        """The response has ended, whatever the reason; the client may come back."""
        if not self.replaced:
            self._streams.leave(self.stream)

    def discard(self) -> None:
        """The response has ended, and nobody can ask for the stream again."""
        if not self.replaced:
            self._streams.discard(self.stream)


class Streams:
    """The outlet of a session (`session.Outlet`), and the owner of its streams."""

    def __init__(self) -> None:
        self.queued = 0
        """Bytes that wait for a client which is there to take them."""
        self._awaited = 0
        """Bytes that wait for a client which is not."""
        self._kept = 0
        self.general = Stream(GENERAL, resumable=True, mute=False)
        self._numbers = GENERAL
        self._streams: dict[int, Stream] = {}
        """Those of POSTs that can be resumed, the oldest first."""
        self._of: dict[bytes, Stream] = {}
        """The stream of each request without an answer."""
        self._drained: trio.Event | None = None
        self._closed = False

    # ---------------------------------------------------------------- carriers

    def open(self, on: bytes, *, resumable: bool, mute: bool) -> Carrier:
        """The carrier of a new stream, for everything that belongs to the request `on`."""
        self._numbers += 1
        stream = self._of[on] = Stream(self._numbers, resumable=resumable, mute=mute)
        if resumable:
            self._forget()
            self._streams[stream.number] = stream
        return self._carry(stream)

    def resume(self, number: int, after: int | None = None) -> Carrier | None:
        """Carry a stream on, from behind the position `after`; None when it is not known any more."""
        stream = self.general if number == GENERAL else self._streams.get(number)
        if stream is None or (after is not None and after > stream.last):
            return None
        if stream.carrier is not None:
            self.leave(stream)
        while after is not None and stream.kept and stream.kept[-1].position > after:
            event = stream.kept.pop()
            stream.waiting.appendleft(event)
            self._kept -= len(event.message)
            self._awaited += len(event.message)
        return self._carry(stream)

    def _carry(self, stream: Stream) -> Carrier:
        stream.carrier = Carrier(self, stream)
        size = _size(stream.waiting)
        self._awaited -= size
        self.queued += size
        return stream.carrier

    def take(self, stream: Stream) -> list[Event]:
        taken = list(stream.waiting)
        stream.waiting.clear()
        size = _size(taken)
        self._less(size)
        if stream.resumable and not self._closed:
            stream.kept.extend(taken)
            self._kept += size
            self._trim()
        return taken

    def leave(self, stream: Stream) -> None:
        """No response carries it any more."""
        carrier, stream.carrier = stream.carrier, None
        if carrier is not None:
            carrier.wake.set()
        size = _size(stream.waiting)
        self._less(size)
        if stream.resumable and not self._closed:
            self._awaited += size
            self._trim()
        else:
            stream.waiting.clear()

    def discard(self, stream: Stream) -> None:
        """What it holds is dropped, and so is what is still said on it."""
        stream.resumable = False
        self._streams.pop(stream.number, None)
        self._kept -= _size(stream.kept)
        stream.kept.clear()
        if stream.carrier is not None:
            self.leave(stream)
        else:
            self._awaited -= _size(stream.waiting)
            stream.waiting.clear()

    # ------------------------------------------------------------------ outlet

    def write(self, line: bytes, on: bytes = b"") -> bool:
        """A notice or a request: on the stream of the request `on`, else on the general one. False when
        nobody will read it."""
        return self._put(self._of.get(on, self.general) if on else self.general, line)

    def answer(self, line: bytes, on: bytes) -> bool:
        """The last word on the request `on`."""
        stream = self._of.pop(on, None)
        if stream is None:
            return False
        stream.over = True
        stream.mute = False
        return self._put(stream, line)

    def unanswered(self, on: bytes) -> None:
        """The request `on` gets no answer: its stream just ends."""
        stream = self._of.pop(on, None)
        if stream is not None:
            _end(stream)

    def attended(self, on: bytes) -> bool:
        """Whether a response carries the request's stream."""
        return self._of.get(on, self.general).carrier is not None

    async def drained(self) -> None:
        """Return once nothing waits for a client that is there."""
        while self.queued and not self._closed:
            if self._drained is None:
                self._drained = trio.Event()
            await self._drained.wait()

    def close(self) -> None:
        """The end of the session: every stream ends with what waits on it."""
        self._closed = True
        for stream in (self.general, *self._streams.values(), *self._of.values()):
            stream.kept.clear()
            _end(stream)
        self._streams.clear()
        self._of.clear()
        self._wake_writers()

    def _put(self, stream: Stream, line: bytes) -> bool:
        if self._closed or stream.mute or (stream.carrier is None and not stream.resumable):
            return False
        stream.last += 1
        stream.waiting.append(Event(stream.last, line))
        if stream.carrier is None:
            self._awaited += len(line)
            self._trim()
        else:
            self.queued += len(line)
            stream.carrier.wake.set()
        return True

    def _less(self, size: int) -> None:
        self.queued -= size
        if not self.queued:
            self._wake_writers()

    def _wake_writers(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    # -------------------------------------------------------------------- room

    def _trim(self) -> None:
        """Drop the oldest events beyond what there is room for."""
        while self._kept > KEPT:
            stream = next((each for each in self._streams.values() if each.kept), self.general)
            self._kept -= len(stream.kept.popleft().message)
        while self._awaited > AWAITED:
            left = (each for each in self._streams.values() if each.waiting and each.carrier is None)
            self._awaited -= len(next(left, self.general).waiting.popleft().message)

    def _forget(self) -> None:
        """Make room among the streams that are remembered."""
        if len(self._streams) >= REMEMBERED:
            left = (each for each in self._streams.values() if each.over and each.carrier is None)
            oldest = next(left, None)
            if oldest is not None:
                self.discard(oldest)


def _end(stream: Stream) -> None:
    stream.over = True
    if stream.carrier is not None:
        stream.carrier.wake.set()


def _size(events: Iterable[Event]) -> int:
    return sum(len(event.message) for event in events)
