"""Ways round policy that were tried: what changes between a decision and the bytes, what outlives whom it was
for, and what goes along with a call that was said yes to (a01, n05, n07, n17)."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

import pytest
import trio

from mcpd.catalog.tasks import read_task
from tests.agents.world import Ear, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import write_config, write_server
from tests.test_permit import AWAY, ME, asked, asking, give, heard

#: Looks like a secret, and is none (layer 2 of n17).
LIKE = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]


@pytest.mark.parametrize("size", [1, 300_000])
async def test_what_is_denied_while_the_decision_is_written_does_not_reach_the_server(
    home: Home, real_clock: None, size: int
) -> None:
    """DESIGN 6: what was decided on is compared immediately before the bytes are sent."""
    async with asking(home, risk="high", approval="never") as (stage, ear):
        agent, operator = await stage.attach(), await stage.operator()
        await agent.tools()
        write_config(home, "[agents.default]\ndenied_tools = ['lively__echo']\n")
        other = sqlite3.connect(home.state / "journal.db", isolation_level=None)
        other.execute("begin immediate")
        await agent.begin("lively__echo", 1, text="x" * size)
        await operator.call("daemon.reload")
        other.execute("rollback")
        other.close()
        answer = await agent.answer(1)
        assert "error" in answer, "it does not exist for the agent any more"
        await agent.ask("ping")
        assert heard(ear) == []


@pytest.mark.parametrize("secret", [LIKE, ""])
async def test_a_yes_does_not_cover_what_nobody_was_shown_n07(
    home: Home, real_clock: None, secret: str
) -> None:
    """`_meta` goes to the server with the call, and no card shows it."""
    async with asking(home, AWAY) as (stage, ear):
        agent = await stage.attach()
        call: dict[str, Any] = {"name": "lively__raw", "arguments": {"text": "hello"}}
        assert kind_of(await agent.ask("tools/call", call)) == "pending"
        stage.broker.approvals.approve(await asked(stage), ME)
        result = await agent.ask("tools/call", {**call, "_meta": {"example.com/more": secret}})
        if secret:
            assert kind_of(result) in ("pending", "denied")
            await agent.nothing_more()
            assert heard(ear) == []
        else:
            assert "example.com/more" in text_of(result)


async def test_what_looks_like_a_secret_in_meta_is_never_let_through_unseen(
    home: Home, real_clock: None
) -> None:
    async with asking(home, AWAY, approval="never") as (stage, ear):
        agent = await stage.attach()
        call = {"name": "lively__echo", "arguments": {}, "_meta": {"example.com/more": LIKE}}
        result = await agent.ask("tools/call", call)
        assert kind_of(result) == "denied"
        assert stage.broker.approvals.open() == (), "nobody could see what it is about"
        await agent.nothing_more()
        assert heard(ear) == []


@pytest.mark.parametrize("answered", [True, False])
async def test_an_agent_that_is_removed_leaves_no_yes_to_the_next_of_its_name(
    home: Home, real_clock: None, answered: bool
) -> None:
    async with asking(home, AWAY) as (stage, ear):
        operator = await stage.operator()
        await operator.call("agents.add", agent="coder")
        agent = await stage.attach("coder")
        assert kind_of(await agent.call("lively__echo", text="hello")) == "pending"
        name = await asked(stage)
        if answered:
            stage.broker.approvals.approve(name, ME)
        await operator.call("agents.remove", agent="coder")
        assert stage.broker.approvals.open() == ()
        assert stage.broker.approvals.unused() == ()
        await operator.call("agents.add", agent="coder")
        assert kind_of(await (await stage.attach("coder")).call("lively__echo", text="hello")) == "pending"
        assert await asked(stage) != name
        assert heard(ear) == []


@pytest.mark.parametrize("answered", [True, False])
async def test_a_server_that_is_removed_leaves_no_yes_to_the_next_of_its_name(
    home: Home, real_clock: None, answered: bool
) -> None:
    async with asking(home, AWAY) as (stage, ear):
        operator = await stage.operator()
        agent = await stage.attach()
        assert kind_of(await agent.call("lively__echo", text="hello")) == "pending"
        name = await asked(stage)
        if answered:
            stage.broker.approvals.approve(name, ME)
        await operator.call("servers.remove", server="lively")
        assert stage.broker.approvals.open() == ()
        assert stage.broker.approvals.unused() == ()
        write_server(home, "lively", **ear.server(default_policy={"risk": "medium"}))
        await operator.call("daemon.reload")
        assert kind_of(await agent.call("lively__echo", text="hello")) == "pending"
        assert await asked(stage) != name
        await agent.nothing_more()
        assert heard(ear) == []


async def test_what_is_only_noticed_in_meta_hides_nothing_in_the_arguments_n17(
    home: Home, real_clock: None
) -> None:
    async with asking(home, AWAY, approval="never") as (stage, ear):
        agent = await stage.attach()
        more = {"example.com/api_key": "hG7kPq2ZxW9vLm4TnB8sYc3RfJ6dQ1aE"}
        call = {"name": "lively__echo", "arguments": {"text": LIKE}, "_meta": more}
        assert kind_of(await agent.ask("tools/call", call)) == "pending"
        await agent.nothing_more()
        assert heard(ear) == []


async def test_an_agent_that_is_removed_leaves_no_tasks_to_the_next_of_its_name_n03(
    home: Home, real_clock: None
) -> None:
    async with asking(home) as (stage, _):
        operator = await stage.operator()
        await operator.call("agents.add", agent="coder")
        await (await stage.attach("coder")).tools()
        upstream, owner = stage.broker.fleet.find("lively"), stage.session.caller.owner
        text = b'{"taskId":"t","status":"working","ttl":60000}'
        task = read_task(text)
        assert task is not None
        names = ("echo", "lively__echo")
        kept = stage.broker.tasks.keep(owner, upstream, names, task, text, lambda: None, stateless=True)
        assert stage.broker.tasks.find(kept.id, owner, stateless=True) is kept
        await operator.call("agents.remove", agent="coder")
        assert stage.broker.tasks.find(kept.id, owner, stateless=True) is None


async def test_of_high_risk_the_last_decision_is_on_record_before_the_call_n12(
    home: Home, real_clock: None
) -> None:
    """Other rules came while the first was written: what lets the call go is what the journal has."""
    async with asking(home, risk="high", approval="never") as (stage, ear):
        agent, operator = await stage.attach(), await stage.operator()
        await agent.tools()
        write_config(home, "[tool_policies]\n'lively__*' = { timeout = '7s' }\n")
        other = sqlite3.connect(home.state / "journal.db", isolation_level=None)
        other.execute("begin immediate")
        await agent.begin("lively__nap", 1)
        await operator.call("daemon.reload")
        other.execute("rollback")
        other.close()
        await ear.hear("heard", method="tools/call")
        [entry, *_] = await stage.journal(kind="decision", tool="nap")
        assert 'tool policy "lively__*"' in entry.because


@pytest.mark.parametrize("pattern", ["lively__echo", "mcp_lively_echo", "mcp_lively_*"])
@pytest.mark.parametrize("shown", [{}, {"server": "lively"}])
async def test_a_policy_counts_however_the_agent_attaches_a26(
    home: Home, real_clock: None, pattern: str, shown: dict[str, str]
) -> None:
    """Who chooses to be shown one server with its own names chooses no other policy by that."""
    config = "[agents.coder]\nspelling = 'mcp_server_tool'\n"
    config += f"[tool_policies]\n'{pattern}' = {{ approval = 'deny' }}\n"
    async with asking(home, config, approval="never") as (stage, ear):
        agent = await stage.attach("coder", **shown)
        name = "echo" if shown else "mcp_lively_echo"
        assert kind_of(await agent.call(name, text="hello")) == "denied"
        await agent.ask("ping")
        assert heard(ear) == []


@pytest.mark.parametrize("end", ["revoked", "over"])
async def test_a_grant_that_ends_while_the_call_waits_for_its_server_lets_nothing_go(
    home: Home, real_clock: None, end: str
) -> None:
    """Servers take their time to start, and some serve one agent at a time."""
    async with asking(home, AWAY) as (stage, ear):
        await (await stage.attach()).tools()
        fields = ear.server(default_policy={"risk": "medium"})
    ear.path.unlink()
    async with Ear(ear.path) as ear:
        write_server(home, "lively", **fields)
        async with staged(home) as stage:
            agent = await stage.attach()
            now = time.time()
            give(stage, "echo", "until", until=now + 3600)
            await agent.begin("lively__echo", 1, text="hello")
            with trio.fail_after(5):
                while not stage.broker.grants.all()[0].used:
                    await trio.lowlevel.checkpoint()
            assert stage.broker.fleet.find("lively").connection is None
            if end == "revoked":
                await (await stage.operator()).call("grants.revoke", id="g1")
            else:
                stage.broker.grants._clock = lambda: now + 3600
            assert kind_of((await agent.answer(1))["result"]) == "pending"
            await agent.ask("ping")
            assert heard(ear) == []
