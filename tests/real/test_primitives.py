"""Reads, prompts, completions, logs and subscriptions of a real server are the same through mcpd (5.3-5.6).

The lists are compared by `test_sdks`. `server-everything` speaks 2025-11-25; of what it says by itself,
only what belongs to a request is passed on, so that nothing is compared which its timers send.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import OPEN, Daemon
from tests.real.compare import masked, without_era
from tests.real.plans import EVERYTHING, MOMENT

HERE = Path(__file__).parent
CLIENTS = {
    "python": (sys.executable, "-W", "ignore", str(HERE / "primitives.py")),
    "typescript": ("node", str(HERE / "primitives.mjs")),
}
TEXT, BLOB = "demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/2"
TEMPLATE = {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"}
TEAM = {"type": "ref/prompt", "name": "completable-prompt"}
MASKS = (MOMENT, r"\d+:\d\d:\d\d [AP]M", r"^UmVzb3VyY2Ug[A-Za-z0-9+/=]+$")

Step = tuple[str, dict[str, Any]]

STEPS: list[Step] = [
    ("read", {"uri": TEXT}),
    ("read", {"uri": BLOB}),
    ("read", {"uri": "demo://resource/static/document/architecture.md"}),
    ("read", {"uri": "demo://resource/none"}),
    ("get", {"name": "simple-prompt"}),
    ("get", {"name": "args-prompt", "arguments": {"city": "na\u00efve \U0001f642"}}),
    ("get", {"name": "args-prompt", "arguments": {"city": "Turin", "state": "Piedmont"}}),
    ("get", {"name": "args-prompt"}),
    ("get", {"name": "completable-prompt", "arguments": {"department": "Sales", "name": "Eve"}}),
    ("get", {"name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "1"}}),
    ("get", {"name": "resource-prompt", "arguments": {"resourceType": "Blob", "resourceId": "2"}}),
    ("get", {"name": "resource-prompt", "arguments": {"resourceType": "Odd", "resourceId": "1"}}),
    ("get", {"name": "none"}),
    ("complete", {"ref": TEAM, "argument": {"name": "department", "value": "S"}}),
    (
        "complete",
        {"ref": TEAM, "argument": {"name": "name", "value": ""}, "context": {"department": "Sales"}},
    ),
    ("complete", {"ref": TEMPLATE, "argument": {"name": "resourceId", "value": "7"}}),
    ("complete", {"ref": TEMPLATE, "argument": {"name": "resourceId", "value": "x"}}),
]

#: What only an agent with a handshake can ask (5.3, 5.6).
HANDSHAKE: list[Step] = [
    ("level", {"level": "debug"}),
    ("subscribe", {"uri": TEXT}),
    ("call", {"name": "toggle-subscriber-updates"}),
    ("call", {"name": "toggle-simulated-logging"}),
    ("unsubscribe", {"uri": TEXT}),
]


@pytest.mark.npm
@pytest.mark.parametrize(
    ("client", "mode"), [("python", "legacy"), ("python", "auto"), ("typescript", "legacy")]
)
def test_the_same_through_mcpd(daemon: Daemon, client: str, mode: str) -> None:
    assert EVERYTHING.needs.exists(), "packaging/test.sh installs the servers"
    steps = STEPS + HANDSHAKE if mode == "legacy" else STEPS
    command = list(EVERYTHING.command)
    direct = run(daemon, client, mode, command, daemon.environ, steps)

    fields = {"command": command[0], "args": command[1:], "path": os.environ["PATH"], "default_policy": OPEN}
    daemon.server("everything", fields)
    daemon.start()
    bridge = [sys.executable, "-I", "-m", "mcpctl", "bridge", "--server", "everything"]
    bridged = run(daemon, client, mode, bridge, daemon.environ, steps)

    for number, (verb, params) in enumerate(steps):
        there, here = (masked(side["results"][number], MASKS) for side in (direct, bridged))
        assert here == there, f"step {number}: {verb} {params}"
    there, here = (told(side) for side in (direct, bridged))
    assert here == there
    if mode == "legacy":
        assert ["notifications/resources/updated", TEXT] in here
        assert len([method for method, _ in here if method == "notifications/message"]) >= 2


def told(side: Any) -> list[Any]:
    """What was said about requests: the method, and the resource or the text; one text is drawn by lot.

    The end of a subscription is mcpd's own request, which comes when nobody else watches either.
    """
    found = []
    for method, params in side["notices"]:
        text = str(params.get("uri") or params.get("data"))
        if not method.endswith("list_changed") and "Unsubscribe" not in text:
            found.append([method, "by lot" if "evel" in text and "essage" in text else text])
    return sorted(found)


def run(
    daemon: Daemon, client: str, mode: str, command: list[str], env: dict[str, str], steps: list[Step]
) -> Any:
    plan = {"command": command, "env": env, "mode": mode, "steps": steps}
    done = subprocess.run(
        CLIENTS[client],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        timeout=100,
        env=daemon.environ,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return without_era(json.loads(done.stdout))
