"""Completion scripts come from what the commands declare; bash's is really run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcpctl.commands import MODULES
from tests.mcpctl.harness import LIMIT, Control, Hang, environment, run, server, tool

bash = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_verb_is_offered(folder: Path, shell: str) -> None:
    script = run(folder, "completion", shell).stdout
    assert all(verb in script for verb in MODULES)
    assert "unless_auto_approved" in script
    assert "completion --names tools" in script


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_can_read_it(folder: Path, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    script = run(folder, "completion", shell).stdout
    done = subprocess.run(
        [program, "-n"], input=script, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@bash
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["rec"], ["reconnect"]),
        (["--json", "rec"], ["reconnect"]),
        (["add", "x", "--ris"], ["--risk"]),
        (["add", "x", "--risk", ""], ["low", "medium", "high"]),
        (["test", ""], ["fs", "notes"]),
        (["test", "n"], ["notes"]),
        (["call", "fs__r"], ["fs__read"]),
        (["tools", "--server", ""], ["fs", "notes"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_bash_offers(daemon: Control, folder: Path, words: list[str], offered: list[str]) -> None:
    daemon.answers |= {
        "servers.list": {"servers": [server("fs"), server("notes"), server("$(touch ran)")]},
        "tools.list": {"tools": [tool(), tool("fs__`touch ran`")], "next_cursor": "", "left_out": []},
    }
    tools = folder / "bin"
    tools.mkdir()
    (tools / "mcpctl").write_text(f'#!/bin/sh\nexec {sys.executable} -I -m mcpctl "$@"\n')
    (tools / "mcpctl").chmod(0o755)
    script = run(folder, "completion", "bash").stdout
    typed = " ".join(f"'{word}'" for word in ["mcpctl", *words])
    asked = f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _mcpctl; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    environ = environment(folder)
    environ["PATH"] = f"{tools}:{environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == (offered, "")
    assert not (folder / "ran").exists()


def test_names_that_do_not_come_at_once_are_done_without(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.list"] = Hang()
    done = run(folder, "completion", "--names", "servers")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
