"""Requests that wait for a person: what lets them go, once, and what never does (n05, n07, n12, a01)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from mcpd import listing
from mcpd.consent.questions import By
from mcpd.permit import Permit, at_once, holds
from mcpd.policy.grants import Grant, Lifespan
from mcpd.rows import ViewKey
from tests.agents.world import Ear, Stage, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import library, switchable, write_config, write_server

ME = By(pid=1, exe="/usr/bin/mcpctl")
#: A person who does not sit at the terminal: the answer comes later than the caller waits (n05).
AWAY = "[defaults]\napproval_wait = '50ms'\n"


@asynccontextmanager
async def asking(home: Home, config: str = "", **policy: str) -> AsyncIterator[tuple[Stage, Ear]]:
    """A server whose tools ask, unless `policy` says otherwise, and what it hears."""
    write_config(home, config)
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(default_policy={"risk": "medium", **policy}))
        async with staged(home) as stage:
            yield stage, ear


async def asked(stage: Stage) -> str:
    """The id of the question that is open, once it is."""
    with trio.fail_after(5):
        while not (opened := stage.broker.approvals.open()):
            await stage.until("approvals", stage.broker.approvals.open)
    return opened[0].id


def heard(ear: Ear) -> list[str]:
    return [row["name"] for row in ear.kept if row.get("method") == "tools/call"]


def give(
    stage: Stage, tool: str, lifespan: Lifespan = "forever", *, exact: bool = True, **more: Any
) -> Grant:
    server = stage.broker.config.servers["lively"]
    terms = {"agent": "default", "server": "lively", "destination": server.destination, **more}
    grant = Grant(id="g1", tool=tool, exact=exact, lifespan=lifespan, **terms)
    stage.broker.grants.add(grant)
    return grant


async def test_a_yes_while_the_caller_waits_lets_the_call_go(home: Home, real_clock: None) -> None:
    async with asking(home) as (stage, ear):
        agent = await stage.attach()
        await agent.begin("lively__echo", 1, text="hello")
        name = await asked(stage)
        stage.broker.approvals.approve(name, ME)
        assert text_of((await agent.answer(1))["result"]) == "hello"
        assert (await ear.hear("heard", method="tools/call"))["name"] == "echo"
        [entry] = await stage.journal(kind="request", tool="echo")
        assert (entry.decision, entry.outcome, entry.approval) == ("ask", "ok", name)
        assert entry.because.endswith(f"allowed: a person said yes ({name})")
        assert entry.waited > 0


async def test_a_yes_to_a_pending_call_is_used_once_and_only_once_n05(home: Home, real_clock: None) -> None:
    async with asking(home, AWAY) as (stage, ear):
        agent, other = await stage.attach(), await stage.attach()
        pending = await agent.call("lively__echo", text="hello")
        assert kind_of(pending) == "pending"
        name = await asked(stage)
        assert name in text_of(pending)
        assert kind_of(await other.call("lively__echo", text="hello")) == "pending"
        assert len(stage.broker.approvals.open()) == 1, "the same call joins the question"
        stage.broker.approvals.approve(name, ME)
        assert kind_of(await agent.call("lively__echo", text="hello!")) == "pending", "other arguments"
        assert text_of(await agent.call("lively__echo", text="hello")) == "hello"
        assert kind_of(await agent.call("lively__echo", text="hello")) == "pending"
        await ear.hear("heard", method="tools/call")
        assert heard(ear) == []


async def test_a_no_is_one_for_the_same_call(home: Home, real_clock: None) -> None:
    async with asking(home) as (stage, ear):
        agent = await stage.attach()
        await agent.begin("lively__echo", 1, text="hello")
        stage.broker.approvals.deny(await asked(stage), ME)
        assert kind_of((await agent.answer(1))["result"]) == "denied"
        assert kind_of(await agent.call("lively__echo", text="hello")) == "denied", "for a quarter of an hour"
        assert stage.broker.approvals.open() == ()
        await agent.nothing_more()
        assert heard(ear) == []


@pytest.mark.parametrize("change", ["policy", "definition", "agent"])
async def test_what_changes_while_a_person_is_waited_for_is_decided_anew(
    home: Home, real_clock: None, change: str
) -> None:
    """DESIGN 6: a yes is for what was shown, and never reaches what came after it."""
    async with asking(home) as (stage, ear):
        agent, operator = await stage.attach(), await stage.operator()
        await agent.begin("lively__echo", 1, text="hello")
        name = await asked(stage)
        if change == "policy":
            write_config(home, "[tool_policies]\n'lively__echo' = { approval = 'deny' }\n")
        elif change == "agent":
            write_config(home, "[agents.default]\ndenied_tools = ['lively__echo']\n")
        else:
            write_server(home, "lively", **ear.server(default_policy={"risk": "high", "approval": "always"}))
        await operator.call("daemon.reload")
        for opened in stage.broker.approvals.open():
            if opened.id == name:
                stage.broker.approvals.approve(name, ME)
        if change == "definition":
            with trio.fail_after(5):
                await stage.until(
                    "approvals",
                    lambda: any(opened.id != name for opened in stage.broker.approvals.open()),
                )
            assert heard(ear) == []
            return
        answer = await agent.answer(1)
        assert "error" in answer or kind_of(answer["result"]) == "denied"
        await agent.nothing_more()
        assert heard(ear) == []


async def test_what_is_allowed_by_now_does_not_hang_on_what_it_went_by_before(
    home: Home, real_clock: None
) -> None:
    """A call that is decided anew has waited for its server; the grant of the first time may be gone."""
    async with asking(home, approval="never") as (stage, _):
        await (await stage.attach()).call("lively__echo", text="hello")
        row = listing.known_tool(stage.broker, ViewKey(("default", "", frozenset(), "")), "lively__echo")
        assert row is not None
        permit = Permit(decision="ask", goes_by="a grant that is gone")
        assert not holds(stage.broker, row, permit)
        assert at_once(stage.broker, row, b'{"text":"hello"}', b"", permit)
        assert permit.decision == "allow"
        assert holds(stage.broker, row, permit)


@pytest.mark.parametrize(("approval", "kind"), [("deny", "denied"), ("never", "")])
async def test_an_edit_of_the_policy_answers_what_waits(
    home: Home, real_clock: None, approval: str, kind: str
) -> None:
    async with asking(home) as (stage, _):
        agent, operator = await stage.attach(), await stage.operator()
        await agent.begin("lively__echo", 1, text="hello")
        await asked(stage)
        write_config(home, f"[tool_policies]\n'lively__echo' = {{ approval = '{approval}' }}\n")
        await operator.call("daemon.reload")
        result = (await agent.answer(1))["result"]
        assert (kind_of(result) if kind else text_of(result)) == (kind or "hello")
        assert stage.broker.approvals.open() == ()
        assert [each.outcome for each in await stage.journal(kind="approval")] == ["superseded", "asked"]


@pytest.mark.parametrize(
    ("edit", "stays"),
    [
        ("[tool_policies]\n'lively__nap' = { approval = 'deny' }\n", True),
        ("[defaults]\nmax_result = '1 MB'\napproval_wait = '50ms'\n", True),
        ("[tool_policies]\n'lively__echo' = { risk = 'high' }\n", False),
        ("[agents.default]\nmax_risk = 'low'\n", False),
        ("[agents.default]\nallowed_tools = []\n", False),
        ("[agents.default]\nauto_approve = ['lively__echo']\n", False),
        ("[agents.default]\napprover = 'host'\n", False),
        ("[overrides.lively]\nenabled = false\n", False),
    ],
)
@pytest.mark.parametrize("answered", [False, True])
async def test_what_is_asked_about_no_call_that_waits_ends_with_its_rules(
    home: Home, real_clock: None, edit: str, stays: bool, answered: bool
) -> None:
    """As does a yes that none has used: neither could count for any call, and both were shown."""
    async with asking(home, AWAY) as (stage, _):
        agent, operator = await stage.attach(), await stage.operator()
        assert kind_of(await agent.call("lively__echo", text="hello")) == "pending"
        name = await asked(stage)
        if answered:
            stage.broker.approvals.approve(name, ME)
        write_config(home, edit)
        await operator.call("daemon.reload")
        await trio.testing.wait_all_tasks_blocked()
        approvals = stage.broker.approvals
        left = [each.id for each in (approvals.unused() if answered else approvals.open())]
        assert left == ([name] if stays else [])


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "echo", "arguments": {}}),
        ("resources/read", {"uri": "note:///1"}),
        ("resources/subscribe", {"uri": "note:///1"}),
        ("prompts/get", {"name": "greet", "arguments": {"style": "b"}}),
    ],
)
async def test_what_changes_elsewhere_leaves_a_question_as_it_is(
    home: Home, real_clock: None, alone: bool, method: str, params: dict[str, Any]
) -> None:
    """Also where an agent sees one server alone: there is no tool there that stands for other methods."""
    write_server(home, "library", **library("--log", "/dev/null", default_policy={"risk": "high"}))
    async with staged(home) as stage:
        agent = await stage.attach(**({"server": "library"} if alone else {}))
        await agent.tools()
        if not alone:
            heads = {"uri": "mcpd://library/", "name": "library__"}
            params = {key: heads[key] + value if key in heads else value for key, value in params.items()}
        await agent.send(method, params, 1)
        name = await asked(stage)
        for topic in ("catalog", "servers"):
            stage.broker.changes.publish(topic, None)
            await trio.testing.wait_all_tasks_blocked()
        assert [each.id for each in stage.broker.approvals.open()] == [name]


@pytest.mark.parametrize(
    ("risk", "exact", "kind"), [("medium", False, ""), ("high", False, "pending"), ("high", True, "")]
)
async def test_a_grant_covers_what_d10_lets_it(
    home: Home, real_clock: None, risk: str, exact: bool, kind: str
) -> None:
    async with asking(home, AWAY, risk=risk) as (stage, _):
        agent = await stage.attach()
        await agent.tools()
        give(stage, "echo" if exact else "e*", exact=exact)
        answer = await agent.call("lively__echo", text="hello")
        if kind:
            assert kind_of(answer) == kind
        else:
            assert text_of(answer) == "hello"
            [entry] = await stage.journal(kind="request", tool="echo")
            assert (entry.decision, entry.grant) == ("allow", "g1")


async def test_a_counted_grant_is_spent_by_the_calls_that_needed_it(home: Home, real_clock: None) -> None:
    async with asking(home, AWAY) as (stage, ear):
        agent = await stage.attach()
        await agent.tools()
        give(stage, "echo", "count", count=2)
        for text in ("one", "two"):
            assert text_of(await agent.call("lively__echo", text=text)) == text
        assert kind_of(await agent.call("lively__echo", text="three")) == "pending"
        await ear.hear("heard", method="tools/call")
        await ear.hear("heard", method="tools/call")
        assert heard(ear) == []


@asynccontextmanager
async def at_times_down(home: Home) -> AsyncIterator[tuple[Stage, Path]]:
    """A server that is known from the cache and asks. While the file exists it does not start."""
    flag = home.root / "flag"
    write_config(home, AWAY)
    write_server(home, "lively", **switchable(flag, "exit 7", default_policy={"risk": "medium"}))
    async with staged(home) as stage:
        await (await stage.attach()).tools()
    flag.touch()
    async with staged(home) as stage:
        yield stage, flag


async def mended(stage: Stage, flag: Path) -> None:
    flag.unlink()
    await (await stage.operator()).call("servers.reconnect", server="lively")
    lively = stage.broker.fleet.find("lively")
    with trio.fail_after(10):
        await stage.until("status", lambda: lively.status.state == "connected")


async def test_a_yes_is_not_used_up_by_a_call_that_reaches_no_server(home: Home, real_clock: None) -> None:
    async with at_times_down(home) as (stage, flag):
        agent, approvals = await stage.attach(), stage.broker.approvals
        for tool in ("lively__echo", "lively__crash"):
            assert kind_of(await agent.call(tool, text="hello")) == "pending"
            approvals.approve(await asked(stage), ME)
        for _ in range(2):
            assert kind_of(await agent.call("lively__echo", text="hello")) == "unavailable"
            assert len(approvals.unused()) == 2
        await mended(stage, flag)
        assert text_of(await agent.call("lively__echo", text="hello")) == "hello"
        assert kind_of(await agent.call("lively__echo", text="hello")) == "pending"
        assert kind_of(await agent.call("lively__crash", text="hello")) == "outcome_unknown", "it was reached"
        assert approvals.unused() == ()


async def test_nor_is_a_grants_count(home: Home, real_clock: None) -> None:
    async with at_times_down(home) as (stage, flag):
        agent = await stage.attach()
        give(stage, "echo", "count", count=1)
        for _ in range(2):
            assert kind_of(await agent.call("lively__echo", text="hello")) == "unavailable"
            assert [given.used for given in stage.broker.grants.all()] == [0]
        await mended(stage, flag)
        assert text_of(await agent.call("lively__echo", text="hello")) == "hello"
        assert kind_of(await agent.call("lively__echo", text="hello")) == "pending"


@pytest.mark.parametrize(("risk", "goes"), [("high", False), ("medium", True)])
async def test_nothing_of_high_risk_happens_without_a_record_n12(
    home: Home, real_clock: None, risk: str, goes: bool
) -> None:
    async with asking(home, risk=risk, approval="never") as (stage, ear):
        agent = await stage.attach()
        assert text_of(await agent.call("lively__echo", text="before")) == "before"
        await ear.hear("heard", method="tools/call")
        path = home.state / "journal.db"
        for file in home.state.glob("journal.db*"):
            file.unlink()
        path.mkdir()
        answer = await agent.call("lively__echo", text="after")
        if goes:
            assert text_of(answer) == "after"
            return
        assert kind_of(answer) == "denied"
        assert "journal" in text_of(answer)
        await agent.nothing_more()
        assert heard(ear) == []


async def test_a_decision_of_high_risk_is_in_the_journal_before_the_call_ends_n12(
    home: Home, real_clock: None
) -> None:
    async with asking(home, risk="high", approval="never") as (stage, ear):
        agent = await stage.attach()
        await agent.begin("lively__nap", 1)
        await ear.hear("heard", method="tools/call")
        [entry] = await stage.journal(kind="decision")
        assert (entry.tool, entry.decision, entry.risk) == ("nap", "allow", "high")
        assert await stage.journal(kind="request", tool="nap") == []


async def test_typing_opens_no_question(home: Home, real_clock: None) -> None:
    """Completion is decided as what it completes (a01), but nobody is asked about each key."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "books", **ear.library(default_policy={"risk": "medium"}))
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.ask("prompts/list")
            refused = await agent.refusal(
                "completion/complete",
                {
                    "ref": {"type": "ref/prompt", "name": "books__greet"},
                    "argument": {"name": "name", "value": "A"},
                },
            )
            assert refused.kind == "denied"
            assert stage.broker.approvals.open() == ()
            assert [row for row in ear.kept if row.get("method") == "completion/complete"] == []


async def test_a_trusted_server_that_rests_is_asked_before_a_person_is_d4(
    home: Home, real_clock: None
) -> None:
    """What the cache says lowers nothing, so the server says it again: `echo` is read-only."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(default_policy={}))
        async with staged(home) as stage:
            await (await stage.attach()).tools()
            await (await stage.operator()).call("servers.trust", server="lively")
        async with staged(home) as stage:
            agent = await stage.attach()
            assert stage.broker.fleet.find("lively").status.pid == 0
            with trio.fail_after(10):
                assert text_of(await agent.call("lively__echo", text="hello")) == "hello"
