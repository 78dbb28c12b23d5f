"""The official suite's client: a private daemon with the suite's server in it, and an agent that uses it.

    driver URL       MCP_CONFORMANCE_SCENARIO names the scenario, MCP_CONFORMANCE_PROTOCOL_VERSION the wire

The scenario decides what the agent does; the daemon is told neither. The agent speaks the wire's revision, or
the one in MCPD_CONFORMANCE_AGENT. Exit code 0: everything came back as it should have, and the daemon ended
with 0 and left nothing behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from tests.conformance.home import SERVER, private_daemon
from tests.e2e.harness import META, Agent, Daemon, Refused, text_of

CAPABILITIES: dict[str, Any] = {"elicitation": {}}
Json = dict[str, Any]


class Host(Agent):
    """An agent whose user accepts every form, with the content that the scenario gives."""

    content: Json
    offered: Json
    """What mcpd has declared to it."""

    async def take(self, message: Json) -> None:
        if message.get("method") == "elicitation/create" and "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": self.accepted(message["params"])}
            await self.line(json.dumps(answer).encode())
        else:
            await super().take(message)

    async def send(self, method: str, params: Json | None = None, **more: Any) -> None:
        if self.modern and "id" in more:
            params = {**(params or {}), "_meta": {META + "clientCapabilities": CAPABILITIES}}
        await super().send(method, params, **more)

    def accepted(self, asked: Json) -> Json:
        assert isinstance(asked["message"], str), asked
        return {"action": "accept", "content": self.content}

    async def first_round(self, tool: str, **arguments: Any) -> Json:
        """The result of a call as it came, which may be `input_required`."""
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def last_round(self, tool: str, result: Json, **arguments: Any) -> Json:
        """The complete result, after as many rounds as it takes."""
        while result.get("resultType") == "input_required":
            asked = result["inputRequests"]
            answers = {key: self.accepted(request["params"]) for key, request in asked.items()}
            retry: Json = {"name": tool, "arguments": arguments, "inputResponses": answers}
            if "requestState" in result:
                retry["requestState"] = result["requestState"]
            result = await self.request("tools/call", retry)
        return result

    async def use(self, tool: str, **arguments: Any) -> str:
        """The text of a tool's result; a result that is an error raises."""
        result = await self.last_round(tool, await self.first_round(tool, **arguments), **arguments)
        assert not result.get("isError"), result
        return text_of(result)

    async def everything(self, method: str, key: str) -> list[Json]:
        """All pages of a list."""
        entries: list[Json] = []
        page: Json = {}
        while True:
            got = await self.request(method, page)
            entries += got[key]
            if got.get("nextCursor") is None:
                return entries
            page = {"cursor": got["nextCursor"]}


# -- what the agent does, by scenario ------------------------------------------------------------------------
Scenario = Callable[[Host, Json], Awaitable[None]]


async def list_tools(host: Host, context: Json) -> None:
    await host.everything("tools/list", "tools")


async def call_add_numbers(host: Host, context: Json) -> None:
    assert "8" in await host.use("add_numbers", a=5, b=3)


async def accept_defaults(host: Host, context: Json) -> None:
    host.content = {}
    said = await host.use("test_client_elicitation_defaults")
    assert "Elicitation completed" in said, said


async def call_test_reconnection(host: Host, context: Json) -> None:
    assert "Reconnection test completed" in await host.use("test_reconnection")


async def use_all_lists(host: Host, context: Json) -> None:
    for tool in await host.everything("tools/list", "tools"):
        await host.use(tool["name"])
    if "resources" in host.offered:
        for resource in await host.everything("resources/list", "resources"):
            await host.request("resources/read", {"uri": resource["uri"]})
    if "prompts" in host.offered:
        for prompt in await host.everything("prompts/list", "prompts"):
            await host.request("prompts/get", {"name": prompt["name"]})


async def make_given_calls(host: Host, context: Json) -> None:
    await host.everything("tools/list", "tools")
    for call in context["toolCalls"]:
        await host.use(call["name"], **call["arguments"])


async def call_all_listed(host: Host, context: Json) -> None:
    tools = await host.everything("tools/list", "tools")
    for tool in tools:
        await host.use(tool["name"], **dict.fromkeys(tool["inputSchema"].get("required", ()), "x"))
    names = [tool["name"] for tool in tools]
    assert names == ["valid_tool"], names


async def call_lookup_user(host: Host, context: Json) -> None:
    await host.everything("tools/list", "tools")
    # The suite's server has no such method: what counts is that the arguments were looked at and went out.
    with contextlib.suppress(Refused):
        await host.first_round("lookup_user", id="user-1", profile={"displayName": "x"})


async def echo_schema(host: Host, context: Json) -> None:
    tools = {tool["name"]: tool for tool in await host.everything("tools/list", "tools")}
    await host.use("json_schema_echo", schema=tools["json_schema_2020_12_tool"]["inputSchema"])


async def answer_with_state(host: Host, context: Json) -> None:
    # Something else is called between the rounds of the first; an agent of the handshake cannot: it is asked.
    asked = await host.first_round("test_mrtr_echo_state")
    assert "unrelated-ok" in await host.use("test_mrtr_unrelated")
    assert "echo-state-ok" in text_of(await host.last_round("test_mrtr_echo_state", asked))
    assert "no-state-ok" in await host.use("test_mrtr_no_state")
    assert "no-result-type-test-ok" in await host.use("test_mrtr_no_result_type")


SCENARIOS: dict[str, Scenario] = {
    "initialize": list_tools,
    "tools_call": call_add_numbers,
    "elicitation-sep1034-client-defaults": accept_defaults,
    "sse-retry": call_test_reconnection,
    "request-metadata": use_all_lists,
    "http-standard-headers": use_all_lists,
    "http-custom-headers": make_given_calls,
    "http-invalid-tool-headers": call_all_listed,
    "json-schema-ref-no-deref": call_lookup_user,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2322-client-request-state": answer_with_state,
}


# -- running it ----------------------------------------------------------------------------------------------
async def drive(daemon: Daemon, scenario: str, revision: str, context: Json) -> str:
    """What went wrong; empty for nothing."""
    stream = await trio.open_unix_socket(str(daemon.sockets / "agents" / "default" / "mcp.sock"))
    wrong = ""
    async with stream, trio.open_nursery() as nursery:
        host = Host(stream)
        host.content = {"confirmed": True}
        nursery.start_soon(host.run)
        try:
            await host.send("notifications/dev.mcpd/attach", {"server": SERVER})
            await greet(host, revision)
            await SCENARIOS[scenario](host, context)
        except (AssertionError, ConnectionError, Refused, trio.TooSlowError) as error:
            wrong = f"{type(error).__name__}: {error}"
        nursery.cancel_scope.cancel()
    return wrong


async def greet(host: Host, revision: str) -> None:
    if revision >= "2026-07-28":
        host.modern = True
        host.offered = (await host.request("server/discover"))["capabilities"]
        return
    info = {"name": "conformance", "version": "1"}
    hello = {"protocolVersion": revision, "capabilities": CAPABILITIES, "clientInfo": info}
    answer = await host.request("initialize", hello)
    assert answer["protocolVersion"] == revision
    host.offered = answer["capabilities"]
    await host.send("notifications/initialized")


def main(argv: list[str]) -> int:
    if len(argv) != 1:
        print("usage: client URL", file=sys.stderr)
        return 2
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    if scenario not in SCENARIOS:
        print(f"not driven: {scenario or 'no scenario'}", file=sys.stderr)
        return 2
    wire = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
    revision = os.environ.get("MCPD_CONFORMANCE_AGENT") or wire
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with private_daemon(url=argv[0]) as daemon:
        daemon.ask("servers.test", server=SERVER)
        status = daemon.status(SERVER)
        print(json.dumps(status), daemon.said(), file=sys.stderr)
        wrong = trio.run(drive, daemon, scenario, revision, context)
    print(wrong or "driven", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
