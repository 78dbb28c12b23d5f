"""Lines in a stream of bytes: one JSON message each, ended by a line feed (stdio transport)."""

from __future__ import annotations

#: 16 MiB: the figure of systemd's varlink server; images as base64 are several MiB.
LINE_LIMIT = 16 * 1024 * 1024

#: Bytes of either end of a dropped line that are kept, so that whose it was can be told.
ENDS = 200

#: Some writers put it at the beginning of a stream or a body; it is no part of any message.
BOM = b"\xef\xbb\xbf"


class LineBuffer:
    """Cuts chunks into lines. A line over the limit is dropped and counted, only its two ends are kept."""

    __slots__ = ("_first", "_head", "_limit", "_parts", "_size", "_skipping", "_tail", "dropped", "ends")

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False
        self._first = True
        self._head = b""
        self._tail = b""
        self.dropped = 0
        self.ends: list[tuple[bytes, bytes]] = []
        """Beginning and end of each dropped line that is over, until `take_ends`."""

    def take_ends(self) -> list[tuple[bytes, bytes]]:
        ends, self.ends = self.ends, []
        return ends

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without blank ones and without the line feed."""
        if chunk.find(b"\n") == len(chunk) - 1 and not self._parts and not self._first and not self._skipping:
            # One whole line, by far the most frequent chunk.
            line = chunk[:-1]
            return [line] if line and not line.isspace() and len(line) <= self._limit else self._odd(line)
        lines = chunk.split(b"\n")
        tail = lines.pop()
        if lines:
            lines[0] = self._complete(lines[0])
            if tail:
                self._keep(tail)
            if len(chunk) > self._limit:
                lines = [self._fitting(line) for line in lines]
            return [line for line in lines if line and not line.isspace()]
        self._keep(tail)
        return []

    def _odd(self, line: bytes) -> list[bytes]:
        """A whole line that is blank or too long."""
        self._fitting(line)
        return []

    def _fitting(self, line: bytes) -> bytes:
        if len(line) <= self._limit:
            return line
        self.dropped += 1
        self.ends.append((line[:ENDS], line[-ENDS:]))
        return b""

    def _keep(self, part: bytes) -> None:
        if self._skipping:
            self._tail = (self._tail + part)[-ENDS:]
            return
        self._size += len(part)
        if self._size > self._limit:
            line = b"".join(self._parts) + part
            self._head, self._tail = line[:ENDS], line[-ENDS:]
            self._skipping = True
            self._parts.clear()
            self.dropped += 1
            return
        self._parts.append(part)

    def _complete(self, end: bytes) -> bytes:
        if self._parts or self._skipping:
            self._keep(end)
            line = b"" if self._skipping else b"".join(self._parts)
            if self._skipping:
                self.ends.append((self._head, self._tail))
            self._parts.clear()
            self._size = 0
            self._skipping = False
        else:
            line = end
        if self._first:
            self._first = False
            line = line.removeprefix(BOM)
        return line
