"""Four agents, one server on one stream that asks, samples, lists roots and reports progress: whatever the
order of things, nobody gets what is another's, and everything ends (n03).

MCPD_INTERLEAVINGS sets how many are tried (10,000 by hand, a fixed few in CI).
"""

from __future__ import annotations

import json
import os
import random
from typing import Any

import pytest
import trio

from tests.agents.rooms import ALL, FORM, Agent, Asking, Gone, Json, Refused, open_room
from tests.conftest import Home

COUNT = int(os.environ.get("MCPD_INTERLEAVINGS", "150"))

#: Rounds of one room; then everything begins anew, also whether the server is known to ask.
A_ROOM = 50

STEPS = ("elicit", "sample", "roots", "progress", "sleep", "pair", "secret")

#: Everybody's progress token, and everybody's ids begin with 1.
TOKEN = "t"


async def serve(server: Asking, params: Json, ident: Any) -> str:
    """Do what the arguments say; the result tells all that was heard, each with the tag."""
    arguments = params["arguments"]
    tag = arguments["tag"]
    rng = random.Random(arguments["seed"])
    heard: list[Any] = []

    async def ask(kind: str) -> None:
        schema = FORM
        if kind == "secret":
            schema = {"type": "object", "properties": {"password": {"type": "string"}}}
        try:
            match kind:
                case "sample":
                    message = {"role": "user", "content": {"type": "text", "text": tag}}
                    asked = {"messages": [message], "maxTokens": 1}
                    answer = await server.ask("sampling/createMessage", asked)
                    heard.append(answer["content"]["text"])
                case "roots":
                    heard.append((await server.ask("roots/list"))["roots"][0]["uri"])
                case _:
                    asked = {"message": tag, "requestedSchema": schema}
                    answer = await server.ask("elicitation/create", asked)
                    heard.append(answer.get("content", {}).get("said") or answer["action"])
        except Refused as e:
            heard.append({"refused": e.code, "kind": kind, "why": str(e)})

    for number, step in enumerate(arguments["steps"]):
        await trio.sleep(rng.random())
        match step:
            case "progress":
                token = params["_meta"]["progressToken"]
                notice = {"progressToken": token, "progress": number, "message": tag}
                server.say({"method": "notifications/progress", "params": notice})
            case "sleep":
                await trio.sleep(rng.random() * 3)
            case "pair":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(ask, "elicit")
                    nursery.start_soon(ask, "sample")
            case _:
                await ask(step)
    return json.dumps({"tag": tag, "heard": heard})


class Person:
    """Who answers for one agent, in their own time, and knows what is theirs."""

    def __init__(self, name: str, rng: random.Random) -> None:
        self.name = name
        self.rng = rng
        self.mine: set[str] = set()
        """Tags of the calls under way."""

    async def reply(self, question: Json) -> Json:
        params = question.get("params", {})
        match question["method"]:
            case "roots/list":
                await trio.sleep(self.rng.random())
                return {"roots": [{"uri": f"file:///{self.name}"}]}
            case "sampling/createMessage":
                tag = params["messages"][0]["content"]["text"]
                self.check(tag)
                await trio.sleep(self.rng.random())
                content = {"type": "text", "text": f"{self.name} {tag}"}
                return {"role": "assistant", "content": content, "model": "m"}
        before, _, tag = params["message"].rpartition(" ")
        assert before == "[s, untrusted]"
        self.check(tag)
        await trio.sleep(self.rng.random() * 2)
        if self.rng.random() < 0.1:
            return {"action": self.rng.choice(["decline", "cancel"])}
        return {"action": "accept", "content": {"said": f"{self.name} {tag}"}}

    def check(self, tag: str) -> None:
        assert tag.startswith(f"{self.name}/"), f"{tag} was delivered to {self.name}"
        assert tag in self.mine, f"{tag} is over"


async def one_call(agent: Agent, person: Person, tag: str, ident: str, known: bool) -> None:
    """One call with random steps, now and then taken back; what came back must be its own."""
    rng = person.rng
    steps = [rng.choice(STEPS) for _ in range(rng.randrange(1, 4))]
    arguments = {"tag": tag, "seed": rng.random(), "steps": steps}
    params = {"name": "s__do", "arguments": arguments, "_meta": {"progressToken": TOKEN}}
    await trio.sleep(rng.random() * 2)
    person.mine.add(tag)
    ended = trio.Event()

    async def take_back() -> None:
        with trio.move_on_after(rng.random() * 8):
            await ended.wait()
        if not ended.is_set():
            person.mine.discard(tag)
            agent.send({"method": "notifications/cancelled", "params": {"requestId": current[0]}})

    current = [ident]
    async with trio.open_nursery() as nursery:
        if rng.random() < 0.15:
            nursery.start_soon(take_back)
        try:
            result = await agent.request("tools/call", params, ident)
            while result.get("resultType") == "input_required":
                answers = {key: await person.reply(q) for key, q in result["inputRequests"].items()}
                current[0] = f"{current[0]}+"
                retry = {**params, "inputResponses": answers, "requestState": result["requestState"]}
                result = await agent.request("tools/call", retry, current[0])
        except Gone:
            return
        except (AssertionError, Refused):
            if tag in person.mine:
                raise
            # It was taken back while a person had its question.
            return
        finally:
            ended.set()
            person.mine.discard(tag)
    assert not result.get("isError"), result
    said = json.loads(result["content"][0]["text"])
    assert said["tag"] == tag
    for heard in said["heard"]:
        if isinstance(heard, dict):
            if heard["kind"] != "secret":
                assert not known, f"{heard} although parties take turns"
                assert heard["refused"] == -32603
        elif heard not in ("decline", "cancel", f"file:///{person.name}"):
            assert heard == f"{person.name} {tag}"


@pytest.mark.parametrize("room_number", range(-(-COUNT // A_ROOM)))
async def test_nobody_gets_what_is_anothers(
    home: Home, monkeypatch: pytest.MonkeyPatch, room_number: int
) -> None:
    server = Asking(serve)
    async with open_room(home, monkeypatch, s=server) as room:
        relay = room.broker.fleet.find("s").relay
        agents: list[tuple[Agent, Person]] = []
        for number, name in enumerate(("ann", "bob", "cid", "dot")):
            person = Person(name, random.Random(f"{room_number} {name}"))
            agent = await room.agent(name, person.reply, ALL, modern=number >= 2)
            agents.append((agent, person))
        for turn in range(A_ROOM):
            known = relay.turns is not None
            with trio.fail_after(600):
                async with trio.open_nursery() as nursery:
                    for agent, person in agents:
                        for call in range(person.rng.choice((1, 1, 2))):
                            tag, ident = f"{person.name}/{turn}/{call}", f"{turn}/{call}"
                            nursery.start_soon(one_call, agent, person, tag, ident, known)
            for agent, person in agents:
                assert len(agent.session.asks) == 0
                assert person.mine == set()
                for notice in agent.progress:
                    assert notice["progressToken"] == TOKEN
                    assert notice["message"].startswith(f"{person.name}/")
                agent.progress.clear()
        await trio.sleep(700)
        assert server.open == {}
        assert all(len(agent.session.parked) == 0 for agent, _ in agents)
