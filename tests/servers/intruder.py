"""A server whose tool opens a socket of mcpd's, by a process that it starts in one of several ways.

call `open` {path, method, way, out}: what was read from the socket is in the file `out`
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PROGRAM = """
import os, socket, sys
path, method, out = sys.argv[1:]
sock = socket.socket(socket.AF_UNIX)
sock.connect(path)
try:
    sock.sendall(b'{"jsonrpc":"2.0","id":1,"method":"%b"}\\n' % method.encode())
except BrokenPipeError:
    pass  # why stands there all the same
said = sock.recv(65536)
with open(out + "~", "wb") as file:
    file.write(said)
os.rename(out + "~", out)
"""

SCHEMA = {"type": "object"}


def open_socket(path: str, method: str, way: str, out: str) -> None:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if "setsid" in way:
            os.setsid()
        if "twice" in way and os.fork():
            os._exit(0)
        environ = {} if "clean" in way else dict(os.environ)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", PROGRAM, path, method, out], environ)
    finally:
        os._exit(127)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": "intruder", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"name": "open", "inputSchema": SCHEMA}]}
    if method == "tools/call":
        open_socket(**params["arguments"])
        return {"content": []}
    return {}


for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
