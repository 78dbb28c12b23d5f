"""Nothing that mcpd holds for a server is told or stored, by the files alone (n17)."""

from __future__ import annotations

import base64
import json
import sys

import pytest

from tests.agents.world import Ear, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import tiny, write_config, write_server

KEY = "hunter2-sesame-42"
OTHER = "Zq8rT1vX0pLm-77"


async def test_a_server_s_value_stands_nowhere_but_in_its_definition(home: Home, real_clock: None) -> None:
    basic = base64.b64encode(f"svc:{OTHER}".encode()).decode()
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(env={"API_KEY": KEY, "REGION": "production"}))
        write_server(home, "far", url="http://127.0.0.1:9/", headers={"Authorization": f"Basic {basic}"})
        async with staged(home) as stage:
            agent = await stage.attach()
            found = json.loads(text_of(await agent.call("lively__env")))
            assert (found["API_KEY"], found["REGION"]) == ("[redacted:API_KEY]", "production")
            raw = text_of(await agent.call("lively__raw", text=KEY))
            assert "[redacted:API_KEY]" in raw
            assert KEY not in raw
            for value in (OTHER, basic, f"svc:{OTHER}"):
                said = text_of(await agent.call("lively__echo", text=f"x {value} y"))
                assert '"Authorization" of server "far"' in said
                assert OTHER not in said
            assert text_of(await agent.call("lively__echo", text="in production")) == "in production"
            entries = await stage.journal(kind="request", tool="echo")
            assert [entry.decision for entry in entries] == ["allow", "deny", "deny", "deny"]
            everything = json.dumps([str(entry) for entry in await stage.journal()])
    kept = b"".join(
        path.read_bytes() for place in (home.state, home.cache) for path in place.rglob("*") if path.is_file()
    )
    for value in (KEY, OTHER, basic):
        assert value not in everything
        assert value.encode() not in kept.replace(b"state.db", b"")


async def test_what_a_reload_brings_is_held_at_once(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent, operator = await stage.attach(), await stage.operator()
            assert text_of(await agent.call("lively__echo", text=KEY)) == KEY
            write_server(home, "second", **tiny(env={"TOKEN": KEY}))
            await operator.call("daemon.reload")
            assert '"TOKEN" of server "second"' in text_of(await agent.call("lively__echo", text=KEY))


async def test_leaks_of_a_tool_are_a_matter_of_its_policy(home: Home, real_clock: None) -> None:
    token = "ghu_" + "k3J9x0PqLm2Vt7Rw5Yz8Nb4Hc6Df1Gs0Aq2We3"
    write_config(
        home,
        "[defaults]\napproval_wait = '50ms'\n"
        "[tool_policies]\n'lively__echo' = { leaks = { arguments = 'allow', results = 'allow' } }\n",
    )
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            assert text_of(await agent.call("lively__echo", text=token)) == token
            assert kind_of(await agent.call("lively__nap", seconds=0, text=token)) == "pending"


STDERR = "import os, sys; sys.stderr.write('key is ' + os.environ['API_KEY'] + '\\n'); sys.exit(3)"


async def test_what_it_writes_to_stderr_is_redacted_wherever_that_is_shown(
    home: Home, real_clock: None, caplog: pytest.LogCaptureFixture
) -> None:
    write_server(home, "broken", command=sys.executable, args=["-c", STDERR], env={"API_KEY": KEY})
    async with staged(home) as stage:
        operator = await stage.operator()
        shown = [
            await operator.call("servers.test", server="broken"),
            await operator.call("servers.get", server="broken"),
            await operator.call("servers.logs", server="broken"),
        ]
        said = json.dumps(shown)
        assert "key is [redacted:API_KEY]" in said
        assert KEY not in said
    assert KEY not in caplog.text


async def test_a_definition_is_listed_and_cached_without_it(home: Home, real_clock: None) -> None:
    script = (
        "import os, runpy, sys; sys.argv = [sys.argv[1]]; import json; "
        "real = json.dumps; json.dumps = lambda v, **k: real(v, **k).replace('The tool echo', "
        "'Use ' + os.environ['API_KEY']); runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    fields = tiny(env={"API_KEY": KEY})
    path = fields["args"][1]
    write_server(home, "tiny", **{**fields, "args": ["-c", script, path]})
    async with staged(home) as stage:
        agent = await stage.attach()
        page = await agent.ask("tools/list")
        [echo] = [tool for tool in page["tools"] if tool["name"] == "tiny__echo"]
        assert echo["description"] == "Use [redacted:API_KEY]."
    assert all(KEY.encode() not in path.read_bytes() for path in home.cache.rglob("*") if path.is_file())
