"""A catalogue is kept true at a bounded price, whatever the server announces (a22, D5, 5.14)."""

from __future__ import annotations

import itertools
import json
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
from mcpd.upstream.fetch import Primitive
from mcpd.upstream.keeper import Keeper
from tests.upstream.lister import Lister, tools

SERVER = Server(name="s", source="test", command="x")
REMOTE = Server(name="s", source="test", url="http://127.0.0.1:1/mcp")


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
        """As a call sees it."""
        return self.keeper.tools.stale

    def notice(self) -> None:
        self.keeper.notice("notifications/tools/list_changed", b"")

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
        while kept.is_stale():
            await trio.lowlevel.checkpoint()


async def test_a_notice_is_followed_by_a_new_catalogue(tmp_path: Path, real_clock: None) -> None:
    kept = Kept(tmp_path)
    await kept.open()
    assert (kept.names, kept.published, kept.is_stale()) == (["a"], 1, False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        kept.offered.append("b")
        kept.notice()
        assert kept.is_stale(), "a call or listing from now on waits"
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


async def test_of_two_catalogues_the_later_is_kept(tmp_path: Path, real_clock: None) -> None:
    """Also when they are large, and the first is still being written."""
    kept = Kept(tmp_path)
    pages = [
        {"name": f"t{n}", "inputSchema": {"type": "object"}, "description": "x" * 60_000} for n in range(9)
    ]
    kept.failing = {"result": {"tools": pages}}
    large = await kept.keeper.fetch(kept.server.connection)
    later = msgspec.structs.replace(large, instructions="later")
    async with trio.open_nursery() as nursery:
        for catalog in (large, large, later):
            nursery.start_soon(kept.keeper.store, SERVER, kept.server.connection, catalog)
            await trio.lowlevel.checkpoint()
    again = Kept(tmp_path)
    again.keeper.restore(SERVER)
    assert again.keeper.catalog == later


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

        kept.server.pages["tools/list"] = late
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
            if kept.is_stale():
                waited.append(second)
            if second == 603:
                assert len(kept.server.asked) < 25
            await trio.sleep(9)
        assert len(waited) < 5
        assert len(kept.server.asked) < 20 * 60 + 25
        assert kept.published == 1, "only when the server itself had said it for the first time"
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
        assert not kept.is_stale()
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


# -------------------------------------------------------------- all that is kept


class Shelf(Kept):
    """A keeper of a server with prompts and resources."""

    def __init__(self, cache: Path, **lister: Any) -> None:
        lister.setdefault("capabilities", {"tools": {}, "prompts": {}, "resources": {}})
        self.uris = ["a:1"]
        self.more: dict[str, Any] = {}
        self.broken = ""
        super().__init__(
            cache,
            others={
                "resources/list": self._resources,
                "resources/templates/list": lambda params: {"result": {"resourceTemplates": [], **self.more}},
                "prompts/list": lambda params: {"result": {"prompts": [{"name": "p"}], **self.more}},
            },
            **lister,
        )

    def _resources(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.broken:
            return {"error": {"code": -32603, "message": self.broken}}
        return {"result": {"resources": [{"uri": uri, "name": uri} for uri in self.uris], **self.more}}

    @property
    def seen(self) -> list[str]:
        assert self.keeper.catalog is not None
        return [one.uri for one in self.keeper.catalog.resources]

    def count(self, method: str) -> int:
        return [asked for asked, _ in self.server.requests].count(method)

    async def settled(self) -> None:
        await trio.testing.wait_all_tasks_blocked(0.02)


async def test_a_notice_refetches_only_the_lists_that_it_is_about(tmp_path: Path, real_clock: None) -> None:
    kept = Shelf(tmp_path)
    await kept.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        await kept.settled()
        kept.uris.append("a:2")
        kept.keeper.notice("notifications/resources/list_changed", b"{}")
        assert kept.keeper.pace("resources").stale
        assert not kept.is_stale(), "no call waits for resources"
        await kept.settled()
        assert not kept.keeper.pace("resources").stale
        assert kept.seen == ["a:1", "a:2"]
        assert (kept.count("resources/list"), kept.count("resources/templates/list")) == (2, 2)
        assert (len(kept.server.asked), kept.count("prompts/list")) == (1, 1)
        kept.keeper.notice("notifications/prompts/list_changed", b"")
        await kept.settled()
        assert (len(kept.server.asked), kept.count("prompts/list"), kept.count("resources/list")) == (1, 2, 2)
        nursery.cancel_scope.cancel()
    again = Shelf(tmp_path)
    again.keeper.restore(SERVER)
    assert again.seen == ["a:1", "a:2"], "what came later is kept for the next start, too"


async def test_notices_of_what_is_not_advertised_make_nobody_wait(tmp_path: Path) -> None:
    kept = Shelf(tmp_path, capabilities={"tools": {}})
    kept.keeper.notice("notifications/prompts/list_changed", b"")
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        await trio.testing.wait_all_tasks_blocked()
        kept.keeper.notice("notifications/resources/list_changed", b"")
        assert not kept.keeper.pace("prompts").stale
        assert not kept.keeper.pace("resources").stale
        nursery.cancel_scope.cancel()


async def test_changed_tools_are_waited_for_also_where_a_connection_before_had_none(tmp_path: Path) -> None:
    kept = Shelf(tmp_path, capabilities={"prompts": {}})
    await kept.begin()
    for kind in ("prompts", "tools"):
        kept.server = Lister(kept._page, noticed=kept.keeper.notice, capabilities={kind: {}})
        await kept.begin()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kept.keep)
            await trio.testing.wait_all_tasks_blocked()
            kept.notice()
            assert kept.is_stale() == (kind == "tools")
            nursery.cancel_scope.cancel()


async def test_a_storm_about_one_primitive_costs_the_others_nothing(tmp_path: Path) -> None:
    kept = Shelf(tmp_path)
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        for _ in range(600):
            kept.keeper.notice("notifications/resources/list_changed", b"")
            await trio.sleep(1)
        assert kept.count("resources/list") < 30
        assert not kept.keeper.pace("resources").stale
        kept.notice()
        assert kept.is_stale()
        await trio.testing.wait_all_tasks_blocked()
        assert not kept.is_stale()
        assert len(kept.server.asked) == 2
        nursery.cancel_scope.cancel()


async def test_a_list_that_failed_is_tried_again_for_a_while_and_then_when_somebody_looks(
    tmp_path: Path,
) -> None:
    kept = Shelf(tmp_path)
    kept.broken = "out of order"
    await kept.begin()
    assert kept.seen == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        assert not kept.keeper.pace("resources").stale
        await trio.sleep(3600)
        assert kept.count("resources/list") == 6
        assert any("resources/list failed: out of order" in remark for remark in kept.remarks)
        kept.broken = ""
        kept.keeper.look("resources")
        assert kept.keeper.pace("resources").stale
        nursery.cancel_scope.cancel()


async def test_what_nobody_announces_is_looked_at_when_somebody_looks(tmp_path: Path) -> None:
    """5.18: expiry is checked on use, there is no polling."""
    kept = Shelf(tmp_path, revision="2026-07-28")
    kept.more = {"ttlMs": 60_000}
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        await trio.sleep(59)
        kept.keeper.look("prompts")
        assert not kept.keeper.pace("prompts").stale, "it is fresh, says the server"
        await trio.sleep(3600)
        assert kept.count("prompts/list") == 1
        kept.keeper.look("prompts")
        assert kept.keeper.pace("prompts").stale
        await trio.testing.wait_all_tasks_blocked()
        assert (kept.count("prompts/list"), kept.count("resources/list")) == (2, 1)
        kept.keeper.look("tools")
        assert kept.is_stale(), "the tools have no time at all"
        nursery.cancel_scope.cancel()
    kept.keeper.look("resources")
    assert not kept.keeper.pace("resources").stale, "without a connection there is nobody to ask"


@pytest.mark.parametrize(
    ("changes", "primitive", "looked"),
    [
        ({}, "resources", True),
        ({"listChanged": True}, "resources", False),
        ({}, "tools", False),
        ({"listChanged": True}, "tools", False),
    ],
)
async def test_older_servers_are_asked_for_what_they_do_not_announce_except_for_tools(
    tmp_path: Path, changes: dict[str, bool], primitive: Primitive, looked: bool
) -> None:
    kept = Shelf(tmp_path, capabilities={"tools": changes, "resources": changes})
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        await trio.testing.wait_all_tasks_blocked()
        kept.keeper.look(primitive)
        assert kept.keeper.pace(primitive).stale is looked
        nursery.cancel_scope.cancel()


async def test_in_the_new_era_only_what_comes_on_the_stream_is_believed(tmp_path: Path) -> None:
    kept = Shelf(tmp_path, revision="2026-07-28", capabilities={"tools": {"listChanged": True}})
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        nursery.start_soon(kept.listen)
        await trio.testing.wait_all_tasks_blocked()
        [ident] = kept.server.listens
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": ident}}
        before = kept.keeper.pace("tools").notices
        kept.notice()
        assert kept.keeper.pace("tools").notices == before
        kept.keeper.notice("notifications/tools/list_changed", json.dumps(meta).encode())
        assert kept.keeper.pace("tools").notices == before + 1
        nursery.cancel_scope.cancel()


async def test_what_the_server_has_promised_to_announce_is_not_looked_at(tmp_path: Path) -> None:
    kept = Shelf(tmp_path, revision="2026-07-28", capabilities={"tools": {"listChanged": True}})
    await kept.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        nursery.start_soon(kept.listen)
        await trio.testing.wait_all_tasks_blocked()
        meta = {"io.modelcontextprotocol/subscriptionId": kept.server.listens[0]}
        params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
        kept.server.says(method="notifications/subscriptions/acknowledged", params=params)
        await trio.testing.wait_all_tasks_blocked()
        kept.keeper.look("tools")
        assert not kept.is_stale()
        kept.server.says(id=kept.server.listens[0], result={})
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(0.5)
        assert len(kept.server.asked) == 2, "nothing is replayed, so everything is listed again"
        kept.keeper.look("tools")
        assert kept.is_stale(), "a promise ends with its stream"
        nursery.cancel_scope.cancel()


async def test_tools_that_cannot_be_mirrored_are_left_out_over_http_in_the_new_era(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}
    odd = {"result": {"tools": [{"name": "odd", "inputSchema": schema}]}}
    for server, revision, expected in (
        (SERVER, "2026-07-28", ["odd"]),
        (REMOTE, "2025-11-25", ["odd"]),
        (REMOTE, "2026-07-28", []),
    ):
        kept = Kept(tmp_path, revision=revision)
        kept.failing = odd
        kept.keeper.restore(server)
        await kept.begin()
        assert kept.names == expected


async def test_what_a_server_says_again_is_held_once(tmp_path: Path, real_clock: None) -> None:
    """10,000 tools take 10 MiB: those of the cache, of the last connection and of this one are the same."""
    kept = Kept(tmp_path)
    kept.offered = ["a", "b"]
    await kept.open()
    restarted = Kept(tmp_path)
    restarted.keeper.restore(SERVER)
    cached = restarted.keeper.catalog
    assert cached is not None
    restarted.offered = ["a", "b"]
    again = await restarted.keeper.fetch(restarted.server.connection)
    assert again.tools[0] is cached.tools[0]
    restarted.keeper.take(again)
    assert await restarted.keeper.fetch(restarted.server.connection) is restarted.keeper.catalog
    restarted.offered = ["new", "b"]
    changed = await restarted.keeper.fetch(restarted.server.connection)
    assert [tool.name for tool in changed.tools] == ["new", "b"]
    assert changed.tools[1] is cached.tools[1]


async def test_a_refetch_that_finds_nothing_new_leaves_the_catalogue_as_it_is(
    tmp_path: Path, real_clock: None
) -> None:
    kept = Kept(tmp_path)
    kept.offered = ["a", "b"]
    await kept.open()
    before = kept.keeper.catalog
    assert before is not None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keep)
        for offered in (["a", "b"], ["a", "c"]):
            kept.offered = offered
            kept.notice()
            await fresh(kept)
            now = kept.keeper.catalog
            assert now is not None
            assert (now is before) == (offered == ["a", "b"])
            assert now.tools[0] is before.tools[0]
        nursery.cancel_scope.cancel()
