"""A host of an agent: it starts `mcpctl bridge`, asks it for calls, and runs programs, as agents do.

host.py SOCKET COMMAND...     what it is told comes by SOCKET, one JSON object a connection
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any


def main() -> None:
    path, *command = sys.argv[1:]
    bridge = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert bridge.stdin is not None
    assert bridge.stdout is not None

    def say(method: str, params: dict[str, Any], **more: Any) -> None:
        assert bridge.stdin is not None
        line = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more})
        bridge.stdin.write(line.encode() + b"\n")
        bridge.stdin.flush()

    who = {"name": "host", "version": "1"}
    say("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": who}, id=0)
    bridge.stdout.readline()
    say("notifications/initialized", {})
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + "~")
    listener.listen()
    os.rename(path + "~", path)
    while True:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            told = json.loads(lines.readline())
            if "call" in told:
                say("tools/call", told["call"], id=told["id"])
            if "end_bridge" in told:
                bridge.kill()
                bridge.wait()
            if "run" in told:
                run(told["run"], twice=told["twice"])
            connection.sendall(b"done\n")
            if "leave" in told:
                return


def run(argv: list[str], *, twice: bool) -> None:
    """Start a program and wait for it; with a second fork nobody is its parent any more."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if twice and os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.execvp(argv[0], argv)
    finally:
        os._exit(127)


if __name__ == "__main__":
    main()
