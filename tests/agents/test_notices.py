"""What an agent hears unasked: changed lists, changed resources, logs; its own and nobody else's (n03)."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcpd.protocol.shapes import LEVELS
from tests.agents.test_natives import ERAS, library
from tests.agents.world import META, MODERN, Agent, check
from tests.conftest import Home
from tests.control.world import write_config, write_server

AGENTS = ("2025-11-25", MODERN)

UPDATED = "notifications/resources/updated"
MESSAGE = "notifications/message"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"

LISTS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "templates": "resources/templates/list",
}


async def silent(agent: Agent) -> None:
    """Nothing has come that was not asked for."""
    await agent.ask("tools/list")
    assert agent.kept == []


async def listens(agent: Agent, ident: Any, **wanted: Any) -> dict[str, Any]:
    """Open a stream; what was acknowledged."""
    await agent.send("subscriptions/listen", {"notifications": wanted}, ident)
    params = await agent.notice(ACKNOWLEDGED)
    whole = {"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params}
    check(MODERN, "SubscriptionsAcknowledgedNotification", whole)
    assert params["_meta"] == {META + "subscriptionId": ident}
    acknowledged = params["notifications"]
    assert isinstance(acknowledged, dict)
    return acknowledged


async def watches(agent: Agent, *uris: str) -> None:
    """Ask for news of resources in the way of the agent's revision."""
    if agent.modern:
        assert await listens(agent, f"of {uris[0]}", resourceSubscriptions=list(uris)) == {
            "resourceSubscriptions": list(uris)
        }
    else:
        for uri in uris:
            await agent.ask("resources/subscribe", {"uri": uri})


# ------------------------------------------------------------------- changed lists


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("revision", AGENTS)
async def test_each_kind_of_list_has_its_own_notice(
    home: Home, real_clock: None, revision: str, era: str
) -> None:
    async with library(home, era) as (stage, _):
        agent, author = await stage.attach(revision=revision), await stage.attach()
        for method in LISTS.values():
            await agent.ask(method)
        if agent.modern:
            await listens(agent, 1, toolsListChanged=True, promptsListChanged=True, resourcesListChanged=True)
        for tool, arguments, kind in (
            ("teach", {"name": "fresh"}, "prompts"),
            ("shelve", {"uri": "note:///9"}, "resources"),
            ("grow", {"name": "fresh"}, "tools"),
        ):
            await author.call(f"books__{tool}", **arguments)
            params = await agent.notice(f"notifications/{kind}/list_changed")
            assert params == ({"_meta": {META + "subscriptionId": 1}} if agent.modern else {})
            assert agent.kept == [], "nothing about the others"
        await silent(agent)
        await silent(author)


async def test_a_stream_tells_of_what_it_was_asked_for_alone(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach(revision=MODERN)
        await agent.ask("prompts/list")
        await listens(agent, "p", promptsListChanged=True)
        await listens(agent, "r", resourcesListChanged=True)
        await agent.call("books__shelve", uri="note:///9")
        params = await agent.notice("notifications/resources/list_changed")
        assert params["_meta"] == {META + "subscriptionId": "r"}
        await agent.call("books__grow", name="fresh")
        await agent.call("books__teach", name="fresh")
        params = await agent.notice("notifications/prompts/list_changed")
        assert params["_meta"] == {META + "subscriptionId": "p"}
        await silent(agent)


async def test_a_change_that_an_agent_cannot_see_is_not_told(home: Home, real_clock: None) -> None:
    write_config(home, '[agents.caller]\nallowed_tools = ["books__echo", "tiny__*"]\n')
    async with library(home) as (stage, _):
        author, caller = await stage.attach(), await stage.attach("caller")
        other = await stage.attach(server="tiny")
        for method in LISTS.values():
            await caller.ask(method)
        await other.ask("tools/list")
        await author.ask("resources/list")
        await author.call("books__shelve", uri="note:///9")
        await author.notice("notifications/resources/list_changed")
        for agent in (caller, other):
            await silent(agent)


# --------------------------------------------------------------- changed resources


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("revision", AGENTS)
async def test_who_watches_a_resource_hears_of_it_and_nobody_else(
    home: Home, real_clock: None, revision: str, era: str
) -> None:
    async with library(home, era) as (stage, _):
        agent, other = await stage.attach(revision=revision), await stage.attach(revision=revision)
        stranger = await stage.attach()
        await watches(agent, "mcpd://books/note:///1", "mcpd://books/note:///2")
        await watches(other, "mcpd://books/note:///2")
        await stranger.call("books__touch", uri="note:///1")
        params = await agent.notice(UPDATED)
        assert params["uri"] == "mcpd://books/note:///1"
        whole = {"jsonrpc": "2.0", "method": UPDATED, "params": params}
        check(revision, "ResourceUpdatedNotification", whole)
        await stranger.call("books__touch", uri="note:///2")
        assert (await agent.notice(UPDATED))["uri"] == "mcpd://books/note:///2"
        params = await other.notice(UPDATED)
        assert params["uri"] == "mcpd://books/note:///2"
        if other.modern:
            assert params["_meta"] == {META + "subscriptionId": "of mcpd://books/note:///2"}
        await stranger.call("books__touch", uri="note:///3")
        for each in (agent, other, stranger):
            await silent(each)


async def test_a_server_is_asked_to_tell_and_to_stop(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, ear):
        agent, other = await stage.attach(), await stage.attach()
        await agent.ask("resources/subscribe", {"uri": "mcpd://books/note:///1"})
        await ear.hear("heard", method="resources/subscribe")
        await other.ask("resources/subscribe", {"uri": "mcpd://books/note:///1"})
        await agent.ask("resources/unsubscribe", {"uri": "mcpd://books/note:///1"})
        await agent.call("books__touch", uri="note:///1")
        assert (await other.notice(UPDATED))["uri"] == "mcpd://books/note:///1"
        await silent(agent)
        assert not [row for row in ear.kept if row.get("method") == "resources/unsubscribe"]
        await other.stream.aclose()
        heard = await ear.hear("heard", method="resources/unsubscribe")
        assert heard["params"]["uri"] == "note:///1"


async def test_what_is_below_a_watched_resource_is_told_as_well(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach(server="books")
        await agent.ask("resources/subscribe", {"uri": "note:///1"})
        await agent.call("touch", uri="note:///1/page/2")
        assert (await agent.notice(UPDATED)) == {"uri": "note:///1/page/2"}
        await agent.call("touch", uri="note:///10")
        await silent(agent)


async def test_a_subscription_that_is_refused_is_none(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, ear):
        agent = await stage.attach()
        refused = await agent.refusal("resources/subscribe", {"uri": "mcpd://books/note:///locked"})
        assert refused.message == "that one is locked"
        assert stage.broker.fleet.find("books").wishes._watched == {}
        modern = await stage.attach(revision=MODERN)
        uris = ["mcpd://books/note:///locked", "mcpd://books/note:///1", "mcpd://nobody/x:y", "note:///1"]
        acknowledged = await listens(modern, 1, resourceSubscriptions=uris, toolsListChanged=True)
        assert acknowledged == {"toolsListChanged": True, "resourceSubscriptions": uris[1:2]}
        await modern.send("notifications/cancelled", {"requestId": 1})
        await ear.hear("heard", method="resources/unsubscribe")
        assert stage.broker.fleet.find("books").wishes._watched == {}


async def test_a_server_that_was_restarted_tells_on(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, ear):
        agent = await stage.attach()
        await agent.ask("resources/subscribe", {"uri": "mcpd://books/note:///1"})
        await ear.hear("heard", method="resources/subscribe")
        await agent.call("books__bye")
        await ear.hear("heard", method="resources/subscribe")
        assert (await agent.notice(UPDATED))["uri"] == "mcpd://books/note:///1", (
            "it may have changed meanwhile"
        )
        await agent.call("books__touch", uri="note:///1")
        assert (await agent.notice(UPDATED))["uri"] == "mcpd://books/note:///1"


@pytest.mark.parametrize(
    "config",
    [
        '[agents.default]\ndenied_tools = ["books__read_resource"]\n',
        '[tool_policies]\n"books__read_resource" = { approval = "deny" }\n',
        '[agents.default]\nmax_risk = "low"\n[tool_policies]\n"books__touch" = { risk = "low" }\n',
    ],
)
async def test_what_may_no_longer_be_read_is_no_longer_told(
    home: Home, real_clock: None, config: str
) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach()
        await agent.ask("resources/subscribe", {"uri": "mcpd://books/note:///1"})
        write_config(home, config)
        operator = await stage.operator()
        await operator.call("daemon.reload")
        await agent.call("books__touch", uri="note:///1")
        await silent(agent)


async def test_a_storm_of_changes_is_told_twenty_times_a_second(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach()
        await agent.ask("resources/subscribe", {"uri": "mcpd://books/note:///1"})
        began = trio.current_time()
        await agent.call("books__touch", uri="note:///1", times=5000)
        await agent.call("books__nap", seconds=0.2)
        took = trio.current_time() - began
        updates = [message for message in agent.kept if message.get("method") == UPDATED]
        assert 2 <= len(updates) <= took / 0.05 + 2


# ------------------------------------------------------------------------------ logs


async def logged(agent: Agent, **arguments: Any) -> list[str]:
    """The levels of what an agent hears of while its own call says something of every level."""
    params: dict[str, Any] = {"name": "books__say", "arguments": arguments}
    level = arguments.pop("wanted", None)
    if level is not None:
        params["_meta"] = {META + "logLevel": level}
    await agent.ask("tools/call", params)
    messages, agent.kept = agent.kept, []
    for message in messages:
        assert message["method"] == MESSAGE
        check(agent.revision, "LoggingMessageNotification", message)
    return [message["params"]["level"] for message in messages]


@pytest.mark.parametrize("era", ERAS)
async def test_each_session_hears_its_own_level(home: Home, real_clock: None, era: str) -> None:
    async with library(home, era) as (stage, _):
        loud, quiet, usual = await stage.attach(), await stage.attach(), await stage.attach()
        await loud.ask("logging/setLevel", {"level": "debug"})
        await quiet.ask("logging/setLevel", {"level": "critical"})
        for _ in range(2):
            assert await logged(loud) == list(LEVELS)
            assert await logged(quiet) == ["critical", "alert", "emergency"]
            assert await logged(usual) == list(LEVELS[1:]), "info, until it says something else"
        for level in ("", "loud", "INFO", 1, None):
            assert (await usual.refusal("logging/setLevel", {"level": level})).code == -32602


@pytest.mark.parametrize("era", ERAS)
async def test_a_stateless_agent_hears_of_requests_that_carry_a_level(
    home: Home, real_clock: None, era: str
) -> None:
    async with library(home, era) as (stage, _):
        agent = await stage.attach(revision=MODERN)
        assert await logged(agent) == []
        assert await logged(agent, wanted="error") == ["error", "critical", "alert", "emergency"]
        assert await logged(agent, wanted="debug") == list(LEVELS)
        assert await logged(agent) == []
        params = {"name": "books__say", "_meta": {META + "logLevel": "loud"}}
        assert (await agent.refusal("tools/call", params)).code == -32602


async def test_one_agents_wish_for_less_takes_nothing_from_others(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, ear):
        quiet, usual, modern = await stage.attach(), await stage.attach(), await stage.attach(revision=MODERN)
        await usual.tools()
        await quiet.ask("logging/setLevel", {"level": "emergency"})
        assert await logged(quiet) == ["emergency"]
        assert await logged(usual) == list(LEVELS[1:])
        assert await logged(modern, wanted="debug") == list(LEVELS)
        assert await logged(usual) == list(LEVELS[1:])
        told = [await ear.hear("heard", method="logging/setLevel") for _ in range(2)]
        assert [row["params"]["level"] for row in told] == ["info", "debug"]


async def test_a_log_message_says_which_server_it_is_of(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, _):
        for attach, logger in (({}, "books/shelf"), ({"server": "books"}, "shelf")):
            agent = await stage.attach(**attach)
            await agent.call("say" if attach else "books__say", levels=["error"], text="x\u202e")
            assert agent.kept == [
                {
                    "jsonrpc": "2.0",
                    "method": MESSAGE,
                    "params": {
                        "level": "error",
                        "logger": logger,
                        "data": {"text": "x[hidden bidirectional: U+202E]"},
                    },
                }
            ]


async def test_what_cannot_be_told_apart_goes_to_nobody(home: Home, real_clock: None) -> None:
    """A pipe says nothing about whose request a message belongs to; it is not broadcast (n03)."""
    async with library(home) as (stage, ear):
        one, two = await stage.attach(), await stage.attach()
        await one.begin("books__nap", 1, seconds=30)
        await ear.hear("heard", name="nap")
        assert await logged(two) == [], "one or two"
        assert await logged(one) == list(LEVELS[1:]), "nobody else has requests there"
        await one.send("notifications/cancelled", {"requestId": 1})
        await ear.hear("cancelled")
        assert await logged(two) == list(LEVELS[1:])
        lines = [text for _, text in stage.broker.fleet.find("books").ring.last(100)]
        assert sum('"level": "emergency"' in line for line in lines) == 3, "all is in the server's own log"


async def test_a_flood_of_logs_is_cut_and_that_is_said(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, _):
        agent = await stage.attach()
        await agent.call("books__say", levels=["error"] * 1000)
        await trio.sleep(0.1)
        await agent.call("books__say", levels=["error"])
        told = [message["params"] for message in agent.kept]
        passed = [params for params in told if params["level"] == "error"]
        notes = [params["data"] for params in told if params["logger"] == "mcpd"]
        assert 200 <= len(passed) <= 300
        left_out = [int(note.removesuffix(" log messages are left out")) for note in notes]
        assert len(passed) + sum(left_out) == 1001, "each is passed on or counted"


async def test_an_agent_that_is_gone_from_the_configuration_disturbs_nobody(
    home: Home, real_clock: None
) -> None:
    config = write_config(home, "[agents.guest]\n")
    async with library(home) as (stage, _):
        guest, other = await stage.attach("guest"), await stage.attach()
        await guest.ask("logging/setLevel", {"level": "debug"})
        await guest.ask("resources/subscribe", {"uri": "mcpd://books/note:///1"})
        for method in LISTS.values():
            await guest.ask(method)
            await other.ask(method)
        config.write_text("")
        await (await stage.operator()).call("daemon.reload")
        await other.call("books__touch", uri="note:///1")
        await other.call("books__teach", name="fresh")
        await other.notice("notifications/prompts/list_changed")
        assert (await guest.refusal("prompts/list")).kind == "no_such_agent"
        assert guest.kept == []


async def test_a_level_reaches_a_server_that_comes_later(home: Home, real_clock: None) -> None:
    async with library(home) as (stage, ear):
        agent = await stage.attach()
        await agent.ask("logging/setLevel", {"level": "warning"})
        assert await logged(agent) == list(LEVELS[3:]), "mcpd keeps to it where the server need not"
        heard = await ear.hear("heard", method="logging/setLevel")
        assert heard["params"]["level"] == "info"
        write_server(home, "later", **ear.library())
        await (await stage.operator()).call("daemon.reload")
        await stage.until("status", lambda: stage.broker.fleet.find("later").connection is not None)
        heard = await ear.hear("heard", method="logging/setLevel")
        assert heard["params"]["level"] == "info"
