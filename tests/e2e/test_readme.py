"""What the README shows, typed as it stands, does what it says."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.harness import LIMIT, Daemon, Refused, lively
from tests.servers.far import Far

ROOT = Path(__file__).parents[2]
FILESYSTEM = ROOT / "tests/servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
BLOCK = re.compile(r"^```(sh|toml)\n(.*?)^```$", re.M | re.S)


@pytest.mark.npm
def test_daily_use(daemon: Daemon) -> None:
    assert FILESYSTEM.exists(), "packaging/test.sh installs the servers"
    (daemon.home.root / "notes").mkdir()
    daemon.environ["DOCS_TOKEN"] = "t-1"
    codes: list[tuple[str, int]] = []
    with Far() as far:
        for language, text in BLOCK.findall(daily_use(far.url)):
            lines = text.splitlines()
            if language == "toml":
                (daemon.folder / place_of(text)).write_text(text, "utf-8")
            elif lines[0].startswith("mcpctl "):  # the other one sets up systemd
                codes += [(line, shell(daemon, line).returncode) for line in lines]
        codes += [(line, shell(daemon, line).returncode) for line in ("mcpctl reload", "mcpctl test docs")]
        daemon.ctl("stop")
    reload = codes.index(("mcpctl reload", 0))
    denied = [(line, code) for line, code in codes[:reload] if code != 0]
    assert denied == [("mcpctl call notes__list_allowed_directories", 5)]
    assert [code for _, code in codes[reload:]] == [0] * (len(codes) - reload), codes


def test_agents(daemon: Daemon) -> None:
    for name in ("notes", "docs"):
        daemon.server(name, lively(daemon.home.root / f"{name}.log"))
    daemon.start()
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.partition("\n## Agents\n")[2].partition("\n## ")[0]
    commands, file = (block for _, block in BLOCK.findall(section))
    for line in commands.splitlines():
        done = shell(daemon, line)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        if line.startswith("mcpctl agents show"):
            assert "medium risk" in done.stdout
            assert "docs__*" in done.stdout
    place = daemon.folder / "agents.d" / "reader.toml"
    assert not place.exists()
    place.write_text(file, "utf-8")
    assert shell(daemon, "mcpctl reload").returncode == 0
    assert daemon.ask("agents.get", agent="reader")["problems"] == []


def test_grants_and_why(daemon: Daemon) -> None:
    daemon.server("notes", lively(daemon.home.root / "notes.log", default_policy={}))
    (daemon.folder / "config.toml").write_text("[agents.coder]\n", "utf-8")
    daemon.start()
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.partition("\n## A yes that lasts\n")[2].partition("\n## Run it")[0]
    commands = "".join(block for _, block in BLOCK.findall(section))
    # The tools of the server that is here in the place of the one that deals with files.
    for theirs, ours in (
        ("read_text_file", "echo"),
        ("create_directory", "echo"),
        ("write_file", "wipe"),
        ("list_*", "e*"),
    ):
        commands = commands.replace(theirs, ours)
    for line in commands.splitlines():
        [first, *_] = daemon.ask("grants.list")["grants"] or [{"id": ""}]
        done = shell(daemon, line.replace("ID", first["id"]))
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert len(daemon.ask("grants.list")["grants"]) == 2


def test_talk_by_hand(daemon: Daemon) -> None:
    """All lines at once and then the end of the stream, as `socat` sends them; ten times, for their order."""
    (lines,) = re.findall(r"<<'EOF'\n(.*?)^EOF$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    daemon.server("lively", lively(daemon.home.root / "lively.log"))
    daemon.start()
    for _ in range(10):
        with socket.socket(socket.AF_UNIX) as agent:
            agent.settimeout(LIMIT)
            agent.connect(str(daemon.sockets / "agents/default/mcp.sock"))
            agent.sendall(lines.encode())
            agent.shutdown(socket.SHUT_WR)
            opened, listed = map(json.loads, agent.makefile("rb"))
        assert (opened["id"], listed["id"]) == (1, 2)
        assert opened["result"]["serverInfo"]["name"] == "mcpd"
        assert "lively__echo" in [tool["name"] for tool in listed["result"]["tools"]]


def test_what_happened(daemon: Daemon) -> None:
    section = (ROOT / "README.md").read_text("utf-8").partition("## What happened\n")[2].partition("\n## ")[0]
    ((_, block),) = BLOCK.findall(section)
    daemon.start()
    for _ in range(42):  # what is refused is in it too
        with pytest.raises(Refused):
            daemon.ask("servers.disable", server="nobody")
    lines = [line for line in block.splitlines() if "--follow" not in line]
    assert len(lines) == 3
    for line in lines:
        done = shell(daemon, line)
        assert done.returncode == 0, (line, done.stderr)


def place_of(text: str) -> str:
    """The file that a block of TOML is, below the configuration folder."""
    if "[agents." in text:
        return "config.toml"
    return "servers.d/docs.toml" if "\nurl = " in text else "servers.d/notes.toml"


def daily_use(remote: str) -> str:
    """That section, with the server that tests/servers has instead of the one npx would fetch, and the URL of
    a remote one that is there."""
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.partition("## Daily use\n")[2].partition("\n## ")[0]
    assert "npx -y @modelcontextprotocol/server-filesystem" in section
    return (
        section.replace("npx -y @modelcontextprotocol/server-filesystem", f"node {FILESYSTEM}")
        .replace('command = "npx"', 'command = "node"')
        .replace('["-y", "@modelcontextprotocol/server-filesystem"', f'["{FILESYSTEM}"')
        .replace("https://mcp.example.com/mcp", remote)
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
