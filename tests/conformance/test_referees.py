"""The referees against mcpd, before a server that they find nothing to say about.

By hand: tests/servers/referees/install.sh; tests/servers/install.sh suite; pytest -m more tests/conformance
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conformance.home import SERVER, private_daemon
from tests.conformance.referees import META, STRICT, fuzz, is_optional, mcpcheck, why
from tests.conformance.stacks import BRIDGE, Reached, gateway, started
from tests.e2e.harness import MODERN, Daemon

DESK = (sys.executable, "-m", "tests.servers.desk")
LEGACY, STATELESS = "2025-11-25", "2026-07-28"
MORE = ("--mode", "all", "--phase", "both", "--runs", "5", "--runs-per-type", "5")
PHASES = {
    "realistic": ("--protocol-phase", "realistic"),
    "aggressive": ("--protocol-phase", "aggressive", "--havoc"),
}


@dataclass(frozen=True)
class Stand:
    """The server itself, and mcpd before it."""

    daemon: Daemon
    desk: Reached
    alone: Reached
    together: Reached


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(started((*DESK, "--http", "0")))
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        daemon = stack.enter_context(private_daemon(url=url))
        port = json.loads(daemon.ctl("--json", "endpoint", "enable", "--port", "0").stdout)["port"]
        token = json.loads(daemon.ctl("--json", "endpoint", "token", "default").stdout)["token"]
        place = f"http://localhost:{port}"
        yield Stand(
            daemon,
            Reached(url),
            Reached(f"{place}/server/{SERVER}", token),
            Reached(f"{place}/mcp", token),
        )


# -- mcpcheck ------------------------------------------------------------------------------------------------
@pytest.mark.more
def test_mcpcheck_finds_nothing_of_the_server(stand: Stand) -> None:
    assert mcpcheck(stand.desk, *STRICT) == (0, [])


@pytest.mark.more
def test_mcpcheck_finds_nothing_of_the_endpoint(stand: Stand) -> None:
    assert mcpcheck(stand.alone, *STRICT) == (0, [])


@pytest.mark.more
def test_mcpcheck_misses_what_is_optional_of_all_servers_together(stand: Stand) -> None:
    assert mcpcheck(stand.together)[0] == 0
    _, found = mcpcheck(stand.together, *STRICT)
    assert [finding for finding in found if not is_optional(finding)] == []
    assert {finding["tool"] for finding in found} <= {
        f"{SERVER}__{name}" for name in ("list_resources", "read_resource", "list_prompts", "get_prompt")
    }, "none but mcpd's own wrappers"


@pytest.mark.more
def test_mcpcheck_finds_nothing_of_the_bridge(stand: Stand) -> None:
    """It speaks HTTP alone: an adaptor stands between, which lets foreign origins in, whoever is behind."""
    with gateway(BRIDGE, {**os.environ, **stand.daemon.environ}) as reached:
        assert mcpcheck(reached, *STRICT, "--skip", "origin") == (0, [])


# -- mcp-fuzzer ----------------------------------------------------------------------------------------------
@pytest.mark.more
@pytest.mark.shared
@pytest.mark.parametrize("revision", [LEGACY, STATELESS])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("place", ["alone", "together"])
def test_the_endpoint_takes_nothing_malformed(
    stand: Stand, tmp_path: Path, place: str, phase: str, revision: str
) -> None:
    reached = getattr(stand, place)
    spoken = ("--spec-schema-version", revision) if revision == STATELESS else ()
    found = fuzz(tmp_path, reached.url, *MORE, *PHASES[phase], *spoken, token=reached.token)
    judge(found, revision, tools_of(reached))


@pytest.mark.more
@pytest.mark.shared
@pytest.mark.parametrize("phase", PHASES)
def test_the_bridge_takes_nothing_malformed(stand: Stand, tmp_path: Path, phase: str) -> None:
    script = tmp_path / "bridge"
    values = [f"export {name}={shlex.quote(value)}" for name, value in stand.daemon.environ.items()]
    script.write_text("\n".join(("#!/bin/sh", *values, f"exec {shlex.join(BRIDGE)}", "")))
    script.chmod(0o755)
    found = fuzz(tmp_path, str(script), *MORE, *PHASES[phase])
    judge(found, LEGACY, tools_of(stand.alone))


def judge(found: list[dict[str, Any]], revision: str, tools: dict[str, Any]) -> None:
    assert [found for found in (why(finding, revision, tools) for finding in found) if found] == []
    assert found, "what was answered is listed, so nothing was asked"


def tools_of(reached: Reached) -> dict[str, Any]:
    """The inputSchema of each tool."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": MODERN}}
    headers = {
        "Authorization": f"Bearer {reached.token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": STATELESS,
        "Mcp-Method": "tools/list",
    }
    answer = httpx.post(reached.url, json=message, headers=headers, timeout=20).json()
    return {tool["name"]: tool["inputSchema"] for tool in answer["result"]["tools"]}


# -- the judge -----------------------------------------------------------------------------------------------
def answered(target: str, given: Any, result: Any = None, kind: str = "protocol") -> dict[str, Any]:
    evidence = {"input": given, "result": result or {"response": {}, "error": None}}
    return {"category": "accepted_malformed", "kind": kind, "target": target, "evidence": evidence}


@pytest.mark.shared
@pytest.mark.parametrize(
    "finding",
    [
        answered("PingRequest", {"method": "ping", "params": {"_meta": {"progressToken": "x"}}}),
        answered("PingRequest", {"method": "PING\\..", "params": [1]}),
        answered("ListToolsRequest", {"params": {"surplus": 7}}),
        answered("GenericJSONRPCRequest", {"method": "prompts/list", "params": {"value": 1}}),
        answered("CancelledNotification", {"params": 7}, {"response": {"status": "notification_sent"}}),
        answered("find", {"words": "' OR 1"}, kind="tool"),
        {"category": "injection_reflection", "kind": "protocol", "target": "GetPromptRequest"},
    ],
)
def test_what_the_schema_allows_may_be_answered(finding: dict[str, Any]) -> None:
    assert why(finding, LEGACY, {"find": {"type": "object", "required": ["words"]}}) == ""


@pytest.mark.shared
@pytest.mark.parametrize(
    ("finding", "words"),
    [
        (answered("PingRequest", {"params": {"_meta": {"progressToken": None}}}), "progressToken"),
        (answered("CallToolRequest", {"params": {"arguments": {}}}), "'name' is a required property"),
        (answered("SetLevelRequest", {"params": {"level": "loud"}}), "'loud' is not one of"),
        (answered("GenericJSONRPCRequest", {"method": "custom/method"}), "knows no"),
        (answered("ElicitRequest", {"params": {}}), "knows no"),
        (answered("find", {}, kind="tool"), "'words' is a required property"),
        (answered("nothing", {}, kind="tool"), "no tool"),
        ({"category": "crash", "kind": "protocol", "target": "x", "detail": "it died"}, "it died"),
        ({"category": "injection_reflection", "kind": "tool", "target": "x", "detail": "echo"}, "echo"),
    ],
)
def test_what_it_does_not_allow_may_not(finding: dict[str, Any], words: str) -> None:
    assert words in why(finding, LEGACY, {"find": {"type": "object", "required": ["words"]}})


@pytest.mark.shared
def test_without_a_handshake_what_every_request_carries_counts() -> None:
    assert why(answered("ListToolsRequest", {"params": {}}), STATELESS, {}) == ""
    odd = {"params": {"_meta": {META + "clientCapabilities": 7}}}
    assert "clientCapabilities" in why(answered("ListToolsRequest", odd), STATELESS, {})
    assert "knows no" in why(answered("PingRequest", {"params": {}}), STATELESS, {})
