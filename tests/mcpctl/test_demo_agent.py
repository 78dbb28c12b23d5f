"""The example of packaging/ that people copy from: it says how it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcpctl.harness import LIMIT

SCRIPT = Path(__file__).parents[2] / "packaging" / "demo_agent.py"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "demo_agent.py NAME socket PATH"),
        (["me"], 2, "demo_agent.py NAME socket PATH"),
        (["me", "socket"], 2, "demo_agent.py NAME socket PATH"),
        (["me", "carrier-pigeon", "x"], 2, "demo_agent.py NAME socket PATH"),
        (["me", "socket", "/nowhere/mcp.sock"], 1, "/nowhere/mcp.sock: No such file"),
        (["me", "bridge", "/nowhere/mcpctl", "bridge"], 1, "/nowhere/mcpctl bridge: No such file"),
        (["me", "bridge", "true"], 1, "cannot"),
    ],
)
def test_wrong_use_is_no_traceback(words: list[str], code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
