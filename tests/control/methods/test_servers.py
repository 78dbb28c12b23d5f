from __future__ import annotations

import tomllib
from typing import Any

import pytest

from tests.conftest import Home
from tests.control.world import Client, library, running, tiny, write_config, write_server


async def state(client: Client, name: str) -> str:
    shown = await client.call("servers.get", server=name)
    return str(shown["status"]["state"])


async def test_list_shows_every_server_faulty_ones_too(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny(), start="lazy")
    bad = write_server(home, "bad", command="x", url="https://example.com/")
    async with running(home) as world:
        shown = {
            server["name"]: server
            for server in (await (await world.operator()).call("servers.list"))["servers"]
        }
    assert set(shown) == {"tiny", "bad"}
    assert shown["tiny"]["transport"] == "stdio"
    assert shown["tiny"]["enabled"] is True
    assert shown["tiny"]["disabled_by"] == ""
    assert shown["tiny"]["start"] == "lazy"
    assert shown["tiny"]["status"]["state"] == "idle"
    assert shown["tiny"]["held"] == ""
    assert shown["bad"]["source"] == str(bad)
    assert (shown["bad"]["status"]["state"], shown["bad"]["status"]["reason"]) == ("failed", "bad_definition")


async def test_get_masks_all_values_d12(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny(env={"TOKEN": "hush", "LANG": "C"}, default_policy={"timeout": "2m"}))
    headers = {"Authorization": "Bearer hush", "X-Key": "hush"}
    write_server(home, "far", url="https://example.com/mcp", headers=headers)
    async with running(home) as world:
        client = await world.operator()
        near, far = (
            await client.call("servers.get", server="tiny"),
            await client.call("servers.get", server="far"),
        )
    assert near["env"] == {"TOKEN": "[SECRET]", "LANG": "[SECRET]"}
    assert near["default_policy"] == {"timeout": 120.0}
    assert far["headers"] == {"Authorization": "Bearer [SECRET]", "X-Key": "[SECRET]"}
    assert far["transport"] == "http"
    assert "hush" not in str(near) + str(far)


@pytest.mark.parametrize("method", ["get", "remove", "enable", "disable", "reconnect", "test", "logs"])
async def test_an_unknown_server_is_named(home: Home, real_clock: None, method: str) -> None:
    async with running(home) as world:
        refused = await (await world.operator()).refusal(f"servers.{method}", server="nobody")
    assert refused.kind == "no_such_server"
    assert '"nobody"' in refused.message


async def test_add_writes_a_file_and_connects_once_c07(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client, watching = await world.operator(), await world.operator()
        await watching.call("events.subscribe", topics=["catalog"])
        server = tiny(args=["-I", *tiny()["args"][1:], "${HOME}"])
        added = await client.call("servers.add", name="tiny", **server)
        assert added["name"] == "tiny"
        assert added["args"][-1] == "${HOME}"  # values are literal (a05)
        file = world.servers_dir / "tiny.toml"
        assert added["source"] == str(file)
        assert file.stat().st_mode & 0o777 == 0o600
        written = tomllib.loads(file.read_text())
        assert written["args"][-1] == "$${HOME}"
        assert written["default_policy"] == {"approval": "never"}
        assert (await watching.event())["data"]["server"] == "tiny"
        assert await state(client, "tiny") == "connected"
        # It is an ordinary definition from now on.
        assert (await client.call("daemon.reload"))["unchanged"] == ["tiny"]


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        ({"name": "Bad", "command": "x"}, "invalid_params", '"Bad"'),
        ({"name": "a__b", "command": "x"}, "invalid_params", "__"),
        ({"name": "../x", "command": "x"}, "invalid_params", "name"),
        ({"name": "new"}, "invalid_params", "neither a command nor a url"),
        ({"name": "new", "command": "x", "url": "https://example.com"}, "invalid_params", "both"),
        ({"name": "new", "url": "ftp://example.com"}, "bad_definition", "expected an address"),
        ({"name": "new", "url": "https://example.com", "args": ["x"]}, "bad_definition", 'beside "url"'),
        ({"name": "new", "url": "https://me:hush@example.com"}, "bad_definition", "Authorization"),
        ({"name": "new", "url": "https://h/", "headers": {"K": "hush"}}, "invalid_params", "secret store"),
        ({"name": "new", "command": "x", "env": {"K": "hush"}}, "invalid_params", "secret store"),
        ({"name": "new", "command": "x", "headers": {"K": "hush"}}, "invalid_params", "secret store"),
        ({"name": "tiny", "command": "x"}, "name_taken", "tiny.toml"),
        ({"name": "in-line", "command": "x"}, "name_taken", "config.toml"),
        ({"name": "a.b", "command": "x"}, "name_taken", '"a_b"'),
    ],
)
async def test_add_refuses_and_writes_nothing(
    home: Home, real_clock: None, asked: dict[str, Any], kind: str, words: str
) -> None:
    write_config(home, "[servers.in-line]\ncommand = 'x'\n")
    write_server(home, "tiny", **tiny())
    write_server(home, "a_b", **tiny())
    async with running(home) as world:
        before = {path: path.read_bytes() for path in world.config.rglob("*") if path.is_file()}
        client = await world.operator()
        refused = await client.refusal("servers.add", **asked)
        assert refused.kind == kind
        assert words in refused.message
        assert "hush" not in refused.message + str(refused.data)
        assert {path: path.read_bytes() for path in world.config.rglob("*") if path.is_file()} == before
        assert len((await client.call("servers.list"))["servers"]) == 3


async def test_values_are_sent_to_the_file_that_can_hold_them(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        refused = await (await world.operator()).refusal("servers.add", name="n", command="x", env={"K": "v"})
        assert refused.data["file"] == str(world.servers_dir / "n.toml")
        assert refused.data["file"] in refused.data["hint"]


async def test_a_remote_server_is_added_by_its_url_b17(home: Home, real_clock: None) -> None:
    """Its values are literal, and what may be secret in the address is not shown."""
    url = "http://127.0.0.1:9/${HOME}/mcp?key=hush"
    async with running(home) as world:
        added = await (await world.operator()).call("servers.add", name="far", url=url, enabled=False)
        written = tomllib.loads((world.servers_dir / "far.toml").read_text())
    assert (added["transport"], added["command"]) == ("http", "")
    assert added["url"] == "http://127.0.0.1:9/${HOME}/mcp?[SECRET]"
    assert written == {"schema": 1, "url": url.replace("${", "$${"), "enabled": False}


async def test_a_server_can_be_added_disabled(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        added = await (await world.operator()).call("servers.add", name="tiny", **tiny(), enabled=False)
    assert added["enabled"] is False
    assert added["status"]["state"] == "disabled"


async def test_remove_deletes_the_file_and_the_switch_b31(home: Home, real_clock: None) -> None:
    file = write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.disable", server="tiny")
        assert await client.call("servers.remove", server="tiny") == {"removed_file": str(file)}
        assert not file.exists()
        assert (await client.call("servers.list"))["servers"] == []
        added = await client.call("servers.add", name="tiny", **tiny())
        assert added["enabled"] is True


async def test_remove_leaves_files_of_the_user_alone(home: Home, real_clock: None) -> None:
    file = write_config(home, "[servers.mine]\ncommand = 'x'\n")
    async with running(home) as world:
        client = await world.operator()
        refused = await client.refusal("servers.remove", server="mine")
        assert refused.kind == "not_writable"
        assert str(file) in refused.message
        assert [server["name"] for server in (await client.call("servers.list"))["servers"]] == ["mine"]


async def test_a_broken_file_can_be_removed(home: Home, real_clock: None) -> None:
    file = write_server(home, "bad", command=3)
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.remove", server="bad")
        assert not file.exists()
        assert (await client.call("servers.list"))["servers"] == []


async def test_disable_disconnects_and_outlives_a_restart_b31_c08(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        assert (await client.call("servers.test", server="tiny"))["ok"] is True
        off = await client.call("servers.disable", server="tiny")
        assert off["enabled"] is False
        assert off["status"]["state"] == "disabled"
        assert (await client.call("servers.test", server="tiny"))["ok"] is False
    async with running(home) as world:
        client = await world.operator()
        assert await state(client, "tiny") == "disabled"
        on = await client.call("servers.enable", server="tiny")
        assert on["enabled"] is True
        assert (await client.call("servers.test", server="tiny"))["ok"] is True


async def test_enable_names_the_file_that_still_says_no_b31(home: Home, real_clock: None) -> None:
    file = write_server(home, "tiny", **tiny(), enabled=False)
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.disable", server="tiny")
        still = await client.call("servers.enable", server="tiny")
        assert still["enabled"] is False
        assert still["disabled_by"] == str(file)
        # The switch is undone all the same: mending the file is all that is left to do.
        world.write_server("tiny", **tiny())
        await client.call("daemon.reload")
        assert (await client.call("servers.get", server="tiny"))["enabled"] is True


async def test_an_override_is_the_file_that_says_no_b30(home: Home, real_clock: None) -> None:
    file = write_config(home, "[overrides.tiny]\nenabled = false\n")
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        still = await (await world.operator()).call("servers.enable", server="tiny")
    assert still["disabled_by"] == str(file)


async def test_reconnect_makes_a_new_process_c15(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        first = (await client.call("servers.test", server="tiny"))["status"]["pid"]
        assert (await client.call("servers.reconnect", server="tiny"))["status"]["state"] == "connecting"
        second = (await client.call("servers.test", server="tiny"))["status"]["pid"]
    assert 0 not in (first, second)
    assert first != second


async def test_reconnect_of_a_disabled_server_says_so(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny(), enabled=False)
    async with running(home) as world:
        refused = await (await world.operator()).refusal("servers.reconnect", server="tiny")
    assert refused.kind == "disabled"


async def test_test_tells_what_the_server_offers_b21(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny("--tools", "3"))
    async with running(home) as world:
        told = await (await world.operator()).call("servers.test", server="tiny")
    assert told["ok"] is True
    assert told["error"] == ""
    assert told["revision"] == "2025-11-25"
    assert told["server_info"]["name"] == "tiny"
    assert told["capabilities"] == {"tools": {}}
    assert told["instructions"] == "be kind"
    assert told["tools"] == 10
    assert told["status"]["state"] == "connected"
    timings = told["timings"]
    assert 0 < timings["open"] < timings["total"] == told["status"]["latency"]
    assert timings["open"] + timings["catalogue"] == pytest.approx(timings["total"])


async def test_test_counts_all_that_a_server_offers_b21(home: Home, real_clock: None) -> None:
    write_server(home, "books", **library())
    write_server(home, "bare", **library("--bare"))
    async with running(home) as world:
        client = await world.operator()
        told = await client.call("servers.test", server="books")
        assert [told[noun] for noun in ("tools", "resources", "templates", "prompts")] == [17, 3, 1, 2]
        assert set(told["capabilities"]) == {"tools", "resources", "prompts", "completions", "logging"}
        told = await client.call("servers.test", server="bare")
        assert [told[noun] for noun in ("resources", "templates", "prompts")] == [3, 1, 0]


async def test_test_of_a_server_that_fails_is_an_outcome_not_an_error(home: Home, real_clock: None) -> None:
    write_server(home, "sad", **tiny("--refuse"))
    write_server(home, "none", command="/no/such/command")
    async with running(home) as world:
        client = await world.operator()
        sad = await client.call("servers.test", server="sad")
        none = await client.call("servers.test", server="none")
        logs = await client.call("servers.logs", server="sad", lines=2)
    assert (sad["ok"], sad["status"]["state"]) == (False, "failed")
    assert "no wish to run" in sad["error"]
    assert (none["ok"], none["status"]["reason"]) == (False, "command_not_found")
    assert "no wish to run" in logs["lines"][-1]["text"]
    assert len(logs["lines"]) == 2
