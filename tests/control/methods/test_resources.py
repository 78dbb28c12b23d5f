"""Resources as the operator sees and reads them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Home
from tests.control.world import library, running, tiny, write_config, write_server


async def test_the_list_has_resources_templates_and_policy(home: Home, real_clock: None) -> None:
    write_server(home, "books", **library())
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        listed = await (await world.operator()).call("resources.list")
    first, *_, template = listed["resources"]
    assert first == {
        "server": "books",
        "uri": "note:///1",
        "name": "mcpd://books/note:///1",
        "template": False,
        "label": "1",
        "title": "",
        "description": "",
        "mime_type": "text/plain",
        "size": None,
        "risk": "high",  # untrusted (b11)
        "approval": "never",
    }
    assert (template["uri"], template["template"]) == ("note:///{id}", True)
    assert template["name"] == "mcpd://books/note:///{id}"
    assert [entry["uri"] for entry in listed["resources"][:-1]] == ["note:///1", "note:///2", "blob:///b"]
    assert (listed["next_cursor"], listed["left_out"]) == ("", [])


async def test_the_list_of_a_server_or_an_agent(home: Home, real_clock: None) -> None:
    write_config(home, '[agents.caller]\ndenied_tools = ["books__read_resource"]\n')
    write_server(home, "books", **library())
    write_server(home, "more", **library())
    write_server(home, "sad", **tiny("--refuse"))
    async with running(home) as world:
        client = await world.operator()
        listed = await client.call("resources.list")
        assert {entry["server"] for entry in listed["resources"]} == {"books", "more"}
        assert any('"sad" is failed' in reason for reason in listed["left_out"])
        listed = await client.call("resources.list", server="more")
        assert {entry["server"] for entry in listed["resources"]} == {"more"}
        listed = await client.call("resources.list", agent="caller")
        assert {entry["server"] for entry in listed["resources"]} == {"more"}
        assert (await client.refusal("resources.list", server="sad")).kind == "unavailable"
        assert (await client.refusal("resources.list", server="nobody")).kind == "no_such_server"
        assert (await client.refusal("resources.list", agent="nobody")).kind == "no_such_agent"
        assert (await client.refusal("resources.list", cursor="x")).kind == "invalid_params"


async def test_long_lists_come_in_pages_b24(home: Home, real_clock: None) -> None:
    write_server(home, "books", **library("--notes", "600"))
    async with running(home) as world:
        client = await world.operator()
        first = await client.call("resources.list")
        second = await client.call("resources.list", cursor=first["next_cursor"])
    assert (len(first["resources"]), len(second["resources"])) == (500, 104)
    names = {entry["name"] for page in (first, second) for entry in page["resources"]}
    assert len(names) == 604


@pytest.mark.parametrize(
    "params",
    [
        {"uri": "mcpd://books/note:///7"},
        {"uri": "note:///7", "server": "books"},
        {"uri": "mcpd://books/note:///7", "server": "books"},
    ],
)
async def test_a_read(home: Home, real_clock: None, params: dict[str, Any]) -> None:
    write_server(home, "books", **library())
    async with running(home) as world:
        await world.nursery.start(world.broker.journal.run)
        read = await (await world.operator()).call("resources.read", **params)
        assert (read["server"], read["uri"]) == ("books", "note:///7")
        assert read["result"]["contents"][0]["text"] == "note 7"
        assert read["duration"] > 0
        assert read["cut"] is False
        [entry] = [each for each in (await world.broker.journal.query()).entries if each.kind == "request"]
        assert (entry.method, entry.tool, entry.outcome) == ("resources/read", "read_resource", "ok")


async def test_a_read_says_that_it_is_not_all_there(home: Home, real_clock: None) -> None:
    write_config(home, "[defaults]\nmax_result = 4\n")
    write_server(home, "books", **library())
    async with running(home) as world:
        read = await (await world.operator()).call("resources.read", uri="mcpd://books/note:///7")
        assert read["cut"] is True
        assert read["result"]["contents"][0]["text"] == "note"


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({}, "invalid_params"),
        ({"uri": "note:///1"}, "no_such_resource"),
        ({"uri": "mcpd://nobody/note:///1"}, "no_such_server"),
        ({"uri": "note:///1", "server": "nobody"}, "no_such_server"),
        ({"uri": "mcpd://tiny/note:///1"}, "no_such_resource"),
        ({"uri": "mcpd://books/note:///x"}, "server_error"),
        ({"uri": "mcpd://closed/note:///1"}, "denied"),
        ({"uri": "mcpd://off/note:///1"}, "disabled"),
        ({"uri": "mcpd://sad/note:///1"}, "unavailable"),
    ],
)
async def test_reads_that_fail(home: Home, real_clock: None, params: dict[str, Any], kind: str) -> None:
    write_server(home, "books", **library())
    write_server(home, "closed", **library(default_policy={"approval": "deny"}))
    write_server(home, "tiny", **tiny())
    write_server(home, "off", **library(), enabled=False)
    write_server(home, "sad", **tiny("--refuse"))
    async with running(home) as world:
        refused = await (await world.operator()).refusal("resources.read", **params)
        assert refused.kind == kind
        if kind == "server_error":
            assert refused.data["error"]["data"] == {"uri": "note:///x"}
