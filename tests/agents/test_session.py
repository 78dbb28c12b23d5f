"""One attached process: its ids, its places, its slowness and its end are its own affair (D9, n03)."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.agents.world import MODERN, Agent, Ear, Stage, kind_of, meta, staged, text_of
from tests.conftest import Home
from tests.control.world import tiny, write_config, write_server

ATTACH = "notifications/dev.mcpd/attach"
CHANGED = "notifications/tools/list_changed"
ANSWER = '{"jsonrpc":"2.0","id":1,"result":{}}'


def request(ident: str, method: str = "ping", params: str = "{}") -> str:
    """A request's line, its id as JSON text."""
    return f'{{"jsonrpc":"2.0","id":{ident},"method":"{method}","params":{params}}}'


def nap(ident: Any, seconds: float, text: str = "") -> str:
    params = {"name": "lively__nap", "arguments": {"seconds": seconds, "text": text}}
    return request(json.dumps(ident), "tools/call", json.dumps(params))


# ------------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    "ident",
    [
        "0",
        "1",
        "-7",
        "-0",
        "1" + "0" * 40,
        "1.0",
        '""',
        '"1"',
        '"a b"',
        '"\\u00e9\\n\\"\\\\"',
        '"\u65e5\u672c"',
        '"' + "x" * 298 + '"',
    ],
)
async def test_an_id_comes_back_as_it_was_spelled(home: Home, real_clock: None, ident: str) -> None:
    async with staged(home) as stage:
        agent = await stage.attach()
        await agent.line(request(ident))
        assert await agent.read_line() == f'{{"jsonrpc":"2.0","id":{ident},"result":{{}}}}'.encode()


@pytest.mark.parametrize(
    "ident",
    [
        "null",
        "true",
        "false",
        "1.5",
        "1e-1",
        "1e999",
        "{}",
        '{"a":1}',
        "[]",
        "[1]",
        '"' + "x" * 400 + '"',
        "1" * 400,
    ],
)
async def test_anything_else_is_no_id(home: Home, real_clock: None, ident: str) -> None:
    async with staged(home) as stage:
        agent = await stage.attach()
        await agent.line(request(ident))
        error = (await agent.answer(None))["error"]
        assert error["code"] == -32600
        assert await agent.ask("ping") == {}


async def test_an_id_is_free_again_once_it_was_answered(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.tools()
            await agent.line(nap("x", 60), nap("x", 0))
            assert (await agent.answer(None))["error"]["code"] == -32600, "the first one is still open"
            await agent.line(request('"y"'))
            assert (await agent.answer("y"))["result"] == {}
            await ear.hear("heard", method="tools/call")
            await agent.send("notifications/cancelled", {"requestId": "x"})
            await ear.hear("cancelled")
            await agent.ask("ping")
            await agent.line(nap("x", 0, "free"))
            assert text_of((await agent.answer("x"))["result"]) == "free"


async def test_the_number_and_the_text_are_two_ids(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.line(nap(7, 0.2, "number"), nap("7", 0, "text"))
            assert text_of((await agent.answer("7"))["result"]) == "text"
            assert text_of((await agent.answer(7))["result"]) == "number"


async def test_the_same_ids_in_two_sessions_never_meet(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            one, two = await stage.attach(), await stage.attach(revision=MODERN)
            for number in range(8):
                await one.begin("lively__nap", number, seconds=0.01 * number, text=f"one {number}")
                await two.begin("lively__nap", number, seconds=0.01 * (7 - number), text=f"two {number}")
            for number in range(8):
                assert text_of((await one.answer(number))["result"]) == f"one {number}"
                assert text_of((await two.answer(number))["result"]) == f"two {number}"


# ----------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("line", "code", "ident"),
    [
        (b"garbage", -32700, None),
        (b"{", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700, 1),
        (b'{"jsonrpc":"2.0","id":"a","method":"p\xffng"}', -32700, "a"),
        (b"\xff\xfe\x00", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": NaN}}', -32700, 1),
        (b'{"method":"ping","params":{"a":"\\ud83d"},"jsonrpc":"2.0","id":1}', -32700, 1),
        (b'{"method":"ping","params":{"id":7},"jsonrpc":"2.0","id":', -32700, None),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":1}', -32600, None),
        (b"{}", -32600, None),
        (b"[]", -32600, None),
        (b"3", -32600, None),
        (b"null", -32600, None),
        (b'"text"', -32600, None),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
            -32600,
            1,
        ),
    ],
)
async def test_what_is_no_message_is_answered_and_forgotten(
    home: Home, real_clock: None, line: bytes, code: int, ident: Any
) -> None:
    """Under its id where that can be seen: its caller would else wait for an answer until its own limit."""
    async with staged(home) as stage:
        agent = await stage.attach()
        await agent.line(line)
        error = (await agent.answer(ident))["error"]
        assert error["code"] == code
        await agent.nothing_more()


async def test_what_is_no_message_does_not_answer_an_open_request(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.line(nap(7, 0.2, "slept"))
            await ear.hear("heard", name="nap")
            await agent.line('{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":NaN}}')
            assert (await agent.answer(None))["error"]["code"] == -32700
            assert text_of((await agent.answer(7))["result"]) == "slept"


async def test_blank_lines_answers_and_unknown_notices_get_no_answer(home: Home, real_clock: None) -> None:
    async with staged(home) as stage:
        agent = await stage.attach()
        await agent.line("", "   ", "\r")
        await agent.line(ANSWER, '{"jsonrpc":"2.0","id":1,"error":{"code":1}}')
        await agent.send("notifications/no/such", {"x": 1})
        await agent.send("notifications/roots/list_changed")
        idents: list[Any] = [None, 99, -1, {}, [], "x", True]
        for ident in idents:
            await agent.send("notifications/cancelled", {"requestId": ident})
        await agent.send("notifications/cancelled")
        await agent.line('{"jsonrpc":"2.0","method":"notifications/cancelled","params":[1]}')
        await agent.nothing_more()


async def test_a_line_over_the_limit_costs_only_itself(home: Home, real_clock: None) -> None:
    async with staged(home) as stage:
        agent = await stage.attach()
        large = json.dumps({"x": "x" * (17 << 20)})
        last = f'{{"method":"ping","params":{large},"jsonrpc":"2.0","id":"two"}}'
        notice = f'{{"jsonrpc":"2.0","method":"notifications/x","params":{large}}}'
        for line, ident in ((request("1", params=large), 1), (last, "two"), (notice, None)):
            await agent.line(line, request("7"))
            error = (await agent.answer(ident))["error"]
            assert error["code"] == -32600
            assert "16 MiB" in error["message"]
            assert (await agent.answer(7))["result"] == {}


async def test_bytes_may_come_in_any_pieces(home: Home, real_clock: None) -> None:
    async with staged(home) as stage:
        agent = await stage.attach()
        text = "".join(request(str(number)) + "\r\n" for number in range(5)).encode()
        for at in range(len(text)):
            await agent.stream.send_all(text[at : at + 1])
        for number in range(5):
            assert (await agent.answer(number))["result"] == {}


# ---------------------------------------------------------------------- places


async def test_what_was_not_even_begun_is_recorded(home: Home, real_clock: None) -> None:
    """n12: what there was no place for, and what still waited when its agent left."""
    write_config(home, "[defaults]\nmax_in_flight_session = 1\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            leaving, staying = await stage.attach(), await stage.attach()
            await leaving.tools()
            await leaving.line(*[nap(number, 60) for number in range(257)])
            for number in (257, 258):
                await leaving.line(request(str(number), "resources/read", '{"uri":"mcpd://a/b:c"}'))
                assert (await leaving.answer(number))["error"]["data"]["kind"] == "busy"
            await ear.hear("heard", name="nap")
            await leaving.stream.aclose()
            await ear.hear("cancelled")
            assert text_of(await staying.call("lively__raw"))
            naps = await stage.journal(method="tools/call", outcome="cancelled")
            assert [entry.tool for entry in naps].count("lively__nap") == 256
            assert [entry.tool for entry in naps].count("nap") == 1
            busy = await stage.journal(outcome="busy")
            assert [(entry.tool, entry.method) for entry in busy] == [("mcpd://a/b:c", "resources/read")] * 2


async def test_eight_requests_run_and_the_next_wait_in_their_order(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.tools()
            await agent.line(*[nap(number, 60, str(number)) for number in range(12)])
            running = [await texts(ear) for _ in range(8)]
            assert sorted(running) == sorted(map(str, range(8)))
            assert await agent.ask("ping") == {}, "answered promptly, whatever runs (5.7)"
            await agent.send("notifications/cancelled", {"requestId": 9})  # it has not even begun
            for done, following in ((3, "8"), (0, "10"), (8, "11")):
                await agent.send("notifications/cancelled", {"requestId": done})
                await ear.hear("cancelled")
                assert await texts(ear) == following
            await agent.nothing_more()
            assert not [row for row in ear.kept if row.get("name") == "nap"]


async def texts(ear: Ear) -> str:
    text = (await ear.hear("heard", name="nap"))["params"]["arguments"]["text"]
    assert isinstance(text, str)
    return text


async def test_more_than_256_waiting_requests_are_refused_as_busy(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent, other = await stage.attach(), await stage.attach()
            await agent.tools()
            await agent.line(*[nap(number, 60) for number in range(8)])
            for _ in range(8):
                await ear.hear("heard", name="nap")
            for start in range(8, 264, 64):
                await agent.line(*[nap(number, 60) for number in range(start, start + 64)])
            await agent.line(nap("too much", 60), request('"list"', "tools/list"), request('"p"'))
            assert kind_of((await agent.answer("too much"))["result"]) == "busy"
            assert (await agent.answer("list"))["error"]["data"]["kind"] == "busy"
            assert (await agent.answer("p"))["result"] == {}
            assert agent.kept == []
            assert text_of(await other.call("lively__echo", text="unharmed")) == "unharmed"
            await agent.send("notifications/cancelled", {"requestId": 0})
            await ear.hear("heard", name="nap")
            await agent.line(nap("again", 60))
            await agent.nothing_more()


async def test_the_number_of_places_is_a_setting(home: Home, real_clock: None) -> None:
    write_config(home, "[defaults]\nmax_in_flight_session = 2\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.tools()
            await agent.line(nap(1, 60), nap(2, 60), nap(3, 60))
            for _ in range(2):
                await ear.hear("heard", name="nap")
            assert await agent.ask("ping") == {}
            assert not ear.kept or all(row.get("name") != "nap" for row in ear.kept)
            await agent.send("notifications/cancelled", {"requestId": 1})
            await ear.hear("heard", name="nap")


# ------------------------------------------------------------ cancel and the end


async def test_a_cancelled_call_is_cancelled_at_its_server_and_gets_no_answer(
    home: Home, real_clock: None
) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent, other = await stage.attach(), await stage.attach()
            await agent.begin("lively__nap", 1, seconds=60)
            heard = await ear.hear("heard", name="nap")
            await other.begin("lively__nap", 1, seconds=0.3, text="mine goes on")
            await ear.hear("heard", name="nap")
            await agent.send("notifications/cancelled", {"requestId": 1, "reason": "changed my mind"})
            cancelled = await ear.hear("cancelled")
            assert cancelled["id"] == heard["params"]["_meta"]["progressToken"], "an id of mcpd's own"
            assert text_of((await other.answer(1))["result"]) == "mine goes on"
            await agent.nothing_more()
            assert len(await stage.journal(outcome="cancelled")) == 1


async def test_a_finished_call_cannot_be_cancelled(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.begin("lively__echo", 1, text="x")
            await agent.answer(1)
            await agent.send("notifications/cancelled", {"requestId": 1})
            assert text_of(await agent.call("lively__echo", text="y")) == "y"
            assert not [row for row in ear.kept if row.get("method") == "notifications/cancelled"]


async def test_an_agent_that_leaves_takes_its_own_calls_along(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            leaving, staying = await stage.attach(), await stage.attach()
            await staying.begin("lively__nap", 1, seconds=0.5, text="still here")
            tokens = {(await ear.hear("heard", name="nap"))["params"]["_meta"]["progressToken"]}
            for number in range(3):
                await leaving.begin("lively__nap", number, seconds=60)
                await ear.hear("heard", name="nap")
            before = set(stage.broker.sessions)
            await leaving.stream.aclose()
            gone = {(await ear.hear("cancelled"))["id"] for _ in range(3)}
            assert len(gone) == 3
            assert not gone & tokens
            assert text_of((await staying.answer(1))["result"]) == "still here"
            await stage.until("sessions", lambda: len(stage.broker.sessions) == len(before) - 1)
            assert len(await stage.journal(outcome="cancelled")) == 3


async def eof(agent: Agent) -> None:
    with pytest.raises(EOFError):
        await agent.read_line()


async def test_answers_are_still_given_to_who_has_only_finished_writing(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.line(nap(1, 0.2, "late"), nap(2, 0, "soon"))
            agent.stream.socket.shutdown(socket.SHUT_WR)
            assert text_of((await agent.answer(2))["result"]) == "soon"
            assert text_of((await agent.answer(1))["result"]) == "late"
            await eof(agent)
            await stage.until("sessions", lambda: not stage.broker.sessions)


async def test_answers_that_wait_to_be_read_survive_the_end_of_writing(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny("--tools", "900"))
    async with staged(home) as stage:
        agent = stage.connect(buffer=4096)
        await agent.initialize()
        await agent.line(*[request(str(number), "tools/list") for number in range(5)])
        await stage.until("catalog", lambda: stage.broker.fleet.find("tiny").catalog is not None)
        session = stage.session
        await busy_until(lambda: session.outlet.queued > 100_000 and not session._running)
        agent.stream.socket.shutdown(socket.SHUT_WR)
        for number in range(5):
            assert len((await agent.answer(number))["result"]["tools"]) == 500
        await eof(agent)


async def busy_until(condition: Any) -> None:
    with trio.fail_after(20):
        while not condition():
            await trio.lowlevel.checkpoint()


async def test_who_hangs_up_after_writing_is_not_waited_for(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.begin("lively__nap", 1, seconds=60)
            await ear.hear("heard", name="nap")
            agent.stream.socket.shutdown(socket.SHUT_WR)
            await agent.stream.aclose()
            await ear.hear("cancelled")
            await stage.until("sessions", lambda: not stage.broker.sessions)


# ----------------------------------------------------------------- slow readers


async def test_a_slow_reader_keeps_only_itself_waiting_and_loses_notices(
    home: Home, real_clock: None
) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            slow = stage.connect(buffer=4096)
            await slow.initialize()
            await slow.tools()
            session = stage.session
            quick = await stage.attach()
            for number in range(8):
                await slow.begin("lively__text", number, size=100_000)
            await busy_until(lambda: session.outlet.queued > 600_000)
            await slow.begin("lively__work", "w", token="t", seconds=0.5, text="worked")
            for number in range(3):
                await quick.call("lively__grow", name=f"fresh{number}")
                assert f"lively__fresh{number}" in await quick.tools()
            assert text_of(await quick.call("lively__nap", seconds=0.6, text="unharmed")) == "unharmed"

            for number in range(8):
                assert text_of((await slow.answer(number))["result"]) == "x" * 100_000
            assert text_of((await slow.answer("w"))["result"]) == "worked"
            await slow.notice(CHANGED)
            assert slow.kept == [], "no progress, and one notice for three changes"
            assert {f"lively__fresh{number}" for number in range(3)} <= set(await slow.tools())
            await slow.nothing_more()


async def test_a_subscription_is_acknowledged_to_a_slow_reader_as_well(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny("--tools", "900"))
    async with staged(home) as stage:
        agent = stage.connect(revision=MODERN, buffer=4096)
        await agent.send("tools/list", {}, "first")
        size = len(await agent.read_line())
        session = stage.session
        for number in range(8):
            await agent.send("tools/list", {}, number)
        # All are answered, so that none can bring the change itself; the kernel holds less than one.
        await busy_until(lambda: session.outlet.queued > max(7 * size, 256 << 10))
        await agent.send("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "sub")
        await busy_until(lambda: session.notices.streams)
        stage.broker.fleet.apply(stage.broker.config, frozenset({"tiny"}), {})
        for number in range(8):
            await agent.answer(number)
        assert (await agent.read())["method"] == "notifications/subscriptions/acknowledged"
        assert (await agent.read())["method"] == CHANGED


async def test_from_a_reader_that_lets_much_lie_nothing_more_is_taken(home: Home, real_clock: None) -> None:
    """Backpressure instead of memory: what is kept for it stays bounded."""
    write_server(home, "tiny", **tiny("--tools", "900"))
    async with staged(home) as stage:
        agent = stage.connect(buffer=4096)
        await agent.initialize()
        await agent.tools()
        session = stage.session
        # One answer has some 60 KB, all of them five times what may lie about.
        count = 350
        most = 0

        async def ask() -> None:
            for number in range(count):
                await agent.line(request(str(number), "tools/list"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await busy_until(lambda: session.outlet.queued > 4 << 20)
            for number in range(count):
                most = max(most, session.outlet.queued)
                await agent.answer(number)
        assert most < 5 << 20, "the limit and what eight requests bring"


# ---------------------------------------------------------------------- attach


async def refused_for_all(agent: Agent) -> list[tuple[int, str]]:
    """Every request is refused for the same reason, and the session goes on."""
    found = []
    for method, params in (
        ("initialize", {"protocolVersion": "2025-11-25"}),
        ("ping", {}),
        ("tools/list", {"_meta": meta()}),
        ("tools/call", {"name": "tiny__echo", "_meta": meta()}),
        ("no/such", {}),
    ):
        error = await agent.refusal(method, params)
        found.append((error.code, error.kind))
    assert len(set(found)) == 1
    return found


@pytest.mark.parametrize(
    ("attach", "code", "kind"),
    [
        ({"agent": "stranger"}, -32602, "no_such_agent"),
        ({"server": "nothing"}, -32602, "no_such_server"),
        ({"agent": "vault"}, 1021, "refused"),
        ({"root": "/no/such/folder"}, -32602, "invalid_params"),
        ({"root": "nul\0byte"}, -32602, "invalid_params"),
        ({"agnet": "typo"}, -32602, "invalid_params"),
        ({"without": "tiny"}, -32602, "invalid_params"),
        ({"without": ["x"] * 257}, -32602, "invalid_params"),
        ({"agent": "x" * 1_000_000}, -32602, "no_such_agent"),
        ({"server": "x" * 1_000_000}, -32602, "no_such_server"),
        ({"root": "x" * 1_000_000}, -32602, "invalid_params"),
        ({"server": None}, -32602, "invalid_params"),
    ],
)
async def test_a_mistake_in_the_attach_line_refuses_everything(
    home: Home, real_clock: None, attach: dict[str, Any], code: int, kind: str
) -> None:
    write_server(home, "tiny", **tiny())
    write_config(home, "[agents.vault]\nallowed_tools = ['*']\n")
    async with staged(home) as stage:
        agent = stage.connect()
        await agent.send(ATTACH, attach)
        assert (await refused_for_all(agent))[0] == (code, kind)
        assert len(stage.session.refusal.message) < 500 if stage.session.refusal else False
        assert not stage.broker.fleet.find("tiny").status.pid


async def test_a_refused_session_keeps_nothing_of_its_requests(home: Home, real_clock: None) -> None:
    async with staged(home) as stage:
        agent = stage.connect()
        await agent.send(ATTACH, {"server": "nothing"})
        await refused_for_all(agent)
        assert stage.session.refusal is not None
        assert stage.session.refusal.__traceback__ is None
        assert stage.session.refusal.__context__ is None


async def test_a_server_of_others_does_not_differ_from_one_that_is_not_there(
    home: Home, real_clock: None
) -> None:
    for name in ("own", "theirs"):
        write_server(home, name, **tiny())
    write_config(home, "[agents.guest]\nallowed_tools = ['own__*']\n")
    async with staged(home) as stage:
        answers = []
        for name in ("theirs", "nobody"):
            agent = stage.connect("guest")
            await agent.send(ATTACH, {"server": name})
            await agent.send("ping", ident=1)
            answers.append(json.dumps(await agent.answer(1)).replace(name, "NAME"))
        assert answers[0] == answers[1]
        assert len(await (await stage.attach("guest", server="own")).tools()) == 7


async def test_what_is_left_out_is_kept_as_names_that_servers_can_have(home: Home, real_clock: None) -> None:
    write_server(home, "a", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach(without=["a", "later", "x" * 1_000_000, "No Name", ""])
        assert stage.session.key[2] == {"a", "later"}
        assert await agent.tools() == []


async def test_who_sends_nothing_but_garbage_is_not_listened_to_for_ever(
    home: Home, real_clock: None
) -> None:
    async with staged(home) as stage:
        agent = await stage.attach()
        for _ in range(3):
            await agent.line(*["1"] * 99, request("7"))
            assert (await agent.answer(7))["result"] == {}
        agent.kept.clear()
        await agent.line(*["1"] * 30_000)
        errors = [(await agent.read())["error"] for _ in range(101)]
        assert "malformed" in errors[-1]["message"]
        with pytest.raises((EOFError, trio.BrokenResourceError)):
            await agent.read()


async def test_garbage_in_an_array_counts_as_well(home: Home, real_clock: None) -> None:
    async with staged(home) as stage:
        agent = await stage.attach(revision="2025-03-26")
        await agent.line(f"[{','.join(['1'] * 200)}]")
        assert len(await agent.read()) == 200
        assert "malformed" in (await agent.answer(None))["error"]["message"]
        with pytest.raises(EOFError):
            await agent.read()


@pytest.mark.parametrize("params", ["[1]", "3", "null", '"x"'])
async def test_an_attach_line_of_another_shape_is_a_mistake(
    home: Home, real_clock: None, params: str
) -> None:
    async with staged(home) as stage:
        agent = stage.connect()
        await agent.line(f'{{"jsonrpc":"2.0","method":"{ATTACH}","params":{params}}}')
        assert (await refused_for_all(agent))[0] == (-32602, "invalid_params")


async def test_an_attach_line_without_members_changes_nothing(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agent = stage.connect()
        await agent.line(f'{{"jsonrpc":"2.0","method":"{ATTACH}"}}')
        await agent.initialize()
        assert len(await agent.tools()) == 7


async def test_only_the_first_line_attaches(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    write_server(home, "other", **tiny())
    async with staged(home) as stage:
        agent = stage.connect()
        await agent.initialize()
        await agent.send(ATTACH, {"server": "tiny"})
        assert len(await agent.tools()) == 14

        agent = await stage.attach(server="tiny")
        await agent.send(ATTACH, {"server": "other"})
        await agent.send(ATTACH, {"agent": "stranger"})
        assert len(await agent.tools()) == 7
        refused = await agent.refusal(ATTACH, {"server": "other"})
        assert refused.code == -32601, "and it is no request"


async def test_one_server_alone_has_its_own_names(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    write_server(home, "other", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach(server="tiny")
        assert await agent.tools() == ["echo", "add", "sleep", "crash", "env", "big", "fail"]
        assert text_of(await agent.call("echo", text="own name")) == "own name"
        for name in ("tiny__echo", "other__echo"):
            assert (await agent.refusal("tools/call", {"name": name})).kind == "no_such_tool"
        assert not stage.broker.fleet.find("other").status.pid, "the others are not even started"


async def test_servers_that_are_left_out_are_not_there(home: Home, real_clock: None) -> None:
    for name in ("a", "b", "c"):
        write_server(home, name, **tiny())
    async with staged(home) as stage:
        agent = await stage.attach(without=["a", "c", "unknown"])
        assert {name.partition("__")[0] for name in await agent.tools()} == {"b"}
        assert (await agent.refusal("tools/call", {"name": "a__echo"})).kind == "no_such_tool"
        assert not stage.broker.fleet.find("a").status.pid


async def test_which_socket_a_process_can_open_is_its_identity(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    write_config(
        home,
        "[agents.guest]\nallowed_tools = ['tiny__echo']\nopen = true\n"
        "[agents.vault]\nallowed_tools = ['tiny__add']\n",
    )
    async with staged(home) as stage:
        assert await (await stage.attach(agent="vault")).tools() == ["tiny__add"]
        assert await (await attach(stage, "vault", agent="vault")).tools() == ["tiny__add"]
        assert await (await attach(stage, "default", agent="guest")).tools() == ["tiny__echo"]
        assert len(await (await attach(stage, "default", agent="default")).tools()) == 7
        for own, other in (("vault", "guest"), ("vault", "default"), ("guest", "vault")):
            agent = stage.connect(own)
            await agent.send(ATTACH, {"agent": other})
            assert (await refused_for_all(agent))[0] == (1021, "refused")
        guest = await attach(stage, "default", agent="guest")
        await guest.call("tiny__echo", text="x")
        [entry] = await stage.journal(outcome="ok")
        assert entry.agent == "guest"


@pytest.mark.parametrize("after", ["[agents.guest]\nopen = false\n", ""])
async def test_who_may_no_longer_be_an_agent_is_it_no_longer(
    home: Home, real_clock: None, after: str
) -> None:
    write_config(home, "[agents.guest]\nopen = true\n")
    async with staged(home) as stage:
        guest = await attach(stage, "default", agent="guest")
        own, other = await attach(stage, "guest"), await stage.attach()
        write_config(home, after)
        await (await stage.operator()).call("daemon.reload")
        with pytest.raises(EOFError):
            await guest.read()
        assert await other.ask("ping") == {}
        assert await own.ask("ping") == {}, "its socket's own end is the matter of the sockets"


async def attach(stage: Stage, own: str, **members: Any) -> Agent:
    """On the socket of `own`, with these members of the attach line."""
    client = stage.connect(own)
    await client.send(ATTACH, members)
    await client.initialize()
    return client


async def test_a_project_root_is_checked_and_kept(
    home: Home, real_clock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, elsewhere = tmp_path / "project", tmp_path / "elsewhere"
    for folder in (project / "src", elsewhere):
        folder.mkdir(parents=True)
    monkeypatch.chdir(project / "src")
    async with staged(home) as stage:
        agent = await stage.attach(root=str(project))
        assert await agent.ask("ping") == {}
        assert stage.session.root == str(project)
        other = stage.connect()
        await other.send(ATTACH, {"root": str(elsewhere)})
        assert (await refused_for_all(other))[0] == (-32602, "invalid_params")


async def test_a_session_is_known_while_it_lasts(home: Home, real_clock: None) -> None:
    async with staged(home) as stage:
        agent = await stage.attach()
        [session] = stage.broker.sessions.values()
        assert (session.agent, session.pid) == ("default", os.getpid())
        assert session.exe == os.readlink("/proc/self/exe")
        await agent.stream.aclose()
        await stage.until("sessions", lambda: not stage.broker.sessions)
