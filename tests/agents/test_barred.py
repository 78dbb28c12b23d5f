"""No method of either era leads around the policy: what an agent lacks, nothing it asks for reaches (a01).

The agents here lack a server, its tools, or the wrapper tools that stand for the method (`read_resource` for
`resources/read`), or may not go as far as the risk of what is there (b33).
"""

from __future__ import annotations

from typing import Any

import pytest

from mcpd.agents.methods.table import METHODS
from tests.agents.world import MODERN, Agent, Ear, staged
from tests.conftest import Home
from tests.control.world import Refused, tiny, write_config, write_server

AGENTS = """
[agents.nothing]
allowed_tools = []
[agents.elsewhere]
allowed_tools = ["tiny__*"]
[agents.unwrapped]
allowed_tools = ["books__*"]
denied_tools = ["books__list_*", "books__read_resource", "books__get_prompt", "books__echo"]
[agents.kept_low]
max_risk = "low"
"""
NAMES = ("nothing", "elsewhere", "unwrapped", "kept_low")
#: Those that may use nothing at all of the server.
STRANGERS = ("nothing", "elsewhere")

NOTE = "mcpd://books/note:///1"
PROMPT = {"type": "ref/prompt", "name": "books__greet"}
TEMPLATE = {"type": "ref/resource", "uri": "mcpd://books/note:///{id}"}
ARGUMENT = {"name": "id", "value": "1"}
FILTER = {"toolsListChanged": True, "resourcesListChanged": True, "resourceSubscriptions": [NOTE]}

#: Method -> what an agent asks by it for what it lacks.
ASKED: dict[str, tuple[dict[str, Any], ...]] = {
    "tools/call": (
        {"name": "books__echo", "arguments": {}},
        {"name": "books__read_resource", "arguments": {"uri": "note:///1"}},
        {"name": "books__list_resources", "arguments": {}},
        {"name": "books__get_prompt", "arguments": {"name": "greet"}},
        {"name": "mcp_books_echo", "arguments": {}},
        {"name": "echo", "arguments": {}},
    ),
    "resources/read": ({"uri": NOTE}, {"uri": "note:///1"}, {"uri": "mcpd://books/blob:///b"}),
    "resources/subscribe": ({"uri": NOTE},),
    "resources/unsubscribe": ({"uri": NOTE},),
    "prompts/get": ({"name": "books__greet"}, {"name": "greet"}),
    "completion/complete": (
        {"ref": PROMPT, "argument": ARGUMENT},
        {"ref": TEMPLATE, "argument": ARGUMENT},
        {"ref": {**TEMPLATE, "uri": NOTE}, "argument": ARGUMENT},
    ),
    "tasks/get": ({"taskId": "t1"},),
    "tasks/result": ({"taskId": "t1"},),
    "tasks/cancel": ({"taskId": "t1"},),
    "tasks/update": ({"taskId": "t1", "inputResponses": {}},),
}
#: Methods that are answered, of what the agent may use alone.
ANSWERED: dict[str, dict[str, Any]] = {
    "tools/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "prompts/list": {},
    "tasks/list": {},
    "logging/setLevel": {"level": "debug"},
    "ping": {},
    "server/discover": {},
}
NO_VALUES = {"completion": {"values": [], "total": 0, "hasMore": False}}
#: Those that open something, and the one that stays open.
OPENING = {"initialize", "subscriptions/listen"}


def test_every_method_is_tried() -> None:
    assert {*ASKED, *ANSWERED, *OPENING} == METHODS.keys()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize("era", ["--handshake", "--modern"])
async def test_nothing_reaches_the_server_around_the_path(
    home: Home, real_clock: None, era: str, revision: str, name: str
) -> None:
    write_config(home, AGENTS)
    async with Ear(home.root / "ear") as ear:
        write_server(home, "books", **ear.library(era))
        write_server(home, "tiny", **tiny())
        async with staged(home) as stage:
            trusted = await stage.attach()
            await trusted.ask("resources/list")
            await trusted.ask("prompts/list")
            await trusted.call("books__text", size=1)
            await ear.hear("heard", name="text")
            ear.kept.clear()
            agent = await stage.attach(name, revision)
            for method in METHODS.keys() - OPENING:
                # The level of logs is told to every server that the agent may use; no tool stands for it.
                if served(method, agent) and (method != "logging/setLevel" or name in STRANGERS):
                    await tried(agent, method, name)
            if agent.modern:
                await agent.send("subscriptions/listen", {"notifications": FILTER}, "listening")
                granted = await agent.notice("notifications/subscriptions/acknowledged")
                assert NOTE not in granted["notifications"].get("resourceSubscriptions", [])
            await trusted.call("books__text", size=2)
            heard = await ear.hear("heard")
            assert (heard["method"], heard["name"]) == ("tools/call", "text"), "and nothing before it"


def served(method: str, agent: Agent) -> bool:
    row = METHODS[method]
    return row.stateless if agent.modern else row.handshake


async def tried(agent: Agent, method: str, name: str) -> None:
    """Ask for all of it; whatever is answered names nothing of the server."""
    for params in ASKED.get(method, ()):
        try:
            result = await agent.ask(method, params, odd=True)
        except Refused:
            continue
        denied = result.get("_meta", {}).get("dev.mcpd/kind")
        # There was nothing to end, and nothing that completes.
        nothing = result == {} if method == "resources/unsubscribe" else NO_VALUES.items() <= result.items()
        assert denied in ("denied", "unavailable") or nothing, (method, params, result)
    if method in ANSWERED:
        told = str(await agent.ask(method, ANSWERED[method]))
        assert "books" not in told or name not in STRANGERS, (method, told)
