"""Tasks of both forms: passed through under ids of mcpd's own where both sides have them, driven to their end
where only the server does (n03, 5.15, 5.16, 8.2)."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from mcpd.catalog.tasks import RELATED
from mcpd.config.spec import Agent as Named
from mcpd.config.spec import Policy
from mcpd.policy.leaks.values import Held
from mcpd.protocol.extensions import TASKS
from mcpd.upstream.upstream import Upstream
from tests.agents.rooms import (
    ALL,
    FORM,
    Agent,
    Asking,
    Gone,
    Json,
    Modern,
    Refused,
    Room,
    open_room,
)
from tests.conftest import Home

CAPABILITY: Json = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
WITH_TASKS: Json = {**ALL, "extensions": {TASKS: {}}}
CREATED = "2026-11-30T08:00:00Z"


async def agree(question: Json) -> Json:
    return {"action": "accept", "content": {"said": "yes"}}


async def never(question: Json) -> Json:
    raise AssertionError("nobody is asked")


def text(result: Json) -> str:
    said = "".join(block["text"] for block in result["content"])
    assert not result.get("isError"), said
    return said


Work = Callable[["Old", "Job"], Awaitable[Json]]


class Job:
    """A task as its server has it."""

    def __init__(self, ident: str, token: Any, arguments: Json) -> None:
        self.id = ident
        self.token = token
        self.arguments = arguments
        self.status = "working"
        self.result: Json | None = None
        self.error: Json | None = None
        self.questions: Json = {}
        self.answers: Json = {}
        self.answered = trio.Event()
        self.done = trio.Event()
        self.scope = trio.CancelScope()


class Old(Asking):
    """A server of 2025-11-25 whose tool runs as a task; `work` is what it does then."""

    def __init__(self, work: Work, support: str = "required") -> None:
        super().__init__(self._plain)
        self.work = work
        self.support = support
        self.poll = 500
        self.jobs: dict[str, Job] = {}
        self.numbers = itertools.count(1)

    async def _plain(self, server: Asking, params: Json, ident: Any) -> str:
        if self.support == "required":
            raise Refused({"code": -32601, "message": "it runs as a task only"})
        return "plain"

    def asked_for(self, method: str) -> int:
        return len([message for message in self.heard if message.get("method") == method])

    def state(self, job: Job) -> Json:
        return {
            "taskId": job.id,
            "status": job.status,
            "statusMessage": f"it is {job.status}",
            "createdAt": CREATED,
            "lastUpdatedAt": CREATED,
            "ttl": 60_000,
            "pollInterval": self.poll,
        }

    async def run_job(self, job: Job) -> None:
        with job.scope:
            try:
                job.result = await self.work(self, job)
                job.status = "failed" if job.result.get("isError") else "completed"
            except Refused as e:
                job.status, job.error = "failed", {"code": e.code, "message": str(e)}
        if job.scope.cancelled_caught:
            job.status = "cancelled"
            job.error = {"code": -32603, "message": f"task {job.id} was cancelled"}
        job.done.set()

    def begin(self, params: Json) -> Job:
        token = params.get("_meta", {}).get("progressToken")
        job = Job(f"server-task-{next(self.numbers)}", token, params["arguments"])
        self.jobs[job.id] = job
        assert self._nursery is not None
        self._nursery.start_soon(self.run_job, job)
        return job

    def job(self, params: Json) -> Job:
        job = self.jobs.get(params["taskId"])
        if job is None:
            raise Refused({"code": -32602, "message": f"Task not found: {params['taskId']}"})
        return job

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        match method:
            case "initialize":
                found = await super().answer(method, params, ident)
                return {**found, "capabilities": {"tools": {}, "tasks": CAPABILITY}}
            case "tools/list":
                execution = {"execution": {"taskSupport": self.support, "com.example/more": 1}}
                return {"tools": [{"name": "do", "inputSchema": {"type": "object"}, **execution}]}
            case "tools/call" if "task" in params:
                return {"task": self.state(self.begin(params))}
            case "tasks/get":
                return self.state(self.job(params))
            case "tasks/result":
                job = self.job(params)
                await job.done.wait()
                if job.error is not None:
                    raise Refused(job.error)
                assert job.result is not None
                return {**job.result, "_meta": {RELATED: {"taskId": job.id}, "com.example/x": 1}}
            case "tasks/cancel":
                job = self.job(params)
                job.scope.cancel()
                await job.done.wait()
                return self.state(job)
        return await super().answer(method, params, ident)


async def quick(server: Old, job: Job) -> Json:
    await trio.sleep(3)
    return {"content": [{"type": "text", "text": f"done {json.dumps(job.arguments)}"}]}


async def endless(server: Old, job: Job) -> Json:
    await trio.sleep_forever()
    raise AssertionError


async def asking(server: Old, job: Job) -> Json:
    """As the specification wants it: the status says so, and the question names its task."""
    if job.arguments.get("quiet"):
        await trio.sleep_forever()
    await trio.sleep(2)
    job.status = "input_required"
    related = {"_meta": {RELATED: {"taskId": job.id}}}
    question = {"message": job.arguments.get("who", "Sure?"), "requestedSchema": FORM, **related}
    try:
        said = json.dumps(await server.ask("elicitation/create", question))
    except Refused as e:
        said = f"refused {e.code}"
    job.status = "working"
    await trio.sleep(100)
    return {"content": [{"type": "text", "text": said}]}


# -------------------------------------------------------- driven to the end (8.2)


@pytest.mark.parametrize("modern", [False, True])
async def test_a_task_only_tool_is_called_as_any_other(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    server = Old(quick)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, modern=modern)
        result = await agent.call("s__do", {"a": 1})
        assert text(result) == 'done {"a": 1}'
        assert result["_meta"] == {"com.example/x": 1}, "no task is named"
        assert "server-task" not in json.dumps(agent.got)
        assert 4 <= server.asked_for("tasks/get") <= 8, "as often as its server says"
        assert server.asked_for("tasks/result") == 1
        assert [(entry.method, entry.outcome) for entry in room.records] == [("tools/call", "ok")]
        assert len(room.broker.tasks) == 0


async def test_a_tool_that_may_run_as_a_task_is_simply_called(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Old(quick, "optional")
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        assert text(await agent.call("s__do", {})) == "plain"


async def test_many_servers_together_show_no_tool_that_insists(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that know no tasks refuse such a tool themselves; a server alone is shown as it is."""
    async with open_room(home, monkeypatch, s=Old(quick)) as room:
        agent = await room.agent("a", never)
        (tool,) = (await agent.request("tools/list", {}))["tools"]
        assert tool["execution"] == {"taskSupport": "optional", "com.example/more": 1}
        agent.session.show("s")
        (tool,) = (await agent.request("tools/list", {}))["tools"]
        assert tool["execution"] == {"taskSupport": "required", "com.example/more": 1}
        with pytest.raises(Refused):
            await agent.call("do", {})
        stateless = await room.agent("b", never, modern=True)
        stateless.session.show("s")
        assert text(await stateless.call("do", {})) == "done {}", "it cannot know tasks of the core"


async def test_progress_goes_on_for_the_task_s_life(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def steps(server: Old, job: Job) -> Json:
        for number in range(3):
            await trio.sleep(1)
            params = {"progressToken": job.token, "progress": number}
            server.say({"method": "notifications/progress", "params": params})
        return {"content": []}

    async with open_room(home, monkeypatch, s=Old(steps)) as room:
        a, b = [await room.agent(name, never) for name in "ab"]
        async with trio.open_nursery() as nursery:
            for agent in (a, b):
                nursery.start_soon(call_with_token, agent)
        for agent in (a, b):
            assert [each["progress"] for each in agent.progress] == [0, 1, 2]
            assert {each["progressToken"] for each in agent.progress} == {"mine"}


async def call_with_token(agent: Agent) -> None:
    await agent.call("s__do", {}, _meta={"progressToken": "mine"})


@pytest.mark.parametrize("modern", [False, True])
async def test_questions_for_a_driven_task_reach_its_agent(
    home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool
) -> None:
    async with open_room(home, monkeypatch, s=Old(asking)) as room:
        agent = await room.agent("a", agree, modern=modern)
        said = json.loads(text(await agent.call("s__do", {})))
        assert said == {"action": "accept", "content": {"said": "yes"}}
        assert len(agent.asked) == 1


async def test_a_question_between_two_looks_goes_to_nobody_else(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a server that does not say to which task it belongs."""

    async def forgetful(server: Old, job: Job) -> Json:
        await trio.sleep(2.25)
        try:
            if not job.arguments.get("quiet"):
                await server.elicit("Sure?")
        except Refused as e:
            return {"content": [{"type": "text", "text": f"refused {e.code}"}]}
        return {"content": [{"type": "text", "text": "answered"}]}

    server = Old(forgetful)
    async with open_room(home, monkeypatch, s=server) as room:
        a = await room.agent("a", agree)
        b = await room.agent("b", never)
        async with trio.open_nursery() as nursery:
            results: list[str] = []

            async def call() -> None:
                results.append(text(await a.call("s__do", {})))

            nursery.start_soon(call)
            await trio.sleep(1)
            await b.call("s__do", {"quiet": True})
        assert results == ["refused -32603"], "it cannot be told whose it is"
        assert b.asked == []


async def test_a_withdrawn_call_cancels_its_task(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        async with trio.open_nursery() as nursery:

            async def call() -> None:
                with pytest.raises(Gone):
                    await agent.request("tools/call", {"name": "s__do", "arguments": {}}, 77)

            nursery.start_soon(call)
            await trio.sleep(1.2)
            agent.send({"method": "notifications/cancelled", "params": {"requestId": 77}})
        (job,) = server.jobs.values()
        assert job.status == "cancelled"


async def test_an_agent_that_leaves_cancels_its_task(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        agent.send({"id": 7, "method": "tools/call", "params": {"name": "s__do", "arguments": {}}})
        await trio.sleep(1.2)
        await agent.leave()
        await trio.sleep(5)
        (job,) = server.jobs.values()
        assert job.status == "cancelled"


async def test_a_task_that_never_ends_is_given_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers is alive, so that only the time in all counts (D9)."""
    server = Old(endless)
    server.poll = 20_000
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        began = trio.current_time()
        result = await agent.call("s__do", {})
        assert result["_meta"]["dev.mcpd/kind"] == "timed_out"
        assert 1799 <= trio.current_time() - began <= 1830, "30 min (D9)"
        assert [job.status for job in server.jobs.values()] == ["cancelled"]


async def test_an_error_of_a_driven_task_is_the_call_s(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(server: Old, job: Job) -> Json:
        await trio.sleep(2)
        raise Refused({"code": -32050, "message": f"{job.id} broke"})

    server = Old(fails)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        with pytest.raises(Refused) as caught:
            await agent.call("s__do", {})
        assert server.asked_for("tasks/cancel") == 0
        assert (caught.value.code, str(caught.value)) == (-32050, "[task] broke")


async def test_an_error_in_a_tool_is_its_result(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """`failed` here (5.15)."""

    async def fails(server: Old, job: Job) -> Json:
        return {"content": [{"type": "text", "text": "no"}], "isError": True}

    async with open_room(home, monkeypatch, s=Old(fails)) as room:
        agent = await room.agent("a", never)
        assert (await agent.call("s__do", {}))["isError"] is True
        assert [entry.outcome for entry in room.records] == ["tool_error"]


@pytest.mark.parametrize("odd", [{"task": 3}, {"task": {"taskId": "", "status": "working"}}, {"task": {}}])
async def test_what_is_no_task_is_a_bad_answer(
    home: Home, monkeypatch: pytest.MonkeyPatch, odd: Json
) -> None:
    class Odd(Old):
        async def answer(self, method: str, params: Json, ident: Any) -> Json:
            return odd if method == "tools/call" else await super().answer(method, params, ident)

    async with open_room(home, monkeypatch, s=Odd(quick)) as room:
        agent = await room.agent("a", never)
        assert (await agent.call("s__do", {}))["_meta"]["dev.mcpd/kind"] == "bad_answer"
        made = await agent.call("s__do", {}, task={})
        assert made["_meta"]["dev.mcpd/kind"] == "bad_answer"
        assert len(room.broker.tasks) == 0


@pytest.mark.parametrize("forgets", [False, True])
async def test_a_server_that_is_opened_anew_meanwhile(
    home: Home, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """One elsewhere that still knows the task goes on; of another nobody can say what it has done (D3)."""
    monkeypatch.setattr(Upstream, "forgets", False)  # as where it is a url
    server = Old(quick)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        results: list[Json] = []

        async def call() -> None:
            results.append(await agent.call("s__do", {}))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(call)
            await trio.sleep(1.2)
            (job,) = server.jobs.values()
            if forgets:
                server.jobs.clear()
            else:
                job.status, job.result = "completed", {"content": [{"type": "text", "text": "done"}]}
                job.done.set()
            room.broker.fleet.find("s").reconnect()
        if forgets:
            assert results[0]["_meta"]["dev.mcpd/kind"] == "outcome_unknown"
        else:
            assert text(results[0]) == "done"
        assert server.opened == 2


@pytest.mark.parametrize("driven", [False, True])
async def test_the_next_process_gives_the_same_ids(
    home: Home, monkeypatch: pytest.MonkeyPatch, driven: bool
) -> None:
    """What one agent followed at the old one is not what another does at the new one (n03)."""
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        a, b = [await room.agent(name, never) for name in "ab"]
        results: list[Json] = []

        async def call(agent: Agent) -> None:
            results.append(await agent.call("s__do", {}))

        async with trio.open_nursery() as nursery:
            task = {} if driven else await make(a)
            if driven:
                nursery.start_soon(call, a)
                await trio.sleep(1.2)
            server.jobs.clear()
            server.numbers = itertools.count(1)
            room.broker.fleet.find("s").reconnect()
            await trio.sleep(0.01)
            nursery.start_soon(call, b)
            await trio.sleep(0.1)
            (job,) = server.jobs.values()
            if not driven:
                for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                    with pytest.raises(Refused) as caught:
                        await a.request(method, {"taskId": task["taskId"]})
                    assert caught.value.code == -32602
                assert (await a.request("tasks/list", {}))["tasks"] == []
            job.status, job.result = "completed", {"content": [{"type": "text", "text": "for b"}]}
            job.done.set()
        assert text(results.pop()) == "for b"
        assert [result["_meta"]["dev.mcpd/kind"] for result in results] == ["outcome_unknown"] * driven


async def test_a_task_of_which_too_much_is_said_does_not_spoil_the_list(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Chatty(Old):
        def state(self, job: Job) -> Json:
            return super().state(job) | ({"statusMessage": "x" * 70_000} if job.arguments else {})

    server = Chatty(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        made = [(await make(agent))["taskId"] for _ in range(2)]
        for job in server.jobs.values():
            job.arguments = {"from": "now on"}
        assert [task["taskId"] for task in (await agent.request("tasks/list", {}))["tasks"]] == made


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        ({}, {}),
        ({"ttl": None}, {}),
        ({"ttl": 5.0}, {"ttl": 5}),
        ({"ttl": 5.5}, None),
        ({"ttl": -1}, {"ttl": 0}),
        ({"ttl": 1e300}, {"ttl": 86_400_000}),
        ({"ttl": "x"}, None),
        (3, None),
        ([], None),
    ],
)
async def test_what_an_agent_may_wish_of_a_task(
    home: Home, monkeypatch: pytest.MonkeyPatch, wish: Any, told: Json | None
) -> None:
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        if told is None:
            with pytest.raises(Refused) as caught:
                await agent.call("s__do", {}, task=wish)
            assert caught.value.code == -32602
            assert server.asked_for("tools/call") == 0
            return
        await agent.call("s__do", {}, task=wish)
        (called,) = [message for message in server.heard if message.get("method") == "tools/call"]
        assert called["params"]["task"] == told


# ---------------------------------------------------- passed through, 2025-11-25


async def make(agent: Agent, **arguments: Any) -> Json:
    result = await agent.call("s__do", arguments, task={"ttl": 60_000})
    task: Json = result.get("task", result)
    return task


async def test_a_task_is_made_followed_and_its_result_fetched(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Old(quick)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        task = await make(agent, a=1)
        (job,) = server.jobs.values()
        assert task == {**server.state(job), "taskId": task["taskId"]}
        assert task["taskId"] != job.id
        called = next(message for message in server.heard if message.get("method") == "tools/call")
        assert called["params"]["task"] == {"ttl": 60_000}
        state = await agent.request("tasks/get", {"taskId": task["taskId"]})
        assert state == task
        assert (await agent.request("tasks/list", {}))["tasks"] == [task]
        result = await agent.request("tasks/result", {"taskId": task["taskId"]})
        assert text(result) == 'done {"a": 1}'
        assert result["_meta"] == {RELATED: {"taskId": task["taskId"]}, "com.example/x": 1}
        state = await agent.request("tasks/get", {"taskId": task["taskId"]})
        assert state["status"] == "completed"
        assert "server-task" not in json.dumps(agent.got)
        methods = [(entry.method, entry.tool, entry.outcome) for entry in room.records]
        assert ("tasks/get", "do", "ok") in methods
        assert ("tasks/result", "do", "ok") in methods


async def test_a_task_is_cancelled_by_its_agent(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        task = await make(agent)
        state = await agent.request("tasks/cancel", {"taskId": task["taskId"]})
        assert (state["taskId"], state["status"]) == (task["taskId"], "cancelled")
        with pytest.raises(Refused) as caught:
            await agent.request("tasks/result", {"taskId": task["taskId"]})
        assert "server-task" not in str(caught.value)


async def test_a_question_for_a_task_reaches_who_made_it_whoever_calls(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Old(asking)
    async with open_room(home, monkeypatch, s=server) as room:
        a = await room.agent("a", agree)
        b = await room.agent("b", never)
        mine = await make(a)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(busy, b)
            result = await a.request("tasks/result", {"taskId": mine["taskId"]})
            nursery.cancel_scope.cancel()
        assert json.loads(text(result))["action"] == "accept"
        assert (len(a.asked), b.asked) == (1, [])


async def busy(agent: Agent) -> None:
    """Has a request under way at all times."""
    for number in itertools.count(1000):
        agent.send(
            {
                "id": number,
                "method": "tools/call",
                "params": {"name": "s__do", "arguments": {"quiet": True}, "task": {}},
            }
        )
        await trio.sleep(0.4)


async def test_the_state_is_told_to_who_made_the_task(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        a, b = [await room.agent(name, never) for name in "ab"]
        task = await make(a)
        (job,) = server.jobs.values()
        for status in ("working", "completed", "completed"):
            job.status = status
            server.say({"method": "notifications/tasks/status", "params": server.state(job)})
        await trio.testing.wait_all_tasks_blocked()
        told = [each["params"] for each in a.got if each.get("method") == "notifications/tasks/status"]
        assert [(each["taskId"], each["status"]) for each in told] == [
            (task["taskId"], "working"),
            (task["taskId"], "completed"),
        ], "nothing follows the end"
        assert not [each for each in b.got if each.get("method") == "notifications/tasks/status"]


async def test_the_state_is_told_without_what_mcpd_holds_n17(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a list of tasks repeat it."""
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        room.broker.held_values.hold([Held("other", "THEIR_KEY", "kx82hf93-secret-of-theirs")])
        agent = await room.agent("a", never)
        await make(agent)
        (job,) = server.jobs.values()
        job.status = "completed"
        state = server.state(job) | {"statusMessage": "kx82hf93-secret-of-theirs\u202e"}
        server.say({"method": "notifications/tasks/status", "params": state})
        await trio.testing.wait_all_tasks_blocked()
        [told] = [each["params"] for each in agent.got if each.get("method") == "notifications/tasks/status"]
        [listed] = (await agent.request("tasks/list", {}))["tasks"]
        for said in (told, listed):
            assert said["statusMessage"].startswith("[redacted:THEIR_KEY]")
            assert "\u202e" not in said["statusMessage"], "b25"


@pytest.mark.parametrize(
    "limit",
    [
        {"agents": {"default": Named(name="default", denied_tools=("s__do",))}},
        {"tool_policies": (("s__do", Policy(approval="deny")),)},
    ],
)
async def test_the_state_of_what_is_denied_by_now_is_not_told(
    home: Home, monkeypatch: pytest.MonkeyPatch, limit: Json
) -> None:
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never)
        await make(agent)
        (job,) = server.jobs.values()
        room.broker.config = replace(room.broker.config, **limit)
        room.broker.changes.publish("servers", "s")
        server.say({"method": "notifications/tasks/status", "params": server.state(job)})
        await trio.testing.wait_all_tasks_blocked()
        assert not [each for each in agent.got if each.get("method") == "notifications/tasks/status"]


async def test_a_tool_without_tasks_is_not_called_as_one(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_room(home, monkeypatch, s=Old(quick, "forbidden")) as room:
        agent = await room.agent("a", never)
        with pytest.raises(Refused) as caught:
            await make(agent)
        assert caught.value.code == -32601


async def test_the_list_has_pages(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        a, b = [await room.agent(name, never) for name in "ab"]
        made = [(await make(a))["taskId"] for _ in range(120)]
        found: list[str] = []
        params: Json = {}
        while True:
            page = await a.request("tasks/list", params)
            found += [task["taskId"] for task in page["tasks"]]
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert found == made
        assert (await b.request("tasks/list", {}))["tasks"] == []
        for agent, cursor in ((b, params["cursor"]), (a, "x"), (a, params["cursor"] + "0")):
            with pytest.raises(Refused) as caught:
                await agent.request("tasks/list", {"cursor": cursor})
            assert caught.value.code == -32602


# ------------------------------------------------------- passed through, 2026-07-28


class New(Old, Modern):
    """A stateless server that makes tasks of calls where it may (5.16)."""

    def __init__(self, work: Work, announces: bool = True) -> None:
        super().__init__(work, "forbidden")
        self.announces = announces
        self.followed: dict[Any, list[str]] = {}

    def state(self, job: Job) -> Json:
        found = {**super().state(job), "ttlMs": 600_000, "pollIntervalMs": 500}
        del found["ttl"], found["pollInterval"]
        if job.questions.keys() - job.answers.keys():
            found["status"] = "input_required"
            found["inputRequests"] = job.questions
        elif job.error is not None:
            found["error"] = job.error
        elif job.result is not None:
            found |= {"result": job.result, "status": "completed"}
        return found

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        if method == "server/discover":
            found = await Modern.answer(self, method, params, ident)
            return found | {
                "capabilities": {"tools": {}, "extensions": {TASKS: {}} if self.announces else {}}
            }
        told = params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        able = TASKS in told.get("extensions", {})
        if method.startswith("tasks/"):
            if not able:
                raise Refused({"code": -32021, "message": "missing capability"})
            job = self.job(params)
            match method:
                case "tasks/get":
                    return {"resultType": "complete", **self.state(job)}
                case "tasks/update":
                    job.answers |= params["inputResponses"]
                    if job.questions.keys() <= job.answers.keys():
                        job.answered.set()
                    return {"resultType": "complete"}
                case "tasks/cancel":
                    job.scope.cancel()
                    return {"resultType": "complete"}
        if method == "tools/call" and (able or params["arguments"].get("rude")):
            return {"resultType": "task", **self.state(self.begin(params))}
        if method == "subscriptions/listen":
            return await self.listen(params["notifications"].get("taskIds", []), ident)
        return await Modern.answer(self, method, params, ident)

    async def listen(self, ids: list[str], ident: Any) -> Json:
        self.followed[ident] = ids
        meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": ident}}
        known = [each for each in ids if each in self.jobs]
        params = {"notifications": {"taskIds": known}, **meta}
        self.say({"method": "notifications/subscriptions/acknowledged", "params": params})
        try:
            await trio.sleep_forever()
        finally:
            del self.followed[ident]

    def tell(self, job: Job) -> None:
        for ident, ids in self.followed.items():
            if job.id in ids:
                meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": ident}}
                self.say({"method": "notifications/tasks", "params": {**self.state(job), **meta}})


async def plain(server: Asking, params: Json, ident: Any) -> str:
    return "plain"


async def test_a_task_of_the_extension_is_followed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = New(quick)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        task = await make(agent, a=1)
        (job,) = server.jobs.values()
        assert task == {"resultType": "task", **server.state(job), "taskId": task["taskId"]}
        assert task["taskId"] != job.id
        state = await agent.request("tasks/get", {"taskId": task["taskId"]})
        assert state == {**task, "resultType": "complete"}
        await trio.sleep(4)
        state = await agent.request("tasks/get", {"taskId": task["taskId"]})
        assert state["status"] == "completed"
        assert text(state["result"]) == 'done {"a": 1}'
        assert "server-task" not in json.dumps(agent.got)
        assert await agent.request("tasks/cancel", {"taskId": task["taskId"]}) == {"resultType": "complete"}


async def test_who_does_not_declare_it_gets_no_task(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = New(quick)
    server.tool = plain
    async with open_room(home, monkeypatch, s=server) as room:
        for modern, said in ((True, ALL), (False, WITH_TASKS), (False, ALL)):
            agent = await room.agent("a", never, said, modern=modern)
            assert text(await agent.call("s__do", {})) == "plain"
            rude = await agent.call("s__do", {"rude": True})
            assert rude["_meta"]["dev.mcpd/kind"] == "bad_answer", "it was not declared"
        assert len(room.broker.tasks) == 0


async def test_a_server_that_does_not_announce_it_is_not_told(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = New(quick, announces=False)
    server.tool = plain
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        assert text(await agent.call("s__do", {})) == "plain"
        rude = await agent.call("s__do", {"rude": True})
        assert rude["_meta"]["dev.mcpd/kind"] == "bad_answer"


async def test_each_request_about_a_task_declares_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = New(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        task = await make(agent)
        agent.capabilities = ALL
        heard = len(server.heard)
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(Refused):
                await agent.request(method, {"taskId": task["taskId"]})
            error = agent.got[-1]["error"]
            assert error["code"] == -32021
            assert error["data"]["requiredCapabilities"] == {"extensions": {TASKS: {}}}
        assert len(server.heard) == heard


async def waits(server: Old, job: Job) -> Json:
    job.questions = {
        "who": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}},
        "pin": {
            "method": "elicitation/create",
            "params": {
                "message": "Pin?",
                "requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}},
            },
        },
    }
    await job.answered.wait()
    return {"content": [{"type": "text", "text": json.dumps(job.answers, sort_keys=True)}]}


async def test_questions_within_a_task_pass_policy_and_keep_their_keys(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = New(waits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        task = {"taskId": (await make(agent))["taskId"]}
        await trio.sleep(1)
        for _ in range(3):
            state = await agent.request("tasks/get", task)
            assert state["status"] == "input_required"
            assert list(state["inputRequests"]) == ["who"], "a password is not asked for"
            assert state["inputRequests"]["who"]["params"]["message"] == "[s, untrusted] Who?"
        (job,) = server.jobs.values()
        assert job.answers == {"pin": {"action": "decline"}}
        assert server.asked_for("tasks/update") == 1
        odd: Json = {**task, "inputResponses": {"who": {"action": "accept", "content": {"said": 5}}}}
        with pytest.raises(Refused) as caught:
            await agent.request("tasks/update", odd)
        assert caught.value.code == -32602
        answers = {"who": {"action": "accept", "content": {"said": "me"}}, "other": {"action": "accept"}}

        async def update() -> None:
            done = await agent.request("tasks/update", {**task, "inputResponses": answers})
            assert done == {"resultType": "complete"}

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(update)
        await update()
        assert server.asked_for("tasks/update") == 2, "each is answered once"
        await trio.sleep(1)
        state = await agent.request("tasks/get", task)
        assert json.loads(text(state["result"])) == {
            "pin": {"action": "decline"},
            "who": {"action": "accept", "content": {"said": "me"}},
        }
        assert len(room.asks(outcome="accept")) == 1
        assert len(room.asks(outcome="refused")) == 1


# --------------------------------------------------------------------- ids (n03)


@pytest.mark.parametrize("modern", [False, True])
async def test_ids_of_others_are_of_no_use(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool) -> None:
    server: Old = New(endless) if modern else Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        a, b = [await room.agent(name, never, WITH_TASKS, modern=modern) for name in "ab"]
        other = await room.agent("c", never, WITH_TASKS, modern=not modern)
        mine = (await make(a))["taskId"]
        (job,) = server.jobs.values()
        heard = len(server.heard)
        ids = [mine, job.id, mine[:-1], mine + "A", mine.swapcase(), "", "server-task-2"]
        methods = ["tasks/get", "tasks/cancel", "tasks/update" if modern else "tasks/result"]
        for agent in (a, b):
            for method, ident in itertools.product(methods, ids):
                if agent is a and ident == mine:
                    continue
                with pytest.raises(Refused) as caught:
                    await agent.request(method, {"taskId": ident, "inputResponses": {}})
                assert caught.value.code == -32602, "unknown task (2.1)"
        with pytest.raises(Refused):
            await other.request("tasks/get", {"taskId": mine})
        assert len(server.heard) == heard, "nothing of it has reached the server"
        assert {entry.outcome for entry in room.records if entry.method == "tasks/get"} == {"invalid_params"}
        assert (await a.request("tasks/get", {"taskId": mine}))["status"] == "working"


@pytest.mark.parametrize("modern", [False, True])
async def test_an_id_expires(home: Home, monkeypatch: pytest.MonkeyPatch, modern: bool) -> None:
    server: Old = New(endless) if modern else Old(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=modern)
        task = {"taskId": (await make(agent))["taskId"]}
        life = 600 if modern else 60
        await trio.sleep(life)
        assert (await agent.request("tasks/get", task))["status"] == "working", "and its life begins anew"
        await trio.sleep(life + 61)
        heard = len(server.heard)
        with pytest.raises(Refused) as caught:
            await agent.request("tasks/get", task)
        assert caught.value.code == -32602
        assert len(server.heard) == heard


async def test_a_session_s_tasks_end_with_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_room(home, monkeypatch, s=Old(endless)) as room:
        agent = await room.agent("a", never)
        await make(agent)
        assert len(room.broker.tasks) == 1
        await agent.leave()
        assert len(room.broker.tasks) == 0
        connection = room.broker.fleet.find("s").connection
        assert connection is not None
        assert connection._followed == {}


async def test_what_is_denied_by_now_cannot_be_followed(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided as the call that made it (a01)."""
    server = New(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        task = {"taskId": (await make(agent))["taskId"]}
        deny(room)
        heard = len(server.heard)
        with pytest.raises(Refused) as caught:
            await agent.request("tasks/get", task)
        assert "the policy denies" in str(caught.value)
        assert len(server.heard) == heard


def deny(room: Room) -> None:
    broker = room.broker
    broker.config = replace(broker.config, tool_policies=(("s__do", Policy(approval="deny")),))
    broker.changes.publish("servers", None)


async def test_many_interleavings(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four agents, both forms, driven and followed, with questions: nothing goes to a wrong one."""
    seed = random.Random(7)

    async def work(server: Old, job: Job) -> Json:
        await trio.sleep(seed.random() * 3)
        if job.arguments["asks"]:
            job.status = "input_required"
            related = {"_meta": {RELATED: {"taskId": job.id}}}
            question = {"message": job.arguments["who"], "requestedSchema": FORM, **related}
            await server.ask("elicitation/create", question)
            job.status = "working"
            await trio.sleep(seed.random())
        return {"content": [{"type": "text", "text": job.arguments["who"]}]}

    async with open_room(home, monkeypatch, s=Old(work)) as room:
        agents: dict[str, Agent] = {}

        def replies(name: str) -> Callable[[Json], Awaitable[Json]]:
            async def reply(question: Json) -> Json:
                assert name in question["params"]["message"].split()[-1], "a question of somebody else"
                await trio.sleep(seed.random())
                return await agree(question)

            return reply

        for name in "abcd":
            agents[name] = await room.agent(name, replies(name), modern=name == "d")

        async def follow(name: str) -> None:
            agent = agents[name]
            for _ in range(15):
                await trio.sleep(seed.random())
                who = f"{name}{seed.random()}"
                arguments = {"who": who, "asks": seed.random() < 0.5}
                if name == "d" or seed.random() < 0.5:
                    result = await agent.call("s__do", arguments)
                else:
                    made = await agent.call("s__do", arguments, task={})
                    await trio.sleep(seed.random() * 4)
                    result = await agent.request("tasks/result", {"taskId": made["task"]["taskId"]})
                assert text(result) == who

        async with trio.open_nursery() as nursery:
            for name in agents:
                nursery.start_soon(follow, name)


# --------------------------------------------------------- news of tasks (5.14, 5.16)


def told(agent: Agent, method: str = "notifications/tasks") -> list[Json]:
    return [message["params"] for message in agent.got if message.get("method") == method]


async def listen(agent: Agent, ident: str, *ids: str) -> list[str]:
    """Open a stream; the ids that are agreed to."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": agent.capabilities,
    }
    params = {"notifications": {"taskIds": ids}, "_meta": meta}
    agent.send({"id": ident, "method": "subscriptions/listen", "params": params})
    await trio.sleep(12)
    (found,) = [
        each
        for each in told(agent, "notifications/subscriptions/acknowledged")
        if each["_meta"]["io.modelcontextprotocol/subscriptionId"] == ident
    ]
    granted: list[str] = found["notifications"].get("taskIds", [])
    return granted


async def test_a_stream_tells_of_the_tasks_of_its_agent(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = New(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        a, b = [await room.agent(name, never, WITH_TASKS, modern=True) for name in "ab"]
        first, second, theirs = [(await make(agent))["taskId"] for agent in (a, a, b)]
        jobs = list(server.jobs.values())
        assert await listen(a, "mine", first, second, theirs, jobs[0].id, "nonsense") == [first, second]
        assert await listen(b, "theirs", theirs, first) == [theirs]
        assert sorted(server.followed.values()) == [[jobs[0].id, jobs[1].id], [jobs[2].id]]
        for job in jobs:
            server.tell(job)
        await trio.sleep(1)
        assert [each["taskId"] for each in told(a)] == [first, second]
        assert [each["taskId"] for each in told(b)] == [theirs]
        key = "io.modelcontextprotocol/subscriptionId"
        assert {each["_meta"][key] for each in told(a)} == {"mine"}
        jobs[0].result = {"content": [{"type": "text", "text": "done"}]}
        for _ in range(50):
            server.tell(jobs[0])
        await trio.sleep(1)
        assert len(told(a)) <= 4, "storms are coalesced"
        assert text(told(a)[-1]["result"]) == "done"
        assert "server-task" not in json.dumps(a.got + b.got)
        a.send({"method": "notifications/cancelled", "params": {"requestId": "mine"}})
        await trio.sleep(1)
        assert list(server.followed.values()) == [[jobs[2].id]], "the server's stream ended with it"
        server.tell(jobs[2])
        await b.leave()
        await trio.sleep(1)
        assert server.followed == {}
        assert room.broker.fleet.find("s").follows == set()


async def test_questions_told_of_pass_policy_as_well(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = New(waits)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        task = (await make(agent))["taskId"]
        (job,) = server.jobs.values()
        assert await listen(agent, "mine", task) == [task]
        server.tell(job)
        await trio.sleep(1)
        (news,) = told(agent)
        assert list(news["inputRequests"]) == ["who"]
        assert news["inputRequests"]["who"]["params"]["message"] == "[s, untrusted] Who?"
        assert job.answers == {"pin": {"action": "decline"}}


async def test_a_lost_stream_is_opened_again_and_what_was_missed_is_asked_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = New(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        task = (await make(agent))["taskId"]
        (job,) = server.jobs.values()
        assert await listen(agent, "mine", task) == [task]
        (stream,) = server.followed
        server.say({"method": "notifications/cancelled", "params": {"requestId": stream}})
        job.result = {"content": [{"type": "text", "text": "done meanwhile"}]}
        await trio.sleep(5)
        assert text(told(agent)[-1]["result"]) == "done meanwhile"
        assert [each for each in server.followed if each != stream]


async def test_who_has_not_declared_it_is_told_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    server = New(endless)
    async with open_room(home, monkeypatch, s=server) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        task = (await make(agent))["taskId"]
        agent.capabilities = ALL
        assert await listen(agent, "mine", task) == []
        assert server.followed == {}


async def test_a_server_that_tells_of_none(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(New):
        async def listen(self, ids: list[str], ident: Any) -> Json:
            raise Refused({"code": -32601, "message": "method not found"})

    async with open_room(home, monkeypatch, s=Silent(endless)) as room:
        agent = await room.agent("a", never, WITH_TASKS, modern=True)
        task = (await make(agent))["taskId"]
        assert await listen(agent, "mine", task) == []
        assert room.broker.fleet.find("s").follows == set()


# --------------------------------------------------------------- extensions (5.17)


async def test_extensions_and_unknown_members_survive(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server alone shows its own; an agent's are told to servers that have announced them."""
    told_of: list[Json] = []

    class Extended(Modern):
        async def answer(self, method: str, params: Json, ident: Any) -> Json:
            if method == "server/discover":
                own = {"com.example/x": {"a": 1}, "io.modelcontextprotocol/not-carried": {}}
                return {
                    **await super().answer(method, params, ident),
                    "capabilities": {"tools": {}, "extensions": own},
                }
            found = await super().answer(method, params, ident)
            if method == "tools/call":
                told_of.append(self.capabilities)
                found |= {"com.example/more": {"kept": [1, None]}, "_meta": {"com.example/m": 1}}
            if method == "tools/list":
                found["tools"][0] |= {"unknown": {"kept": True}, "_meta": {"ui": {"resourceUri": "ui://x"}}}
            return found

    ui = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
    own: Json = {
        **ui,
        "com.example/x": {"b": 2},
        "com.example/y": {},
        "io.modelcontextprotocol/not-carried": {},
    }
    async with open_room(home, monkeypatch, s=Extended(plain)) as room:
        agent = await room.agent("a", never, {"extensions": own}, modern=True)
        many = await agent.request("server/discover", {})
        assert many["capabilities"]["extensions"] == {TASKS: {}}
        agent.session.show("s")
        alone = await agent.request("server/discover", {})
        assert alone["capabilities"]["extensions"] == {"com.example/x": {"a": 1}}
        (tool,) = (await agent.request("tools/list", {}))["tools"]
        assert tool["unknown"] == {"kept": True}
        result = await agent.call("do", {})
        assert result["com.example/more"] == {"kept": [1, None]}
        assert result["_meta"]["com.example/m"] == 1
        assert [each["extensions"] for each in told_of] == [{**ui, "com.example/x": {"b": 2}}]
