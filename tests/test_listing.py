"""Waiting until it can be said what an agent may see, no longer than needed (D5, a11, a22, b01, b26)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from mcpd import listing
from mcpd.config.spec import Agent
from mcpd.errors import Failure
from mcpd.rows import ViewKey
from tests.agents import world
from tests.agents.world import Ear, Stage, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import tiny, write_config, write_server

DEFAULT = ViewKey(("default", "", frozenset(), ""))
CHANGED = "notifications/tools/list_changed"
SHELF = str(Path(__file__).parent / "servers" / "shelf.py")


class Gate:
    """Keeps a tiny server from answering until it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        real = tiny()
        script = f'read line <{path}; exec "$@"'
        self.server: dict[str, Any] = {
            **real,
            "command": "sh",
            "args": ["-c", script, "sh", real["command"], *real["args"]],
        }

    def open(self) -> None:
        with open(self.path, "w") as gate:
            gate.write("now\n")


def running(stage: Stage) -> set[str]:
    return {upstream.name for upstream in stage.broker.fleet.all() if upstream.status.pid}


async def test_the_first_listing_connects_what_nobody_knows_yet_and_waits(
    home: Home, real_clock: None
) -> None:
    for name in ("a", "b", "c"):
        write_server(home, name, **tiny())
    async with staged(home) as stage:
        assert len(listing.view_now(stage.broker, DEFAULT).rows) == 0
        assert len((await listing.view(stage.broker, DEFAULT)).rows) == 21
        assert len(listing.view_now(stage.broker, DEFAULT).rows) == 21
    async with staged(home) as stage:
        assert len((await listing.view(stage.broker, DEFAULT)).rows) == 21
        assert running(stage) == set(), "the cache is enough (D5)"


async def test_a_slow_server_is_waited_for_five_seconds_and_announced_later(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert listing.FIRST_LISTING == 5.0
    monkeypatch.setattr(listing, "FIRST_LISTING", 0.3)
    gate = Gate(home.root / "gate")
    write_server(home, "slow", **gate.server)
    write_server(home, "good", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach()
        await stage.broker.fleet.find("good").reach(20)
        assert {name.partition("__")[0] for name in await agent.tools()} == {"good"}
        gate.open()
        await agent.notice(CHANGED)
        assert {name.partition("__")[0] for name in await agent.tools()} == {"good", "slow"}


async def test_a_call_of_a_tool_that_nobody_knows_yet_waits_for_its_server_alone(
    home: Home, real_clock: None
) -> None:
    gate, shut = Gate(home.root / "gate"), Gate(home.root / "shut")
    write_server(home, "slow", **gate.server)
    write_server(home, "shut", **shut.server)
    async with staged(home) as stage:
        agent = await stage.attach()
        await agent.begin("slow__echo", 1, text="in the end")
        await stage.until("status", lambda: running(stage) == {"slow"})
        gate.open()
        assert text_of((await agent.answer(1))["result"]) == "in the end"
        assert running(stage) == {"slow"}, "no other server is even started"
        assert (await agent.refusal("tools/call", {"name": "slow__no"})).kind == "no_such_tool"
        assert (await agent.refusal("tools/call", {"name": "none__no"})).kind == "no_such_tool"
        assert running(stage) == {"slow"}
        await agent.begin("shut__echo", 2, text="x")
        await stage.until("status", lambda: "shut" in running(stage))
        await agent.send("notifications/cancelled", {"requestId": 2})
        await agent.nothing_more()
        shut.open()


async def test_a_failing_server_never_holds_up_the_others(home: Home, real_clock: None) -> None:
    write_server(home, "bad", **tiny("--refuse"))
    write_server(home, "missing", command="no-such-program-xyz")
    write_server(home, "good", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach()
        with trio.fail_after(4):
            assert len(await agent.tools()) == 7
            assert len(await agent.tools()) == 7
        for name in ("bad", "missing"):
            assert kind_of(await agent.call(f"{name}__echo")) == "unavailable"
        assert "no-such-program-xyz" in text_of(await agent.call("missing__echo"))


async def test_only_what_an_agent_may_use_is_connected_for_it(home: Home, real_clock: None) -> None:
    write_config(
        home,
        "[agents.none]\nallowed_tools = []\n"
        "[agents.one]\nallowed_tools = ['a__echo']\n"
        "[agents.denied]\ndenied_tools = ['a__*']\n",
    )
    for name in ("a", "b"):
        write_server(home, name, **tiny())
    async with staged(home) as stage:
        nobody = await stage.attach("none")
        assert await nobody.tools() == []
        assert (await nobody.refusal("tools/call", {"name": "a__echo"})).kind == "no_such_tool"
        assert running(stage) == set()
        one = await stage.attach("one")
        assert await one.tools() == ["a__echo"]
        assert (await one.refusal("tools/call", {"name": "a__add"})).kind == "no_such_tool"
        assert (await one.refusal("tools/call", {"name": "b__echo"})).kind == "no_such_tool"
        assert running(stage) == {"a"}
        assert len(await (await stage.attach("denied")).tools()) == 7
        assert running(stage) == {"a", "b"}


async def test_lists_that_change_count_for_sessions_that_are_attached(home: Home, real_clock: None) -> None:
    """b20: effective at once, for that agent only."""
    config = "[agents.coder]\nallowed_tools = ['tiny__echo', 'tiny__add']\n"
    write_config(home, config)
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        coder, other, operator = await stage.attach("coder"), await stage.attach(), await stage.operator()
        assert await coder.tools() == ["tiny__echo", "tiny__add"]
        before = await other.tools()
        for lists, names in (
            ("allowed_tools = ['tiny__add', 'tiny__fail']", ["tiny__add", "tiny__fail"]),
            ("allowed_tools = ['tiny__*']\ndenied_tools = ['*__[a-e]*', '*__b?g']", None),
            ("allowed_tools = []", []),
        ):
            write_config(home, f"[agents.coder]\n{lists}\n")
            await operator.call("daemon.reload")
            await coder.notice(CHANGED)
            expected = [n for n in before if n != "tiny__big"] if names is None else names
            assert await coder.tools() == expected
        assert (await coder.refusal("tools/call", {"name": "tiny__add"})).kind == "no_such_tool"
        assert await other.tools() == before
        await other.nothing_more()


async def test_an_agent_that_is_no_longer_configured_is_nobody(home: Home, real_clock: None) -> None:
    write_config(home, "[agents.coder]\n")
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        coder, operator = await stage.attach("coder"), await stage.operator()
        assert len(await coder.tools()) == 7
        write_config(home, "")
        await operator.call("daemon.reload")
        for method, params in (("tools/list", {}), ("tools/call", {"name": "tiny__echo"})):
            refused = await coder.refusal(method, params)
            assert (refused.code, refused.kind) == (-32602, "no_such_agent")
        assert await coder.ask("ping") == {}


async def test_after_a_notice_listings_and_calls_know_what_is_new(home: Home, real_clock: None) -> None:
    """a22: who asks after the notice is answered by the refetched catalogue."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent, other = await stage.attach(), await stage.attach()
            for number in range(3):
                await agent.call("lively__grow", name=f"called{number}")
                assert text_of(await agent.call(f"lively__called{number}")) == "done"
            await agent.call("lively__grow", name="listed")
            assert "lively__listed" in await other.tools()


async def test_the_operator_sees_everything_that_can_be_called(home: Home, real_clock: None) -> None:
    write_config(home, "[agents.default]\nallowed_tools = []\n")
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        assert len((await listing.view(stage.broker, listing.OPERATOR_KEY)).rows) == 7
        assert len((await listing.view(stage.broker, DEFAULT)).rows) == 0


async def test_who_is_an_agent(home: Home, real_clock: None) -> None:
    write_config(home, "[agents.coder]\nallowed_tools = []\n")
    async with staged(home) as stage:
        assert listing.find_agent(stage.broker, "default") == Agent(name="default")
        assert listing.find_agent(stage.broker, "coder").allowed_tools == ()
        for name in ("", "stranger", "Coder", "default "):
            with pytest.raises(Failure) as caught:
                listing.find_agent(stage.broker, name)
            assert caught.value.kind == "no_such_agent"


# ----------------------------------------------------------- resources and prompts


class Shelf:
    """A server whose resources and prompts change without a word."""

    def __init__(self, home: Home, *options: str) -> None:
        self._file = home.root / "shelf.json"
        self.holds([], [])
        command = {"command": sys.executable, "args": ["-I", SHELF, str(self._file), *options]}
        write_server(home, "shelf", **command, default_policy={"approval": "never"})

    def holds(self, resources: list[str], prompts: list[str]) -> None:
        self._file.write_text(json.dumps({"resources": resources, "prompts": prompts}))


async def uris(agent: world.Agent) -> list[str]:
    return [entry["uri"] for entry in (await agent.ask("resources/list"))["resources"]]


async def prompts(agent: world.Agent) -> list[str]:
    return [entry["name"] for entry in (await agent.ask("prompts/list"))["prompts"]]


async def test_what_a_server_does_not_announce_is_asked_for_by_each_listing(
    home: Home, real_clock: None
) -> None:
    """Most servers with a handshake have resources that come and go, and promise no notice of it (a22)."""
    shelf = Shelf(home)
    async with staged(home) as stage:
        agent = await stage.attach()
        assert (await uris(agent), await prompts(agent)) == ([], [])
        shelf.holds(["a:1"], ["p"])
        assert await uris(agent) == ["mcpd://shelf/a:1"]
        assert await prompts(agent) == ["shelf__p"]
        shelf.holds(["a:1", "a:2"], ["p", "q"])
        assert text_of(await agent.call("shelf__list_resources")).splitlines() == [
            "mcpd://shelf/a:1 - a:1",
            "mcpd://shelf/a:2 - a:2",
        ]
        assert text_of(await agent.call("shelf__list_prompts")).splitlines() == ["p()", "q()"]
        assert text_of(await agent.call("shelf__read_resource", uri="mcpd://shelf/a:2")) == "the text of a:2"
        assert text_of(await agent.call("shelf__get_prompt", name="q")) == "[user] the prompt q"


async def test_what_a_server_promises_to_announce_is_not_asked_for(home: Home, real_clock: None) -> None:
    shelf = Shelf(home, "--announce")
    shelf.holds(["a:1"], ["p"])
    async with staged(home) as stage:
        agent = await stage.attach()
        assert await uris(agent) == ["mcpd://shelf/a:1"]
        shelf.holds([], [])
        assert await uris(agent) == ["mcpd://shelf/a:1"]
        assert text_of(await agent.call("shelf__list_prompts")) == "p()"
