"""Tasks of a real server, through a real daemon: followed by an agent, or by mcpd for one that knows none
(5.15, 8.2)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.harness import OPEN, Agent, Daemon, Refused, attached, text_of
from tests.real.plans import npm

TOOL = "everything__simulate-research-query"
REPORT = "# Research Report: tasks"


@pytest.fixture
def everything(daemon: Daemon) -> Daemon:
    """The reference server; the tool takes four seconds, and runs as a task only."""
    command, *args = npm("server-everything", "stdio")
    daemon.server("everything", {"command": command, "args": args, "default_policy": OPEN})
    daemon.start()
    return daemon


@pytest.mark.npm
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_tool_that_runs_as_a_task_only_is_called_as_any_other(
    everything: Daemon, real_clock: None, revision: str
) -> None:
    async with attached(everything, revision=revision) as agent:
        assert text_of(await agent.call(TOOL, topic="tasks")).startswith(REPORT)
        listed = (await agent.request("tools/list"))["tools"]
        (tool,) = [each for each in listed if each["name"] == TOOL]
        assert tool["execution"] == {"taskSupport": "optional"}


async def make(agent: Agent) -> dict[str, Any]:
    params = {"name": TOOL, "arguments": {"topic": "tasks"}, "task": {"ttl": 60_000}}
    task: dict[str, Any] = (await agent.request("tools/call", params))["task"]
    return task


@pytest.mark.npm
async def test_an_agent_follows_a_task_itself(everything: Daemon, real_clock: None) -> None:
    async with attached(everything) as agent, attached(everything) as other:
        task = await make(agent)
        assert task["status"] == "working"
        about = {"taskId": task["taskId"]}
        state = await agent.request("tasks/get", about)
        assert (state["taskId"], state["createdAt"]) == (task["taskId"], task["createdAt"])
        assert [each["taskId"] for each in (await agent.request("tasks/list"))["tasks"]] == [task["taskId"]]
        assert (await other.request("tasks/list"))["tasks"] == []
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            with pytest.raises(Refused) as caught:
                await other.request(method, about)
            assert caught.value.code == -32602
        result = await agent.request("tasks/result", about)
        assert text_of(result).startswith(REPORT)
        assert result["_meta"]["io.modelcontextprotocol/related-task"] == about
        assert (await agent.request("tasks/get", about))["status"] == "completed"


@pytest.mark.npm
async def test_an_agent_cancels_a_task(everything: Daemon, real_clock: None) -> None:
    async with attached(everything) as agent:
        about = {"taskId": (await make(agent))["taskId"]}
        assert (await agent.request("tasks/cancel", about))["status"] == "cancelled"
        with pytest.raises(Refused) as caught:
            await agent.request("tasks/cancel", about)
        assert caught.value.code == -32602, "it is over"
