"""trust, untrust and accept as a person meets them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

from tests.mcpctl.harness import LIMIT, Control, Refusal, command, environment, run, server, tool

OLD = {"command": "/usr/bin/npx", "args": ["-y", "files"], "cwd": "", "url": ""}
REVIEW = {
    "server": "fs",
    "waits": "its destination changed, waits for mcpctl accept fs",
    "old": OLD,
    "new": {"command": "/usr/bin/env", "args": ["a b", "x\x1b[2J"], "cwd": "/tmp", "url": ""},
    "changed": ["command", "args", "policy"],
    "default_policy": {"approval": "never"},
    "gets": ["env.TOKEN"],
    "loses": ["trust"],
    "trusted": False,
    "shown": "d1g3st",
}


def test_trust_says_what_needs_no_question_now(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.trust"] = server(trusted=True)
    daemon.answers["pins.flags"] = {"definitions": [], "more": 0}
    daemon.answers["tools.list"] = {
        "tools": [tool(tool="read", approval="never"), tool(tool="write", approval="always")],
        "next_cursor": "",
        "left_out": [],
    }
    done = run(folder, "trust", "fs")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        '"fs" is trusted, where it is now',
        "  no question for 1 of 2 tools: read",
    ]
    assert done.stderr == ""
    assert json.loads(run(folder, "trust", "fs", "--json").stdout)["trusted"] is True
    odd = {"kind": "tool", "name": "read", "flags": []}
    daemon.answers["pins.flags"] = {"definitions": [odd], "more": 2}
    assert "read what is said in 3 definitions: mcpctl pins flags fs" in run(folder, "trust", "fs").stderr
    daemon.answers["servers.trust"] = Refusal("refused", 'cannot trust "fs": held', hint="mcpctl accept fs")
    done = run(folder, "trust", "fs")
    assert done.returncode == 4
    assert "mcpctl accept fs" in done.stderr


def test_untrust(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.untrust"] = server(trusted=False)
    assert run(folder, "untrust", "fs").stdout == '"fs" is not trusted\n'


def test_without_a_terminal_accept_shows_and_accepts_nothing(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.review"] = REVIEW
    done = run(folder, "accept", "fs")
    assert done.returncode == 5
    assert "mcpctl accept fs --shown d1g3st" in done.stderr
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert ["old", "/usr/bin/npx"] in lines
    assert ["new", "/usr/bin/env"] in lines
    assert ["a", "b"] in lines, "an argument stands on a line of its own, blanks and all"
    assert "x\\u001b[2J" in done.stdout
    assert ["policy", "approval never"] in lines
    assert ["gets", "env.TOKEN"] in lines
    assert ["loses", "trust"] in lines
    done = run(folder, "accept", "fs", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (5, REVIEW)

    daemon.answers["servers.accept"] = server()
    done = run(folder, "accept", "fs", "--shown", "d1g3st")
    assert done.returncode == 0
    assert daemon.params("servers.accept") == {"server": "fs", "shown": "d1g3st"}


def test_nothing_waits(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.review"] = {**REVIEW, "waits": "", "changed": [], "new": OLD, "loses": []}
    done = run(folder, "accept", "fs")
    assert (done.returncode, done.stderr) == (0, 'mcpctl: nothing of "fs" waits\n')
    assert done.stdout == "", "old and new, which are one, say nothing"


def at_a_terminal(folder: Path, answer: str, *words: str) -> tuple[int, str]:
    """Exit code and output of mcpctl with a person who types `answer`."""
    ours, theirs = pty.openpty()
    try:
        running = subprocess.Popen(
            command(*words), env=environment(folder), stdin=theirs, stdout=subprocess.PIPE, stderr=theirs
        )
        os.write(ours, answer.encode())
        output, _ = running.communicate(timeout=LIMIT)
    finally:
        os.close(theirs)
        os.close(ours)
    return running.returncode, output.decode()


def test_at_a_terminal_it_is_asked(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.review"] = REVIEW
    daemon.answers["servers.accept"] = server()
    for answer, code in (("n\n", 1), ("\n", 1), ("\x04", 1), ("y\n", 0)):
        assert at_a_terminal(folder, answer, "accept", "fs")[0] == code
    sent = [request["params"] for request in daemon.requests if request["method"] == "servers.accept"]
    assert sent == [{"server": "fs", "shown": "d1g3st"}]


def test_reload_says_what_is_held(daemon: Control, folder: Path) -> None:
    nothing: dict[str, Any] = {key: [] for key in ("added", "changed", "removed", "unchanged", "problems")}
    held = {"fs": "its destination changed, waits for mcpctl accept fs"}
    daemon.answers["daemon.reload"] = {**nothing, "kept": [], "applied": [], "held": held}
    done = run(folder, "reload")
    assert '"fs" is held: its destination changed, waits for mcpctl accept fs' in done.stderr
