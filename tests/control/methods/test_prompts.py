"""Prompts as the operator sees and gets them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Home
from tests.control.world import library, running, tiny, write_config, write_server


async def test_the_list_has_arguments_and_policy(home: Home, real_clock: None) -> None:
    write_server(home, "books", **library())
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        listed = await (await world.operator()).call("prompts.list")
    assert listed["prompts"] == [
        {
            "server": "books",
            "prompt": "greet",
            "name": "books__greet",
            "title": "",
            "description": "Says hello.",
            "arguments": [],
            "risk": "high",  # untrusted (b11)
            "approval": "never",
        },
        {
            "server": "books",
            "prompt": "review",
            "name": "books__review",
            "title": "Review",
            "description": "",
            "arguments": [
                {"name": "code", "description": "", "required": True},
                {"name": "style", "description": "", "required": False},
            ],
            "risk": "high",
            "approval": "never",
        },
    ]
    assert (listed["next_cursor"], listed["left_out"]) == ("", [])


async def test_the_list_of_a_server_or_an_agent(home: Home, real_clock: None) -> None:
    agent = '[agents.caller]\ndenied_tools = ["books__get_prompt"]\nspelling = "mcp_server_tool"\n'
    write_config(home, agent)
    write_server(home, "books", **library())
    write_server(home, "more", **library())
    async with running(home) as world:
        client = await world.operator()
        listed = await client.call("prompts.list", server="more")
        assert [prompt["name"] for prompt in listed["prompts"]] == ["more__greet", "more__review"]
        listed = await client.call("prompts.list", agent="caller")
        assert [prompt["name"] for prompt in listed["prompts"]] == ["mcp_more_greet", "mcp_more_review"]
        assert (await client.refusal("prompts.list", cursor="x")).kind == "invalid_params"


@pytest.mark.parametrize(
    "which", [{"name": "books__review"}, {"server": "books", "prompt": "review"}], ids=["name", "pair"]
)
async def test_a_prompt_filled_in(home: Home, real_clock: None, which: dict[str, Any]) -> None:
    write_server(home, "books", **library())
    async with running(home) as world:
        await world.nursery.start(world.broker.journal.run)
        arguments = {"code": "\u00fc", "style": "kind"}
        got = await (await world.operator()).call("prompts.get", **which, arguments=arguments)
        assert (got["server"], got["prompt"]) == ("books", "review")
        assert "('code', '\u00fc')" in got["result"]["messages"][0]["content"]["text"]
        [entry] = [each for each in (await world.broker.journal.query()).entries if each.kind == "request"]
        assert (entry.method, entry.tool, entry.outcome) == ("prompts/get", "get_prompt", "ok")


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({}, "invalid_params"),
        ({"prompt": "greet"}, "invalid_params"),
        ({"server": "books"}, "invalid_params"),
        ({"name": "books__greet", "server": "books", "prompt": "greet"}, "invalid_params"),
        ({"name": "books__greet", "arguments": {"a": 1}}, "invalid_params"),
        ({"name": "books__nope"}, "no_such_prompt"),
        ({"name": "nobody__greet"}, "no_such_prompt"),
        ({"server": "books", "prompt": "nope"}, "no_such_prompt"),
        ({"server": "nobody", "prompt": "greet"}, "no_such_server"),
        ({"name": "books__review"}, "server_error"),
        ({"name": "closed__greet"}, "denied"),
        ({"name": "off__greet"}, "disabled"),
        ({"name": "sad__greet"}, "unavailable"),
    ],
)
async def test_prompts_that_cannot_be_got(
    home: Home, real_clock: None, params: dict[str, Any], kind: str
) -> None:
    write_server(home, "books", **library())
    write_server(home, "closed", **library(default_policy={"approval": "deny"}))
    write_server(home, "off", **library(), enabled=False)
    write_server(home, "sad", **tiny("--refuse"))
    async with running(home) as world:
        assert (await (await world.operator()).refusal("prompts.get", **params)).kind == kind
