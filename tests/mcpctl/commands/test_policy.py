"""`mcpctl policy check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import Control, run

WRONG = {"line": 3, "place": "agents.c.max_risk", "message": 'did you mean "low"?\x1b', "certain": True}
ODD = {"line": 7, "place": "tool_policies.x__y", "message": 'no server is named "x"', "certain": False}


def checked(*findings: dict[str, Any], file: str) -> dict[str, Any]:
    return {"taken_for": "/u/config.toml", "findings": [{"file": file, **each} for each in findings]}


def test_each_finding_has_a_line_that_editors_find(daemon: Control, folder: Path) -> None:
    file = folder / "draft.toml"
    file.write_text("max_risk = 1")
    other = {**ODD, "file": "/u/agents.d/c.toml", "line": 0, "place": "", "certain": True}
    answer = checked(WRONG, ODD, file=str(file.resolve()))
    answer["findings"].append(other)
    daemon.answers["config.check"] = answer
    done = run(folder, "policy", "check", "draft.toml")
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        'draft.toml:3: agents.c.max_risk: did you mean "low"?\\u001b',
        'draft.toml:7: perhaps: tool_policies.x__y: no server is named "x"',
        '/u/agents.d/c.toml: no server is named "x"',
    ]
    assert daemon.params("config.check") == {"file": str(file.resolve()), "text": "max_risk = 1"}
    done = run(folder, "policy", "check", "draft.toml", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (1, answer)


def test_what_may_be_meant_so_is_no_failure(daemon: Control, folder: Path) -> None:
    (folder / "draft.toml").write_text("")
    daemon.answers["config.check"] = checked(ODD, file=str((folder / "draft.toml").resolve()))
    assert run(folder, "policy", "check", "draft.toml").returncode == 0
    daemon.answers["config.check"] = checked(file="")
    done = run(folder, "policy", "check", "draft.toml")
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing is wrong with it as /u/config.toml" in done.stderr


def test_without_a_file_the_daemons_own_is_checked(daemon: Control, folder: Path) -> None:
    file = folder / "config.toml"
    daemon.answers["daemon.status"] = {"config_file": str(file)}
    daemon.answers["config.check"] = checked(file=str(file))
    assert run(folder, "policy", "check").returncode == 0
    assert daemon.params("config.check") == {"file": str(file), "text": ""}
    file.write_text("# é")
    assert run(folder, "policy", "check").returncode == 0
    assert daemon.params("config.check") == {"file": str(file), "text": "# é"}


def test_a_draft_comes_by_standard_input(daemon: Control, folder: Path) -> None:
    daemon.answers["config.check"] = checked(file="")
    assert run(folder, "policy", "check", "-", input="[agents.c]\n").returncode == 0
    assert daemon.params("config.check")["text"] == "[agents.c]\n"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "No such file"),
        (b"a\n\xff", "line 2 is not UTF-8 text"),
        (b"#" * ((1 << 20) + 1), "larger than"),
    ],
)
def test_a_file_that_cannot_be_read(daemon: Control, folder: Path, data: bytes | None, said: str) -> None:
    if data is not None:
        (folder / "draft.toml").write_bytes(data)
    done = run(folder, "policy", "check", "draft.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
