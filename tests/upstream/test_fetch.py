"""All pages of a catalogue, from servers that count badly (5.10, b24, a08)."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcpd.catalog.tool import Catalog
from mcpd.errors import Failure, ServerError
from mcpd.transport.base import ConnectionLost
from mcpd.upstream.fetch import MAX_BYTES, fetch_catalog
from tests.upstream.lister import Lister, tools


def names(catalog: Catalog) -> list[str]:
    return [tool.name for tool in catalog.tools]


async def test_pages_are_joined_in_their_order() -> None:
    pages = {None: tools("a", "b", nextCursor="x"), "x": tools("c", nextCursor="y"), "y": tools("d")}
    server = Lister(lambda params: pages[params.get("cursor")])
    catalog = await fetch_catalog(server.connection)
    assert names(catalog) == ["a", "b", "c", "d"]
    assert server.asked == [{}, {"cursor": "x"}, {"cursor": "y"}]
    assert catalog.instructions == "be kind"
    assert catalog.warnings == ()


async def test_only_a_missing_or_null_cursor_is_the_end() -> None:
    pages = {None: tools("a", nextCursor=""), "": tools("b", nextCursor=None)}
    server = Lister(lambda params: pages[params.get("cursor")])
    assert names(await fetch_catalog(server.connection)) == ["a", "b"], (
        "an empty string is a cursor like any other"
    )


async def test_tools_are_listed_only_where_they_are_advertised() -> None:
    server = Lister(lambda params: tools("a"), capabilities={"prompts": {}})
    assert await fetch_catalog(server.connection) == Catalog(instructions="be kind")
    assert server.asked == []


async def test_a_list_that_goes_round_in_circles_ends() -> None:
    def page(params: dict[str, Any]) -> dict[str, Any]:
        return tools("b", nextCursor="x") if "cursor" in params else tools("a", nextCursor="x")

    catalog = await fetch_catalog(Lister(page).connection)
    assert names(catalog) == ["a", "b"]
    assert any("repeated a cursor" in warning for warning in catalog.warnings)


async def test_a_list_without_end_is_cut_and_it_is_said() -> None:
    def page(params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0))
        return tools(f"t{number}", nextCursor=str(number + 1))

    server = Lister(page)
    catalog = await fetch_catalog(server.connection)
    assert len(catalog.tools) == len(server.asked) == 100
    assert any("more than 100 pages" in warning for warning in catalog.warnings)


async def test_pages_that_are_too_much_for_a_catalogue_are_not_gathered() -> None:
    padding = "x" * (MAX_BYTES // 8)

    def page(params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0))
        return tools(f"t{number}", nextCursor=str(number + 1), padding=padding)

    server = Lister(page)
    catalog = await fetch_catalog(server.connection)
    assert len(server.asked) < 10
    assert any("left out" in warning for warning in catalog.warnings)
    assert names(catalog)[:2] == ["t0", "t1"]


async def test_a_cursor_that_went_bad_is_answered_by_one_fresh_start() -> None:
    refused = [{"error": {"code": -32602, "message": "bad cursor"}}]

    def page(params: dict[str, Any]) -> dict[str, Any]:
        if "cursor" not in params:
            return tools("a", nextCursor="x")
        return refused.pop() if refused else tools("b")

    server = Lister(page)
    assert names(await fetch_catalog(server.connection)) == ["a", "b"]
    assert server.asked == [{}, {"cursor": "x"}] * 2


async def test_a_cursor_that_is_always_bad_is_the_servers_failure() -> None:
    def page(params: dict[str, Any]) -> dict[str, Any]:
        if "cursor" not in params:
            return tools("a", nextCursor="x")
        return {"error": {"code": -32602, "message": "bad cursor"}}

    server = Lister(page)
    with pytest.raises(ServerError):
        await fetch_catalog(server.connection)
    assert len(server.asked) == 4


async def test_an_advertised_list_that_the_server_does_not_know_is_empty() -> None:
    catalog = await fetch_catalog(
        Lister(lambda params: {"error": {"code": -32601, "message": "no"}}).connection
    )
    assert catalog.tools == ()
    assert "not known to the server" in catalog.warnings[0]


@pytest.mark.parametrize("result", [{"tools": None}, {"tools": {}}, {"tools": "x"}, {"nextCursor": 5}])
async def test_an_answer_of_another_shape_is_a_bad_answer(result: dict[str, Any]) -> None:
    with pytest.raises(Failure) as caught:
        await fetch_catalog(Lister(lambda params: {"result": result}).connection)
    assert caught.value.kind == "bad_answer"


async def test_one_bad_definition_never_loses_another() -> None:
    good = tools("good", "better")["result"]["tools"]
    mixed = [*good[:1], None, 5, {}, {"name": 3}, {"name": ""}, *good[1:]]
    catalog = await fetch_catalog(Lister(lambda params: {"result": {"tools": mixed}}).connection)
    assert names(catalog) == ["good", "better"]
    assert len(catalog.warnings) == 5


async def test_a_silent_server_costs_a_minute_a_page_and_a_lost_one_nothing() -> None:
    class Silent(Lister):
        queued = 0

        def write(self, line: bytes) -> bool:
            return True

    silent = Silent(lambda params: {})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(silent.deadlines.run)
        began = trio.current_time()
        with pytest.raises(Failure) as caught:
            await fetch_catalog(silent.connection)
        assert caught.value.kind == "timed_out"
        assert 60 <= trio.current_time() - began < 61
        nursery.cancel_scope.cancel()

    async def lose() -> None:
        silent.connection.lose()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lose)
        with pytest.raises(ConnectionLost):
            await fetch_catalog(silent.connection)


async def test_entries_without_end_are_not_even_gathered() -> None:
    """At most as many as a catalogue may have, of all pages together, whatever they are."""

    def page(params: dict[str, Any]) -> dict[str, Any]:
        return {"result": {"tools": [1] * 6_000, "nextCursor": str(params.get("cursor", "")) + "x"}}

    server = Lister(page)
    catalog = await fetch_catalog(server.connection)
    assert len(server.asked) == 2
    assert catalog.warnings[0] == "tools/list has more than 10,000 entries; the rest was left out"


@pytest.mark.parametrize("found", [7, "x", {}, None])
async def test_tools_that_are_no_list_are_a_bad_answer(found: Any) -> None:
    with pytest.raises(Failure) as caught:
        await fetch_catalog(Lister(lambda params: {"result": {"tools": found}}).connection)
    assert caught.value.kind == "bad_answer"
