"""Slots: one outcome each, deadlines that progress moves, a sweep that sleeps when nothing is due."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mcpd.errors import Failure
from mcpd.transport.pending import SWEEP, Deadlines, Slot
from tests.transport.slots import outcome


async def test_the_first_outcome_counts() -> None:
    slot = Slot(0, 0)
    slot.settle(b"1")
    slot.settle(b"2")
    assert await outcome(slot) == b"1"


async def test_the_waiter_wakes() -> None:
    slot = Slot(0, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for, slot, b"{}")
        await trio.testing.wait_all_tasks_blocked()
        slot.settle(b"{}")


async def wait_for(slot: Slot, result: bytes) -> None:
    assert await outcome(slot) == result


async def test_a_cancelled_waiter_may_be_settled_later() -> None:
    slot = Slot(0, 0)
    with trio.move_on_after(1) as scope:
        await outcome(slot)
    assert scope.cancelled_caught
    slot.settle(b"late")


@pytest.mark.parametrize(
    ("idle", "total", "progress_at", "expected"),
    [
        (2, 0, [], 2),
        (2, 0, [1.5, 3.0, 4.5], 6.5),
        (2, 5, [1.5, 3.0, 4.5], 5),
        (0, 5, [4], 5),
    ],
)
async def test_when_a_request_times_out(
    idle: float, total: float, progress_at: list[float], expected: float
) -> None:
    """D9: the idle time begins anew with each progress, the total never does."""
    began = trio.current_time()
    deadlines = Deadlines()
    slot = Slot(idle, total)
    slot.start(began)
    deadlines.add(slot)

    async def progress() -> None:
        for at in progress_at:
            await trio.sleep_until(began + at)
            slot.progressed(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        nursery.start_soon(progress)
        with pytest.raises(Failure) as caught:
            await outcome(slot)
        assert caught.value.kind == "timed_out"
        assert 0 <= trio.current_time() - began - expected <= 2 * SWEEP
        nursery.cancel_scope.cancel()


async def test_without_slots_nothing_wakes() -> None:
    deadlines = Deadlines()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(deadlines.run)
        await trio.testing.wait_all_tasks_blocked()
        assert trio.lowlevel.current_statistics().seconds_to_next_deadline > 86_400
        nursery.cancel_scope.cancel()


async def test_a_slot_without_limits_never_expires() -> None:
    slot = Slot(0, 0)
    slot.start(trio.current_time())
    assert slot.expires == 0
