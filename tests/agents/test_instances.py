"""Sessions and instances: who shares a process of a server, and who does not (n04, n15)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mcpd import listing
from mcpd.processes import MARKER
from mcpd.protocol.abilities import NONE, Ability
from mcpd.upstream.instance import MAIN, Scope
from tests.agents.world import MODERN, Agent, Ear, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import tiny, write_config, write_server

HERE = os.getcwd()
ABOVE = str(Path(HERE).parent)


async def process(agent: Agent, server: str = "tiny") -> str:
    """What tells the process that serves an agent from every other."""
    return text_of(await agent.call(f"{server}__env", name=MARKER))


def two_agents(home: Home) -> None:
    write_config(home, "[agents.a]\n[agents.b]\n")


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_two_agents_have_two_processes_and_two_sessions_of_one_share_theirs(
    home: Home, real_clock: None, revision: str
) -> None:
    two_agents(home)
    write_server(home, "tiny", **tiny(instance="agent"))
    async with staged(home) as stage:
        a, again, b = [await stage.attach(name, revision) for name in ("a", "a", "b")]
        assert await process(a) == await process(again) != await process(b)
        # The operator has one as well: what it tries out must not disturb anybody.
        operator = await stage.operator()
        called = await operator.call(
            "tools.call", server="tiny", tool="env", arguments={"name": MARKER}, timeout=20
        )
        assert called["result"]["content"][0]["text"] not in (await process(a), await process(b))
        [info] = (await operator.call("servers.list"))["servers"]
        assert info["instance"] == "agent"
        assert info["status"]["state"] == "connected"
        found = [(each["kind"], each["of"], each["status"]["state"]) for each in info["instances"]]
        assert found == [
            ("operator", "", "connected"),
            ("agent", "a", "connected"),
            ("agent", "b", "connected"),
        ]
        assert len({each["status"]["pid"] for each in info["instances"]}) == 3


async def test_two_roots_have_two_processes(home: Home, real_clock: None) -> None:
    two_agents(home)
    write_server(home, "tiny", **tiny(instance="project"))
    write_server(home, "all", **tiny())
    async with staged(home) as stage:
        here = await stage.attach("a", root=HERE)
        other = await stage.attach("b", root=HERE)
        above = await stage.attach("a", root=ABOVE)
        nowhere = [await stage.attach("a"), await stage.attach("b")]
        assert await process(here) == await process(other)
        assert len({await process(each) for each in (here, above, nowhere[0])}) == 3
        assert await process(nowhere[0]) == await process(nowhere[1])
        assert len({await process(each, "all") for each in (here, other, above, *nowhere)}) == 1
        names = [str(each.scope) for each in stage.broker.fleet.instances("tiny")]
        assert names == [f"project {HERE}", f"project {ABOVE}", "project (none)"]


async def test_a_list_is_that_of_the_agents_own_instance(home: Home, real_clock: None) -> None:
    two_agents(home)
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(instance="agent"))
        async with staged(home) as stage:
            a, b = await stage.attach("a"), await stage.attach("b")
            assert await a.tools() == await b.tools()
            assert len(stage.broker.fleet.instances("lively")) == 2
            assert not any(each.status.pid for each in stage.broker.fleet.instances("lively"))
            for agent in (a, b):
                await agent.call("lively__echo", text="x")
            await a.call("lively__grow", name="own")
            await a.notice("notifications/tools/list_changed")
            assert text_of(await a.call("lively__own")) == "done"
            assert "lively__own" in await a.tools()
            assert "lively__own" not in await b.tools()
            await b.nothing_more()


async def test_the_end_of_one_process_is_not_the_others(home: Home, real_clock: None) -> None:
    two_agents(home)
    write_server(home, "tiny", **tiny(instance="agent"))
    async with staged(home) as stage:
        a, b = await stage.attach("a"), await stage.attach("b")
        before = await process(b)
        await b.begin("tiny__sleep", "nap", seconds=1)
        assert kind_of(await a.call("tiny__crash")) == "outcome_unknown"
        assert "result" in await b.answer("nap")
        assert await process(b) == before


async def test_an_instance_ends_some_time_after_its_agent(home: Home, real_clock: None) -> None:
    two_agents(home)
    write_server(home, "tiny", **tiny(instance="agent", idle_timeout="200ms"))
    async with staged(home) as stage:
        a, b = await stage.attach("a"), await stage.attach("b")
        await process(a)
        staying = await process(b)
        await a.stream.aclose()
        fleet = stage.broker.fleet
        await stage.until("instances", lambda: len(fleet.instances("tiny")) == 1)
        assert await process(b) == staying, "idle time does not count while a user is attached (n15)"
        again = await stage.attach("a")
        assert len(await again.tools()) == 7
        assert fleet.at(fleet.find("tiny"), "a", "").status.state == "idle"
        await process(again)


async def test_what_is_known_to_keep_a_state_is_per_agent(home: Home, real_clock: None) -> None:
    """By its command line, unless the definition says otherwise."""
    folder = home.root / "node_modules" / "@playwright" / "mcp"
    folder.mkdir(parents=True)
    program = folder / "cli.py"
    definition: dict[str, Any] = tiny()
    program.write_text(Path(definition["args"][1]).read_text())
    definition["args"] = ["-I", str(program)]
    write_server(home, "browser", **definition)
    write_server(home, "one", **definition, instance="shared")
    two_agents(home)
    async with staged(home) as stage:
        a, b = await stage.attach("a"), await stage.attach("b")
        assert await process(a, "browser") != await process(b, "browser")
        assert await process(a, "one") == await process(b, "one")
        operator = await stage.operator()
        shown = await operator.call("servers.get", server="browser")
        assert (shown["instance"], shown["keeps"]) == ("agent", "browser")
        shown = await operator.call("servers.get", server="one")
        assert (shown["instance"], shown["keeps"], shown["instances"]) == ("shared", "", [])


async def test_the_operator_reconnects_and_reads_all_of_them(home: Home, real_clock: None) -> None:
    two_agents(home)
    write_server(home, "tiny", **tiny(instance="agent"))
    async with staged(home) as stage:
        a, b = await stage.attach("a"), await stage.attach("b")
        await b.tools()
        before = await process(a)
        fleet = stage.broker.fleet
        fleet.at(fleet.find("tiny"), "a", "").ring.add("words of a's")
        operator = await stage.operator()
        logs = await operator.call("servers.logs", server="tiny")
        assert [(line["text"], line["instance"]) for line in logs["lines"]] == [
            ("tiny server starts", ""),
            ("tiny server starts", "agent a"),
            ("words of a's", "agent a"),
        ]
        await operator.call("servers.reconnect", server="tiny")
        assert await process(a) != before
        assert (await operator.call("servers.test", server="tiny"))["ok"]
        states = {str(each.scope): each.status.state for each in fleet.instances("tiny")}
        assert states == {"agent a": "connected", "agent b": "idle"}, "what rests goes on resting"


async def test_agents_that_look_on_behalf_of_the_operator_start_nothing(home: Home, real_clock: None) -> None:
    two_agents(home)
    write_server(home, "tiny", **tiny(instance="agent"))
    async with staged(home) as stage:
        operator = await stage.operator()
        listed = await operator.call("tools.list", agent="a")
        assert len(listed["tools"]) == 7
        assert [each.status.state for each in stage.broker.fleet.instances("tiny")] == ["idle"]
        a = await stage.attach("a")
        await process(a)
        assert len(stage.broker.fleet.instances("tiny")) == 1


async def test_an_instance_is_told_what_its_own_agents_can_be_asked(home: Home, real_clock: None) -> None:
    two_agents(home)
    write_server(home, "tiny", **tiny(instance="agent"))
    write_server(home, "all", **tiny())
    async with staged(home) as stage:
        await stage.attach("a")
        await stage.attach("b")
        stage.session.abilities = Ability.FORM
        said = [
            listing.available(stage.broker, "tiny", scope)
            for scope in (Scope("agent", "a"), Scope("agent", "b"), MAIN)
        ]
        assert said == [Ability.FORM, NONE, NONE]
        assert listing.available(stage.broker, "all", MAIN) == Ability.FORM
