"""`mcpctl approvals`, `approve`, `deny`, and calls that are asked about at a terminal (a31, n05, n07)."""

from __future__ import annotations

import json
import os
import select
import subprocess
import termios
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.mcpctl.harness import (
    LIMIT,
    Control,
    Hangup,
    Refusal,
    approval,
    approval_details,
    argument,
    command,
    environment,
    run,
)

NAME = "k7f39qpm2a"
PENDING = Refusal("pending", f"pending: this call waits ({NAME})", hint="the user can answer", approval=NAME)
ANSWERED = {
    "id": NAME,
    "agent": "coder",
    "server": "files",
    "tool": "write",
    "name": "files__write",
    "outcome": "approved",
    "waiting": 1,
}
EMPTY: dict[str, Any] = {"approvals": [], "unused": [], "muted": []}
LONG = {
    "cut": True,
    "long": True,
    "arguments": [argument("", "text", "\n".join(f"line {number}" for number in range(200)))],
}


#: What goes on to the end of a long question.
PAGES = {"goes on": "\n"}


class Seen(NamedTuple):
    code: int
    out: str
    screen: str


def at_terminal(folder: Path, *words: str, typed: str = "", replies: dict[str, str] | None = None) -> Seen:
    """mcpctl with a terminal of 80 by 24 for stdin and stderr. `typed` stands in it already; `replies` says
    what is typed when that is on the screen."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(ours, (24, 80))
    process = subprocess.Popen(
        command(*words),
        env=environment(folder),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        cwd=folder,
        start_new_session=True,
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    screen, answered = b"", 0
    try:
        while select.select([ours], [], [], LIMIT)[0] and (chunk := os.read(ours, 65536)):
            screen += chunk
            for prompt, reply in (replies or {}).items():
                if prompt.encode() in screen[answered:]:
                    answered = len(screen)
                    os.write(ours, reply.encode())
    except OSError:  # the other side is closed
        pass
    finally:
        os.close(ours)
    assert process.stdout is not None
    with process:
        try:
            out, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"it waits: {screen.decode()}") from None
    assert b"Traceback" not in screen
    return Seen(process.returncode, out.decode(), screen.decode())


def answers(daemon: Control, **fields: Any) -> None:
    daemon.answers["approvals.get"] = approval_details(**fields)
    daemon.answers["approvals.approve"] = ANSWERED
    daemon.answers["approvals.deny"] = {**ANSWERED, "outcome": "denied"}


def asked(daemon: Control, method: str) -> list[Any]:
    return [request["params"] for request in daemon.requests if request["method"] == method]


# ----------------------------------------------------------------------------- lists


def test_what_waits_is_shown(daemon: Control, folder: Path) -> None:
    listed = {
        "approvals": [approval(), approval(id="second")],
        "unused": [{"id": "x1", "name": "files__read", "left": 120.0, "agent": "", "server": "", "tool": ""}],
        "muted": [{"agent": "coder", "left": None}, {"agent": "", "left": 60.0}],
    }
    daemon.answers["approvals.list"] = listed
    done = run(folder, "approvals")
    assert done.returncode == 0
    assert f'{NAME}  agent "coder" asks to call files__write' in done.stdout
    assert "\nsecond  " in done.stdout
    assert "x1  approved, to be called again: files__read, 2 min left" in done.stdout
    assert "muted: agent coder, until you say else" in done.stdout
    assert "muted: calls by mcpctl, 60 s left" in done.stdout
    assert "mcpctl approve ID" in done.stderr
    assert json.loads(run(folder, "approvals", "--json").stdout) == listed
    assert run(folder, "approvals", "list").stdout == done.stdout, "as of grants and agents"


def test_a_yes_is_taken_back(daemon: Control, folder: Path) -> None:
    daemon.answers["approvals.get"] = Refusal("no_such_approval", "open no more: approved")
    daemon.answers["approvals.deny"] = {**ANSWERED, "outcome": "denied"}
    done = run(folder, "deny", NAME)
    assert (done.returncode, done.stdout.startswith("denied: ")) == (0, True)
    daemon.answers["approvals.deny"] = Refusal("no_such_approval", "open no more: denied")
    assert run(folder, "deny", NAME).returncode == 6


def test_nothing_waits(daemon: Control, folder: Path) -> None:
    daemon.answers["approvals.list"] = EMPTY
    done = run(folder, "approvals")
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing waits for you" in done.stderr


def test_one_in_full_ends_with_its_code(daemon: Control, folder: Path) -> None:
    answers(daemon, **LONG)
    done = run(folder, "approvals", NAME)
    assert "line 199" in done.stdout
    assert f"mcpctl approve {NAME} --seen abc234" in done.stderr
    answers(daemon)
    assert "--seen" not in run(folder, "approvals", NAME).stderr


@pytest.mark.parametrize(
    ("words", "method", "said"),
    [
        (["--mute", "coder"], "approvals.mute", "nobody is asked about agent coder"),
        (["--mute", ""], "approvals.mute", "nobody is asked about calls by mcpctl"),
        (["--unmute", "coder"], "approvals.unmute", "agent coder: asked about again"),
    ],
)
def test_mute(daemon: Control, folder: Path, words: list[str], method: str, said: str) -> None:
    daemon.answers |= {"approvals.mute": {}, "approvals.unmute": {"agent": "coder", "was_muted": True}}
    done = run(folder, "approvals", *words)
    assert done.returncode == 0
    assert said in done.stderr
    assert daemon.params(method) == {"agent": words[1]}


@pytest.mark.parametrize(
    "words",
    [
        ["approvals", "--watch", NAME],
        ["approvals", "--mute", "a", "--unmute", "a"],
        ["approvals", "--watch"],  # without a terminal
        ["approve"],
        ["deny"],
    ],
)
def test_wrong_use(daemon: Control, folder: Path, words: list[str]) -> None:
    assert run(folder, *words).returncode == 2


# --------------------------------------------------------------------------- answers


def test_approve_and_deny(daemon: Control, folder: Path) -> None:
    answers(daemon)
    done = run(folder, "approve", NAME)
    assert (done.returncode, done.stdout) == (0, "approved: files__write for agent coder\n")
    assert "path = /home/me/x" in done.stderr
    assert daemon.params("approvals.approve") == {"id": NAME, "seen": "abc234"}
    done = run(folder, "deny", NAME)
    assert (done.returncode, done.stdout) == (0, "denied: files__write for agent coder\n")
    daemon.answers["approvals.approve"] = {**ANSWERED, "waiting": 0}
    assert "the same call within an hour" in run(folder, "approve", NAME).stdout
    assert json.loads(run(folder, "approve", NAME, "--json").stdout)["waiting"] == 0


@pytest.mark.parametrize(("kind", "code"), [("no_such_approval", 6), ("refused", 4), ("factor_needed", 4)])
def test_what_the_daemon_refuses(daemon: Control, folder: Path, kind: str, code: int) -> None:
    answers(daemon)
    daemon.answers["approvals.approve"] = Refusal(kind)
    assert run(folder, "approve", NAME).returncode == code


def test_without_a_terminal_what_is_long_needs_its_code(daemon: Control, folder: Path) -> None:
    answers(daemon, **LONG)
    daemon.answers["approvals.approve"] = Refusal("refused", "too long for one look", hint="see them first")
    done = run(folder, "approve", NAME)
    assert done.returncode == 4
    assert "see them first" in done.stderr
    assert daemon.params("approvals.approve") == {"id": NAME, "seen": ""}
    daemon.answers["approvals.approve"] = ANSWERED
    assert run(folder, "approve", NAME, "--seen", "abc234").returncode == 0
    assert daemon.params("approvals.approve") == {"id": NAME, "seen": "abc234"}


def test_at_a_terminal_what_is_long_is_shown_to_its_end_first(daemon: Control, folder: Path) -> None:
    answers(daemon, **LONG)
    seen = at_terminal(folder, "approve", NAME, replies=PAGES | {"[y/n]": "y\n"})
    assert seen.code == 0
    assert "line 0\r\n" in seen.screen
    assert "line 199\r\n" in seen.screen
    assert daemon.params("approvals.approve") == {"id": NAME, "seen": "abc234"}


@pytest.mark.parametrize(
    "replies",
    [
        {"goes on": "s\n"},
        {"goes on": "q\n"},
        {"goes on": "\x04"},
        PAGES | {"[y/n]": "n\n"},
        PAGES | {"[y/n]": "\n"},
        PAGES | {"[y/n]": "\x04"},
    ],
)
def test_who_does_not_see_it_all_approves_nothing(
    daemon: Control, folder: Path, replies: dict[str, str]
) -> None:
    answers(daemon, **LONG)
    assert at_terminal(folder, "approve", NAME, replies=replies).code == 1
    assert asked(daemon, "approvals.approve") == []


# ------------------------------------------------------------------- calls at a terminal


def call_answers(daemon: Control, **fields: Any) -> None:
    """The first call waits for a person, the second has an answer."""
    answers(daemon, **fields)
    results: list[Any] = [
        PENDING,
        {"duration": 0.1, "result": {"content": [{"type": "text", "text": "ok"}]}},
    ]
    daemon.answers["tools.call"] = lambda params: results.pop(0)


def test_a_call_is_asked_about_here_and_now(daemon: Control, folder: Path) -> None:
    call_answers(daemon)
    seen = at_terminal(folder, "call", "files__write", "path=/home/me/x", typed="y\n")
    assert (seen.code, seen.out) == (0, "ok\n")
    assert f'{NAME}  agent "coder" asks to call files__write' in seen.screen
    assert daemon.params("approvals.approve") == {"id": NAME, "seen": "abc234"}
    first, second = asked(daemon, "tools.call")
    assert first == second == {"name": "files__write", "arguments": {"path": "/home/me/x"}, "patience": 0}


@pytest.mark.parametrize(
    ("typed", "code", "denied"),
    [("n\n", 5, True), ("what\nn\n", 5, True), ("s\n", 5, False), ("q\n", 5, False), ("\x04", 5, False)],
)
def test_whatever_is_no_yes(daemon: Control, folder: Path, typed: str, code: int, denied: bool) -> None:
    call_answers(daemon)
    seen = at_terminal(folder, "call", "files__write", typed=typed)
    assert (seen.code, seen.out) == (code, "")
    assert bool(asked(daemon, "approvals.deny")) == denied
    assert asked(daemon, "approvals.approve") == []
    assert len(asked(daemon, "tools.call")) == 1


def test_after_trust_it_may_be_asked_about_as_something_else(daemon: Control, folder: Path) -> None:
    call_answers(daemon)
    daemon.answers["servers.trust"] = {}
    results: list[Any] = [PENDING, PENDING, {"duration": 0.1, "result": {"content": []}}]
    daemon.answers["tools.call"] = lambda params: results.pop(0)
    assert at_terminal(folder, "call", "files__write", typed="t\ny\n").code == 0
    assert [request["method"] for request in daemon.requests if request["method"] != "hello"] == [
        "tools.call",
        "approvals.get",
        "servers.trust",
        "tools.call",
        "approvals.get",
        "approvals.approve",
        "tools.call",
    ]


def test_without_a_terminal_it_ends_with_the_id(daemon: Control, folder: Path) -> None:
    call_answers(daemon)
    done = run(folder, "call", "files__write")
    assert (done.returncode, done.stdout) == (5, "")
    assert NAME in done.stderr
    assert asked(daemon, "approvals.get") == []
    call_answers(daemon)
    done = run(folder, "call", "files__write", "--json")
    assert json.loads(done.stdout or done.stderr)["error"]["approval"] == NAME


def test_it_can_wait_for_somebody_else(daemon: Control, folder: Path) -> None:
    call_answers(daemon)
    seen = at_terminal(folder, "call", "files__write", "--wait", "2m")
    assert seen.code == 5
    assert daemon.params("tools.call")["patience"] == 120
    assert asked(daemon, "approvals.get") == []


def test_an_answer_that_the_daemon_refuses_ends_the_call(daemon: Control, folder: Path) -> None:
    call_answers(daemon)
    daemon.answers["approvals.approve"] = Refusal("refused", "cannot do it for an agent")
    seen = at_terminal(folder, "call", "files__write", typed="y\n")
    assert seen.code == 4
    assert "cannot do it for an agent" in seen.screen


# ----------------------------------------------------------------------------- watch


GRANTED = {
    "grant": {"id": "g1"},
    "answered": 1,
    "covered": 1,
    "beyond": [],
}


def watched(daemon: Control, **fields: Any) -> None:
    """One question. It is listed twice, with news after each; then the daemon ends."""
    answers(daemon, **fields)
    lists: list[Any] = [{**EMPTY, "approvals": [approval(**fields)]}] * 2
    news = {"method": "event", "params": {"seq": 2, "topic": "approvals", "data": ""}}
    daemon.answers |= {
        "events.subscribe": {"seq": 1, "gap": False, "snapshot": {"servers": []}},
        "grants.add": GRANTED,
        "servers.trust": {},
        "approvals.list": lambda params: lists.pop() if lists else Hangup(),
    }
    daemon.after["approvals.list"] = [news]


TEXT = {"path": "/home/me/notes/x", "n": 1}


@pytest.mark.parametrize(
    ("typed", "method", "params"),
    [
        ("y\n", "approvals.approve", {"id": NAME, "seen": "abc234"}),
        ("n\n", "approvals.deny", {"id": NAME}),
        (
            "a\n",
            "grants.add",
            {"agent": "coder", "server": "files", "tool": "write", "lifespan": "session", "session": "s1"},
        ),
        ("t\n", "servers.trust", {"server": "files"}),
        (
            "g\n1\n1\n",
            "grants.add",
            {"agent": "coder", "server": "files", "tool": "write", "lifespan": "until", "seconds": 3600.0},
        ),
        (
            "g\n2\n3\n",
            "grants.add",
            {
                "agent": "coder",
                "server": "files",
                "tool": "write",
                "lifespan": "forever",
                "where": [{"argument": "path", "test": "under", "value": "/home/me/notes"}],
            },
        ),
        (
            "g\n3\n2\n",
            "grants.add",
            {
                "agent": "coder",
                "server": "files",
                "tool": "write",
                "lifespan": "until",
                "seconds": 86400.0,
                "where": [
                    {"argument": "path", "test": "equals", "value": '"/home/me/notes/x"'},
                    {"argument": "n", "test": "equals", "value": "1"},
                ],
                "only": True,
            },
        ),
        ("g\n9\nn\n", "approvals.deny", {"id": NAME}),
        ("g\n1\nx\nn\n", "approvals.deny", {"id": NAME}),
    ],
)
def test_the_keys(daemon: Control, folder: Path, typed: str, method: str, params: dict[str, Any]) -> None:
    shown = [argument("path", "path", "/home/me/notes/x"), argument("", "n", "1")]
    watched(daemon, text=TEXT, arguments=shown)
    seen = at_terminal(folder, "approvals", "--watch", typed=typed)
    assert daemon.params(method) == params, seen.screen
    assert seen.code == 3


def test_where_only_a_yes_counts_no_grant_is_offered(daemon: Control, folder: Path) -> None:
    watched(daemon, once_only=True)
    seen = at_terminal(folder, "approvals", "--watch", typed="a\ng\nq\n")
    assert seen.code == 0
    assert asked(daemon, "grants.add") == []
    assert "only a yes to this very call does" in seen.screen


def test_a_server_that_is_trusted_already_is_not_offered_to_be(daemon: Control, folder: Path) -> None:
    watched(daemon, trustable=False)
    seen = at_terminal(folder, "approvals", "--watch", typed="t\nq\n")
    assert asked(daemon, "servers.trust") == []
    assert "trust" not in seen.screen
    watched(daemon)
    assert "t trust" in at_terminal(folder, "approvals", "--watch", typed="q\n").screen


def test_skipped_questions_are_not_asked_again(daemon: Control, folder: Path) -> None:
    watched(daemon)
    seen = at_terminal(folder, "approvals", "--watch", typed="s\n")
    assert seen.code == 3
    assert len(asked(daemon, "approvals.get")) == 1


def test_an_explanation(daemon: Control, folder: Path) -> None:
    watched(daemon, text=TEXT)
    daemon.answers["policy.explain"] = {
        "name": "files__write",
        "agent": "coder",
        "verdict": "ask",
        "once_only": False,
        "rules": [{"decides": True, "field": "risk", "says": "high", "rule": 'server "files" is untrusted'}],
        "changes": [{"verdict": "allow", "step": "mcpctl trust files"}],
        "notes": [],
    }
    seen = at_terminal(folder, "approvals", "--watch", typed="?\nq\n")
    assert "files__write for agent coder: asked for" in seen.screen
    assert "mcpctl trust files" in seen.screen
    assert daemon.params("policy.explain") == {
        "agent": "coder",
        "server": "files",
        "tool": "write",
        "session": "s1",
        "arguments": TEXT,
    }


def test_a_question_that_somebody_else_answered(daemon: Control, folder: Path) -> None:
    watched(daemon)
    daemon.answers["approvals.approve"] = Refusal("no_such_approval", "it is open no more: approved")
    seen = at_terminal(folder, "approvals", "--watch", typed="y\n")
    assert "it is open no more: approved" in seen.screen
    assert seen.code == 3
