"""How long the daemon's loop stands still at most, while others have large things done. By hand:

    PYTHONPATH=.:../shared/bench .venv/bin/python tests/bench/stand_still.py [SECONDS]

A process of its own sends an MCP `ping`, which needs no server, every millisecond and keeps the longest time
to its answer. Meanwhile the things that are named are done, each again and again for some seconds. The first
line is what the machine itself costs: with other work on it, read the figures beside that.
"""

from __future__ import annotations

import json
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchlib import server_cmd

from tests.bench.mcpd_adapter import POLICY, Mcpd

TOOLS = 10_000
#: Values that the daemon holds, as a user of many servers has them.
HELD = 40
#: Agents that call at the same time, with small and with large arguments.
MANY, FEW = 20, 3

Turn = Callable[[], None]


def words(size: int) -> str:
    """Text as varied as prose, so that scans meet what they look for now and then."""
    chosen = random.Random(7)
    vocabulary = ("key", "the", "path", "Token", "http", "is", "=", "x" * 9, "\n", "\u00fc")
    return " ".join(chosen.choice(vocabulary) for _ in range(size))[:size]


def ping(target: Mcpd, told: Connection) -> None:
    """Ping until told to stop; anything else is answered with the longest time since then, and the count."""
    line: socket.socket = target.connect("s0").keep
    longest, count, number = 0.0, 0, 10
    while True:
        number += 1
        began = time.perf_counter()
        line.sendall(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number)
        while b"\n" not in line.recv(65536):
            pass
        longest, count = max(longest, time.perf_counter() - began), count + 1
        if told.poll():
            if told.recv() == "stop":
                return
            told.send((longest, count))
            longest, count = 0.0, 0
        time.sleep(0.001)


def call(target: Mcpd, agents: int, payload: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    params = {"name": "s0__echo", "arguments": {"payload": payload}}
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}

    def one() -> None:
        conn = target.connect("s0")
        while time.monotonic() < end:
            conn.exchange(request)

    threads = [threading.Thread(target=one) for _ in range(agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def list_all(target: Mcpd, seconds: float) -> None:
    end = time.monotonic() + seconds
    conn = target.connect("s1")
    while time.monotonic() < end:
        assert target.list_tools(conn) >= TOOLS


class Operator:
    """A process that is no agent, nor has one above it: else it could reload nothing (n06)."""

    def __init__(self, target: Mcpd) -> None:
        self.folder = Path(target.tmp) / "config" / "mcpd" / "servers.d"
        self.folder.mkdir(exist_ok=True)
        self.line = socket.socket(socket.AF_UNIX)
        self.line.connect(os.path.join(target.tmp, "run", "control.sock"))
        self.file = self.line.makefile("rb")

    def ask(self, method: str, **params: Any) -> None:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.line.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(self.file.readline())
        assert "result" in answer, answer

    def load(self) -> None:
        self.ask("servers.reconnect", server="s1")
        self.ask("servers.test", server="s1")

    def reload(self) -> None:
        fields = f'command = "true"\nargs = ["{random.random()}"]\nenabled = false\n'
        (self.folder / "other.toml").write_text(f"schema = 1\n{fields}")
        self.ask("daemon.reload")

    def search(self) -> None:
        self.ask("journal.query", text="nothing has this in it")


def deeds(target: Mcpd, operator: Operator, seconds: float) -> Iterator[tuple[str, Turn]]:
    """What is done and how; one turn of it may take all the time there is."""

    def apart(run: Callable[..., None], *args: object) -> Turn:
        def turn() -> None:
            process = Process(target=run, args=(target, *args, seconds))
            process.start()
            process.join()

        return turn

    yield "nothing", lambda: time.sleep(seconds)
    yield f"small calls of {MANY} agents", apart(call, MANY, words(100))
    yield f"calls with 1 MB of {FEW} agents", apart(call, FEW, words(1_000_000))
    yield f"lists of {TOOLS} tools", apart(list_all)
    yield f"loading a server of {TOOLS} tools", operator.load
    yield "reading the files again", operator.reload
    yield "searching the journal", operator.search


def servers() -> dict[str, dict[str, Any]]:
    held = {f"TOKEN_{number}": f"{random.Random(number).getrandbits(160):040x}" for number in range(HELD)}
    found = {}
    for name, tools in (("s0", 0), ("s1", TOOLS)):
        command, *args = server_cmd(tools=tools)
        found[name] = {"command": command, "args": args, "env": held, "default_policy": POLICY}
    return found


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    target = Mcpd()
    try:
        target.start_with(servers())
        operator = Operator(target)
        ours, theirs = Pipe()
        pinger = Process(target=ping, args=(target, theirs), daemon=True)
        pinger.start()
        for name, turn in deeds(target, operator, seconds):
            ours.send("next")
            ours.recv()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                turn()
            ours.send("next")
            longest, count = ours.recv()
            print(f"{longest * 1000:7.1f} ms  {name} ({count} pings)", flush=True)
        ours.send("stop")
        pinger.join(5)
    finally:
        target.stop()


if __name__ == "__main__":
    main()
