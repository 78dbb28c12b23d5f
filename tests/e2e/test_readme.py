"""The commands of the README's "Daily use", typed in their order, do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import Daemon

ROOT = Path(__file__).parents[2]
FILESYSTEM = ROOT / "tests/servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
BLOCK = re.compile(r"^```(sh|toml)\n(.*?)^```$", re.M | re.S)


@pytest.mark.npm
def test_daily_use(daemon: Daemon) -> None:
    assert FILESYSTEM.exists(), "packaging/test.sh installs the servers"
    (daemon.home.root / "notes").mkdir()
    codes: list[tuple[str, int]] = []
    for language, text in BLOCK.findall(daily_use()):
        if language == "toml":
            place = "config.toml" if "[agents." in text else "servers.d/notes.toml"
            (daemon.folder / place).write_text(text, "utf-8")
            continue
        for line in text.splitlines():
            done = shell(daemon, line)
            assert "Traceback" not in done.stderr
            codes.append((line, done.returncode))
            said = done.stdout + done.stderr
    # The section goes on with `mcpctl rpc` after its `mcpctl stop`.
    daemon.ctl("stop")
    refused = [line for line, code in codes if code != 0]
    assert refused == [line for line, _ in codes if line.startswith("mcpctl call ")], codes
    assert [code for line, code in codes if line in refused] == [5], said


def daily_use() -> str:
    """That section, with the server that tests/servers has instead of the one npx would fetch."""
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.partition("## Daily use\n")[2].partition("\n## ")[0]
    assert "npx -y @modelcontextprotocol/server-filesystem" in section
    return (
        section.replace("npx -y @modelcontextprotocol/server-filesystem", f"node {FILESYSTEM}")
        .replace('command = "npx"', 'command = "node"')
        .replace('["-y", "@modelcontextprotocol/server-filesystem"', f'["{FILESYSTEM}"')
    )


def shell(daemon: Daemon, line: str) -> subprocess.CompletedProcess[str]:
    script = f'mcpctl() {{ "{sys.executable}" -I -m mcpctl "$@"; }}\n{line}\n'
    return subprocess.run(
        ["sh", "-c", script],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        env=daemon.environ,
        cwd=daemon.home.root,
    )
