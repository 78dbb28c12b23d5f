"""The loopback endpoint of a real daemon, with httpx and the official SDK as clients (n23)."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import trio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.conftest import Home
from tests.e2e.harness import LIMIT, MODERN, Daemon, heard, lively, until

BOTH = "application/json, text/event-stream"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "e2e", "version": "1"}}


class Host:
    """One HTTP client of the endpoint, with the token of one agent."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.http = httpx.Client(
            headers={"Accept": BOTH, "Authorization": f"Bearer {token}"}, timeout=LIMIT, trust_env=False
        )
        self.session: dict[str, str] = {}
        self.last_id = 0

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def body(self, method: str, params: Any = None, ident: Any = ...) -> dict[str, Any]:
        self.last_id += 1
        body = {"jsonrpc": "2.0", "id": self.last_id if ident is ... else ident, "method": method}
        return body if params is None else {**body, "params": params}

    def post(self, method: str, params: Any = None, **headers: str) -> httpx.Response:
        return self.http.post(self.url, json=self.body(method, params), headers={**self.session, **headers})

    def initialize(self) -> None:
        response = self.post("initialize", HELLO)
        assert response.status_code == 200, response.text
        self.session = {
            "Mcp-Session-Id": response.headers["mcp-session-id"],
            "MCP-Protocol-Version": "2025-11-25",
        }
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert self.http.post(self.url, json=initialized, headers=self.session).status_code == 202

    def result(self, method: str, params: Any = None) -> Any:
        [message] = messages(self.post(method, params).text)
        return message["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.result("tools/call", {"name": tool, "arguments": arguments})

    def modern(self, method: str, params: Any = None, **headers: str) -> httpx.Response:
        params = {**(params or {}), "_meta": {**MODERN, **(params or {}).get("_meta", {})}}
        own = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if "name" in params:
            own["Mcp-Name"] = params["name"]
        return self.http.post(self.url, json=self.body(method, params), headers={**own, **headers})


def messages(text: str) -> list[Any]:
    """Of an answer of either kind."""
    if text.startswith("{"):
        return [json.loads(text)]
    lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines]


class Served:
    """A daemon whose endpoint listens on a port of its own."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.port: int = daemon.ask("endpoint.enable", port=0)["port"]
        self.tokens: dict[str, str] = {}

    def url(self, path: str = "/mcp", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def token(self, agent: str = "default") -> str:
        if agent not in self.tokens:
            self.tokens[agent] = self.daemon.ask("endpoint.token", agent=agent)["token"]
        return self.tokens[agent]

    @contextlib.contextmanager
    def host(self, agent: str = "default", path: str = "/mcp") -> Iterator[Host]:
        with Host(self.url(path), self.token(agent)) as host:
            yield host


@pytest.fixture
def log(home: Home) -> Path:
    return home.root / "lively.log"


@pytest.fixture
def served(daemon: Daemon, log: Path) -> Served:
    daemon.server("lively", lively(log))
    daemon.write("agents.d/coder.toml", {"schema": 1})
    daemon.start()
    return Served(daemon)


def test_it_listens_where_it_was_enabled_and_nowhere_else(daemon: Daemon) -> None:
    daemon.start()
    assert json.loads(daemon.ctl("endpoint", "--json").stdout)["urls"] == []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = daemon.ctl("endpoint", "enable", "--port", str(port), check=False)
        assert refused.returncode == 4
        assert "address already in use" in refused.stderr
        assert json.loads(daemon.ctl("endpoint", "--json").stdout)["enabled"] is False
    status = json.loads(daemon.ctl("endpoint", "enable", "--port", str(port), "--json").stdout)
    urls = [f"http://127.0.0.1:{port}/mcp", f"http://[::1]:{port}/mcp"]
    assert status["urls"] in (urls, urls[:1]), "without IPv6 there is one"
    assert json.loads(daemon.ctl("endpoint", "enable", "--json").stdout) == status, "a second time"
    for url in status["urls"]:
        assert httpx.get(url, trust_env=False).status_code == 401
    bound = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()
    ]
    listening = [row[1] for row in bound if row[3] == "0A" and row[1].endswith(f":{port:04X}")]
    assert sorted(listening) == sorted(
        [f"0100007F:{port:04X}", f"00000000000000000000000001000000:{port:04X}"][: len(status["urls"])]
    )
    daemon.ctl("endpoint", "disable")
    for url in status["urls"]:
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, trust_env=False)


def test_moving_to_another_port_keeps_the_sessions(served: Served) -> None:
    with served.host() as host:
        host.initialize()
        before = served.port
        moved = served.daemon.ask("endpoint.enable", port=free_port())
        assert moved["port"] != before
        with pytest.raises(httpx.ConnectError):
            httpx.get(served.url(), trust_env=False)
        with Host(moved["urls"][0], served.token()) as again:
            again.session = host.session
            assert again.result("ping") == {}


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_session_by_each_name_of_this_machine(served: Served, host: str) -> None:
    if host == "[::1]" and len(served.daemon.ask("endpoint.status")["urls"]) < 2:
        pytest.skip("needs IPv6")
    with Host(served.url(host=host), served.token()) as client:
        client.initialize()
        assert client.call("lively__echo", text="x")["content"] == [{"type": "text", "text": "x"}]
        assert "lively__echo" in [tool["name"] for tool in client.result("tools/list")["tools"]]
        assert client.http.delete(client.url, headers=client.session).status_code == 204
        assert client.post("ping").status_code == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example.com"}, 421),
        ({"Origin": "http://evil.example.com"}, 403),
        ({"Authorization": "Bearer nonsense"}, 401),
        ({"Content-Type": "text/plain"}, 415),
        ({"Accept": "image/png"}, 406),
        ({"X-Long": "x" * 200_000}, 431),
    ],
)
def test_what_does_not_come_in(served: Served, headers: dict[str, str], status: int) -> None:
    with served.host() as host:
        response = host.post("initialize", HELLO, **headers)
        assert response.status_code == status
        assert not [name for name in response.headers if name.startswith("access-control-")]
        assert "server" not in response.headers
        assert served.daemon.ask("endpoint.status")["sessions"] == 0


def test_a_body_that_is_too_long(served: Served) -> None:
    with served.host() as host:
        # It may be refused before it was sent whole.
        with contextlib.suppress(httpx.WriteError, httpx.ReadError):
            assert host.post("ping", {"x": "x" * (17 << 20)}).status_code == 413
        host.initialize()
        assert host.call("lively__length", text="x" * (9 << 20))["content"][0]["text"] == str(9 << 20)


def test_tokens_are_nowhere_in_what_is_logged_or_kept(served: Served) -> None:
    with served.host() as host:
        host.initialize()
        host.http.get(f"{host.url}?token={served.token()}")
        host.post("nonsense")
    served.daemon.ask("endpoint.token", agent="default", rotate=True)
    assert served.daemon.end() == 0
    for path in [path for path in served.daemon.home.root.rglob("*") if path.is_file()]:
        assert served.token().encode() not in path.read_bytes(), path


def test_another_agents_session_is_unknown(served: Served) -> None:
    with served.host() as host, served.host("coder") as coder:
        host.initialize()
        coder.session = host.session
        theirs = coder.post("ping")
        coder.session = {**host.session, "Mcp-Session-Id": "made-up"}
        assert (theirs.status_code, theirs.json()["error"]) == (404, coder.post("ping").json()["error"])
        assert coder.http.get(coder.url, headers=host.session).status_code == 404
        assert coder.http.delete(coder.url, headers=host.session).status_code == 404
        assert host.result("ping") == {}


def test_one_server_with_its_own_names(served: Served) -> None:
    with served.host(path="/server/lively") as host:
        host.initialize()
        assert "echo" in [tool["name"] for tool in host.result("tools/list")["tools"]]
        assert host.call("echo", text="x")["content"][0]["text"] == "x"
        called = host.modern("tools/call", {"name": "echo", "arguments": {"text": "y"}}).json()
        assert called["result"]["content"][0]["text"] == "y"
        host.url = served.url("/server/other")
        assert host.post("ping").status_code == 404


def test_stateless_requests_and_their_statuses(served: Served) -> None:
    with served.host() as host:
        assert host.modern("server/discover").json()["result"]["supportedVersions"] == ["2026-07-28"]
        tools = host.modern("tools/list").json()["result"]["tools"]
        assert "lively__echo" in [tool["name"] for tool in tools]
        for method, params, headers, status, code in (
            ("initialize", HELLO, {}, 404, -32601),
            ("nonsense", {}, {}, 404, -32601),
            ("tools/list", {}, {"Mcp-Method": "tools/call"}, 400, -32020),
            ("tools/call", {"name": "lively__echo"}, {"Mcp-Name": "other"}, 400, -32020),
            ("tools/list", {}, {"MCP-Protocol-Version": "2025-11-25"}, 400, -32020),
            ("tools/call", {"name": "unknown"}, {}, 400, -32602),
        ):
            response = host.modern(method, params, **headers)
            assert (response.status_code, response.json()["error"]["code"]) == (status, code)
            assert response.json()["id"] == host.last_id
        assert host.http.get(host.url, headers={"MCP-Protocol-Version": "2026-07-28"}).status_code == 405


def test_a_call_goes_on_for_a_client_that_was_cut_off(served: Served, log: Path) -> None:
    with served.host() as host:
        host.initialize()
        body = host.body(
            "tools/call", {"name": "lively__nap", "arguments": {"seconds": 1.5, "text": "slept"}}
        )
        with host.http.stream("POST", host.url, json=body, headers=host.session) as response:
            first = next(response.iter_lines())
        assert first.startswith("id: ")
        resumed = host.http.get(host.url, headers={**host.session, "Last-Event-ID": first[4:]})
        [answer] = messages(resumed.text)
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (body["id"], "slept")
        assert heard(log, "cancelled") == []


def test_leaving_a_stateless_call_cancels_it(served: Served, log: Path) -> None:
    with served.host() as host:
        host.modern("tools/list")
        host.http.timeout = httpx.Timeout(1.0)
        with pytest.raises(httpx.ReadTimeout):
            host.modern("tools/call", {"name": "lively__nap", "arguments": {"seconds": 60}})
        until(lambda: heard(log, "cancelled"))


def test_a_restart_listens_again_and_tokens_last(served: Served) -> None:
    served.daemon.ask("endpoint.enable", port=(port := free_port()))
    with Host(f"http://127.0.0.1:{port}/mcp", served.token()) as host:
        host.initialize()
        assert served.daemon.end() == 0
        served.daemon.start()
        assert host.post("ping").status_code == 404, "sessions do not"
        host.session = {}
        host.initialize()
        assert served.daemon.end(signal.SIGKILL) == -signal.SIGKILL
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind(("127.0.0.1", port))
            taken.listen()
            served.daemon.start()
            status = served.daemon.ask("endpoint.status")
            assert (status["enabled"], status["urls"]) == (True, [])
            problems = served.daemon.ask("daemon.status")["problems"]
            assert [problem["message"] for problem in problems] == [status["problem"]]
            assert str(port) in status["problem"]
        served.daemon.ctl("endpoint", "enable")
        assert served.daemon.ask("daemon.status")["problems"] == []
        host.session = {}
        host.initialize()


def test_a_revoked_or_removed_agent_is_out_at_once(served: Served) -> None:
    with served.host("coder") as host:
        host.initialize()
        with host.http.stream("GET", host.url, headers=host.session) as stream:
            served.daemon.ask("endpoint.token", agent="coder", rotate=True)
            assert list(stream.iter_lines())[-1] == ""
        assert host.post("ping").status_code == 401
        served.tokens["coder"] = served.daemon.ask("endpoint.token", agent="coder", rotate=True)["token"]
    with served.host("coder") as host:
        host.initialize()
        (served.daemon.folder / "agents.d" / "coder.toml").unlink()
        served.daemon.ask("daemon.reload")
        assert host.post("ping").status_code == 401
        until(lambda: served.daemon.ask("endpoint.status")["sessions"] == 0)
        [token] = [
            each for each in served.daemon.ask("endpoint.status")["tokens"] if each["agent"] == "coder"
        ]
        assert token["usable"] is False


def test_the_end_of_the_daemon_waits_for_no_reader(served: Served) -> None:
    with served.host() as host:
        host.initialize()
        stuck = socket.create_connection(("127.0.0.1", served.port))
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for number in range(100):
            with contextlib.suppress(BlockingIOError):
                stuck.send(raw_call(host, number), socket.MSG_DONTWAIT)
        with host.http.stream("GET", host.url, headers=host.session):
            time.sleep(0.5)
            began = time.monotonic()
            assert served.daemon.end() == 0
            assert time.monotonic() - began < 6
        stuck.close()


def raw_call(host: Host, number: int) -> bytes:
    """A request for a long text, as bytes."""
    call = host.body("tools/call", {"name": "lively__text", "arguments": {"size": 90_000}}, number)
    body = json.dumps(call).encode()
    fields = {
        **dict(host.http.headers),
        **host.session,
        "Host": "localhost",
        "Content-Length": str(len(body)),
    }
    fields["Content-Type"] = "application/json"
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


def test_who_says_nothing_or_garbage_harms_nobody(served: Served) -> None:
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(50)]
    for number, data in enumerate(
        (
            b"\0\1\2\3" * 1000,
            b"GET /mcp HTTP/1.1\r\n" * 100,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1000,
            b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade, http2-settings\r\n"
            b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + b"\xff" * 1000,
            b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            b"Transfer-Encoding: chunked\r\n\r\nxxxxx",
            b"GET http://localhost/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /mcp HTTP/1.0\r\n\r\n",
        )
    ):
        silent[number].sendall(data)
    with served.host() as host:
        host.initialize()
        assert host.result("ping") == {}
    for sock in silent:
        sock.close()
    assert served.daemon.ask("endpoint.status")["urls"]
    assert "internal error" not in served.daemon.said()


# ------------------------------------------------------------------ the official SDK


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_official_client(served: Served, log: Path, mode: Any, real_clock: None) -> None:
    heads = {"Authorization": f"Bearer {served.token()}"}
    steps: list[float] = []

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(progress)

    async with (
        httpx2.AsyncClient(headers=heads, timeout=LIMIT, trust_env=False) as http,
        Client(streamable_http_client(served.url(), http_client=http), mode=mode) as client,
    ):
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        tools = (await client.list_tools()).tools
        assert "lively__echo" in [tool.name for tool in tools]
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(echo, client, f"text {number}")
        worked = await client.call_tool(
            "lively__work", {"seconds": 0.9, "text": "done"}, progress_callback=progress
        )
        assert worked.content[0].text == "done"  # type: ignore[union-attr]
        assert steps == sorted(steps)
        assert len(steps) >= 2
    until(lambda: served.daemon.ask("endpoint.status")["sessions"] <= 1)


async def echo(client: Client, text: str) -> None:
    result = await client.call_tool("lively__echo", {"text": text})
    assert result.content[0].text == text  # type: ignore[union-attr]
