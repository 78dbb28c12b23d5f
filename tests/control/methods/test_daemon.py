from __future__ import annotations

import os

import pytest

from mcpd import __version__
from mcpd.api import API_MAX, API_MIN
from tests.conftest import Home
from tests.control.world import running, tiny, write_config, write_server


async def test_hello_settles_the_api_and_names_features(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        said = await (await world.operator()).call(
            "hello", client="test", version="1", api=[1, 99], want=["events", "teleport"], need=["events"]
        )
    assert said["version"] == __version__
    assert said["api"] == API_MAX
    assert said["features"]["events"] is True
    assert said["features"]["teleport"] is False
    assert said["role"] == "control"
    assert said["pid"] == os.getpid()
    assert said["instance"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"api": [0, API_MIN - 1]}, "client is too old"),
        ({"api": [API_MAX + 1, API_MAX + 5]}, "daemon is too old"),
        ({"need": ["events", "teleport"]}, "teleport"),
    ],
)
async def test_hello_refuses_with_window_and_features(
    home: Home, real_clock: None, asked: dict[str, list[object]], words: str
) -> None:
    async with running(home) as world:
        refused = await (await world.operator()).refusal("hello", **asked)
    assert refused.kind == "api_mismatch"
    assert words in refused.message
    assert refused.data["api"] == [API_MIN, API_MAX]
    assert refused.data["features"]["events"] is True


async def test_status_shows_servers_sockets_files_and_problems(home: Home, real_clock: None) -> None:
    config_file = write_config(home, "[agents.coder]\nallowed_tools = []\n[defaults]\nrisk = 'none'\n")
    write_server(home, "off", **tiny(), enabled=False)
    write_server(home, "bad", command=3)
    write_server(home, "idle", **tiny())
    async with running(home) as world:
        status = await (await world.operator()).call("daemon.status")
        assert status["pid"] == os.getpid()
        assert status["version"] == __version__
        assert status["servers"] == {"disabled": 1, "failed": 1, "idle": 1}
        assert status["sessions"] == 0
        assert status["agents"] == ["coder", "default"]
        assert status["sockets"]["control"] == world.broker.control_socket
        assert status["sockets"]["agents"]["coder"] == f"{world.broker.agents_dir}/coder/mcp.sock"
        assert status["config_file"] == str(config_file)
        assert status["servers_dir"] == str(world.servers_dir)
        assert {problem["file"] for problem in status["problems"]} == {
            str(config_file),
            str(world.servers_dir / "bad.toml"),
        }
        assert status["uptime"] > 0


async def test_a_damaged_state_file_is_a_problem_through_every_reload(home: Home, real_clock: None) -> None:
    (home.state / "state.db").write_bytes(b"no database at all" * 100)
    async with running(home) as world:
        client = await world.operator()
        for _ in range(2):
            [problem] = (await client.call("daemon.status"))["problems"]
            assert problem["file"] == str(home.state / "state.db")
            await client.call("daemon.reload")


async def test_stop_answers_first(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        assert await client.call("daemon.stop") == {}
        assert world.broker.stop.is_set()


async def test_reload_says_what_changed_a03(home: Home, real_clock: None) -> None:
    write_server(home, "stays", **tiny())
    write_server(home, "changes", **tiny())
    write_server(home, "goes", **tiny())
    async with running(home) as world:
        world.write_server("comes", **tiny())
        world.write_server("changes", **tiny("--tools", "2"))
        world.write_server("bad", command="")
        (world.servers_dir / "goes.toml").unlink()
        done = await (await world.operator()).call("daemon.reload")
        assert done["added"] == ["bad", "comes"]
        assert done["changed"] == ["changes"]
        assert done["removed"] == ["goes"]
        assert done["unchanged"] == ["stays"]
        assert [problem["file"] for problem in done["problems"]] == [str(world.servers_dir / "bad.toml")]


async def test_reload_of_a_broken_config_changes_nothing(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.test", server="tiny")
        file = write_config(home, "[servers\n")
        refused = await client.refusal("daemon.reload")
        assert refused.kind == "config_invalid"
        assert refused.data["file"] == str(file)
        assert (await client.call("servers.get", server="tiny"))["status"]["state"] == "connected"
        assert (await client.call("daemon.status"))["problems"][0]["file"] == str(file)
        file.unlink()
        assert (await client.call("daemon.reload"))["unchanged"] == ["tiny"]
        assert (await client.call("daemon.status"))["problems"] == []
