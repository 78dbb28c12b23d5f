"""`mcpctl explain`: the chain, the line that decides, what would change it (n10)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.mcpctl.harness import Control, Refusal, run


def explained(**fields: Any) -> dict[str, Any]:
    """An Explained."""
    return {
        "agent": "coder",
        "server": "fs",
        "tool": "write",
        "name": "fs__write",
        "verdict": "ask",
        "once_only": False,
        "risk": "high",
        "approval": "unless_auto_approved",
        "timeout": 60.0,
        "rules": [
            {"field": "risk", "says": "high", "rule": 'server "fs" is untrusted (b11)', "decides": True},
            {"field": "risk", "says": "medium", "rule": "settings", "decides": False},
            {"field": "decision", "says": "asked", "rule": "no grant\x1b", "decides": True},
        ],
        "decided": "asked: no grant",
        "changes": [
            {"step": "mcpctl trust fs", "verdict": "allow"},
            {"step": "mcpctl agents max-risk coder low", "verdict": "deny"},
        ],
        "notes": ["the agent is muted"],
        **fields,
    }


def test_the_verdict_the_chain_and_what_would_change_it(daemon: Control, folder: Path) -> None:
    daemon.answers["policy.explain"] = explained()
    done = run(folder, "explain", "coder", "fs__write", "path=/n", "n=2")
    assert done.returncode == 0
    assert daemon.params("policy.explain") == {
        "name": "fs__write",
        "agent": "coder",
        "arguments": {"path": "/n", "n": 2},
    }
    lines = done.stdout.splitlines()
    assert lines[0] == "fs__write for agent coder: asked for"
    assert [line.split(maxsplit=3) for line in lines[2:5]] == [
        ["*", "risk", "high", 'server "fs" is untrusted (b11)'],
        ["risk", "medium", "settings"],
        ["*", "decision", "asked", "no grant\\u001b"],
    ]
    assert lines[5] == "what would change it:"
    assert lines[6].split(maxsplit=1) == ["allowed", "mcpctl trust fs"]
    assert done.stderr == "mcpctl: the agent is muted\n"


def test_the_operator_one_server_a_session_and_json(daemon: Control, folder: Path) -> None:
    daemon.answers["policy.explain"] = explained(
        agent="", verdict="absent", once_only=True, changes=[], notes=[]
    )
    words = ["explain", "-", "write", "--server", "fs", "--session", "s1", '{"a": 1.0}']
    done = run(folder, *words)
    assert daemon.params("policy.explain") == {
        "server": "fs",
        "tool": "write",
        "agent": "",
        "session": "s1",
        "arguments": {"a": 1.0},
    }
    assert b'"arguments":{"a": 1.0}' in daemon.lines[-1]
    assert done.stdout.startswith("fs__write for mcpctl: not there for this agent, each time anew")
    assert json.loads(run(folder, *words, "--json").stdout) == daemon.answers["policy.explain"]


def test_a_tool_must_be_named(daemon: Control, folder: Path) -> None:
    assert run(folder, "explain", "coder").returncode == 2
    assert run(folder, "explain").returncode == 2
    daemon.answers["policy.explain"] = explained()
    assert run(folder, "explain", "coder", "--", "-odd").returncode == 0
    assert daemon.params("policy.explain")["name"] == "-odd"


def test_the_order_of_agent_and_tool_is_said(daemon: Control, folder: Path) -> None:
    daemon.answers["policy.explain"] = Refusal(
        "no_such_tool", 'cannot find tool "coder"', hint="mcpctl tools"
    )
    assert "mcpctl explain AGENT TOOL" in run(folder, "explain", "fs__write", "coder").stderr
    assert "AGENT" not in run(folder, "explain", "coder", "fs__write").stderr
