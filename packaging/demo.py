"""The end of try.sh: a private daemon, one real server, two agents on it, and nothing left in the end.

Standard library only. Every step is checked; the first that does not hold ends it with exit code 1.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "tests/servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
PYTHON = [sys.executable, "-I", "-m"]
DEFINITION = """\
schema = 1
command = {command}
args = [{script}, "stdio"]
"""
# One of its tools may run without a question; about all others a person is asked.
POLICY = """\
schema = 1
[tool_policies]
"everything__get-sum" = { risk = "low", approval = "never" }
"""
GRANT = ["grants", "add", "everything__echo", "--agent", "default", "--for", "1h"]


class Broken(Exception):
    """A step that did not hold, in words for the person who ran try.sh."""


def wait_for(what: str, holds: Any, seconds: float) -> None:
    """Ask `holds` until it says yes; these are other processes, so there is nothing to be woken by."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            raise Broken(f"cannot go on: {what} took longer than {seconds:g} s")
        time.sleep(0.05)


def processes(folder: str, needle: bytes) -> list[int]:
    """Pids of all processes whose /proc file named `folder` contains the bytes, this one left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if needle in (entry / folder).read_bytes():
                    found.append(int(entry.name))
            except OSError:  # gone meanwhile, or another user's
                continue
    return found


def private_environment(home: Path) -> dict[str, str]:
    """An environment that keeps the daemon, mcpctl and the agents off the user's own folders and daemon."""
    environ = {name: os.environ[name] for name in ("PATH", "LANG", "TERM", "TMPDIR") if name in os.environ}
    environ |= {"HOME": str(home), "MCPD_NO_SPAWN": "1"}
    for name in ("CONFIG_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"):
        folder = home / name.partition("_")[0].lower()
        folder.mkdir(mode=0o700)
        environ[f"XDG_{name}"] = str(folder)
    return environ


@contextmanager
def running_daemon(home: Path, environ: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """`mcpd run` until the block ends; killed only when it does not stop by itself."""
    with (home / "mcpd.out").open("wb") as output:
        daemon = subprocess.Popen(
            [*PYTHON, "mcpd", "run"],
            env=environ,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield daemon
    except Broken:
        print((home / "mcpd.out").read_text(errors="replace")[-4000:], file=sys.stderr)
        raise
    finally:
        if daemon.poll() is None:
            daemon.terminate()
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def serves(daemon: subprocess.Popen[bytes], control: Path) -> bool:
    if daemon.poll() is not None:
        raise Broken(f"cannot start mcpd: it ended with exit code {daemon.returncode}")
    return control.exists()


@contextmanager
def attached(name: str, environ: dict[str, str], *how: str, asks: bool = False) -> Iterator[None]:
    """One agent in a process of its own, attached until the block ends; its lines are passed on.

    `asks`: mcpd asks about its first call, which is answered here, as a person would.
    """
    agent = subprocess.Popen(
        [sys.executable, "-I", str(ROOT / "packaging/demo_agent.py"), name, *how],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert agent.stdin is not None
    assert agent.stdout is not None
    with agent:
        if asks:
            approve(environ)
        for line in agent.stdout:
            if line == "done\n":
                break
            print("   ", line, end="", flush=True)
        else:
            raise Broken(f"cannot go on: {name} ended with exit code {agent.wait()}")
        yield
        agent.stdin.close()
    if agent.returncode:
        raise Broken(f"cannot go on: {name} ended with exit code {agent.returncode}")


def mcpctl(environ: dict[str, str], *arguments: str) -> str:
    command = [*PYTHON, "mcpctl", *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        print(done.stderr, end="", file=sys.stderr)
        raise Broken(f"cannot go on: mcpctl {' '.join(arguments)} ended with exit code {done.returncode}")
    return done.stdout


def approve(environ: dict[str, str]) -> None:
    """Wait for the question, show it, and say yes."""
    found: list[Any] = []

    def asked() -> bool:
        found[:] = json.loads(mcpctl(environ, "--json", "approvals"))["approvals"]
        return bool(found)

    wait_for("the question about an agent's first call", asked, 20)
    for line in mcpctl(environ, "approvals").splitlines():
        print("   ", line)
    print(f"    $ mcpctl approve {found[0]['id']}")
    print("   ", mcpctl(environ, "approve", found[0]["id"]), end="")


def demonstrate(home: Path) -> int:
    """Two agents, one process; returns its pid. Everything it started is stopped."""
    environ = private_environment(home)
    runtime = Path(environ["XDG_RUNTIME_DIR"]) / "mcpd"
    definition = Path(environ["XDG_CONFIG_HOME"]) / "mcpd/servers.d/everything.toml"
    definition.parent.mkdir(parents=True, mode=0o700)
    node = shutil.which("node") or "node"
    # A JSON string is a TOML string as well.
    definition.write_text(
        DEFINITION.format(command=json.dumps(os.path.realpath(node)), script=json.dumps(str(SERVER)))
    )
    (definition.parent.parent / "config.toml").write_text(POLICY)

    with running_daemon(home, environ) as daemon:
        wait_for("the start of mcpd", lambda: serves(daemon, runtime / "control.sock"), 20)
        print(f"mcpd runs (pid {daemon.pid}) with its sockets in {runtime}")
        with ExitStack() as agents:
            bridge = [*PYTHON, "mcpctl", "bridge"]
            print("the first call of a tool that nobody has approved waits for a person:")
            agents.enter_context(attached("agent-1", environ, "bridge", *bridge, asks=True))
            print("a grant answers the next one:")
            print(f"    $ mcpctl {' '.join(GRANT)}")
            mcpctl(environ, *GRANT)
            agents.enter_context(
                attached("agent-2", environ, "socket", str(runtime / "agents/default/mcp.sock"))
            )
            print(mcpctl(environ, "list"), end="")
            (server,) = json.loads(mcpctl(environ, "--json", "list"))["servers"]
            pid: int = server["status"]["pid"]
            found = processes("cmdline", str(SERVER).encode() + b"\0stdio")
            if found != [pid]:
                raise Broken(f"expected one process of the server, pid {pid}; /proc shows {found}")
        mcpctl(environ, "stop")
        try:
            daemon.wait(15)
        except subprocess.TimeoutExpired:
            raise Broken("cannot stop mcpd: it still runs after 15 s") from None
    if daemon.returncode:
        raise Broken(f"mcpd ended with exit code {daemon.returncode}")
    # Whatever the daemon started has this HOME in its environment.
    needle = f"HOME={home}\0".encode()
    wait_for("the end of everything that mcpd started", lambda: not processes("environ", needle), 10)
    return pid


def main() -> None:
    # A Unix socket's path is at most 107 bytes, so not below a deep TMPDIR.
    home = Path(tempfile.mkdtemp(prefix="mcpd-try-", dir=min((tempfile.gettempdir(), "/tmp"), key=len)))
    try:
        pid = demonstrate(home)
    except Broken as error:
        sys.exit(str(error))
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"two agents, two processes, called tools of one server process: server-everything, pid {pid}")
    print("everything is stopped and nothing is left running")


main()
