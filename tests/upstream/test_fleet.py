"""Instances of one server: who shares one, when each begins and ends (n04, n15)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from mcpd.config.spec import Hold, Server
from mcpd.errors import Failure
from mcpd.upstream import fleet as fleets
from mcpd.upstream import upstream as upstreams
from mcpd.upstream.fleet import Fleet
from mcpd.upstream.instance import Scope
from mcpd.upstream.upstream import Upstream
from tests.upstream.test_upstream import TINY, config_of, fleet_of, is_state, tiny, until


def per_agent(*args: str, **fields: Any) -> Server:
    return tiny(*args, instance="agent", **fields)


def of(fleet: Fleet, agent: str, root: str = "") -> Upstream:
    return fleet.at(fleet.find("tiny"), agent, root)


async def pid_of(upstream: Upstream) -> int:
    await upstream.reach(20)
    return upstream.status.pid


async def gone(fleet: Fleet, name: str = "tiny", left: int = 0) -> None:
    """Wait until only so many instances beside the main one are there."""
    with fleet.changes.subscribe() as changes, trio.fail_after(20):
        while len(fleet.instances(name)) > left:
            await changes.__anext__()


async def test_each_agent_has_a_process_of_its_own(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(per_agent(), cache=tmp_path, connect=False) as fleet:
        one, other, operator = of(fleet, "a"), of(fleet, "b"), of(fleet, "")
        assert of(fleet, "a", "/p") is one
        assert operator is fleet.find("tiny")
        assert len({await pid_of(each) for each in (one, other, operator)}) == 3
        assert [str(each.scope) for each in fleet.instances("tiny")] == ["agent a", "agent b"]


async def test_each_project_has_a_process_of_its_own(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(instance="project"), cache=tmp_path, connect=False) as fleet:
        assert of(fleet, "a", "/p") is of(fleet, "b", "/p")
        assert of(fleet, "a") is of(fleet, "b"), "without a root they are one project"
        several = [of(fleet, "a", "/p"), of(fleet, "a", "/q"), of(fleet, "a")]
        assert len({await pid_of(each) for each in several}) == 3


async def test_a_shared_server_has_one(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path, connect=False) as fleet:
        assert of(fleet, "a", "/p") is of(fleet, "b") is of(fleet, "") is fleet.find("tiny")
        assert fleet.instances("tiny") == []


async def test_the_name_that_was_probably_meant_is_named(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path, connect=False) as fleet:
        for name, message in (
            ("tnyi", 'no server is named "tnyi", did you mean "tiny"?'),
            ("else", 'no server is named "else"'),
        ):
            with pytest.raises(Failure) as failure:
                fleet.find(name)
            assert (failure.value.kind, failure.value.message) == ("no_such_server", message)


async def test_the_catalogue_is_one(real_clock: None, tmp_path: Path) -> None:
    """What an instance has said counts for those that do not run, and over a restart (D5)."""
    async with fleet_of(per_agent("--tools", "1"), cache=tmp_path, connect=False) as fleet:
        one, other, main = of(fleet, "a"), of(fleet, "b"), fleet.find("tiny")
        assert [each.catalog for each in (one, other, main)] == [None, None, None]
        await one.reach(20)
        assert main.catalog is not None
        assert one.catalog == other.catalog == main.catalog
        assert (main.status.state, main.status.tools) == ("idle", 8)
        assert of(fleet, "c").status.tools == 8
        assert fleet.status("tiny") is one.status
    async with fleet_of(per_agent("--tools", "1"), cache=tmp_path, connect=False) as fleet:
        assert of(fleet, "a").catalog == main.catalog
        assert not of(fleet, "a").status.pid, "nothing runs for a listing"


async def test_instances_may_offer_different_things(real_clock: None, tmp_path: Path) -> None:
    """Each counts from when it runs, and until it does not run any more."""
    number = tmp_path / "number"
    line = f"exec {sys.executable} -I {TINY} --tools $(cat {number})"
    server = Server(name="tiny", source="", command="sh", args=("-c", line), instance="agent")

    def tools(upstream: Upstream) -> int:
        return len(upstream.catalog.tools) if upstream.catalog else 0

    async with fleet_of(server, cache=tmp_path, connect=False) as fleet:
        fleet.joined("s1", "a", "")
        one, other, main = of(fleet, "a"), of(fleet, "b"), fleet.find("tiny")
        number.write_text("1")
        await main.reach(20)
        number.write_text("2")
        await one.reach(20)
        assert fleet.changes.last["catalog"] > fleet.changes.last["status"], "said when it counts, not before"
        assert [tools(each) for each in (main, one, other)] == [8, 9, 8]
        before = fleet.changes.last["catalog"]
        one.stop()
        assert fleet.changes.last["catalog"] > before
        assert [tools(each) for each in (main, one, other)] == [8, 8, 8]
        main.stop()
        await until(main, fleet, is_state("idle"))
        await one.reach(20)
        assert [tools(each) for each in (main, one, other)] == [9, 9, 9]
        assert main.status.tools == 9


async def test_adding_connects_the_main_one_alone(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(per_agent(), cache=tmp_path) as fleet:
        await until(fleet.find("tiny"), fleet, is_state("connected"))
        assert of(fleet, "a").catalog == fleet.find("tiny").catalog
        assert of(fleet, "a").status.state == "idle"


async def test_the_main_one_stops_soon_when_it_was_for_the_catalogue_alone(
    real_clock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstreams, "CATALOGUE_ONLY", 0.1)
    async with fleet_of(per_agent(), tiny(name="shared"), cache=tmp_path) as fleet:
        main, shared = fleet.find("tiny"), fleet.find("shared")
        await until(shared, fleet, is_state("connected"))
        await until(main, fleet, lambda status: status.state == "idle" and status.tools > 0)
        await main.reach(20)
        main.succeeded()
        fleet.apply(config_of(per_agent(), tiny(name="shared")), frozenset(), {})
        with trio.move_on_after(0.4) as waited:
            await until(main, fleet, is_state("idle"))
        assert waited.cancelled_caught, "the operator uses it"
        assert shared.connection is not None


async def test_an_instance_goes_when_it_rests_and_its_last_session_has_left(
    real_clock: None, tmp_path: Path
) -> None:
    async with fleet_of(per_agent(idle_timeout=0.2), cache=tmp_path, connect=False) as fleet:
        fleet.joined("s1", "a", "")
        fleet.joined("s2", "a", "/p")
        instance = of(fleet, "a")
        first = await pid_of(instance)
        await until(instance, fleet, is_state("idle"))
        assert of(fleet, "a") is instance, "its sessions are there"
        assert await pid_of(instance) != first
        fleet.left("s1")
        instance.users.add("s2")
        assert of(fleet, "a") is instance
        fleet.left("s2")
        assert of(fleet, "a") is instance, "it still runs"
        before = fleet.changes.last["instances"]
        await gone(fleet)
        assert fleet.changes.last["instances"] > before, "views of it are no longer true"
        with pytest.raises(Failure) as failure:
            await instance.reach(1)
        assert failure.value.kind == "no_such_server"
        assert await pid_of(of(fleet, "a")) > 0


async def test_one_that_never_ran_goes_with_its_session(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(per_agent(), cache=tmp_path, connect=False) as fleet:
        fleet.joined("s1", "default", "")
        of(fleet, "default")
        fleet.joined("s1", "a", "/p")
        assert fleet.instances("tiny") == [], "it has said who it really is"
        of(fleet, "a")
        fleet.left("s1")
        assert fleet.instances("tiny") == []
        assert not fleet._sessions
        fleet.left("s1")


async def test_the_crash_of_one_does_not_touch_another(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(per_agent(), cache=tmp_path, connect=False) as fleet:
        fleet.joined("s1", "a", "")
        fleet.joined("s2", "b", "")
        one, other = of(fleet, "a"), of(fleet, "b")
        one.users.add("s1")
        await pid_of(one)
        pid = await pid_of(other)
        connection = other.connection
        os.kill(one.status.pid, signal.SIGKILL)
        await until(one, fleet, is_state("restarting"))
        await until(one, fleet, is_state("connected"))
        assert (other.status.pid, other.connection) == (pid, connection)
        assert fleet.find("tiny").status.state == "idle"


async def test_instances_follow_their_definition(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(per_agent(), cache=tmp_path, connect=False) as fleet:
        fleet.joined("s1", "a", "")
        fleet.joined("s2", "b", "")
        runs, rests = of(fleet, "a"), of(fleet, "b")
        first = await pid_of(runs)
        fleet.apply(config_of(per_agent(replay="always")), frozenset(), {})
        assert (await pid_of(runs), runs.definition.replay) == (first, "always")  # type: ignore[union-attr]

        changed = per_agent("--tools", "2")
        fleet.apply(config_of(changed), frozenset(), {})
        await until(runs, fleet, lambda status: status.tools == 9)
        assert runs.status.pid != first
        assert not rests.status.pid, "what was not used does not start because of an edit"

        hold = Hold("tiny", "command changed", "reload")
        fleet.apply(config_of(changed), frozenset(), {"tiny": hold})
        assert runs.held == hold
        fleet.apply(config_of(changed), frozenset({"tiny"}), {})
        for instance in (runs, rests):
            with pytest.raises(Failure) as failure:
                await instance.reach(1)
            assert failure.value.kind == "disabled"
        await until(runs, fleet, lambda status: not status.pid)
        assert of(fleet, "a") is runs
        fleet.apply(config_of(changed), frozenset(), {})
        assert await pid_of(rests) > 0

        fleet.apply(config_of(), frozenset(), {})
        assert fleet.instances("tiny") == []
        with pytest.raises(Failure) as failure:
            await runs.reach(1)
        assert failure.value.kind == "no_such_server"


async def test_another_way_of_sharing_ends_what_was_shared(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path, connect=False) as fleet:
        fleet.joined("s1", "a", "/p")
        main = of(fleet, "a", "/p")
        main.users.add("s1")
        await main.reach(20)
        fleet.apply(config_of(per_agent()), frozenset(), {})
        assert main.connection is None
        own = of(fleet, "a", "/p")
        assert own is not main
        await own.reach(20)
        fleet.apply(config_of(tiny(instance="project")), frozenset(), {})
        assert own.connection is None
        assert of(fleet, "a", "/p").scope == Scope("project", "/p")
        await until(main, fleet, lambda status: not status.pid)


async def test_instances_at_a_time_are_limited(
    real_clock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "INSTANCES", 2)
    async with fleet_of(tiny(instance="project"), cache=tmp_path, connect=False) as fleet:
        for number in range(3):
            fleet.joined(f"s{number}", "a", f"/{number}")
        one, two, three = (of(fleet, "a", f"/{number}") for number in range(3))
        for number, each in enumerate((one, two)):
            each.users.add(f"s{number}")
            await each.reach(20)
        with pytest.raises(Failure) as failure:
            await three.reach(20)
        assert failure.value.kind == "unavailable"
        assert "2 instances of it run already" in failure.value.message
        assert (three.status.state, three.status.reason) == ("failed", "too_many_instances")
        # Whoever left makes room.
        fleet.left("s0")
        three.reconnect()
        await three.reach(20)
        assert one.connection is None
        assert two.connection is not None
        await gone(fleet, left=2)


async def test_an_eager_server_runs_while_its_agent_is_there(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(per_agent(start="eager", idle_timeout=0.2), cache=tmp_path, connect=False) as fleet:
        fleet.joined("s1", "a", "")
        instance = of(fleet, "a")
        await until(instance, fleet, is_state("connected"))
        with trio.move_on_after(0.6) as waited:
            await until(instance, fleet, is_state("idle"))
        assert waited.cancelled_caught
        assert fleet.find("tiny").status.state == "idle", "the operator's is nobody's to keep"
        assert of(fleet, "b").status.state == "idle", "nobody of that agent is there"
        fleet.left("s1")
        await gone(fleet, left=1)


async def test_the_log_of_a_server_is_that_of_all_its_instances(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(per_agent(idle_timeout=0.1), cache=tmp_path, connect=False) as fleet:
        fleet.joined("s1", "a", "")
        fleet.find("tiny").ring.add("first")
        of(fleet, "a").ring.add("second")
        of(fleet, "b").ring.add("third")
        fleet.left("s1")
        assert [str(each.scope) for each in fleet.instances("tiny")] == ["agent b"]
        lines = [(line.text, str(line.scope)) for line in fleet.logs("tiny", 50)]
        assert lines == [("first", ""), ("second", "agent a"), ("third", "agent b")]
        assert [line.text for line in fleet.logs("tiny", 2)] == ["second", "third"]
