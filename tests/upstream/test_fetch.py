"""All pages of a catalogue, from servers that count badly (5.10, b24, a08)."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcpd.catalog.tool import Catalog
from mcpd.errors import Failure, ServerError
from mcpd.transport.base import ConnectionLost
from mcpd.upstream.connection import Connection
from mcpd.upstream.fetch import Part, assemble, features, fetch_all, fetch_some, primitives
from mcpd.upstream.gather import MAX_BYTES
from tests.upstream.lister import Lister, Page, tools

ALL: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}


async def fetch_catalog(
    connection: Connection, before: Catalog | None = None, *, mirrored: bool = False
) -> Catalog:
    return assemble(connection, await fetch_all(connection, before or Catalog(), mirrored=mirrored))


def answer(key: str, *entries: Any, **more: Any) -> Page:
    """The same answer to every request of a list."""
    return lambda params: {"result": {key: list(entries), **more}}


def refuse(code: int, message: str = "no") -> Page:
    return lambda params: {"error": {"code": code, "message": message}}


def resource(uri: str) -> dict[str, str]:
    return {"uri": uri, "name": uri}


def template(uri: str) -> dict[str, str]:
    return {"uriTemplate": uri, "name": uri}


OTHERS: dict[str, Page] = {
    "resources/list": answer("resources", resource("a:1"), resource("a:2")),
    "resources/templates/list": answer("resourceTemplates", template("a:{x}")),
    "prompts/list": answer("prompts", {"name": "p"}),
}


def shown(catalog: Catalog) -> tuple[list[str], list[str], list[str], list[str]]:
    """Tools, prompts, resources and templates by their names."""
    return (
        [tool.name for tool in catalog.tools],
        [prompt.name for prompt in catalog.prompts],
        [one.uri for one in catalog.resources],
        [one.uri_template for one in catalog.templates],
    )


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
    server = Lister(lambda params: tools("a"), capabilities={"logging": {}})
    found = await fetch_catalog(server.connection)
    assert found == Catalog(instructions="be kind", features=frozenset({"logging"}))
    assert server.asked == []
    assert server.requests == []


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


async def test_pages_that_are_too_much_for_a_catalogue_are_not_gathered(real_clock: None) -> None:
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


# ------------------------------------------------------------------ all the lists


async def test_every_advertised_list_is_read_the_tools_first() -> None:
    server = Lister(lambda params: tools("t"), capabilities=ALL, others=OTHERS)
    catalog = await fetch_catalog(server.connection)
    assert shown(catalog) == (["t"], ["p"], ["a:1", "a:2"], ["a:{x}"])
    assert catalog.features == {"tools", "prompts", "resources"}
    assert catalog.warnings == ()
    assert len(server.asked) == 1
    assert sorted(server.requests) == [(method, {}) for method in sorted(OTHERS)]


@pytest.mark.parametrize(
    ("capabilities", "asked"),
    [
        ({"tools": {}}, []),
        ({"tools": {}, "prompts": {}}, ["prompts/list"]),
        ({"tools": {}, "resources": {}}, ["resources/list", "resources/templates/list"]),
        ({"tools": {}, "resources": None, "prompts": False}, []),
    ],
)
async def test_a_list_is_read_only_where_it_is_advertised(
    capabilities: dict[str, Any], asked: list[str]
) -> None:
    server = Lister(lambda params: tools(), capabilities=capabilities, others=OTHERS)
    await fetch_catalog(server.connection)
    assert sorted(method for method, _ in server.requests) == asked


async def test_every_list_has_pages() -> None:
    def page(params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0))
        more = {} if number == 2 else {"nextCursor": str(number + 1)}
        return {"result": {"resources": [resource(f"a:{number}")], **more}}

    server = Lister(lambda params: tools(), capabilities=ALL, others={**OTHERS, "resources/list": page})
    assert shown(await fetch_catalog(server.connection))[2] == ["a:0", "a:1", "a:2"]


@pytest.mark.parametrize("method", sorted(OTHERS))
async def test_a_list_that_is_not_known_is_empty(method: str) -> None:
    """Claims of resources without resources/list: nx-mcp, puppeteer; templates are unknown to many."""
    server = Lister(lambda params: tools("t"), capabilities=ALL, others={**OTHERS, method: refuse(-32601)})
    catalog = await fetch_catalog(server.connection)
    whole = await fetch_catalog(Lister(lambda params: tools("t"), capabilities=ALL, others=OTHERS).connection)
    assert sum(map(len, shown(catalog))) < sum(map(len, shown(whole)))
    assert len(catalog.warnings) == (method != "resources/templates/list")


FAULTS: list[Page] = [
    refuse(-32603, "out of order"),
    lambda params: {"result": {"prompts": 7, "resources": None, "resourceTemplates": "x"}},
    lambda params: {"result": 7},
    lambda params: None,
]


@pytest.mark.parametrize("method", sorted(OTHERS))
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_list_that_fails_costs_nothing_but_itself(method: str, fault: Page) -> None:
    whole = Lister(lambda params: tools("t"), capabilities=ALL, others=OTHERS)
    before = await fetch_catalog(whole.connection)
    server = Lister(lambda params: tools("t"), capabilities=ALL, others={**OTHERS, method: fault})
    catalog = await fetch_catalog(server.connection)
    assert names(catalog) == ["t"]
    assert [warning.startswith(f"{method} failed: ") for warning in catalog.warnings] == [True]
    lost = {"prompts/list": 1, "resources/list": 2, "resources/templates/list": 1}[method]
    assert sum(map(len, shown(catalog))) == sum(map(len, shown(before))) - lost
    kept = await fetch_catalog(server.connection, before)
    assert shown(kept) == shown(before), "what was known of it stays"


async def test_silent_lists_do_not_hold_up_the_tools_for_long() -> None:
    server = Lister(lambda params: tools("t"), capabilities=ALL, others={"prompts/list": lambda params: None})
    began = trio.current_time()
    catalog = await fetch_catalog(server.connection)
    assert trio.current_time() - began == 5
    assert names(catalog) == ["t"]
    assert "prompts/list failed: it was not answered in time" in catalog.warnings
    assert [method for method, _ in server.requests].count("notifications/cancelled") == 1


async def test_silent_lists_do_not_use_up_the_time_of_the_attempt() -> None:
    server = Lister(lambda params: tools("t"), capabilities=ALL, others={"prompts/list": lambda params: None})
    with trio.fail_after(3):
        assert names(await fetch_catalog(server.connection)) == ["t"]
    assert trio.current_time() < 3


async def test_when_the_tools_fail_nothing_else_is_waited_for() -> None:
    server = Lister(refuse(-32603), capabilities=ALL, others={"prompts/list": lambda params: None})
    began = trio.current_time()
    with pytest.raises(ServerError):
        await fetch_catalog(server.connection)
    assert trio.current_time() == began


async def test_a_lost_connection_is_not_the_failure_of_a_list() -> None:
    def lose(params: dict[str, Any]) -> None:
        # As by a transport: not while the request is still being written.
        trio.lowlevel.current_trio_token().run_sync_soon(server.connection.lose)

    server = Lister(lambda params: tools("t"), capabilities=ALL, others={"prompts/list": lose})
    with pytest.raises(ConnectionLost):
        await fetch_catalog(server.connection)


async def test_all_lists_share_the_room_of_a_catalogue(real_clock: None) -> None:
    """16 MiB in all, filled in the order tools, prompts, resources, templates (b24)."""
    large = "x" * 60_000
    offered = [{"name": f"t{n}", "inputSchema": {"type": "object"}, "description": large} for n in range(200)]
    prompts = [{"name": f"p{n}", "description": large} for n in range(60)]
    resources = [{**resource(f"a:{n}"), "description": large} for n in range(60)]
    others: dict[str, Page] = {
        "prompts/list": answer("prompts", *prompts),
        "resources/list": answer("resources", *resources),
        "resources/templates/list": answer("resourceTemplates", template("a:{x}")),
    }
    server = Lister(answer("tools", *offered), capabilities=ALL, others=others)
    parts = await fetch_all(server.connection, Catalog(), mirrored=False)
    catalog = assemble(server.connection, parts)
    assert [len(kind) for kind in shown(catalog)] == [200, 60, 19, 1]
    assert sum(part.size for part in parts.values()) < MAX_BYTES
    assert any("41 resources are left out" in warning for warning in catalog.warnings)
    found, _ = await fetch_some(server.connection, "resources", parts, Catalog(), mirrored=False)
    assert len(found["resources/list"].resources) == 19, "what the others have counts then, too"


async def test_pages_of_the_other_lists_together_are_not_gathered_without_end(real_clock: None) -> None:
    def page(key: str) -> Page:
        def answer_(params: dict[str, Any]) -> dict[str, Any]:
            number = int(params.get("cursor", 0))
            result = {key: [], "nextCursor": str(number + 1), "padding": "x" * (MAX_BYTES // 10)}
            return {"result": result}

        return answer_

    others = {"prompts/list": page("prompts"), "resources/list": page("resources")}
    server = Lister(lambda params: tools("t"), capabilities=ALL, others=others)
    catalog = await fetch_catalog(server.connection)
    assert names(catalog) == ["t"]
    assert len(server.requests) < 16


async def test_tools_that_cannot_be_mirrored_are_left_out_where_that_matters() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "number", "x-mcp-header": "X"}}}
    offered = [{"name": "odd", "inputSchema": schema}, {"name": "fine", "inputSchema": {"type": "object"}}]
    server = Lister(answer("tools", *offered))
    assert names(await fetch_catalog(server.connection)) == ["odd", "fine"]
    catalog = await fetch_catalog(server.connection, mirrored=True)
    assert names(catalog) == ["fine"]
    assert [warning.startswith('tool "odd" is left out: ') for warning in catalog.warnings] == [True]


@pytest.mark.parametrize(
    ("pages", "ttl"),
    [
        ([{"ttlMs": 5000}], 5.0),
        ([{}], 0.0),
        ([{"ttlMs": 5000}, {"ttlMs": 1000}], 1.0),
        ([{"ttlMs": -1}], 0.0),
    ],
)
async def test_a_list_is_as_fresh_as_its_least_page(pages: list[dict[str, Any]], ttl: float) -> None:
    def page(params: dict[str, Any]) -> dict[str, Any]:
        number = int(params.get("cursor", 0))
        more = {} if number + 1 == len(pages) else {"nextCursor": str(number + 1)}
        return tools(f"t{number}", **pages[number], **more)

    for revision, expected in (("2026-07-28", ttl), ("2025-11-25", 0.0)):
        server = Lister(page, revision=revision)
        parts = await fetch_all(server.connection, Catalog(), mirrored=False)
        assert parts["tools/list"].ttl == expected, "older revisions have no such thing (4.8)"


async def test_one_primitive_is_read_again_alone() -> None:
    server = Lister(
        lambda params: tools("t"),
        capabilities=ALL,
        others={**OTHERS, "resources/templates/list": refuse(-32603, "broken")},
    )
    known = {"resources/templates/list": Part(), "tools/list": Part()}
    found, failures = await fetch_some(server.connection, "resources", known, Catalog(), mirrored=False)  # type: ignore[arg-type]
    assert list(found) == ["resources/list"]
    assert [(method, failure.message) for method, failure in failures.items()] == [
        ("resources/templates/list", "broken")
    ]
    assert server.asked == []


@pytest.mark.parametrize(
    ("capabilities", "found"),
    [
        ({}, set()),
        ({"tools": {}, "completions": {}, "logging": {}}, {"tools", "completions", "logging"}),
        ({"resources": {"subscribe": True}}, {"resources", "resources.subscribe"}),
        ({"resources": {"subscribe": "yes"}, "prompts": True, "tools": None}, {"resources", "prompts"}),
        ({"resources": [], "completions": False, "experimental": {}}, {"resources"}),
    ],
)
def test_what_a_server_advertises(capabilities: dict[str, Any], found: set[str]) -> None:
    assert features(capabilities) == found
    assert set(primitives(capabilities)) == found & {"tools", "prompts", "resources"}
