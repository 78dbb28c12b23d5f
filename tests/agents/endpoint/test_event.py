"""Events that are written are read back by the parser of the other side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.agents.endpoint import event
from mcpd.protocol.sse import EventBuffer


def test_a_message_is_one_event() -> None:
    assert event.message(b'{"a":1}\n', "3-7") == b'event: message\nid: 3-7\ndata: {"a":1}\n\n'
    assert event.message(b'{"a":1}\n') == b'event: message\ndata: {"a":1}\n\n'


def test_a_blank_between_values_may_be_a_carriage_return() -> None:
    assert event.message(b'{"a":\r1}\r\n') == b'event: message\ndata: {"a": 1} \n\n'


def test_a_stream_begins_with_an_id_and_no_data() -> None:
    buffer = EventBuffer()
    assert buffer.feed(event.priming("0-4")) == []
    assert (buffer.last_id, buffer.retry) == (b"0-4", 1.0)
    assert buffer.feed(event.KEEP_ALIVE) == []
    assert buffer.last_id == b"0-4"


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers()), max_size=5), st.booleans())
def test_what_is_written_is_read(messages: list[dict[str, object]], resumable: bool) -> None:
    buffer = EventBuffer()
    lines = [json.dumps(each, ensure_ascii=False).encode("utf-8", "replace") for each in messages]
    written = b"".join(
        event.message(line + b"\n", event.ident(9, at) if resumable else "") for at, line in enumerate(lines)
    )
    assert [each.data for each in buffer.feed(written)] == lines
    assert buffer.last_id == (b"9-%d" % (len(lines) - 1) if resumable and lines else b"")


@pytest.mark.parametrize(("text", "place"), [("0-0", (0, 0)), ("12-345", (12, 345))])
def test_ids_are_read_back(text: str, place: tuple[int, int]) -> None:
    assert event.read_ident(text) == place
    assert event.ident(*place) == text


@pytest.mark.parametrize(
    "text", ["", "0", "-", "1-", "-1", "1-2-3", "1 - 2", "x-1", "1" * 16 + "-1", "1-2\n"]
)
def test_ids_of_others_are_none(text: str) -> None:
    assert event.read_ident(text) is None
