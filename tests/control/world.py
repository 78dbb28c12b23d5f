"""A daemon's insides without the daemon: real owners, real children, a real socket pair for each operator."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import tomli_w
import trio

from mcpd import applying
from mcpd.broker import Broker
from mcpd.changes import Changes
from mcpd.config.spec import Config
from mcpd.consent.store import Store
from mcpd.control import listener
from mcpd.journal import Journal
from mcpd.secrets.held import HeldValues
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.fleet import Fleet
from tests import visitor
from tests.conftest import Home

CHECKOUT = Path(__file__).parents[2]
TINY = str(CHECKOUT / "tests" / "servers" / "tiny.py")


def tiny(*options: str, **fields: Any) -> dict[str, Any]:
    """The definition of a tiny server, open to every call unless `fields` say otherwise."""
    policy = {"approval": "never"}
    return {"command": sys.executable, "args": ["-I", TINY, *options], "default_policy": policy, **fields}


def switchable(flag: Path, instead: str, **fields: Any) -> dict[str, Any]:
    """A tiny server that does something else as soon as the flag exists, by the same definition."""
    real = tiny(**fields)
    script = f"test -e {flag} && {{ {instead}; }}; exec " + '"$@"'
    return {**real, "command": "sh", "args": ["-c", script, "sh", real["command"], *real["args"]]}


def library(*options: str, **fields: Any) -> dict[str, Any]:
    """The same of a server with resources and prompts."""
    args = ["-m", "tests.servers.library", *options]
    return {**tiny(), "args": args, "cwd": str(CHECKOUT), **fields}


class Refused(Exception):
    """The daemon answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: dict[str, Any] = error["data"]
        self.kind: str = error["data"]["kind"]


class Client:
    """A program on the control socket. One request at a time; other messages are kept in `events`."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._next = 0

    async def read(self) -> dict[str, Any]:
        """The next message; EOFError at the end of the stream."""
        while b"\n" not in self._buffer:
            chunk = await self.stream.receive_some()
            if not chunk:
                raise EOFError
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        message = json.loads(line)
        assert isinstance(message, dict)
        return message

    async def event(self) -> dict[str, Any]:
        """The params of the next event."""
        message = self.events.pop(0) if self.events else await self.read()
        assert message["method"] == "event", message
        params = message["params"]
        assert isinstance(params, dict)
        return params

    async def send(self, method: str, /, **params: Any) -> int:
        self._next += 1
        request = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        await self.stream.send_all(json.dumps(request).encode() + b"\n")
        return self._next

    async def call(self, method: str, /, **params: Any) -> Any:
        """The result of one request. Raises Refused."""
        number = await self.send(method, **params)
        while (message := await self.read()).get("id") != number:
            self.events.append(message)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    async def refusal(self, method: str, /, **params: Any) -> Refused:
        try:
            result = await self.call(method, **params)
        except Refused as refused:
            return refused
        raise AssertionError(f"{method} was not refused: {result}")


class World:
    def __init__(self, home: Home, broker: Broker, nursery: trio.Nursery) -> None:
        self.home = home
        self.broker = broker
        self.nursery = nursery
        self.config = home.config / "mcpd"
        self.servers_dir = self.config / "servers.d"
        self.clients: list[Client] = []

    async def operator(self) -> Client:
        """A new connection to the control socket, by a process that is no agent's."""
        ours, theirs = map(trio.socket.from_stdlib_socket, visitor.pair("person"))
        self.nursery.start_soon(listener.serve, self.broker, trio.SocketStream(theirs))
        client = Client(trio.SocketStream(ours))
        self.clients.append(client)
        return client

    def write_server(self, name: str, **fields: Any) -> Path:
        return write_server(self.home, name, **fields)


def write_server(home: Home, name: str, **fields: Any) -> Path:
    path = home.config / "mcpd" / "servers.d" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomli_w.dumps({"schema": 1, **fields}))
    return path


def write_config(home: Home, text: str) -> Path:
    path = home.config / "mcpd" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@asynccontextmanager
async def running(home: Home) -> AsyncIterator[World]:
    """What `mcpd run` would have in memory for these files; ends with every child stopped."""
    folder = home.config / "mcpd"
    changes = Changes()
    store = Store(home.state / "state.db")
    # Another run of the tests must not take these processes for its own.
    held_values = HeldValues()
    marker = f"test{os.getpid()}."
    fleet = Fleet(changes, CatalogCache(home.cache), os.environ, marker, held_values=held_values)
    broker = Broker(
        config=Config(),
        fleet=fleet,
        journal=Journal(home.state / "journal.db", redactor=held_values),
        store=store,
        changes=changes,
        config_dir=str(folder),
        control_socket=str(home.runtime / "mcpd" / "control.sock"),
        agents_dir=str(home.runtime / "mcpd" / "agents"),
        environ=os.environ,
        instance="0123456789abcdef",
        started=1.0,
        secret=b"secret",
        held_values=held_values,
    )
    applying.start(broker)
    async with trio.open_nursery() as nursery:
        await nursery.start(fleet.run)
        await nursery.start(broker.approvals.run)
        world = World(home, broker, nursery)
        try:
            yield world
        finally:
            for client in world.clients:
                client.stream.socket.close()
        nursery.cancel_scope.cancel()
    store.close()
