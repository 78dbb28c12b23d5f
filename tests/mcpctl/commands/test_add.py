"""`mcpctl add` (b03): what is stored, what is refused, what is said about the first connection."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import LIMIT, Control, Refusal, command, environment, run, server, server_test, tool


@pytest.fixture
def bin_folder(folder: Path) -> Path:
    """A folder of the caller's PATH with the program `serve`."""
    place = folder / "bin"
    place.mkdir()
    (place / "serve").write_text("#!/bin/sh\n")
    (place / "serve").chmod(0o755)
    return place


def add(folder: Path, bin_folder: Path, *words: str) -> Any:
    environ = environment(folder, PATH=f"relative:{bin_folder}:{os.environ['PATH']}")
    return run(folder, "add", *words, environ=environ)


@pytest.mark.parametrize(
    ("words", "stored"),
    [
        (["fs", "serve"], {"command": "serve", "args": [], "path": "{bin}"}),
        (["fs", "serve", "/data", "x=1"], {"command": "serve", "args": ["/data", "x=1"], "path": "{bin}"}),
        (
            ["fs", "--", "serve", "-y", "--", "-z"],
            {"command": "serve", "args": ["-y", "--", "-z"], "path": "{bin}"},
        ),
        (["fs", "serve", "--", "--cwd", "x"], {"command": "serve", "args": ["--cwd", "x"], "path": "{bin}"}),
        (
            ["fs", "serve", "a", "--cwd", "sub", "b"],
            {"command": "serve", "args": ["a", "b"], "path": "{bin}", "cwd": "{folder}/sub"},
        ),
        (["fs", "--path", "/opt/x", "later"], {"command": "later", "args": [], "path": "/opt/x"}),
        (["fs", "./bin/serve"], {"command": "{folder}/bin/serve", "args": []}),
        (["fs", "~/serve"], {"command": "{folder}/serve", "args": []}),
        (
            ["fs", "--start", "eager", "serve"],
            {"command": "serve", "args": [], "path": "{bin}", "start": "eager"},
        ),
        (
            ["fs", "--risk", "low", "--approval", "never", "--timeout", "2m", "serve"],
            {
                "command": "serve",
                "args": [],
                "path": "{bin}",
                "default_policy": {"risk": "low", "approval": "never", "timeout": 120.0},
            },
        ),
        (
            ["fs", "--timeout", "0", "serve"],
            {"command": "serve", "args": [], "path": "{bin}", "default_policy": {"timeout": 0.0}},
        ),
        (["fs", "https://mcp.example.com/v1?x=1"], {"url": "https://mcp.example.com/v1?x=1"}),
        (["fs", "--transport", "http", "HTTPS://h/mcp"], {"url": "HTTPS://h/mcp"}),
        (
            ["fs", "--transport", "sse", "http://[::1]:8080/sse", "--start", "eager", "--risk", "low"],
            {"url": "http://[::1]:8080/sse", "start": "eager", "default_policy": {"risk": "low"}},
        ),
        (
            ["fs", "--transport", "stdio", "--", "serve", "${HOME}"],
            {"command": "serve", "args": ["${HOME}"], "path": "{bin}"},
        ),
    ],
)
def test_what_is_stored(
    daemon: Control, folder: Path, bin_folder: Path, words: list[str], stored: dict[str, Any]
) -> None:
    daemon.answers["servers.add"] = server("fs")
    done = add(folder, bin_folder, "--no-wait", *words)
    assert done.returncode == 0, done.stderr
    wanted = {"name": "fs", **stored}
    for name in ("path", "cwd", "command"):
        if name in wanted:
            wanted[name] = wanted[name].replace("{bin}", str(bin_folder)).replace("{folder}", str(folder))
    assert daemon.params("servers.add") == wanted


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["fs", "--env", "KEY=hunter2", "serve"], "servers.d/fs.toml"),
        (["fs", "serve", "--env", "KEY=hunter2"], "servers.d/fs.toml"),
        (["fs", "--header", "KEY=hunter2", "serve"], "servers.d/fs.toml"),
        (["fs", "--header", "Authorization: Bearer hunter2", "serve"], '"Authorization"'),
        (["fs", "--header", "Authorization: Basic hunter2==", "serve"], '"Authorization"'),
        (["fs", "--env", "hunter2", "serve"], '"KEY"'),
        (["fs", "--env", "Bearer hunter2=x", "serve"], '"KEY"'),
        (["far", "--header", "Authorization: Bearer hunter2", "https://mcp.example.com"], '"Authorization"'),
        (["far", "--transport", "http"], "no URL given"),
        (["far", "ftp://mcp.example.com/x"], "begins with http"),
        (["far", " https://mcp.example.com/x"], "begins with http"),
        (["far", "--transport", "http", "serve"], "no URL given"),
        (["far", "--transport", "sse", "serve", "-y"], "--"),
        (["far", "--transport", "stdio", "https://mcp.example.com"], "contradicts"),
        (["far", "https://mcp.example.com", "more"], "no arguments"),
        (["far", "--cwd", "/", "https://mcp.example.com"], "--cwd"),
        (["far", "--path", "/bin", "https://mcp.example.com"], "--path"),
        (["fs", "no-such-program"], "--path"),
        (["fs", "serve", "-y"], "--"),
        (["fs", "--risk", "none", "serve"], "--risk"),
    ],
)
def test_what_is_refused(
    daemon: Control, folder: Path, bin_folder: Path, words: list[str], told: str
) -> None:
    done = add(folder, bin_folder, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "hunter2" not in done.stderr
    assert daemon.requests == []


def test_the_first_connection_is_shown(daemon: Control, folder: Path, bin_folder: Path) -> None:
    daemon.answers |= {
        "servers.add": server("fs", source="/c/fs.toml"),
        "servers.test": server_test(warnings=["a tool was left out"]),
        "tools.list": {
            "tools": [tool(), tool("fs__wipe", approval="always", risk="high")],
            "next_cursor": "",
            "left_out": ['server "fs": a tool was left out', "two names are one"],
        },
    }
    done = add(folder, bin_folder, "fs", "serve")
    assert done.returncode == 0
    assert (done.stdout + done.stderr).count("a tool was left out") == 1, "a warning is said once"
    assert "left out: two names are one" in done.stderr
    for word in (
        "/c/fs.toml",
        "2025-11-25",
        "a tool was left out",
        "fs__wipe",
        "high",
        "mcpctl call fs__read",
    ):
        assert word in done.stdout
    assert "MCPD_RUNTIME_DIR" in done.stderr, "a moved socket is said (DESIGN 9)"
    assert daemon.params("servers.test") == {"server": "fs"}
    assert daemon.params("tools.list") == {"server": "fs"}


def test_a_server_of_several_instances_is_said_to_be_one(
    daemon: Control, folder: Path, bin_folder: Path
) -> None:
    """Its command line alone has decided that (n04)."""
    for instance, told in (("shared", False), ("agent", True)):
        daemon.answers["servers.add"] = server("fs", instance=instance)
        done = add(folder, bin_folder, "fs", "--no-wait", "serve")
        assert done.returncode == 0
        assert ('instance = "shared"' in done.stderr) is told


def test_the_first_connection_as_json(daemon: Control, folder: Path, bin_folder: Path) -> None:
    daemon.answers |= {"servers.add": server("fs"), "servers.test": server_test()}
    assert json.loads(add(folder, bin_folder, "fs", "serve", "--json").stdout) == {
        "server": server("fs"),
        "test": server_test(),
    }
    assert json.loads(add(folder, bin_folder, "fs", "serve", "--json", "--no-wait").stdout)["test"] is None


WAITING = "mcpctl: waiting for fs to answer ..."


@pytest.mark.parametrize(
    ("words", "said"), [([], [WAITING]), (["--json"], []), (["--no-wait"], [])], ids=["", "json", "no-wait"]
)
def test_at_a_terminal_it_is_said_what_is_waited_for(
    daemon: Control, folder: Path, bin_folder: Path, words: list[str], said: list[str]
) -> None:
    ours, theirs = os.openpty()
    screen = b""

    def read(params: object) -> Any:
        """The first connection fails unless the line was there before it."""
        nonlocal screen
        while said and b"waiting" not in screen and select.select([ours], [], [], LIMIT / 2)[0]:
            screen += os.read(ours, 65536)
        return server_test() if bool(said) is (b"waiting" in screen) else Refusal("timed_out")

    daemon.answers |= {"servers.add": server("fs"), "servers.test": read}
    daemon.answers["tools.list"] = {"tools": [tool()], "next_cursor": "", "left_out": []}
    environ = environment(folder, PATH=f"{bin_folder}:{os.environ['PATH']}")
    done = subprocess.run(
        command("add", *words, "fs", "serve"),
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=LIMIT,
        check=False,
    )
    os.close(theirs)
    with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more
        while chunk := os.read(ours, 65536):
            screen += chunk
    os.close(ours)
    assert done.returncode == 0
    assert [line for line in screen.decode().splitlines() if "waiting" in line] == said


def test_elsewhere_nothing_is_said_of_waiting(daemon: Control, folder: Path, bin_folder: Path) -> None:
    daemon.answers |= {"servers.add": server("fs"), "servers.test": server_test()}
    daemon.answers["tools.list"] = {"tools": [tool()], "next_cursor": "", "left_out": []}
    assert "waiting" not in add(folder, bin_folder, "fs", "serve").stderr


def test_a_first_connection_that_fails(daemon: Control, folder: Path, bin_folder: Path) -> None:
    failed = {"state": "failed", "reason": "exited", "error": "cannot\x1b start"}
    daemon.answers |= {"servers.add": server("fs"), "servers.test": server_test(ok=False, status=failed)}
    done = add(folder, bin_folder, "fs", "serve")
    assert done.returncode == 12
    assert "cannot\\u001b start" in done.stdout
    assert "mcpctl logs fs" in done.stderr


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["serve", "here.py"], '"here.py"'),
        (["serve", "--", "-x", "sub/here.py", "here.py"], '"sub/here.py"'),
        (["serve", "there.py", "both.py"], ""),
        (["serve", "{folder}/here.py"], ""),
        (["--cwd", ".", "serve", "here.py"], ""),
        (["https://example.com/here.py"], ""),
    ],
)
def test_a_file_that_is_only_where_the_caller_stands_is_told_of_when_the_server_fails(
    daemon: Control, folder: Path, bin_folder: Path, words: list[str], named: str
) -> None:
    (folder / "sub").mkdir()
    (folder / "home").mkdir()
    for file in ("here.py", "sub/here.py", "both.py", "home/both.py", "home/there.py"):
        (folder / file).write_text("")
    failed = {"state": "failed", "reason": "exited", "error": "no such file"}
    daemon.answers |= {"servers.add": server("fs"), "servers.test": server_test(ok=False, status=failed)}
    environ = environment(folder, PATH=f"{bin_folder}:{os.environ['PATH']}", HOME=str(folder / "home"))
    done = run(folder, "add", "fs", *(word.format(folder=folder) for word in words), environ=environ)
    assert done.returncode == 12
    assert ("--cwd ." in done.stderr) == bool(named)
    assert named in done.stderr


def test_a_name_that_is_taken(daemon: Control, folder: Path, bin_folder: Path) -> None:
    daemon.answers["servers.add"] = Refusal("name_taken", 'cannot add "fs": it exists')
    done = add(folder, bin_folder, "fs", "serve")
    assert (done.returncode, done.stdout) == (1, "")
