"""Grants on the command line: the list, giving one, taking one back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import Control, Refusal, run


def info(**fields: Any) -> dict[str, Any]:
    """A GrantInfo."""
    return {
        "id": "ab12cd34",
        "agent": "coder",
        "server": "fs",
        "tool": "write",
        "exact": True,
        "where": [],
        "only": False,
        "lifespan": "forever",
        "session": "",
        "until": 0.0,
        "count": 0,
        "used": 0,
        "reason": "",
        "made_at": 1.0,
        "idle": "",
        **fields,
    }


def granted(**fields: Any) -> dict[str, Any]:
    return {"grant": info(), "answered": 0, "covered": 1, "beyond": [], **fields}


def test_the_list_says_for_whom_how_long_and_where(daemon: Control, folder: Path) -> None:
    where = [
        {"argument": "path", "test": "under", "value": "/n\x1b"},
        {"argument": "mode", "test": "equals", "value": "2"},
    ]
    daemon.answers["grants.list"] = {
        "grants": [
            info(where=where, reason="notes only"),
            info(agent="*", lifespan="count", count=5, used=2, only=True),
            info(agent="", lifespan="until", until=1_000_000.0),
            info(lifespan="session", session="s7"),
            info(lifespan="once", idle='server "fs" has another command or address now'),
        ]
    }
    done = run(folder, "grants")
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["ID", "AGENT", "TOOL", "LASTS", "USED", "WHERE"]
    assert 'path is under "/n\\u001b" and mode = 2 (notes only)' in lines[0]
    assert "\x1b" not in done.stdout
    assert "(all)" in lines[1]
    assert "3 more calls" in lines[1]
    assert "no other arguments" in lines[1]
    assert "(mcpctl)" in lines[2]
    assert "until 1970-01-12" in lines[2]
    assert "session s7" in lines[3]
    assert "idle: server" in lines[4]
    assert json.loads(run(folder, "grants", "--json").stdout) == daemon.answers["grants.list"]
    daemon.answers["grants.list"] = {"grants": []}
    assert run(folder, "grants").stderr == "mcpctl: no grants\n"


@pytest.mark.parametrize(
    ("words", "params"),
    [
        (
            ["fs__write", "--agent", "coder", "--forever"],
            {"name": "fs__write", "agent": "coder", "where": [], "lifespan": "forever"},
        ),
        (
            ["write", "--server", "fs", "--all", "--once", "--reason", "why"],
            {
                "server": "fs",
                "tool": "write",
                "agent": "*",
                "where": [],
                "lifespan": "once",
                "reason": "why",
            },
        ),
        (
            ["fs__w*", "--operator", "--for", "8h", "--only"],
            {
                "name": "fs__w*",
                "agent": "",
                "where": [],
                "only": True,
                "lifespan": "until",
                "seconds": 28800.0,
            },
        ),
        (
            ["fs__write", "--agent", "a", "--count", "3"],
            {"name": "fs__write", "agent": "a", "where": [], "lifespan": "count", "count": 3},
        ),
        (
            ["fs__write", "--agent", "a", "--session", "s1"],
            {"name": "fs__write", "agent": "a", "where": [], "lifespan": "session", "session": "s1"},
        ),
    ],
)
def test_add(daemon: Control, folder: Path, words: list[str], params: dict[str, Any]) -> None:
    daemon.answers["grants.add"] = granted()
    done = run(folder, "grants", "add", *words)
    assert done.returncode == 0, done.stderr
    assert daemon.params("grants.add") == params
    assert "ab12cd34" in done.stdout


def test_conditions(daemon: Control, folder: Path) -> None:
    daemon.answers["grants.add"] = granted()
    words = ["--under", "path=notes/../notes", "--under", "to=~/x", "--equals", "n=2", "--equals", "t=two"]
    run(folder, "grants", "add", "fs__w", "--all", "--once", *words, "--prefix", "u=a=b", "--glob", "g=*.md")
    assert daemon.params("grants.add")["where"] == [
        {"argument": "n", "test": "equals", "value": "2"},
        {"argument": "t", "test": "equals", "value": '"two"'},
        {"argument": "u", "test": "prefix", "value": "a=b"},
        {"argument": "g", "test": "glob", "value": "*.md"},
        {"argument": "path", "test": "under", "value": f"{folder.resolve()}/notes"},
        {"argument": "to", "test": "under", "value": f"{folder}/x"},
    ]


@pytest.mark.parametrize(
    "words",
    [
        ["add"],
        ["fs__write"],
        ["list", "fs__write"],
        ["add", "fs__write", "--agent", "a"],
        ["add", "fs__write", "--forever"],
        ["add", "fs__write", "--agent", "a", "--all", "--forever"],
        ["add", "fs__write", "--agent", "a", "--forever", "--once"],
        ["add", "fs__write", "--agent", "a", "--for", "soon"],
        ["add", "fs__write", "--agent", "a", "--once", "--under", "path"],
        ["add", "fs__write", "--agent", "a", "--once", "--under", "=x"],
        ["add", "fs__write", "--agent", "a", "--once", "--equals", "x="],
    ],
)
def test_words_that_do_not_go_together(daemon: Control, folder: Path, words: list[str]) -> None:
    done = run(folder, "grants", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert all(request["method"] == "hello" for request in daemon.requests)


def test_what_a_new_grant_does_not_cover_is_said(daemon: Control, folder: Path) -> None:
    daemon.answers["grants.add"] = granted(answered=2, covered=0, beyond=["fs__rm: approval always"])
    said = run(folder, "grants", "add", "fs__*", "--all", "--forever").stderr
    assert "2 open questions answered by it" in said
    assert "not covered: fs__rm: approval always" in said
    assert "no tool that is known now is covered by it" in said


def test_revoke(daemon: Control, folder: Path) -> None:
    daemon.answers["grants.revoke"] = info()
    done = run(folder, "revoke", "ab12cd34")
    assert (done.returncode, done.stdout) == (0, "revoked ab12cd34: coder fs__write\n")
    assert daemon.params("grants.revoke") == {"id": "ab12cd34"}
    found = json.loads(run(folder, "revoke", "a", "b", "--json").stdout)
    assert found == {"revoked": [info(), info()]}
    daemon.answers["grants.revoke"] = Refusal("no_such_grant")
    assert run(folder, "revoke", "x").returncode == 6


def test_an_argument_that_the_tool_does_not_have_is_told(daemon: Control, folder: Path) -> None:
    where = [{"argument": name, "test": "prefix", "value": "/n"} for name in ("path", "pfad")]
    daemon.answers["grants.add"] = granted(grant=info(where=where))
    definition = {"inputSchema": {"properties": {"path": {"type": "string"}}}}
    daemon.answers["tools.describe"] = {"definition": definition}
    words = ["--prefix", "path=/n", "--prefix", "pfad=/n", "--all", "--forever"]
    told = run(folder, "grants", "add", "fs__write", *words).stderr
    assert ('"pfad"' in told, '"path"' in told) == (True, False)
    daemon.answers["tools.describe"] = {"definition": {"inputSchema": {}}}
    assert run(folder, "grants", "add", "fs__write", *words).stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say how long"),
        (["--count", "0"], "no time and no call"),
        (["--for", "0s"], "no time and no call"),
        (["--count", "3", "--forever"], "only once"),
    ],
)
def test_what_is_wrong_with_a_lifespan_is_said(
    daemon: Control, folder: Path, words: list[str], said: str
) -> None:
    done = run(folder, "grants", "add", "fs__write", "--all", *words)
    assert (done.returncode, said in done.stderr) == (2, True)


def test_a_grant_is_taken_back_under_either_word(daemon: Control, folder: Path) -> None:
    daemon.answers["grants.revoke"] = info()
    assert run(folder, "grants", "revoke", "ab12cd34").stdout == "revoked ab12cd34: coder fs__write\n"
    assert run(folder, "grants", "revoke").returncode == 2
