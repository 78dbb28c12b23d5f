"""mcpd in the harness of `../shared/bench`: MCP on the agent socket, tools under their exported names.

    BENCH_ADAPTER=tests/bench/mcpd_adapter.py .venv/bin/python ../shared/bench/peers.py latency --pin 1 \\
        --targets direct,relay,mcpd

Every line that is read counts as an answer, so nothing may arrive unasked while a connection is timed:
`start` returns only after every server has answered, when no catalogue changes any more.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import tomli_w
from benchlib import LineConn, UnixLineTarget, mcp_call, mcp_hello, wait_until

POLICY = {"risk": "low", "approval": "never"}
#: Results of 1 MB are compared, so none is cut.
WHOLE = {"max_result": 0}


def encode(server: str, tool: str, args: bytes) -> tuple[bytes, bytes]:
    """One call as bytes, cut where the id goes."""
    head, rest = mcp_call(server, f"{server}__{tool}", args)
    return head, rest


class Mcpd(UnixLineTarget):  # type: ignore[misc]
    name = "mcpd"
    encode = staticmethod(encode)

    def environment(self) -> dict[str, str]:
        """Private folders; MCPD_RUNTIME_DIR keeps the sockets' paths short."""
        home = Path(self.tmp)
        return {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "MCPD_RUNTIME_DIR": str(home / "run"),
        }

    def command(self, config_path: str, sock_path: str) -> list[str]:
        return [sys.executable, "-I", "-m", "mcpd", "run"]

    def start(self, servers: dict[str, list[str]]) -> None:
        tables = {
            name: {"command": words[0], "args": words[1:], "default_policy": POLICY}
            for name, words in servers.items()
        }
        self.start_with(tables)

    def start_with(self, tables: dict[str, dict[str, Any]]) -> None:
        """`tables`: the servers as the definition file has them."""
        folder = Path(self.tmp) / "config" / "mcpd"
        folder.mkdir(mode=0o700, parents=True)
        (folder / "config.toml").write_text(tomli_w.dumps({"defaults": WHOLE, "servers": tables}), "utf-8")
        self.sock_path = os.path.join(self.tmp, "run", "agents", "default", "mcp.sock")
        self.spawn(self.command("", self.sock_path), env=self.environment())
        left = list(tables)
        wait_until(lambda: self.all_answer(left))

    def all_answer(self, left: list[str]) -> bool:
        """Whether each server has answered an echo; those that have are taken off the list."""
        if self.proc.poll() is not None:
            raise RuntimeError(f"{self.name} ended: {self.log_tail()}")
        conn = self.connect(left[0])
        try:
            while left and self.answers(conn, left[0]):
                left.pop(0)
        finally:
            conn.close()
        return not left

    @staticmethod
    def answers(conn: Any, server: str) -> bool:
        params = {"name": f"{server}__echo", "arguments": {"payload": "ready"}}
        answer = conn.exchange({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        return "ready" in json.dumps(answer.get("result"))

    def connect(self, server: str = "s0") -> Any:
        line = socket.socket(socket.AF_UNIX)
        try:
            line.connect(self.sock_path)
        except OSError:
            line.close()
            raise
        conn = LineConn(line.fileno(), line.fileno(), self.encode, keep=line, server=server)
        mcp_hello(conn)
        return conn

    def list_tools(self, conn: Any, server: str = "s0") -> int:
        count = 0
        params: dict[str, str] = {}
        while True:
            answer = conn.exchange({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": params})
            count += len(answer["result"]["tools"])
            if answer["result"].get("nextCursor") is None:
                return count
            params = {"cursor": answer["result"]["nextCursor"]}


class Spine(Mcpd):
    """Without leak scans; see seam.py."""

    name = "spine"

    def command(self, config_path: str, sock_path: str) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("seam.py")), self.name, "run"]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(Path(__file__).parents[2])}


class Seam(Spine):
    """Without policy, leak scans and journal; see seam.py."""

    name = "seam"


TARGETS = {"mcpd": Mcpd, "spine": Spine, "seam": Seam}
