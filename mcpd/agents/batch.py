"""The answers of one array of messages, which are an array as well (2025-03-26; JSON-RPC 2.0, section 6)."""

from __future__ import annotations

from mcpd.agents.outlet import Outlet
from mcpd.errors import KINDS
from mcpd.protocol import jsonrpc
from mcpd.protocol.framing import LINE_LIMIT


class Batch:
    """Collects the answers of one array until all are there; together they are one line within the limit."""

    def __init__(self, outlet: Outlet, on: bytes) -> None:
        self._outlet = outlet
        self._on = on
        self._open: set[bytes] = set()
        self._answers: list[bytes] = []
        self._room = LINE_LIMIT
        self._closed = False

    def open(self, key: bytes) -> None:
        self._open.add(key)

    def add(self, line: bytes) -> None:
        """An answer to something that was not opened."""
        self._answers.append(line.rstrip(b"\n"))

    def put(self, key: bytes, line: bytes | None) -> None:
        """An answer, or None for a request that gets none."""
        self._open.discard(key)
        if line and len(line) > self._room:
            error = jsonrpc.error_text(KINDS["too_large"], "the answers of this batch are too large together")
            line = jsonrpc.error_line(key, error)
        if line:
            self._room -= len(line)
            self.add(line)
        self._flush()

    def close(self) -> None:
        """All members have been taken."""
        self._closed = True
        self._flush()

    def _flush(self) -> None:
        if not self._closed or self._open:
            return
        if self._answers:
            self._outlet.answer(b"[" + b",".join(self._answers) + b"]\n", self._on)
        else:
            self._outlet.unanswered(self._on)
