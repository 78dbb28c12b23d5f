"""What the server scenarios are run against: mcpd before the fixture, and the fixture without it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.home import SERVER, private_daemon
from tests.e2e.harness import Daemon

CHECKOUT = Path(__file__).parents[2]
MODULES = CHECKOUT / "tests" / "servers" / "suite" / "node_modules"
SUPERGATEWAY = ("node", str(MODULES / "supergateway" / "dist" / "index.js"))
FIXTURE = (sys.executable, "-m", "tests.conformance.fixture")
BRIDGE = (sys.executable, "-I", "-m", "mcpctl", "bridge", "--server", SERVER)
START = 20.0


@dataclass(frozen=True)
class Reached:
    """Where the suite finds a server, and what it needs to be let in."""

    url: str
    token: str = ""


@contextlib.contextmanager
def started(
    command: tuple[str, ...], environ: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A process of the checkout, its stdout readable; ended with all that it started."""
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextlib.contextmanager
def fixture(*options: str) -> Iterator[Reached]:
    """The fixture on HTTP."""
    with started((*FIXTURE, *options, "--http", "0")) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, "the fixture did not start"
        yield Reached(url.replace("127.0.0.1", "localhost"))


@contextlib.contextmanager
def gateway(command: tuple[str, ...], environ: dict[str, str] | None = None) -> Iterator[Reached]:
    """A server on stdio, made reachable by HTTP."""
    port = free_port()
    options = ("--outputTransport", "streamableHttp", "--stateful", "--port", str(port), "--logLevel", "none")
    with started((*SUPERGATEWAY, "--stdio", " ".join(command), *options), environ):
        end = time.monotonic() + START
        while not answers(port):
            assert time.monotonic() < end, "supergateway did not start"
            time.sleep(0.05)
        yield Reached(f"http://localhost:{port}/mcp")


@contextlib.contextmanager
def mcpd(*options: str) -> Iterator[Daemon]:
    """A daemon before the fixture on HTTP."""
    with fixture(*options) as server, private_daemon(url=server.url, sampling=True, roots="agent") as daemon:
        yield daemon


@contextlib.contextmanager
def bridge() -> Iterator[Reached]:
    """`mcpctl bridge --server`."""
    with mcpd() as daemon, gateway(BRIDGE, {**os.environ, **daemon.environ}) as reached:
        yield reached


@contextlib.contextmanager
def endpoint(*options: str) -> Iterator[Reached]:
    """The daemon's own endpoint, one server of it."""
    with mcpd(*options) as daemon:
        port = json.loads(daemon.ctl("--json", "endpoint", "enable", "--port", "0").stdout)["port"]
        token = json.loads(daemon.ctl("--json", "endpoint", "token", "default").stdout)["token"]
        yield Reached(f"http://localhost:{port}/server/{SERVER}", token)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def answers(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), 1).close()
    except OSError:
        return False
    return True
