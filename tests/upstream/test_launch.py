"""What a server's process is started with (a32, b03)."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mcpd.config.spec import Server
from mcpd.processes import MARKER
from mcpd.transport.base import ConnectFailed
from mcpd.upstream import launch

DAEMON = {
    "HOME": "/home/me",
    "PATH": "/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "LC_ALL": "C",
    "TERM": "xterm",
    "USER": "me",
    "XDG_RUNTIME_DIR": "/run/user/1",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x",
    "SSH_AUTH_SOCK": "/x",
    "API_KEY": "secret",
    "MCPD_SECRETS_KEY": "secret",
    "NOTIFY_SOCKET": "/x",
    "PYTHONPATH": "/x",
    "LD_PRELOAD": "/x",
}


def server(command: str = "sh", **fields: Any) -> Server:
    return Server(name="s", source="test", command=command, **fields)


def tool(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def refusal(definition: Server, environ: dict[str, str]) -> ConnectFailed:
    with pytest.raises(ConnectFailed) as caught:
        launch.plan(definition, environ, "m")
    assert caught.value.lasting, "a person must change something first (D8)"
    return caught.value


def test_a_child_sees_a_short_list_of_the_daemons_environment() -> None:
    env = launch.environment(server(), DAEMON, "mark.1.")
    assert env == {
        "HOME": "/home/me",
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "LC_ALL": "C",
        "TERM": "xterm",
        "USER": "me",
        MARKER: "mark.1.",
    }


def test_its_own_variables_are_added_and_win() -> None:
    env = launch.environment(server(env={"API_KEY": "its own", "LANG": "de_DE", "E": ""}), DAEMON, "m")
    assert (env["API_KEY"], env["LANG"], env["E"]) == ("its own", "de_DE", "")


def test_nothing_of_mcpds_own_can_be_set_by_a_definition() -> None:
    env = launch.environment(server(env={"MCPD_RUNTIME_DIR": "/x", MARKER: "of another"}), DAEMON, "mark")
    assert {name: value for name, value in env.items() if name.startswith("MCPD")} == {MARKER: "mark"}


def test_a_value_that_a_shell_would_take_for_a_function_is_not_inherited() -> None:
    assert "LANG" not in launch.environment(server(), {"LANG": "() { :; }; x"}, "m")


@pytest.mark.parametrize(
    ("definition", "daemon", "expected"),
    [
        ({}, {"PATH": "/d"}, "/d"),
        ({}, {}, "/usr/local/bin:/usr/bin:/bin"),
        ({"env": {"PATH": "/e"}}, {"PATH": "/d"}, "/e"),
        ({"path": "/p"}, {"PATH": "/d"}, "/p:/d"),
        ({"path": "/p:/q", "env": {"PATH": "/e"}}, {"PATH": "/d"}, "/p:/q:/e"),
    ],
)
def test_the_path_of_the_child(definition: dict[str, Any], daemon: dict[str, str], expected: str) -> None:
    """`path` first, then PATH of the definition, else the daemon's."""
    assert launch.environment(server(**definition), daemon, "m")["PATH"] == expected


def test_where_a_command_is_looked_for(tmp_path: Path) -> None:
    for folder in ("path", "own", "daemon"):
        tool(tmp_path / folder / "prog")
    environ = {"PATH": str(tmp_path / "daemon"), "HOME": str(tmp_path)}
    own = {"PATH": str(tmp_path / "own")}
    found = [
        launch.plan(server("prog", **fields), environ, "m").argv[0]
        for fields in ({}, {"env": own}, {"env": own, "path": str(tmp_path / "path")})
    ]
    assert found == [str(tmp_path / folder / "prog") for folder in ("daemon", "own", "path")]


def test_a_file_that_cannot_be_run_does_not_hide_a_later_one(tmp_path: Path) -> None:
    tool(tmp_path / "a" / "prog", 0o644)
    (tmp_path / "b" / "prog").mkdir(parents=True)
    good = tool(tmp_path / "c" / "prog")
    path = ":".join(str(tmp_path / folder) for folder in "abc")
    assert launch.plan(server("prog"), {"PATH": f":{path}", "HOME": "/"}, "m").argv == (str(good),)


def test_a_command_with_a_slash_is_a_file_from_the_servers_folder(tmp_path: Path) -> None:
    good = tool(tmp_path / "bin" / "prog")
    for command in ("bin/prog", "./bin/prog", str(good)):
        found = launch.plan(server(command, cwd=str(tmp_path)), DAEMON, "m").argv[0]
        assert os.path.samefile(found, good)


def test_arguments_pass_as_they_are() -> None:
    args = ("a b", "", "--x=$HOME", "*", "\u00e9\n")
    assert launch.plan(server("sh", args=args), {**DAEMON, "HOME": "/"}, "m").argv[1:] == args


def test_the_folder_is_the_home_folder_unless_one_is_named(tmp_path: Path) -> None:
    environ = {**DAEMON, "HOME": str(tmp_path)}
    assert launch.plan(server(), environ, "m").cwd == str(tmp_path)
    assert launch.plan(server(cwd="/usr"), environ, "m").cwd == "/usr"


@pytest.mark.parametrize(
    ("fields", "reason", "word"),
    [
        ({"command": "no-such-xyz"}, "command_not_found", "no-such-xyz"),
        ({"command": "no-such-xyz", "path": "/opt/here"}, "command_not_found", "/opt/here"),
        ({"command": "./no-such-xyz"}, "command_not_found", "./no-such-xyz"),
        ({"command": "plain"}, "not_executable", "plain"),
        ({"command": "./plain"}, "not_executable", "./plain"),
        ({"command": "./folder"}, "not_executable", "./folder"),
        ({"command": "sh", "cwd": "/no/such/folder"}, "failed", "/no/such/folder"),
        ({"command": "sh", "cwd": "/etc/passwd"}, "failed", "/etc/passwd"),
        ({"command": ""}, "command_not_found", '""'),
        ({"command": "nul\0byte"}, "command_not_found", "not found"),
        ({"command": "./nul\0byte"}, "command_not_found", "not found"),
    ],
)
def test_what_cannot_be_started_says_why(
    tmp_path: Path, fields: dict[str, str], reason: str, word: str
) -> None:
    tool(tmp_path / "plain", 0o644)
    (tmp_path / "folder").mkdir()
    definition = server(**{"cwd": str(tmp_path), **fields})
    failure = refusal(definition, {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/"})
    assert failure.reason == reason
    assert word in failure.message


def test_permission_bits_of_the_owner_decide(tmp_path: Path) -> None:
    path = tool(tmp_path / "prog", stat.S_IRUSR)
    assert refusal(server(str(path)), {**DAEMON, "HOME": "/"}).reason == "not_executable"


@pytest.mark.parametrize(
    ("command", "yes"),
    [
        ("npx", True),
        ("/opt/node/bin/npx", True),
        ("uvx", True),
        ("docker", True),
        ("node", False),
        ("", False),
    ],
)
def test_launchers_are_known_by_name(command: str, yes: bool) -> None:
    """They get the long deadline of a first start (c12)."""
    assert launch.is_launcher(server(command)) is yes
