"""One server twice, directly and through mcpd, and what must be the same: every list, every result.

Each side gets fresh data at the same path, one after the other. Left out are what eras fill differently
(`resultType`, `ttlMs`, `cacheScope`, the server's own name in `_meta`; a tool's `execution`, which is of
2025-11-25 alone and which the TypeScript client takes out in the later era) and the masks of the plan.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.harness import OPEN, Daemon, until
from tests.real.plans import Plan, Way

HERE = Path(__file__).parent
PYTHON = (sys.executable, str(HERE / "client.py"))
TYPESCRIPT = ("node", str(HERE / "client.mjs"))
CLIENTS = {
    "python": (PYTHON, "auto"),
    "python-legacy": (PYTHON, "legacy"),
    "typescript": (TYPESCRIPT, "legacy"),
    "typescript-auto": (TYPESCRIPT, "auto"),
}
"""Each with its mode of version negotiation."""
LISTS = ("tools", "resources", "templates", "prompts")
BY_ERA = ("resultType", "ttlMs", "cacheScope", "execution")
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
PATIENCE = 100
"""Seconds for all that one side is asked."""
Json = dict[str, Any]


def compare(daemon: Daemon, plan: Plan, client: str, way: Way | None = None) -> None:
    """Raises AssertionError with the first difference; `way` None: on stdio."""
    assert plan.needs.exists(), (
        "packaging/test.sh installs the servers, tests/servers/more/install.sh the others"
    )
    folder = daemon.home.root / "data"
    places = {"@DIR@": str(folder), "@PORT@": str(free_port())}
    calls = filled([[call.tool, call.arguments] for call in plan.calls], places)
    asks = {"calls": calls, "asked": plan.asked}

    with side(daemon, plan, way, places) as reached:
        direct = run(daemon, client, {**reached, **asks})
    names = {tool["name"] for tool in direct["tools"]}
    called = {call.tool for call in plan.calls}
    assert called == names if plan.whole else called <= names, "the plan calls what there is"

    with side(daemon, plan, way, places) as reached:
        asked = {"sampling": True, "roots": "agent"} if plan.asked else {}
        daemon.server(plan.name, {**definition(reached), **asked, "default_policy": OPEN})
        daemon.start()
        if not plan.asked:
            # A session's first list does not wait for the slowest of starts. Connected by nobody who can be
            # asked, though, a server may offer less.
            daemon.ctl("test", plan.name)
        bridge = [sys.executable, "-I", "-m", "mcpctl", "bridge", "--server", plan.name]
        bridged = run(
            daemon, client, {"command": bridge, "env": daemon.environ, "calls": calls, "asked": plan.asked}
        )
        assert daemon.end() == 0, daemon.said()

    for key in LISTS:
        same(bridged[key], direct[key], key)
    for number, call in enumerate(plan.calls):
        there, here = (masked(said["results"][number], call.masks) for said in (direct, bridged))
        if call.as_task and "error" not in here and not here.get("isError"):
            continue
        same(here, there, f"call {number} {call.tool}")


def same(here: Any, there: Any, where: str) -> None:
    """Raises AssertionError with the place of the first difference between two JSON values."""
    if isinstance(here, dict) and isinstance(there, dict) and here.keys() == there.keys():
        for key in here:
            same(here[key], there[key], f"{where}.{key}")
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for number, pair in enumerate(zip(here, there, strict=True)):
            same(*pair, f"{where}[{number}]")
    else:
        # True and 1 are equal to Python alone.
        is_same = type(here) is type(there) and here == there
        assert is_same, f"{where}: {shown(here)} through mcpd, {shown(there)} directly"


def shown(value: Any) -> str:
    count = f"{len(value)} in " if isinstance(value, list | dict) else ""
    return count + json.dumps(value)[:500]


# -- the server ----------------------------------------------------------------------------------------------
@contextlib.contextmanager
def side(daemon: Daemon, plan: Plan, way: Way | None, places: dict[str, str]) -> Iterator[Json]:
    """Fresh data, and the part of a client's plan that says how the server is reached."""
    folder = Path(places["@DIR@"])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    plan.prepare(folder)
    if way is None:
        yield {"command": filled(plan.command, places), "env": filled(plan.env, places)}
        return
    environ = {**daemon.environ, **filled({**plan.env, **way.env}, places)}
    with listening(
        filled(way.command, places), environ, int(places["@PORT@"]), daemon.home.root / "server.log"
    ):
        yield {"sse" if way.is_old else "url": f"http://localhost:{places['@PORT@']}{way.path}"}


@contextlib.contextmanager
def listening(command: list[str], environ: dict[str, str], port: int, log: Path) -> Iterator[None]:
    """A server on HTTP, from the moment that its port answers; ended with all that it started."""
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environ, start_new_session=True
        )
    try:
        until(lambda: answers(process, port, log), within=60)
        yield
    finally:
        # Some leave a child behind that ignores SIGTERM.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        process.wait()


def answers(process: subprocess.Popen[bytes], port: int, log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-2000:]
    try:
        socket.create_connection(("localhost", port), 1).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def definition(reached: Json) -> Json:
    """The server's TOML fields."""
    if "command" in reached:
        command, *args = reached["command"]
        return {"command": command, "args": args, "env": reached["env"], "path": os.environ["PATH"]}
    return {"url": reached.get("url") or reached["sse"]}


def filled(value: Any, places: dict[str, str]) -> Any:
    """The same JSON value with the real folder and port in its texts."""
    text = json.dumps(value)
    for mark, real in places.items():
        text = text.replace(mark, real)
    return json.loads(text)


# -- the client ----------------------------------------------------------------------------------------------
def run(daemon: Daemon, client: str, plan: Json) -> Json:
    """What the client printed, without what eras fill differently."""
    command, mode = CLIENTS[client]
    done = subprocess.run(
        command,
        input=json.dumps({**plan, "mode": mode}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=daemon.environ,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said: Json = without_era(json.loads(done.stdout))
    return said


def without_era(value: Any) -> Any:
    if isinstance(value, list):
        return [without_era(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: without_era(item) for key, item in value.items() if key not in BY_ERA}
    if isinstance(kept.get("_meta"), dict):
        kept["_meta"].pop(SERVER_INFO, None)
        if not kept["_meta"]:
            del kept["_meta"]
    return kept


def masked(value: Any, masks: tuple[str, ...]) -> Any:
    """The same value with every match of a mask in its texts replaced."""
    if isinstance(value, str):
        for mask in masks:
            value = re.sub(mask, "...", value)
        return value
    if isinstance(value, list):
        return [masked(item, masks) for item in value]
    if isinstance(value, dict):
        return {key: masked(item, masks) for key, item in value.items()}
    return value
