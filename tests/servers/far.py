"""A remote MCP server on loopback, in threads of the test, whose behaviour the test changes while it runs.

    with Far("legacy") as far:
        ...
        far.mode = "html"

`speaks`: "legacy" (Streamable HTTP with sessions), "modern" (2026-07-28), "both", "sse" (2024-11-05),
"none" (something else lives there).
`mode` is what it does to every request from now on:

    ""          what it should
    "html"      200 and a web page              "502"       a proxy's error page
    "hang"      reads, never answers            "401" "403" no access
    "elsewhere" a redirect to another origin    "lost"      no session is known, new ones neither
    "gzip"      256 MiB in 600 bytes, gzip in gzip          "bomb"  256 MiB in one gzip
    "echo"      a page that repeats a header of the request
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import zlib
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

KNOWN = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
BOMB = 256 * 1024 * 1024
REGION = {"type": "string", "x-mcp-header": "Region"}
TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": readonly}}
    for name, readonly in (("echo", True), ("act", False))
]


MIRRORING = [{**tool, "inputSchema": {"type": "object", "properties": {"region": REGION}}} for tool in TOOLS]


class Asked:
    """One request as it came."""

    def __init__(self, method: str, path: str, headers: dict[str, str], message: dict[str, Any]) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.message = message

    @property
    def what(self) -> str:
        """The JSON-RPC method, or the HTTP one where there is no message."""
        what: str = self.message.get("method", self.method)
        return what


class Far:
    """The server; a context that is up from its beginning to its end, but for `die` and `live`."""

    def __init__(self, speaks: str = "legacy", *, stream: bool = False) -> None:
        """`stream`: sessions have a stream of their own (GET)."""
        self.speaks = speaks
        self.stream = stream
        self.mode = ""
        self.token = ""
        """Where set, the value that Authorization must have."""
        self.mirrors = False
        """The argument `region` must be repeated in a header (3.3), as the listing says then."""
        self.elsewhere = "http://127.0.0.1:9/mcp"
        self.asked: list[Asked] = []
        self.sessions: set[str] = set()
        self.streams: dict[str, queue.Queue[bytes | None]] = {}
        self.count = 0
        self.port = 0
        self._freed = threading.Event()
        self._http: _Listener | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if self.speaks == 'sse' else 'mcp'}"

    def __enter__(self) -> Far:
        self.live()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.die()

    def live(self) -> None:
        """Listen, on the same port as before."""
        self._freed.clear()
        self._http = _Listener(self, ("127.0.0.1", self.port))
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def die(self) -> None:
        """Stop listening, cut every connection and forget every session."""
        self.free()
        self.sessions.clear()
        for stream in list(self.streams.values()):
            stream.put(None)
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http.cut()
            self._http = None

    def free(self) -> None:
        """Requests that hang are cut off."""
        self._freed.set()
        self._freed = threading.Event()

    def heard(self, what: str) -> int:
        """How often it was asked this."""
        return sum(asked.what == what for asked in self.asked)

    def hang(self) -> None:
        self._freed.wait(120)

    def new_session(self) -> str:
        self.count += 1
        session = f"s-{self.count}"
        self.sessions.add(session)
        return session


class _Listener(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, far: Far, address: tuple[str, int]) -> None:
        self.far = far
        self.connections: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.discard(request)
        super().shutdown_request(request)

    def cut(self) -> None:
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is usual here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def log_message(self, *args: Any) -> None:
        pass

    # ------------------------------------------------------------------- requests

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        message = json.loads(body) if body else {}
        if not self._taken(message):
            self._post(message)

    def do_GET(self) -> None:
        if not self._taken({}):
            self._get()

    def do_DELETE(self) -> None:
        if not self._taken({}):
            self.server.far.sessions.discard(self.headers.get("Mcp-Session-Id", ""))
            self.answer(200, b"")

    def _taken(self, message: dict[str, Any]) -> bool:
        """Write it down, and do what the mode says."""
        far = self.server.far
        headers = {name.lower(): value for name, value in self.headers.items()}
        far.asked.append(Asked(self.command, self.path, headers, message))
        mode = "401" if far.token and headers.get("authorization") != far.token else far.mode
        match mode:
            case "html":
                self.answer(200, b"<!doctype html><html><body>Log in to the hotel</body></html>", "text/html")
            case "502":
                self.answer(502, b"<html><body>Bad gateway</body></html>" * 500, "text/html")
            case "hang":
                far.hang()
                self.close_connection = True
            case "401":
                self.answer(401, b'{"error":"invalid_token"}', **{"WWW-Authenticate": "Bearer"})
            case "403":
                self.answer(403, b"no", "text/plain")
            case "echo":
                self.answer(500, f"headers: {self.headers['Authorization']}".encode(), "text/plain")
            case "elsewhere":
                self.answer(307, b"", Location=far.elsewhere)
            case "gzip":
                self.answer(200, bomb(2), **{"Content-Encoding": "gzip, gzip"})
            case "bomb":
                self.answer(200, bomb(1), **{"Content-Encoding": "gzip"})
            case _:
                return False
        return True

    def answer(
        self, status: int, body: bytes, content_type: str = "application/json", **headers: str
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    # ------------------------------------------------------------------- the protocol

    def _post(self, message: dict[str, Any]) -> None:
        far = self.server.far
        if far.speaks in ("sse", "none"):
            self._post_older(message)
            return
        modern = "Mcp-Method" in self.headers
        if (modern and far.speaks == "legacy") or (not modern and far.speaks == "modern"):
            self.answer(400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request"}}')
            return
        headers: dict[str, str] = {}
        if message.get("method") == "initialize":
            headers["Mcp-Session-Id"] = far.new_session()
        elif not modern and (far.mode == "lost" or self.headers.get("Mcp-Session-Id") not in far.sessions):
            self.answer(404, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"no session"}}')
            return
        if "id" not in message:
            self.answer(202, b"")
            return
        if far.mirrors and modern:
            if message["method"] == "tools/list":
                self.answer(200, said(message, modern, MIRRORING))
                return
            region = ((message.get("params") or {}).get("arguments") or {}).get("region")
            if region != self.headers.get("Mcp-Param-Region"):
                error = {"code": -32020, "message": "Mcp-Param-Region does not say what the body does"}
                self.answer(400, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())
                return
        self.answer(200, said(message, modern), **headers)

    def _get(self) -> None:
        far = self.server.far
        if far.speaks == "sse":
            self._stream(
                f"event: endpoint\ndata: /messages?session={far.new_session()}\n\n", f"s-{far.count}"
            )
        elif far.stream and self.headers.get("Mcp-Session-Id") in far.sessions:
            self._stream(": here\n\n", self.headers["Mcp-Session-Id"])
        elif far.speaks == "none":
            self.answer(404, b"nothing here", "text/plain")
        else:
            self.answer(405, b"", Allow="POST")

    def _stream(self, first: str, session: str) -> None:
        lines = self.server.far.streams[session] = queue.Queue()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(first.encode())
        self.wfile.flush()
        while (line := lines.get()) is not None:
            self.wfile.write(b"event: message\ndata: " + line + b"\n\n")
            self.wfile.flush()
        self.close_connection = True

    def _post_older(self, message: dict[str, Any]) -> None:
        far = self.server.far
        path, _, session = self.path.partition("?session=")
        if path != "/messages" or session not in far.streams:
            self.answer(405, b"Method Not Allowed", "text/plain", Allow="GET, HEAD")
            return
        self.answer(202, b"")
        if "id" in message:
            far.streams[session].put(said(message, modern=False))


def said(message: dict[str, Any], modern: bool, tools: list[dict[str, Any]] = TOOLS) -> bytes:
    """The answer to one request."""
    params = message.get("params") or {}
    result: dict[str, Any]
    match message["method"]:
        case "initialize":
            asked = params["protocolVersion"]
            result = {
                "protocolVersion": asked if asked in KNOWN else KNOWN[-1],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "far", "version": "1"},
            }
        case "server/discover":
            result = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
        case "tools/list":
            result = {"tools": tools, **({"ttlMs": 0, "cacheScope": "private"} if modern else {})}
        case "tools/call":
            text = json.dumps(params.get("arguments") or {})
            result = {"content": [{"type": "text", "text": text}]}
        case "ping":
            result = {}
        case method:
            error = {"code": -32601, "message": f"no method {method}"}
            return json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
    if modern:
        result["resultType"] = "complete"
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


@cache
def bomb(layers: int) -> bytes:
    """BOMB zeros, coded by gzip so many times."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1024 * 1024)
    packed = b"".join(packer.compress(piece) for _ in range(BOMB // len(piece))) + packer.flush()
    for _ in range(layers - 1):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        packed = packer.compress(packed) + packer.flush()
    return packed
