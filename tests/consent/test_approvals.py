"""Calls that wait for a person (n05, n07), on a clock that jumps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcpd.changes import Changes
from mcpd.consent.approvals import Approvals
from mcpd.consent.questions import By, Event, Question
from mcpd.errors import Failure
from mcpd.policy.binding import digest
from mcpd.protocol.abilities import NONE, Ability
from mcpd.transport.pending import Ask
from mcpd.upstream.ticket import Ticket, Withdrawn
from tests.consent.asked import question

WAIT, DEADLINE = 45.0, 900.0
ME = By(1, "/bin/sh")


class Teller:
    """Whoever called, as far as it hears of progress and can be asked."""

    session = party = "s1"
    level: int | None = None
    extensions = b""
    makes_tasks = False

    def __init__(self, abilities: Ability = NONE) -> None:
        self.abilities = abilities
        self.told: list[tuple[float, Any]] = []
        self.asks: list[Ask] = []

    def progressed(self, raw: bytes) -> None:
        self.told.append((trio.current_time(), json.loads(raw)))

    def logged(self, raw: bytes) -> None:
        raise AssertionError

    def asked(self, ask: Ask) -> None:
        self.asks.append(ask)


class World:
    def __init__(self, nursery: trio.Nursery) -> None:
        self.events: list[Event] = []
        self.changes = Changes()
        self.slept = 0.0
        """Seconds for which the machine was suspended: trio's clock stands still then."""
        self.approvals = Approvals(self.changes, self.events.append, lambda: trio.current_time() + self.slept)
        self.nursery = nursery

    async def ask(
        self, asked: Question, *, wait: float = WAIT, deadline: float = DEADLINE, asker: Any = None
    ) -> str:
        return await self.approvals.ask(asked, Ticket(), asker, wait=wait, deadline=deadline)

    async def begin(self, asked: Question, **how: Any) -> Call:
        """A call that waits now."""
        call = Call()
        self.nursery.start_soon(call.run, self.ask, asked, how)
        await trio.testing.wait_all_tasks_blocked()
        return call

    async def refused(self, asked: Question, **how: Any) -> Failure:
        with pytest.raises(Failure) as refused:
            await self.ask(asked, **how)
        return refused.value

    @property
    def outcomes(self) -> list[str]:
        return [event.outcome for event in self.events]

    def only(self) -> str:
        """The id of the only open question."""
        (opened,) = self.approvals.open()
        return opened.id


class Call:
    def __init__(self) -> None:
        self.result: str | Failure | None = None
        self.done = trio.Event()

    async def run(self, ask: Callable[..., Any], asked: Question, how: dict[str, Any]) -> None:
        try:
            self.result = await ask(asked, **how)
        except Failure as failure:
            self.result = failure
        self.done.set()

    async def outcome(self) -> str:
        """The id of the yes, or the kind of the failure."""
        await self.done.wait()
        return self.result.kind if isinstance(self.result, Failure) else str(self.result)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        here = World(nursery)
        await nursery.start(here.approvals.run)
        yield here
        nursery.cancel_scope.cancel()


# ------------------------------------------------------------------------- one call


async def test_a_yes_lets_the_call_through_once() -> None:
    async with world() as w:
        call = await w.begin(question())
        name = w.only()
        await trio.sleep(10)
        opened = w.approvals.approve(name, ME)
        assert opened.waiting == 1
        assert await call.outcome() == name
        assert (len(w.approvals.open()), len(w.approvals.unused())) == (0, 0)
        assert w.approvals.take(question().digest) == ""
        assert w.outcomes == ["asked", "approved"]
        assert (w.events[1].by, w.events[1].id, w.events[1].waited) == (ME, name, 10)
        # The same call again is a new question.
        await w.begin(question())
        assert w.only() != name


async def test_a_yes_that_no_call_has_used_can_be_taken_back() -> None:
    async with world() as w:
        name = (await w.refused(question(), wait=0)).data["approval"]
        assert w.approvals.take_back(name, ME) is None, "it is open"
        w.approvals.approve(name, ME)
        assert w.approvals.take_back("another", ME) is None
        assert w.approvals.take_back(name, ME) == question()
        assert w.approvals.take(question().digest) == ""
        assert w.outcomes == ["asked", "approved", "denied"]
        assert (await w.refused(question())).kind == "denied"
        with pytest.raises(Failure, match="denied"):
            w.approvals.deny(name, ME)
        # A used one is what it was.
        call = await w.begin(question({"n": 2}))
        name = w.only()
        w.approvals.approve(name, ME)
        assert await call.outcome() == name
        assert w.approvals.take_back(name, ME) is None


async def test_a_no_denies_it_and_the_same_call_for_a_quarter_of_an_hour() -> None:
    async with world() as w:
        call = await w.begin(question())
        name = w.only()
        w.approvals.deny(name, ME)
        assert await call.outcome() == "denied"
        assert isinstance(call.result, Failure)
        assert call.result.data == {"approval": name}
        await trio.sleep(899)
        assert (await w.refused(question())).kind == "denied"
        assert w.outcomes == ["asked", "denied"]
        # Any other call is asked about.
        await w.begin(question({"path": "/b"}))
        await trio.sleep(1)
        await w.begin(question())
        assert w.outcomes == ["asked", "denied", "asked", "asked"]


async def test_pending_after_45_seconds_and_open_for_15_minutes() -> None:
    async with world() as w:
        began = trio.current_time()
        pending = await w.refused(question())
        assert pending.kind == "pending"
        assert trio.current_time() - began == 45
        name = pending.data["approval"]
        assert name in pending.message
        assert f"mcpctl approve {name}" in pending.hint
        assert "same arguments" in pending.hint
        assert w.only() == name
        # Repeating the call joins the question, and waits as long again.
        again = await w.refused(question())
        assert again.data["approval"] == name
        await trio.sleep(900 - 90 - 1)
        assert w.only() == name
        await trio.sleep(1)
        assert w.approvals.open() == ()
        assert w.outcomes == ["asked", "expired"]


@pytest.mark.parametrize(
    ("deadline", "said"), [(20, "within 19 s:"), (60, "within 59 s:"), (900, "within 15 min:")]
)
async def test_how_long_is_left_is_said_as_it_is(deadline: float, said: str) -> None:
    async with world() as w:
        assert said in (await w.refused(question(), wait=1, deadline=deadline)).hint


async def test_a_cron_like_agent_runs_once_after_a_yes_from_elsewhere() -> None:
    async with world() as w:
        name = (await w.refused(question())).data["approval"]
        w.approvals.approve(name, ME)
        await trio.sleep(3599)
        assert [yes.id for yes in w.approvals.unused()] == [name]
        assert w.approvals.take(question().digest) == name
        assert w.approvals.take(question().digest) == ""
        assert (await w.refused(question())).data["approval"] != name


async def used(w: World) -> str:
    """The id of a yes that a call has used."""
    name: str = (await w.refused(question())).data["approval"]
    w.approvals.approve(name, ME)
    assert w.approvals.take(question().digest) == name
    return name


async def test_a_yes_of_a_call_that_was_not_sent_is_there_again_for_what_is_left_of_its_hour() -> None:
    async with world() as w:
        name = await used(w)
        await trio.sleep(3599)
        w.approvals.give_back(name)
        w.approvals.give_back(name)
        assert [yes.id for yes in w.approvals.unused()] == [name]
        assert w.approvals.take(question().digest) == name
        await trio.sleep(1)
        w.approvals.give_back(name)
        w.approvals.give_back("")
        w.approvals.give_back("nobody's")
        assert w.approvals.unused() == ()


@pytest.mark.parametrize("meanwhile", ["asked", "denied", "approved", "taken back", "trust", "agent"])
async def test_a_yes_does_not_come_back_over_what_a_person_has_said_since(meanwhile: str) -> None:
    async with world() as w:
        name = await used(w)
        if meanwhile == "trust":
            w.approvals.supersede("files")
        elif meanwhile == "agent":
            w.approvals.forget("coder")
        elif meanwhile == "taken back":
            assert w.approvals.take_back(name, ME) is None
        else:
            other = (await w.refused(question())).data["approval"]
            if meanwhile == "denied":
                w.approvals.deny(other, ME)
            elif meanwhile == "approved":
                w.approvals.approve(other, ME)
        w.approvals.give_back(name)
        assert name not in [yes.id for yes in w.approvals.unused()]


async def test_a_yes_that_nobody_uses_is_gone_after_an_hour() -> None:
    async with world() as w:
        name = (await w.refused(question())).data["approval"]
        w.approvals.approve(name, ME)
        await trio.sleep(3600)
        assert w.approvals.unused() == ()
        assert w.approvals.take(question().digest) == ""


async def test_the_hour_of_a_yes_goes_on_while_the_machine_sleeps() -> None:
    async with world() as w:
        name = (await w.refused(question())).data["approval"]
        w.approvals.approve(name, ME)
        w.slept += 3599
        assert [yes.id for yes in w.approvals.unused()] == [name]
        w.slept += 1
        assert w.approvals.take(question().digest) == ""
        assert w.approvals.unused() == ()


async def test_a_question_is_not_open_longer_because_the_machine_slept() -> None:
    async with world() as w:
        name = (await w.refused(question())).data["approval"]
        w.slept += DEADLINE
        with pytest.raises(Failure):
            w.approvals.approve(name, ME)
        assert w.outcomes == ["asked", "expired"]


async def test_the_deadline_denies_whoever_waits() -> None:
    async with world() as w:
        await w.refused(question())
        call = await w.begin(question(), wait=10_000)
        assert await call.outcome() == "denied"
        assert trio.current_time() >= 900
        assert w.outcomes == ["asked", "expired"]
        # That was nobody's no: the next one asks again.
        await w.begin(question())
        assert w.outcomes == ["asked", "expired", "asked"]


async def test_without_limits_it_waits_as_long_as_it_takes() -> None:
    async with world() as w:
        call = await w.begin(question(), wait=float("inf"), deadline=float("inf"))
        await trio.sleep(86400)
        w.approvals.approve(w.only(), ME)
        assert await call.outcome() == w.events[0].id


async def test_whoever_does_not_wait_has_the_id_at_once() -> None:
    async with world() as w:
        began = trio.current_time()
        pending = await w.refused(question(), wait=0)
        assert (pending.kind, trio.current_time()) == ("pending", began)
        assert w.only() == pending.data["approval"]


async def test_a_caller_that_gives_up_leaves_the_question_open() -> None:
    async with world() as w:
        ticket = Ticket()

        async def call() -> None:
            with pytest.raises(Withdrawn):
                await w.approvals.ask(question(), ticket, None, wait=WAIT, deadline=DEADLINE)

        w.nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        ticket.withdraw()
        await trio.testing.wait_all_tasks_blocked()
        (opened,) = w.approvals.open()
        assert opened.waiting == 0
        # Its yes waits for the next call.
        w.approvals.approve(opened.id, ME)
        assert w.approvals.take(question().digest) == opened.id


async def test_the_end_of_the_daemon_denies_what_is_open() -> None:
    async with world() as w:
        call = await w.begin(question())
        outer = w
        w.nursery.cancel_scope.cancel()
    assert outer.outcomes == ["asked", "withdrawn"]
    assert call.result is None


# ---------------------------------------------------------------- who waits is told


async def test_progress_rises_below_zero_and_begins_at_once() -> None:
    async with world() as w:
        teller = Teller()
        await w.refused(question(), asker=teller)
        times = [at for at, _ in teller.told]
        numbers = [said["progress"] for _, said in teller.told]
        assert times == [0, 10, 20, 30, 40]
        assert numbers == sorted(set(numbers))
        assert max(numbers) < 0
        assert all(w.only() in said["message"] for _, said in teller.told)


async def test_every_change_is_published() -> None:
    async with world() as w:
        with w.changes.subscribe() as changes:
            name = (await w.refused(question(), wait=0)).data["approval"]
            w.approvals.approve(name, ME)
            w.approvals.take(question().digest)
            seen = [await anext(changes) for _ in range(3)]
            assert [(change.topic, change.data) for change in seen] == [("approvals", name)] * 3


# --------------------------------------------------------------------- several calls


async def test_identical_questions_are_one_and_each_yes_counts_once() -> None:
    async with world() as w:
        first = await w.begin(question())
        second = await w.begin(question(session="s2", pid=8))
        (opened,) = w.approvals.open()
        assert opened.waiting == 2
        w.approvals.approve(opened.id, ME)
        await trio.testing.wait_all_tasks_blocked()
        # One call ran; the other has a question of its own.
        results = [first.result, second.result]
        assert results.count(opened.id) == 1
        assert results.count(None) == 1
        assert w.only() != opened.id
        w.approvals.approve(w.only(), ME)
        await first.done.wait()
        await second.done.wait()
        assert w.approvals.unused() == ()


async def test_a_no_denies_all_that_wait() -> None:
    async with world() as w:
        calls = [await w.begin(question()) for _ in range(3)]
        w.approvals.deny(w.only(), ME)
        assert [await call.outcome() for call in calls] == ["denied"] * 3


async def test_agents_do_not_share_questions() -> None:
    async with world() as w:
        await w.begin(question(agent="one"))
        await w.begin(question(agent="two"))
        one, two = w.approvals.open()
        w.approvals.approve(one.id, ME)
        await trio.testing.wait_all_tasks_blocked()
        assert w.only() == two.id


@pytest.mark.parametrize("field", ["agent", "server", "destination", "tool", "method", "pin", "rules"])
async def test_after_a_change_of_anything_it_is_asked_again(field: str) -> None:
    """n07: a yes to one call is none to another."""
    async with world() as w:
        name = (await w.refused(question(), wait=0)).data["approval"]
        w.approvals.approve(name, ME)
        value: Any = ("other",) if field == "rules" else "other"
        bound = msgspec.structs.replace(question().bound, **{field: value})
        changed = msgspec.structs.replace(question(), bound=bound, digest=digest(bound))
        assert w.approvals.take(changed.digest) == ""
        assert (await w.refused(changed, wait=0)).data["approval"] != name


async def test_a_new_grant_settles_what_it_covers() -> None:
    async with world() as w:
        covered = await w.begin(question({"path": "/a"}))
        other = await w.begin(question({"path": "/b"}))
        always = await w.begin(question({"path": "/a", "n": 1}, once_only=True))
        count = w.approvals.settle(lambda asked: b"/a" in asked.bound.arguments)
        assert count == 1
        assert await covered.outcome() == ""
        assert (other.result, always.result) == (None, None)
        assert w.outcomes == ["asked"] * 3 + ["granted"]


async def test_what_was_asked_under_something_else_is_decided_anew() -> None:
    async with world() as w:
        call = await w.begin(question(once_only=True))
        assert w.approvals.supersede("other") == 0
        assert w.approvals.supersede("files") == 1
        assert await call.outcome() == ""
        assert w.outcomes == ["asked", "superseded"]


# ------------------------------------------------------------------------------ caps


async def test_three_are_open_at_once() -> None:
    async with world() as w:
        for number in range(3):
            await w.begin(question({"n": number}))
        busy = await w.refused(question({"n": 4}))
        assert busy.kind == "busy"
        assert "mcpctl approvals" in busy.hint
        # Joining is no new question, another agent has its own three, and an answer makes room.
        await w.begin(question({"n": 0}))
        await w.begin(question({"n": 4}, agent="other"))
        w.approvals.deny(w.approvals.open()[0].id, ME)
        await w.begin(question({"n": 4}))
        assert len(w.approvals.open()) == 4


async def test_twenty_an_hour_then_muted_until_the_hour_is_over() -> None:
    async with world() as w:
        for number in range(20):
            name = (await w.refused(question({"n": number}), wait=0)).data["approval"]
            w.approvals.approve(name, ME)
        muted = await w.refused(question({"n": 21}))
        assert muted.kind == "busy"
        assert "mcpctl approvals --unmute 'coder'" in muted.hint
        assert w.outcomes[-1] == "muted"
        assert [each.agent for each in w.approvals.muted()] == ["coder"]
        await trio.sleep(3599)
        assert (await w.refused(question({"n": 22}))).kind == "busy"
        assert w.outcomes.count("muted") == 1
        await w.begin(question({"n": 1}, agent="other"))
        await trio.sleep(1)
        assert w.approvals.muted() == ()
        assert (await w.refused(question({"n": 23}), wait=0)).kind == "pending"


async def test_yeses_that_are_there_count_for_a_muted_agent() -> None:
    async with world() as w:
        name = (await w.refused(question(), wait=0)).data["approval"]
        w.approvals.approve(name, ME)
        w.approvals.mute("coder", ME)
        assert w.approvals.take(question().digest) == name


async def test_mute_and_unmute() -> None:
    async with world() as w:
        call = await w.begin(question())
        other = await w.begin(question(agent="other"))
        w.approvals.mute("coder", ME)
        assert await call.outcome() == "busy"
        assert other.result is None
        await trio.sleep(7200)
        assert (await w.refused(question({"n": 2}))).kind == "busy"
        assert w.approvals.unmute("coder")
        assert not w.approvals.unmute("coder")
        assert (await w.refused(question({"n": 2}), wait=0)).kind == "pending"
        assert w.outcomes[:3] == ["asked", "asked", "muted"]


async def test_unmute_begins_a_new_hour() -> None:
    async with world() as w:
        for number in range(20):
            w.approvals.deny((await w.refused(question({"n": number}), wait=0)).data["approval"], ME)
        assert (await w.refused(question({"n": 21}))).kind == "busy"
        w.approvals.unmute("coder")
        assert (await w.refused(question({"n": 21}), wait=0)).kind == "pending"


async def test_more_than_anybody_can_look_at_is_not_asked() -> None:
    async with world() as w:
        denied = await w.refused(question({"text": "a" * 1024 * 1024}))
        assert denied.kind == "denied"
        assert w.approvals.open() == ()


# -------------------------------------------------------------------------- answering


async def test_what_is_cut_has_to_be_opened_before_a_yes() -> None:
    """n07: a unicode-tag payload, or a harm, in the middle of long arguments."""
    async with world() as w:
        hidden = "".join(chr(0xE0000 + ord(c)) for c in "send it to me")
        await w.begin(question({"text": "a" * 5000 + hidden + "rm -rf ~" + "a" * 5000}))
        (opened,) = w.approvals.open()
        assert opened.card.cut
        for code in ("", "x", opened.id, opened.code[:-1]):
            with pytest.raises(Failure) as refused:
                w.approvals.approve(opened.id, ME, code)
            assert refused.value.kind == "refused"
            assert opened.id in refused.value.hint
        w.approvals.approve(opened.id, ME, opened.code)
        assert w.outcomes == ["asked", "approved"]


async def test_a_no_needs_nothing_opened() -> None:
    async with world() as w:
        await w.begin(question({"text": "a" * 5000}))
        w.approvals.deny(w.only(), ME)
        assert w.outcomes == ["asked", "denied"]


async def test_an_answer_that_comes_too_late_hears_why() -> None:
    async with world() as w:
        name = (await w.refused(question(), wait=0)).data["approval"]
        await trio.sleep(900)
        for answer in (w.approvals.approve, w.approvals.deny):
            with pytest.raises(Failure) as late:
                answer(name, ME)
            assert late.value.kind == "no_such_approval"
            assert "expired" in late.value.message
        with pytest.raises(Failure) as unknown:
            w.approvals.approve("nonsense", ME)
        assert unknown.value.kind == "no_such_approval"
        # A yes cannot be had twice of one question.
        second = (await w.refused(question(), wait=0)).data["approval"]
        w.approvals.approve(second, ME)
        with pytest.raises(Failure):
            w.approvals.approve(second, ME)


async def test_ids_are_random() -> None:
    async with world() as w:
        names = set()
        for number in range(60):
            agent = f"a{number // 10}"
            name = (await w.refused(question({"n": number}, agent=agent), wait=0)).data["approval"]
            names.add(name)
            w.approvals.deny(name, ME)
        assert len(names) == 60
        assert all(len(name) == 10 and name.isalnum() for name in names)


async def test_whose_question_or_yes_is_still_there() -> None:
    async with world() as w:
        assert not w.approvals.lives("s1")
        name = (await w.refused(question(), wait=0)).data["approval"]
        await w.refused(question(session="s2"), wait=0)
        await w.begin(question({"n": 2}, session="s3"))
        assert [w.approvals.lives(session) for session in ("s1", "s2", "s3", "s4")] == [True] * 3 + [False]
        w.approvals.approve(name, ME)
        assert w.approvals.lives("s2"), "who has asked the same can use the yes as well"
        w.approvals.take(question().digest)
        assert [w.approvals.lives(session) for session in ("s1", "s2", "s3")] == [False, False, True]


# --------------------------------------------------------------- the host as the asker


def host(**fields: Any) -> Question:
    return question(**{"approver": "host", "risk": "medium", **fields})


def asked_of(teller: Teller) -> Ask:
    """The only thing that the host is asked."""
    (ask,) = teller.asks
    return ask


async def test_the_host_may_answer_up_to_medium_risk() -> None:
    async with world() as w:
        teller = Teller(Ability.FORM)
        call = await w.begin(host(), asker=teller)
        ask = asked_of(teller)
        said = json.loads(bytes(ask.question.params))
        assert ask.question.method == "elicitation/create"
        assert "files" in said["message"]
        assert "path: /a" in said["message"]
        assert ask.server == ""
        ask.answer(b'{"action":"accept","content":{"answer":"yes, this once"}}')
        assert await call.outcome() == w.events[0].id
        assert w.events[1].by == By(7, "/usr/bin/agent", "host")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b'{"action":"accept","content":{"answer":"no"}}', "denied"),
        (b'{"action":"accept"}', "denied"),
        (b'{"action":"decline"}', "denied"),
        (b'{"action":"cancel"}', "pending"),
    ],
)
async def test_what_the_host_answers(answer: bytes, outcome: str) -> None:
    async with world() as w:
        teller = Teller(Ability.FORM)
        call = await w.begin(host(), asker=teller)
        ask = asked_of(teller)
        ask.answer(answer)
        assert await call.outcome() == outcome


@pytest.mark.parametrize(
    ("asked", "abilities"),
    [
        (host(risk="high"), Ability.FORM),
        (host(once_only=True), Ability.FORM),
        (host(approver="person"), Ability.FORM),
        (host(), NONE),
        (host(), Ability.URL),
        (host(arguments={"text": "a" * 5000}), Ability.FORM),
    ],
)
async def test_where_the_host_is_not_asked(asked: Question, abilities: Ability) -> None:
    async with world() as w:
        teller = Teller(abilities)
        await w.begin(asked, asker=teller)
        assert teller.asks == []
        assert len(w.approvals.open()) == 1


async def test_a_person_elsewhere_can_be_faster_than_the_host() -> None:
    async with world() as w:
        teller = Teller(Ability.FORM)
        call = await w.begin(host(), asker=teller)
        closed: list[bool] = []
        ask = asked_of(teller)
        ask.closed = lambda: closed.append(True)
        w.approvals.deny(w.only(), ME)
        assert await call.outcome() == "denied"
        assert closed == [True]
        # What it says now is too late.
        ask.answer(b'{"action":"accept","content":{"answer":"yes, this once"}}')
        assert w.outcomes == ["asked", "denied"]
        assert w.approvals.unused() == ()


async def test_a_host_that_cannot_be_asked_leaves_it_to_the_queue() -> None:
    async with world() as w:
        teller = Teller(Ability.FORM)
        call = await w.begin(host(), asker=teller)
        ask = asked_of(teller)
        ask.refuse(-32603, "no")
        w.approvals.approve(w.only(), ME)
        assert await call.outcome() == w.events[0].id


# ------------------------------------------------------------------- whatever happens when

steps = st.lists(
    st.one_of(
        st.tuples(st.just("call"), st.integers(0, 2), st.sampled_from([0.0, 5.0, 45.0])),
        st.tuples(st.just("take"), st.integers(0, 2), st.just(0.0)),
        st.tuples(
            st.sampled_from(["approve", "deny", "settle", "supersede"]), st.integers(0, 3), st.just(0.0)
        ),
        st.tuples(st.sampled_from(["mute", "unmute"]), st.just(0), st.just(0.0)),
        st.tuples(st.just("wait"), st.just(0), st.sampled_from([0.0, 6.0, 50.0, 901.0, 3601.0])),
    ),
    max_size=25,
)


@given(steps)
async def test_a_yes_is_used_once_and_only_once(plan: list[tuple[str, int, float]]) -> None:
    """Never more calls of a kind are let through than a person has said yes to, and no yes twice."""
    async with world() as w:
        through: list[tuple[int, str]] = []
        said: dict[str, int] = {}
        kinds: set[str] = set()

        async def call(number: int, wait: float) -> None:
            try:
                name = await w.ask(question({"n": number}), wait=wait)
            except Failure as failure:
                kinds.add(failure.kind)
                return
            if name:
                through.append((number, name))

        for what, number, length in plan:
            opened = w.approvals.open()
            match what:
                case "call":
                    w.nursery.start_soon(call, number, length)
                case "take":
                    if name := w.approvals.take(question({"n": number}).digest):
                        through.append((number, name))
                case "approve" | "deny" if number < len(opened):
                    if what == "approve":
                        arguments = json.loads(opened[number].question.bound.arguments)
                        said[opened[number].id] = arguments["n"]
                        w.approvals.approve(opened[number].id, ME)
                    else:
                        w.approvals.deny(opened[number].id, ME)
                case "settle":
                    w.approvals.settle(lambda asked: b'"n": 0' in asked.bound.arguments)
                case "supersede":
                    w.approvals.supersede("files")
                case "mute":
                    w.approvals.mute("coder", ME)
                case "unmute":
                    w.approvals.unmute("coder")
                case "wait":
                    await trio.sleep(length)
            await trio.testing.wait_all_tasks_blocked()
            assert len(w.approvals.open()) <= 3
        await trio.sleep(10_000)
        assert kinds <= {"pending", "denied", "busy"}
        names = [name for _, name in through]
        assert len(names) == len(set(names))
        assert all(said[name] == number for number, name in through)
        asked = [event.id for event in w.events if event.outcome == "asked"]
        settled = [event.id for event in w.events if event.outcome != "asked" and event.id]
        assert sorted(asked) == sorted(settled)
        assert w.approvals.open() == ()
