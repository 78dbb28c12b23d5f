"""mcpctl against a real daemon, as its user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.control.world import library
from tests.e2e.harness import LIVELY, Daemon, heard, is_alive, lively, until


def test_from_nothing_to_a_call(daemon: Daemon) -> None:
    log = daemon.home.root / "notes.log"
    command = [sys.executable, "-I", str(LIVELY), "--log", str(log)]
    added = daemon.ctl("add", "notes", "--", *command)
    assert "notes" in added.stdout + added.stderr
    definition = daemon.folder / "servers.d" / "notes.toml"
    assert definition.stat().st_mode & 0o777 == 0o600
    listed = daemon.ctl("list", "--json")
    [server] = json.loads(listed.stdout)["servers"]
    assert (server["name"], server["command"]) == ("notes", command[0])

    tested = daemon.ctl("test", "notes")
    assert "2025-11-25" in tested.stdout
    assert len(heard(log, "start")) == 1
    assert "echo" in daemon.ctl("list", "--tools").stdout

    denied = daemon.ctl("call", "notes__echo", "text=hi", check=False)
    assert denied.returncode == 5, "a new server is untrusted, and nobody can be asked yet (b11)"
    definition.write_text(definition.read_text() + '\n[default_policy]\napproval = "never"\n')
    daemon.ctl("reload")
    assert daemon.ctl("call", "notes__echo", "text=hi").stdout.strip() == "hi"

    daemon.ctl("disable", "notes")
    assert daemon.ctl("call", "notes__echo", "text=hi", check=False).returncode != 0
    daemon.ctl("enable", "notes")
    assert daemon.ctl("call", "notes__echo", "text=hi").stdout.strip() == "hi"
    daemon.ctl("remove", "notes")
    assert not definition.exists()
    pid = json.loads(daemon.ctl("status", "--json").stdout)["pid"]
    daemon.ctl("stop")
    until(lambda: not is_alive(pid))


def test_reload_takes_what_was_edited_while_nothing_ran(daemon: Daemon) -> None:
    """A daemon that starts holds what is wider; the reload that it waits for has to reach one (n24)."""
    daemon.server("notes", lively(daemon.home.root / "notes.log", default_policy={"approval": "deny"}))
    daemon.ctl("list")
    daemon.ctl("stop")
    daemon.server("notes", lively(daemon.home.root / "notes.log", default_policy={"approval": "never"}))
    assert "servers.notes" in daemon.ctl("reload").stdout
    assert daemon.ctl("call", "notes__echo", "text=hi").stdout.strip() == "hi"
    daemon.ctl("stop")


def test_resources_and_prompts(daemon: Daemon) -> None:
    daemon.server("books", library())
    daemon.start()
    listed = daemon.ctl("resources").stdout.splitlines()
    assert [line.split()[0] for line in listed[1:]] == [
        "mcpd://books/note:///1",
        "mcpd://books/note:///2",
        "mcpd://books/blob:///b",
        "mcpd://books/note:///{id}",
    ]
    assert daemon.ctl("resources", "read", "mcpd://books/note:///7").stdout == "note 7\n"
    assert (
        daemon.ctl("resources", "read", "blob:///b", "--server", "books").stdout
        == "[binary image/png: ~5 bytes]\n"
    )
    assert "code* style" in daemon.ctl("prompts").stdout
    got = daemon.ctl("prompts", "get", "books__review", "code=1", "style=kind").stdout
    assert got.splitlines()[0] == "[user] review [('code', '1'), ('style', 'kind')]"
    assert daemon.ctl("call", "books__read_resource", "uri=note:///7").stdout == "note 7\n", "as a tool (a13)"
    for words, code in (
        (["resources", "read", "note:///1"], 6),
        (["resources", "read", "mcpd://nobody/x:y"], 6),
        (["resources", "read", "mcpd://books/note:///x"], 1),
        (["prompts", "get", "books__nope"], 6),
        (["prompts", "get", "books__review"], 1),
    ):
        assert daemon.ctl(*words, check=False).returncode == code
    tested = [line.split() for line in daemon.ctl("test", "books").stdout.splitlines()]
    assert ["resources", "3"] in tested


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["test", "nobody"], 6),
        (["call", "nobody__echo"], 6),
        (["call", "lively__no_such_tool"], 6),
        (["call", "lively__refuse"], 1),
        (["call", "lively__wipe"], 5),
        (["call", "broken__echo"], 12),
        (["test", "broken"], 12),
        (["no-such-verb"], 2),
        (["add", "secret", "--env", "K=V", "x"], 2),
        (["rpc", "no.such.method"], 1),
        (["rpc", "daemon.status"], 0),
        (["call", "lively__echo", "text=hi"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_exit_codes(daemon: Daemon, arguments: list[str], code: int) -> None:
    daemon.server("lively", lively(daemon.home.root / "lively.log"))
    daemon.server("broken", {"command": "no-such-command-xyz"})
    daemon.write("config.toml", {"tool_policies": {"lively__wipe": {"approval": "deny"}}})
    daemon.start()
    done = daemon.ctl(*arguments, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if code:
        assert done.stderr.strip()


def test_only_the_answer_is_on_stdout(daemon: Daemon, tmp_path: Path) -> None:
    daemon.server("lively", lively(daemon.home.root / "lively.log"))
    daemon.start()
    for arguments in (["status"], ["list"], ["list", "--tools"], ["test", "lively"], ["logs", "lively"]):
        json.loads(daemon.ctl(*arguments, "--json").stdout)
    result = json.loads(daemon.ctl("call", "lively__odd", "--json").stdout)
    assert result["result"]["structuredContent"]["big"] == 9007199254740993


def test_control_characters_never_reach_the_terminal(daemon: Daemon) -> None:
    daemon.server("lively", lively(daemon.home.root / "lively.log"))
    daemon.start()
    shown = daemon.ctl("call", "lively__echo", "text=\x1b]0;title\x07\u202ered").stdout
    assert "\x1b" not in shown
    assert "\x07" not in shown
