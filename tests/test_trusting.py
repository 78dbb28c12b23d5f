"""Trust and destinations: b11-b14, n24, a03 at the start, D3, D7."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import time
from typing import Any

import pytest
from msgspec.structs import replace

from mcpd import admin, applying, listing
from mcpd.catalog.tool import read_tools
from mcpd.config.spec import Policy
from mcpd.upstream.cache import CatalogCache
from tests.agents.world import Refused, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import Client, World, running, tiny, write_config, write_server


def bare(*options: str, **fields: Any) -> dict[str, Any]:
    """The tiny server without a word of policy from its user."""
    return {**tiny(*options), "default_policy": {}, **fields}


async def rules(client: Client, server: str = "tiny") -> dict[str, tuple[str, str]]:
    """Risk and approval of each tool."""
    found = await client.call("tools.list", server=server)
    return {tool["tool"]: (tool["risk"], tool["approval"]) for tool in found["tools"]}


UNTRUSTED = ("high", "unless_auto_approved")


async def test_a_new_server_is_untrusted_and_trust_reads_its_labels_b11_b12(
    home: Home, real_clock: None
) -> None:
    write_server(home, "tiny", **bare())
    async with running(home) as world:
        client = await world.operator()
        assert set((await rules(client)).values()) == {UNTRUSTED}
        assert not (await client.call("servers.get", server="tiny"))["trusted"]
        assert (await client.call("servers.trust", server="tiny"))["trusted"]
        trusted = await rules(client)
        assert trusted["echo"] == ("low", "never")
        assert trusted["add"] == ("medium", "unless_auto_approved")  # D7
        row = listing.operator_view_now(world.broker).rows["tiny__echo"]
        assert row.may_replay(reached=True), "what is read-only may run twice (D3)"
        assert not (await client.call("servers.untrust", server="tiny"))["trusted"]
        assert set((await rules(client)).values()) == {UNTRUSTED}
        row = listing.operator_view_now(world.broker).rows["tiny__echo"]
        assert not row.may_replay(reached=True)
        await client.call("servers.untrust", server="tiny")
        assert (await client.refusal("servers.trust", server="nobody")).kind == "no_such_server"


async def test_the_users_pins_win_over_trust_d4_d7(home: Home, real_clock: None) -> None:
    write_config(home, "[defaults]\nunannotated = 'low'\n[tool_policies]\n'tiny__echo' = { risk = 'high' }\n")
    write_server(home, "tiny", **bare())
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.trust", server="tiny")
        trusted = await rules(client)
        assert trusted["echo"] == ("high", "never")
        assert trusted["add"][0] == "low"


async def test_trust_outlives_the_daemon_but_not_its_destination_n24(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **bare())
    async with running(home) as world:
        await (await world.operator()).call("servers.trust", server="tiny")
    async with running(home) as world:
        client = await world.operator()
        assert (await client.call("servers.get", server="tiny"))["trusted"]
        # A restart, an unrelated edit: nothing is asked again.
        write_server(home, "tiny", **bare(env={"MORE": "x"}, idle_timeout="1m"))
        assert (await client.call("daemon.reload"))["held"] == {}
        assert (await client.call("servers.get", server="tiny"))["trusted"]

        write_server(home, "tiny", **bare("--tools", "1"))
        done = await client.call("daemon.reload")
        assert done["held"] == {"tiny": "its destination changed, waits for mcpctl accept tiny"}
        # What was accepted goes on, with the trust that belongs to it.
        info = await client.call("servers.get", server="tiny")
        assert (info["trusted"], info["args"][-1]) == (True, bare()["args"][-1])
        refused = await client.refusal("servers.trust", server="tiny")
        assert (refused.kind, refused.data["hint"]) == ("refused", "mcpctl accept tiny")

        review = await client.call("servers.review", server="tiny")
        assert review["old"]["args"] == bare()["args"]
        assert review["new"]["args"] == bare("--tools", "1")["args"]
        assert review["changed"] == ["args", "env"], "the rest was taken by the reload"
        assert review["loses"] == ["trust", "pins"]
        info = await client.call("servers.accept", server="tiny", shown=review["shown"])
        assert (info["held"], info["trusted"]) == ("", False)
        assert set((await rules(client)).values()) == {UNTRUSTED}
        # And back: the trust that was given there still counts there.
        write_server(home, "tiny", **bare())
        await client.call("daemon.reload")
        review = await client.call("servers.review", server="tiny")
        assert (await client.call("servers.accept", server="tiny", shown=review["shown"]))["trusted"]


async def test_only_what_was_shown_is_accepted(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **bare(env={"TOKEN": "hunter2-hunter2"}))
    async with running(home) as world:
        client = await world.operator()
        write_server(home, "tiny", **bare("--tools", "1", env={"TOKEN": "hunter2-hunter2"}))
        assert (await client.call("servers.get", server="tiny"))["executable"] == sys.executable
        review = await client.call("servers.review", server="tiny")
        assert review["gets"] == ["env.TOKEN"]
        assert "hunter2" not in str(review)
        # Between showing and accepting the file is exchanged.
        write_server(home, "tiny", **bare("--tools", "9", env={"TOKEN": "hunter2-hunter2"}))
        refused = await client.refusal("servers.accept", server="tiny", shown=review["shown"])
        assert refused.kind == "refused"
        assert (await client.call("servers.get", server="tiny"))["args"] == bare()["args"]
        write_server(home, "tiny", command=1)
        assert (await client.refusal("servers.review", server="tiny")).kind == "bad_definition"
        (world.servers_dir / "tiny.toml").unlink()
        assert (await client.refusal("servers.review", server="tiny")).kind == "no_such_server"


async def test_what_cannot_be_trusted(home: Home, real_clock: None) -> None:
    write_server(home, "faulty", command=1)
    write_server(home, "off", **bare(), enabled=False)
    write_server(home, "said", **bare())
    write_server(home, "gone", command="/no/such/command")
    write_config(home, "[overrides]\nsaid = { trusted = false }")
    async with running(home) as world:
        client = await world.operator()
        kinds = {
            name: (await client.refusal("servers.trust", server=name)).kind
            for name in ("faulty", "off", "said", "gone")
        }
        assert kinds == {"faulty": "refused", "off": "disabled", "said": "refused", "gone": "unavailable"}
        write_config(home, "[overrides]\nsaid = { trusted = true }")
        await applying.watched(world.broker)
        assert not (await client.call("servers.get", server="said"))["trusted"], "wider: it waits"
        await client.call("daemon.reload")
        assert (await client.call("servers.get", server="said"))["trusted"]
        refused = await client.refusal("servers.untrust", server="said")
        assert "config.toml" in refused.message


async def test_a_removed_server_takes_everything_with_it(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **bare())
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.trust", server="tiny")
        await client.call("servers.remove", server="tiny")
        fields = {key: value for key, value in bare().items() if key != "default_policy"}
        assert not (await client.call("servers.add", name="tiny", **fields))["trusted"]


# What was written while no daemon ran


async def state(world: World, name: str) -> tuple[str, str]:
    info = admin.get_server(world.broker, name)
    return info.status.state, info.held


async def test_a_start_compares_the_files_with_what_was_accepted_a03(home: Home, real_clock: None) -> None:
    for name in ("same", "changed", "gone"):
        write_server(home, name, **tiny())
    write_config(home, "[defaults]\nrisk = 'high'\n[agents.coder]\nallowed_tools = ['same__*']\n")
    async with running(home):
        pass
    write_server(home, "changed", **tiny("--tools", "1"), start="eager")
    write_server(home, "new", **tiny(), start="eager")
    (home.config / "mcpd" / "servers.d" / "gone.toml").unlink()
    write_config(
        home,
        "[defaults]\nrisk = 'low'\napproval = 'always'\n[tool_policies]\n'*' = { approval = 'never' }\n"
        "[agents.coder]\n[agents.other]\n",
    )
    for _ in range(2):
        # Also a second start accepts nothing of it.
        async with running(home) as world:
            config = world.broker.config
            assert world.broker.fleet.names() == ["same", "changed", "new"]
            assert await state(world, "same") == ("idle", "")
            changed = "args changed while mcpd did not run, waits for mcpctl reload"
            assert await state(world, "changed") == ("held", changed)
            assert await state(world, "new") == ("held", "new, waits for mcpctl reload")
            # What narrows counts, nothing else does.
            assert (config.settings.risk, config.settings.approval) == ("high", "always")
            assert dict(config.tool_policies) == {"*": Policy()}
            assert {name: agent.allowed_tools for name, agent in config.agents.items()} == {
                "coder": ("same__*",)
            }
            places = {problem.place for problem in config.problems}
            assert places == {'tool_policies."*"', "defaults.risk", "agents.coder", "agents.other"}
    async with running(home) as world:
        done = await applying.reload(world.broker)
        assert (done.added, done.held) == (("changed", "new"), {})
        assert sorted(world.broker.config.agents) == ["coder", "other"]
    async with running(home) as world:
        assert not world.broker.held


async def test_a_damaged_state_has_accepted_nothing_also_the_next_time(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    write_config(home, "[agents.coder]\n")
    async with running(home):
        pass
    (home.state / "state.db").write_bytes(b"scribble" * 1000)
    for _ in range(2):
        async with running(home) as world:
            assert await state(world, "tiny") == ("held", "new, waits for mcpctl reload")
            assert world.broker.config.agents == {}
    async with running(home) as world:
        await applying.reload(world.broker)
        assert await state(world, "tiny") == ("idle", "")


async def test_a_moved_folder_of_servers_waits_over_a_restart_too(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home):
        pass
    elsewhere = home.config / "mcpd" / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "evil.toml").write_text("command = 'evil'")
    write_config(home, "servers_dir = 'elsewhere'")
    async with running(home) as world:
        assert world.broker.fleet.names() == ["tiny"]
        assert await state(world, "tiny") == ("idle", "")
        await applying.reload(world.broker)
        assert world.broker.fleet.names() == ["evil"]


async def test_a_config_that_cannot_be_read_at_a_start_is_no_loss(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    file = write_config(home, "[agents.coder]\n")
    async with running(home):
        pass
    file.write_text("[agents.coder")
    async with running(home) as world:
        assert (await state(world, "tiny"))[0] == "failed"
    file.write_text("[agents.coder]\n")
    async with running(home) as world:
        assert await state(world, "tiny") == ("idle", "")
        assert sorted(world.broker.config.agents) == ["coder"]


async def test_a_command_that_goes_and_comes_back_needs_no_word(
    home: Home, real_clock: None, tmp_path: Path
) -> None:
    """A server is being updated while mcpd starts: that is no new destination."""
    program = tmp_path / "program"
    program.symlink_to(sys.executable)
    write_server(home, "tiny", **{**tiny(env={"TOKEN": "x" * 20}), "command": str(program)})
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.test", server="tiny")
    program.unlink()
    async with running(home) as world:
        told = await admin.test_server(world.broker, "tiny")
        assert (told.ok, told.status.reason) == (False, "command_not_found")
        program.symlink_to(sys.executable)
    async with running(home) as world:
        assert (await admin.test_server(world.broker, "tiny")).ok


@pytest.mark.parametrize("said", ["", "enabled = false\n"])
async def test_less_than_was_accepted_counts_at_a_start(home: Home, real_clock: None, said: str) -> None:
    file = write_server(home, "tiny", **tiny(default_policy={"approval": "never", "risk": "low"}))
    async with running(home):
        pass
    text = file.read_text().replace('"never"', '"deny"')
    file.write_text(said + text)
    async with running(home) as world:
        info = admin.get_server(world.broker, "tiny")
        assert (info.held, info.default_policy.approval, info.enabled) == ("", "deny", not said)


# A cache that somebody else has written


def poison(home: Home, world: World) -> None:
    """Everything in the cache is called read-only, and there is a tool more."""
    server = world.broker.config.servers["tiny"]
    cache = CatalogCache(home.cache)
    known = cache.load("tiny", server.digest, time())
    assert known is not None
    entries = [json.loads(tool.entry(tool.name)) for tool in known.catalog.tools]
    for entry in entries:
        entry["annotations"] = {"readOnlyHint": True, "destructiveHint": False}
    entries.append({**entries[0], "name": "wipe"})
    tools, _ = read_tools([json.dumps(entries).encode()])
    poisoned = replace(known.catalog, tools=tools)
    cache.store("tiny", server.digest, poisoned, known.era, known.revision, time())
    assert cache.load("tiny", server.digest, time()) is not None


async def test_a_poisoned_cache_that_says_read_only_lowers_nothing(home: Home, real_clock: None) -> None:
    write_config(home, "[defaults]\napproval_wait = '50ms'\n")
    write_server(home, "tiny", **bare())
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.trust", server="tiny")
    poison(home, world)
    async with staged(home) as stage:
        client = await stage.operator()
        cold = await rules(client)
        # What a person has seen counts, not what the file says; what nobody has seen is believed nothing.
        assert cold["add"] == ("medium", "unless_auto_approved")
        assert cold["wipe"] == UNTRUSTED
        assert cold["echo"] == ("low", "never")
        assert not stage.broker.fleet.find("tiny").verified, "nothing has been started for that"
        agent = await stage.attach()
        assert kind_of(await agent.call("tiny__add", a=1, b=2)) == "pending"
        # The server itself knows no such tool.
        with pytest.raises(Refused, match="wipe"):
            await agent.call("tiny__wipe", text="x")
        assert stage.broker.fleet.find("tiny").verified
        assert text_of(await agent.call("tiny__echo", text="x")) == "x"
        assert (await client.call("approvals.list"))["approvals"][0]["tool"] == "add"


async def test_nobody_is_asked_about_a_tool_whose_trusted_server_says_read_only_once_it_runs(
    home: Home, real_clock: None
) -> None:
    """A tool that came after trust is in no pin: its hints are asked of the server before a person is."""
    write_config(home, "[defaults]\napproval_wait = '50ms'\n")
    write_server(home, "tiny", **bare())
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.trust", server="tiny")
        world.broker.pins.forget("tiny")
    async with staged(home) as stage:
        client = await stage.operator()
        assert (await rules(client))["echo"] == UNTRUSTED
        agent = await stage.attach()
        assert text_of(await agent.call("tiny__echo", text="x")) == "x"
        assert (await rules(client))["echo"] == ("low", "never")


# What a person has agreed to is for one destination (n24)


async def accepted(client: Client) -> None:
    """Reload, and accept the new destination where it waits."""
    if (await client.call("daemon.reload"))["held"]:
        shown = (await client.call("servers.review", server="tiny"))["shown"]
        await client.call("servers.accept", server="tiny", shown=shown)


@pytest.mark.parametrize(
    ("changed", "asked"),
    [
        # Every component of n24: resolved command, args, cwd.
        (lambda tmp: {"command": str(tmp / "program")}, True),
        (lambda tmp: {"args": [*bare()["args"], "--more"]}, True),
        (lambda tmp: {"args": ["-I", "-u", *bare()["args"][1:]]}, True),
        (lambda tmp: {"cwd": str(tmp)}, True),
        # What is no part of it: an unrelated edit asks nobody anything.
        (lambda tmp: {"env": {"MORE": "x"}}, False),
        (lambda tmp: {"idle_timeout": "1m", "start": "eager"}, False),
        (lambda tmp: {"default_policy": {"timeout": "1m"}}, False),
        (lambda tmp: {"path": str(tmp)}, False),
        (lambda tmp: {}, False),
    ],
)
async def test_a_grant_is_for_one_destination(
    home: Home, real_clock: None, tmp_path: Path, changed: Any, asked: bool
) -> None:
    (tmp_path / "program").symlink_to(sys.executable)
    write_config(home, "[defaults]\napproval_wait = '50ms'\n")
    write_server(home, "tiny", **bare())
    async with staged(home) as stage:
        client = await stage.operator()
        agent = await stage.attach()
        assert kind_of(await agent.call("tiny__add", a=1, b=2)) == "pending"
        await client.call("grants.add", agent="default", server="tiny", tool="add", lifespan="forever")
        assert text_of(await agent.call("tiny__add", a=1, b=2)) == "3"
        # A lazy server that starts anew is the same one.
        await client.call("servers.reconnect", server="tiny")
        assert text_of(await agent.call("tiny__add", a=1, b=2)) == "3"
        write_server(home, "tiny", **{**bare(), **changed(tmp_path)})
        await accepted(client)
        result = await agent.call("tiny__add", a=1, b=2)
        if asked:
            assert kind_of(result) == "pending"
            # What was meant for the old one counts there, and only there.
            write_server(home, "tiny", **bare())
            await accepted(client)
            result = await agent.call("tiny__add", a=1, b=2)
        assert text_of(result) == "3"


async def test_who_changed_what_is_recorded_n12(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **bare())
    async with staged(home) as stage:
        client = await stage.operator()
        await client.call("servers.trust", server="tiny")
        write_server(home, "tiny", **bare("--more"))
        await applying.watched(stage.broker)
        shown = (await client.call("servers.review", server="tiny"))["shown"]
        await client.refusal("servers.accept", server="tiny", shown="guessed")
        await client.call("servers.accept", server="tiny", shown=shown)
        await client.call("servers.untrust", server="tiny")
        entries = reversed(await stage.journal(kind="change", server="tiny"))
    told = [(entry.method, entry.outcome, entry.because) for entry in entries]
    assert told == [
        ("servers.trust", "ok", ""),
        ("watch", "held", "its destination changed, waits for mcpctl accept tiny"),
        ("servers.accept", "refused", ""),
        ("servers.accept", "ok", ""),
        ("servers.untrust", "ok", ""),
    ]
