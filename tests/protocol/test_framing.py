"""Lines are the same however the bytes are cut."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol.framing import LineBuffer


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(p, len(data)) for p in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]


def feed(buffer: LineBuffer, chunks: list[bytes]) -> list[bytes]:
    return [line for chunk in chunks for line in buffer.feed(chunk)]


@given(
    st.lists(st.binary(min_size=1, max_size=30).filter(lambda b: b"\n" not in b and not b.isspace())),
    st.lists(st.integers(0, 400)),
)
def test_any_split_gives_the_same_lines(lines: list[bytes], places: list[int]) -> None:
    lines = [line for line in lines if not line.startswith(b"\xef")]
    data = b"".join(line + b"\n" for line in lines)
    assert feed(LineBuffer(), cut(data, places)) == lines


def test_one_byte_at_a_time() -> None:
    data = b'{"a":1}\n\n  \t\n{"b":2}\r\n{"c":3}'
    assert feed(LineBuffer(), [data[i : i + 1] for i in range(len(data))]) == [b'{"a":1}', b'{"b":2}\r']


def test_byte_order_mark_of_the_first_line_is_dropped() -> None:
    assert feed(LineBuffer(), [b"\xef\xbb", b"\xbf{}\n\xef\xbb\xbf{}\n"]) == [b"{}", b"\xef\xbb\xbf{}"]


@given(st.lists(st.integers(0, 60)), st.integers(1, 20))
def test_a_line_over_the_limit_is_dropped_and_the_next_is_not(places: list[int], over: int) -> None:
    buffer = LineBuffer(limit=10)
    data = b"a" * (10 + over) + b"\nshort\n" + b"b" * 10 + b"\n"
    got = feed(buffer, cut(data, places))
    # A long line that arrives whole in one chunk costs nothing, but is no less too long.
    assert got == [b"short", b"b" * 10]
    assert buffer.dropped == 1
    assert len(buffer.take_ends()) == 1
    assert buffer.take_ends() == []


@given(st.lists(st.integers(0, 3000), max_size=40))
def test_the_ends_of_a_dropped_line_are_kept(places: list[int]) -> None:
    buffer = LineBuffer(limit=500)
    line = bytes(range(48, 58)) * 250
    assert feed(buffer, cut(line + b"\n" + line[::-1] + b"\nshort\n", places)) == [b"short"]
    assert buffer.take_ends() == [(line[:200], line[-200:]), (line[:-201:-1], line[199::-1])]


def test_a_dropped_line_is_not_kept_in_memory() -> None:
    buffer = LineBuffer(limit=100)
    for _ in range(1000):
        assert buffer.feed(b"x" * 50) == []
    assert buffer.dropped == 1
    assert buffer.feed(b"\nafter\n") == [b"after"]
