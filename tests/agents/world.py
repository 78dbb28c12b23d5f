"""Agents attached to a daemon's insides: real owners, real servers, a real socket pair for each agent."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import trio

from mcpd import reasking
from mcpd.agents.serve import announce, serve_connection
from mcpd.agents.session import Session
from mcpd.api.journal import QueryJournal, Recorded
from tests.conftest import Home
from tests.control.world import CHECKOUT, World, library, running
from tests.control.world import Refused as Refused

LIVELY = str(CHECKOUT / "tests" / "servers" / "lively.py")
SCHEMAS = Path(__file__).parents[3] / "shared" / "reference" / "schema"
META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
CLIENT = {"name": "test", "version": "1"}

PATIENCE = 20.0
"""Seconds until a message that was waited for is missing."""

RESULTS = {
    "completion/complete": "CompleteResult",
    "initialize": "InitializeResult",
    "logging/setLevel": "EmptyResult",
    "ping": "EmptyResult",
    "prompts/get": "GetPromptResult",
    "prompts/list": "ListPromptsResult",
    "resources/list": "ListResourcesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/unsubscribe": "EmptyResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
}


@cache
def validator(revision: str, name: str) -> Any:
    """Of one definition of the official schema; None without the schemas beside the checkout."""
    path = SCHEMAS / f"{revision}.json"
    if not path.exists():
        return None
    schema = json.loads(path.read_text())
    jsonschema: Any = importlib.import_module("jsonschema")
    key = "$defs" if "$defs" in schema else "definitions"
    return jsonschema.validators.validator_for(schema)({**schema, "$ref": f"#/{key}/{name}"})


def check(revision: str, name: str, value: Any) -> None:
    """Hold a value against the schema of its revision, where that lies beside the checkout."""
    if (validate := validator(revision, name)) is not None:
        faults = [f"{error.json_path}: {error.message[:300]}" for error in validate.iter_errors(value)]
        assert faults == [], f"{name} of {revision}"


def meta(revision: str = MODERN, **more: Any) -> dict[str, Any]:
    """The `_meta` of a stateless request (4.2)."""
    return {
        META + "protocolVersion": revision,
        META + "clientCapabilities": {},
        META + "clientInfo": CLIENT,
        **more,
    }


def text_of(result: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in result["content"])


def kind_of(result: dict[str, Any]) -> str:
    """The kind of a verdict of mcpd's own (D13)."""
    assert result["isError"] is True
    kind = result["_meta"]["dev.mcpd/kind"]
    assert isinstance(kind, str)
    return kind


class Agent:
    """One process on an agent's socket. Messages that nobody has asked for yet wait in `kept`."""

    def __init__(self, stream: trio.SocketStream, revision: str) -> None:
        self.stream = stream
        self.revision = revision
        self.kept: list[Any] = []
        self._buffer = b""
        self._ids = itertools.count(1000)

    @property
    def modern(self) -> bool:
        return self.revision == MODERN

    # -- sending
    async def line(self, *lines: bytes | str) -> None:
        """Send raw lines, all in one write."""
        data = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
        await self.stream.send_all(data)

    def message(self, method: str, params: dict[str, Any] | None = None, ident: Any = None) -> dict[str, Any]:
        """A request or, without an id, a notification, dressed for the agent's revision."""
        params = dict(params or {})
        if self.modern and ident is not None and method != "initialize":
            params["_meta"] = {**meta(), **params.get("_meta", {})}
        out: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        return out if ident is None else {**out, "id": ident}

    async def send(self, method: str, params: dict[str, Any] | None = None, ident: Any = None) -> None:
        await self.line(json.dumps(self.message(method, params, ident)))

    async def begin(self, tool: str, ident: Any, token: Any = None, **arguments: Any) -> None:
        """Send a call without waiting for its answer."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if token is not None:
            params["_meta"] = {"progressToken": token}
        await self.send("tools/call", params, ident)

    # -- receiving
    async def read_line(self) -> bytes:
        """The next line as it came. Raises EOFError at the end of the stream."""
        with trio.fail_after(PATIENCE):
            while b"\n" not in self._buffer:
                chunk = await self.stream.receive_some()
                if not chunk:
                    raise EOFError
                self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    async def read(self) -> Any:
        """The next message that was not asked for before."""
        return self.kept.pop(0) if self.kept else json.loads(await self.read_line())

    async def _find(self, wanted: Any) -> Any:
        for number, message in enumerate(self.kept):
            if wanted(message):
                return self.kept.pop(number)
        while not wanted(message := json.loads(await self.read_line())):
            self.kept.append(message)
        return message

    async def answer(self, ident: Any) -> dict[str, Any]:
        """The whole answer to a request; others are kept."""

        def is_it(message: Any) -> bool:
            return isinstance(message, dict) and "method" not in message and message.get("id") == ident

        found = await self._find(is_it)
        assert isinstance(found, dict)
        assert found["jsonrpc"] == "2.0"
        assert ("result" in found) != ("error" in found)
        return found

    async def notice(self, method: str) -> dict[str, Any]:
        """The params of the next notification of this method."""
        found = await self._find(
            lambda message: isinstance(message, dict) and message.get("method") == method
        )
        assert "id" not in found
        params = found["params"]
        assert isinstance(params, dict)
        return params

    async def ask(self, method: str, params: dict[str, Any] | None = None, *, odd: bool = False) -> Any:
        """The result of one request, held against the schema unless it is `odd`. Raises Refused."""
        number = next(self._ids)
        await self.send(method, params, number)
        answer = await self.answer(number)
        if "error" in answer:
            error = answer["error"]
            assert type(error["code"]) is int
            assert isinstance(error["message"], str)
            raise Refused({**error, "data": {"kind": "", **error.get("data", {})}})
        if method in RESULTS and not odd:
            check(self.revision, RESULTS[method], answer["result"])
        return answer["result"]

    async def refusal(self, method: str, params: dict[str, Any] | None = None) -> Refused:
        try:
            result = await self.ask(method, params)
        except Refused as refused:
            return refused
        raise AssertionError(f"{method} was not refused: {result}")

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert isinstance(result, dict)
        return result

    async def tools(self) -> list[str]:
        """The names of all tools, page by page."""
        names: list[str] = []
        params: dict[str, Any] = {}
        while True:
            page = await self.ask("tools/list", params)
            names += [tool["name"] for tool in page["tools"]]
            if page.get("nextCursor") is None:
                return names
            params = {"cursor": page["nextCursor"]}

    async def initialize(self) -> Any:
        params = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": CLIENT}
        result = await self.ask("initialize", params)
        await self.send("notifications/initialized")
        return result

    async def nothing_more(self) -> None:
        """Whatever was on its way has come, and it was nothing: an answer to a ping is the very next line."""
        assert self.kept == []
        await self.ask("tools/list" if self.modern else "ping")
        assert self.kept == []


class Stage(World):
    """A world with agents' sockets."""

    def __init__(self, world: World) -> None:
        super().__init__(world.home, world.broker, world.nursery)
        self.agents: list[Agent] = []

    def connect(self, agent: str = "default", revision: str = "2025-11-25", *, buffer: int = 0) -> Agent:
        """A new connection to the socket of `agent`, nothing sent yet. `buffer`: bytes the kernel holds."""
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            if buffer:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        self.nursery.start_soon(serve_connection, self.broker, stream, agent)
        client = Agent(trio.SocketStream(trio.socket.from_stdlib_socket(ours)), revision)
        self.agents.append(client)
        return client

    async def attach(self, agent: str = "default", revision: str = "2025-11-25", **attach: Any) -> Agent:
        """A connection that is ready for requests; `attach`: the members of its attach line, if any."""
        client = self.connect(agent, revision)
        if attach:
            await client.send("notifications/dev.mcpd/attach", attach)
        if not client.modern:
            await client.initialize()
        return client

    @property
    def session(self) -> Session:
        """The session of the oldest connection that still lasts."""
        return cast("Session", next(iter(self.broker.sessions.values())))

    async def until(self, topic: str, condition: Any) -> None:
        """Wait for a condition that becomes true with a change of the topic."""
        with self.broker.changes.subscribe() as changes, trio.fail_after(PATIENCE):
            while not condition():
                while (await changes.__anext__()).topic != topic:
                    pass

    async def journal(self, **facts: Any) -> list[Recorded]:
        """What was recorded, newest first, of entries with these members."""
        entries = (await self.broker.journal.query(QueryJournal(limit=1000))).entries
        return [entry for entry in entries if all(getattr(entry, k) == v for k, v in facts.items())]


@asynccontextmanager
async def staged(home: Home) -> AsyncIterator[Stage]:
    """What `mcpd run` would have in memory, its announcer included; ends with every child stopped."""
    async with running(home) as world, trio.open_nursery() as nursery:
        stage = Stage(world)
        await nursery.start(world.broker.journal.run)
        nursery.start_soon(announce, world.broker)
        nursery.start_soon(reasking.follow, world.broker)
        try:
            yield stage
        finally:
            for stream in [client.stream for client in stage.agents] + [c.stream for c in stage.clients]:
                stream.socket.close()
        nursery.cancel_scope.cancel()


class Ear:
    """Hears what the server `lively.py` logs, through a pipe with a name."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        # Open for writing as well, so that it never ends.
        self._stream = trio.lowlevel.FdStream(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        self._buffer = b""
        self.path = path
        self.kept: list[dict[str, Any]] = []

    def server(self, *options: str, **fields: Any) -> dict[str, Any]:
        """The definition of a lively server that this ear hears, open to every call."""
        return {
            "command": sys.executable,
            "args": ["-I", LIVELY, "--log", str(self.path), *options],
            "default_policy": {"approval": "never"},
            **fields,
        }

    def library(self, *options: str, **fields: Any) -> dict[str, Any]:
        """The same of the server `library.py`."""
        return library("--log", str(self.path), *options, **fields)

    async def hear(self, event: str, **facts: Any) -> dict[str, Any]:
        """The next event with these facts; others are kept for later."""

        def fits(row: dict[str, Any]) -> bool:
            return row["event"] == event and all(row.get(key) == value for key, value in facts.items())

        for number, kept in enumerate(self.kept):
            if fits(kept):
                return self.kept.pop(number)
        with trio.fail_after(PATIENCE):
            while True:
                row: dict[str, Any] = json.loads(await self._line())
                if fits(row):
                    return row
                self.kept.append(row)

    async def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            self._buffer += await self._stream.receive_some()
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line

    async def __aenter__(self) -> Ear:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stream.aclose()
