"""Events are the same however the bytes are cut, and what the HTML standard (9.2.6) says they are."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol.sse import Event, EventBuffer


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(p, len(data)) for p in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges) if a < b]


def feed(buffer: EventBuffer, chunks: list[bytes]) -> list[Event]:
    return [event for chunk in chunks for event in buffer.feed(chunk)]


def by_the_standard(text: bytes) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Events and the last id, by the standard's own steps over the whole text; empty data is no message."""
    events: list[tuple[bytes, bytes]] = []
    data: list[bytes] = []
    name = ident = last = b""
    lines = re.split(rb"\r\n|\r|\n", text.removeprefix(b"\xef\xbb\xbf"))
    for line in lines[:-1]:
        if not line:
            last = ident
            if b"\n".join(data):
                events.append((name or b"message", b"\n".join(data)))
            data, name = [], b""
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif field == b"id" and b"\0" not in value:
            ident = value
    return events, last


PIECES = st.lists(
    st.sampled_from(
        (
            *(b"data", b"event", b"id", b"retry", b":", b" ", b"\n", b"\r", b"\r\n", b"x", b"5", b"\0"),
            *(b"\xef\xbb\xbf", b"\xc3\xa9", b"\n\n", b"data: ", b"event: ping", b"id: 7", b"{}"),
        )
    ),
    max_size=40,
).map(b"".join)


@given(PIECES, st.lists(st.integers(0, 120)))
def test_any_split_gives_the_events_of_the_standard(text: bytes, places: list[int]) -> None:
    buffer = EventBuffer()
    got = feed(buffer, cut(text, places))
    events, last = by_the_standard(text)
    assert [(event.name.encode(), event.data) for event in got] == events
    assert buffer.last_id == last


@pytest.mark.parametrize(
    ("text", "events"),
    [
        (b"data: one\n\n", [Event(b"one")]),
        (b"data:one\n\ndata:  two\n\n", [Event(b"one"), Event(b" two")]),
        (b"data: a\ndata: b\ndata\ndata: c\n\n", [Event(b"a\nb\n\nc")]),
        (b"event: endpoint\ndata: /messages\n\n", [Event(b"/messages", "endpoint")]),
        (b": keep-alive\n\nevent: ping\ndata: \n\nid: 7\ndata:\n\nretry: 15000\n\n:\n\n", []),
        (b"event: ping\n\ndata: x\n\n", [Event(b"x")]),
        (b"data: x\r\n\r\ndata: y\r\r", [Event(b"x"), Event(b"y")]),
        (b"\xef\xbb\xbfdata: x\n\n\xef\xbb\xbfdata: y\n\n", [Event(b"x")]),
        (b"data: never finished\n", []),
        (b"Data: x\n\n data: x\n\n", []),
        (b'data: {"a":"caf\xc3\xa9"}\n\n', [Event('{"a":"café"}'.encode())]),
    ],
)
def test_events(text: bytes, events: list[Event]) -> None:
    assert feed(EventBuffer(), [text]) == events
    assert feed(EventBuffer(), [text[i : i + 1] for i in range(len(text))]) == events


def test_an_event_is_there_with_its_last_byte_of_any_kind() -> None:
    """Hazard: who waits for the LF that may follow a CR waits for the next event."""
    buffer = EventBuffer()
    assert buffer.feed(b"data: x\r\n\r") == [Event(b"x")]
    assert buffer.feed(b"\ndata: y\n\n") == [Event(b"y")]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (b"id: 7\ndata: x\n\n", b"7"),
        (b"id: 7\ndata:\n\n", b"7"),
        (b"id: 7\n\ndata: x\n\n", b"7"),
        (b"id: 7\n\nid\n\n", b""),
        (b"id: 7\n\nid: a\0b\n\n", b"7"),
        (b"id: 7\n\nid: 8\ndata: cut off", b"7"),
        (b"id: " + b"9" * 5000 + b"\n\n", b""),
        # No header can hold these, so nothing could be resumed after them.
        (b"id: 7\n\nid: a\x1bb\n\n", b""),
        (b"id: 7\n\nid: a\x7f\n\n", b""),
        ("id: Grüße\t1\n\n".encode(), "Grüße\t1".encode()),
    ],
)
def test_the_last_id_is_that_of_the_last_whole_event(text: bytes, last: bytes) -> None:
    buffer = EventBuffer()
    buffer.feed(text)
    assert buffer.last_id == last


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"1500", 1.5),
        (b"0", 0.0),
        (b"007", 0.007),
        (b"-5", None),
        (b"1.5", None),
        (b"", None),
        (b"5s", None),
        ("٣".encode(), None),
    ],
)
def test_retry_is_digits_only(value: bytes, seconds: float | None) -> None:
    buffer = EventBuffer()
    buffer.feed(b"retry: " + value + b"\n")
    assert buffer.retry == seconds


def test_an_endless_retry_is_no_fault() -> None:
    buffer = EventBuffer()
    buffer.feed(b"retry: " + b"9" * 10_000 + b"\n\n")
    assert buffer.retry is not None
    assert buffer.retry > 1e9


@given(st.integers(0, 30), st.booleans(), st.integers(1, 600), st.lists(st.integers(0, 2000), max_size=20))
def test_an_event_over_the_limit_is_dropped_and_the_next_is_not(
    before: int, one_line: bool, over: int, places: list[int]
) -> None:
    limit = 500
    head, tail = b'{"jsonrpc":"2.0","id":5,', b',"id":5}'
    size = limit + over - len(head) - len(tail)
    filling = b"" if one_line else b"\ndata: "
    event = b"data: " + head + b"x" * (size // 2) + filling + b"x" * (size - size // 2) + tail
    text = b"data: short\n\n" * before + event + b"\nid: 9\n\ndata: " + b"y" * limit + b"\n\n"
    buffer = EventBuffer(limit)
    assert feed(buffer, cut(text, places)) == [*[Event(b"short")] * before, Event(b"y" * limit)]
    ((beginning, end),) = buffer.take_ends()
    assert beginning.startswith(head)
    assert end.endswith(tail)
    assert max(len(beginning), len(end)) <= 200
    assert buffer.dropped == 1
    assert buffer.take_ends() == []
    assert buffer.last_id == b"9"


def test_what_is_dropped_is_not_kept_in_memory() -> None:
    buffer = EventBuffer(limit=100)
    for start in (b"data: ", b"junk", b"\ndata: "):
        buffer.feed(start)
        for _ in range(1000):
            assert buffer.feed(b"x" * 500) == []
        held = [getattr(buffer, name) for name in EventBuffer.__slots__]
        assert sum(len(value) for value in held if isinstance(value, bytes | bytearray)) < 2000
    assert buffer.feed(b"\n\ndata: after\n\n") == [Event(b"after")]
    assert buffer.dropped == 1


def test_a_stream_goes_on_in_another_one() -> None:
    """What the first one left half is gone; ids and `retry` stay."""
    buffer = EventBuffer()
    assert buffer.feed(b"retry: 500\nid: 1\ndata: a\n\nid: 2\nevent: odd\ndata: lost\ndata: h") == [
        Event(b"a")
    ]
    buffer.restart()
    assert (buffer.last_id, buffer.retry) == (b"1", 0.5)
    assert buffer.feed(b"\xef\xbb\xbfdata: b\n\n") == [Event(b"b")]
    assert buffer.last_id == b"1"
