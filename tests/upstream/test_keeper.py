"""A catalogue is kept true at a bounded price, whatever the server announces (a22, D5, 5.14)."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from mcpd.changes import Changes
from mcpd.config.spec import Server
from mcpd.errors import Failure
from mcpd.upstream.cache import LEGACY_HOLDS, CatalogCache
from mcpd.upstream.keeper import TOOLS_CHANGED, Keeper
from tests.upstream.lister import Lister, tools

SERVER = Server(name="s", source="test", command="x")
LISTENS = {"tools": {"listChanged": True}}


class Kept:
    """A keeper and the server it looks after."""

    def __init__(self, cache: Path, **lister: Any) -> None:
        self.offered = ["a"]
        self.changes = Changes()
        self.told = 0
        self.remarks: list[str] = []
        self.keeper = Keeper("s", CatalogCache(cache), self.changes, self._tell, self.remarks.append)
        self.server = Lister(self._page, noticed=self.keeper.notice, **lister)
        self.failing: dict[str, Any] | None = None

    def _tell(self) -> None:
        self.told += 1

    def is_stale(self) -> bool:
        return self.keeper.stale

    def notice(self) -> None:
        self.keeper.notice(TOOLS_CHANGED, b"")

    def works(self) -> None:
        self.failing = None

    def _page(self, params: dict[str, Any]) -> dict[str, Any]:
        return self.failing or tools(*self.offered)

    @property
    def names(self) -> list[str]:
        assert self.keeper.catalog is not None
        return [tool.name for tool in self.keeper.catalog.tools]

    @property
    def published(self) -> int:
        return sum(change.topic == "catalog" for change in self.changes.since(0) or ())

    async def open(self) -> None:
        """As the loop of a server does it."""
        catalog = await self.keeper.fetch(self.server.connection)
        self.keeper.take(catalog)
        await self.keeper.store(SERVER, self.server.connection, catalog)

    async def keep(self) -> None:
        await self.keeper.keep(SERVER, self.server.connection)

    async def listen(self) -> None:
        await self.keeper.listen(self.server.connection)

    async def begin(self) -> None:
        """The same on a clock that jumps, which does not wait for threads: nothing is stored."""
        self.keeper.catalog = await self.keeper.fetch(self.server.connection)


async def fresh(kept: Kept) -> None:
    with trio.fail_after(20):
        while kept.keeper.stale:
            await trio.lowlevel.checkpoint()


async def test_a_notice_is_followed_by_a_new_catalogue(tmp_path: Path, real_clock: None) -> None:
    kept = Kept(tmp_path)
    await kept.open()
    assert (kept.names, kept.published, kept.keeper.stale) == (["a"], 1, False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        kept.offered.append("b")
        kept.notice()
        assert kept.keeper.stale, "a call or listing from now on waits"
        await fresh(kept)
        assert (kept.names, kept.published) == (["a", "b"], 2)
        nursery.cancel_scope.cancel()


async def test_what_was_fetched_is_kept_for_the_next_start(tmp_path: Path, real_clock: None) -> None:
    kept = Kept(tmp_path)
    await kept.open()
    again = Kept(tmp_path)
    assert again.keeper.restore(SERVER) is not None
    assert again.names == ["a"]
    other = msgspec.structs.replace(SERVER, args=("other",))
    assert again.keeper.restore(other) is None
    assert again.keeper.catalog is None


async def test_a_notice_during_the_fetch_is_answered_by_another_fetch(
    tmp_path: Path, real_clock: None
) -> None:
    kept = Kept(tmp_path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)

        def late(params: dict[str, Any]) -> dict[str, Any]:
            answer = tools(*kept.offered)
            if len(kept.server.asked) == 1:
                kept.offered.append("b")
                kept.notice()
            return answer

        kept.server._page = late
        await kept.open()
        await fresh(kept)
        assert (kept.names, len(kept.server.asked)) == (["a", "b"], 2)
        nursery.cancel_scope.cancel()


async def test_many_notices_at_once_are_one(tmp_path: Path, real_clock: None) -> None:
    kept = Kept(tmp_path)
    await kept.open()
    kept.offered.append("b")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        for _ in range(1000):
            kept.notice()
        await fresh(kept)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(kept.server.asked) == 2
        nursery.cancel_scope.cancel()


async def test_an_unchanged_catalogue_is_no_news(tmp_path: Path, real_clock: None) -> None:
    kept = Kept(tmp_path)
    await kept.open()
    before = kept.keeper.catalog
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        kept.notice()
        await fresh(kept)
        assert kept.keeper.catalog is before
        assert kept.published == 1
        nursery.cancel_scope.cancel()


async def test_a_storm_of_empty_notices_costs_little_and_nobody_waits(tmp_path: Path) -> None:
    """Free up to three, then rarer and rarer, up to one a minute, for days if need be."""
    kept = Kept(tmp_path)
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        waited = []
        for second in range(0, 20 * 3600, 9):
            kept.notice()
            if kept.keeper.stale:
                waited.append(second)
            if second == 603:
                assert len(kept.server.asked) < 25
            await trio.sleep(9)
        assert len(waited) < 5
        assert len(kept.server.asked) < 20 * 60 + 25
        assert kept.published == 0
        nursery.cancel_scope.cancel()


async def test_within_a_storm_the_catalogue_is_still_looked_at_every_minute(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        looked = []
        for second in range(900):
            before = len(kept.server.asked)
            kept.notice()
            await trio.sleep(1)
            if len(kept.server.asked) > before:
                looked.append(second)
        pauses = [later - earlier for earlier, later in itertools.pairwise(looked)]
        assert max(pauses) <= 61
        assert pauses[-1] >= 59
        nursery.cancel_scope.cancel()


async def test_after_a_quiet_time_a_notice_is_believed_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        for _ in range(30):
            kept.notice()
            await trio.sleep(1)
        assert not kept.keeper.stale
        await trio.sleep(120)
        kept.notice()
        assert kept.is_stale()
        nursery.cancel_scope.cancel()


async def test_a_refetch_that_fails_leaves_what_was_known(tmp_path: Path, real_clock: None) -> None:
    kept = Kept(tmp_path)
    await kept.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        kept.failing = {"error": {"code": -32603, "message": "out of order"}}
        kept.notice()
        await fresh(kept)
        assert kept.names == ["a"]
        assert any("out of order" in remark for remark in kept.remarks)
        assert kept.told, "who waits for the refetch is told"
        kept.works()
        kept.offered.append("b")
        kept.notice()
        await fresh(kept)
        assert kept.names == ["a", "b"]
        nursery.cancel_scope.cancel()


async def test_keeping_ends_with_the_connection(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    await kept.begin()
    kept.server.connection.lose()
    kept.notice()
    with trio.fail_after(5):
        await kept.keep()


async def test_the_first_catalogue_must_come(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    kept.failing = {"result": {"tools": 5}}
    with pytest.raises(Failure):
        await kept.open()
    assert kept.keeper.catalog is None


# ---------------------------------------------------------------- subscriptions


@pytest.mark.parametrize(
    ("revision", "capabilities"),
    [
        ("2025-11-25", LISTENS),
        ("2026-07-28", {"tools": {}}),
        ("2026-07-28", {"tools": {"listChanged": "yes"}}),
        ("2026-07-28", {}),
    ],
)
async def test_a_subscription_is_asked_for_only_where_it_is_offered(
    tmp_path: Path, revision: str, capabilities: dict[str, Any]
) -> None:
    kept = Kept(tmp_path, revision=revision, capabilities=capabilities)
    await kept.listen()
    assert kept.server.listens == []


async def test_a_subscription_that_ends_is_asked_for_again_and_everything_listed_anew(tmp_path: Path) -> None:
    kept = Kept(tmp_path, revision="2026-07-28", capabilities=LISTENS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.listen)
        for number, end in enumerate(("result", "cancelled", "error", "result", "cancelled")):
            await trio.testing.wait_all_tasks_blocked()
            assert len(kept.server.listens) == number + 1
            ident = kept.server.listens[-1]
            before = kept.keeper._notices
            if end == "result":
                kept.server.says(id=ident, result={"resultType": "complete"})
            elif end == "cancelled":
                kept.server.says(method="notifications/cancelled", params={"requestId": ident})
            else:
                kept.server.says(id=ident, error={"code": -32000, "message": "overloaded"})
            await trio.testing.wait_all_tasks_blocked()
            assert kept.keeper._notices == before + 1, "nothing is replayed, so everything is listed again"
            await trio.sleep(2**number - 0.1)
            assert len(kept.server.listens) == number + 1
            await trio.sleep(0.2)
        nursery.cancel_scope.cancel()


async def test_after_a_long_subscription_the_next_follows_soon(tmp_path: Path) -> None:
    kept = Kept(tmp_path, revision="2026-07-28", capabilities=LISTENS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.listen)
        for number in range(5):
            await trio.sleep(100)
            assert len(kept.server.listens) == number + 1
            kept.server.says(id=kept.server.listens[-1], result={})
            await trio.sleep(1.1)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("code", [-32601, -32602])
async def test_a_server_that_does_not_know_subscriptions_is_not_asked_again(
    tmp_path: Path, code: int
) -> None:
    kept = Kept(tmp_path, revision="2026-07-28", capabilities=LISTENS)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.listen)
        await trio.testing.wait_all_tasks_blocked()
        kept.server.says(id=kept.server.listens[0], error={"code": code, "message": "no"})
    assert len(kept.server.listens) == 1


# ----------------------------------------------------------------------- the era


@pytest.mark.parametrize(("era", "age"), [("modern", 1e9), ("legacy", 10.0), ("sse", 10.0)])
async def test_what_a_server_spoke_is_remembered(
    tmp_path: Path, real_clock: None, era: str, age: float
) -> None:
    kept = Kept(tmp_path)
    kept.keeper.settle_era(era)
    await kept.open()
    again = Kept(tmp_path)
    again.keeper.restore(SERVER)
    again.keeper._era_since = time.time() - age
    assert again.keeper.era_now() == era


@pytest.mark.parametrize("era", ["legacy", "sse"])
def test_an_older_verdict_is_asked_anew_after_a_day(tmp_path: Path, era: str) -> None:
    keeper = Kept(tmp_path).keeper
    keeper.settle_era(era)
    keeper._era_since -= LEGACY_HOLDS + 1
    assert keeper.era_now() == "auto"
    keeper.settle_era(era)
    assert keeper.era_now() == era
    keeper._era_since += 3600
    assert keeper.era_now() == "auto", "a clock that was set back proves nothing"
