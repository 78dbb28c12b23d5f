"""What an attached agent sees: its list, its answers, mcpd's own verdicts, and only its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.e2e.harness import META, Daemon, Refused, attached, heard, kind_of, lively, text_of, until
from tests.servers.lively import ODD_RESULT

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


@pytest.fixture
def log(daemon: Daemon) -> Path:
    """Where the server `lively` of a daemon, not yet started, will write what it hears."""
    log = daemon.home.root / "lively.log"
    daemon.server("lively", lively(log))
    return log


# -- revisions and the attach line ------------------------------------------------------------------
@pytest.mark.parametrize("upstream", ["handshake", "modern"])
@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_revision_on_both_sides(
    daemon: Daemon, real_clock: None, revision: str, upstream: str
) -> None:
    log = daemon.home.root / "lively.log"
    daemon.server("lively", lively(log, f"--{upstream}"))
    daemon.start()
    async with attached(daemon, revision=revision) as agent:
        assert "lively__echo" in await agent.tools()
        result = await agent.call("lively__echo", text="hi")
        assert text_of(result) == "hi"
        # resultType is of 2026-07-28 alone (protocol 4.8).
        assert result.get("resultType") == ("complete" if agent.modern else None)
        with pytest.raises(Refused) as unknown:
            await agent.request("no/such/method")
        assert unknown.value.code == -32601


async def test_a_modern_agent_can_discover(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.start()
    async with attached(daemon, revision="2026-07-28") as agent:
        found = await agent.request("server/discover")
        assert "2026-07-28" in found["supportedVersions"]
        assert "tools" in found["capabilities"]
        with pytest.raises(Refused) as refused:
            await agent.request("tools/list", {"_meta": {META + "protocolVersion": "2099-01-01"}})
        assert refused.value.code == -32022
        assert "2026-07-28" in refused.value.data["supported"]


async def test_an_unknown_revision_is_countered_with_a_known_one(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.start()
    stream = await trio.open_unix_socket(str(daemon.sockets / "agents" / "default" / "mcp.sock"))
    async with stream:
        params = {
            "protocolVersion": "2099-01-01",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": ""},
        }
        ask = {"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params}
        await stream.send_all(json.dumps(ask).encode() + b"\n")
        answer = json.loads(await stream.receive_some(65536))
    assert answer["id"] == "first"
    assert answer["result"]["protocolVersion"] == "2025-11-25"


async def test_one_server_alone_keeps_its_own_names(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("other", lively(daemon.home.root / "other.log"))
    daemon.start()
    async with attached(daemon, attach={"server": "lively"}) as agent:
        assert "echo" in await agent.tools()
        assert not [name for name in await agent.tools() if "__" in name]
        assert text_of(await agent.call("echo", text="own name")) == "own name"
        with pytest.raises(Refused):
            await agent.call("other__echo", text="not shown")
    assert not heard(daemon.home.root / "other.log", "start")


async def test_servers_can_be_left_out_by_the_attach_line(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.server("other", lively(daemon.home.root / "other.log"))
    daemon.start()
    async with attached(daemon, attach={"without": ["other"]}) as agent:
        assert {name.partition("__")[0] for name in await agent.tools()} == {"lively"}
        with pytest.raises(Refused):
            await agent.call("other__echo", text="left out")


async def test_the_attach_line_counts_only_as_the_first(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.start()
    async with attached(daemon, attach={"server": "lively"}) as agent:
        await agent.send("notifications/dev.mcpd/attach", {"without": ["lively"]})
        assert text_of(await agent.call("echo", text="still")) == "still"
    assert not [row for row in heard(log) if "dev.mcpd" in json.dumps(row)]


async def test_the_bridge_pumps_bytes(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.start()
    bridge = subprocess.Popen(
        [sys.executable, "-I", "-m", "mcpctl", "bridge", "--server", "lively"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=daemon.environ,
    )
    assert bridge.stdin is not None
    assert bridge.stdout is not None
    with bridge, bridge.stdin, bridge.stdout:
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "h", "version": "1"},
        }
        call = {"name": "echo", "arguments": {"text": "x" * 90_000}}
        for message in (
            {"id": 1, "method": "initialize", "params": hello},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": call},
        ):
            bridge.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            bridge.stdin.flush()
        first, second = (json.loads(bridge.stdout.readline()) for _ in range(2))
        assert first["result"]["protocolVersion"] == "2025-06-18"
        assert text_of(second["result"]) == "x" * 90_000
        bridge.stdin.close()
        assert bridge.wait(10) == 0
    assert until(lambda: daemon.ask("daemon.status")["sessions"] == 0)


# -- payloads ---------------------------------------------------------------------------------------
async def test_a_result_is_the_same_json(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.start()
    async with attached(daemon, attach={"server": "lively"}) as agent:
        assert await agent.call("odd") == ODD_RESULT
    shown = json.dumps(ODD_RESULT).replace('"uri": "', '"uri": "mcpd://lively/')
    async with attached(daemon) as agent:
        assert await agent.call("lively__odd") == json.loads(shown), "among others URIs say whose they are"


async def test_a_servers_error_passes_unchanged(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.start()
    async with attached(daemon) as agent:
        with pytest.raises(Refused) as refused:
            await agent.call("lively__refuse")
    error = refused.value
    assert (error.code, error.message, error.data) == (-32099, "not today", {"why": ["tired"]})


@pytest.mark.parametrize(
    "arguments",
    [
        '{"z":1,"a":2,"z2":[1.0,1e5,1E+5,-0,12345678901234567890,0.1000]}',
        '{"text":"\\u00e9\\/\\ud83d\\ude42 é 🙂"}',
        '{"":{"":[]},"n":null}',
    ],
)
async def test_arguments_are_the_same_text(
    daemon: Daemon, log: Path, real_clock: None, arguments: str
) -> None:
    daemon.start()
    async with attached(daemon) as agent:
        await agent.line(call_line(1, "lively__raw", arguments))
        received = text_of(await agent.answer(1))
    assert f'"arguments":{arguments}' in received


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a":1,"a":2}',
        '{"b":{"a":1,"\\u0061":2}}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":"\\ud83d"}',
        "[1]",
        '"x"',
    ],
)
async def test_arguments_with_two_meanings_are_refused(
    daemon: Daemon, log: Path, real_clock: None, arguments: str
) -> None:
    daemon.start()
    async with attached(daemon) as agent:
        await agent.line(call_line("mine", "lively__raw", arguments))
        # What is not JSON at all (NaN) may be refused with the whole line, whose id is then unknown.
        await agent.wait_for(lambda: bool(agent.answers))
        [(request_id, answer)] = agent.answers.items()
        assert request_id in ("mine", None)
        assert answer["error"]["code"] in (-32602, -32700)
        agent.answers.clear()
        assert text_of(await agent.call("lively__echo", text="fine")) == "fine"
    assert not heard(log, "heard", name="raw")


def call_line(request_id: int | str, tool: str, arguments: str) -> bytes:
    params = f'{{"name":{json.dumps(tool)},"arguments":{arguments}}}'
    return (
        f'{{"jsonrpc":"2.0","id":{json.dumps(request_id)},"method":"tools/call","params":{params}}}'.encode()
    )


async def test_a_long_text_is_cut_and_it_says_so(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.start()
    async with attached(daemon) as agent:
        whole = await agent.call("lively__text", size=102_400)
        assert text_of(whole) == "x" * 102_400
        cut = await agent.call("lively__text", size=500_000)
        texts = "".join(block["text"] for block in cut["content"])
        assert texts.startswith("x" * 90_000)
        assert len(texts.encode()) <= 102_400 + 1000
        assert not texts.endswith("xx"), "what was left out is said"


async def test_progress_reaches_the_agent_that_asked(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.start()
    async with attached(daemon) as one, attached(daemon) as two:
        for agent, token in ((one, "tok"), (two, 1)):
            params = {
                "name": "lively__work",
                "arguments": {"seconds": 0.7, "text": "worked"},
                "_meta": {"progressToken": token},
            }
            await agent.begin("tools/call", params, 1)
        for agent, token in ((one, "tok"), (two, 1)):
            assert text_of(await agent.answer(1)) == "worked"
            steps = [notice["params"] for notice in agent.noticed("notifications/progress")]
            assert [step["progressToken"] for step in steps] == [token] * len(steps)
            assert [step["progress"] for step in steps] == list(range(1, len(steps) + 1))
            assert steps
    tokens = {row["params"]["_meta"]["progressToken"] for row in heard(log, name="work")}
    assert len(tokens) == 2, "mcpd's own tokens, one a call"


# -- list_changed -----------------------------------------------------------------------------------
@pytest.mark.parametrize("upstream", ["handshake", "modern"])
async def test_list_changed_reaches_every_agent(daemon: Daemon, real_clock: None, upstream: str) -> None:
    log = daemon.home.root / "lively.log"
    daemon.server("lively", lively(log, f"--{upstream}"))
    daemon.start()
    changed = "notifications/tools/list_changed"
    async with (
        attached(daemon) as one,
        attached(daemon) as two,
        attached(daemon, revision="2026-07-28") as listening,
        attached(daemon, revision="2026-07-28") as silent,
    ):
        for agent in (one, two, listening, silent):
            assert "lively__fresh" not in await agent.tools()
        await listening.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "sub")
        await listening.wait_for(lambda: listening.notices)
        acknowledged = listening.notices[0]
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert acknowledged["params"]["_meta"] == {META + "subscriptionId": "sub"}
        assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}

        await one.call("lively__grow", name="fresh")
        for agent in (one, two, listening):
            await agent.wait_for(lambda agent=agent: agent.noticed(changed))  # type: ignore[misc]
            assert "lively__fresh" in await agent.tools()
        assert listening.noticed(changed)[0]["params"]["_meta"] == {META + "subscriptionId": "sub"}
        assert text_of(await two.call("lively__fresh")) == "done"
        assert not silent.noticed(changed), "2026-07-28 hears of it only by subscriptions/listen"

        await listening.send("notifications/cancelled", {"requestId": "sub"})
        await listening.call("lively__grow", name="fresher")
        before = len(listening.noticed(changed))
        await two.wait_for(lambda: len(two.noticed(changed)) >= 2)
        assert "lively__fresher" in await listening.tools()
        assert len(listening.noticed(changed)) == before


async def test_a_call_after_the_notice_knows_the_new_tool(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.start()
    async with attached(daemon) as agent:
        for number in range(5):
            await agent.call("lively__grow", name=f"fresh{number}")
            assert text_of(await agent.call(f"lively__fresh{number}")) == "done"


# -- who may use what -------------------------------------------------------------------------------
async def test_allow_and_deny_lists(daemon: Daemon, log: Path, real_clock: None) -> None:
    lists = {"allowed_tools": ["lively__e*", "lively__nap"], "denied_tools": ["*__env"]}
    daemon.write("agents.d/reader.toml", {"schema": 1, **lists})
    daemon.start()
    async with attached(daemon, agent="reader") as reader, attached(daemon) as anyone:
        assert sorted(await reader.tools()) == ["lively__echo", "lively__nap"]
        assert text_of(await reader.call("lively__echo", text="yes")) == "yes"
        refusals = []
        for name in ("lively__env", "lively__wipe", "lively__no_such_tool", "nobody__echo"):
            with pytest.raises(Refused) as refused:
                await reader.call(name)
            refusals.append((refused.value.code, refused.value.message.replace(name, "")))
        assert len(set(refusals)) == 1, "what is not allowed looks like what is not there"
        assert text_of(await anyone.call("lively__env")).startswith("{")

        daemon.write("agents.d/reader.toml", {"schema": 1, "allowed_tools": ["lively__nap"]})
        daemon.ask("daemon.reload")
        await reader.wait_for(lambda: reader.noticed("notifications/tools/list_changed"))
        assert await reader.tools() == ["lively__nap"]
        with pytest.raises(Refused):
            await reader.call("lively__echo", text="no longer")
        assert text_of(await anyone.call("lively__echo", text="as before")) == "as before"


async def test_an_empty_allowlist_allows_nothing_and_connects_nothing(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.write("agents.d/nobody.toml", {"schema": 1, "allowed_tools": []})
    daemon.start()
    async with attached(daemon, agent="nobody") as agent:
        assert await agent.tools() == []
        with pytest.raises(Refused):
            await agent.call("lively__echo", text="hi")
    assert not heard(log, "start"), "connected only if an attached agent may use it (b01)"


async def test_the_default_socket_becomes_only_an_open_agent(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    daemon.write("agents.d/guest.toml", {"schema": 1, "allowed_tools": ["lively__echo"], "open": True})
    daemon.write("agents.d/vault.toml", {"schema": 1, "allowed_tools": ["lively__*"]})
    daemon.start()
    path = daemon.sockets / "agents" / "default" / "mcp.sock"
    assert sorted(folder.name for folder in path.parents[1].iterdir()) == ["default", "guest", "vault"]
    async with attached(daemon, attach={"agent": "guest"}) as guest:
        assert await guest.tools() == ["lively__echo"]
    for name in ("vault", "stranger"):
        # Refused in words or by hanging up, but never served as that agent.
        with pytest.raises((Refused, ConnectionError, trio.BrokenResourceError)):
            async with attached(daemon, attach={"agent": name}) as agent:
                await agent.tools()


async def test_what_asks_waits_for_a_person_and_what_is_denied_does_not(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    silent = {key: value for key, value in lively(log).items() if key != "default_policy"}
    daemon.server("lively", silent)
    daemon.server("shut", lively(log, default_policy={"approval": "deny"}))
    policies = {"lively__n*": {"risk": "low", "approval": "never"}}
    daemon.write("config.toml", {"tool_policies": policies, "defaults": {"approval_wait": "100ms"}})
    daemon.start()
    async with attached(daemon) as agent:
        assert "lively__wipe" in await agent.tools()
        assert (
            text_of(await agent.call("lively__nap", seconds=0, text="by its own policy"))
            == "by its own policy"
        )
        for name, kind in (
            ("lively__echo", "pending"),
            ("lively__wipe", "pending"),
            ("shut__echo", "denied"),
        ):
            assert kind_of(await agent.call(name, text="x")) == kind
    assert not heard(log, name="wipe")
    assert not heard(log, name="echo")


async def test_a_child_gets_a_minimal_environment(daemon: Daemon, log: Path, real_clock: None) -> None:
    daemon.server("lively", lively(log, env={"MINE": "a=b \u00fc"}))
    daemon.start()
    async with attached(daemon) as agent:
        env = json.loads(text_of(await agent.call("lively__env")))
    assert env["MINE"] == "a=b \u00fc"
    assert env["HOME"] == str(daemon.home.root)
    own = {name for name in env if name.startswith(("MCPD_", "XDG_", "DBUS_"))}
    assert own == {"MCPD_CHILD_OF"}
