"""Servers: lists, tests, switches."""

from __future__ import annotations

import contextlib
import json
import pty
import subprocess
import termios
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import LIMIT, STATUS, Control, command, environment, run, server, server_test, tool

FAILED = {"state": "failed", "reason": "command_not_found", "error": 'cannot find "x"\x1b[0m', "tools": 0}


def test_list(daemon: Control, folder: Path) -> None:
    infos = [
        server("fs"),
        server("bad", status=FAILED),
        server("new", held="command changed, waits for mcpctl reload", status={"state": "held", "tools": 0}),
    ]
    daemon.answers["servers.list"] = {"servers": infos}
    lines = run(folder, "list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "TOOLS", "COMMAND", "DETAIL"]
    assert lines[1].split() == ["fs", "connected", "2", "node", "index.js"]
    assert lines[2].endswith('command_not_found: cannot find "x"\\u001b[0m')
    assert lines[3].endswith("command changed, waits for mcpctl reload")
    assert json.loads(run(folder, "list", "--json").stdout) == {"servers": infos}


def test_the_reason_is_readable_on_a_terminal(daemon: Control, folder: Path) -> None:
    """80 columns are no room for a command and a reason; the reason is what the list is looked at for."""
    reason = "cannot find the program " + "x" * 70
    daemon.answers["servers.list"] = {
        "servers": [
            server("fs", args=["y" * 60]),
            server("bad", status={"state": "failed", "reason": "exited", "error": reason}),
        ]
    }
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    with open(ours, "rb", buffering=0) as terminal, open(theirs, "wb") as stdout:
        done = subprocess.run(
            command("list"), env=environment(folder), stdout=stdout, timeout=LIMIT, check=False
        )
        stdout.close()
        shown = b""
        with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more
            while chunk := terminal.read(65536):
                shown += chunk
    assert done.returncode == 0
    lines = shown.decode().splitlines()
    assert lines[0].split() == ["NAME", "STATE", "TOOLS", "COMMAND"]
    assert all(len(line) <= 80 for line in lines[:-1])
    assert lines[-1].strip() == f"exited: {reason}"


def test_list_of_nothing(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.list"] = {"servers": []}
    done = run(folder, "list")
    assert (done.returncode, done.stdout) == (0, "")
    assert "mcpctl add" in done.stderr


def test_list_with_tools(daemon: Control, folder: Path) -> None:
    page = {"tools": [tool()], "next_cursor": "", "left_out": []}
    daemon.answers |= {"servers.list": {"servers": [server()]}, "tools.list": page}
    assert "fs__read" in run(folder, "list", "--tools").stdout
    methods = [request["method"] for request in daemon.requests]
    assert methods == ["hello", "tools.list", "servers.list"], "the states are those after connecting"
    assert json.loads(run(folder, "list", "--tools", "--json").stdout) == {
        "servers": [server()],
        "tools": [tool()],
        "left_out": [],
    }


def test_one_server(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.get"] = {
        **server("fs", status={"last_success": 86400.0}),
        "env": {"KEY": "[SECRET]"},
        "headers": {},
        "cwd": "/w",
        "path": "/p",
        "keeps": "",
        "sampling": True,
        "roots": "agent",
        "told": ["elicitation.form", "roots"],
        "takes_turns": True,
        "warnings": ["odd"],
        "default_policy": {"risk": "low", "timeout": 150.0},
    }
    shown = run(folder, "list", "fs").stdout
    for word in ("KEY=[SECRET]", "/w", "/p", "risk low, timeout 2.5 min", "odd", "1970-01-02 00:00:00"):
        assert word in shown
    for word in ("agents' models, agents' folders", "elicitation.form, roots", "one client at a time"):
        assert word in shown
    assert json.loads(run(folder, "list", "fs", "--json").stdout)["cwd"] == "/w"


def test_a_server_of_several_instances(daemon: Control, folder: Path) -> None:
    """How many run, and whose they are (n04)."""
    several = [
        {"kind": "operator", "of": "", "status": {**STATUS, "pid": 1}},
        {"kind": "agent", "of": "coder", "status": {**STATUS, "pid": 2}},
        {"kind": "agent", "of": "b", "status": {**STATUS, **FAILED, "pid": 0}},
        {"kind": "project", "of": "", "status": {**STATUS, "state": "idle", "pid": 0, "error": "old"}},
    ]
    info = server("fs", instance="agent", instances=several)
    daemon.answers["servers.list"] = {"servers": [info]}
    assert run(folder, "list").stdout.splitlines()[1].endswith("one per agent: 2")
    more: dict[str, Any] = {"env": {}, "headers": {}, "warnings": [], "default_policy": {}}
    more |= {"sampling": False, "roots": "none", "told": [], "takes_turns": False}
    daemon.answers["servers.get"] = {**info, **more, "cwd": "", "path": "", "keeps": "browser"}
    shown = run(folder, "list", "fs").stdout
    for line in (
        "one per agent",
        "it keeps a state of its caller's (browser)",
        "operator: connected, pid 1",
        "agent coder: connected, pid 2",
        'agent b: failed: cannot find "x"\\u001b[0m',
        "project (none): idle",
    ):
        assert line in shown
    assert "old" not in shown


def test_test(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.test"] = server_test(instructions="read\n\x1bme")
    done = run(folder, "test", "fs")
    assert done.returncode == 0
    for word in ("2025-11-25", "files 7", "tools", "300 ms", "\\u001bme"):
        assert word in done.stdout
    assert json.loads(run(folder, "test", "fs", "--json").stdout)["ok"] is True
    assert "prompts" not in done.stdout
    daemon.answers["servers.test"] = server_test(resources=3, templates=1, prompts=2)
    lines = [line.split() for line in run(folder, "test", "fs").stdout.splitlines()]
    for line in (["tools", "1"], ["resources", "3"], ["templates", "1"], ["prompts", "2"]):
        assert line in lines, "b21"


@pytest.mark.parametrize(
    ("status", "code"),
    [(FAILED, 12), ({"state": "needs_auth"}, 11), ({"state": "crashed", "reason": "exited"}, 12)],
)
def test_a_server_that_cannot_be_reached(
    daemon: Control, folder: Path, status: dict[str, Any], code: int
) -> None:
    daemon.answers["servers.test"] = server_test(ok=False, status=status, server_info=None, capabilities=[1])
    done = run(folder, "test", "fs")
    assert done.returncode == code
    assert "mcpctl logs fs" in done.stderr
    hint = "write headers = {} into /etc/fs.toml, then: mcpctl reload"
    daemon.answers["servers.test"] = server_test(ok=False, status=status, hint=hint)
    assert hint in run(folder, "test", "fs").stderr
    assert run(folder, "test", "fs", "--json").returncode == code


def test_logs(daemon: Control, folder: Path) -> None:
    lines = [
        {"at": 0.5, "text": "\x1b[31mred\tx", "instance": ""},
        {"at": 61.0, "text": "b", "instance": "agent a"},
    ]
    daemon.answers["servers.logs"] = {"server": "fs", "lines": lines}
    done = run(folder, "logs", "fs", "-n", "7")
    assert done.stdout == "1970-01-01 00:00:00  \\u001b[31mred\tx\n1970-01-01 00:01:01  [agent a] b\n"
    assert daemon.params("servers.logs") == {"server": "fs", "lines": 7}


@pytest.mark.parametrize("verb", ["enable", "disable"])
def test_switches(daemon: Control, folder: Path, verb: str) -> None:
    daemon.answers[f"servers.{verb}"] = server("fs", status={"state": "connecting"})
    done = run(folder, verb, "fs")
    assert (done.returncode, done.stdout) == (0, '"fs" is connecting\n')
    assert daemon.params(f"servers.{verb}") == {"server": "fs"}
    assert json.loads(run(folder, verb, "fs", "--json").stdout)["name"] == "fs"


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        ({}, "connected", 0),
        (
            {"state": "failed", "reason": "bad_definition", "error": "no x"},
            "failed: bad_definition: no x",
            12,
        ),
        ({"state": "failed", "reason": "failed", "error": "failed: no x"}, "failed: no x", 12),
        ({"state": "needs_auth"}, "needs_auth", 11),
    ],
)
def test_reconnect_waits_for_the_outcome(
    daemon: Control, folder: Path, status: dict[str, Any], said: str, code: int
) -> None:
    daemon.answers |= {
        "servers.reconnect": server("fs", status={"state": "connecting"}),
        "servers.test": server_test(ok=not status, status=status),
    }
    done = run(folder, "reconnect", "fs")
    assert (done.returncode, done.stdout) == (code, f'"fs" is {said}\n')
    assert daemon.params("servers.reconnect") == daemon.params("servers.test") == {"server": "fs"}
    shown = run(folder, "reconnect", "fs", "--json")
    assert shown.returncode == code
    assert json.loads(shown.stdout)["test"]["ok"] is not bool(status)


def test_reconnect_without_waiting(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.reconnect"] = server("fs", status={"state": "connecting"})
    done = run(folder, "reconnect", "fs", "--no-wait")
    assert (done.returncode, done.stdout) == (0, '"fs" is connecting\n')
    shown = json.loads(run(folder, "reconnect", "fs", "--no-wait", "--json").stdout)
    assert (shown["server"]["name"], shown["test"]) == ("fs", None)


def test_enable_names_the_file_that_still_says_no(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.enable"] = server(
        "fs", enabled=False, disabled_by="/c/config.toml", status={"state": "disabled"}
    )
    done = run(folder, "enable", "fs")
    assert done.returncode == 1
    assert "/c/config.toml says enabled = false" in done.stderr


def test_remove(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.remove"] = {"removed_file": "/c/fs.toml"}
    done = run(folder, "remove", "fs")
    assert (done.returncode, done.stdout) == (0, 'removed "fs" (/c/fs.toml)\n')
