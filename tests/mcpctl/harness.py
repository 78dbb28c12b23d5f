"""A control socket that answers by a table, and mcpctl run against it as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import mcpctl
from mcpd.errors import KINDS

LIMIT = 20.0

HELLO = {
    "version": mcpctl.__version__,
    "api": 1,
    "features": {},
    "role": "control",
    "instance": "i-1",
    "pid": 0,
    "started": 1.0,
}

STATUS = {
    "state": "connected",
    "reason": "",
    "error": "",
    "tools": 2,
    "revision": "2025-11-25",
    "pid": 4711,
    "last_attempt": 0.0,
    "last_success": 0.0,
    "last_failure": 0.0,
    "latency": 0.5,
    "attempts": 0,
    "retry_at": 0.0,
}


def server(name: str = "fs", **fields: Any) -> dict[str, Any]:
    """A ServerInfo; `fields` of the status go by `status`."""
    return {
        "name": name,
        "source": f"/etc/{name}.toml",
        "transport": "stdio",
        "command": "node",
        "args": ["index.js"],
        "url": "",
        "enabled": True,
        "disabled_by": "",
        "start": "lazy",
        "instance": "shared",
        "instances": [],
        "held": "",
        "step": "",
        **fields,
        "status": {**STATUS, **fields.get("status", {})},
    }


def server_test(**fields: Any) -> dict[str, Any]:
    """A ServerTest."""
    return {
        "server": "fs",
        "ok": True,
        "error": "",
        "hint": "",
        "revision": "2025-11-25",
        "server_info": {"name": "files", "version": "7"},
        "capabilities": {"tools": {}},
        "instructions": "",
        "tools": 1,
        "resources": 0,
        "templates": 0,
        "prompts": 0,
        "warnings": [],
        "timings": {"open": 0.2, "catalogue": 0.1, "total": 0.3},
        **fields,
        "status": {**STATUS, **fields.get("status", {})},
    }


def tool(name: str = "fs__read", **fields: Any) -> dict[str, Any]:
    """A ToolInfo."""
    return {
        "server": "fs",
        "tool": name.partition("__")[2],
        "name": name,
        "title": "",
        "description": "Read a file.",
        "risk": "low",
        "approval": "never",
        "annotations": {},
        **fields,
    }


def argument(kind: str, name: str, value: str, **fields: Any) -> dict[str, Any]:
    """An ApprovalArgument."""
    return {"kind": kind, "name": name, "value": value, "left_out": 0, "hidden": [], **fields}


def approval(**fields: Any) -> dict[str, Any]:
    """An Approval."""
    return {
        "id": "k7f39qpm2a",
        "agent": "coder",
        "session": "s1",
        "pid": 4711,
        "exe": "/usr/bin/claude",
        "cwd": "/home/me/project",
        "host": "",
        "server": "files",
        "runs": "npx -y server-filesystem /home/me",
        "tool": "write",
        "name": "files__write",
        "method": "tools/call",
        "description": "Writes a file.",
        "risk": "high",
        "question": "asked: no grant covers it",
        "because": ["asked: no grant covers it"],
        "once_only": False,
        "trustable": True,
        "flags": [],
        "arguments": [argument("path", "path", "/home/me/x")],
        "left_out": 0,
        "cut": False,
        "seen": "abc234",
        "asked_at": 1e9,
        "left": 600.0,
        "waiting": 0,
        **fields,
    }


def approval_details(text: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """An ApprovalDetails."""
    return {**approval(**fields), "long": fields.get("long", False), "text": text or {"path": "/home/me/x"}}


class Raw(str):
    """A result as JSON text, sent as it is."""


class Refusal:
    """An error of the daemon."""

    def __init__(self, kind: str, message: str = "cannot do it", **data: Any) -> None:
        self.data = {"kind": kind, **data}
        self.error = {"code": KINDS[kind], "message": message, "data": self.data}


class Hang:
    """No answer, the connection stays open."""


class Hangup:
    """The connection closes instead of an answer."""


Answer = Any
"""A result, or what else may be in the table: Raw, Refusal, Hang, Hangup, or a function of the params."""


class Control:
    """A daemon's control socket as far as a client sees it: a table of answers, one thread a connection."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "control.sock"
        self.answers: dict[str, Answer] = {"hello": HELLO}
        self.after: dict[str, list[dict[str, Any]]] = {}
        """method -> notifications that follow its answer."""
        self.hang_up_after: set[str] = set()
        self.requests: list[dict[str, Any]] = []
        self.lines: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                self.lines.append(line)
                self.requests.append(request)
                answer = self.answers.get(request["method"], Refusal("unknown_method"))
                if callable(answer):
                    answer = answer(request["params"])
                if isinstance(answer, Hangup):
                    return
                if not isinstance(answer, Hang):
                    connection.sendall(reply(request["id"], answer))
                for event in self.after.get(request["method"], ()):
                    connection.sendall(json.dumps({"jsonrpc": "2.0", **event}).encode() + b"\n")
                if request["method"] in self.hang_up_after:
                    return

    def params(self, method: str) -> Any:
        """The params of the last request of that method."""
        return next(r["params"] for r in reversed(self.requests) if r["method"] == method)


def reply(number: int, answer: Answer) -> bytes:
    if isinstance(answer, Refusal):
        return json.dumps({"jsonrpc": "2.0", "id": number, "error": answer.error}).encode() + b"\n"
    text = answer if isinstance(answer, Raw) else json.dumps(answer, ensure_ascii=False)
    return f'{{"jsonrpc":"2.0","id":{number},"result":{text}}}\n'.encode("utf-8", "surrogatepass")


@contextlib.contextmanager
def control(folder: Path) -> Iterator[Control]:
    daemon = Control(folder)
    try:
        yield daemon
    finally:
        daemon.close()


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Everything private below `folder`; the sockets in `folder` itself."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "MCPD_RUNTIME_DIR": str(folder),
        "MCPD_NO_SPAWN": "1",
        **more,
    }


def command(*words: str) -> list[str]:
    return [sys.executable, "-I", "-m", "mcpctl", *words]


def run(
    folder: Path, *words: str, environ: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """mcpctl as a process, its daemon at `folder`. Never a traceback."""
    done = subprocess.run(
        command(*words),
        env=dict(environ or environment(folder)),
        capture_output=True,
        encoding="utf-8",
        timeout=LIMIT,
        check=False,
        **{"cwd": folder, **({} if "input" in more else {"stdin": subprocess.DEVNULL}), **more},
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done
