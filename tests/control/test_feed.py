from __future__ import annotations

import trio
import trio.testing

from mcpd.changes import RECENT
from mcpd.control.feed import QUEUE
from tests.conftest import Home
from tests.control.world import running, tiny, write_server


async def test_a_subscription_begins_with_a_snapshot_and_its_number(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        begun = await client.call("events.subscribe", topics=["status", "catalog"])
        assert begun["seq"] == world.broker.changes.seq
        assert begun["gap"] is False
        [server] = begun["snapshot"]["servers"]
        assert server["status"]["state"] == "idle"
        other = await world.operator()
        await other.call("servers.test", server="tiny")
        states, numbers = [], []
        while "connected" not in states:
            event = await client.event()
            numbers.append(event["seq"])
            if event["topic"] == "status":
                assert event["data"]["server"] == "tiny"
                states.append(event["data"]["status"]["state"])
        assert numbers == sorted(set(numbers))
        assert numbers[0] > begun["seq"]


async def test_only_the_topics_asked_for_are_told(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        await client.call("events.subscribe", topics=["sessions"])
        world.broker.changes.publish("status", "nobody")
        world.broker.changes.publish("internal", "not a topic")
        world.broker.changes.publish("sessions", {"tool": "x"})
        assert (await client.event())["data"] == {"tool": "x"}


async def test_a_server_that_is_gone_has_no_status(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        await client.call("events.subscribe")
        world.broker.changes.publish("status", "gone")
        world.broker.changes.publish("servers")
        assert (await client.event())["data"] == {"server": "gone", "status": None}
        assert (await client.event())["data"] == {}


async def test_what_an_owner_publishes_never_breaks_the_feed(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        await client.call("events.subscribe")
        world.broker.changes.publish("sessions", {"of": object()})
        world.broker.changes.publish("sessions", {"of": 1})
        assert "object" in (await client.event())["data"]["of"]
        assert (await client.event())["data"] == {"of": 1}


async def test_since_resumes_without_a_gap(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        changes = world.broker.changes
        for number in range(3):
            changes.publish("sessions", number)
        client = await world.operator()
        begun = await client.call("events.subscribe", topics=["sessions"], since=changes.seq - 2)
        assert begun["gap"] is False
        changes.publish("sessions", 3)
        assert [(await client.event())["data"] for _ in range(3)] == [1, 2, 3]


async def test_since_beyond_what_is_kept_is_a_gap(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        changes = world.broker.changes
        start = changes.seq
        for number in range(RECENT + 1):
            changes.publish("sessions", number)
        old, new = await world.operator(), await world.operator()
        assert (await old.call("events.subscribe", since=start))["gap"] is True
        assert (await new.call("events.subscribe", since=changes.seq + 1))["gap"] is True
        changes.publish("sessions", "live")
        assert (await old.event())["data"] == "live"
        assert (await new.event())["data"] == "live"


async def test_a_second_subscription_on_a_connection_is_refused(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        await client.call("events.subscribe")
        assert (await client.refusal("events.subscribe")).kind == "busy"


async def test_a_reader_that_falls_behind_is_told_and_unsubscribed(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        changes = world.broker.changes
        slow, quick = await world.operator(), await world.operator()
        for client in (slow, quick):
            await client.call("events.subscribe", topics=["sessions"])
        big = "x" * 100_000
        published = 0
        # The socket, one megabyte and 128 changes hold what a reader leaves lying.
        for _ in range(8 * QUEUE):
            changes.publish("sessions", big)
            published += 1
            assert (await quick.event())["data"] == big
        got = 0
        while (message := await slow.read())["method"] == "event":
            got += 1
        assert message == {"jsonrpc": "2.0", "method": "events.lagged", "params": {}}
        assert got < published
        # Lagging is no reason to hang up: the same connection may begin again.
        assert (await slow.call("events.subscribe", topics=["sessions"], since=changes.seq))["gap"] is False
        changes.publish("sessions", "again")
        assert (await slow.event())["data"] == "again"


async def test_a_subscriber_that_leaves_is_forgotten(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        await client.call("events.subscribe")
        await client.stream.aclose()
        while world.broker.changes.readers:
            await trio.testing.wait_all_tasks_blocked()
