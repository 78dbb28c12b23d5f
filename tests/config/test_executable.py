"""Which file is started for a command, and what a server's destination depends on (b03, n24)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcpd.config.executable import NoCommand, located, still
from mcpd.config.load import load
from mcpd.config.spec import Policy, Server


def tool(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def server(**fields: Any) -> Server:
    return Server(**{"name": "s", "source": "test", "command": "prog", **fields})


def test_the_file_is_settled_when_the_files_are_read(tmp_path: Path) -> None:
    late = tool(tmp_path / "late" / "prog")
    environ = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/early:{tmp_path}/late"}
    (tmp_path / "servers.d").mkdir()
    (tmp_path / "servers.d" / "s.toml").write_text('command = "prog"')
    found = load(tmp_path, environ).servers["s"]
    assert found.executable == str(late)
    # Whoever may write an earlier folder of PATH starts nothing: the file found first is what is started.
    early = tool(tmp_path / "early" / "prog")
    assert still(found) == str(late)
    again = load(tmp_path, environ).servers["s"]
    assert again.executable == str(early)
    assert again.destination != found.destination
    assert again.digest != found.digest


def test_a_file_that_has_gone_is_said(tmp_path: Path) -> None:
    file = tool(tmp_path / "prog")
    found = located(server(), {"PATH": str(tmp_path)})
    file.unlink()
    with pytest.raises(NoCommand, match="is there no more; mcpctl reload") as caught:
        still(found)
    assert caught.value.reason == "command_not_found"
    file.write_text("")
    os.chmod(file, 0o644)
    with pytest.raises(NoCommand, match="not executable"):
        still(found)


def test_without_a_file_there_is_none_yet() -> None:
    missing = server(command="no-such-xyz")
    assert located(missing, {"PATH": "/usr/bin"}) == missing
    remote = server(command="", url="https://a.example/mcp")
    assert located(remote, {}) == remote


CHILD = server(command="/bin/cat", args=("-u",), cwd="/tmp")
REMOTE = server(command="", url="https://a.example/mcp")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CHILD, replace(CHILD, command="/usr/bin/env")),
        (replace(CHILD, executable="/bin/cat"), replace(CHILD, executable="/home/u/bin/cat")),
        (CHILD, replace(CHILD, args=())),
        (CHILD, replace(CHILD, args=("-", "u"))),
        (CHILD, replace(CHILD, cwd="/")),
        (CHILD, REMOTE),
        (REMOTE, replace(REMOTE, url="http://a.example/mcp")),
        (REMOTE, replace(REMOTE, url="https://b.example/mcp")),
        (REMOTE, replace(REMOTE, url="https://a.example:444/mcp")),
        (REMOTE, replace(REMOTE, url="https://a.example/mcp/")),
        (REMOTE, replace(REMOTE, url="https://a.example")),
    ],
)
def test_another_destination_n24(one: Server, other: Server) -> None:
    """stdio: resolved command, args, cwd; HTTP: scheme, host, port, path."""
    assert one.destination != other.destination


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CHILD, replace(CHILD, env={"TOKEN": "another"})),
        (CHILD, replace(CHILD, policy=Policy(risk="low"), start="eager", replay="always")),
        (CHILD, replace(CHILD, name="other", source="elsewhere", enabled=False)),
        (
            replace(CHILD, command="cat", executable="/bin/cat"),
            replace(CHILD, path="/bin", executable="/bin/cat"),
        ),
        (REMOTE, replace(REMOTE, headers={"Authorization": "Bearer x"})),
        (REMOTE, replace(REMOTE, url="https://a.example:443/mcp?key=value")),
        (REMOTE, replace(REMOTE, url="https://A.example/mcp")),
    ],
)
def test_the_same_destination_n24(one: Server, other: Server) -> None:
    assert one.destination == other.destination
