"""`grants.*`: DESIGN 8.4, n24."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcpd import applying
from mcpd.api.journal import QueryJournal
from mcpd.consent.grantbook import GrantBook
from mcpd.consent.store import Store
from tests.conftest import Home
from tests.control.world import Client, World, running, tiny, write_config, write_server

CODER = '[agents.coder]\nallowed_tools = ["tiny__*"]\n'


async def add(client: Client, **fields: Any) -> Any:
    usual = {"agent": "coder", "name": "tiny__echo", "lifespan": "forever"}
    return await client.call("grants.add", **{**usual, **fields})


async def refusal(client: Client, **fields: Any) -> str:
    usual = {"agent": "coder", "name": "tiny__echo", "lifespan": "forever"}
    return (await client.refusal("grants.add", **{**usual, **fields})).kind


def prepare(home: Home, **fields: Any) -> None:
    write_config(home, CODER)
    write_server(home, "tiny", **{**tiny(), "default_policy": {}, **fields})


async def test_a_grant_is_listed_and_taken_back(home: Home, real_clock: None) -> None:
    prepare(home)
    where = [{"argument": "text", "test": "prefix", "value": "a"}]
    async with running(home) as world:
        client = await world.operator()
        given = await add(client, where=where, reason="only texts with an a", lifespan="count", count=2)
        assert (given["covered"], given["beyond"], given["answered"]) == (1, [], 0)
        grant = given["grant"]
        assert abs(grant.pop("made_at") - time.time()) < 60
        key = grant["id"]
        assert grant == {
            "id": key,
            "agent": "coder",
            "server": "tiny",
            "tool": "echo",
            "exact": True,
            "where": where,
            "only": False,
            "lifespan": "count",
            "session": "",
            "until": 0.0,
            "count": 2,
            "used": 0,
            "reason": "only texts with an a",
            "idle": "",
        }
        [listed] = (await client.call("grants.list"))["grants"]
        assert listed["id"] == key
        # The next daemon reads it from the file.
        assert [each.grant.id for each in kept(home).all()] == [key]
        assert (await client.call("grants.revoke", id=key))["id"] == key
        assert await client.call("grants.list") == {"grants": []}
        assert (await client.refusal("grants.revoke", id=key)).kind == "no_such_grant"
        assert kept(home).all() == ()


def kept(home: Home) -> GrantBook:
    store = Store(Path(home.state / "state.db"))
    try:
        return GrantBook(store)
    finally:
        store.close()


async def test_a_grant_says_what_it_does_not_cover_d10(home: Home, real_clock: None) -> None:
    policies = '[tool_policies]\n"tiny__add" = { risk = "medium" }\n"tiny__fail" = { approval = "always" }\n'
    write_config(home, CODER + policies)
    write_server(home, "tiny", **{**tiny(), "default_policy": {}})
    async with running(home) as world:
        client = await world.operator()
        every = await add(client, name="tiny__*")
        assert (every["grant"]["tool"], every["grant"]["exact"]) == ("*", False)
        # An untrusted server's tools are high (b11); one is pinned to medium, one asks each time.
        assert every["covered"] == 1
        assert "tiny__echo: risk high, which only a grant by its name covers" in every["beyond"]
        assert "tiny__fail: approval always" in every["beyond"]
        one = await add(client, name="tiny__fail")
        assert (one["covered"], one["beyond"]) == (0, ["tiny__fail: approval always"])


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"agent": "nobody"}, "no_such_agent"),
        ({"name": "tiny__nothing"}, "no_such_tool"),
        ({"name": "*"}, "invalid_params"),
        ({"name": "t*__echo"}, "invalid_params"),
        ({"name": "other__*"}, "invalid_params"),
        ({"name": ""}, "invalid_params"),
        ({"name": "", "server": "tiny", "tool": "nothing"}, "no_such_tool"),
        ({"name": "", "server": "other", "tool": "echo"}, "no_such_server"),
        ({"server": "tiny"}, "invalid_params"),
        ({"lifespan": "until"}, "invalid_params"),
        ({"lifespan": "until", "seconds": -5}, "invalid_params"),
        ({"lifespan": "until", "seconds": 1e300}, "invalid_params"),
        ({"lifespan": "count", "count": 0}, "invalid_params"),
        ({"lifespan": "count", "count": 10**30}, "invalid_params"),
        ({"lifespan": "once", "count": 3}, "invalid_params"),
        ({"lifespan": "session"}, "invalid_params"),
        ({"lifespan": "session", "session": "s99"}, "no_such_session"),
        ({"lifespan": "always"}, "invalid_params"),
        ({"where": [{"argument": "a", "test": "under", "value": "notes"}]}, "invalid_params"),
        ({"where": [{"argument": "a", "test": "equals", "value": "{"}]}, "invalid_params"),
        ({"where": [{"argument": "a", "test": "regex", "value": "x"}]}, "invalid_params"),
        ({"reason": "x" * 501}, "invalid_params"),
    ],
)
async def test_what_cannot_be_granted(
    home: Home, real_clock: None, fields: dict[str, Any], kind: str
) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        assert await refusal(client, **fields) == kind
        assert await client.call("grants.list") == {"grants": []}


async def test_the_journal_has_who_gave_what_and_took_it_back_n12(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        key = (await add(client))["grant"]["id"]
        await client.call("grants.revoke", id=key)
        found = (await world.broker.journal.query(QueryJournal(kinds=("grant",)))).entries
    assert {(each.outcome, each.grant, each.agent, each.server, each.tool) for each in found} == {
        ("added", key, "coder", "tiny", "echo"),
        ("revoked", key, "coder", "tiny", "echo"),
    }
    assert all(each.pid and key in each.because for each in found)


@pytest.mark.parametrize(
    ("lifespan", "words"),
    [
        ({"lifespan": "forever", "reason": "tidying up"}, "; forever; tidying up"),
        ({"lifespan": "once"}, "; once"),
        ({"lifespan": "count", "count": 3}, "; for 3 calls"),
        ({"lifespan": "until", "seconds": 28800}, "; for 28800 s"),
    ],
)
async def test_the_journal_has_how_long_it_lasts_and_why(
    home: Home, real_clock: None, lifespan: dict[str, Any], words: str
) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        await add(client, **lifespan)
        [found] = (await world.broker.journal.query(QueryJournal(kinds=("grant",)))).entries
        assert found.because.endswith(f'of server "tiny"{words}')


async def test_the_next_agent_of_a_name_has_none_of_the_grants(home: Home, real_clock: None) -> None:
    """Also where the agent went by an edit of the files: `agents remove` forgets them, so does `reload`."""
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        await add(client)
        await add(client, name="tiny__crash")
        await add(client, agent="*")
        await add(client, agent="default")
        write_config(home, "")
        await applying.watched(world.broker)
        idle = {each["agent"]: each["idle"] for each in (await client.call("grants.list"))["grants"]}
        assert idle == {"coder": 'no agent is named "coder" now', "*": "", "default": ""}
        done = await client.call("daemon.reload")
        assert {"place": "agents.coder", "what": "removed; its 2 grants taken back"} in done["applied"]
        write_config(home, CODER)
        await client.call("daemon.reload")
        listed = (await client.call("grants.list"))["grants"]
        assert [each["agent"] for each in listed] == ["*", "default"]
        revoked = (await world.broker.journal.query(QueryJournal(kinds=("grant",)))).entries
        assert [each.agent for each in revoked if each.outcome == "revoked"] == ["coder", "coder"]


@pytest.mark.parametrize("edited", [True, False])
async def test_nor_one_that_a_call_of_the_last_had_used_and_gives_back(
    home: Home, real_clock: None, edited: bool
) -> None:
    """The call waits for its server, and ends with its session: after the agent itself has gone."""
    prepare(home)
    folder = home.config / "mcpd" / "agents.d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reader.toml").write_text("schema = 1\n")
    async with running(home) as world:
        client, grants = await world.operator(), world.broker.grants
        key = (await add(client, agent="reader", lifespan="once"))["grant"]["id"]
        [given] = [each.grant for each in grants.all() if each.grant.id == key]
        grants.use(given)
        if edited:
            (folder / "reader.toml").unlink()
            await client.call("daemon.reload")
        else:
            await client.call("agents.remove", agent="reader")
        grants.give_back(key)
        assert grants.all() == ()


@pytest.mark.parametrize("broken", [True, False])
async def test_an_agent_that_only_cannot_be_read_keeps_its_grants(
    home: Home, real_clock: None, broken: bool
) -> None:
    """Nor does it lose any while its file is away for a moment, as editors do it."""
    prepare(home)
    write_config(home, "")
    file = home.config / "mcpd" / "agents.d" / "coder.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "schema = 1\nallowed_tools = ['tiny__*']\n"
    file.write_text(text)
    async with running(home) as world:
        client = await world.operator()
        await add(client)
        if broken:
            file.write_text("schema = ")
            await client.call("daemon.reload")
        else:
            file.unlink()
            await applying.watched(world.broker)
        file.write_text(text)
        await client.call("daemon.reload")
        assert [each["idle"] for each in (await client.call("grants.list"))["grants"]] == [""]


async def test_a_grant_is_idle_at_another_destination_n24(home: Home, real_clock: None) -> None:
    prepare(home)
    async with running(home) as world:
        client = await world.operator()
        await add(client)
        move(world)
        [listed] = (await client.call("grants.list"))["grants"]
        assert listed["idle"] == 'server "tiny" has another command or address now'
        world.broker.config = msgspec.structs.replace(world.broker.config, servers={})
        [listed] = (await client.call("grants.list"))["grants"]
        assert listed["idle"] == 'no server is named "tiny" now'


def move(world: World) -> None:
    config = world.broker.config
    moved = msgspec.structs.replace(config.servers["tiny"], args=("-c", "pass"))
    world.broker.config = msgspec.structs.replace(config, servers={"tiny": moved})
