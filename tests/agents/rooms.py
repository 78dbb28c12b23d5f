"""Agents and servers that ask each other, all in memory: real owners from session to connection, no process.

Time is the jumping clock's, so that thousands of interleavings cost little.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ClassVar

import pytest
import trio
import trio.testing

from mcpd import listing
from mcpd.agents.identity import Peer
from mcpd.agents.methods import serve as face
from mcpd.agents.session import Session
from mcpd.api.journal import Recorded
from mcpd.broker import Broker
from mcpd.changes import Changes
from mcpd.config.spec import Config, Policy, Server
from mcpd.consent.store import Store
from mcpd.journal import Entry, Journal
from mcpd.policy.asks import Budget
from mcpd.protocol import jsonrpc
from mcpd.protocol.revisions import Revision
from mcpd.secrets.held import HeldValues
from mcpd.transport.base import Receiver
from mcpd.upstream import upstream as upstream_module
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.connection import Connection
from mcpd.upstream.fleet import Fleet
from mcpd.upstream.keeper import Keeper
from mcpd.upstream.link import Link
from mcpd.upstream.opening import Opening
from tests.conftest import Home
from tests.journal.flat import recorded

Json = dict[str, Any]

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
ALL: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}}

FORM = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]}


class Refused(Exception):
    """A peer's JSON-RPC error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Any = error.get("data")


class Asking:
    """A server with a handshake on one stream. `serve` says what its tool does; ids begin with 1."""

    revision = "2025-11-25"

    def __init__(self, serve: Callable[[Asking, Json, Any], Awaitable[str]]) -> None:
        self.tool = serve
        self.receiver: Receiver | None = None
        self.capabilities: Json = {}
        self.opened = 0
        self.heard: list[Json] = []
        """Every message from mcpd, in order."""
        self.open: dict[Any, trio.CancelScope] = {}
        self._answers: dict[int, Json] = {}
        self._news = trio.Event()
        self._ids = itertools.count(1)
        self._nursery: trio.Nursery | None = None

    # -- the transport to it
    queued = 0

    def settle(self, revision: Revision) -> None:
        pass

    def write(self, line: bytes) -> bool:
        message = json.loads(line)
        self.heard.append(message)
        assert self._nursery is not None
        if "method" in message:
            self._nursery.start_soon(self._take, message)
        else:
            self._answers[message["id"]] = message
            self._news.set()
            self._news = trio.Event()
        return True

    async def run(self, receiver: Receiver, nursery: trio.Nursery) -> None:
        self.receiver, self._nursery = receiver, nursery
        self.opened += 1
        self._ids = itertools.count(1)

    def say(self, message: Json, on: bytes = b"") -> None:
        assert self.receiver is not None
        self.receiver.receive(json.dumps({"jsonrpc": "2.0", **message}).encode(), on)

    # -- what it does
    async def _take(self, message: Json) -> None:
        params = message.get("params", {})
        if message["method"] == "notifications/cancelled":
            scope = self.open.get(params["requestId"])
            if scope is not None:
                scope.cancel()
        if "id" not in message:
            return
        with trio.CancelScope() as scope:
            self.open[message["id"]] = scope
            try:
                answer = {"result": await self.answer(message["method"], params, message["id"])}
            except Refused as e:
                error = {"code": e.code, "message": str(e)}
                answer = {"error": error if e.data is None else {**error, "data": e.data}}
        del self.open[message["id"]]
        if not scope.cancelled_caught:
            self.say({"id": message["id"], **answer})

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        match method:
            case "initialize":
                self.capabilities = params["capabilities"]
                return {
                    "protocolVersion": self.revision,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "asking", "version": "1"},
                }
            case "tools/list":
                return {"tools": [{"name": "do", "inputSchema": {"type": "object"}}]}
            case "tools/call":
                return {"content": [{"type": "text", "text": await self.tool(self, params, ident)}]}
        raise Refused({"code": -32601, "message": "method not found"})

    async def ask(self, method: str, params: Json | None = None) -> Json:
        """Ask the client and wait. Raises Refused."""
        number = next(self._ids)
        self.say({"id": number, "method": method, "params": params or {}})
        while number not in self._answers:
            await self._news.wait()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise Refused(answer["error"])
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    async def elicit(self, message: str) -> Json:
        return await self.ask("elicitation/create", {"message": message, "requestedSchema": FORM})


class Modern(Asking):
    """A stateless server: what its tool does is one round."""

    def __init__(self, serve: Callable[[Asking, Json, Any], Awaitable[Any]]) -> None:
        super().__init__(serve)

    async def answer(self, method: str, params: Json, ident: Any) -> Json:
        if method == "server/discover":
            return {
                "resultType": "complete",
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private",
            }
        self.capabilities = params["_meta"][META + "clientCapabilities"]
        if method == "tools/call":
            said: Any = await self.tool(self, params, ident)
            if isinstance(said, dict):
                return said
            return {"resultType": "complete", "content": [{"type": "text", "text": said}]}
        result = await super().answer(method, params, ident)
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}


class Attempt:
    """`upstream.attempt.Attempt` for servers in memory."""

    servers: ClassVar[dict[str, Asking]] = {}
    limit = 30.0
    late = "no answer"
    marker = "nobody's"

    def __init__(self, server: Server, *more: Any) -> None:
        self.server = server
        self._around, self._ring, self._nursery, self._noticed, self._withdraw, _, self._relay = more
        self.verdict = "legacy"

    async def open(self, known: str) -> tuple[Link, Connection]:
        peer = self.servers[self.server.name]
        capabilities = self._relay.begin(self.server)
        era = "modern" if isinstance(peer, Modern) else "legacy"
        link = Link(
            peer,
            Opening(era, pinned=True, capabilities=capabilities),
            self._around.deadlines,
            self._noticed,
            lambda text: self._ring.add(text),
            math.inf,
            self._relay,
        )
        await peer.run(link, self._nursery)
        connection = await link.open()
        link.withdraw = self._withdraw
        return link, connection


class Agent:
    """One attached process, its session's outlet at the same time. `reply` answers what it is asked."""

    def __init__(
        self, room: Room, name: str, capabilities: Json, reply: Callable[[Json], Awaitable[Any]]
    ) -> None:
        self.room = room
        self.name = name
        self.capabilities = capabilities
        self.reply = reply
        self.got: list[Json] = []
        """Every message, in order."""
        self.asked: list[Json] = []
        self.withdrawn: list[Any] = []
        self.progress: list[Json] = []
        self.answers: dict[Any, Json] = {}
        self.there = True
        """Somebody reads; over HTTP not after a response has broken off."""
        self._news = trio.Event()
        self._ids = itertools.count(1)
        self.session: Session
        self._scope = trio.CancelScope()

    async def live(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """As `agents.serve` does: until it leaves, which ends everything of the session."""
        broker = self.room.broker
        with self._scope:
            async with trio.open_nursery() as nursery:
                peer = Peer(os.getpid(), "/bin/test", "/")
                self.session = session = Session(broker, face, peer, "default", self, nursery)
                broker.sessions[session.id] = session
                task_status.started()
                try:
                    await trio.sleep_forever()
                finally:
                    session.end()
        del broker.sessions[session.id]
        broker.fleet.left(session.id)
        broker.tasks.forget(session.id)

    # -- the outlet
    queued = 0

    def write(self, line: bytes, on: bytes = b"") -> bool:
        message = json.loads(line)
        self.got.append(message)
        if "method" not in message:
            assert message["id"] not in self.answers, "answered twice"
            self.answers[message["id"]] = message
            self._tell()
        elif "id" in message:
            self.asked.append(message)
            self.room.nursery.start_soon(self._reply, message)
        elif message["method"] == "notifications/cancelled":
            self.withdrawn.append(message["params"]["requestId"])
        elif message["method"] == "notifications/progress":
            self.progress.append(message["params"])
        return True

    def answer(self, line: bytes, on: bytes) -> bool:
        return self.write(line, on)

    def unanswered(self, on: bytes) -> None:
        self.answers[json.loads(on)] = {"none": True}
        self._tell()

    def attended(self, on: bytes) -> bool:
        return self.there

    async def drained(self) -> None:
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        pass

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()

    # -- what it does
    def send(self, message: Json) -> None:
        self.session.take(jsonrpc.read(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    async def _reply(self, message: Json) -> None:
        try:
            result = await self.reply(message)
        except Refused as e:
            self.send({"id": message["id"], "error": {"code": e.code, "message": str(e)}})
        else:
            self.send({"id": message["id"], "result": result})

    @property
    def modern(self) -> bool:
        return False

    async def request(self, method: str, params: Json, ident: Any = None) -> Json:
        """The answer's result; raises Refused, and Withdrawn where there is none."""
        number = next(self._ids) if ident is None else ident
        self.send({"id": number, "method": method, "params": params})
        while number not in self.answers:
            await self._news.wait()
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Refused(answer["error"])
        if "none" in answer:
            raise Gone
        result = answer["result"]
        assert isinstance(result, dict)
        return result

    async def begin(self) -> None:
        info = {"name": "agent", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": self.capabilities, "clientInfo": info}
        await self.request("initialize", params)
        self.send({"method": "notifications/initialized"})

    async def call(self, tool: str, arguments: Json, **more: Any) -> Json:
        return await self.request("tools/call", {"name": tool, "arguments": arguments, **more})

    async def leave(self) -> None:
        self._scope.cancel()
        await trio.testing.wait_all_tasks_blocked()


class Gone(Exception):
    """A request got no answer, as it was taken back."""


class ModernAgent(Agent):
    """Stateless: what it is asked comes as the answer to its request, which it sends again."""

    @property
    def modern(self) -> bool:
        return True

    async def begin(self) -> None:
        pass

    async def request(self, method: str, params: Json, ident: Any = None) -> Json:
        meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": self.capabilities}
        return await super().request(method, {**params, "_meta": {**params.get("_meta", {}), **meta}}, ident)

    async def call(self, tool: str, arguments: Json, **more: Any) -> Json:
        params = {"name": tool, "arguments": arguments, **more}
        result = await self.request("tools/call", params)
        while result["resultType"] == "input_required":
            answers = {}
            for key, question in result["inputRequests"].items():
                self.asked.append(question)
                answers[key] = await self.reply(question)
            retry = {**params, "inputResponses": answers, "requestState": result["requestState"]}
            result = await self.request("tools/call", retry)
        return result


class Room:
    """One daemon's insides with servers in memory."""

    def __init__(self, broker: Broker, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.nursery = nursery
        self.records: list[Recorded] = []

    async def agent(
        self,
        name: str,
        reply: Callable[[Json], Awaitable[Any]],
        capabilities: Json = ALL,
        *,
        modern: bool = False,
    ) -> Agent:
        made = (ModernAgent if modern else Agent)(self, name, capabilities, reply)
        await self.nursery.start(made.live)
        await made.begin()
        return made

    def record(self, entry: Entry, arguments: bytes = b"") -> None:
        self.records.append(recorded(entry))

    async def decided(self, entry: Entry, arguments: bytes = b"") -> int:
        self.records.append(recorded(entry))
        return len(self.records)

    def asks(self, **facts: Any) -> list[Recorded]:
        """What was recorded of servers' questions."""
        return self.recorded("ask", **facts)

    def recorded(self, kind: str, **facts: Any) -> list[Recorded]:
        return [
            entry
            for entry in self.records
            if entry.kind == kind and all(getattr(entry, k) == v for k, v in facts.items())
        ]


@asynccontextmanager
async def open_room(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    hourly: int = 0,
    /,
    fields: Json | None = None,
    **servers: Asking,
) -> AsyncIterator[Room]:
    """`hourly`: the questions of a server that reach agents within an hour; `fields`: of all definitions."""

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(upstream_module, "Attempt", Attempt)
    monkeypatch.setattr(Attempt, "servers", servers)
    # It is written by a thread, whose time is not the jumping clock's.
    monkeypatch.setattr(Keeper, "store", nothing)
    changes = Changes()
    more = {
        "sampling": True,
        "roots": "agent",
        "policy": Policy(risk="low", approval="never"),
        **(fields or {}),
    }
    config = Config(servers={name: Server(name=name, source="test", command="x", **more) for name in servers})
    store = Store(home.state / "state.db")
    held_values = HeldValues()
    cache = CatalogCache(home.cache)
    fleet = Fleet(changes, cache, {"HOME": "/home/me"}, "test.", held_values=held_values)
    broker = Broker(
        config=config,
        fleet=fleet,
        journal=Journal(home.state / "journal.db"),
        store=store,
        changes=changes,
        config_dir="",
        control_socket="",
        agents_dir="",
        environ={},
        instance="0123456789abcdef",
        held_values=held_values,
        started=1.0,
        secret=b"secret",
    )
    fleet.sole = partial(listing.sole, broker)
    fleet.available = partial(listing.available, broker)
    fleet.apply(config, frozenset(), {}, connect=False)
    for upstream in fleet.all():
        upstream.relay.budget = Budget(hourly)
    async with trio.open_nursery() as nursery:
        await nursery.start(fleet.run)
        await nursery.start(broker.approvals.run)
        room = Room(broker, nursery)
        # A thread writes it, whose time is not the jumping clock's.
        monkeypatch.setattr(broker.journal, "record", room.record)
        monkeypatch.setattr(broker.journal, "decided", room.decided)
        yield room
        nursery.cancel_scope.cancel()
    store.close()
