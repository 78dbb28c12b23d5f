"""Secrets in what passes between agents and servers, in both eras (n17, b25)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from mcpd import listing
from mcpd.config.spec import Policy
from mcpd.policy.leaks.values import Held
from mcpd.policy.terms import Leaks
from mcpd.rows import ViewKey
from tests.agents.rooms import FORM, META, Asking, Json, Modern, Refused, Room, open_room
from tests.agents.test_asks import text
from tests.conftest import Home
from tests.policy.leaks.tokens import TOKENS, Source

OURS = "hunter2-sesame-42"
THEIRS = "Zq8rT1vX0pLm-77"
TOKEN = TOKENS["github-token"](Source(4))
HOSTILE = f"a\u202eb {OURS} {THEIRS} {TOKEN}"
CLEANED = "a[hidden bidirectional: U+202E]b [redacted:OUR_KEY] [redacted:THEIR_KEY] [redacted:github-token]"


def hold(room: Room) -> None:
    room.broker.held_values.hold([Held("s", "OUR_KEY", OURS), Held("other", "THEIR_KEY", THEIRS)])


async def yes(question: Json) -> Json:
    return {"action": "accept", "content": {"said": "yes"}}


async def says_it(server: Asking, params: Json, ident: Any) -> str:
    return HOSTILE


async def fails_with_it(server: Asking, params: Json, ident: Any) -> str:
    raise Refused({"code": -32099, "message": HOSTILE, "data": {"why": [HOSTILE]}})


async def echoes(server: Asking, params: Json, ident: Any) -> str:
    return json.dumps(params["arguments"])


async def elicits(server: Asking, params: Json, ident: Any) -> str:
    return json.dumps(await server.elicit(HOSTILE))


async def wants(server: Asking, params: Json, ident: Any) -> Any:
    if "inputResponses" not in params:
        question = {"method": "elicitation/create", "params": {"message": HOSTILE, "requestedSchema": FORM}}
        return {"resultType": "input_required", "inputRequests": {"a": question}}
    return json.dumps(params["inputResponses"]["a"])


async def progresses(server: Asking, params: Json, ident: Any) -> str:
    token = params["_meta"]["progressToken"]
    server.say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1,
                                                               "message": HOSTILE}})  # fmt: skip
    return "done"


async def logs(server: Asking, params: Json, ident: Any) -> str:
    server.say({"method": "notifications/message", "params": {"level": "error", "data": {"said": HOSTILE}}})
    return "done"


ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])


@ERAS
@pytest.mark.parametrize("server", [Asking(says_it), Modern(says_it)], ids=["handshake", "stateless"])
async def test_an_answer(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool, server: Asking) -> None:
    async with open_room(home, monkeypatch, s=server) as room:
        hold(room)
        agent = await room.agent("a", yes, modern=modern)
        with room.broker.changes.subscribe() as changes:
            assert text(await agent.call("s__do", {})) == CLEANED
            while (change := await anext(changes)).topic != "leaks":
                pass
        assert change.data == {
            "server": "s",
            "tool": "do",
            "agent": "default",
            "in": "result",
            "found": [
                {"type": "OUR_KEY", "form": "raw", "action": "redact"},
                {"type": "THEIR_KEY", "form": "raw", "action": "redact"},
                {"type": "github-token", "form": "", "action": "redact"},
                {"type": "hidden characters", "form": "", "action": "mark"},
            ],
        }
        [entry] = room.recorded("request", tool="do")
        assert entry.findings == "redacted OUR_KEY, redacted THEIR_KEY, redacted github-token"


@ERAS
async def test_an_error(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool) -> None:
    async with open_room(home, monkeypatch, s=Asking(fails_with_it)) as room:
        hold(room)
        agent = await room.agent("a", yes, modern=modern)
        with pytest.raises(Refused) as refused:
            await agent.request("tools/call", {"name": "s__do", "arguments": {}})
        assert str(refused.value) == CLEANED
        assert refused.value.data == {"why": [CLEANED]}


async def test_arguments_with_another_server_s_value_are_denied(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Asking(echoes)
    async with open_room(home, monkeypatch, s=server) as room:
        hold(room)
        agent = await room.agent("a", yes)
        result = await agent.call("s__do", {"deep": [{"x": f"see {THEIRS}"}]})
        assert result["isError"]
        said = result["content"][0]["text"]
        assert '"THEIR_KEY" of server "other"' in said
        assert THEIRS not in said
        assert "tools/call" not in [message.get("method") for message in server.heard]
        [entry] = room.recorded("request", tool="do")
        assert (entry.decision, entry.outcome) == ("deny", "denied")
        assert '"THEIR_KEY" of server "other"' in entry.findings
        result = await agent.call("s__do", {"x": OURS})
        assert text(result) == '{"x": "[redacted:OUR_KEY]"}', "its own value goes there, and not back"


async def test_what_goes_along_in_meta_is_looked_through_as_well(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_room(home, monkeypatch, s=Asking(echoes)) as room:
        hold(room)
        agent = await room.agent("a", yes)
        result = await agent.request(
            "tools/call", {"name": "s__do", "arguments": {}, "_meta": {"example.com/x": THEIRS}}
        )
        assert result["isError"]


async def test_what_looks_like_a_secret_is_asked_about_also_where_nothing_else_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_room(home, monkeypatch, s=Asking(echoes)) as room:
        agent = await room.agent("a", yes)
        result = await agent.call("s__do", {"x": TOKEN})
        assert result["isError"]
        [opened] = room.broker.approvals.open()
        assert "looks like a secret (github-token)" in opened.question.question
        assert opened.question.once_only


async def test_a_vault_takes_and_gives_secrets(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.3: `leaks` of a definition or a tool; never for what mcpd holds."""
    policy = Policy(approval="never", leaks=Leaks(arguments="allow", results="allow"))
    async with open_room(home, monkeypatch, fields={"policy": policy}, s=Asking(echoes)) as room:
        hold(room)
        agent = await room.agent("a", yes)
        assert json.loads(text(await agent.call("s__do", {"x": TOKEN}))) == {"x": TOKEN}
        assert json.loads(text(await agent.call("s__do", {"x": OURS}))) == {"x": "[redacted:OUR_KEY]"}
        assert (await agent.call("s__do", {"x": THEIRS}))["isError"]


@ERAS
@pytest.mark.parametrize("server", [Asking(elicits), Modern(wants)], ids=["handshake", "stateless"])
async def test_a_question(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool, server: Asking) -> None:
    async with open_room(home, monkeypatch, s=server) as room:
        hold(room)
        agent = await room.agent("a", yes, modern=modern)
        await agent.call("s__do", {})
        [question] = agent.asked
        assert question["params"]["message"] == f"[s, untrusted] {CLEANED}"


@ERAS
@pytest.mark.parametrize("takes", [False, True])
@pytest.mark.parametrize("make", [lambda: Asking(elicits), lambda: Modern(wants)], ids=["old", "stateless"])
async def test_an_answer_that_looks_like_a_secret_is_no_way_round_the_question_about_arguments(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool, make: Callable[[], Asking], takes: bool
) -> None:
    """Nobody but the calling program has seen it; what lets it pass is what does so in arguments."""

    async def leaks(question: Json) -> Json:
        return {"action": "accept", "content": {"said": f"it is {TOKEN}"}}

    server, taken = make(), Leaks(arguments="allow") if takes else Leaks()
    fields = {"policy": Policy(risk="low", approval="never", leaks=taken)}
    async with open_room(home, monkeypatch, fields=fields, s=server) as room:
        agent = await room.agent("a", leaks, modern=modern)
        with contextlib.suppress(Refused):
            await agent.call("s__do", {})
        assert (TOKEN in json.dumps(server.heard)) is takes
        [entry] = room.asks()
        assert entry.outcome == ("accept" if takes else "bad_answer")


@ERAS
@pytest.mark.parametrize("server", [Asking(elicits), Modern(wants)], ids=["handshake", "stateless"])
async def test_an_answer_to_a_question(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool, server: Asking
) -> None:
    async def leaks(question: Json) -> Json:
        return {"action": "accept", "content": {"said": f"it is {THEIRS}"}}

    async with open_room(home, monkeypatch, s=server) as room:
        hold(room)
        agent = await room.agent("a", leaks, modern=modern)
        with contextlib.suppress(Refused):
            await agent.call("s__do", {})
        assert THEIRS not in json.dumps(server.heard)
        assert "THEIR_KEY" not in json.dumps(server.heard), "nor whose it is"
        [entry] = room.asks(outcome="bad_answer")
        assert '"THEIR_KEY" of server "other"' in entry.because


async def test_an_address_to_go_to_keeps_what_it_is_made_of(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://login.example/x?state={TOKEN}"

    async def leads(server: Asking, params: Json, ident: Any) -> str:
        question = {"mode": "url", "message": "log in", "url": url, "elicitationId": "v"}
        return json.dumps(await server.ask("elicitation/create", question))

    async with open_room(home, monkeypatch, s=Asking(leads)) as room:
        agent = await room.agent("a", yes)
        await agent.call("s__do", {})
        assert agent.asked[0]["params"]["url"] == url


@ERAS
async def test_progress(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool) -> None:
    async with open_room(home, monkeypatch, s=Asking(progresses)) as room:
        hold(room)
        agent = await room.agent("a", yes, modern=modern)
        await agent.call("s__do", {}, _meta={"progressToken": "p"})
        assert [notice["message"] for notice in agent.progress] == [CLEANED]


@ERAS
async def test_logs(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool) -> None:
    async with open_room(home, monkeypatch, s=Asking(logs)) as room:
        hold(room)
        agent = await room.agent("a", yes, modern=modern)
        await agent.call("s__do", {}, _meta={META + "logLevel": "debug"})
        said = [m["params"]["data"] for m in agent.got if m.get("method") == "notifications/message"]
        assert said == [{"said": CLEANED}]


class Extended(Modern):
    """It announces an extension, whose settings go both ways (5.17)."""

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        result = await super().answer(method, params, ident)
        if method == "server/discover":
            result["capabilities"]["extensions"] = {"example.com/x": {"note": OURS}}
        return result


@pytest.mark.parametrize(("said", "reached"), [("plain words", True), (THEIRS, False), (TOKEN, False)])
async def test_the_settings_of_an_extension_go_to_a_server_as_arguments_do(
    home: Home, monkeypatch: pytest.MonkeyPatch, said: str, reached: bool
) -> None:
    server = Extended(echoes)
    async with open_room(home, monkeypatch, s=server) as room:
        hold(room)
        agent = await room.agent("a", yes, {"extensions": {"example.com/x": {"k": said}}}, modern=True)
        result = await agent.call("s__do", {})
        calls = [each for each in server.heard if each.get("method") == "tools/call"]
        if reached:
            told = server.capabilities["extensions"]
            assert told == {"example.com/x": {"k": said}}
        else:
            assert result["_meta"]["dev.mcpd/kind"] == "denied"
            assert calls == []
            assert said not in json.dumps(server.heard)


async def test_the_settings_of_a_servers_extension_are_told_without_what_mcpd_holds(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_room(home, monkeypatch, s=Extended(echoes)) as room:
        hold(room)
        agent = await room.agent("a", yes, modern=True)
        await agent.call("s__do", {})
        await room.broker.fleet.find("s").relist()
        view = listing.view_now(room.broker, ViewKey(("default", "s", frozenset(), "")))
        assert view.extensions == {"example.com/x": {"note": "[redacted:OUR_KEY]"}}
