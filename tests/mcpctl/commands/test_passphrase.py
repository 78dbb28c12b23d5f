"""`mcpctl passphrase`, and any command that needs it (n06): it is typed at the terminal, and only there."""

from __future__ import annotations

import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import LIMIT, Control, Refusal, command, environment, run

NEEDED = Refusal(
    "factor_needed", "cannot reload without the passphrase: sh[7] has left its parents", hint="h"
)
RELOADED: dict[str, list[Any]] = {
    "added": [],
    "changed": [],
    "removed": [],
    "unchanged": [],
    "applied": [],
    "problems": [],
}
SET = "set since 2001-09-09 01:46:40\n"


class Daemon:
    """Wants the passphrase `right` before it reloads."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.shown = False
        control.answers["daemon.reload"] = lambda _: RELOADED if self.shown else NEEDED
        control.answers["passphrase.prove"] = self.prove

    def prove(self, params: Any) -> Any:
        self.shown = params == {"passphrase": "right"}
        return {} if self.shown else Refusal("refused", "the passphrase is wrong")

    def asked(self) -> list[str]:
        return [request["method"] for request in self.control.requests if request["method"] != "hello"]


def at_terminal(folder: Path, typed: list[str], *words: str) -> tuple[int, str]:
    """mcpctl with a terminal of its own, at which a line is typed after each prompt: its exit code, and what
    stands on the terminal."""
    person, terminal = os.openpty()
    child = subprocess.Popen(
        ["setsid", "-c", "-w", *command(*words)],
        env=environment(folder),
        cwd=folder,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    try:
        while True:
            assert select.select([person], [], [], LIMIT)[0]
            shown += os.read(person, 4096)
            if typed and shown.endswith(
                (b"passphrase: ", b"passphrase (8 characters or more): ", b"once more: ")
            ):
                os.write(person, f"{typed.pop(0)}\n".encode())
    except OSError:
        pass  # the terminal is closed by its last program
    finally:
        os.close(person)
    return child.wait(LIMIT), shown.decode()


@pytest.mark.parametrize(
    ("typed", "code", "asked"),
    [
        (["right"], 0, ["daemon.reload", "passphrase.prove", "daemon.reload"]),
        (["wrong", "right"], 0, ["daemon.reload", *["passphrase.prove"] * 2, "daemon.reload"]),
        (["a", "b", "c", "right"], 4, ["daemon.reload", *["passphrase.prove"] * 3]),
    ],
)
def test_a_command_that_needs_it_asks_and_goes_on(
    daemon: Control, folder: Path, typed: list[str], code: int, asked: list[str]
) -> None:
    wants = Daemon(daemon)
    got, shown = at_terminal(folder, typed, "reload")
    assert got == code
    assert wants.asked() == asked
    assert "sh[7] has left its parents" in shown
    assert "right" not in shown, "what is typed is not shown"


def test_without_a_terminal_nobody_is_asked(daemon: Control, folder: Path) -> None:
    wants = Daemon(daemon)
    done = run(folder, "--json", "reload", input="right\n", start_new_session=True)
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["kind"] == "factor_needed"
    assert wants.asked() == ["daemon.reload"]


def test_setting_it_takes_two_that_are_the_same(daemon: Control, folder: Path) -> None:
    daemon.answers["passphrase.set"] = {"is_set": True, "set_at": 1e9}
    code, shown = at_terminal(folder, ["long enough", "long enough"], "passphrase", "set")
    assert code == 0
    assert "set since 2001-09-09" in shown
    assert daemon.params("passphrase.set") == {"passphrase": "long enough"}
    code, shown = at_terminal(folder, ["long enough", "other"], "passphrase", "set")
    assert (code, "not the same" in shown) == (2, True)


def test_it_is_not_taken_from_a_pipe(daemon: Control, folder: Path) -> None:
    done = run(folder, "passphrase", "set", input="long enough\nlong enough\n", start_new_session=True)
    assert done.returncode == 4
    assert "there is no terminal" in done.stderr
    assert [request["method"] for request in daemon.requests] == ["hello"]


@pytest.mark.parametrize(
    ("words", "method", "found", "said"),
    [
        ((), "passphrase.status", {"is_set": False, "set_at": 0}, "none is set\n"),
        (
            ("status",),
            "passphrase.status",
            {"is_set": True, "set_at": 1e9},
            "set since 2001-09-09 01:46:40\n",
        ),
        (("remove",), "passphrase.remove", {"is_set": False, "set_at": 0}, "none is set\n"),
    ],
)
def test_status_and_remove(
    daemon: Control, folder: Path, words: tuple[str, ...], method: str, found: Any, said: str
) -> None:
    daemon.answers[method] = found
    done = run(folder, "passphrase", *words)
    assert (done.returncode, done.stdout) == (0, said)
    assert json.loads(run(folder, "--json", "passphrase", *words).stdout) == found
