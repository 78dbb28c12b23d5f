from __future__ import annotations

import trio
import trio.testing

from mcpd.changes import RECENT, Change, Changes


async def test_reader_gets_changes_in_order_with_rising_numbers() -> None:
    changes = Changes()
    with changes.subscribe() as subscription:
        changes.publish("status", "a")
        changes.publish("catalog", "b")
        assert await anext(subscription) == Change(1, "status", "a")
        assert await anext(subscription) == Change(2, "catalog", "b")
    assert changes.seq == 2


async def test_publishing_wakes_every_waiting_reader() -> None:
    changes = Changes()
    got: list[Change] = []

    async def read() -> None:
        with changes.subscribe() as subscription:
            got.append(await anext(subscription))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(read)
        await trio.testing.wait_all_tasks_blocked()
        changes.publish("servers")
    assert got == [Change(1, "servers", None)] * 2


async def test_a_reader_that_falls_behind_loses_the_oldest_and_is_marked() -> None:
    changes = Changes()
    with changes.subscribe(limit=2) as slow, changes.subscribe(limit=3) as quick:
        for name in "abc":
            changes.publish("status", name)
        assert slow.lagged
        assert not quick.lagged
        assert [(await anext(slow)).data for _ in range(2)] == ["b", "c"]
        assert [(await anext(quick)).data for _ in range(3)] == ["a", "b", "c"]


async def test_a_subscription_ends_with_its_context() -> None:
    changes = Changes()
    with changes.subscribe() as subscription:
        pass
    changes.publish("status", "late")
    with trio.move_on_after(1) as scope:
        await anext(subscription)
    assert scope.cancelled_caught


async def test_a_cancelled_wait_loses_nothing() -> None:
    changes = Changes()
    with changes.subscribe() as subscription:
        with trio.move_on_after(1):
            await anext(subscription)
        changes.publish("status", "a")
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(subscription)
        assert scope.cancelled_caught
        assert (await anext(subscription)).data == "a"


def test_publishing_needs_no_event_loop_when_nobody_waits() -> None:
    changes = Changes()
    with changes.subscribe():
        changes.publish("status", "a")
    assert changes.seq == 1


def test_recent_changes_can_be_asked_for_again() -> None:
    changes = Changes()
    assert changes.since(0) == ()
    for number in range(RECENT):
        changes.publish("status", number)
    everything = changes.since(0)
    assert everything is not None
    assert [change.seq for change in everything] == list(range(1, RECENT + 1))
    assert changes.since(RECENT - 1) == (Change(RECENT, "status", RECENT - 1),)
    assert changes.since(RECENT) == ()


def test_changes_that_are_gone_or_never_were_are_a_gap() -> None:
    changes = Changes()
    for number in range(RECENT + 1):
        changes.publish("status", number)
    assert changes.since(0) is None
    assert changes.since(1) is not None
    assert changes.since(RECENT + 2) is None


def test_the_last_change_of_a_topic_is_known() -> None:
    changes = Changes()
    assert changes.last["catalog"] == 0
    changes.publish("catalog", "a")
    changes.publish("status", "a")
    assert (changes.last["catalog"], changes.last["status"]) == (1, 2)
