"""Questions of servers reach the one agent they are for, and its answers go back: in all four pairs of eras
(n03, 5.11 to 5.13, 8.2, DESIGN 7)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from mcpd.api.prompts import GetPrompt
from mcpd.api.resources import ReadResource
from mcpd.caller import Caller
from mcpd.control.methods import prompts, resources
from mcpd.control.operator import Operator
from mcpd.transport.lines import LineWriter
from tests.agents.rooms import FORM, Agent, Asking, Gone, Json, Modern, Refused, Room, open_room
from tests.conftest import Home

Reply = Callable[[Json], Awaitable[Any]]


def text(result: Json) -> str:
    said = "".join(block["text"] for block in result["content"])
    assert not result.get("isError"), said
    return said


async def agree(question: Json) -> Json:
    """Yes to everything."""
    match question["method"]:
        case "elicitation/create":
            return {"action": "accept", "content": {"said": "yes"}}
        case "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": "hm"}, "model": "m"}
        case _:
            return {"roots": [{"uri": "file:///home/me"}]}


async def never(question: Json) -> Json:
    await trio.sleep_forever()
    raise AssertionError


# -- servers


async def elicits(server: Asking, params: Json, ident: Any) -> str:
    try:
        return json.dumps(await server.elicit("Sure?"))
    except Refused as e:
        return f"refused {e.code}: {e}"


async def asks_all(server: Asking, params: Json, ident: Any) -> str:
    """Three questions at once."""
    found: Json = {}

    async def one(method: str, question: Json) -> None:
        found[method] = await server.ask(method, question)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, "elicitation/create", {"message": "Sure?", "requestedSchema": FORM})
        nursery.start_soon(one, "sampling/createMessage", {"messages": [], "maxTokens": 5})
        nursery.start_soon(one, "roots/list", {})
    return json.dumps(found, sort_keys=True)


QUESTIONS: Json = {
    "a": {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": FORM}},
    "b": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}},
    "c": {"method": "roots/list"},
}
NAMES = {"a": "elicitation/create", "b": "sampling/createMessage", "c": "roots/list"}


async def wants_all(server: Asking, params: Json, ident: Any) -> Any:
    if "requestState" not in params:
        return {"resultType": "input_required", "inputRequests": QUESTIONS, "requestState": 'a "state"\u00e9'}
    assert params["requestState"] == 'a "state"\u00e9'
    return json.dumps(
        {NAMES[key]: answer for key, answer in params["inputResponses"].items()}, sort_keys=True
    )


async def wants_one(server: Asking, params: Json, ident: Any) -> Any:
    if "inputResponses" not in params:
        assert "requestState" not in params
        return {"resultType": "input_required", "inputRequests": {"a": QUESTIONS["a"]}}
    assert "requestState" not in params, "none was given"
    return json.dumps(params["inputResponses"])


PAIRS = pytest.mark.parametrize(
    ("modern", "server"),
    [
        (False, Asking(asks_all)),
        (True, Asking(asks_all)),
        (False, Modern(wants_all)),
        (True, Modern(wants_all)),
    ],
    ids=["handshake-handshake", "stateless-handshake", "handshake-stateless", "stateless-stateless"],
)


@PAIRS
async def test_three_questions_at_once(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool, server: Asking
) -> None:
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, modern=modern)
        said = json.loads(text(await agent.call("s__do", {})))
        assert said == {
            "elicitation/create": {"action": "accept", "content": {"said": "yes"}},
            "roots/list": {"roots": [{"uri": "file:///home/me"}]},
            "sampling/createMessage": await agree({"method": "sampling/createMessage"}),
        }
        assert len(agent.asked) == 3
        elicited = next(q for q in agent.asked if q["method"] == "elicitation/create")
        assert elicited["params"]["message"] == "[s, untrusted] Sure?"
        assert elicited["params"]["requestedSchema"] == FORM
        assert set(server.capabilities) == {"elicitation", "sampling", "roots"}
        recorded = {(entry.method, entry.outcome, entry.server, entry.tool) for entry in room.asks()}
        assert recorded == {
            ("elicitation/create", "accept", "s", "do"),
            ("sampling/createMessage", "ok", "s", "do"),
            ("roots/list", "ok", "s", "do"),
        }


@pytest.mark.parametrize("modern", [False, True])
async def test_a_stateless_server_without_a_state(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    async with open_room(home, monkeypatch, s=Modern(wants_one)) as room:
        agent = await room.agent("a", agree, modern=modern)
        said = json.loads(text(await agent.call("s__do", {})))
        assert said == {"a": {"action": "accept", "content": {"said": "yes"}}}


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("capabilities", [{}, {"roots": {}}])
async def test_who_cannot_be_asked_is_not(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool, capabilities: Json
) -> None:
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, capabilities, modern=modern)
        assert "refused -32601" in text(await agent.call("s__do", {}))
        assert agent.asked == []
        assert set(server.capabilities) == set(capabilities)


@pytest.mark.parametrize("modern", [False, True])
async def test_what_the_definition_does_not_allow_is_not_told(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    servers: dict[str, Asking] = {"old": Asking(elicits), "new": Modern(wants_one)}
    fields = {"sampling": False, "roots": "none"}
    async with open_room(home, monkeypatch, fields=fields, **servers) as room:
        agent = await room.agent("a", agree, modern=modern)
        for name, server in servers.items():
            text(await agent.call(f"{name}__do", {}))
            assert server.capabilities == {"elicitation": {"form": {}, "url": {}}}


async def test_a_server_is_opened_anew_for_its_only_user(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        silent = await room.agent("a", agree, {})
        assert "refused" in text(await silent.call("s__do", {}))
        able = await room.agent("b", agree)
        assert "refused" in text(await able.call("s__do", {})), "somebody else uses it as it is"
        await silent.leave()
        await able.leave()
        other = await room.agent("c", agree)
        assert "accept" in text(await other.call("s__do", {}))
        assert server.opened == 2
        assert "accept" in text(await other.call("s__do", {}))
        assert server.opened == 2


@pytest.mark.parametrize("roots", ["fixed", "agent"])
async def test_fixed_roots_are_the_definitions(
    home: Home, monkeypatch: pytest.MonkeyPatch, roots: str
) -> None:
    async def lists(server: Asking, params: Json, ident: Any) -> str:
        return json.dumps(await server.ask("roots/list"))

    fields = {"roots": roots, "cwd": "/srv/a b"}
    async with open_room(home, monkeypatch, fields=fields, s=Asking(lists)) as room:
        agent = await room.agent("a", agree)
        said = json.loads(text(await agent.call("s__do", {})))
        uri = "file:///srv/a%20b" if roots == "fixed" else "file:///home/me"
        assert said == {"roots": [{"uri": uri}]}
        text(await agent.call("s__do", {}))
        assert len(agent.asked) == (0 if roots == "fixed" else 1), "it is asked once"
        agent.send({"method": "notifications/roots/list_changed"})
        text(await agent.call("s__do", {}))
        assert len(agent.asked) == (0 if roots == "fixed" else 2)


# ----------------------------------------------------------------- who is meant


async def test_whose_a_question_is_cannot_be_told_while_two_call(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time it goes to nobody; from then on parties take turns."""
    waits = trio.Event()

    async def asks_late(server: Asking, params: Json, ident: Any) -> str:
        await waits.wait()
        return await elicits(server, params, ident)

    async with open_room(home, monkeypatch, s=Asking(asks_late)) as room:
        agents = [await room.agent(name, agree) for name in "ab"]
        said: list[str] = []

        async def call(agent: Agent) -> None:
            said.append(text(await agent.call("s__do", {})))

        async with trio.open_nursery() as nursery:
            for agent in agents:
                nursery.start_soon(call, agent)
            await trio.testing.wait_all_tasks_blocked()
            waits.set()
        assert "refused -32603" in said[0]
        assert "cannot tell which client" in said[0]
        said.clear()
        async with trio.open_nursery() as nursery:
            for agent in agents * 3:
                nursery.start_soon(call, agent)
        assert all("accept" in each for each in said)
        assert [len(agent.asked) for agent in agents] in ([3, 3], [4, 3], [3, 4])


async def test_what_belongs_to_no_request_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def quick(server: Asking, params: Json, ident: Any) -> str:
        return "done"

    server = Asking(quick)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree)
        text(await agent.call("s__do", {}))
        with pytest.raises(Refused) as caught:
            await server.elicit("Anybody?")
        assert caught.value.code == -32603
        assert agent.asked == []


class Early(Asking):
    """Asks for folders before it lists its tools, as server-filesystem does."""

    def __init__(self) -> None:
        super().__init__(self.tell)
        self.roots: list[Any] = []

    async def tell(self, server: Asking, params: Json, ident: Any) -> str:
        return json.dumps(self.roots)

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        if method == "tools/list":
            try:
                self.roots.append((await self.ask("roots/list"))["roots"][0]["uri"])
            except Refused as e:
                self.roots.append(e.code)
        return await super().answer(method, params, ident)


@pytest.mark.parametrize("modern", [False, True])
async def test_while_it_is_opened_whoever_waits_for_it_is_asked(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    server = Early()
    async with open_room(home, monkeypatch, s=server) as room:
        room.broker.fleet.find("s").connect_once()
        await trio.testing.wait_all_tasks_blocked()
        agent = await room.agent("a", agree, modern=modern)
        said = json.loads(text(await agent.call("s__do", {})))
        assert said == [-32601, "file:///home/me"], "first nobody waits for it, then one agent does"
        assert len(agent.session.asks) == len(agent.session.parked) == 0


async def test_folders_out_of_a_request_are_those_of_the_only_client(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Early()
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree)
        await agent.request("tools/list", {})
        assert server.roots == ["file:///home/me"], "nobody calls, and one alone may"
        with pytest.raises(Refused):
            await server.elicit("Anybody?")
        assert len(agent.asked) == 1
        other = await room.agent("b", agree)
        with pytest.raises(Refused) as caught:
            await server.ask("roots/list")
        assert caught.value.code == -32603
        await agent.leave()
        assert (await server.ask("roots/list"))["roots"]
        assert len(other.asked) == 1


async def test_whoever_leaves_is_not_waited_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Early()
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        room.nursery.start_soon(agent.request, "tools/list", {})
        await trio.sleep(1)
        assert len(agent.asked) == 1
        await agent.leave()
        await trio.sleep(1)
        assert server.roots == [-32603]


# ------------------------------------------------------------ answers, and none


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"action": "decline"}, {"action": "decline"}),
        ({"action": "cancel"}, {"action": "cancel"}),
        ({"action": "accept", "content": {"said": 5}}, {"action": "cancel"}),
        ({"action": "accept"}, {"action": "cancel"}),
        ({"nonsense": 1}, {"action": "cancel"}),
    ],
)
async def test_what_becomes_of_an_answer(
    home: Home, monkeypatch: pytest.MonkeyPatch, reply: Json, said: Json
) -> None:
    async def answer(question: Json) -> Json:
        return reply

    async with open_room(home, monkeypatch, s=Asking(elicits)) as room:
        agent = await room.agent("a", answer)
        assert json.loads(text(await agent.call("s__do", {}))) == said


async def test_an_agents_error_goes_to_the_server(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(question: Json) -> Json:
        raise Refused({"code": -1, "message": "the user said no"})

    async with open_room(home, monkeypatch, s=Asking(elicits)) as room:
        agent = await room.agent("a", refuse)
        assert text(await agent.call("s__do", {})) == "refused -1: the user said no"


async def test_waiting_for_a_person_does_not_count(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """D9: 60 s for a call, and five minutes to think."""

    async def think(question: Json) -> Json:
        await trio.sleep(300)
        return await agree(question)

    async def twice(server: Asking, params: Json, ident: Any) -> str:
        await trio.sleep(50)
        await server.elicit("one")
        await trio.sleep(50)
        await server.elicit("two")
        await trio.sleep(50)
        return "done"

    async with open_room(home, monkeypatch, s=Asking(twice)) as room:
        agent = await room.agent("a", think)
        result = await agent.call("s__do", {})
        assert result["isError"], "its own time is 60 s, however often it asks"
        assert len(agent.asked) == 1

    async def once(server: Asking, params: Json, ident: Any) -> str:
        await server.elicit("one")
        await trio.sleep(50)
        return "done"

    async with open_room(home, monkeypatch, s=Asking(once)) as room:
        for modern in (False, True):
            agent = await room.agent("a", think, modern=modern)
            assert text(await agent.call("s__do", {})) == "done"


@pytest.mark.parametrize("modern", [False, True])
async def test_nobody_answers(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool) -> None:
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, modern=modern)
        if modern:
            result = await agent.request("tools/call", {"name": "s__do", "arguments": {}})
            assert result["resultType"] == "input_required"
            await trio.sleep(700)
            assert server.open == {}, "the call was cancelled at the server"
            assert len(agent.session.parked) == 0
        else:
            assert json.loads(text(await agent.call("s__do", {}))) == {"action": "cancel"}
            assert agent.withdrawn == [agent.asked[0]["id"]]
            assert [entry.outcome for entry in room.asks()] == ["timed_out"]


async def test_a_call_that_ends_takes_its_question_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the caller, by the server's notification, and by the answer to the call."""

    async def gives_up(server: Asking, params: Json, ident: Any) -> str:
        with trio.move_on_after(1):
            await server.elicit("Sure?")
        if params["arguments"]["how"] == "cancelled":
            server.say({"method": "notifications/cancelled", "params": {"requestId": 1}})
            await trio.sleep(1)
        return "never mind"

    for how in ("cancelled", "answered"):
        async with open_room(home, monkeypatch, s=Asking(gives_up)) as room:
            agent = await room.agent("a", never)
            assert text(await agent.call("s__do", {"how": how})) == "never mind"
            assert agent.withdrawn == [agent.asked[0]["id"]]
            assert [entry.outcome for entry in room.asks()] == ["withdrawn"]
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancelled_call, agent)
            await trio.testing.wait_all_tasks_blocked()
            agent.send({"method": "notifications/cancelled", "params": {"requestId": "x"}})
        await trio.testing.wait_all_tasks_blocked()
        assert agent.withdrawn == [agent.asked[0]["id"]]
        assert server.open == {}


async def cancelled_call(agent: Agent) -> None:
    with pytest.raises(Gone):
        await agent.request("tools/call", {"name": "s__do", "arguments": {}}, "x")


async def test_secrets_are_not_asked_for(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"type": "object", "properties": {"password": {"type": "string"}}}
    params = {"message": "Log in", "requestedSchema": schema}

    async def asks_secret(server: Asking, params_: Json, ident: Any) -> str:
        try:
            return json.dumps(await server.ask("elicitation/create", params))
        except Refused as e:
            return f"refused {e.code}"

    async def wants_secret(server: Asking, params_: Json, ident: Any) -> Any:
        if "inputResponses" in params_:
            return json.dumps(params_["inputResponses"])
        question = {"method": "elicitation/create", "params": params}
        return {"resultType": "input_required", "inputRequests": {"k": question}, "requestState": "s"}

    servers: dict[str, Asking] = {"old": Asking(asks_secret), "new": Modern(wants_secret)}
    async with open_room(home, monkeypatch, fields=None, **servers) as room:
        for modern in (False, True):
            agent = await room.agent("a", agree, modern=modern)
            assert text(await agent.call("old__do", {})) == "refused -32602"
            assert json.loads(text(await agent.call("new__do", {}))) == {"k": {"action": "decline"}}
            assert agent.asked == []
        assert {(entry.decision, entry.outcome) for entry in room.asks()} == {("deny", "refused")}


async def test_twenty_questions_an_hour(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_room(home, monkeypatch, 2, s=Asking(elicits)) as room:
        agent = await room.agent("a", agree)
        said = [text(await agent.call("s__do", {})) for _ in range(3)]
        assert ["accept" in each for each in said] == [True, True, False]
        assert "2 questions an hour" in said[2]
        await trio.sleep(3600)
        assert "accept" in text(await agent.call("s__do", {}))


async def asks_roots(server: Asking, params: Json, ident: Any) -> str:
    try:
        return json.dumps(await server.ask("roots/list", {}))
    except Refused as e:
        return f"refused {e.code}: {e}"


@pytest.mark.parametrize("modern", [False, True])
async def test_folders_count_as_questions_where_they_reach_an_agent(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    """n03 counts what a server asks of agents. What mcpd knows already it says itself, however often."""
    async with open_room(home, monkeypatch, 2, s=Asking(asks_roots)) as room:
        agents = [await room.agent(name, agree, modern=modern) for name in "abc"]
        for agent in agents[:2] if modern else [agents[0]] * 5 + [agents[1]]:
            assert "file:///home/me" in text(await agent.call("s__do", {}))
        assert "2 questions an hour" in text(await agents[2].call("s__do", {}))


# ------------------------------------------------------------------------ visits


def visit(name: str | None) -> Json:
    named = {} if name is None else {"elicitationId": name}
    return {"mode": "url", "message": "Log in", "url": "https://h/x", **named}


async def test_the_ids_of_visits_are_mcpds_own(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def sends(server: Asking, params: Json, ident: Any) -> str:
        return json.dumps(await server.ask("elicitation/create", visit("e1")))

    server = Asking(sends)
    async with open_room(home, monkeypatch, s=server) as room:
        agents = [await room.agent(name, agree, modern=name == "c") for name in "abc"]
        names = []
        for agent in agents:
            assert json.loads(text(await agent.call("s__do", {}))) == {"action": "accept"}
            params = agent.asked[0]["params"]
            assert params["message"] == "[s, untrusted] (leads to h) Log in"
            names.append(params.get("elicitationId"))
        assert names[2] is None, "2026-07-28 has no such ids"
        assert None not in names[:2]
        assert len({*names, "e1"}) == 4
        await agents[0].call("s__do", {})
        for name in ("e2", "e1", "e1"):
            note = {"elicitationId": name}
            server.say({"method": "notifications/elicitation/complete", "params": note})
        told = [
            [m["params"] for m in agent.got if m.get("method") == "notifications/elicitation/complete"]
            for agent in agents
        ]
        assert told == [[{"elicitationId": agents[0].asked[1]["params"]["elicitationId"]}], [], []]


async def test_a_visit_that_is_required_first(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = {**visit("e2"), "url": "javascript:x"}

    class Requires(Asking):
        async def answer(self, method: str, params: Json, ident: Any) -> Json:
            if method != "tools/call":
                return await super().answer(method, params, ident)
            raise Refused({"code": -32042, "message": "go", "data": {"elicitations": [visit("e1"), bad, 5]}})

    async with open_room(home, monkeypatch, s=Requires(elicits)) as room:
        agent = await room.agent("a", agree)
        with pytest.raises(Refused) as caught:
            await agent.call("s__do", {})
        assert caught.value.code == -32042
        [shown] = caught.value.data["elicitations"]
        assert shown["message"].startswith("[s, untrusted]")
        assert shown["elicitationId"] != "e1"
        other = await room.agent("b", agree, {"elicitation": {}})
        with pytest.raises(Refused) as caught:
            await other.call("s__do", {})
        assert caught.value.data == {"elicitations": []}


async def test_fixed_roots_of_a_stateless_server(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The definition says them, whatever the caller can be asked."""

    async def lists(server: Asking, params: Json, ident: Any) -> Any:
        if "inputResponses" in params:
            return json.dumps(params["inputResponses"])
        return {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}

    server = Modern(lists)
    async with open_room(home, monkeypatch, fields={"roots": "fixed"}, s=server) as room:
        for modern in (False, True):
            agent = await room.agent("a", agree, {}, modern=modern)
            said = json.loads(text(await agent.call("s__do", {})))
            assert said == {"r": {"roots": [{"uri": "file:///home/me"}]}}
            assert server.capabilities == {"roots": {}}
            assert agent.asked == []


# --------------------------------------------------------- rounds and their states


async def state_of(agent: Agent, **arguments: Any) -> tuple[str, Json]:
    """A state that the agent was handed out, and answers that fit."""
    result = await agent.request("tools/call", {"name": "s__do", "arguments": arguments})
    assert result["resultType"] == "input_required"
    answers = {key: await agree(question) for key, question in result["inputRequests"].items()}
    state = result["requestState"]
    assert isinstance(state, str)
    return state, answers


def retry(state: str, answers: Json, **arguments: Any) -> Json:
    return {"name": "s__do", "arguments": arguments, "inputResponses": answers, "requestState": state}


SERVERS = pytest.mark.parametrize("server", [Asking(elicits), Modern(wants_all)], ids=["parked", "passed"])


@SERVERS
async def test_a_state_is_good_for_its_request_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch, server: Asking
) -> None:
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, modern=True)
        other = await room.agent("b", agree, modern=True)
        state, answers = await state_of(agent, n=1)
        heard = len(server.heard)
        bad = [
            (other, retry(state, answers, n=1)),
            (agent, retry(state, answers, n=2)),
            (agent, retry(state[:-1] + ("0" if state[-1] != "0" else "1"), answers, n=1)),
            (agent, retry("", answers, n=1)),
            (agent, retry("cGFya2VkIDEgMQ==.0", answers, n=1)),
        ]
        for who, params in bad:
            with pytest.raises(Refused) as caught:
                await who.request("tools/call", params)
            assert caught.value.code == -32602
        with pytest.raises(Refused) as caught:
            await agent.request("prompts/get", retry(state, answers, n=1))
        assert caught.value.code == -32602
        assert len(server.heard) == heard, "nothing reaches the server"
        assert "accept" in text(await agent.request("tools/call", retry(state, answers, n=1)))


async def test_a_state_of_a_parked_call_is_used_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def twice(server: Asking, params: Json, ident: Any) -> str:
        return json.dumps([await server.elicit("one"), await server.elicit("two")])

    async with open_room(home, monkeypatch, s=Asking(twice)) as room:
        agent = await room.agent("a", agree, modern=True)
        state, answers = await state_of(agent)
        second = await agent.request("tools/call", retry(state, answers))
        assert second["resultType"] == "input_required"
        with pytest.raises(Refused) as caught:
            await agent.request("tools/call", retry(state, answers))
        assert caught.value.code == -32602
        answers = {key: await agree(question) for key, question in second["inputRequests"].items()}
        done = await agent.request("tools/call", retry(second["requestState"], answers))
        assert json.loads(text(done)) == [{"action": "accept", "content": {"said": "yes"}}] * 2
        with pytest.raises(Refused):
            await agent.request("tools/call", retry(second["requestState"], answers))
        assert len(agent.session.parked) == 0


@SERVERS
async def test_a_state_has_an_end(home: Home, monkeypatch: pytest.MonkeyPatch, server: Asking) -> None:
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, modern=True)
        state, answers = await state_of(agent)
        await trio.sleep(601)
        with pytest.raises(Refused) as caught:
            await agent.request("tools/call", retry(state, answers))
        assert caught.value.code == -32602


@SERVERS
async def test_an_answer_that_does_not_fit_can_be_mended(
    home: Home, monkeypatch: pytest.MonkeyPatch, server: Asking
) -> None:
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, modern=True)
        state, answers = await state_of(agent)
        for wrong in (12345, {"action": "accept", "content": {"said": 5}}):
            with pytest.raises(Refused) as caught:
                await agent.request("tools/call", retry(state, dict.fromkeys(answers, wrong)))
            assert caught.value.code == -32602
        assert "accept" in text(await agent.request("tools/call", retry(state, {**answers, "extra": 1})))


async def test_an_answer_that_does_not_fit_is_not_waited_on_for_long(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may wait for their turn at the server, and a program that was refused seldom comes again."""
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, modern=True)
        state, answers = await state_of(agent)
        with pytest.raises(Refused):
            await agent.request("tools/call", retry(state, dict.fromkeys(answers, 12345)))
        await trio.sleep(20)
        assert server.open == {}, "the call was cancelled at the server"
        with pytest.raises(Refused):
            await agent.request("tools/call", retry(state, answers))


async def test_the_end_of_a_stream_does_not_take_a_parked_call_back(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP every request's own stream ends with its answer; only a notification takes the call back."""
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, modern=True)
        state, answers = await state_of(agent)
        agent.session.withdraw(b"1")
        assert "accept" in text(await agent.request("tools/call", retry(state, answers)))
        state, answers = await state_of(agent)
        agent.send({"method": "notifications/cancelled", "params": {"requestId": 3}})
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == {}
        with pytest.raises(Refused):
            await agent.request("tools/call", retry(state, answers))


async def turns_at(room: Room, server: Asking) -> None:
    """From here on the server is one that asks without saying whose request it is about."""
    waits, tool = trio.Event(), server.tool

    async def asks_late(server: Asking, params: Json, ident: Any) -> str:
        await waits.wait()
        return await elicits(server, params, ident)

    server.tool = asks_late
    async with trio.open_nursery() as nursery:
        for name in "xy":
            nursery.start_soon((await room.agent(name, agree)).call, "s__do", {})
        await trio.testing.wait_all_tasks_blocked()
        waits.set()
    server.tool = tool


async def test_who_does_not_come_back_holds_others_up_for_half_a_minute(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP nobody sees that a stateless agent has died: the others waited for it for ten minutes."""
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        await turns_at(room, server)
        dead = await room.agent("a", agree, modern=True)
        dead.there = False
        state, answers = await state_of(dead)
        other = await room.agent("b", agree)
        began = trio.current_time()
        assert "accept" in text(await other.call("s__do", {}))
        assert trio.current_time() - began < 31
        with pytest.raises(Refused) as caught:
            await dead.request("tools/call", retry(state, answers))
        assert caught.value.code == -32602


@pytest.mark.parametrize(("there", "waits"), [(False, 30), (True, 600)])
async def test_who_does_not_read_any_more_holds_nobody_up_either(
    home: Home, monkeypatch: pytest.MonkeyPatch, there: bool, waits: float
) -> None:
    """A client with a handshake over HTTP whose response broke off. One that reads may ask a person."""
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        await turns_at(room, server)
        silent = await room.agent("a", never)
        room.nursery.start_soon(silent.call, "s__do", {})
        await trio.testing.wait_all_tasks_blocked()
        silent.there = there
        other = await room.agent("b", agree)
        began = trio.current_time()
        assert "accept" in text(await other.call("s__do", {}))
        assert trio.current_time() - began == pytest.approx(waits, abs=1)
        assert len(silent.withdrawn) == 1
        assert [entry.outcome for entry in room.asks(session=silent.session.id)] == ["timed_out"]


async def test_a_person_at_a_process_that_is_there_has_ten_minutes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        await turns_at(room, server)
        slow = await room.agent("a", agree, modern=True)
        state, answers = await state_of(slow)
        room.nursery.start_soon((await room.agent("b", agree)).call, "s__do", {})
        await trio.sleep(300)
        assert "accept" in text(await slow.request("tools/call", retry(state, answers)))


async def test_who_has_just_been_asked_has_its_time(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute, however long the others have waited already, and all of it while nobody waits."""

    async def twice(server: Asking, params: Json, ident: Any) -> str:
        return json.dumps([await server.elicit("one"), await server.elicit("two")])

    server = Asking(twice)
    async with open_room(home, monkeypatch, s=server) as room:
        await turns_at(room, server)
        slow = await room.agent("a", agree, modern=True)
        slow.there = False
        state, answers = await state_of(slow)
        await trio.sleep(300)
        other = await room.agent("b", agree)
        room.nursery.start_soon(other.call, "s__do", {})
        await trio.sleep(25)
        second = await slow.request("tools/call", retry(state, answers))
        await trio.sleep(25)
        answers = {key: await agree(question) for key, question in second["inputRequests"].items()}
        done = await slow.request("tools/call", retry(second["requestState"], answers))
        assert text(done).count("accept") == 2
        await trio.testing.wait_all_tasks_blocked()
        assert len(other.asked) == 2


async def test_a_missing_answer_is_asked_for_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_room(home, monkeypatch, s=Asking(asks_all)) as room:
        agent = await room.agent("a", agree, modern=True)
        state, answers = await state_of(agent)
        first, *rest = answers
        again = await agent.request("tools/call", retry(state, {first: answers[first]}))
        assert set(again["inputRequests"]) == set(rest)
        del answers[first]
        assert "accept" in text(await agent.request("tools/call", retry(again["requestState"], answers)))


async def test_answers_may_come_before_the_questions(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known keys are used, others ignored; the server gets what it asked for alone (SEP-2322)."""
    async with open_room(home, monkeypatch, s=Modern(wants_one)) as room:
        agent = await room.agent("a", agree, modern=True)
        answers = {"a": await agree(QUESTIONS["a"]), "x": {"action": "accept"}}
        params = {"name": "s__do", "arguments": {}, "inputResponses": answers}
        assert json.loads(text(await agent.request("tools/call", params))) == {"a": answers["a"]}


async def test_a_round_without_questions_is_repeated(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy(server: Asking, params: Json, ident: Any) -> Any:
        left = int(params.get("requestState", "3"))
        return {"resultType": "input_required", "requestState": str(left - 1)} if left else "done"

    async def for_ever(server: Asking, params: Json, ident: Any) -> Any:
        return {"resultType": "input_required", "requestState": "again"}

    servers: dict[str, Asking] = {"s": Modern(busy), "t": Modern(for_ever)}
    async with open_room(home, monkeypatch, fields=None, **servers) as room:
        for modern in (False, True):
            agent = await room.agent("a", agree, modern=modern)
            assert text(await agent.call("s__do", {})) == "done"
            result = await agent.call("t__do", {})
            assert result["isError"]
            assert result["_meta"]["dev.mcpd/kind"] == "bad_answer"


async def test_a_stateless_server_must_not_ask_what_was_not_declared(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_room(home, monkeypatch, s=Modern(wants_all)) as room:
        for modern in (False, True):
            agent = await room.agent("a", agree, {"elicitation": {}}, modern=modern)
            result = await agent.call("s__do", {})
            assert result["isError"]
            assert agent.asked == []


async def test_progress_of_a_parked_call_is_for_the_request_that_waits(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(server: Asking, params: Json, ident: Any) -> str:
        token = params["_meta"]["progressToken"]
        for step in (1, 2):
            notice = {"progressToken": token, "progress": step}
            server.say({"method": "notifications/progress", "params": notice})
            await server.elicit("Sure?") if step == 1 else None
        return "done"

    async with open_room(home, monkeypatch, s=Asking(slow)) as room:
        agent = await room.agent("a", agree, modern=True)
        result = await agent.request("tools/call", {"name": "s__do", "_meta": {"progressToken": "one"}})
        answers = {key: await agree(q) for key, q in result["inputRequests"].items()}
        more = {"inputResponses": answers, "requestState": result["requestState"]}
        await agent.request("tools/call", {"name": "s__do", "_meta": {"progressToken": "two"}, **more})
        assert [(each["progressToken"], each["progress"]) for each in agent.progress] == [
            ("one", 1),
            ("two", 2),
        ]


@pytest.mark.parametrize("modern", [False, True])
async def test_a_session_that_ends_ends_its_questions(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    """The server hears that the call is over, and its question with it."""
    server = Asking(elicits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, modern=modern)
        room.nursery.start_soon(agent.call, "s__do", {})
        await trio.sleep(1)
        assert len(server.open) == len(agent.asked) == 1
        await agent.leave()
        assert server.open == {}
        assert [entry.outcome for entry in room.asks()] == ["withdrawn"]


async def test_to_answer_an_agent_may_call_the_server_that_asks(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while others wait for their turn: all waited for one another, until nobody had answered."""

    async def late(server: Asking, params: Json, ident: Any) -> str:
        if params["arguments"]:
            return "42"
        await trio.sleep(1)
        return await elicits(server, params, ident)

    async def looks(question: Json) -> Json:
        await trio.sleep(1)
        return {"action": "accept", "content": {"said": text(await a.call("s__do", {"look": True}))}}

    async with open_room(home, monkeypatch, s=Asking(late)) as room:
        a = await room.agent("a", looks)
        b = await room.agent("b", agree)
        said: list[str] = []

        async def call(agent: Agent) -> None:
            said.append(text(await agent.call("s__do", {})))

        for _ in range(2):  # the first time nobody can tell whose a question is; from then on there are turns
            said.clear()
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, a)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(call, b)
        assert trio.current_time() - began < 10
        assert [json.loads(each)["content"]["said"] for each in said] == ["42", "yes"]


async def test_a_question_that_nobody_reads_has_no_answer(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP a client may read nothing but the answer to its request."""
    async with open_room(home, monkeypatch, s=Asking(elicits)) as room:
        agent = await room.agent("a", agree)
        write = agent.write

        def deaf(line: bytes, on: bytes = b"") -> bool:
            return b'"elicitation/create"' not in line and write(line, on)

        monkeypatch.setattr(agent, "write", deaf)
        began = trio.current_time()
        assert json.loads(text(await agent.call("s__do", {}))) == {"action": "cancel"}
        assert trio.current_time() == began
        assert len(agent.session.asks) == 0
        assert [entry.outcome for entry in room.asks()] == ["unread"]


class Curious(Asking):
    """Asks whoever reads, or gets a prompt."""

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        match method:
            case "initialize":
                found = await super().answer(method, params, ident)
                return {**found, "capabilities": {"tools": {}, "resources": {}, "prompts": {}}}
            case "resources/list":
                return {"resources": []}
            case "prompts/list":
                return {"prompts": [{"name": "p"}]}
            case "resources/read":
                return {"contents": [{"uri": params["uri"], "text": await elicits(self, params, ident)}]}
            case "prompts/get":
                content = {"type": "text", "text": await elicits(self, params, ident)}
                return {"messages": [{"role": "user", "content": content}]}
        return await super().answer(method, params, ident)


async def test_what_the_operator_does_is_no_agents(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def naps(server: Asking, params: Json, ident: Any) -> str:
        await trio.sleep(10)
        return "done"

    async with open_room(home, monkeypatch, s=Curious(naps)) as room:
        agent = await room.agent("a", agree)
        caller = Caller("c1", "", 1, "/bin/mcpctl")
        operator = Operator(room.broker, caller, cast("LineWriter", None), room.nursery)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.call, "s__do", {})
            await trio.testing.wait_all_tasks_blocked()
            read = await resources.read(operator, ReadResource(uri="mcpd://s/x:y"))
            got = await prompts.get(operator, GetPrompt(server="s", prompt="p"))
        assert agent.asked == []
        assert b"refused -32603" in bytes(read.result)
        assert b"refused" in bytes(got.result)
