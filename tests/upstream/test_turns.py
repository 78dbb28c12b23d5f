"""Parties take turns at a server that asks without saying about whose request (DESIGN 7)."""

from __future__ import annotations

import random

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from mcpd.upstream.turns import Turns


class Floor:
    """Who is in, and who came in which order."""

    def __init__(self) -> None:
        self.before: set[str] = set()
        """Parties with requests from the time before there were turns."""
        self.asked: set[str] = set()
        self.hurries: list[float] = []
        """When those who are asked heard that others wait."""
        self.turns = Turns(lambda: set(self.before), lambda: self.asked, self.hurry)
        self.inside: list[str] = []
        self.order: list[str] = []

    def hurry(self) -> None:
        self.hurries.append(trio.current_time())

    async def visit(self, party: str, stay: float) -> None:
        await self.turns.enter(party)
        try:
            self.inside.append(party)
            self.order.append(party)
            assert set(self.inside) | self.before == {party}
            await trio.sleep(stay)
        finally:
            self.inside.remove(party)
            self.turns.leave(party)


async def test_one_party_at_a_time_with_all_that_it_wants() -> None:
    floor = Floor()
    async with trio.open_nursery() as nursery:
        for number, party in enumerate("aababcb"):
            nursery.start_soon(floor.visit, party, 1 + number / 10)
            await trio.testing.wait_all_tasks_blocked()
    # What a has when b waits already comes after b.
    assert "".join(floor.order) == "aabbbac"


async def test_who_was_there_before_is_waited_for() -> None:
    floor = Floor()
    floor.before = {"a"}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.visit, "b", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert floor.order == []
        nursery.start_soon(floor.visit, "a", 1)
        await trio.testing.wait_all_tasks_blocked()
        assert floor.order == [], "b came first"
        floor.before = set()
        floor.turns.moved()
    assert floor.order == ["b", "a"]


async def test_who_is_asked_something_may_go_on() -> None:
    """To answer, it may have to ask the very server that others wait for."""
    floor = Floor()
    async with trio.open_nursery() as nursery:
        for party in "ab":
            nursery.start_soon(floor.visit, party, 5)
            await trio.testing.wait_all_tasks_blocked()
        floor.asked = {"a"}
        await floor.visit("a", 1)
        floor.asked = set()
        nursery.start_soon(floor.visit, "a", 1)
    assert floor.order == ["a", "a", "b", "a"]


async def test_who_is_asked_hears_that_others_wait() -> None:
    floor = Floor()
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.visit, "a", 70)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(floor.visit, "b", 70)
    assert [at - began for at in floor.hurries] == pytest.approx([30, 60])


async def test_who_gives_up_does_not_hold_up_others() -> None:
    floor = Floor()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.visit, "a", 5)
        await trio.testing.wait_all_tasks_blocked()
        with trio.move_on_after(1):
            nursery.start_soon(floor.visit, "c", 1)
            await floor.visit("b", 1)
    assert floor.order == ["a", "c"]


@pytest.mark.parametrize("at_once", [True, False])
async def test_who_is_let_in_while_giving_up_leaves_again(at_once: bool) -> None:
    floor = Floor()
    scope = trio.CancelScope()

    async def impatient() -> None:
        with scope:
            await floor.visit("b", 1)

    await floor.turns.enter("a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(impatient)
        await trio.testing.wait_all_tasks_blocked()
        floor.turns.leave("a")
        if not at_once:
            await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
    await floor.visit("c", 0)


@given(st.integers(0, 10_000))
async def test_nobody_waits_for_ever(seed: int) -> None:
    """Whoever comes, stays and gives up when."""
    rng = random.Random(seed)
    floor = Floor()

    async def guest() -> None:
        await trio.sleep(rng.random() * 5)
        with trio.move_on_after(rng.random() * 10):
            await floor.visit(rng.choice("abc"), rng.random())

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(guest)
    assert floor.inside == []
    await floor.visit("z", 0)
