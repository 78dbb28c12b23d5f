"""The official SDKs see the same through mcpd as on a direct connection: every tool, every result.

Each side gets fresh data at the same path, one after the other. Left out are what eras fill differently
(`resultType`, `ttlMs`, `cacheScope`, the server's own name in `_meta`; a tool's `execution`, which is of
2025-11-25 alone and which the TypeScript client takes out in the later era) and the masks of `plans`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import OPEN, Daemon
from tests.real.plans import PLANS, Plan

HERE = Path(__file__).parent
CLIENTS = {
    "python": (sys.executable, str(HERE / "client.py")),
    "typescript": ("node", str(HERE / "client.mjs"), "legacy"),
    "typescript-auto": ("node", str(HERE / "client.mjs"), "auto"),
}
BY_ERA = ("resultType", "ttlMs", "cacheScope", "execution")
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


@pytest.mark.npm
@pytest.mark.parametrize("client", list(CLIENTS))
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_the_same_through_mcpd(daemon: Daemon, plan: Plan, client: str) -> None:
    assert plan.needs is None or plan.needs.exists(), "packaging/test.sh installs the servers"
    folder = daemon.home.root / "data"
    command, env, calls = filled(plan, folder)

    fresh(plan, folder)
    direct = run(daemon, client, command, env, calls)
    names = {tool["name"] for tool in direct["tools"]}
    assert names == {call.tool for call in plan.calls}, "the plan calls every tool"

    fresh(plan, folder)
    path = os.environ["PATH"]
    fields = {"command": command[0], "args": command[1:], "env": env, "path": path, "default_policy": OPEN}
    daemon.server(plan.name, fields)
    daemon.start()
    bridge = [sys.executable, "-I", "-m", "mcpctl", "bridge", "--server", plan.name]
    bridged = run(daemon, client, bridge, daemon.environ, calls)

    assert bridged["tools"] == direct["tools"]
    for number, call in enumerate(plan.calls):
        there, here = (masked(side["results"][number], call.masks) for side in (direct, bridged))
        assert here == there, f"call {number}: {call.tool}"


def filled(plan: Plan, folder: Path) -> tuple[list[str], dict[str, str], list[Any]]:
    """The command, environment and calls of a plan, with the real folder in them."""
    calls = [[call.tool, call.arguments] for call in plan.calls]
    text = json.dumps([plan.command, plan.env, calls]).replace("@DIR@", str(folder))
    command, env, calls = json.loads(text)
    return command, env, calls


def fresh(plan: Plan, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    plan.prepare(folder)


def run(daemon: Daemon, client: str, command: list[str], env: dict[str, str], calls: list[Any]) -> Any:
    """What the client printed, without what eras fill differently."""
    done = subprocess.run(
        [*CLIENTS[client], *command],
        input=json.dumps({"env": env, "calls": calls}),
        capture_output=True,
        text=True,
        timeout=100,
        env=daemon.environ,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return without_era(json.loads(done.stdout))


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
