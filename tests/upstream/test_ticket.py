"""A request can be taken back wherever it waits, and once it was it never goes on (5.9)."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from mcpd.transport.pending import Slot
from mcpd.upstream.ticket import Ticket, Withdrawn
from tests.transport.slots import outcome


async def test_a_request_that_waits_for_its_answer_is_taken_back() -> None:
    ticket, slot = Ticket(), Slot(0, 0)
    ticket.waits_in(slot)
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(Withdrawn):
                await outcome(slot)

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        ticket.withdraw()


async def test_an_answer_that_came_first_counts() -> None:
    ticket, slot = Ticket(), Slot(0, 0)
    ticket.waits_in(slot)
    slot.settle(b"{}")
    ticket.withdraw()
    assert await outcome(slot) == b"{}"


async def test_any_other_wait_is_left() -> None:
    ticket = Ticket()
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(Withdrawn), ticket.stoppable():
                await trio.sleep_forever()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        ticket.withdraw()


async def test_what_was_taken_back_before_does_not_begin() -> None:
    ticket = Ticket()
    ticket.withdraw()
    with pytest.raises(Withdrawn):
        ticket.waits_in(Slot(0, 0))
    began = False
    with pytest.raises(Withdrawn), ticket.stoppable():
        began = True
    assert not began
    ticket.waits_in(None)


async def test_between_two_waits_it_is_remembered() -> None:
    ticket = Ticket()
    with ticket.stoppable():
        await trio.lowlevel.checkpoint()
        # Taken back by somebody while this task runs: the block ends as it is, the next wait does not begin.
        ticket.withdraw()
    with pytest.raises(Withdrawn):
        ticket.waits_in(Slot(0, 0))


async def test_a_cancelled_session_is_no_withdrawal() -> None:
    ticket = Ticket()
    with trio.CancelScope() as session:
        session.cancel()
        with ticket.stoppable():
            await trio.sleep_forever()
    assert session.cancelled_caught
    assert not ticket.withdrawn


async def test_an_error_inside_passes() -> None:
    ticket = Ticket()
    with pytest.raises(KeyError), ticket.stoppable():
        raise KeyError
    ticket.withdraw()  # the scope that was left is not touched any more
