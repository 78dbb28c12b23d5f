"""`agents.*` and `sessions.switch`: what one agent may use changes at once, and for it alone (b20, c23)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from mcpd.config.load import load
from tests.agents.world import META, MODERN, staged
from tests.conftest import Home
from tests.control.world import library, tiny, write_config, write_server

CHANGED = "notifications/tools/list_changed"
PLAIN: dict[str, Any] = {
    "allowed_tools": None,
    "denied_tools": [],
    "max_risk": "high",
    "auto_approve": [],
    "approver": "person",
    "spelling": "server__tool",
    "open": False,
    "sessions": 0,
    "problems": [],
}


def write_agent(home: Home, name: str, text: str) -> Path:
    path = home.config / "mcpd" / "agents.d" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def servers_of(names: list[str]) -> set[str]:
    return {name.partition("__")[0] for name in names}


async def test_the_default_agent_is_listed_without_an_entry(home: Home, real_clock: None) -> None:
    write_config(home, '[agents.reader]\nmax_risk = "low"\nallowed_tools = []\n')
    async with staged(home) as stage:
        operator = await stage.operator()
        await stage.attach()
        [default, reader] = (await operator.call("agents.list"))["agents"]
        assert default == {**PLAIN, "name": "default", "source": "", "sessions": 1}
        source = str(stage.config / "config.toml")
        assert reader == {
            **PLAIN,
            "name": "reader",
            "source": source,
            "allowed_tools": [],
            "max_risk": "low",
        }


async def test_what_is_given_and_taken_counts_at_once_for_that_agent_alone(
    home: Home, real_clock: None
) -> None:
    for name in ("a", "b"):
        write_server(home, name, **tiny())
    path = write_agent(home, "coder", '# mine\nallowed_tools = ["a__*"] # just this\n')
    async with staged(home) as stage:
        operator = await stage.operator()
        coder, other = await stage.attach("coder"), await stage.attach()
        everything = await other.tools()
        assert servers_of(await coder.tools()) == {"a"}

        given = await operator.call("agents.allow", agent="coder", tools=["b"])
        assert given["changed"]
        assert given["file"] == str(path)
        assert given["agent"]["allowed_tools"] == ["a__*", "b__*"]
        assert path.read_text() == '# mine\nallowed_tools = ["a__*", "b__*"] # just this\n'
        assert await coder.notice(CHANGED) == {}
        assert await coder.tools() == everything
        assert not (await coder.call("b__echo", text="x")).get("isError")

        taken = await operator.call("agents.deny", agent="coder", tools=["a", "b__add"])
        assert taken["agent"]["allowed_tools"] == ["b__*"]
        assert taken["agent"]["denied_tools"] == ["a__*", "b__add"]
        assert await coder.notice(CHANGED) == {}
        names = await coder.tools()
        assert servers_of(names) == {"b"}
        assert "b__add" not in names
        for tool in ("a__echo", "b__add"):
            refused = await coder.refusal("tools/call", {"name": tool, "arguments": {}})
            assert refused.kind == "no_such_tool"
        # Nobody else hears of it or loses anything.
        await other.nothing_more()
        assert await other.tools() == everything
        # It is what the next daemon finds.
        assert load(stage.config, {}).agents["coder"] == stage.broker.config.agents["coder"]
        recorded = [entry.because for entry in await stage.journal(kind="change", method="agents.deny")]
        assert any('allowed_tools ["a__*","b__*"] -> ["b__*"]' in because for because in recorded)


async def test_what_is_there_already_is_not_written(home: Home, real_clock: None) -> None:
    write_server(home, "a", **tiny())
    path = write_agent(home, "coder", 'denied_tools = ["b__*"]')
    async with staged(home) as stage:
        operator = await stage.operator()
        again = await operator.call("agents.deny", agent="coder", tools=["b__*"])
        assert (again["changed"], again["file"]) == (False, "")
        # Nothing is denied, so nothing has to be given: an allowlist would take the rest away.
        given = await operator.call("agents.allow", agent="coder", tools=["a"])
        assert (given["changed"], given["agent"]["allowed_tools"]) == (False, None)
        assert "it may use all that is not denied" in given["notes"][-1]
        assert path.read_text() == 'denied_tools = ["b__*"]'


async def test_a_wider_denial_is_not_undone_by_one_tool(home: Home, real_clock: None) -> None:
    write_agent(home, "coder", 'denied_tools = ["b__*"]')
    async with staged(home) as stage:
        operator = await stage.operator()
        refused = await operator.refusal("agents.allow", agent="coder", tools=["b__x"])
        assert (refused.kind, '"b__*" is denied' in refused.message) == ("refused", True)
        assert "mcpctl agents allow coder 'b__*'" in refused.data["hint"]


async def test_the_default_agent_gets_a_file_with_its_first_limit(home: Home, real_clock: None) -> None:
    write_server(home, "a", **tiny())
    async with staged(home) as stage:
        operator = await stage.operator()
        agent = await stage.attach()
        assert await agent.tools()
        denied = await operator.call("agents.deny", agent="default", tools=["a"])
        assert denied["agent"]["denied_tools"] == ["a__*"]
        assert await agent.notice(CHANGED) == {}
        assert await agent.tools() == []
        file = Path(denied["file"])
        assert tomllib.loads(file.read_text()) == {"schema": 1, "denied_tools": ["a__*"]}
        assert file.stat().st_mode & 0o777 == 0o600
        assert await operator.call("agents.remove", agent="default") == {"file": str(file)}
        assert await agent.notice(CHANGED) == {}
        assert await agent.tools()
        assert (await operator.refusal("agents.remove", agent="default")).kind == "no_such_agent"


async def test_agents_come_and_go(home: Home, real_clock: None) -> None:
    for name in ("a", "b"):
        write_server(home, name, **tiny())
    async with staged(home) as stage:
        operator = await stage.operator()
        added = await operator.call(
            "agents.add",
            agent="reader",
            allowed_tools=["a"],
            denied_tools=["a__add"],
            max_risk="low",
            auto_approve=["a__echo"],
            open=True,
        )
        file = stage.config / "agents.d" / "reader.toml"
        assert tomllib.loads(file.read_text()) == {
            "schema": 1,
            "allowed_tools": ["a__*"],
            "denied_tools": ["a__add"],
            "max_risk": "low",
            "auto_approve": ["a__echo"],
            "open": True,
        }
        assert added["socket"].endswith("/reader/mcp.sock")
        assert "reader" in stage.broker.config.agents
        for name in ("reader", "default"):
            stage.broker.state.put_token(name, b"x" * 32)
            await operator.call(
                "grants.add", agent=name, server="a", tool="echo", lifespan="forever", reason="test"
            )
        taken = await operator.refusal("agents.add", agent="reader")
        assert (taken.kind, taken.data["file"]) == ("name_taken", str(file))
        assert await operator.call("agents.remove", agent="reader") == {"file": str(file)}
        assert not file.exists()
        assert set(stage.broker.state.tokens) == {"default"}
        # Whoever is called so next begins anew.
        assert [each.grant.agent for each in stage.broker.grants.all()] == ["default"]
        assert (await operator.refusal("agents.get", agent="reader")).kind == "no_such_agent"


async def test_how_much_an_agent_gets_is_shown(home: Home, real_clock: None) -> None:
    # tiny's tools are unannotated, and its server is untrusted: high (b11).
    write_server(home, "a", **tiny())
    write_server(home, "low", **tiny(default_policy={"risk": "low", "approval": "never"}))
    write_agent(home, "reader", 'max_risk = "low"\ndenied_tools = ["a__add", "a__read_*"]')
    async with staged(home) as stage:
        operator = await stage.operator()
        await stage.attach("reader", without=["low"])
        await (await stage.attach()).tools()
        found = await operator.call("agents.get", agent="reader")
        shares = {share["server"]: share for share in found["servers"]}
        whole = shares["low"]["of"]
        assert shares["low"] == {"server": "low", "known": True, "tools": whole, "of": whole, "above": 0}
        assert shares["a"]["of"] == whole
        assert shares["a"]["tools"] == whole - 1
        assert shares["a"]["above"] == whole - 1
        [session] = found["attached"]
        assert session["without"] == ["low"]
        assert (session["agent"], session["server"], session["off"]) == ("reader", "", [])
        assert session["pid"] > 0


@pytest.mark.parametrize("risk", ["low", "medium", "high"])
async def test_how_far_an_agent_may_go_is_kept_in_its_file(home: Home, real_clock: None, risk: str) -> None:
    path = write_agent(home, "coder", 'max_risk = "medium" # for now\n')
    async with staged(home) as stage:
        operator = await stage.operator()
        done = await operator.call("agents.max_risk", agent="coder", max_risk=risk)
        assert done["changed"] == (risk != "medium")
        assert path.read_text() == f'max_risk = "{risk}" # for now\n'
        assert stage.broker.config.agents["coder"].max_risk == risk
        refused = await operator.refusal("agents.max_risk", agent="coder", max_risk="none")
        assert refused.kind == "invalid_params"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("agents.allow", {"tools": ["a"]}),
        ("agents.deny", {"tools": ["a"]}),
        ("agents.max_risk", {"max_risk": "low"}),
        ("agents.remove", {}),
    ],
)
async def test_what_only_the_user_writes_stays(
    home: Home, real_clock: None, method: str, params: dict[str, Any]
) -> None:
    write_server(home, "a", **tiny())
    config = write_config(home, "[agents.mine]\nallowed_tools = []\n")
    async with staged(home) as stage:
        operator = await stage.operator()
        refused = await operator.refusal(method, agent="mine", **params)
        assert (refused.kind, refused.data["file"]) == ("not_writable", str(config))
        assert "[agents.mine]" in refused.data["hint"]
        assert config.read_text() == "[agents.mine]\nallowed_tools = []\n"
        assert (await operator.refusal(method, agent="nobody", **params)).kind == "no_such_agent"


async def test_what_waits_in_the_file_is_not_let_in_by_another_change(home: Home, real_clock: None) -> None:
    path = write_agent(home, "coder", 'allowed_tools = ["a__*"]')
    async with staged(home) as stage:
        operator = await stage.operator()
        path.write_text('allowed_tools = ["*"]')
        refused = await operator.refusal("agents.deny", agent="coder", tools=["b__*"])
        assert (refused.kind, refused.data["hint"]) == ("refused", "mcpctl reload")
        assert path.read_text() == 'allowed_tools = ["*"]'
        assert stage.broker.config.agents["coder"].allowed_tools == ("a__*",)
        # A new file of an agent that does not run yet neither.
        write_agent(home, "new", "open = true")
        assert (await operator.refusal("agents.add", agent="new")).kind == "refused"


async def test_a_faulty_file_is_left_to_its_owner(home: Home, real_clock: None) -> None:
    path = write_agent(home, "coder", 'allowed_tols = ["a__*"]\nmax_risk = "low"')
    async with staged(home) as stage:
        operator = await stage.operator()
        refused = await operator.refusal("agents.allow", agent="coder", tools=["b__x"])
        assert refused.kind == "bad_definition"
        assert 'did you mean "allowed_tools"' in refused.message
        assert path.read_text() == 'allowed_tols = ["a__*"]\nmax_risk = "low"'
        [_, coder] = (await operator.call("agents.list"))["agents"]
        assert coder["allowed_tools"] == []
        assert any("allowed_tols: unknown field" in problem for problem in coder["problems"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["notse"], 'no server is named "notse", did you mean "notes"?'),
        ([""], "an empty text names no tool"),
    ],
)
async def test_a_word_that_names_nothing_is_refused(
    home: Home, real_clock: None, words: list[str], said: str
) -> None:
    write_server(home, "notes", **tiny())
    async with staged(home) as stage:
        operator = await stage.operator()
        for method in ("agents.allow", "agents.deny"):
            refused = await operator.refusal(method, agent="default", tools=words)
            assert (refused.kind, refused.message) == ("invalid_params", said)
        assert (await operator.refusal("agents.deny", agent="default", tools=[])).kind == "invalid_params"


async def test_a_pattern_for_what_is_not_there_yet_counts_and_is_remarked(
    home: Home, real_clock: None
) -> None:
    write_server(home, "notes", **tiny())
    async with staged(home) as stage:
        operator = await stage.operator()
        denied = await operator.call("agents.deny", agent="default", tools=["note__*"])
        assert denied["agent"]["denied_tools"] == ["note__*"]
        assert denied["notes"] == ['"note__*": no server is named "note", did you mean "notes"?']


@pytest.mark.parametrize("name", ["Big", "a__b", "", "../x", "x" * 33])
async def test_a_name_that_cannot_be_one_makes_no_file(home: Home, real_clock: None, name: str) -> None:
    async with staged(home) as stage:
        operator = await stage.operator()
        assert (await operator.refusal("agents.add", agent=name)).kind == "bad_definition"
        folder = stage.config / "agents.d"
        assert not folder.exists() or list(folder.iterdir()) == []


async def test_a_server_nobody_has_used_is_connected_when_it_is_given(home: Home, real_clock: None) -> None:
    write_server(home, "a", **tiny())
    write_agent(home, "coder", "allowed_tools = []")
    async with staged(home) as stage:
        operator = await stage.operator()
        agent = await stage.attach("coder")
        assert await agent.tools() == []
        await operator.call("agents.allow", agent="coder", tools=["a"])
        assert await agent.notice(CHANGED) == {}
        assert servers_of(await agent.tools()) == {"a"}


async def test_a_session_is_switched_from_outside(home: Home, real_clock: None) -> None:
    for name in ("a", "b"):
        write_server(home, name, **tiny())
    async with staged(home) as stage:
        operator = await stage.operator()
        agent, other = await stage.attach(), await stage.attach()
        everything = await agent.tools()
        await other.tools()
        [first, _] = (await operator.call("agents.sessions"))["sessions"]
        off = await operator.call("sessions.switch", session=first["id"], server="a", on=False)
        assert off == {**first, "off": ["a"]}
        assert await agent.notice(CHANGED) == {}
        assert servers_of(await agent.tools()) == {"b"}
        await other.nothing_more()
        assert await operator.call("sessions.switch", session=first["id"], server="a", on=True) == first
        assert await agent.notice(CHANGED) == {}
        assert await agent.tools() == everything
        assert await operator.call("sessions.switch", session=first["id"], server="a", on=True) == first
        await agent.nothing_more()
        recorded = await stage.journal(kind="change", method="sessions.switch")
        assert {(entry.server, entry.because) for entry in recorded} == {("a", f'session "{first["id"]}"')}
        unknown = await operator.refusal("sessions.switch", session="s99", server="a", on=False)
        assert unknown.kind == "no_such_session"
        nothing = await operator.refusal("sessions.switch", session=first["id"], server="c", on=False)
        assert nothing.kind == "no_such_server"


async def test_sessions_of_one_agent(home: Home, real_clock: None) -> None:
    write_config(home, "[agents.coder]\n")
    async with staged(home) as stage:
        operator = await stage.operator()
        await stage.attach()
        await stage.attach("coder")
        found = (await operator.call("agents.sessions", agent="coder"))["sessions"]
        assert [session["agent"] for session in found] == ["coder"]
        assert len((await operator.call("agents.sessions"))["sessions"]) == 2
        assert (await operator.refusal("agents.sessions", agent="nobody")).kind == "no_such_agent"


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
async def test_every_kind_of_list_goes_with_the_server_in_both_eras(
    home: Home, real_clock: None, revision: str
) -> None:
    write_server(home, "books", **library())
    write_agent(home, "coder", 'denied_tools = ["other__*"]')
    kinds = {
        "tools": "tools/list",
        "prompts": "prompts/list",
        "resources": "resources/list",
    }
    async with staged(home) as stage:
        operator = await stage.operator()
        agent = await stage.attach("coder", revision=revision)
        before = {kind: await agent.ask(method) for kind, method in kinds.items()}
        if agent.modern:
            wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
            await agent.send("subscriptions/listen", {"notifications": wanted}, 1)
            await agent.notice("notifications/subscriptions/acknowledged")
        for method in ("agents.deny", "agents.allow"):
            await operator.call(method, agent="coder", tools=["books"])
            for kind, listing in kinds.items():
                told = await agent.notice(f"notifications/{kind}/list_changed")
                assert told == ({"_meta": {META + "subscriptionId": 1}} if agent.modern else {})
                now = await agent.ask(listing)
                assert now[kind] == ([] if method == "agents.deny" else before[kind][kind])
                assert before[kind][kind]
