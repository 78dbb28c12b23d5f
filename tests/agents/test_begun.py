"""Calls that wait for nothing but their server's answer: begun as they come, answered as that comes, and
whatever comes of them is what it would be of any other (DESIGN 6, D3, D9, D13)."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable
from typing import Any, cast

import pytest
import trio
import trio.testing

from mcpd.agents.session import Session
from mcpd.calls import Call
from mcpd.policy.leaks.values import Held
from mcpd.rows import Row
from mcpd.transport.pending import Slot
from tests.agents.rooms import ALL, Asking, Json, Modern, Room, open_room
from tests.agents.rooms import Agent as Roomer
from tests.agents.rooms import Refused as Error
from tests.agents.test_asks import agree, elicits, text, wants_one
from tests.agents.test_session import nap, texts
from tests.agents.world import MODERN, Ear, Stage, kind_of, staged, text_of
from tests.conftest import Home
from tests.control.world import write_config, write_server
from tests.test_calls import call_line

OURS = "hunter2-sesame-42"


def plain(ear: Ear, **policy: Any) -> dict[str, Any]:
    """A lively server whose calls are open to all, and of no risk that has to be written down first (n12)."""
    return ear.server(default_policy={"approval": "never", "risk": "low", **policy})


async def one(stage: Stage, tool: str, outcome: str) -> Any:
    """The only entry of calls of this tool."""
    [entry] = await stage.journal(tool=tool, kind="request")
    assert entry.outcome == outcome
    return entry


def session_of(stage: Stage, number: int = 0) -> Session:
    """That of the agent that attached as the `number`th."""
    return cast("Session", list(stage.broker.sessions.values())[number])


def is_begun(session: Session, count: int = 1) -> bool:
    """Whether so many requests are under way, and there is no task."""
    assert len(session._running) == session._serving == count
    return not session._nursery.child_tasks


# --------------------------------------------------------------- no answer comes


async def test_who_leaves_takes_what_was_begun_along(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **plain(ear))
        async with staged(home) as stage:
            leaving, staying = await stage.attach(), await stage.attach()
            await leaving.call("lively__echo", text="known")
            await leaving.begin("lively__nap", 1, seconds=60)
            number = (await ear.hear("heard", name="nap"))["params"]["_meta"]["progressToken"]
            assert is_begun(session_of(stage))
            await leaving.stream.aclose()
            await ear.hear("heard", method="notifications/cancelled")
            await ear.hear("cancelled", id=number)
            await stage.until("sessions", lambda: len(stage.broker.sessions) == 1)
            assert text_of(await staying.call("lively__raw"))
            entry = await one(stage, "nap", "cancelled")
            assert (entry.session, entry.decision, entry.result_bytes) == ("s1", "allow", 0)
            assert not [row for row in ear.kept if row.get("method") == "notifications/cancelled"]


async def test_about_what_still_waited_nobody_is_asked_when_its_agent_leaves(
    home: Home, real_clock: None
) -> None:
    places = "[defaults]\nmax_in_flight_session = 1\n"
    write_config(home, f"{places}[tool_policies]\n'lively__wipe' = {{ approval = 'always' }}\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **plain(ear))
        async with staged(home) as stage:
            leaving, staying = await stage.attach(), await stage.attach()
            await leaving.call("lively__echo", text="known")
            await leaving.line(nap(1, 60))
            await leaving.begin("lively__wipe", 2)
            await ear.hear("heard", name="nap")
            await leaving.stream.aclose()
            await ear.hear("cancelled")
            assert text_of(await staying.call("lively__raw"))
            assert not stage.broker.approvals.open()
            assert await stage.journal(tool="wipe", kind="approval") == []


async def test_what_was_begun_can_be_taken_back(home: Home, real_clock: None) -> None:
    write_config(home, "[defaults]\nmax_in_flight_session = 1\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **plain(ear))
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.call("lively__echo", text="known")
            await agent.begin("lively__nap", 1, seconds=60)
            number = (await ear.hear("heard", name="nap"))["params"]["_meta"]["progressToken"]
            assert is_begun(stage.session)
            for _ in range(2):
                await agent.send("notifications/cancelled", {"requestId": 1})
            await ear.hear("cancelled", id=number)
            assert text_of(await agent.call("lively__raw")), "its place is free"
            await agent.nothing_more()
            await one(stage, "nap", "cancelled")
            await ear.hear("heard", method="notifications/cancelled")
            assert not [row for row in ear.kept if row.get("method") == "notifications/cancelled"]
            assert stage.session._serving == 0


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_what_was_begun_times_out(home: Home, real_clock: None, revision: str) -> None:
    write_config(home, "[defaults]\nmax_in_flight_session = 1\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **plain(ear, timeout="300ms"))
        async with staged(home) as stage:
            agent = await stage.attach(revision=revision)
            await agent.call("lively__echo", text="known")
            await agent.begin("lively__nap", 1, seconds=60)
            await ear.hear("heard", name="nap")
            late = (await agent.answer(1))["result"]
            assert kind_of(late) == "timed_out"
            assert "no answer and no progress for 0.3 s" in text_of(late)
            assert late.get("resultType") == ("complete" if agent.modern else None)
            await ear.hear("cancelled")
            assert text_of(await agent.call("lively__raw")), "its place is free"
            await agent.nothing_more()
            assert (await one(stage, "nap", "timed_out")).duration >= 0.3
            assert stage.session._serving == 0


@pytest.mark.parametrize(("replay", "sent"), [("always", 2), ("never", 1), ("auto", 1)])
async def test_a_server_that_dies_under_what_was_begun(
    home: Home, real_clock: None, replay: str, sent: int
) -> None:
    """D3: sent once more where that is allowed, else it may or may not have happened."""
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **plain(ear), replay=replay)
        async with staged(home) as stage:
            agents = [await stage.attach(), await stage.attach()]
            for agent in agents:
                await agent.call("lively__echo", text="known")
                seconds = 1.5 if sent == 2 else 60
                await agent.line(nap(1, seconds, "one"), nap(2, seconds, "two"))
            for _ in range(4):
                await ear.hear("heard", name="nap")
            assert all(is_begun(session_of(stage, number), 2) for number in range(2))
            os.kill(stage.broker.fleet.find("lively").status.pid, signal.SIGKILL)
            for agent in agents:
                for number, said in ((1, "one"), (2, "two")):
                    result = (await agent.answer(number))["result"]
                    if sent == 2:
                        assert text_of(result) == said
                    else:
                        assert kind_of(result) == "outcome_unknown"
                        assert "may or may not have taken effect" in text_of(result)
                assert text_of(await agent.call("lively__raw")), "the restart happens anyway"
                await agent.nothing_more()
            for _ in range(4 * sent - 4):
                await ear.hear("heard", name="nap")
            assert not [row for row in ear.kept if row.get("name") == "nap"]
            outcomes = [entry.outcome for entry in await stage.journal(tool="nap", kind="request")]
            assert outcomes == ["ok" if sent == 2 else "outcome_unknown"] * 4
            assert [session_of(stage, number)._serving for number in range(2)] == [0, 0]


# ------------------------------------------------------------ what is no plain result


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_a_result_and_a_servers_error_pass_in_both_eras(
    home: Home, real_clock: None, revision: str
) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **plain(ear))
        async with staged(home) as stage:
            agent = await stage.attach(revision=revision)
            await agent.call("lively__echo", text="known")
            await agent.begin("lively__nap", "n", seconds=0.5, text="slept")
            await ear.hear("heard", name="nap")
            assert is_begun(stage.session)
            result = (await agent.answer("n"))["result"]
            assert (text_of(result), "resultType" in result) == ("slept", agent.modern)
            await agent.begin("lively__refuse", 1)
            error = (await agent.answer(1))["error"]
            assert error == {"code": -32099, "message": "not today", "data": {"why": ["tired"]}}
            assert (await one(stage, "nap", "ok")).result_bytes > 20
            await one(stage, "refuse", "server_error")
            assert stage.session._serving == 0


class Spelling(Asking):
    """Its first answer is plain; the later ones are `said` to the letter, once the gate is open."""

    def __init__(self, said: str) -> None:
        super().__init__(self.say_it)
        self.said = said
        self.gate = trio.Event()
        self.plain = True

    async def say_it(self, server: Asking, params: Json, ident: Any) -> str:
        if not self.plain:
            await self.gate.wait()
            assert self.receiver is not None
            self.receiver.receive(f'{{"jsonrpc":"2.0","id":{ident},{self.said}}}'.encode())
        self.plain = False
        return "first, or one answer too many"


async def begun(room: Room, agent: Roomer, gates: list[trio.Event]) -> tuple[bool, Json | Error]:
    """A call that waits until the last of the gates is opened: whether it was begun, and its answer."""
    answers: list[Json | Error] = []

    async def ask() -> None:
        try:
            answers.append(await agent.call("s__do", {}))
        except Error as e:
            answers.append(e)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        found = is_begun(agent.session)
        gates[-1].set()
    assert agent.session._serving == len(agent.session.asks) == 0
    return found, answers[0]


async def answer_to(room: Room, agent: Roomer, server: Spelling) -> Any:
    """What comes of a call that was begun."""
    await agent.call("s__do", {})
    room.records.clear()
    found, answer = await begun(room, agent, [server.gate])
    assert found
    return answer


ERAS = pytest.mark.parametrize("modern", [False, True], ids=["handshake", "stateless"])


@ERAS
@pytest.mark.parametrize(
    "raw",
    ["7", "[]", "null", '"text"', '{"content":7}', '{"content":true}', '{"resultType":"input_required"}'],
)
async def test_what_is_no_result_is_a_bad_answer(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool, raw: str
) -> None:
    server = Spelling(f'"result":{raw}')
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", agree, {}, modern=modern)
        assert kind_of(await answer_to(room, agent, server)) == "bad_answer"
        assert [entry.outcome for entry in room.recorded("request")] == ["bad_answer"]


@ERAS
@pytest.mark.parametrize(
    ("said", "heard", "findings"),
    [
        (f"is {OURS}", "is [redacted:OUR_KEY]", "redacted OUR_KEY"),
        (f"is \\u0068{OURS[1:]}", "is [redacted:OUR_KEY]", "redacted OUR_KEY"),
        ("a\\nb \\u00e9 \\\\", "a\nb \u00e9 \\", ""),
        ("na\u00efve", "na\u00efve", ""),
        ("a\\u202eb", "a[hidden bidirectional: U+202E]b", ""),
    ],
)
async def test_what_has_to_be_looked_through_is(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool, said: str, heard: str, findings: str
) -> None:
    server = Spelling(f'"result":{{"content":[{{"type":"text","text":"{said}"}}]}}')
    async with open_room(home, monkeypatch, s=server) as room:
        room.broker.held_values.hold([Held("s", "OUR_KEY", OURS)])
        agent = await room.agent("a", agree, {}, modern=modern)
        result = await answer_to(room, agent, server)
        assert text(result) == heard
        assert result.get("resultType") == ("complete" if modern else None)
        [entry] = room.recorded("request")
        assert (entry.outcome, entry.findings) == ("ok", findings)


async def test_a_secret_in_an_error_is_not_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Spelling(f'"error":{{"code":-32099,"message":"not {OURS}","data":["{OURS}"]}}')
    async with open_room(home, monkeypatch, s=server) as room:
        room.broker.held_values.hold([Held("s", "OUR_KEY", OURS)])
        agent = await room.agent("a", agree, {})
        error = await answer_to(room, agent, server)
        assert (error.code, str(error)) == (-32099, "not [redacted:OUR_KEY]")
        assert error.data == ["[redacted:OUR_KEY]"]
        assert [entry.outcome for entry in room.recorded("request")] == ["server_error"]


# ---------------------------------------------------------------------- places


async def test_what_was_begun_takes_a_place_and_gives_it_back(home: Home, real_clock: None) -> None:
    write_config(home, "[defaults]\nmax_in_flight_session = 2\n")
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **plain(ear), replay="never")
        async with staged(home) as stage:
            agent, other = await stage.attach(), await stage.attach()
            for each in (agent, other):
                await each.call("lively__echo", text="known")

            async def exactly_two() -> None:
                """Of five calls two are sent, and the next one when one is through."""
                await agent.line(*[nap(number, 60, str(number)) for number in range(1, 6)])
                assert sorted([await texts(ear), await texts(ear)]) == ["1", "2"]
                await other.call("lively__length")
                await ear.hear("heard", name="length")
                assert not [row for row in ear.kept if row.get("name") == "nap"]
                for done, following in ((2, "3"), (1, "4"), (3, "5")):
                    await agent.send("notifications/cancelled", {"requestId": done})
                    assert await texts(ear) == following
                for done in (4, 5):
                    await agent.send("notifications/cancelled", {"requestId": done})
                for _ in range(5):
                    await ear.hear("cancelled")
                await agent.nothing_more()
                assert session_of(stage)._serving == 0

            await exactly_two()
            await agent.line(nap(1, 1, "first"), nap(2, 60, "second"), nap(3, 60, "third"))
            assert sorted([await texts(ear), await texts(ear)]) == ["first", "second"]
            assert text_of((await agent.answer(1))["result"]) == "first"
            assert await texts(ear) == "third", "sent when one was answered"
            for done in (2, 3):
                await agent.send("notifications/cancelled", {"requestId": done})
                await ear.hear("cancelled")

            for _ in range(3):
                cancelled = agent.message("notifications/cancelled", {"requestId": "x"})
                calls = [
                    agent.message("tools/call", {"name": f"lively__{tool}"}, tool)
                    for tool in ("refuse", "nothing", "odd")
                ]
                await agent.line(
                    call_line("lively__raw", '{"a":1,"a":2}'),
                    *(nap("x", 60), nap("x", 60)),
                    *map(json.dumps, [cancelled, *calls]),
                )
                for ident, code in ((1, -32602), (None, -32600), ("refuse", -32099), ("nothing", -32602)):
                    assert (await agent.answer(ident))["error"]["code"] == code
                await agent.answer("odd")
                assert kind_of(await agent.call("lively__bye")) == "outcome_unknown"
                assert text_of(await agent.call("lively__echo", text="back")) == "back"
            await agent.nothing_more()
            raw = await stage.journal(tool="raw", kind="request")
            assert [(entry.outcome, entry.decision) for entry in raw] == [("invalid_params", "")] * 3
            assert not [row for row in ear.kept if row.get("name") == "raw"]
            ear.kept.clear()
            await exactly_two()


# ------------------------------------------------------------- who can be asked


def gated(tool: Callable[..., Any], gates: list[trio.Event]) -> Callable[..., Any]:
    """The same tool, each call of which waits for a gate of its own."""

    async def serve(server: Asking, params: Json, ident: Any) -> Any:
        if "inputResponses" not in params:
            gates.append(trio.Event())
            await gates[-1].wait()
        return await tool(server, params, ident)

    return serve


@pytest.mark.parametrize("kind", [Asking, Modern], ids=["handshake", "stateless"])
async def test_who_can_be_asked_is_asked_in_the_course_of_what_was_begun(
    home: Home, monkeypatch: pytest.MonkeyPatch, kind: type[Asking]
) -> None:
    gates: list[trio.Event] = []
    tool = elicits if kind is Asking else wants_one
    async with open_room(home, monkeypatch, s=kind(gated(tool, gates))) as room:
        agent = await room.agent("a", agree, ALL)
        await agent.request("tools/list", {})
        for first in (True, False, False):
            found, result = await begun(room, agent, gates)
            # What a server with a handshake was told of this agent is looked at once.
            assert found is not (first and kind is Asking)
            assert '{"said": "yes"}' in text(cast("Json", result))
        assert len(agent.asked) == 3
        assert [entry.outcome for entry in room.recorded("request")] == ["ok"] * 3
        assert [entry.outcome for entry in room.asks()] == ["accept"] * 3


# ----------------------------------------------------------------- list_changed


class Changing(Asking):
    """Says with its first answer that its tools are others from now on; lists them when the gate is open."""

    def __init__(self, later: str) -> None:
        super().__init__(self.change)
        self.listed, self.later = "do", later
        self.gate = trio.Event()

    async def change(self, server: Asking, params: Json, ident: Any) -> str:
        if self.listed != self.later:
            self.listed = self.later
            self.say({"method": "notifications/tools/list_changed"})
        return "done"

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        result = await super().answer(method, params, ident)
        if method == "initialize":
            result["capabilities"] = {"tools": {"listChanged": True}}
        if method == "tools/list" and self.listed != "do":
            await self.gate.wait()
            schema = {"type": "object"}
            result["tools"] = [{"name": name, "inputSchema": schema} for name in self.listed.split()]
        return result

    @property
    def called(self) -> int:
        return [message.get("method") for message in self.heard].count("tools/call")


@pytest.mark.parametrize("later", ["do new", "new"])
async def test_after_a_changed_list_a_call_waits_for_the_new_one(
    home: Home, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    """a22"""
    server = Changing(later)
    async with open_room(home, monkeypatch, s=server) as room:
        agent, results = await room.agent("a", agree, {}), list[Any]()

        async def ask() -> None:
            try:
                results.append(text(await agent.call("s__do", {})))
            except Error as e:
                results.append(e.data["kind"])

        await ask()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.testing.wait_all_tasks_blocked()
            assert server.called == 1, "nothing is sent before the list is new"
            server.gate.set()
        assert results == ["done", "done" if later == "do new" else "no_such_tool"]
        assert server.called == (2 if later == "do new" else 1)
        assert agent.session._serving == 0


# --------------------------------------------------------------------- what is left


async def test_no_answer_waits_for_the_collector(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 16 MiB was held until some thousand calls later."""

    async def say(server: Asking, params: Json, ident: Any) -> str:
        return "x" * 1000

    async with open_room(home, monkeypatch, s=Asking(say)) as room:
        agent = await room.agent("a", agree, {})
        await agent.call("s__do", {})
        gc.collect()
        others = {id(each) for each in gc.get_objects() if isinstance(each, Slot | Call)}
        gc.disable()
        try:
            for _ in range(10):
                await agent.call("s__do", {})
            left = [each for each in gc.get_objects() if isinstance(each, Slot | Call)]
            assert not [each for each in left if id(each) not in others]
        finally:
            gc.enable()


@pytest.mark.parametrize("step", ["members", "bound"])
async def test_a_fault_of_a_step_is_the_end_of_its_request_alone(
    home: Home, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async def say(server: Asking, params: Json, ident: Any) -> str:
        return "as before"

    async with open_room(home, monkeypatch, s=Asking(say)) as room:
        agent = await room.agent("a", agree, {})
        before = await agent.call("s__do", {})
        with monkeypatch.context() as faulty:
            faulty.setattr(Row, step, None)
            with pytest.raises(Error) as caught:
                await agent.call("s__do", {})
            assert caught.value.data["kind"] == "internal"
        assert await agent.call("s__do", {}) == before
        assert [each.outcome for each in room.records] == ["ok", "internal", "ok"]
