"""The daemon's own commands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import LIMIT, Control, Hang, Hangup, Refusal, environment, run, server

STATUS: dict[str, Any] = {
    "version": "0.1.0",
    "pid": 42,
    "instance": "i",
    "started": 1.0,
    "uptime": 7300.0,
    "servers": {"connected": 2, "failed": 1, "idle": 0},
    "sessions": 3,
    "problems": [],
    "sockets": {"control": "/c", "agents": {}},
    "config_file": "/c/config.toml",
    "servers_dir": "/c/servers.d",
    "agents": ["default", "coder"],
}
PROBLEM = {"file": "/c/x.toml", "place": "line 3", "message": "odd\x1b"}


def test_status(daemon: Control, folder: Path) -> None:
    daemon.answers |= {
        "daemon.status": {**STATUS, "problems": [PROBLEM]},
        "servers.list": {"servers": [server()]},
    }
    done = run(folder, "status")
    for word in (
        "42",
        "2 connected, 1 failed",
        "default, coder",
        "MCPD_RUNTIME_DIR",
        "/c/x.toml: line 3: odd\\u001b",
    ):
        assert word in done.stdout
    assert "idle" not in done.stdout
    assert "not in order" not in done.stdout
    assert json.loads(run(folder, "status", "--json").stdout) == {**STATUS, "problems": [PROBLEM]}


def test_what_is_not_in_order_is_named(daemon: Control, folder: Path) -> None:
    broken = [
        server(f"s{number}", status={"state": "failed", "reason": "exited", "error": "code 3\x1b"})
        for number in range(7)
    ]
    held = server("kept", held="it leads elsewhere")
    for servers, named in (
        ([server(), held, *broken[:1]], ["kept: connected: it leads elsewhere", FAILED]),
        (broken[:5], [FAILED.replace("s0", f"s{number}") for number in range(5)]),
        (broken, [*(FAILED.replace("s0", f"s{n}") for n in range(5)), "and 2 more: mcpctl list"]),
    ):
        daemon.answers |= {"daemon.status": STATUS, "servers.list": {"servers": servers}}
        status = run(folder, "status").stdout
        lines = [line.strip() for line in status.partition("not in order")[2].splitlines()]
        assert lines[: len(named)] == named
        assert lines[len(named)].startswith("sessions")
        alone = run(folder).stdout.splitlines()[1:-1]
        assert [line.strip() for line in alone] == named


FAILED = "s0: failed: exited: code 3\\u001b"


@pytest.mark.parametrize(
    ("servers", "problems", "said"),
    [
        ([], [], "mcpctl add"),
        ([server()], [], "mcpctl tools"),
        ([server("a"), server("b", status={"state": "failed", "reason": "exited"})], [], "mcpctl logs b"),
        (
            [server("b", held="it is new", step="mcpctl reload", status={"state": "held"})],
            [],
            "mcpctl reload",
        ),
        ([server("b", held="it is elsewhere", step="mcpctl accept b")], [], "mcpctl accept b"),
        ([server()], [PROBLEM], "mcpctl reload"),
    ],
)
def test_the_next_step(
    daemon: Control, folder: Path, servers: list[Any], problems: list[Any], said: str
) -> None:
    daemon.answers |= {
        "daemon.status": {**STATUS, "problems": problems},
        "servers.list": {"servers": servers},
    }
    done = run(folder)
    assert done.returncode == 0
    assert said in done.stdout.splitlines()[-1]


def test_alone_as_json(daemon: Control, folder: Path) -> None:
    daemon.answers |= {"daemon.status": STATUS, "servers.list": {"servers": [server()]}}
    alone = run(folder, "--json")
    assert json.loads(alone.stdout) == {"running": True, "status": STATUS, "servers": [server()]}
    assert "MCPD_RUNTIME_DIR" in run(folder).stderr, "a moved socket is said (DESIGN 9)"


def test_without_a_daemon_as_json(folder: Path) -> None:
    assert json.loads(run(folder, "--json").stdout) == {"running": False}
    assert run(folder, "socket-path", "--agent", "any").stdout == f"{folder}/agents/any/mcp.sock\n"
    assert json.loads(run(folder, "stop", "--json").stdout) == {"was_running": False}


def test_reload(daemon: Control, folder: Path) -> None:
    found = {"added": ["a", "b"], "changed": [], "removed": ["c"], "unchanged": ["d"], "problems": [PROBLEM]}
    daemon.answers["daemon.reload"] = found
    done = run(folder, "reload")
    assert done.stdout == "added      a, b\nremoved    c\nunchanged  1 server\n"
    assert done.stderr == "mcpctl: /c/x.toml: line 3: odd\\u001b\n"
    assert json.loads(run(folder, "reload", "--json").stdout) == found
    found["applied"] = [{"place": "servers.a", "what": 'new: ["x\x1b"]'}]
    assert run(folder, "reload").stdout.splitlines()[-1] == '  servers.a: new: ["x\\u001b"]'


@pytest.mark.parametrize("answer", [{}, Hangup()])
def test_stop_waits_for_the_end(daemon: Control, folder: Path, answer: Any) -> None:
    """The daemon closes the connection, then its process ends; only then `stop` returns."""
    process = subprocess.Popen([sys.executable, "-I", "-c", "input()"], stdin=subprocess.PIPE)

    def stopping(params: object) -> object:
        assert process.stdin is not None
        process.stdin.close()
        return answer

    daemon.answers |= {"hello": {**daemon.answers["hello"], "pid": process.pid}, "daemon.stop": stopping}
    daemon.hang_up_after.add("daemon.stop")
    with process:
        assert run(folder, "stop").returncode == 0
        process.wait(LIMIT)


def test_the_state_of_no_daemon_names_what_starts_it(folder: Path) -> None:
    """Nobody has to start it; who forbids that gets the command that does."""
    done = run(folder, "status", environ=environment(folder, MCPD_NO_SPAWN=""))
    assert (done.returncode, "the next command that needs it starts it" in done.stderr) == (3, True)
    for words, forbidden in ((("status", "--no-spawn"), ""), (("status",), "1")):
        done = run(folder, *words, environ=environment(folder, MCPD_NO_SPAWN=forbidden))
        assert (done.returncode, "start it with: mcpd run" in done.stderr) == (3, True)


def test_a_daemon_of_another_api_can_be_stopped(daemon: Control, folder: Path) -> None:
    """It is what the message about the mismatch asks for."""
    daemon.answers |= {"hello": Refusal("api_mismatch", api=[2, 3]), "daemon.stop": {}}
    daemon.hang_up_after.add("daemon.stop")
    assert run(folder, "status").returncode == 8
    done = run(folder, "stop", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"was_running": True})


def test_a_stop_that_takes_too_long(daemon: Control, folder: Path) -> None:
    daemon.answers["daemon.stop"] = {}
    assert run(folder, "stop", "--timeout", "100ms").returncode == 7
    daemon.answers["daemon.stop"] = Hang()
    assert run(folder, "stop", "--timeout", "100ms").returncode == 7


def test_the_socket_of_an_unknown_agent(daemon: Control, folder: Path) -> None:
    daemon.answers["daemon.status"] = STATUS
    done = run(folder, "socket-path", "--agent", "nope")
    assert (done.returncode, done.stdout) == (6, "")
    assert "default, coder" in done.stderr


def test_version_and_socket_path(daemon: Control, folder: Path) -> None:
    daemon.answers["daemon.status"] = STATUS
    assert json.loads(run(folder, "version", "--json").stdout) == {"mcpctl": "0.1.0", "mcpd": "0.1.0"}
    assert run(folder, "socket-path").stdout == f"{folder}/control.sock\n"
    assert run(folder, "socket-path", "--agent", "coder").stdout == f"{folder}/agents/coder/mcp.sock\n"
    assert json.loads(run(folder, "socket-path", "--json").stdout) == {
        "socket": f"{folder}/control.sock",
        "set_by": "MCPD_RUNTIME_DIR",
    }
