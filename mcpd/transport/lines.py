"""Raw descriptors under trio: the one place that reads chunks and writes lines.

A line is written by one direct `os.write` without a checkpoint. What the descriptor does not take
at once is owned by a single backlog task, so a caller that is cancelled never leaves half a line,
and two callers never mix theirs. Descriptors are non-blocking and belong to the caller.

Many lines to one stream within one turn of the loop leave together: the first at once, the others by
the backlog task when everybody has had a turn. Else the peer would be woken for each of them, and would
take the processor to read one line (measured with 50 agents on one CPU: half a switch a call less).
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable
from itertools import islice

import trio

#: Reads above 64 KiB are mapped and unmapped by malloc each time (measured).
CHUNK = 65536

#: Parts of the backlog that are offered to the kernel at once; it takes 1,024 at most.
PARTS = 128

#: The backlog of a stream whose peer has always read: an empty one of its own takes 0.7 KiB an agent.
_NOTHING: deque[memoryview] = deque(maxlen=0)

_wait_readable = trio.lowlevel.wait_readable


async def read_chunk(fd: int) -> bytes:
    """The next bytes of the stream; empty at its end, also when the peer broke it."""
    while True:
        await _wait_readable(fd)
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return b""


class Turns:
    """How often what has arrived was read; by it a writer sees which of its lines belong together."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class LineWriter:
    """The writing side of one stream.

    `nursery` runs the backlog task, which exists only while something waits.
    """

    __slots__ = ("_backlog", "_broke", "_drained", "_fd", "_nursery", "_turn", "_turns", "broken", "queued")

    def __init__(
        self,
        fd: int,
        nursery: trio.Nursery,
        broke: Callable[[], None] | None = None,
        turns: Turns | None = None,
    ) -> None:
        """`broke` is called when the peer turns out to be gone. `turns`: join the lines of one turn."""
        self._fd = fd
        self._broke = broke
        self._turns = turns
        self._turn = -1
        """The turn of the last line that was written directly."""
        self._nursery = nursery
        self._backlog = _NOTHING
        self._drained: trio.Event | None = None
        self.queued = 0
        """Bytes that wait in the backlog."""
        self.broken = False
        """The peer is gone or the stream was closed; what is written from now on is dropped."""

    def write(self, line: bytes, on: bytes = b"") -> bool:
        """Send one line. False when the stream is broken; True may still mean "queued".

        `on`: what it belongs to, for outlets with more than one stream; here it changes nothing.
        """
        if self.broken:
            return False
        if self._backlog:
            self._queue(memoryview(line))
            return True
        if self._turns is not None:
            turn = self._turns.number
            if turn == self._turn:
                self._queue(memoryview(line))
                self._nursery.start_soon(self._drain)
                return True
            self._turn = turn
        try:
            sent = os.write(self._fd, line)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._break()
            return False
        if sent < len(line):
            self._queue(memoryview(line)[sent:])
            self._nursery.start_soon(self._drain)
        return True

    def _queue(self, rest: memoryview) -> None:
        if self._backlog is _NOTHING:
            self._backlog = deque()
        self._backlog.append(rest)
        self.queued += len(rest)

    async def _drain(self) -> None:
        while self._backlog and not self.broken:
            try:
                self._taken(os.writev(self._fd, list(islice(self._backlog, PARTS))))
            except BlockingIOError:
                pass
            except OSError:
                self._break()
                break
            if self._backlog:
                try:
                    await trio.lowlevel.wait_writable(self._fd)
                except (OSError, trio.ClosedResourceError):
                    self._break()
                    break
        self._wake()

    def _taken(self, sent: int) -> None:
        """So many bytes of the backlog have left."""
        backlog = self._backlog
        self.queued -= sent
        while backlog and sent >= len(backlog[0]):
            sent -= len(backlog.popleft())
        if sent:
            backlog[0] = backlog[0][sent:]

    def _break(self) -> None:
        closed = self.broken
        self.close()
        if self._broke is not None and not closed:
            self._broke()

    async def drained(self) -> None:
        """Return once nothing waits any more, or the stream is broken."""
        while self._backlog and not self.broken:
            if self._drained is None:
                self._drained = trio.Event()
            await self._drained.wait()

    def close(self) -> None:
        """Stop writing and drop what waits. Call before the descriptor is closed."""
        self.broken = True
        self._backlog.clear()
        self.queued = 0
        self._wake()

    def _wake(self) -> None:
        if self._drained is not None:
            self._drained.set()
            self._drained = None


async def hung_up(fd: int) -> None:
    """Return once the peer has closed both directions; reading alone cannot tell that from one."""
    with select.epoll() as hangup:
        hangup.register(fd, 0)  # EPOLLHUP and EPOLLERR are always reported
        await _wait_readable(hangup.fileno())
