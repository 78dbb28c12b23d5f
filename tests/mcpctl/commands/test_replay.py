"""`mcpctl policy replay` (n10)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import Control, run


def replayed(**fields: Any) -> dict[str, Any]:
    """A Replayed."""
    difference = {
        "agent": "coder",
        "server": "fs",
        "tool": "write\x1b",
        "was": "allow",
        "now": "ask",
        "count": 3,
        "first_at": 1.0,
        "last_at": 1_000_000.0,
        "entries": [3, 2, 1],
        "decided": "asked: no grant",
    }
    return {"examined": 5, "unknown": 0, "differences": [difference], "complete": True, **fields}


def test_what_would_be_decided_otherwise(daemon: Control, folder: Path) -> None:
    daemon.answers["policy.replay"] = replayed()
    done = run(folder, "policy", "replay")
    assert done.returncode == 0
    assert daemon.params("policy.replay") == {"since": 0, "until": 0, "server": ""}
    assert done.stdout.splitlines()[1].split() == [
        "3",
        "coder",
        "fs__write\\u001b",
        "allow",
        "ask",
        "1970-01-12",
        "13:46:40",
        "asked:",
        "no",
        "grant",
    ]
    assert done.stderr == "mcpctl: 5 requests looked at\n"
    assert json.loads(run(folder, "policy", "replay", "--json").stdout) == replayed()


def test_a_part_of_the_past(daemon: Control, folder: Path) -> None:
    daemon.answers["policy.replay"] = replayed(differences=[], unknown=2, complete=False)
    done = run(folder, "policy", "replay", "--since", "2h", "--agent", "-", "--server", "fs")
    params = daemon.params("policy.replay")
    assert abs(time.time() - 7200 - params.pop("since")) < 60
    assert params == {"until": 0, "server": "fs", "agent": ""}
    assert done.stdout == ""
    assert "all of them would be decided as they were" in done.stderr
    assert "5 requests looked at, the newest; older ones were not" in done.stderr
    assert "2 of them to servers whose tools are not known now" in done.stderr


@pytest.mark.parametrize(
    "words", [["replay", "config.toml"], ["replay", "--since", "soon"], ["check", "-", "--since", "2h"]]
)
def test_words_that_do_not_go_together(daemon: Control, folder: Path, words: list[str]) -> None:
    assert run(folder, "policy", *words).returncode == 2
