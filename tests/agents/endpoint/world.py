"""HTTP clients of the endpoint without a network: both sides of ASGI, a real broker, any face."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from mcpd.agents.endpoint.app import App
from mcpd.agents.endpoint.rooms import Rooms
from mcpd.agents.session import Face
from mcpd.broker import Broker
from mcpd.consent import tokens
from mcpd.protocol.sse import EventBuffer
from tests.conftest import Home
from tests.control.world import running

META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
BOTH = "application/json, text/event-stream"
CLIENT = {"name": "test", "version": "1"}


class Response:
    """One response as it comes in. Mutable: it grows."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.over = False
        self.news = trio.Condition()
        self.left = trio.Event()
        """Set by `leave`: the client is gone."""

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with self.news:
            while not condition():
                await self.news.wait()

    async def whole(self) -> Response:
        """Return when it is over."""
        await self.wait(lambda: self.over)
        return self

    async def begun(self) -> Response:
        """Return when there are headers."""
        await self.wait(lambda: bool(self.status))
        return self

    def leave(self) -> None:
        self.left.set()

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        """The messages so far, whichever way they come."""
        if self.kind != "text/event-stream":
            return [self.json]
        return [json.loads(event.data) for event in EventBuffer().feed(self.body)]

    @property
    def last_id(self) -> str:
        buffer = EventBuffer()
        buffer.feed(self.body)
        return buffer.last_id.decode()

    async def message(self, number: int = 1) -> Any:
        """That message, counted from 1, once it is there."""
        await self.wait(lambda: bool(self.status) and (self.over or len(self.messages) >= number))
        return self.messages[number - 1]


class Client:
    """One host. `headers` go with every request."""

    def __init__(self, world: Endpoint, token: str, path: str = "/mcp") -> None:
        self.world = world
        self.path = path
        self.headers = {"Host": "localhost:6273", "Accept": BOTH, "Authorization": f"Bearer {token}"}
        self._ids = itertools.count(1)

    def begin(
        self,
        method: str,
        body: Any = None,
        headers: dict[str, str | None] | None = None,
        *,
        path: str | None = None,
        pieces: int = 1,
    ) -> Response:
        """Start a request; None for a header leaves it out. `pieces`: the body comes in so many."""
        response = Response()
        fields: dict[str, str | None] = {**self.headers, **(headers or {})}
        if method == "POST":
            fields = {"Content-Type": "application/json", **fields}
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        scope = {
            "type": "http",
            "method": method,
            "raw_path": (path or self.path).encode(),
            "state": {},
            "headers": [
                (n.lower().encode(), v.encode("latin-1")) for n, v in fields.items() if v is not None
            ],
        }
        step = max(1, -(-len(data) // pieces))
        parts = [data[at : at + step] for at in range(0, len(data), step)] or [b""]

        async def receive() -> Any:
            if parts:
                part = parts.pop(0)
                return {"type": "http.request", "body": part, "more_body": bool(parts)}
            await response.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            await trio.lowlevel.checkpoint()
            async with response.news:
                if message["type"] == "http.response.start":
                    response.status = message["status"]
                    response.headers = {n.decode(): v.decode() for n, v in message["headers"]}
                else:
                    response.body += message.get("body", b"")
                    response.over = not message.get("more_body", False)
                response.news.notify_all()

        async def run() -> None:
            await self.world.app(scope, receive, send)
            async with response.news:
                response.over = True
                response.news.notify_all()

        self.world.nursery.start_soon(run)
        return response

    async def ask(self, method: str, body: Any = None, headers: Any = None, **more: Any) -> Response:
        return await self.begin(method, body, headers, **more).whole()

    def message(self, method: str, params: Any = None, ident: Any = ...) -> dict[str, Any]:
        """A request, or with the id None a notification."""
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            body["params"] = params
        return body if ident is None else {**body, "id": next(self._ids) if ident is ... else ident}

    async def initialize(self, revision: str = "2025-11-25") -> Any:
        """Open a session; its id goes with every request from then on."""
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
        response = await self.ask("POST", self.message("initialize", params))
        assert response.status == 200, response.body
        self.headers["Mcp-Session-Id"] = response.headers["mcp-session-id"]
        self.headers["MCP-Protocol-Version"] = revision
        await self.ask("POST", self.message("notifications/initialized", ident=None))
        return response.messages[0]["result"]

    def post(self, method: str, params: Any = None, ident: Any = ..., **headers: str | None) -> Response:
        """Begin a request in the session."""
        return self.begin("POST", self.message(method, params, ident), headers)

    def stateless(
        self, method: str, params: Any = None, ident: Any = ..., headers: Any = None, **more: Any
    ) -> Response:
        """Begin a request of 2026-07-28, dressed as it must be unless `headers` say otherwise."""
        params = {**(params or {}), "_meta": {**ENVELOPE, **(params or {}).get("_meta", {})}}
        fields = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        name = params.get("name", params.get("uri"))
        if name is not None:
            fields["Mcp-Name"] = name
        return self.begin("POST", self.message(method, params, ident), {**fields, **(headers or {})}, **more)


class Endpoint:
    def __init__(self, broker: Broker, face: Face, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.nursery = nursery
        self.rooms = Rooms(broker, face, nursery)
        self.app = App(broker, self.rooms)

    def client(self, agent: str = "default", path: str = "/mcp") -> Client:
        """A host with the agent's token, which is made anew."""
        token = tokens.new_token()
        self.broker.state.put_token(agent, tokens.digest(token))
        return Client(self, token, path)


@asynccontextmanager
async def served(home: Home, face: Face) -> AsyncIterator[Endpoint]:
    """An endpoint for the files of `home`."""
    async with running(home) as world, trio.open_nursery() as nursery:
        yield Endpoint(world.broker, face, nursery)
        nursery.cancel_scope.cancel()
