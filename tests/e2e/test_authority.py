"""An agent cannot approve itself (n06): eight ways to try, and a person at three places who is let in.

The README has the same table.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.e2e.harness import Daemon, lively, until

HOST = str(Path(__file__).parent / "host.py")
BRIDGE = [sys.executable, "-I", "-m", "mcpctl", "bridge"]
PASSPHRASE = "correct horse battery"

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Attempt(NamedTuple):
    """One `mcpctl approve`, which leaves its exit code and its words behind."""

    script: str
    code_file: Path
    words_file: Path

    @property
    def argv(self) -> list[str]:
        return ["/bin/sh", self.script]

    def outcome(self) -> tuple[int, str]:
        until(self.code_file.exists)
        return int(self.code_file.read_text()), self.words_file.read_text()


class Place:
    """A daemon with a tool that asks, and what agents and people do there."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.folder = daemon.home.root
        self.environ = {**daemon.environ, "TMUX_TMPDIR": str(self.folder), "TERM": "dumb", "PS1": "$ "}
        self._count = 0

    def attempt(self, approval: str, *, promptless: bool = False) -> Attempt:
        """`promptless`: without a terminal at which mcpctl would ask for the passphrase and wait."""
        self._count += 1
        script, code, words = (self.folder / f"attempt{self._count}.{end}" for end in ("sh", "code", "words"))
        mcpctl = f"'{sys.executable}' -I -m mcpctl approve {approval}"
        away = "setsid -w " if promptless else ""
        script.write_text(f"{away}{mcpctl} >{words} 2>&1 </dev/null\necho $? >{code}~\nmv {code}~ {code}\n")
        return Attempt(str(script), code, words)

    def tell(self, name: str, **told: Any) -> None:
        """Have the host of that name do something, and wait until it has."""
        with socket.socket(socket.AF_UNIX) as host:
            host.settimeout(20)
            host.connect(str(self.folder / name))
            host.sendall(json.dumps(told).encode() + b"\n")
            assert host.recv(10) == b"done\n"

    def question(self, name: str) -> str:
        """The id of a new question, about a call of that host which was answered as pending."""
        self._count += 1
        before = {one["id"] for one in self.daemon.ask("approvals.list")["approvals"]}
        call = {"name": "lively__text", "arguments": {"text": f"call {self._count}"}}
        self.tell(name, call=call, id=self._count)

        def new() -> set[str]:
            return {one["id"] for one in self.daemon.ask("approvals.list")["approvals"]} - before

        return until(new).pop()

    def open(self, approval: str) -> bool:
        return any(one["id"] == approval for one in self.daemon.ask("approvals.list")["approvals"])

    def host(self, name: str) -> list[str]:
        return [sys.executable, "-I", HOST, str(self.folder / name), *BRIDGE]

    @contextmanager
    def hosted(self, name: str) -> Iterator[None]:
        """A host, started as a desktop starts one."""
        child = subprocess.Popen(self.host(name), env=self.environ, start_new_session=True)
        try:
            until((self.folder / name).exists)
            yield
        finally:
            child.kill()
            child.wait()

    def tmux(self, server: str, *words: str) -> list[str]:
        return ["tmux", "-L", server, "-f", "/dev/null", *words]

    @contextmanager
    def multiplexer(self) -> Iterator[None]:
        """The person's own tmux, with a shell in its first window."""
        self._tmux("new-session", "-d", "-s", "work", "-n", "person", "/bin/sh")
        try:
            yield
        finally:
            self._tmux("kill-server")

    def _tmux(self, *words: str) -> None:
        subprocess.run(self.tmux("people", *words), env=self.environ, check=True, timeout=20)

    def in_pane(self, attempt: Attempt) -> list[str]:
        """Keys for the person's pane; who sends them is the same to tmux."""
        return self.tmux("people", "send-keys", "-t", "work:person", f"sh {attempt.script}", "Enter")

    @contextmanager
    def terminal(self, *argv: str) -> Iterator[int]:
        """A program at a terminal of its own; what is written to the descriptor is typed there."""
        person, terminal = os.openpty()
        child = subprocess.Popen(
            ["setsid", "-c", "-w", *argv], env=self.environ, stdin=terminal, stdout=terminal, stderr=terminal
        )
        os.close(terminal)
        try:
            yield person
        finally:
            os.close(person)  # the terminal hangs up
            child.wait(20)

    def proofs(self, approval: str) -> list[str]:
        """How far whoever said yes was told from an agent, by the journal."""
        entries = self.daemon.ask("journal.query", kinds=["approval"], text="")["entries"]
        return [e["proof"] for e in entries if (e["approval"], e["outcome"]) == (approval, "approved")]


@pytest.fixture
def place(daemon: Daemon) -> Place:
    daemon.write("config.toml", {"schema": 1, "defaults": {"approval_wait": "50ms"}})
    asks = {"risk": "medium", "approval": "unless_auto_approved"}
    daemon.server("lively", lively(daemon.home.root / "lively.log", default_policy=asks))
    daemon.start()
    return Place(daemon)


def ways(place: Place, attempt: Attempt) -> dict[str, tuple[list[str], bool]]:
    """Way -> what the agent runs, and whether by a second fork."""
    script = ["script", "-qec", f"sh {attempt.script}", "/dev/null"]
    return {
        "directly": (attempt.argv, False),
        "setsid": (["setsid", "-w", *attempt.argv], False),
        "script": (script, False),
        "a second fork": (attempt.argv, True),
        "a second fork and script": (script, True),
        "a tmux of its own": (place.tmux("own", "new-session", "-d", f"sh {attempt.script}"), False),
        "send-keys": (place.in_pane(attempt), False),
        "the bridge ended first": (attempt.argv, False),
    }


REFUSED = ("directly", "setsid", "script", "the bridge ended first")
UNTOLD = ("a second fork", "a second fork and script", "a tmux of its own", "send-keys")


@needs_tmux
@pytest.mark.parametrize("way", REFUSED)
def test_what_an_agent_starts_is_refused(place: Place, way: str) -> None:
    with place.hosted("agent"):
        approval = place.question("agent")
        attempt = place.attempt(approval)
        if way == "the bridge ended first":
            place.tell("agent", end_bridge=True)
            until(lambda: not place.daemon.ask("agents.sessions")["sessions"])
        argv, twice = ways(place, attempt)[way]
        place.tell("agent", run=argv, twice=twice)
        code, words = attempt.outcome()
        assert (code, "for an agent" in words) == (4, True), words
        assert place.open(approval)
        assert place.proofs(approval) == []
        [entry] = place.daemon.ask("journal.query", kinds=["change"], text="approvals.approve")["entries"]
        assert entry["outcome"] == "refused"


@needs_tmux
@pytest.mark.parametrize("way", UNTOLD)
def test_who_cannot_be_told_from_a_person_is_on_record_or_shows_the_passphrase(
    place: Place, way: str
) -> None:
    with place.multiplexer(), place.hosted("agent"):
        approval = place.question("agent")
        attempt = place.attempt(approval)
        argv, twice = ways(place, attempt)[way]
        place.tell("agent", run=argv, twice=twice)
        code, words = attempt.outcome()
        assert code == 0, words
        assert place.proofs(approval) == ["unverified"]

        place.daemon.ask("passphrase.set", passphrase=PASSPHRASE)
        approval = place.question("agent")
        attempt = place.attempt(approval, promptless=True)
        argv, twice = ways(place, attempt)[way]
        place.tell("agent", run=argv, twice=twice)
        code, words = attempt.outcome()
        assert (code, "passphrase" in words) == (4, True), words
        assert place.open(approval)


@needs_tmux
def test_a_person_in_another_pane(place: Place) -> None:
    with place.multiplexer():
        words = " ".join(f"'{word}'" for word in place.host("agent"))
        place._tmux("new-window", "-d", f"exec {words}")
        until((place.folder / "agent").exists)
        approval = place.question("agent")
        attempt = place.attempt(approval)
        subprocess.run(place.in_pane(attempt), env=place.environ, check=True)
        assert attempt.outcome()[0] == 0
        assert place.proofs(approval) == ["unverified"]


def test_a_person_at_the_terminal_in_which_the_agent_runs_in_the_background(place: Place) -> None:
    with place.terminal("bash", "--norc", "-i") as keyboard:
        words = " ".join(f"'{word}'" for word in place.host("agent"))
        os.write(keyboard, f"{words} &\n".encode())
        until((place.folder / "agent").exists)
        approval = place.question("agent")
        attempt = place.attempt(approval)
        os.write(keyboard, f"sh {attempt.script}\n".encode())
        assert attempt.outcome()[0] == 0
        assert place.proofs(approval) in ([""], ["unverified"]), "by what the terminal was started"
        place.tell("agent", leave=True)


EDITOR = """
import json, subprocess, sys
helper, shell = json.loads(sys.argv[1])
with subprocess.Popen(helper, stdin=subprocess.DEVNULL) as extensions:
    subprocess.run(shell)
    extensions.kill()
"""


def test_a_person_in_the_terminal_of_an_editor_whose_extensions_host_the_agent(place: Place) -> None:
    programs = json.dumps([place.host("agent"), ["bash", "--norc", "-i"]])
    with place.terminal(sys.executable, "-I", "-c", EDITOR, programs) as keyboard:
        until((place.folder / "agent").exists)
        approval = place.question("agent")
        attempt = place.attempt(approval)
        os.write(keyboard, f"sh {attempt.script}\n".encode())
        assert attempt.outcome()[0] == 0
        assert place.proofs(approval) in ([""], ["unverified"]), "by what the editor was started"
        place.tell("agent", leave=True)
