"""A stdio MCP server for end-to-end tests (standard library only): calls run at the same time, and all that
it hears and does is written to the file given by `--log`, a JSON object a line.

Options: `--modern` speaks 2026-07-28 and nothing else; `--stubborn` ignores end-of-input and every signal
that can be ignored; `--detach` leaves a process behind that has forked twice into a new session.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

MODERN = "2026-07-28"
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"

LOG = sys.argv[sys.argv.index("--log") + 1] if "--log" in sys.argv else os.devnull
IS_MODERN = "--modern" in sys.argv

ODD_RESULT = {
    "content": [
        {
            "type": "text",
            "text": "na\u00efve \u65e5\u672c\u8a9e \U0001f642",
            "annotations": {"audience": ["user"]},
            "x": 1.50,
        },
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png", "_meta": {"example.com/n": None}},
        {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///x", "name": "x", "size": 12345678901234567890},
        {"type": "resource", "resource": {"uri": "file:///y", "blob": "aGVsbG8="}},
        {"type": "hologram", "depth": {"z": [1, 2.0, 3e10]}},
    ],
    "structuredContent": {"deep": {"list": [None, True, {"\u00fc": "\\u0000"}]}, "big": 9007199254740993},
    "_meta": {"example.com/trace": "abc"},
    "somethingNew": {"kept": True},
    "isError": False,
}


def tool(name: str, **annotations: bool) -> dict[str, Any]:
    extra = {"annotations": annotations} if annotations else {}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}, **extra}


class Cancelled(Exception):
    pass


class Server:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        self.tools = [
            tool("echo", readOnlyHint=True),
            *(
                tool(n)
                for n in ("nap", "env", "text", "length", "raw", "odd", "work", "refuse", "grow", "bye")
            ),
            tool("wipe", destructiveHint=True),
        ]
        self.cancelled: dict[Any, threading.Event] = {}
        self.wishes: dict[Any, dict[str, Any]] = {}
        """What each listener wants to hear of."""

    # -- input and output ---------------------------------------------------------------------------
    def log(self, event: str, **more: Any) -> None:
        line = json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n"
        with open(LOG, "a", encoding="utf-8") as file:
            file.write(line)

    def send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"
        with self.lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def run(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "method" not in message:
                continue
            named = (message.get("params") or {}).get("name")
            self.log("heard", method=message["method"], name=named, params=short(message.get("params")))
            if message["method"] == "notifications/cancelled":
                self.cancelled.get(message["params"]["requestId"], threading.Event()).set()
                self.wishes.pop(message["params"]["requestId"], None)
            elif "id" in message:
                self.cancelled[message["id"]] = threading.Event()
                threading.Thread(target=self.serve, args=(message, line), daemon=True).start()
        self.log("eof")

    def serve(self, message: dict[str, Any], line: bytes) -> None:
        try:
            answer = self.answer(message, line)
        except Cancelled:
            self.log("cancelled", id=message["id"])
            return
        if answer is not None:
            self.send({"id": message["id"], **answer})

    # -- methods ------------------------------------------------------------------------------------
    def answer(self, message: dict[str, Any], line: bytes) -> dict[str, Any] | None:
        method, params = message["method"], message.get("params") or {}
        if IS_MODERN and (params.get("_meta") or {}).get(META + "protocolVersion") != MODERN:
            data = {"supported": [MODERN], "requested": "?"}
            return {"error": {"code": -32022, "message": "unsupported protocol version", "data": data}}
        if method == "subscriptions/listen" and IS_MODERN:
            self.listen(message)
            return None
        result = self.result(method, params, message, line)
        if result is None:
            return {"error": {"code": -32601, "message": f"no method {method}"}}
        if "code" in result:
            return {"error": result}
        return {"result": {"resultType": "complete", **result} if IS_MODERN else result}

    def result(
        self, method: str, params: dict[str, Any], message: dict[str, Any], line: bytes
    ) -> dict[str, Any] | None:
        if method == "tools/call":
            return self.call(params["name"], params.get("arguments") or {}, message, line)
        if method == "tools/list":
            more = {"ttlMs": 0, "cacheScope": "private"} if IS_MODERN else {}
            return {"tools": self.tools, **more}
        if method == "server/discover" and IS_MODERN:
            more = {"ttlMs": 0, "cacheScope": "private"}
            return {"supportedVersions": [MODERN], "capabilities": self.capabilities, **more}
        if method == "initialize" and not IS_MODERN:
            asked = params["protocolVersion"]
            revision = asked if asked in HANDSHAKE else HANDSHAKE[-1]
            info = {"name": "lively", "version": "1"}
            return {"protocolVersion": revision, "capabilities": self.capabilities, "serverInfo": info}
        return {} if method == "ping" and not IS_MODERN else None

    def listen(self, message: dict[str, Any]) -> None:
        wanted = message["params"]["notifications"]
        self.wishes[message["id"]] = wanted
        about = {"_meta": {META + "subscriptionId": message["id"]}, "notifications": wanted}
        self.send({"method": "notifications/subscriptions/acknowledged", "params": about})

    # -- tools --------------------------------------------------------------------------------------
    def call(self, name: str, args: dict[str, Any], message: dict[str, Any], line: bytes) -> dict[str, Any]:
        if name == "odd":
            return ODD_RESULT
        if name == "bye":
            os._exit(3)
        if name == "refuse":
            return {"code": -32099, "message": "not today", "data": {"why": ["tired"]}}
        if name == "grow":
            self.grow(args["name"])
        if name in ("nap", "work"):
            self.wait(args["seconds"], name == "work", message)
        texts = {
            "nap": args.get("text", ""),
            "work": args.get("text", ""),
            "echo": args.get("text", ""),
            "env": json.dumps(dict(os.environ)),
            "text": "x" * args.get("size", 0),
            "length": str(len(args.get("text", ""))),
            "raw": line.decode(),
        }
        return {"content": [{"type": "text", "text": str(texts.get(name, "done"))}], "isError": False}

    def wait(self, seconds: float, progress: bool, message: dict[str, Any]) -> None:
        token = ((message["params"].get("_meta")) or {}).get("progressToken")
        end, step = time.monotonic() + seconds, 0
        while (left := end - time.monotonic()) > 0:
            if self.cancelled[message["id"]].wait(min(left, 0.2) if progress else left):
                raise Cancelled
            if progress and token is not None:
                step += 1
                self.send(
                    {"method": "notifications/progress", "params": {"progressToken": token, "progress": step}}
                )

    def grow(self, name: str) -> None:
        self.tools.append(tool(name))
        self.announce("tools")

    def announce(self, kind: str) -> None:
        """A list of this kind has changed."""
        method = f"notifications/{kind}/list_changed"
        if not IS_MODERN:
            self.send({"method": method})
        for listener, wanted in list(self.wishes.items()):
            if wanted.get(f"{kind}ListChanged"):
                self.send({"method": method, "params": {"_meta": {META + "subscriptionId": listener}}})


def short(params: Any) -> Any:
    return params if len(json.dumps(params)) < 10_000 else "long"


def detach(server: Server) -> None:
    """Leave a process that nobody's child list, group or session leads to."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    server.log("detached")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    time.sleep(600)
    os._exit(0)


def main() -> None:
    server = Server()
    if "--stubborn" in sys.argv:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    server.log("start")
    if "--detach" in sys.argv:
        detach(server)
    server.run()
    if "--stubborn" in sys.argv:
        time.sleep(600)


if __name__ == "__main__":
    main()
