"""Where messages go, what a client that comes back gets, and what is kept for it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcpd.agents.endpoint import streams as module
from mcpd.agents.endpoint.streams import GENERAL, KEPT, Carrier, Streams


def taken(carrier: Carrier) -> list[bytes]:
    return [event.message for event in carrier.take()]


def post(streams: Streams, on: bytes = b"1", *, resumable: bool = True, mute: bool = False) -> Carrier:
    return streams.open(on, resumable=resumable, mute=mute)


def get(streams: Streams, number: int = GENERAL, after: int | None = None) -> Carrier:
    carrier = streams.resume(number, after)
    assert carrier is not None
    return carrier


def test_every_message_goes_on_one_stream() -> None:
    streams = Streams()
    one, other, general = post(streams, b"1"), post(streams, b"2", resumable=False), get(streams)
    assert streams.write(b"progress", b"1")
    assert streams.write(b"log", b"2")
    assert streams.write(b"changed")
    assert streams.write(b"of a request that is over", b"3")
    assert streams.answer(b"answer 2", b"2")
    assert streams.answer(b"answer 1", b"1")
    assert not streams.answer(b"a second one", b"1")
    assert taken(one) == [b"progress", b"answer 1"]
    assert taken(other) == [b"log", b"answer 2"]
    assert taken(general) == [b"changed", b"of a request that is over"]
    assert (one.stream.over, other.stream.over, general.stream.over) == (True, True, False)
    assert streams.queued == 0


def test_whether_somebody_reads_what_belongs_to_a_request() -> None:
    streams = Streams()
    carrier = post(streams, b"1")
    assert (streams.attended(b"1"), streams.attended(b"")) == (True, False)
    carrier.leave()
    assert not streams.attended(b"1")
    again = get(streams, carrier.stream.number)
    assert streams.attended(b"1")
    again.leave()
    get(streams)
    assert (streams.attended(b"1"), streams.attended(b"")) == (False, True)


def test_a_client_that_reads_no_events_gets_its_answer_alone() -> None:
    streams = Streams()
    carrier = post(streams, mute=True)
    assert not streams.write(b"progress", b"1")
    streams.answer(b"answer", b"1")
    assert taken(carrier) == [b"answer"]


def test_a_withdrawn_request_ends_its_stream_without_an_answer() -> None:
    streams = Streams()
    carrier = post(streams)
    streams.unanswered(b"1")
    streams.unanswered(b"unknown")
    assert (taken(carrier), carrier.stream.over) == ([], True)


@pytest.mark.parametrize(("after", "missed"), [(0, 3), (1, 2), (2, 1)])
def test_a_stream_goes_on_from_behind_the_last_id(after: int, missed: int) -> None:
    streams = Streams()
    first = post(streams)
    everything = [b"a", b"b", b"c"]
    for line in everything[:2]:
        streams.write(line, b"1")
    first.take()
    first.leave()
    streams.answer(everything[2], b"1")
    second = get(streams, first.stream.number, after)
    events = second.take()
    assert [event.message for event in events] == everything[3 - missed :]
    assert [event.position for event in events] == list(range(after + 1, 4))
    assert taken(get(streams, first.stream.number, after)) == everything[3 - missed :], "and once more"


def test_ids_of_other_streams_lead_nowhere() -> None:
    streams = Streams()
    carrier = post(streams)
    streams.write(b"a", b"1")
    assert streams.resume(carrier.stream.number, 2) is None
    assert streams.resume(GENERAL, 1) is None
    assert streams.resume(99, 0) is None
    passing = post(streams, b"2", resumable=False)
    assert streams.resume(passing.stream.number, 0) is None


def test_what_was_said_before_the_general_stream_was_opened_waits_for_it() -> None:
    streams = Streams()
    streams.write(b"changed")
    assert streams.queued == 0, "nobody is there who could be slow"
    general = get(streams)
    assert streams.queued == 7
    assert taken(general) == [b"changed"]
    assert taken(get(streams)) == [], "without an id nothing is told twice"


async def test_the_newest_response_carries_a_stream_alone() -> None:
    streams = Streams()
    ended: list[str] = []

    async def carry(name: str, carrier: Carrier) -> None:
        await carrier.news()
        if carrier.replaced:
            ended.append(name)
        assert carrier.take() == []
        carrier.leave()
        carrier.discard()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(carry, "old", get(streams))
        await trio.testing.wait_all_tasks_blocked()
        new = get(streams)
    assert ended == ["old"]
    assert not new.replaced
    streams.write(b"a")
    assert taken(new) == [b"a"]


async def test_news_and_drained_wait_for_what_they_say() -> None:
    streams = Streams()
    carrier = post(streams)
    order: list[str] = []

    async def writer() -> None:
        streams.write(b"a", b"1")
        await streams.drained()
        order.append("drained")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer)
        await carrier.news()
        order.append("news")
        await trio.testing.wait_all_tasks_blocked()
        assert taken(carrier) == [b"a"]
    assert order == ["news", "drained"]
    await streams.drained()


async def test_who_has_left_keeps_nobody_waiting() -> None:
    streams = Streams()
    carrier = post(streams)
    streams.write(b"a", b"1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(streams.drained)
        await trio.testing.wait_all_tasks_blocked()
        carrier.leave()


@pytest.mark.parametrize("resumable", [True, False])
def test_a_stream_that_nobody_can_come_back_to_takes_nothing(resumable: bool) -> None:
    streams = Streams()
    carrier = post(streams, resumable=resumable)
    streams.write(b"a", b"1")
    if resumable:
        carrier.discard()
    else:
        carrier.leave()
    assert not streams.write(b"b", b"1")
    assert not streams.answer(b"c", b"1")
    assert streams.queued == 0
    assert streams.resume(carrier.stream.number) is None


async def test_the_end_of_the_session_ends_every_stream() -> None:
    streams = Streams()
    one, other, general = post(streams), post(streams, b"2", resumable=False), get(streams)
    streams.answer(b"answer", b"1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other.news)
        nursery.start_soon(general.news)
        nursery.start_soon(streams.drained)
        await trio.testing.wait_all_tasks_blocked()
        streams.close()
    assert all(carrier.stream.over for carrier in (one, other, general))
    assert taken(one) == [b"answer"], "what was said before is still carried"
    assert not streams.write(b"late")
    assert not streams.answer(b"late", b"2")
    one.leave()
    assert streams.resume(one.stream.number, 0) is None


def test_of_what_was_carried_the_newest_is_kept() -> None:
    streams = Streams()
    carrier = post(streams)
    for number in range(10):
        streams.write(b"%d" % number * (KEPT // 4), b"1")
        carrier.take()
    again = get(streams, carrier.stream.number, 0)
    assert [line[:1] for line in taken(again)] == [b"6", b"7", b"8", b"9"]


def test_of_what_nobody_fetches_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AWAITED", 10)
    streams = Streams()
    left, here = post(streams, b"1"), post(streams, b"2")
    left.leave()
    streams.write(b"x" * 6, b"1")
    streams.answer(b"y" * 5, b"1")
    streams.write(b"z" * 100, b"2")
    assert streams.queued == 100, "who is there loses nothing"
    assert taken(get(streams, left.stream.number)) == [b"y" * 5]
    assert taken(here) == [b"z" * 100]


def test_so_many_streams_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 3)
    streams = Streams()
    numbers = []
    for number in range(5):
        carrier = post(streams, b"%d" % number)
        streams.answer(b"a", b"%d" % number)
        carrier.leave()
        numbers.append(carrier.stream.number)
    assert [streams.resume(number) is not None for number in numbers] == [False, False, True, True, True]


class Machine(RuleBasedStateMachine):
    """One stream, a client that loses what was on its way when it breaks off, and room for everything.

    It sees every message once and in order; the counters are true at every moment.
    """

    def __init__(self) -> None:
        super().__init__()
        self.streams = Streams()
        self.carrier: Carrier | None = post(self.streams)
        self.number = self.carrier.stream.number
        self.said = 0
        self.seen: list[bytes] = []
        self.last_id = 0

    def line(self) -> bytes:
        self.said += 1
        return b"%d" % self.said

    @rule()
    def say(self) -> None:
        assert self.streams.write(self.line(), b"1")

    @rule()
    def say_elsewhere(self) -> None:
        self.streams.write(b"general")

    @precondition(lambda self: self.carrier is not None)
    @rule(arriving=st.integers(0, 3))
    def carry(self, arriving: int) -> None:
        assert self.carrier is not None
        events = self.carrier.take()
        arrived = events[:arriving]
        self.seen += [event.message for event in arrived]
        if arrived:
            self.last_id = arrived[-1].position
        if len(arrived) < len(events):
            self.leave()

    @precondition(lambda self: self.carrier is not None)
    @rule()
    def leave(self) -> None:
        assert self.carrier is not None
        self.carrier.leave()
        self.carrier = None

    @rule()
    def come_back(self) -> None:
        self.carrier = get(self.streams, self.number, self.last_id)

    @invariant()
    def nothing_is_told_twice_or_lost(self) -> None:
        assert self.seen == [b"%d" % number for number in range(1, len(self.seen) + 1)]

    @invariant()
    def counters_are_true(self) -> None:
        streams: Any = self.streams
        every = [streams.general, *streams._streams.values()]

        def size(events: Any) -> int:
            return sum(len(event.message) for event in events)

        assert streams.queued == sum(size(each.waiting) for each in every if each.carrier is not None)
        assert streams._awaited == sum(size(each.waiting) for each in every if each.carrier is None)
        assert streams._kept == sum(size(each.kept) for each in every)

    def teardown(self) -> None:
        self.come_back()
        assert self.carrier is not None
        self.seen += taken(self.carrier)
        assert len(self.seen) == self.said


TestStreams = Machine.TestCase
