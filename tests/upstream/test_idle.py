"""A server that nobody uses is stopped, and comes back when it is wanted (n15)."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.upstream.test_upstream import fleet_of, is_state, tiny, until


async def test_an_unused_server_is_stopped_and_started_on_demand(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(idle_timeout=0.3), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        first = await until(upstream, fleet, is_state("connected"))
        await until(upstream, fleet, is_state("idle"))
        assert upstream.catalog is not None
        assert upstream.connection is None
        await upstream.reach(10)
        assert upstream.status.pid != first.pid


async def test_a_server_lives_as_long_as_a_session_that_has_used_it(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(idle_timeout=0.1), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        upstream.users.add("s1")
        await until(upstream, fleet, is_state("connected"))
        with trio.move_on_after(0.5) as waited:
            await until(upstream, fleet, is_state("idle"))
        assert waited.cancelled_caught
        fleet.left("s1")
        await until(upstream, fleet, is_state("idle"))


async def test_an_eager_server_is_kept(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(start="eager", idle_timeout=0.1), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        await until(upstream, fleet, is_state("connected"))
        with trio.move_on_after(0.5) as waited:
            await until(upstream, fleet, is_state("idle"))
        assert waited.cancelled_caught
