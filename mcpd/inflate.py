"""Bodies of answers taken out of their coding, in pieces of bounded size, whatever they would become."""

from __future__ import annotations

import zlib
from typing import Final

#: Bytes that a decoder gives at most at once.
CHUNK: Final = 65536


class Plain:
    """A body that is not coded."""

    def __init__(self) -> None:
        self._rest = b""
        self.whole = True

    def feed(self, data: bytes) -> None:
        self._rest += data

    def next(self) -> bytes:
        piece, self._rest = self._rest[:CHUNK], self._rest[CHUNK:]
        return piece


class Gzip:
    """A body coded by gzip (RFC 1952), of one member or several: `feed`, then `next` until it is empty.

    One call gives at most CHUNK bytes, whatever the data would become: 590 bytes can be 256 MiB. `next`
    raises zlib.error for damage and for what follows the last member without being one.
    """

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._rest = b""
        self._full = False
        """The last piece was a full one: zlib may hold more of it though all data is used."""
        self.whole = True
        """No member is open. A body without a byte counts: it is what a 202 has."""

    def feed(self, data: bytes) -> None:
        self._rest += data

    def next(self) -> bytes:
        while self._rest or self._full:
            self.whole = False
            piece = self._member.decompress(self._rest, CHUNK)
            if self._member.eof:
                self._rest, self._full, self.whole = self._member.unused_data, False, True
                self._member = zlib.decompressobj(wbits=31)
            else:
                self._rest, self._full = self._member.unconsumed_tail, len(piece) == CHUNK
            if piece:
                return piece
        return b""
