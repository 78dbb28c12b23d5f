"""What a server is asked to announce, and what it then is believed (5.14, 4.8)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.upstream.fetch import Primitive
from mcpd.upstream.keeper import ACKNOWLEDGED
from mcpd.upstream.listen import Listener
from tests.upstream.lister import Lister, tools

ALL: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
MODERN = "2026-07-28"


class World:
    """A listener and the server that it listens to."""

    def __init__(self, capabilities: dict[str, Any], revision: str = MODERN) -> None:
        self.changed: list[Primitive] = []
        self.remarks: list[str] = []
        self.listener = Listener(self.changed.append, self.remarks.append)
        self.server = Lister(
            lambda params: tools(), capabilities=capabilities, revision=revision, noticed=self._noticed
        )

    def _noticed(self, method: str, params: bytes) -> None:
        if method == ACKNOWLEDGED:
            self.listener.acknowledged(params)

    async def run(self) -> None:
        await self.listener.run(self.server.connection)

    async def acknowledges(self, ident: Any, honoured: Any) -> None:
        params = {"_meta": {"io.modelcontextprotocol/subscriptionId": ident}, "notifications": honoured}
        self.server.says(method=ACKNOWLEDGED, params=params)
        await trio.testing.wait_all_tasks_blocked()

    def announces(self, *primitives: Primitive) -> list[bool]:
        return [self.listener.announces(self.server.connection, primitive) for primitive in primitives]

    def heard(self, ident: Any) -> bool:
        params = {"_meta": {"io.modelcontextprotocol/subscriptionId": ident}}
        return self.listener.heard(json.dumps(params).encode())


@pytest.mark.parametrize(
    ("capabilities", "asked"),
    [
        (ALL, LISTS),
        ({"tools": {"listChanged": True}}, {"toolsListChanged": True}),
        ({"tools": {}, "prompts": {"listChanged": True}}, {"promptsListChanged": True}),
    ],
)
async def test_all_that_is_announced_is_asked_for_on_one_stream(
    capabilities: dict[str, Any], asked: dict[str, bool]
) -> None:
    world = World(capabilities)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await trio.testing.wait_all_tasks_blocked()
        assert world.server.filters == [asked]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("revision", "capabilities"),
    [
        ("2025-11-25", {"tools": {"listChanged": True}}),
        (MODERN, {"tools": {}}),
        (MODERN, {"tools": {"listChanged": "yes"}}),
        (MODERN, {"tools": True, "prompts": []}),
        (MODERN, {}),
    ],
)
async def test_a_stream_is_asked_for_only_where_it_is_offered(
    revision: str, capabilities: dict[str, Any]
) -> None:
    world = World(capabilities, revision)
    with trio.fail_after(1):
        await world.run()
    assert world.server.listens == []


async def test_what_the_server_honours_is_what_it_announces() -> None:
    world = World(ALL)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await trio.testing.wait_all_tasks_blocked()
        assert world.announces("tools", "prompts", "resources") == [False] * 3
        [ident] = world.server.listens
        await world.acknowledges(ident, {"toolsListChanged": True, "promptsListChanged": False})
        assert world.announces("tools", "prompts", "resources") == [True, False, False]
        assert world.remarks == ["changes of its prompts and resources are not announced, though asked for"]
        world.server.says(id=ident, result={"resultType": "complete"})
        await trio.testing.wait_all_tasks_blocked()
        assert world.announces("tools") == [False], "a promise ends with its stream"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "honoured", [None, [], "x", {"toolsListChanged": "yes"}, {"promptsListChanged": True}, 7]
)
async def test_an_odd_acknowledgement_promises_nothing(honoured: Any) -> None:
    world = World({"tools": {"listChanged": True}})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await trio.testing.wait_all_tasks_blocked()
        [ident] = world.server.listens
        await world.acknowledges(ident + 1, {"toolsListChanged": True})
        await world.acknowledges(ident, honoured)
        assert world.announces("tools", "prompts") == [False, False]
        nursery.cancel_scope.cancel()


async def test_older_servers_announce_what_they_say_they_do() -> None:
    world = World({"tools": {"listChanged": True}, "prompts": {}}, "2025-11-25")
    assert world.announces("tools", "prompts", "resources") == [True, False, False]


async def test_only_what_comes_on_a_stream_of_ours_is_heard() -> None:
    world = World({"tools": {"listChanged": True}})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await trio.testing.wait_all_tasks_blocked()
        [ident] = world.server.listens
        assert world.heard(ident)
        assert world.heard(str(ident)), "some servers echo an id as text"
        assert not any(map(world.heard, (ident + 1, None, "x", [], True)))
        assert not world.listener.heard(b"")
        assert not world.listener.heard(b"[]")
        nursery.cancel_scope.cancel()


async def test_a_stream_that_ends_is_asked_for_again_and_everything_listed_anew() -> None:
    world = World({"tools": {"listChanged": True}, "prompts": {"listChanged": True}})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        for number, end in enumerate(("result", "cancelled", "error", "result", "cancelled")):
            await trio.testing.wait_all_tasks_blocked()
            assert len(world.server.listens) == number + 1
            ident = world.server.listens[-1]
            world.changed.clear()
            if end == "result":
                world.server.says(id=ident, result={"resultType": "complete"})
            elif end == "cancelled":
                world.server.says(method="notifications/cancelled", params={"requestId": ident})
            else:
                world.server.says(id=ident, error={"code": -32000, "message": "overloaded"})
            await trio.testing.wait_all_tasks_blocked()
            assert world.changed == ["tools", "prompts"], "nothing is replayed, so everything is listed again"
            await trio.sleep(2**number - 0.1)
            assert len(world.server.listens) == number + 1
            await trio.sleep(0.2)
        nursery.cancel_scope.cancel()


async def test_after_a_long_stream_the_next_follows_soon() -> None:
    world = World({"tools": {"listChanged": True}})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        for number in range(5):
            await trio.sleep(100)
            assert len(world.server.listens) == number + 1
            world.server.says(id=world.server.listens[-1], result={})
            await trio.sleep(1.1)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("code", [-32601, -32602])
async def test_a_server_that_does_not_know_streams_is_not_asked_again(code: int) -> None:
    world = World({"tools": {"listChanged": True}})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.run)
        await trio.testing.wait_all_tasks_blocked()
        world.server.says(id=world.server.listens[0], error={"code": code, "message": "no"})
    assert len(world.server.listens) == 1
