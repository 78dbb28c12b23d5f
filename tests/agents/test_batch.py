"""Arrays of messages, which one revision of MCP has (2025-03-26; JSON-RPC 2.0, section 6)."""

from __future__ import annotations

import json

import pytest

from tests.agents.test_session import ANSWER, nap, request
from tests.agents.world import MODERN, Ear, staged, text_of
from tests.conftest import Home
from tests.control.world import write_server


async def test_an_array_is_answered_by_an_array(home: Home, real_clock: None) -> None:
    """Twelve calls are more than a session has places, so that some of them wait."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach(revision="2025-03-26")
            calls = [nap(number, 0.01, str(number)) for number in range(12)]
            notice = '{"jsonrpc":"2.0","method":"notifications/whatever"}'
            members = [*calls, notice, request('"p"'), request('"u"', "no/such")]
            await agent.line(f"[{','.join(members)}]")
            answers = await agent.read()
            assert isinstance(answers, list)
            by_id = {answer["id"]: answer for answer in answers}
            assert len(by_id) == len(answers) == 14
            assert [text_of(by_id[number]["result"]) for number in range(12)] == [str(n) for n in range(12)]
            assert by_id["p"]["result"] == {}
            assert by_id["u"]["error"]["code"] == -32601
            await agent.nothing_more()


async def test_what_is_no_message_in_an_array_is_answered_there(home: Home, real_clock: None) -> None:
    """JSON-RPC 2.0, section 6: rpc call with an invalid batch."""
    async with staged(home) as stage:
        agent = await stage.attach(revision="2025-03-26")
        await agent.line(f"[1, {request('5')}, {{}}, {request('5')}, {request('{}')}]")
        answers = await agent.read()
        codes = [(a["id"], a["error"]["code"] if "error" in a else 0) for a in answers]
        assert sorted(codes, key=str) == sorted([(None, -32600)] * 4 + [(5, 0)], key=str)
        await agent.nothing_more()


async def test_an_array_without_answers_gets_none(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach(revision="2025-03-26")
            await agent.line(f'[{{"jsonrpc":"2.0","method":"notifications/a"}},{ANSWER}]')
            await agent.tools()
            await agent.line(f"[{nap(1, 60)}]")
            await ear.hear("heard", name="nap")
            await agent.send("notifications/cancelled", {"requestId": 1})
            await ear.hear("cancelled")
            await agent.line(f"[{nap(1, 60)},{nap(2, 0, 'kept')}]")
            await ear.hear("heard", name="nap")
            await agent.line(f"[{json.dumps(agent.message('notifications/cancelled', {'requestId': 1}))}]")
            [only] = await agent.read()
            assert text_of(only["result"]) == "kept"
            await agent.nothing_more()


@pytest.mark.parametrize("line", ["[]", "[1", "[" * 50_000])
async def test_an_array_that_is_none_is_refused(home: Home, real_clock: None, line: str) -> None:
    async with staged(home) as stage:
        agent = await stage.attach(revision="2025-03-26")
        await agent.line(line)
        assert (await agent.answer(None))["error"]["code"] in (-32600, -32700)
        await agent.nothing_more()


async def test_an_array_has_an_end(home: Home, real_clock: None) -> None:
    """Neither many messages nor much of anything else: one piece of work, and nobody can interrupt it."""
    async with staged(home) as stage:
        agent = await stage.attach(revision="2025-03-26")
        pings = ",".join(request(str(number)) for number in range(257))
        for line in (f"[{pings}]", "[" + "1," * 4_000_000 + "1]"):
            await agent.line(line)
            error = (await agent.answer(None))["error"]
            assert (error["code"], "256" in error["message"]) == (-32600, True)
        pings = ",".join(request(str(number)) for number in range(256))
        await agent.line(f"[{pings}]")
        assert len(await agent.read()) == 256
        await agent.nothing_more()


async def test_the_answers_of_an_array_are_bounded_together(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.agents.batch.LINE_LIMIT", 3000)
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach(revision="2025-03-26")
            await agent.line(f"[{','.join(nap(number, 0, 'x' * 1000) for number in range(5))}]")
            answers = await agent.read()
            assert sorted(answer["id"] for answer in answers) == list(range(5))
            assert len([answer for answer in answers if "result" in answer]) == 2
            assert {answer["error"]["code"] for answer in answers if "error" in answer} == {1020}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", MODERN])
async def test_other_revisions_have_no_arrays(home: Home, real_clock: None, revision: str) -> None:
    async with staged(home) as stage:
        agent = await stage.attach(revision=revision)
        await agent.line(f"[{request('1')}]")
        assert (await agent.answer(None))["error"]["code"] == -32600
        await agent.nothing_more()


async def test_initialize_is_in_no_array(home: Home, real_clock: None) -> None:
    async with staged(home) as stage:
        agent = stage.connect(revision="2025-03-26")
        await agent.line(f"[{json.dumps(agent.message('initialize', {'protocolVersion': '2025-03-26'}, 1))}]")
        assert (await agent.answer(None))["error"]["code"] == -32600
        await agent.initialize()
