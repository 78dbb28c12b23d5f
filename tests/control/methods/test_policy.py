"""`policy.explain` and `policy.replay` (n10)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from msgspec.structs import replace

from mcpd.config.spec import Agent, Config
from mcpd.journal import Entry
from mcpd.journal.store import Keep
from tests.conftest import Home
from tests.control.world import World, running, tiny, write_config, write_server
from tests.journal import flat

CODER = """
schema = 1
allowed_tools = ["tiny__*"]
denied_tools = ["tiny__crash", "tiny__s*"]
"""
AGENTS = """
[agents.reader]
max_risk = "low"
spelling = "mcp_server_tool"
[tool_policies]
"tiny__add" = { risk = "medium" }
"tiny__fail" = { approval = "deny" }
"""


def prepare(home: Home) -> None:
    folder = write_config(home, AGENTS).parent / "agents.d"
    folder.mkdir()
    (folder / "coder.toml").write_text(CODER)
    write_server(home, "tiny", **{**tiny(), "default_policy": {}})


async def explained(world: World, **fields: Any) -> Any:
    client = await world.operator()
    return await client.call("policy.explain", **{"agent": "coder", "name": "tiny__echo", **fields})


async def test_explain_calls_nothing_and_asks_nobody(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        found = await explained(world, arguments={"text": "a"})
        assert (found["verdict"], found["risk"], found["approval"]) == (
            "ask",
            "high",
            "unless_auto_approved",
        )
        assert found["decided"].startswith("asked:")
        assert {"step": "mcpctl grants add tiny__echo --agent coder --for 8h", "verdict": "allow"} in found[
            "changes"
        ]
        assert world.broker.approvals.open() == ()
        world.broker.journal.record(entry(server="", outcome="the only one"))
        assert [each.outcome for each in (await world.broker.journal.query()).entries] == ["the only one"]


@pytest.mark.parametrize(
    ("agent", "tool", "verdict", "decided"),
    [
        ("coder", "tiny__crash", "absent", 'denied_tools "tiny__crash" of the agent (D11)'),
        ("coder", "tiny__fail", "deny", "denied: approval deny"),
        ("reader", "tiny__echo", "deny", "denied: max_risk low of the agent (b33)"),
        ("default", "tiny__add", "ask", "asked: neither a grant nor auto_approve covers it"),
        ("", "tiny__add", "ask", "asked: neither a grant nor auto_approve covers it"),
    ],
)
async def test_each_agent_by_its_own_rules(
    home: Home, real_clock: None, agent: str, tool: str, verdict: str, decided: str
) -> None:
    prepare(home)
    async with running(home) as world:
        found = await explained(world, agent=agent, name=tool)
    assert (found["verdict"], found["decided"]) == (verdict, decided)
    assert found["name"] == ("mcp_tiny_echo" if agent == "reader" else tool)


@pytest.mark.parametrize(
    ("tool", "step"),
    [
        ("tiny__crash", "mcpctl agents allow coder tiny__crash"),
        ("tiny__sleep", 'denied_tools of agent coder without "tiny__s*"'),
    ],
)
async def test_the_way_back_from_a_denial_is_one_that_works(
    home: Home, real_clock: None, tool: str, step: str
) -> None:
    prepare(home)
    async with running(home) as world:
        found = await explained(world, name=tool)
        assert found["changes"] == [{"step": step, "verdict": "ask"}]
        client = await world.operator()
        if step.startswith("mcpctl"):
            await client.call("agents.allow", agent="coder", tools=[tool])
            assert (await explained(world, name=tool))["verdict"] == "ask"


@pytest.mark.parametrize(
    ("tool", "fields"),
    [
        ("tiny__echo", 'allowed_tools with "tiny__echo"'),
        ("tiny__crash", 'denied_tools without "tiny__crash"'),
        ("tiny__fail", 'denied_tools without "tiny__fail" and allowed_tools with "tiny__fail"'),
    ],
)
async def test_an_entry_in_config_toml_is_for_the_user_to_edit(
    home: Home, real_clock: None, tool: str, fields: str
) -> None:
    prepare(home)
    write_config(
        home,
        """[agents.own]
        allowed_tools = ["tiny__c*"]
        denied_tools = ["tiny__crash", "tiny__fail"]
        """,
    )
    async with running(home) as world:
        [change] = (await explained(world, agent="own", name=tool))["changes"]
        client = await world.operator()
        refused = await client.refusal("agents.allow", agent="own", tools=[tool])
        assert refused.kind == "not_writable"
    assert change == {"step": f"[agents.own] of config.toml: {fields}", "verdict": "ask"}


async def test_a_grant_counts_for_its_arguments_and_is_not_used_up(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        where = [{"argument": "text", "test": "prefix", "value": "a"}]
        given = await client.call(
            "grants.add", agent="coder", name="tiny__echo", lifespan="once", where=where
        )
        key = given["grant"]["id"]
        for _ in range(2):
            found = await explained(world, arguments={"text": "abc"})
            assert found["verdict"] == "allow"
            assert key in found["decided"]
            assert {"step": f"mcpctl revoke {key}", "verdict": "ask"} in found["changes"]
        found = await explained(world, arguments={"text": "b"})
        assert found["verdict"] == "ask"
        [note] = found["notes"]
        assert key in note
        assert "its condition does not hold" in note


async def test_arguments_with_a_secret_are_told(home: Home, real_clock: None) -> None:
    prepare(home)
    write_server(home, "other", **tiny(), env={"KEY": "correct-horse-battery-staple"})
    async with running(home) as world:
        found = await explained(world, arguments={"text": "it is correct-horse-battery-staple"})
        assert found["verdict"] == "deny"
        step = "arguments without what looks like a secret"
        assert {"step": step, "verdict": "ask"} in found["changes"]
        assert "correct-horse" not in str(found)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"agent": "nobody"}, "no_such_agent"),
        ({"name": "tiny__none"}, "no_such_tool"),
        ({"name": "other__none"}, "no_such_tool"),
        ({"arguments": [1]}, "invalid_params"),
        ({"arguments": None, "name": ""}, "invalid_params"),
    ],
)
async def test_what_cannot_be_explained(
    home: Home, real_clock: None, fields: dict[str, Any], kind: str
) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        params = {"agent": "coder", "name": "tiny__echo", **fields}
        assert (await client.refusal("policy.explain", **params)).kind == kind


#: An hour ago; what is too old is not kept.
THEN = time.time() // 1 - 3600


def entry(**fields: Any) -> Entry:
    usual: dict[str, Any] = {
        "agent": "coder",
        "server": "tiny",
        "tool": "echo",
        "method": "tools/call",
        "decision": "allow",
        "outcome": "ok",
        "at": THEN,
    }
    return flat.entry(**{**usual, **fields})


async def replayed(world: World, **fields: Any) -> Any:
    client = await world.operator()
    return await client.call("policy.replay", **fields)


async def connected(world: World) -> None:
    await (await world.operator()).call("tools.list", server="tiny")


async def test_replay_tells_what_would_be_decided_otherwise_now(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        await connected(world)
        record = world.broker.journal.record
        for at in (THEN, THEN + 100, THEN + 200):
            record(entry(at=at))  # allowed then; now it would be asked for
        record(entry(tool="add", decision="ask"))  # as now
        record(entry(tool="add", decision="allow", approval="q1"))  # a person said yes: asked for, as now
        record(entry(tool="fail", decision="deny", outcome="denied"))  # as now
        record(entry(tool="crash"))
        record(entry(tool="gone"))
        record(entry(agent="nobody"))
        record(entry(server="other"))
        record(entry(agent="reader", tool="add"))
        record(entry(server="", tool="x", decision="", outcome="no_such_tool"))  # never decided
        record(entry(method="tasks/get"))  # decided with its call
        record(entry(kind="change"))
        found = await replayed(world)
    assert (found["examined"], found["unknown"], found["complete"]) == (11, 0, True)
    differences = {
        (each["agent"], each["server"], each["tool"], each["was"], each["now"]): each
        for each in found["differences"]
    }
    assert set(differences) == {
        ("coder", "tiny", "echo", "allow", "ask"),
        ("coder", "tiny", "crash", "allow", "absent"),
        ("coder", "tiny", "gone", "allow", "absent"),
        ("nobody", "tiny", "echo", "allow", "absent"),
        ("coder", "other", "echo", "allow", "absent"),
        ("reader", "tiny", "add", "allow", "deny"),
    }
    most = found["differences"][0]
    assert (most["count"], most["first_at"], most["last_at"]) == (3, THEN, THEN + 200)
    assert most["entries"] == [3, 2, 1]
    assert most["decided"].startswith("asked:")


async def test_replay_counts_grants_and_narrows_by_time_agent_and_server(
    home: Home, real_clock: None
) -> None:
    prepare(home)
    async with running(home) as world:
        await connected(world)
        client = await world.operator()
        where = [{"argument": "text", "test": "prefix", "value": "a"}]
        given = await client.call(
            "grants.add", agent="coder", name="tiny__echo", lifespan="forever", where=where
        )
        key = given["grant"]["id"]
        record = world.broker.journal.record
        record(entry(grant=key))  # its condition held then
        world.broker.journal.keep = Keep(arguments=True)
        record(entry(decision="ask"), b'{"text":"a"}')
        record(entry(decision="ask"), b'{"text":"b"}')
        found = await replayed(world)
        assert [(each["was"], each["now"]) for each in found["differences"]] == [("ask", "allow")]
        await client.call("grants.revoke", id=key)
        found = await replayed(world)
        assert [(each["was"], each["now"]) for each in found["differences"]] == [("allow", "ask")]
        assert (await replayed(world, since=THEN + 1))["examined"] == 0
        assert (await replayed(world, until=THEN))["examined"] == 0
        assert (await replayed(world, agent="reader"))["examined"] == 0
        assert (await replayed(world, server="other"))["examined"] == 0
        assert (await replayed(world, agent="coder", server="tiny"))["examined"] == 3


async def test_replay_knows_nothing_of_a_server_that_was_never_reached(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        world.broker.journal.record(entry())
        found = await replayed(world)
    assert (found["examined"], found["unknown"], found["differences"]) == (1, 1, [])


async def test_a_stricter_configuration_is_seen_in_what_was_done_before(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        await connected(world)
        client = await world.operator()
        await client.call("grants.add", agent="coder", name="tiny__echo", lifespan="forever")
        world.broker.journal.record(entry(grant="x"))
        assert (await replayed(world))["differences"] == []
        limited(world, Agent(name="coder", max_risk="low"))
        [found] = (await replayed(world))["differences"]
        assert (found["now"], found["decided"]) == ("deny", "denied: max_risk low of the agent (b33)")


def limited(world: World, agent: Agent) -> None:
    config: Config = world.broker.config
    world.broker.config = replace(config, agents={**config.agents, agent.name: agent})
    world.broker.changes.publish("servers")
