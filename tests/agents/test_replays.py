"""Agent B replays every id, cursor and state of agent A: all refused, and nothing happens to A's (n03)."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.protocol import jsonrpc
from tests.agents.rooms import (
    ALL,
    META,
    MODERN,
    Agent,
    Asking,
    Json,
    Modern,
    Refused,
    Room,
    open_room,
)
from tests.agents.test_asks import agree, elicits, retry, state_of, text, wants_all
from tests.conftest import Home


class Many(Asking):
    """Has more tools than a page."""

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        if method == "tools/list":
            return {"tools": [{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(501)]}
        return await super().answer(method, params, ident)


async def others(room: Room) -> list[Agent]:
    return [await room.agent("b", agree), await room.agent("b", agree, modern=True)]


async def refused(agent: Agent, method: str, params: Json) -> None:
    with pytest.raises(Refused) as caught:
        await agent.request(method, params)
    assert caught.value.code == -32602


async def test_ids_of_questions(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(question: Json) -> Json:
        await trio.sleep(10)
        return await agree(question)

    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", slow)
        said: list[Json] = []

        async def call() -> None:
            said.append(json.loads(text(await agent.call("s__do", {}))))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.testing.wait_all_tasks_blocked()
            [asked] = agent.asked
            for other in await others(room):
                other.send({"id": asked["id"], "result": {"action": "decline"}})
                other.send({"id": asked["id"], "error": {"code": -1, "message": "no"}})
                other.send({"method": "notifications/cancelled", "params": {"requestId": asked["id"]}})
                other.send({"method": "notifications/cancelled", "params": {"requestId": 2}})
            await trio.testing.wait_all_tasks_blocked()
            assert said == []
            assert len(server.open) == len(agent.session.asks) == 1
        assert said == [{"action": "accept", "content": {"said": "yes"}}]
        agent.send({"id": asked["id"], "result": {"action": "decline"}})
        agent.send({"id": "mcpd-ask-999999", "result": {"action": "decline"}})


@pytest.mark.parametrize("server", [Asking(elicits), Modern(wants_all)], ids=["parked", "passed"])
async def test_states(home: Home, monkeypatch: pytest.MonkeyPatch, server: Asking) -> None:
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, modern=True)
        state, answers = await state_of(agent)
        heard = len(server.heard)
        _, other = await others(room)
        await refused(other, "tools/call", retry(state, answers))
        other.capabilities = {}
        await refused(other, "tools/call", retry(state, answers))
        other.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.heard) == heard
        refusals = [entry.outcome for entry in room.records if entry.session == other.session.id]
        assert refusals == ["invalid_params"] * 2, "and recorded (n12)"
        assert "accept" in text(await agent.request("tools/call", retry(state, answers)))


async def test_a_state_after_a_handshake_means_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """That era has no such member: it is not read, and does not reach the server."""
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        stateless = await room.agent("a", agree, modern=True)
        state, answers = await state_of(stateless)
        await stateless.leave()
        agent = await room.agent("b", agree)
        text(await agent.request("tools/call", retry(state, answers)))
        called = [message["params"] for message in server.heard if message.get("method") == "tools/call"]
        assert all(params.keys() <= {"name", "arguments", "_meta"} for params in called)


@pytest.mark.parametrize("modern", [False, True])
async def test_cursors(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool) -> None:
    async with open_room(home, monkeypatch, s=Many(elicits)) as room:
        agent = await room.agent("a", agree, modern=modern)
        page = await agent.request("tools/list", {})
        for other in await others(room):
            await other.request("tools/list", {})
            await refused(other, "tools/list", {"cursor": page["nextCursor"]})
        assert (await agent.request("tools/list", {"cursor": page["nextCursor"]}))["tools"]


@pytest.mark.parametrize("odd", ["1e999", "-1" + "0" * 400, '{"a":[1e999]}', "1180591620717411303424"])
@pytest.mark.parametrize("server", [Asking(elicits), Modern(wants_all)], ids=["parked", "passed"])
async def test_numbers_that_nothing_holds(
    home: Home, monkeypatch: pytest.MonkeyPatch, server: Asking, odd: str
) -> None:
    """What a request asks for is told apart by their spelling; they were the end of the session."""
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, modern=True)

        async def send(number: str, ident: int, **more: Json) -> Json:
            meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": ALL}
            params = json.dumps({"name": "s__do", "arguments": {"n": 0}, "_meta": meta, **more})
            spelled = params.replace('"n": 0', f'"n": {number}')
            line = f'{{"jsonrpc":"2.0","id":{ident},"method":"tools/call","params":{spelled}}}'
            agent.session.take(jsonrpc.read(line.encode()))
            await trio.sleep(1)
            return agent.answers[ident]

        wanted = (await send(odd, 7))["result"]
        assert wanted["resultType"] == "input_required"
        answers = {key: await agree(question) for key, question in wanted["inputRequests"].items()}
        more = {"inputResponses": answers, "requestState": wanted["requestState"]}
        assert (await send("2e999", 8, **more))["error"]["code"] == -32602
        assert "accept" in text((await send(odd, 9, **more))["result"])
