"""`mcpctl agents`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import Control, Refusal, run


def info(**fields: Any) -> dict[str, Any]:
    """An AgentInfo."""
    return {
        "name": "coder",
        "source": "/etc/coder.toml",
        "allowed_tools": ["fs__*"],
        "denied_tools": [],
        "max_risk": "high",
        "auto_approve": [],
        "approver": "person",
        "spelling": "server__tool",
        "open": False,
        "sessions": 0,
        "problems": [],
        **fields,
    }


def session(**fields: Any) -> dict[str, Any]:
    """A SessionInfo."""
    return {
        "id": "s7",
        "agent": "coder",
        "pid": 42,
        "exe": "/usr/bin/node",
        "cwd": "/home/u",
        "root": "",
        "began": 1e9,
        "server": "",
        "without": [],
        "off": [],
        **fields,
    }


SHARES = [
    {"server": "fs", "known": True, "tools": 3, "of": 7, "above": 2},
    {"server": "web", "known": False, "tools": 0, "of": 0, "above": 0},
]


def details(**fields: Any) -> dict[str, Any]:
    """An AgentDetails."""
    found = {**info(), "servers": SHARES, "attached": [session()], "socket": "/run/coder/mcp.sock"}
    return {**found, **fields}


def changed(**fields: Any) -> dict[str, Any]:
    return {"agent": info(), "changed": True, "file": "/etc/coder.toml", "notes": [], **fields}


def test_the_list_says_what_each_may_use(daemon: Control, folder: Path) -> None:
    daemon.answers["agents.list"] = {
        "agents": [
            info(name="default", source="", allowed_tools=None),
            info(denied_tools=["*__delete_*"], max_risk="low", sessions=2),
            info(name="shut\x1b", allowed_tools=[], problems=["allowed_tols: unknown field"]),
        ]
    }
    done = run(folder, "agents")
    head, default, coder, shut = done.stdout.splitlines()
    assert head.split() == ["AGENT", "MAY", "USE", "NOT", "UP", "TO", "SESSIONS", "DETAIL"]
    assert default.split() == ["default", "every", "server", "-", "high", "-"]
    assert coder.split() == ["coder", "fs__*", "*__delete_*", "low", "2"]
    assert shut.split()[:2] == ["shut\\u001b", "nothing"]
    assert "allowed_tols: unknown field" in shut
    assert json.loads(run(folder, "agents", "list", "--json").stdout) == daemon.answers["agents.list"]


def test_one_agent_in_full(daemon: Control, folder: Path) -> None:
    found = details(auto_approve=["fs__read"], approver="host", open=True, max_risk="medium")
    daemon.answers["agents.get"] = found
    done = run(folder, "agents", "show", "coder")
    for words in (
        "medium risk",
        "fs__read",
        "its host, up to medium risk",
        "any process may say",
        "fs: 3 of 7 tools, 2 of them above its risk",
        "web: its tools are not known yet",
        "s7 since 2001-09-0",
        "pid 42 /usr/bin/node",
        "/run/coder/mcp.sock",
    ):
        assert words in done.stdout
    assert daemon.params("agents.get") == {"agent": "coder"}


@pytest.mark.parametrize(
    ("words", "method", "params"),
    [
        (["allow", "coder", "fs", "web__*"], "agents.allow", {"agent": "coder", "tools": ["fs", "web__*"]}),
        (["deny", "coder", "fs__write"], "agents.deny", {"agent": "coder", "tools": ["fs__write"]}),
        (["max-risk", "coder", "low"], "agents.max_risk", {"agent": "coder", "max_risk": "low"}),
        (["add", "coder"], "agents.add", {"agent": "coder"}),
        (["add", "coder", "--nothing"], "agents.add", {"agent": "coder", "allowed_tools": []}),
        (
            ["add", "--allow", "fs", "coder", "--allow", "web", "--deny=fs__rm", "--max-risk", "medium"],
            "agents.add",
            {
                "agent": "coder",
                "allowed_tools": ["fs", "web"],
                "denied_tools": ["fs__rm"],
                "max_risk": "medium",
            },
        ),
        (
            ["add", "coder", "--auto-approve", "fs__read", "--host", "--open"],
            "agents.add",
            {"agent": "coder", "auto_approve": ["fs__read"], "approver": "host", "open": True},
        ),
        (["remove", "coder"], "agents.remove", {"agent": "coder"}),
        (["session"], "agents.sessions", {}),
        (
            ["session", "s7", "--off", "fs"],
            "sessions.switch",
            {"session": "s7", "server": "fs", "on": False},
        ),
        (["session", "s7", "--on", "fs"], "sessions.switch", {"session": "s7", "server": "fs", "on": True}),
    ],
)
def test_what_is_asked(
    daemon: Control, folder: Path, words: list[str], method: str, params: dict[str, Any]
) -> None:
    daemon.answers = {
        **daemon.answers,
        "agents.add": details(),
        "agents.remove": {"file": "/etc/coder.toml"},
        "agents.sessions": {"sessions": [session()]},
        "sessions.switch": session(off=["fs"]),
        **dict.fromkeys(("agents.allow", "agents.deny", "agents.max_risk"), changed()),
    }
    done = run(folder, "agents", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert (daemon.requests[-1]["method"], daemon.requests[-1]["params"]) == (method, params)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show"], "mcpctl agents show AGENT"),
        (["allow", "coder"], "allow AGENT SERVER|TOOL..."),
        (["max-risk", "coder", "none"], 'a risk is low, medium, high, not "none"'),
        (["allow", "coder", "fs", "--open"], "--open belongs to: mcpctl agents add"),
        (["add", "coder", "--off", "fs"], "--off belongs to: mcpctl agents session"),
        (["add", "coder", "--allow", "fs", "--nothing"], "both allow tools and nothing"),
        (["session", "--off", "fs"], "no session named"),
        (["session", "s7"], "say which server"),
        (["session", "s7", "--off", "fs", "--on", "web"], "say which server"),
        (["promote", "coder"], "invalid choice"),
    ],
)
def test_words_that_do_not_go_together(folder: Path, words: list[str], said: str) -> None:
    done = run(folder, "agents", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_what_a_person_should_know_is_noted(daemon: Control, folder: Path) -> None:
    why = '"note__*": no server is named "note", did you mean "notes"?'
    daemon.answers["agents.deny"] = changed(notes=[why])
    assert why in run(folder, "agents", "deny", "coder", "note__*").stderr
    daemon.answers["agents.deny"] = changed(changed=False, file="")
    assert "nothing had to be changed" in run(folder, "agents", "deny", "coder", "fs").stderr
    daemon.answers["agents.add"] = details(allowed_tools=None)
    added = run(folder, "agents", "add", "coder").stderr
    assert "it may use every server" in added
    assert "mcpctl bridge --agent coder" in added


def test_sessions_say_who_and_where(daemon: Control, folder: Path) -> None:
    daemon.answers["agents.sessions"] = {
        "sessions": [
            session(root="/home/u/app", without=["a"], off=["b"]),
            session(id="s8", pid=0, exe="", server="fs"),
        ]
    }
    _, first, second = run(folder, "agents", "session").stdout.splitlines()
    assert "/home/u/app" in first
    assert first.endswith("a, b (switched off)")
    assert "several" in second
    assert second.endswith("(only fs)")
    daemon.answers["agents.sessions"] = {"sessions": []}
    assert run(folder, "agents", "session").stderr == "mcpctl: nobody is attached\n"


@pytest.mark.parametrize(
    ("kind", "code"), [("no_such_agent", 6), ("no_such_session", 6), ("refused", 4), ("not_writable", 1)]
)
def test_what_is_refused_has_its_exit_code(daemon: Control, folder: Path, kind: str, code: int) -> None:
    daemon.answers["agents.allow"] = Refusal(kind, hint="edit the file")
    done = run(folder, "agents", "allow", "coder", "fs")
    assert (done.returncode, done.stdout) == (code, "")
    assert "edit the file" in done.stderr
