from __future__ import annotations

import gzip
import itertools
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.inflate import CHUNK, Gzip, Plain

BODIES = st.one_of(
    st.binary(max_size=300),
    st.tuples(st.binary(min_size=1, max_size=3), st.integers(1, 200_000)).map(lambda t: t[0] * t[1]),
)
MEMBERS = st.lists(BODIES, min_size=1, max_size=4)
CUTS = st.lists(st.integers(0, 2000), max_size=8)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """The data in pieces, cut at the places given."""
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(places)]


def drain(decoder: Gzip | Plain, pieces: list[bytes]) -> bytes:
    """What a decoder makes of the pieces; no piece of it is longer than the limit."""
    out = []
    for data in pieces:
        decoder.feed(data)
        while piece := decoder.next():
            assert len(piece) <= CHUNK
            out.append(piece)
    return b"".join(out)


@given(BODIES, CUTS)
def test_a_plain_body_passes_as_it_is(body: bytes, cuts: list[int]) -> None:
    decoder = Plain()
    assert drain(decoder, split(body, cuts)) == body
    assert decoder.whole


@given(MEMBERS, CUTS)
def test_members_are_one_body_however_they_are_cut(bodies: list[bytes], cuts: list[int]) -> None:
    coded = b"".join(gzip.compress(body) for body in bodies)
    decoder = Gzip()
    assert drain(decoder, split(coded, cuts)) == b"".join(bodies)
    assert decoder.whole


def test_every_cut_of_a_coded_body_is_noticed() -> None:
    body = random.Random(1).randbytes(200) + bytes(3000)
    coded = gzip.compress(body)
    for length in range(1, len(coded)):
        decoder = Gzip()
        assert body.startswith(drain(decoder, [coded[:length]]))
        assert not decoder.whole
    decoder = Gzip()
    assert drain(decoder, [coded[n : n + 1] for n in range(len(coded))]) == body
    assert decoder.whole


def test_nothing_at_all_is_a_whole_body() -> None:
    assert drain(Gzip(), []) == b""
    assert Gzip().whole


@given(BODIES, st.binary(min_size=10, max_size=100).filter(lambda junk: not junk.startswith(b"\x1f\x8b")))
def test_what_follows_without_being_a_member_is_damage(body: bytes, junk: bytes) -> None:
    with pytest.raises(zlib.error):
        drain(Gzip(), [gzip.compress(body) + junk])


@given(BODIES, st.data())
def test_a_changed_byte_is_damage_or_does_not_matter(body: bytes, data: st.DataObject) -> None:
    coded = bytearray(gzip.compress(body, mtime=0))
    place = data.draw(st.integers(0, len(coded) - 1))
    coded[place] ^= data.draw(st.integers(1, 255))
    decoder = Gzip()
    try:
        got = drain(decoder, [bytes(coded)])
    except zlib.error:
        return
    # Time, system and flags of the header are not part of the content; a flag can announce more header.
    assert not decoder.whole or got == body


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_noise_ends_in_an_error_or_in_no_body(pieces: list[bytes]) -> None:
    decoder = Gzip()
    try:
        got = drain(decoder, pieces)
    except zlib.error:
        return
    assert got == b"" or not decoder.whole


def test_each_flushed_part_comes_at_once() -> None:
    coder = zlib.compressobj(wbits=31)
    decoder = Gzip()
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        assert drain(decoder, [coder.compress(event) + coder.flush(zlib.Z_SYNC_FLUSH)]) == event
    assert drain(decoder, [coder.flush()]) == b""
    assert decoder.whole


def test_a_doubled_bomb_costs_no_memory() -> None:
    # Inflated twice, a few hundred bytes become 64 MiB; here each layer gives one piece at a time.
    coded = gzip.compress(gzip.compress(bytes(64 << 20), 9), 9)
    assert len(coded) < 3000
    outer, inner = Gzip(), Gzip()
    size = 0
    tracemalloc.start()
    try:
        outer.feed(coded)
        while layer := outer.next():
            inner.feed(layer)
            for _ in range(20):
                size += len(inner.next())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size >= 20 * CHUNK
    assert peak < 2 << 20
