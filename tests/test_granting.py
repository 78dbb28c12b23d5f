"""Grants end to end: given by the operator, found by calls, ended (DESIGN 8.4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from mcpd.consent.questions import By
from tests.agents.world import Agent, Ear, Stage, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import library, write_config, write_server

ME = By(pid=1, exe="/usr/bin/mcpctl")
#: Whoever calls has no time for a person.
HURRY = "[defaults]\napproval_wait = '50ms'\n"


@asynccontextmanager
async def asking(home: Home, config: str = HURRY, **policy: str) -> AsyncIterator[tuple[Stage, Any]]:
    """A stage with a server whose tools ask, and the operator."""
    write_config(home, config)
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(default_policy=policy))
        async with staged(home) as stage:
            yield stage, await stage.operator()


async def give(operator: Any, lifespan: str = "forever", /, **fields: Any) -> Any:
    usual = {"agent": "default", "name": "lively__echo", "lifespan": lifespan}
    return await operator.call("grants.add", **{**usual, **fields})


async def outcome(agent: Agent, tool: str = "lively__echo", **arguments: Any) -> str:
    result = await agent.call(tool, **arguments)
    return kind_of(result) if result.get("isError") else text_of(result)


async def open_questions(stage: Stage, count: int) -> None:
    with trio.fail_after(10):
        while len(stage.broker.approvals.open()) != count:
            await stage.until("approvals", lambda: len(stage.broker.approvals.open()) == count)


async def test_a_new_grant_answers_the_calls_that_wait(home: Home, real_clock: None) -> None:
    async with asking(home, "") as (stage, operator):
        agent, other = await stage.attach(), await stage.attach()
        await agent.begin("lively__echo", 1, text="a")
        await other.begin("lively__echo", 2, text="b")
        await open_questions(stage, 2)
        where = [{"argument": "text", "test": "prefix", "value": "a"}]
        given = await give(operator, where=where)
        assert given["answered"] == 1
        assert text_of((await agent.answer(1))["result"]) == "a"
        assert len(stage.broker.approvals.open()) == 1, "the other one is not covered"
        assert (await give(operator))["answered"] == 1
        assert text_of((await other.answer(2))["result"]) == "b"
        entries = {entry.grant for entry in await stage.journal(kind="request", outcome="ok")}
        assert given["grant"]["id"] in entries
        assert "" not in entries


async def test_a_question_that_was_left_open_is_answered_too(home: Home, real_clock: None) -> None:
    async with asking(home) as (stage, operator):
        agent = await stage.attach()
        assert await outcome(agent, text="a") == "pending"
        assert (await give(operator))["answered"] == 1
        assert stage.broker.approvals.open() == ()
        for text in ("a", "a", "b"):
            assert await outcome(agent, text=text) == text


async def test_what_is_asked_each_time_is_answered_by_no_grant_d10(home: Home, real_clock: None) -> None:
    async with asking(home, approval="always") as (stage, operator):
        agent = await stage.attach()
        assert await outcome(agent, text="a") == "pending"
        given = await give(operator)
        assert (given["answered"], given["covered"]) == (0, 0)
        assert await outcome(agent, text="a") == "pending"


@pytest.mark.parametrize(
    ("risk", "name", "runs"),
    [
        ("high", "lively__echo", True),
        ("high", "lively__e*", False),
        ("high", "lively__*", False),
        ("medium", "lively__e*", True),
        ("medium", "lively__n*", False),
    ],
)
async def test_a_high_call_needs_a_grant_that_names_the_tool_d10(
    home: Home, real_clock: None, risk: str, name: str, runs: bool
) -> None:
    async with asking(home, risk=risk) as (stage, operator):
        await give(operator, name=name)
        assert await outcome(await stage.attach(), text="a") == ("a" if runs else "pending")


async def test_lifespans(home: Home, real_clock: None) -> None:
    async with asking(home) as (stage, operator):
        agent, other = await stage.attach(), await stage.attach()
        await give(operator, "count", count=2)
        assert [await outcome(agent, text=text) for text in "abc"] == ["a", "b", "pending"]
        assert await operator.call("grants.list") == {"grants": []}
        await give(operator, "once")
        assert [await outcome(agent, text=text) for text in "dd"] == ["d", "pending"]
        session = stage.session.id
        await give(operator, "session", session=session)
        assert await outcome(agent, text="e") == "e"
        assert await outcome(other, text="f") == "pending"
        agent.stream.socket.close()
        await stage.until("grants", lambda: not stage.broker.grants.all())
        assert await operator.call("grants.list") == {"grants": []}
        await give(operator, "until", seconds=3600)
        assert await outcome(other, text="g") == "g"


async def test_a_count_is_not_spent_by_what_was_not_covered(home: Home, real_clock: None) -> None:
    async with asking(home) as (stage, operator):
        agent = await stage.attach()
        where = [{"argument": "text", "test": "equals", "value": '"a"'}]
        await give(operator, "count", count=1, where=where)
        assert await outcome(agent, text="b") == "pending"
        assert await outcome(agent, Text="a", text="a") == "pending", "two names that are one to some server"
        assert await outcome(agent, text="a") == "a"


async def test_revoked_is_asked_again(home: Home, real_clock: None) -> None:
    async with asking(home) as (stage, operator):
        agent = await stage.attach()
        key = (await give(operator))["grant"]["id"]
        assert await outcome(agent, text="a") == "a"
        await operator.call("grants.revoke", id=key)
        assert await outcome(agent, text="a") == "pending"


async def test_a_grant_is_one_agents(home: Home, real_clock: None) -> None:
    async with asking(home, HURRY + "[agents.coder]\n[agents.other]\n") as (stage, operator):
        coder, other = await stage.attach("coder"), await stage.attach("other")
        await give(operator, agent="coder")
        assert await outcome(coder, text="a") == "a"
        assert await outcome(other, text="a") == "pending"
        assert (await operator.refusal("tools.call", name="lively__echo", timeout=2)).kind == "pending"
        await give(operator, agent="*")
        assert await outcome(other, text="b") == "b"
        called = await operator.call("tools.call", name="lively__echo", arguments={"text": "c"})
        assert called["result"]["content"][0]["text"] == "c"


async def test_a_grant_lifts_no_denial(home: Home, real_clock: None) -> None:
    limits = "[agents.reader]\nmax_risk = 'medium'\n[tool_policies]\n'lively__nap' = { approval = 'deny' }\n"
    async with asking(home, HURRY + limits) as (stage, operator):
        reader = await stage.attach("reader")
        await give(operator, agent="reader")
        await give(operator, agent="reader", name="lively__nap")
        assert await outcome(reader, text="a") == "denied"
        assert await outcome(reader, "lively__nap") == "denied"


async def test_a_resource_is_granted_as_the_tool_that_reads_it_a01(home: Home, real_clock: None) -> None:
    write_config(home, HURRY)
    write_server(home, "library", **{**library(), "default_policy": {}})
    async with staged(home) as stage:
        agent, operator = await stage.attach(), await stage.operator()
        [first, *_] = (await agent.ask("resources/list"))["resources"]
        refused = await agent.refusal("resources/read", {"uri": first["uri"]})
        assert "approv" in refused.message
        own = first["uri"].removeprefix("mcpd://library/")
        where = [{"argument": "uri", "test": "equals", "value": json.dumps(own)}]
        await give(operator, name="library__read_resource", where=where)
        assert (await agent.ask("resources/read", {"uri": first["uri"]}))["contents"]
        # Both ways to the same thing, under the server's own name for it.
        assert await outcome(agent, "library__read_resource", uri=first["uri"])
        assert await outcome(agent, "library__read_resource", uri=own) != "pending"
        assert await outcome(agent, "library__read_resource", uri=own + "x") == "pending"
        assert (await agent.refusal("tools/call", {"name": "library__read_resource", "arguments": {}})).kind


@pytest.mark.parametrize(("name", "pinned"), [("lively__echo", 1), ("lively__e*", 2)])
async def test_a_grant_pins_what_it_is_for_n09(home: Home, real_clock: None, name: str, pinned: int) -> None:
    async with asking(home) as (stage, operator):
        await give(operator, name=name)
        found = (await operator.call("pins.list", server="lively"))["pins"]
        tools = {each["name"] for each in found if each["state"] == "pinned" and each["kind"] == "tool"}
        assert len(tools) == pinned
        assert "echo" in tools
        entries = await stage.journal(kind="pin", server="lively", outcome="pinned")
        assert tools <= {entry.tool for entry in entries}


async def test_explain_knows_what_a_person_said_and_uses_nothing_up(home: Home, real_clock: None) -> None:
    async with asking(home) as (stage, operator):
        agent = await stage.attach()

        async def explained(text: str) -> Any:
            asked = {"agent": "default", "name": "lively__echo", "arguments": {"text": text}}
            return await operator.call("policy.explain", **asked)

        for text in "ab":
            assert await outcome(agent, text=text) == "pending"
        first, second = stage.broker.approvals.open()
        stage.broker.approvals.approve(first.id, ME)
        stage.broker.approvals.deny(second.id, ME)
        for _ in range(2):
            yes = await explained("a")
            assert (yes["verdict"], first.id in yes["decided"]) == ("allow", True)
        no = await explained("b")
        assert (no["verdict"], no["notes"]) == (
            "ask",
            ["a person has said no to this very call, which is refused for 15 min more"],
        )
        assert await outcome(agent, text="a") == "a"
        assert await outcome(agent, text="b") == "denied"


async def test_another_destination_has_no_grants_n24(home: Home, real_clock: None) -> None:
    async with asking(home) as (stage, operator):
        agent = await stage.attach()
        await give(operator)
        assert await outcome(agent, text="a") == "a"
        assert stage.broker.grants.filed("lively")
        moved = stage.broker.config.servers["lively"].destination
        for given in stage.broker.grants.all():
            assert given.grant.destination == moved
        await operator.call("servers.remove", server="lively")
        assert not stage.broker.grants.filed("lively"), "one of that name is another one"
