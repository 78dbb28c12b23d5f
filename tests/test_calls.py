"""The one path of a call: decided, sent, bounded, recorded, whatever comes of it (DESIGN 6, D3, D9, D13)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.agents.world import MODERN, Agent, Ear, Stage, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import switchable, tiny, write_config, write_server

PROGRESS = "notifications/progress"


def pid_of(stage: Stage, name: str = "lively") -> int:
    return stage.broker.fleet.find(name).status.pid


# ------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        '{"z":1,"a":2,"n":[1.0,1e5,1E+5,-0,12345678901234567890,0.1000]}',
        '{"text":"\\u00e9\\/\\ud83d\\ude42 \u00e9 \U0001f642"}',
        '{"":{"":[]},"null":null}',
        '{"a":{"x":1},"b":{"x":1},"c":"x:y"}',
        '{ "spaced" : [ 1 , 2 ] }',
        '{"deep":' + "[" * 100 + "]" * 100 + "}",
    ],
)
async def test_arguments_reach_the_server_as_the_same_text(
    home: Home, real_clock: None, arguments: str
) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.line(call_line("lively__raw", arguments))
            assert f'"arguments":{arguments}' in text_of((await agent.answer(1))["result"])


async def test_null_arguments_are_absent_ones(home: Home, real_clock: None) -> None:
    """Go clients write an absent map so."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.line(call_line("lively__raw", "null"))
            assert '"arguments":{}' in text_of((await agent.answer(1))["result"])


def call_line(tool: str, arguments: str, meta: str = "{}") -> str:
    params = f'{{"name":{json.dumps(tool)},"arguments":{arguments},"_meta":{meta}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a":1,"a":2}',
        '{"a":1,"\\u0061":2}',
        '{"b":{"a":1,"a":1}}',
        '{"b":[{"a":1,"a":1}]}',
        '{"a":"\\ud83d"}',
        '{"\\udc00":1}',
        '{"a":[["\\ud83d"]]}',
        "[1]",
        '"x"',
        "3",
        "true",
        '{"a":' + "[" * 5000 + "]" * 5000 + "}",
    ],
)
async def test_arguments_with_two_meanings_are_refused_before_anything_is_decided(
    home: Home, real_clock: None, arguments: str
) -> None:
    """b29; an error, because the request is malformed (D13)."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(default_policy={"approval": "deny"}))
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.tools()
            await agent.line(call_line("lively__raw", arguments))
            answer = json.loads(await agent.read_line())
            # What no reader takes apart has no id.
            assert answer["id"] in (1, None)
            assert answer["error"]["code"] in (-32600, -32602, -32700)
            assert not [row for row in ear.kept if row.get("method") == "tools/call"]
            for entry in await stage.journal(tool="raw"):
                assert (entry.outcome, entry.decision) == ("invalid_params", "")


async def test_what_an_agent_says_beside_its_arguments_crosses_only_as_far_as_it_may(
    home: Home, real_clock: None
) -> None:
    """Keys of the protocol are rebuilt on each hop, mcpd's own and baggage never cross (5.19)."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
            sent = {
                "progressToken": "mine",
                "example.com/x": {"kept": [1.50]},
                "plain": None,
                "traceparent": trace,
                "baggage": "secret=1",
                "dev.mcpd/kind": "denied",
                "io.modelcontextprotocol/protocolVersion": "1999-01-01",
                "com.mcp.tools/y": 1,
            }
            await agent.line(call_line("lively__raw", "{}", json.dumps(sent)))
            await agent.answer(1)
            heard = (await ear.hear("heard", name="raw"))["params"]["_meta"]
            assert isinstance(heard.pop("progressToken"), int)
            assert heard == {"example.com/x": {"kept": [1.5]}, "plain": None, "traceparent": trace}


# -------------------------------------------------------------------- deciding


async def test_what_waits_for_a_person_or_is_denied_sends_no_byte(home: Home, real_clock: None) -> None:
    write_config(
        home,
        "[defaults]\napproval_wait = '50ms'\n[tool_policies]\n"
        "'lively__echo' = { approval = 'never' }\n'shut__echo' = { approval = 'never' }\n"
        "'lively__e*' = { approval = 'deny' }\n",
    )
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(default_policy={}))
        write_server(home, "shut", **tiny(default_policy={"approval": "deny"}))
        async with staged(home) as stage:
            agent = await stage.attach()
            assert text_of(await agent.call("lively__echo", text="exact name wins")) == "exact name wins"
            assert text_of(await agent.call("shut__echo", text="tool over server")) == "tool over server"
            for name, kind, words in (
                ("lively__wipe", "pending", "mcpctl approve"),
                ("lively__nap", "pending", "mcpctl approve"),
                ("lively__env", "denied", "the policy denies"),
                ("shut__add", "denied", "the policy denies"),
            ):
                denied = await agent.call(name)
                assert kind_of(denied) == kind
                assert words in text_of(denied)
                assert denied["_meta"]["dev.mcpd/server"] == name.partition("__")[0]
            heard = [row["name"] for row in ear.kept if row.get("method") == "tools/call"]
            assert heard == []
            assert (await ear.hear("heard", method="tools/call"))["name"] == "echo"


# --------------------------------------------------------------------- the result


async def test_a_result_is_cut_at_the_cap_and_it_says_so(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            whole = await agent.call("lively__text", size=102_400)
            assert text_of(whole) == "x" * 102_400
            cut = await agent.call("lively__text", size=102_401)
            assert cut["content"][0]["text"] == "x" * 102_400
            assert "1 bytes of text left out" in cut["content"][1]["text"]
            assert cut["isError"] is False


@pytest.mark.parametrize(("setting", "size"), [("0", 1_000_000), ("'1 KB'", 1024)])
async def test_the_cap_is_a_setting(home: Home, real_clock: None, setting: str, size: int) -> None:
    write_config(home, f"[defaults]\nmax_result = {setting}\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            result = await agent.call("lively__text", size=1_000_000)
            assert result["content"][0]["text"] == "x" * size


# ----------------------------------------------------------------------- time


async def test_a_call_without_a_sign_of_life_times_out_and_is_cancelled(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(default_policy={"approval": "never", "timeout": "300ms"}))
        async with staged(home) as stage:
            agent = await stage.attach()
            began = trio.current_time()
            late = await agent.call("lively__nap", seconds=60)
            assert kind_of(late) == "timed_out"
            assert "0.3 s" in text_of(late)
            assert trio.current_time() - began < 10
            await ear.hear("cancelled")
            assert text_of(await agent.call("lively__echo", text="goes on")) == "goes on"
            [entry] = await stage.journal(outcome="timed_out")
            assert entry.duration >= 0.3


async def test_progress_starts_the_time_again_but_not_for_ever(home: Home, real_clock: None) -> None:
    """D9: since its own last progress; and a ceiling over all."""
    write_config(home, "[defaults]\ntimeout_max = '1500ms'\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(default_policy={"approval": "never", "timeout": "500ms"}))
        async with staged(home) as stage:
            agent = await stage.attach()
            assert text_of(await agent.call("lively__work", seconds=0.9, text="done")) == "done"
            late = await agent.call("lively__work", seconds=60)
            assert kind_of(late) == "timed_out"
            assert "1.5 s" in text_of(late)
            assert "no answer and no progress" not in text_of(late), "it did report progress"
            await ear.hear("cancelled")


async def test_no_limit_means_no_limit(home: Home, real_clock: None) -> None:
    write_config(home, "[defaults]\ntimeout_max = 0\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(default_policy={"approval": "never", "timeout": 0}))
        async with staged(home) as stage:
            agent = await stage.attach()
            assert text_of(await agent.call("lively__nap", seconds=0.3, text="in the end")) == "in the end"


# -------------------------------------------------------------------- progress


async def test_progress_reaches_the_call_it_belongs_to_under_its_own_token(
    home: Home, real_clock: None
) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agents = [await stage.attach(), await stage.attach(revision=MODERN), await stage.attach()]
            await agents[0].tools()
            tokens = [1, 1, "1"]
            for agent, token in zip(agents, tokens, strict=True):
                await agent.begin("lively__work", "w", token, seconds=0.5, text="worked")
            sent = {
                (await ear.hear("heard", name="work"))["params"]["_meta"]["progressToken"] for _ in agents
            }
            assert len(sent) == 3
            for agent, token in zip(agents, tokens, strict=True):
                assert text_of((await agent.answer("w"))["result"]) == "worked"
                steps = [message["params"] for message in agent.kept]
                agent.kept.clear()
                assert steps
                assert [step["progress"] for step in steps] == list(range(1, len(steps) + 1))
                assert all(step["progressToken"] == token for step in steps)
                assert all(type(step["progressToken"]) is type(token) for step in steps)
                await agent.nothing_more()


@pytest.mark.parametrize("meta", [{}, {"progressToken": None}])
async def test_without_a_token_nobody_hears_of_progress(
    home: Home, real_clock: None, meta: dict[str, Any]
) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            arguments = {"seconds": 0.3, "text": "worked"}
            await agent.line(call_line("lively__work", json.dumps(arguments), json.dumps(meta)))
            assert text_of((await agent.answer(1))["result"]) == "worked"
            await agent.nothing_more()


# ------------------------------------------------------------- a crash under it


async def test_a_call_that_may_have_happened_is_not_repeated(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent, other = await stage.attach(), await stage.attach()
            await other.begin("lively__nap", "n", seconds=60)
            await ear.hear("heard", name="nap")
            unknown = await agent.call("lively__bye")
            assert kind_of(unknown) == "outcome_unknown"
            assert "may or may not have taken effect" in text_of(unknown)
            assert kind_of((await other.answer("n"))["result"]) == "outcome_unknown"
            # The restart still happens, and what is called meanwhile waits for it.
            assert text_of(await agent.call("lively__echo", text="back")) == "back"
            await ear.hear("heard", name="bye")
            await ear.hear("heard", name="echo")
            assert not [row for row in ear.kept if row.get("name") in ("bye", "nap")]
            assert len(await stage.journal(outcome="outcome_unknown")) == 2


async def test_a_call_that_provably_never_arrived_is_sent_after_the_restart(
    home: Home, real_clock: None
) -> None:
    """Whoever meets the dead pipe first, the loop or the call: the outcome is the same (D3)."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            for turn in range(2):
                await agent.call("lively__echo", text="up")
                pid = pid_of(stage)
                os.kill(pid, signal.SIGKILL)
                # Nothing else runs until the process is surely dead and its pipe broken.
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                assert text_of(await agent.call("lively__wipe")) == "done", turn
                assert pid_of(stage) != pid


async def test_replay_always_sends_it_once_more_and_no_more(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(replay="always"))
        async with staged(home) as stage:
            agent = await stage.attach()
            assert kind_of(await agent.call("lively__bye")) == "outcome_unknown"
            for _ in range(2):
                await ear.hear("heard", name="bye")
            assert not [row for row in ear.kept if row.get("name") == "bye"]


async def test_replay_never_gives_up_at_once(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(replay="never"))
        async with staged(home) as stage:
            agent = await stage.attach()
            assert kind_of(await agent.call("lively__bye")) == "outcome_unknown"
            assert text_of(await agent.call("lively__echo", text="the restart still happens"))


async def test_a_call_that_waits_for_the_restart_can_be_taken_back(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(replay="always"))
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.tools()
            await agent.begin("lively__bye", 1)
            await stage.until(
                "status", lambda: stage.broker.fleet.find("lively").status.state == "restarting"
            )
            await agent.send("notifications/cancelled", {"requestId": 1})
            assert text_of(await agent.call("lively__echo", text="next")) == "next"
            await agent.nothing_more()
            await ear.hear("heard", name="bye")
            assert not [row for row in ear.kept if row.get("name") == "bye"]
            assert len(await stage.journal(outcome="cancelled")) == 1


# ------------------------------------------------------ servers that are not there


@pytest.mark.parametrize("cached", [False, True])
async def test_tools_of_a_server_that_does_not_start_say_why(
    home: Home, real_clock: None, cached: bool
) -> None:
    """b26: unavailable, with reason and next step; what was listed stays listed; nobody else notices."""
    flag = home.root / "flag"
    write_server(home, "tiny", **switchable(flag, "echo 'out of order' >&2; exit 7"))
    write_server(home, "good", **tiny())
    if cached:
        async with staged(home) as stage:
            await (await stage.attach()).tools()
    flag.touch()
    async with staged(home) as stage:
        agent = await stage.attach()
        assert len(await agent.tools()) == (14 if cached else 7)
        refused = await agent.call("tiny__echo", text="x")
        assert kind_of(refused) == "unavailable"
        assert "out of order" in text_of(refused)
        assert "mcpctl logs tiny" in text_of(refused)
        assert refused["_meta"]["dev.mcpd/reason"] == "exited"
        assert text_of(await agent.call("good__echo", text="fine")) == "fine"
        assert len(await agent.tools()) == (14 if cached else 7)
        await agent.nothing_more()


async def test_tools_of_a_server_that_died_for_good_stay_listed(home: Home, real_clock: None) -> None:
    flag = home.root / "flag"
    write_server(home, "tiny", **switchable(flag, "echo 'out of order' >&2; exit 7"))
    async with staged(home) as stage:
        agent = await stage.attach()
        before = await agent.tools()
        flag.touch()
        assert kind_of(await agent.call("tiny__crash")) == "outcome_unknown"
        broken = await agent.call("tiny__echo", text="x")
        assert kind_of(broken) == "unavailable"
        assert "out of order" in text_of(broken)
        assert await agent.tools() == before
        await agent.nothing_more()


async def test_nobody_is_asked_about_a_server_that_is_known_to_be_down(home: Home, real_clock: None) -> None:
    flag = home.root / "flag"
    write_config(home, "[tool_policies]\n'tiny__echo' = { approval = 'always' }\n")
    write_server(home, "tiny", **switchable(flag, "exit 7"))
    async with staged(home) as stage:
        agent, operator = await stage.attach(), await stage.operator()
        await agent.tools()
        flag.touch()
        assert kind_of(await agent.call("tiny__crash")) == "outcome_unknown"
        assert kind_of(await agent.call("tiny__add", a=1, b=2)) == "unavailable"
        assert kind_of(await agent.call("tiny__echo", text="x")) == "unavailable"
        assert (await operator.call("approvals.list"))["approvals"] == []


async def test_a_server_disabled_under_a_call(home: Home, real_clock: None) -> None:
    """Running calls are told, its tools are gone, and nobody else notices (c08, b31)."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        write_server(home, "tiny", **tiny())
        async with staged(home) as stage:
            agent, operator = await stage.attach(), await stage.operator()
            await agent.tools()
            await agent.begin("lively__nap", 1, seconds=60)
            await ear.hear("heard", name="nap")
            await operator.call("servers.disable", server="lively")
            assert kind_of((await agent.answer(1))["result"]) == "outcome_unknown"
            await agent.notice("notifications/tools/list_changed")
            assert (await agent.refusal("tools/call", {"name": "lively__echo"})).kind == "no_such_tool"
            assert text_of(await agent.call("tiny__echo", text="as before")) == "as before"


@pytest.mark.parametrize("method", ["servers.disable", "servers.remove"])
async def test_a_server_that_goes_while_a_call_waits_for_it(
    home: Home, real_clock: None, method: str
) -> None:
    flag = home.root / "flag"
    write_server(home, "tiny", **switchable(flag, "exec cat >/dev/null"))
    async with staged(home) as stage:
        await (await stage.attach()).tools()
    flag.touch()
    async with staged(home) as stage:
        agent, operator = await stage.attach(), await stage.operator()
        assert len(await agent.tools()) == 7
        await agent.begin("tiny__echo", 1, text="x")
        await stage.until("status", lambda: stage.broker.fleet.find("tiny").status.pid > 0)
        await operator.call(method, server="tiny")
        answer = await agent.answer(1)
        if method == "servers.disable":
            assert kind_of(answer["result"]) == "disabled"
            assert "mcpctl enable tiny" in text_of(answer["result"])
        else:
            assert answer["error"]["code"] == -32602
            assert answer["error"]["data"]["kind"] == "no_such_server"


# ------------------------------------------------------------------ the journal


async def test_every_outcome_is_recorded_with_who_and_why(home: Home, real_clock: None) -> None:
    write_config(home, "[tool_policies]\n'*__add' = { approval = 'deny', risk = 'high' }\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        write_server(home, "tiny", **tiny())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.call("tiny__echo", text="\u00e9")
            await agent.call("tiny__fail")
            await agent.call("tiny__add", a=1, b=2)
            assert (await agent.refusal("tools/call", {"name": "lively__refuse"})).code == -32099
            await agent.line(call_line("tiny__echo", '{"a":1,"a":1}'))
            await agent.answer(1)
            assert (await agent.refusal("tools/call", {"name": "tiny__nothing"})).code == -32602

            [ok] = await stage.journal(outcome="ok")
            assert (ok.server, ok.tool, ok.method) == ("tiny", "echo", "tools/call")
            assert (ok.session, ok.agent, ok.pid) == ("s1", "default", os.getpid())
            assert ok.exe == os.readlink("/proc/self/exe")
            assert (ok.decision, ok.kind) == ("allow", "request")
            assert 'approval never: default_policy of server "tiny"' in ok.because
            assert ok.request_bytes == len('{"text": "\\u00e9"}')
            assert ok.result_bytes > 20
            assert 0 < ok.duration < 20

            [denied] = await stage.journal(outcome="denied")
            assert (denied.tool, denied.decision, denied.result_bytes) == ("add", "deny", 0)
            assert 'tool policy "*__add"' in denied.because
            assert [e.tool for e in await stage.journal(outcome="tool_error")] == ["fail"]
            assert [e.tool for e in await stage.journal(outcome="server_error")] == ["refuse"]
            assert [e.decision for e in await stage.journal(outcome="invalid_params")] == [""]
            [unknown] = await stage.journal(outcome="no_such_tool")
            assert (unknown.server, unknown.tool, unknown.agent) == ("", "tiny__nothing", "default")


async def test_a_hundred_calls_at_once_each_get_their_own_answer(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agents = [await stage.attach() for _ in range(20)]
            await agents[0].tools()

            async def five(agent: Agent, name: int) -> None:
                for number in range(5):
                    text = f"{name}/{number}"
                    await agent.begin("lively__echo", number, text=text)
                for number in range(5):
                    assert text_of((await agent.answer(number))["result"]) == f"{name}/{number}"

            async def listen() -> None:
                while True:
                    await ear.hear("never")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen)
                async with trio.open_nursery() as callers:
                    for name, agent in enumerate(agents):
                        callers.start_soon(five, agent, name)
                nursery.cancel_scope.cancel()
            assert len(await stage.journal(outcome="ok")) == 100
            assert stage.broker.fleet.find("lively").status.attempts == 0


# ---------------------------------------------------- what changes while a call waits


def late(flag: Path, **fields: Any) -> dict[str, Any]:
    """A tiny server that serves only once the flag exists."""
    real = tiny()
    script = f"until test -e {flag}; do sleep 0.05; done; exec " + '"$@"'
    return {**real, "command": "sh", "args": ["-c", script, "sh", real["command"], *real["args"]], **fields}


@pytest.mark.parametrize("denial", ["policy", "list"])
async def test_a_call_that_waited_for_its_server_is_decided_by_what_counts_then(
    home: Home, real_clock: None, denial: str
) -> None:
    """a01, a29: the decision is the one that holds when the request would be sent."""
    flag = home.root / "flag"
    flag.touch()
    write_server(home, "tiny", **late(flag))
    async with staged(home) as stage:
        await (await stage.attach()).tools()
    flag.unlink()
    async with staged(home) as stage:
        agent, operator = await stage.attach(), await stage.operator()
        await agent.tools()
        await agent.begin("tiny__echo", 1, text="may no longer be said")
        await stage.until("status", lambda: stage.broker.fleet.find("tiny").status.pid > 0)
        if denial == "policy":
            write_server(home, "tiny", **late(flag, default_policy={"approval": "deny"}))
        else:
            write_config(home, '[agents.default]\ndenied_tools = ["tiny__echo"]\n')
        await operator.call("daemon.reload")
        flag.touch()
        if denial == "policy":
            assert kind_of((await agent.answer(1))["result"]) == "denied"
        else:
            assert "tiny__echo" in json.dumps((await agent.answer(1))["error"])


async def test_calls_that_wait_for_their_server_leave_their_places_to_others(
    home: Home, real_clock: None
) -> None:
    """a11: eight calls to a server that does not come up keep nobody from a healthy one."""
    write_server(home, "stuck", **late(home.root / "never"))
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach()
        for number in range(12):
            await agent.begin("stuck__echo", number, text="x")
        assert text_of(await agent.call("tiny__echo", text="served")) == "served"


async def test_what_has_waited_for_a_server_reaches_it_by_the_sessions_places(
    home: Home, real_clock: None
) -> None:
    """All of them met the server at once that had just been restarted: 242 of one session (D9)."""
    write_config(home, "[defaults]\nmax_in_flight_session = 3\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.tools()
            for number in range(20):
                await agent.begin("lively__nap", number, seconds=60)
            for _ in range(3):
                await ear.hear("heard", name="nap")
            os.kill(pid_of(stage), signal.SIGKILL)
            lost = [(await agent.read())["id"] for _ in range(3)]
            assert sorted(lost) == [0, 1, 2]
            again = [
                (await ear.hear("heard", name="nap"))["params"]["_meta"]["progressToken"] for _ in range(3)
            ]
            assert await agent.ask("ping") == {}
            assert [row for row in ear.kept if row.get("name") == "nap"] == []
            assert len(again) == stage.session._serving == 3
            for number in range(3, 20):
                await agent.send("notifications/cancelled", {"requestId": number})
            assert text_of(await agent.call("lively__raw"))
            assert stage.session._serving == 0


async def test_a_session_waits_for_an_unknown_server_once(home: Home, real_clock: None) -> None:
    """D5: the first listing waits at most five seconds, the later ones do not."""
    flag = home.root / "flag"
    write_server(home, "stuck", **late(flag))
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach()
        assert len(await agent.tools()) == 7
        with trio.fail_after(2):
            assert len(await agent.tools()) == 7
        flag.touch()
        await agent.notice("notifications/tools/list_changed")
        assert len(await agent.tools()) == 14
