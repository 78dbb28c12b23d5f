"""An agent of a few lines: MCP by hand over a Unix socket or over a bridge's pipes.

    demo_agent.py NAME socket PATH        attach to an agent socket
    demo_agent.py NAME bridge COMMAND...  start a bridge, as a host does

It lists the tools, calls two of everything's, prints what came back, and stays attached until its stdin ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import IO, Any


class Session:
    """One MCP session over a pair of streams; one JSON message a line each way."""

    def __init__(self, reader: IO[bytes], writer: IO[bytes]) -> None:
        self._reader, self._writer, self._ids = reader, writer, count(1)

    def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._writer.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send and wait for the answer with that id; notifications in between are passed over."""
        number = next(self._ids)
        self.send({"id": number, "method": method, "params": params})
        for line in self._reader:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    sys.exit(f"cannot {method}: {message['error']}")
                result: dict[str, Any] = message["result"]
                return result
        sys.exit(f"cannot {method}: the connection ended")


@contextmanager
def attach(way: str, *target: str) -> Iterator[Session]:
    """Open the way into mcpd and close it in the end."""
    if way == "socket":
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(target[0])
            with connection.makefile("rb") as reader, connection.makefile("wb") as writer:
                yield Session(reader, writer)
    else:
        with subprocess.Popen(target, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as bridge:
            assert bridge.stdin is not None
            assert bridge.stdout is not None
            yield Session(bridge.stdout, bridge.stdin)
            bridge.stdin.close()


def main() -> None:
    signal.alarm(120)  # a demo that hangs is worse than one that fails
    if len(sys.argv) < 4 or sys.argv[2] not in ("socket", "bridge"):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    name, way, *target = sys.argv[1:]
    with attach(way, *target) as session:
        client = {"name": name, "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        session.request("initialize", hello)
        session.send({"method": "notifications/initialized"})
        tools = [tool["name"] for tool in session.request("tools/list", {})["tools"]]
        print(f"{name} (pid {os.getpid()}, by {way}) sees {len(tools)} tools", flush=True)
        for tool, arguments in (
            ("everything__echo", {"message": f"hello from {name}"}),
            ("everything__get-sum", {"a": 20, "b": 22}),
        ):
            result = session.request("tools/call", {"name": tool, "arguments": arguments})
            text = result["content"][0]["text"]
            print(f"{name} called {tool}: {text}", flush=True)
            if result.get("isError"):
                sys.exit(f"cannot go on: {tool} answered with an error")
        print("done", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"cannot talk to mcpd by {' '.join(sys.argv[2:])}: {error.strerror}")
