"""What mcpd adds to a call of a remote server, beside fastmcp's proxy and mcp-remote, in one run. By hand:

    PYTHONPATH=.:../shared/bench .venv/bin/python tests/bench/http_remote.py --dir /some/dir --pin 1

`--dir` is outside of the checkout and holds the peers; `--install` puts them there first (pip and npm, by
name and version). One server (`http_server.py`) stands behind all of them. The method is that of
`../shared/bench`: everything is up at once, blocks of calls alternate, their order turns, medians are taken
over rounds and ratios inside a round. One call at a time is measured on one CPU (`--pin`), calls/s of ten
agents on all. The peers are programs that an agent starts for itself and speaks to by stdio, so ten agents
have ten of them; mcpd has one process for all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import benchlib
from benchlib import HttpConn, LineConn, Target, closed_loop, cpu_ns, echo_args, med, pct, sequential, us

from tests.bench.mcpd_adapter import POLICY, Mcpd

FASTMCP, MCP_REMOTE = "4.2.3", "0.15.1"
#: Path of the server -> how it speaks. One that ended in /sse would mean the old transport to fastmcp.
KINDS = {
    "json": "2025-11-25 with a session, JSON answers",
    "events": "2025-11-25 with a session, SSE answers",
    "stateless": "2026-07-28, JSON answers",
}
#: The same -> what the definition pins.
PROTOCOL = {"json": "legacy", "events": "legacy", "stateless": "2026-07-28"}
SIZES = (("100 B", 100), ("10 KB", 10_000))
AGENTS = 10
#: Calls of a block, one at a time and of all agents together; a slow target, at a tenth of a second a call,
#: makes as many as fit into SLOW seconds.
ONE, TOGETHER, FEWEST, SLOW = 60, 2000, 10, 1.5
#: Seconds for a peer to start, and for one answer.
STARTING, ANSWERING = 90, 30

#: Of one block: seconds, calls a second, CPU seconds a call.
Measured = dict[str, float]

CLIENT = {"name": "bench", "version": "1"}
ECHO = {"name": "echo", "arguments": {"payload": "ready"}}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Direct(Target):  # type: ignore[misc]
    """The client speaks to the server itself: one write a call, on a connection that is kept."""

    name = "direct HTTP"

    def start(self, kind: str, port: int) -> None:
        self.kind, self.port = kind, port

    def connect(self) -> Any:
        if self.kind == "stateless":
            headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
            return HttpConn(self.port, "/stateless", encode=self.encode, headers=headers)
        conn = HttpConn(self.port, f"/{self.kind}", headers={"MCP-Protocol-Version": "2025-11-25"})
        _, headers, _ = conn.exchange(hello(1))
        conn.headers["Mcp-Session-Id"] = headers["mcp-session-id"]
        conn.exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return conn

    @staticmethod
    def encode(server: str, tool: str, args: bytes) -> tuple[bytes, bytes]:
        head, rest = benchlib.mcp_call(server, tool, args)
        return head, rest.removesuffix(b"}}") + b',"_meta":' + json.dumps(META).encode() + b"}}"


class Daemon(Mcpd):
    """mcpd, with the server among its definitions."""

    def start(self, kind: str, port: int) -> None:  # type: ignore[override]
        url = f"http://127.0.0.1:{port}/{kind}"
        self.start_with({"s0": {"url": url, "protocol": PROTOCOL[kind], "default_policy": POLICY}})


class Stdio(Target):  # type: ignore[misc]
    """A program that every agent starts for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.procs: list[subprocess.Popen[bytes]] = []

    def command(self, url: str) -> list[str]:
        raise NotImplementedError

    def start(self, kind: str, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/{kind}"
        # Whether it can speak to such a server at all.
        self.connect().close()

    def connect(self) -> Any:
        # One folder each: mcp-remote lets its processes wait for one another's login.
        home = Path(tempfile.mkdtemp(dir=self.tmp))
        env = {**os.environ, "HOME": str(home), "FASTMCP_CHECK_FOR_UPDATES": "off", "NO_COLOR": "1"}
        env.pop("PYTHONPATH", None)
        with (home / "log").open("wb") as log:
            command = self.command(self.url)
            pipe = subprocess.PIPE
            proc = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=log, bufsize=0, env=env, cwd=home
            )
        self.procs.append(proc)
        assert proc.stdout is not None
        assert proc.stdin is not None
        conn = LineConn(proc.stdout.fileno(), proc.stdin.fileno(), benchlib.mcp_call)
        conn.close = lambda: self.end(proc)
        for message in (
            hello(1),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": ECHO},
        ):
            try:
                answer = timely(conn, message)
            except (EOFError, BrokenPipeError, TimeoutError):
                answer = None
            if "id" in message and ("result" not in (answer or {}) or 'isError": true' in json.dumps(answer)):
                self.end(proc)
                said = (home / "log").read_text("utf-8", "replace")[-300:]
                raise RuntimeError(f"{json.dumps(answer) if answer else 'no answer'} {said}")
        return conn

    def end(self, proc: subprocess.Popen[bytes]) -> None:
        benchlib.stop_tree(proc)
        self.procs.remove(proc)

    def own_pids(self) -> list[int]:
        return [pid for proc in self.procs for pid in benchlib.descendants(proc.pid)]

    def stop(self) -> None:
        for proc in [*self.procs]:
            self.end(proc)
        super().stop()


class FastMcp(Stdio):
    name = f"fastmcp {FASTMCP} proxy"
    folder = Path()

    def command(self, url: str) -> list[str]:
        program = self.folder / "py-fastmcp" / "bin" / "fastmcp"
        return [str(program), "run", url, "-t", "stdio", "--no-banner", "-l", "ERROR"]


class McpRemote(Stdio):
    name = f"mcp-remote {MCP_REMOTE}"
    folder = Path()

    def command(self, url: str) -> list[str]:
        program = self.folder / "npm" / "node_modules" / ".bin" / "mcp-remote"
        return [str(program), url, "--transport", "http-only", "--silent"]


TARGETS = (Direct, Daemon, FastMcp, McpRemote)


def hello(ident: int) -> dict[str, Any]:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}
    return {"jsonrpc": "2.0", "id": ident, "method": "initialize", "params": params}


def timely(conn: Any, message: dict[str, Any]) -> Any:
    """`exchange` of a connection whose other end may never begin to speak."""
    os.write(conn.wfd, json.dumps(message).encode() + b"\n")
    while "id" in message:
        if b"\n" not in conn.tail and not select.select([conn.rfd], [], [], STARTING)[0]:
            raise TimeoutError
        answer = json.loads(conn.read_line())
        if answer.get("id") == message["id"]:
            return answer
    return None


def install(folder: Path) -> None:
    venv, npm = folder / "py-fastmcp", folder / "npm"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "-q", f"fastmcp=={FASTMCP}"], check=True)
    npm.mkdir(exist_ok=True)
    (npm / "package.json").write_text('{"name":"bench-peers","private":true}', "utf-8")
    quietly = ["--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(["npm", "install", *quietly, f"mcp-remote@{MCP_REMOTE}"], cwd=npm, check=True)


@contextlib.contextmanager
def server() -> Iterator[int]:
    """The one server; gives its port."""
    command = [sys.executable, str(Path(__file__).with_name("http_server.py"))]
    proc = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert proc.stdout is not None
    try:
        yield int(proc.stdout.readline())
    finally:
        benchlib.stop_tree(proc)


@contextlib.contextmanager
def targets(kind: str, port: int, wanted: Sequence[str]) -> Iterator[list[Any]]:
    """All that can speak to such a server, up at once."""
    found = []
    try:
        for make in TARGETS:
            if not any(make.name.startswith(name) for name in wanted):
                continue
            target = make()
            found.append(target)
            try:
                target.start(kind, port)
            except Exception as e:
                print(f"({target.name} left out of {kind}: {type(e).__name__}: {e})", flush=True)
                found.remove(target)
                target.stop()
        yield found
    finally:
        for target in found:
            target.stop()


def fitting(most: int, rate: float) -> int:
    """Calls of a block of a target that answers `rate` of them a second."""
    return max(FEWEST, min(most, int(SLOW * rate)))


def rounds(use: list[Any], block: Any, count: int, conns: dict[str, Any]) -> dict[str, list[Measured]]:
    """Blocks that alternate, their order turning: each target's measurements by round."""
    got: dict[str, list[Measured]] = {target.name: [] for target in use}
    for number in range(count):
        turn = number % len(use)
        for target in use[turn:] + use[:turn]:
            got[target.name].append(block(target, conns[target.name]))
    return got


def one_at_a_time(kind: str, port: int, options: argparse.Namespace) -> None:
    with targets(kind, port, options.targets) as use:
        for label, size in SIZES:
            args = echo_args(size)
            conns = {target.name: target.connect() for target in use}

            calls = {}
            for target in use:
                took = med(sequential(conns[target.name], "echo", args, FEWEST, 2))
                calls[target.name] = fitting(ONE, 1 / took)

            def block(target: Any, conn: Any, args: bytes = args, calls: dict[str, int] = calls) -> Measured:
                count, pids = calls[target.name], target.own_pids()
                before = cpu_ns(pids)
                took = sequential(conn, "echo", args, count, 2)
                spent = (cpu_ns(pids) - before) / (count + 2) / 1e9
                return {"p50": med(took), "p99": pct(took, 0.99), "cpu": spent}

            got = rounds(use, block, options.rounds, conns)
            base = [each["p50"] for each in got[use[0].name]]
            rows = []
            for name, mine in got.items():
                p50 = [each["p50"] for each in mine]
                added = [a - b for a, b in zip(p50, base, strict=True)]
                ratio = [a / b for a, b in zip(p50, base, strict=True)]
                row = [us(med(p50)), us(med(added)), f"{med(ratio):.1f}", us(pct(p50, 0.1))]
                p99, cpu = med([each["p99"] for each in mine]), pct([each["cpu"] for each in mine], 0.1)
                rows.append([name, *row, us(p99), us(cpu), conns[name].errors])
            print(f"\n### {KINDS[kind]}: one call at a time, echo {label}, us\n")
            head = [
                "target",
                "p50",
                "added",
                "ratio to direct",
                "p50 quiet",
                "p99",
                "own CPU/call quiet",
                "errors",
            ]
            print(benchlib.table(head, rows), flush=True)
            for conn in conns.values():
                conn.close()


def together(kind: str, port: int, options: argparse.Namespace) -> None:
    with targets(kind, port, options.targets) as use:
        conns = {target.name: [target.connect() for _ in range(AGENTS)] for target in use}
        processes = {target.name: len(target.own_pids()) for target in use}

        calls = {}
        for target in use:
            took, _, done = closed_loop(
                conns[target.name], "echo", echo_args(100), 2 * AGENTS, limit_s=ANSWERING
            )
            calls[target.name] = fitting(TOGETHER, done / took)

        def block(target: Any, conns: list[Any]) -> Measured:
            pids = target.own_pids()
            before = cpu_ns(pids)
            took, latencies, done = closed_loop(
                conns, "echo", echo_args(100), calls[target.name], limit_s=ANSWERING
            )
            spent = (cpu_ns(pids) - before) / done / 1e9
            return {"rate": done / took, "p50": med(latencies), "p99": pct(latencies, 0.99), "cpu": spent}

        got = rounds(use, block, options.rounds, conns)
        base = [each["rate"] for each in got[use[0].name]]
        rows = []
        for name, mine in got.items():
            rate = [each["rate"] for each in mine]
            ratio = [a / b for a, b in zip(rate, base, strict=True)]
            p50, p99 = (med([each[key] for each in mine]) for key in ("p50", "p99"))
            cpu = pct([each["cpu"] for each in mine], 0.1)
            errors = sum(conn.errors for conn in conns[name])
            rows.append(
                [
                    name,
                    f"{med(rate):,.0f}",
                    f"{med(ratio):.2f}",
                    us(p50),
                    us(p99),
                    us(cpu),
                    processes[name],
                    errors,
                ]
            )
        print(f"\n### {KINDS[kind]}: {AGENTS} agents, echo 100 B\n")
        head = [
            "target",
            "calls/s",
            "ratio to direct",
            "p50 us",
            "p99 us",
            "own CPU us/call quiet",
            "processes",
            "errors",
        ]
        print(benchlib.table(head, rows), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="mcpd and its peers in front of one Streamable HTTP server")
    parser.add_argument(
        "--dir", type=Path, required=True, help="where the peers are, outside of the checkout"
    )
    parser.add_argument("--install", action="store_true", help="install the peers there first")
    parser.add_argument("--kinds", default=",".join(KINDS), help="how the server speaks (default: all)")
    parser.add_argument("--targets", default="direct,mcpd,fastmcp,mcp-remote", help="direct comes first")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--pin", type=int, default=1, metavar="CPU", help="for one call at a time")
    options = parser.parse_args()
    options.targets = options.targets.split(",")
    options.dir = options.dir.resolve()
    if options.install:
        install(options.dir)
    benchlib.steady()
    FastMcp.folder = McpRemote.folder = options.dir
    print(benchlib.machine(), flush=True)
    every = os.sched_getaffinity(0)
    for cpus, measure in (({options.pin}, one_at_a_time), (every, together)):
        os.sched_setaffinity(0, cpus)
        for kind in options.kinds.split(","):
            with server() as port:
                measure(kind, port, options)
    print(f"\n({benchlib.machine()})")


if __name__ == "__main__":
    main()
