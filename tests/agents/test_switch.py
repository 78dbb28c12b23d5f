"""A session that does not want a server: a preference of its own, beside what its agent may use (c23)."""

from __future__ import annotations

import pytest

from mcpd.agents.session import Session
from tests.agents.world import MODERN, Stage, staged
from tests.conftest import Home
from tests.control.world import tiny, write_config, write_server

CHANGED = "notifications/tools/list_changed"


def latest(stage: Stage) -> Session:
    session = list(stage.broker.sessions.values())[-1]
    assert isinstance(session, Session)
    return session


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_a_server_that_is_switched_off_is_gone_for_that_session_alone(
    home: Home, real_clock: None, revision: str
) -> None:
    for name in ("a", "b"):
        write_server(home, name, **tiny())
    async with staged(home) as stage:
        other = await stage.attach()
        everything = await other.tools()
        agent = await stage.attach(revision=revision)
        assert await agent.tools() == everything
        session = latest(stage)

        session.switch("a", False)
        if not agent.modern:
            assert await agent.notice(CHANGED) == {}
        assert await agent.tools() == [name for name in everything if name.startswith("b__")]
        params = {"name": "a__echo", "arguments": {"text": "x"}}
        assert (await agent.refusal("tools/call", params)).kind == "no_such_tool"
        await other.nothing_more()
        assert not (await other.call("a__echo", text="x")).get("isError")

        session.switch("a", True)
        if not agent.modern:
            assert await agent.notice(CHANGED) == {}
        assert await agent.tools() == everything
        assert not (await agent.call("a__echo", text="x")).get("isError")
        await other.nothing_more()


async def test_a_switch_brings_back_only_what_it_took_away(home: Home, real_clock: None) -> None:
    for name in ("a", "b", "denied"):
        write_server(home, name, **tiny())
    write_config(home, "[agents.c]\ndenied_tools = ['denied__*']\n")
    async with staged(home) as stage:
        agent = await stage.attach("c", without=["a"])
        before = await agent.tools()
        assert {name.partition("__")[0] for name in before} == {"b"}
        for name in ("a", "b", "denied"):
            stage.session.switch(name, True)
        assert await agent.tools() == before
        stage.session.switch("b", False)
        assert await agent.tools() == []
        assert stage.session.off == {"b"}
        stage.session.switch("b", True)
        assert await agent.tools() == before


async def test_what_was_switched_off_before_the_attach_line_stays_off(home: Home, real_clock: None) -> None:
    for name in ("a", "b", "c"):
        write_server(home, name, **tiny())
    async with staged(home) as stage:
        agent = stage.connect()
        await stage.until("sessions", lambda: stage.broker.sessions)
        stage.session.switch("a", False)
        await agent.send("notifications/dev.mcpd/attach", {"without": ["b"]})
        await agent.initialize()
        assert {name.partition("__")[0] for name in await agent.tools()} == {"c"}
