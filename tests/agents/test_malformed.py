"""What the schema of a revision calls malformed is refused: nothing is guessed at, and no server sees it.

Each request of a revision is broken in every way that its schema knows: one member after the other is left
out, or is of another type. One thing is not held against an agent: null in the place of a member that may be
left out, for that is how some SDKs leave it out. And the other way round: what is valid is never refused for
its shape.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcpd.protocol.revisions import REVISIONS
from tests.agents.world import META, MODERN, SCHEMAS, Agent, Stage, meta, staged, validator
from tests.conftest import Home
from tests.control.world import library, write_server

Json = dict[str, Any]
Path = tuple[str | int, ...]

INFO: Json = {"name": "test", "version": "1", "title": "Test", "icons": [{"src": "data:,", "sizes": ["1x1"]}]}
CAPABILITIES: Json = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}},
    "experimental": {"x": {}},
}
COMPLETED: Json = {
    "ref": {"type": "ref/prompt", "name": "greet"},
    "argument": {"name": "style", "value": "b"},
    "context": {"arguments": {"code": "x"}},
}
LISTEN: Json = {
    "notifications": {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["note:///1"],
    }
}
ANSWERS: Json = {"inputResponses": {"name": {"action": "decline"}}}
#: What agents can ask for, as full as can be.
REQUESTS: dict[str, list[Json]] = {
    "InitializeRequest": [{"capabilities": CAPABILITIES, "clientInfo": INFO}],
    "DiscoverRequest": [{}],
    "PingRequest": [{}],
    "ListToolsRequest": [{}, {"cursor": "x"}],
    "CallToolRequest": [{"name": "echo", "arguments": {"x": 1}}, {"name": "echo", "task": {"ttl": 1}}],
    "ListResourcesRequest": [{}, {"cursor": "x"}],
    "ListResourceTemplatesRequest": [{}, {"cursor": "x"}],
    "ReadResourceRequest": [{"uri": "note:///1"}],
    "SubscribeRequest": [{"uri": "note:///1"}],
    "UnsubscribeRequest": [{"uri": "note:///1"}],
    "SubscriptionsListenRequest": [LISTEN],
    "ListPromptsRequest": [{}, {"cursor": "x"}],
    "GetPromptRequest": [{"name": "greet", "arguments": {"style": "b"}}],
    "CompleteRequest": [COMPLETED, {**COMPLETED, "ref": {"type": "ref/resource", "uri": "note:///{id}"}}],
    "SetLevelRequest": [{"level": "emergency"}],
    "GetTaskRequest": [{"taskId": "x"}],
    "GetTaskPayloadRequest": [{"taskId": "x"}],
    "CancelTaskRequest": [{"taskId": "x"}],
    "ListTasksRequest": [{}, {"cursor": "x"}],
}
ROUNDS = ("CallToolRequest", "GetPromptRequest", "ReadResourceRequest")
OTHERS: tuple[Any, ...] = (None, True, 7, 1.5, "x", [], ["x"], [7], {}, {"x": 7})
REFUSED = (-32600, -32601, -32602)


def requests(revision: str) -> list[tuple[str, Json]]:
    """Every request that the schema of a revision knows, under its name there."""
    schema = json.loads((SCHEMAS / f"{revision}.json").read_text())
    definitions = schema.get("$defs") or schema["definitions"]
    found = []
    for name in (kind["$ref"].rpartition("/")[2] for kind in definitions["ClientRequest"]["anyOf"]):
        method = definitions[name]["properties"]["method"]["const"]
        for given in REQUESTS[name]:
            params = {**given, "_meta": {"progressToken": "t"}}
            if revision == MODERN:
                params["_meta"] |= meta() | {
                    META + "logLevel": "info",
                    META + "clientInfo": INFO,
                    META + "clientCapabilities": {**CAPABILITIES, "extensions": {"com.x/y": {}}},
                }
                if name in ROUNDS:
                    params |= ANSWERS
            if name == "InitializeRequest":
                params["protocolVersion"] = revision
            found.append((name, {"jsonrpc": "2.0", "id": "it", "method": method, "params": params}))
    return found


def broken(message: Json, is_valid: Any) -> Iterator[tuple[Path, Json]]:
    """Every copy of a message in which one thing is missing or another, and that is not valid any more."""
    for path in places(message):
        without = copy.deepcopy(message)
        at(without, path[:-1]).pop(path[-1])
        optional = is_valid(without)
        if path != ("id",) and not optional and not is_answers(path, without):
            yield path, without
        for other in OTHERS:
            changed = copy.deepcopy(message)
            at(changed, path[:-1])[path[-1]] = other
            if not is_valid(changed) and not (other is None and optional) and not is_answers(path, changed):
                yield path, changed


def is_answers(path: Path, message: Json) -> bool:
    """Whether answers differ: which fit depends on the question, and what answers none is ignored (5.13)."""
    return "inputResponses" in path and isinstance(message["params"]["inputResponses"], dict)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    within = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in within:
        yield (*path, key)
        yield from places(each, (*path, key))


def at(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


async def asked(stage: Stage, agent: Agent, name: str, message: Json) -> Json:
    """The answer to a message, whatever id it has; a session is opened once only."""
    if name == "InitializeRequest":
        agent = stage.connect(revision=agent.revision)
    await agent.line(json.dumps(message))
    while "method" in (answer := await agent.read()):
        pass
    assert isinstance(answer, dict)
    return answer


@pytest.mark.shared
@pytest.mark.parametrize("revision", REVISIONS)
async def test_everything_malformed_is_refused(home: Home, real_clock: None, revision: str) -> None:
    write_server(home, "library", **library("--log", "/dev/null"))
    async with staged(home) as stage:
        agent = await stage.attach(revision=revision, server="library")
        await agent.tools()
        tried, taken = 0, []
        for name, message in requests(revision):
            is_valid = validator(revision, name).is_valid
            assert is_valid(message), name
            for path, changed in broken(message, is_valid):
                tried += 1
                answer = await asked(stage, agent, name, changed)
                if answer.get("error", {}).get("code") not in REFUSED:
                    taken.append((name, path, changed, answer))
        assert tried > 300
        assert taken == []


def whole(message: Json, is_valid: Any) -> Iterator[tuple[Path, Json]]:
    """Every copy of a message that lacks what may be left out, has null there, or says more than is known."""
    for path in places(message):
        without = copy.deepcopy(message)
        at(without, path[:-1]).pop(path[-1])
        if path not in (("id",), ("jsonrpc",)) and isinstance(path[-1], str) and is_valid(without):
            yield path, without
            # Prompts get texts alone, and so does what completes their arguments.
            if path[-2:-1] != ("arguments",):
                null = copy.deepcopy(message)
                at(null, path[:-1])[path[-1]] = None
                yield path, null
    for path in ((), *places(message)):
        more = copy.deepcopy(message)
        if isinstance(found := at(more, path), dict) and path[-1:] != ("arguments",):
            found["x"] = ["more"]
            if is_valid(more):
                yield path, more


@pytest.mark.shared
@pytest.mark.parametrize("revision", REVISIONS)
async def test_nothing_is_refused_that_is_well_formed(home: Home, real_clock: None, revision: str) -> None:
    write_server(home, "library", **library("--log", "/dev/null"))
    async with staged(home) as stage:
        agent = await stage.attach(revision=revision, server="library")
        await agent.tools()
        refused = []
        for name, message in requests(revision):
            if name == "SubscriptionsListenRequest":
                continue  # it stays open, without an answer
            is_valid = validator(revision, name).is_valid
            # What it asks for need not be there.
            plain = (await asked(stage, agent, name, message)).get("error", {}).get("code")
            for path, changed in whole(message, is_valid):
                answer = await asked(stage, agent, name, changed)
                if answer.get("error", {}).get("code") not in (None, plain):
                    refused.append((name, path, changed, answer))
        assert refused == []


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_what_a_later_revision_knows_of_clients_may_be_anything(
    home: Home, real_clock: None, revision: str
) -> None:
    """As the sizes of icons, which were one text before a revision had any."""
    info = {**INFO, "icons": [{"src": "data:,", "sizes": "48x48"}], "websiteUrl": 7}
    capabilities = {
        "tasks": True,
        "sampling": {"tools": True},
        "elicitation": {"form": True},
        "extensions": [],
    }
    params = {"protocolVersion": revision, "clientInfo": info, "capabilities": capabilities}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    assert validator(revision, "InitializeRequest").is_valid(message)
    async with staged(home) as stage:
        agent = stage.connect(revision=revision)
        await agent.line(json.dumps(message))
        answer = await agent.read()
        assert answer["result"]["protocolVersion"] == revision
