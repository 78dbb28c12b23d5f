"""The tasks of one connection: when they begin, and that nothing begins after the end."""

from __future__ import annotations

import trio
import trio.testing

from mcpd.transport.life import Life
from tests.transport.web import Ear


async def test_it_is_over_before_its_last_task_has_ended() -> None:
    """Who is cancelled together with it writes a last message in that moment; once it came so late that
    the nursery was closed, which was an internal error."""
    life = Life()
    began: list[bool] = []

    async def slow() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(life.run, Ear(), slow)
        await trio.testing.wait_all_tasks_blocked()
        assert not life.over
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
            began.append(life.over)
    assert began == [True]
