"""A real daemon in private folders, its clients, and proof that nothing outlives it.

Everything that a `Daemon` starts carries the folder of its `home` in its environment (HOME at least), so
`Daemon.relatives` finds daemon, guard and servers, and also what has left every process group.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
import trio

from tests import visitor
from tests.conftest import Home

LIVELY = Path(__file__).parents[1] / "servers" / "lively.py"
LIMIT = 20.0
"""Seconds that any one answer may take on a busy machine."""
LINE_LIMIT = 2**26
OPEN = {"risk": "low", "approval": "never"}
"""A policy that lets every call through."""
META = "io.modelcontextprotocol/"
MODERN = {
    META + "protocolVersion": "2026-07-28",
    META + "clientCapabilities": {},
    META + "clientInfo": {"name": "e2e", "version": "1"},
}
T = TypeVar("T")


class Refused(Exception):
    """A JSON-RPC error, as it came."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(json.dumps(error))
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: Any = error.get("data")
        self.kind = self.data.get("kind", "") if isinstance(self.data, dict) else ""


def until(what: Callable[[], T], within: float = LIMIT) -> T:
    """Ask again and again until the answer is true; for what only the outside of a process shows."""
    end = time.monotonic() + within
    while not (got := what()):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {within} s")
        time.sleep(0.02)
    return got


def lively(log: Path, *options: str, **fields: Any) -> dict[str, Any]:
    """The definition of tests/servers/lively.py, open to every call unless `fields` say else."""
    args = ["-I", str(LIVELY), "--log", str(log), *options]
    return {"command": sys.executable, "args": args, "default_policy": OPEN, **fields}


def heard(log: Path, event: str = "", **where: Any) -> list[dict[str, Any]]:
    """What a server wrote into its log, filtered."""
    if not log.exists():
        return []
    # What follows the last line end is still being written.
    rows = [json.loads(row) for row in log.read_text().split("\n")[:-1]]
    rows = [row for row in rows if not event or row["event"] == event]
    return [row for row in rows if all(row.get(key) == value for key, value in where.items())]


def text_of(result: dict[str, Any]) -> str:
    """The one text of a tool result."""
    [block] = result["content"]
    text: str = block["text"]
    return text


def kind_of(result: dict[str, Any]) -> str:
    """The kind of a verdict of mcpd's own (D13)."""
    assert result["isError"] is True
    assert text_of(result)
    kind: str = result["_meta"]["dev.mcpd/kind"]
    return kind


class Daemon:
    """`mcpd run` of one home; a context that ends it and checks what it left."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.proc: subprocess.Popen[bytes] | None = None
        self.folder = home.config / "mcpd"
        self.sockets = home.runtime / "mcpd"
        self.log = home.root / "daemon.log"
        for name in ("servers.d", "agents.d"):
            (self.folder / name).mkdir(mode=0o700, parents=True)

    # -- files -------------------------------------------------------------------------------------
    def write(self, place: str, fields: dict[str, Any]) -> None:
        """Write `place` ("config.toml", "servers.d/x.toml" ...) whole, as an editor does."""
        path = self.folder / place
        fresh = path.with_name(path.name + "~")
        fresh.write_text(tomli_w.dumps(fields), "utf-8")
        fresh.replace(path)

    def server(self, name: str, fields: dict[str, Any]) -> None:
        self.write(f"servers.d/{name}.toml", {"schema": 1, **fields})

    # -- process -----------------------------------------------------------------------------------
    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], **self.home.environ}

    def spawn(self, **more: Any) -> subprocess.Popen[bytes]:
        with open(self.log, "ab") as out:
            return subprocess.Popen(
                [sys.executable, "-I", "-m", "mcpd", "run"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd="/",
                env=self.environ,
                **more,
            )

    def start(self) -> None:
        """Return once the daemon answers; its output goes to a file, never to a pipe of ours."""
        self.proc = self.spawn()
        until(self.answers)

    def answers(self) -> bool:
        assert self.proc is not None
        if self.proc.poll() is not None:
            raise AssertionError(f"the daemon ended with {self.proc.returncode}: {self.said()}")
        try:
            self.ask("daemon.status")
        except OSError:
            return False
        return True

    def said(self) -> str:
        """The end of what daemons started by `spawn` wrote."""
        return self.log.read_text()[-2000:] if self.log.exists() else ""

    def wait(self, within: float = LIMIT) -> int:
        assert self.proc is not None
        return self.proc.wait(within)

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.proc is not None
        self.proc.send_signal(number)
        return self.wait()

    def relatives(self) -> list[int]:
        """Living processes that this home's daemon started, and the daemon."""
        return [
            pid
            for pid in processes()
            if str(self.home.root).encode() in environ_of(pid) and pid != os.getpid()
        ]

    def close(self) -> None:
        if self.proc is not None and self.proc.poll() is None:
            self.proc.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.proc.wait(LIMIT)
        try:
            until(lambda: not self.relatives(), within=10)
        except TimeoutError:
            left = {pid: command_of(pid) for pid in self.relatives()}
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"processes outlived the daemon: {left}; {self.said()}") from None
        finally:
            if self.proc is not None:
                self.proc.wait(LIMIT)

    # -- the operator ------------------------------------------------------------------------------
    def ask(self, method: str, **params: Any) -> Any:
        """One request on a control connection of its own; raises Refused."""
        with Control(self.sockets / "control.sock") as control:
            return control.ask(method, **params)

    def status(self, server: str) -> dict[str, Any]:
        status: dict[str, Any] = self.ask("servers.get", server=server)["status"]
        return status

    def ctl(self, *args: str, check: bool = True, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run mcpctl as its user."""
        done = subprocess.run(
            [sys.executable, "-I", "-m", "mcpctl", *args],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environ,
            **{"cwd": self.home.root, **more},
        )
        assert not check or done.returncode == 0, f"{args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


class Control:
    """A blocking connection to control.sock, by a process that is no agent's."""

    def __init__(self, path: Path) -> None:
        self.socket = visitor.connect("person", str(path))
        self.socket.settimeout(LIMIT)
        self.file = self.socket.makefile("rb")
        self.last_id = 0

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        self.socket.close()

    def ask(self, method: str, **params: Any) -> Any:
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}
        self.socket.sendall(json.dumps(message).encode() + b"\n")
        while True:
            answer = self.read()
            if answer.get("id") == self.last_id:
                break
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    def read(self) -> dict[str, Any]:
        line = self.file.readline()
        if not line:
            raise ConnectionError("the daemon closed the connection")
        message: dict[str, Any] = json.loads(line)
        return message


class Agent:
    """One attached agent: MCP lines on a socket. Made by `attached`, which runs its reader."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.last_id = 0
        self.answers: dict[Any, dict[str, Any]] = {}
        self.notices: list[dict[str, Any]] = []
        self.news = trio.Condition()
        self.closed = False
        self.reading = trio.Event()
        self.reading.set()
        self.modern = False

    async def run(self) -> None:
        """Read until the end; stops reading, as a stuck program does, while `reading` is not set."""
        buffer = bytearray()
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while True:
                await self.reading.wait()
                if not (chunk := await self.stream.receive_some(65536)):
                    break
                buffer += chunk
                if b"\n" not in chunk:
                    continue
                *lines, rest = bytes(buffer).split(b"\n")
                buffer = bytearray(rest)
                for line in lines:
                    await self.take(json.loads(line))
        async with self.news:
            self.closed = True
            self.news.notify_all()

    async def take(self, message: dict[str, Any]) -> None:
        async with self.news:
            if "method" in message:
                self.notices.append(message)
            else:
                key = message.get("id")
                assert key not in self.answers, f"two answers to {key!r}"
                self.answers[key] = message
            self.news.notify_all()

    async def wait_for(self, what: Callable[[], T], within: float = LIMIT) -> T:
        """The first true value of `what`, looked at after every message."""
        with trio.fail_after(within):
            async with self.news:
                while not (got := what()):
                    if self.closed:
                        raise ConnectionError("the daemon closed the connection")
                    await self.news.wait()
                return got

    # -- sending -----------------------------------------------------------------------------------
    async def line(self, data: bytes) -> None:
        await self.stream.send_all(data + b"\n")

    async def send(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> None:
        if self.modern and "id" in more:
            params = {**(params or {}), "_meta": {**MODERN, **((params or {}).get("_meta") or {})}}
        message = {"jsonrpc": "2.0", **more, "method": method}
        await self.line(json.dumps(message if params is None else {**message, "params": params}).encode())

    async def begin(self, method: str, params: dict[str, Any] | None = None, request_id: Any = None) -> Any:
        """Send a request and return its id."""
        if request_id is None:
            self.last_id += 1
            request_id = self.last_id
        await self.send(method, params, id=request_id)
        return request_id

    async def answer(self, request_id: Any, within: float = LIMIT) -> dict[str, Any]:
        """The result of a request; raises Refused."""
        await self.wait_for(lambda: request_id in self.answers, within)
        answer = self.answers.pop(request_id)
        if "error" in answer:
            raise Refused(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    async def request(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return await self.answer(await self.begin(method, params))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.request("tools/call", {"name": tool, "arguments": arguments})

    async def begin_call(self, tool: str, **arguments: Any) -> Any:
        return await self.begin("tools/call", {"name": tool, "arguments": arguments})

    async def tools(self) -> list[str]:
        """The names of the whole list, all pages."""
        names: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await self.request("tools/list", cursor)
            names += [tool["name"] for tool in page["tools"]]
            if page.get("nextCursor") is None:
                return names
            cursor = {"cursor": page["nextCursor"]}

    def noticed(self, method: str) -> list[dict[str, Any]]:
        return [notice for notice in self.notices if notice["method"] == method]


@contextlib.asynccontextmanager
async def attached(
    daemon: Daemon, agent: str = "default", revision: str = "2025-11-25", attach: dict[str, Any] | None = None
) -> AsyncIterator[Agent]:
    """An agent that has said hello; `attach` is the content of the attach line (DESIGN 3)."""
    sock = visitor.connect("agent", str(daemon.sockets / "agents" / agent / "mcp.sock"))
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
    failure: Exception | None = None
    async with stream, trio.open_nursery() as nursery:
        client = Agent(stream)
        nursery.start_soon(client.run)
        try:
            if attach is not None:
                await client.send("notifications/dev.mcpd/attach", attach)
            await hello(client, revision)
            yield client
        except Exception as error:
            # Raised outside the nursery, so that a test sees it and not a group around it.
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


async def hello(client: Agent, revision: str) -> None:
    if revision == "2026-07-28":
        client.modern = True
        return
    info = {"name": "e2e", "version": "1"}
    asked = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
    got = await client.request("initialize", asked)
    assert got["protocolVersion"] == revision
    await client.send("notifications/initialized")


# -- processes ------------------------------------------------------------------------------------
def processes() -> Iterator[int]:
    return (int(entry) for entry in os.listdir("/proc") if entry.isdigit())


def environ_of(pid: int) -> bytes:
    """Empty for the dead, zombies included."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
