"""`mcpctl endpoint`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import Control, Refusal, run

URLS = ["http://127.0.0.1:6273/mcp", "http://[::1]:6273/mcp"]
OFF: dict[str, Any] = {
    "enabled": False,
    "port": 6273,
    "urls": [],
    "problem": "",
    "sessions": 0,
    "tokens": [],
}
ON = {**OFF, "enabled": True, "urls": URLS, "sessions": 2}
TOKEN = {"agent": "coder", "token": "mcpd_abc", "replaced": False, "urls": URLS}


@pytest.mark.parametrize(
    ("status", "said", "noted"),
    [
        (OFF, ["disabled", "6273", "none"], "mcpctl endpoint enable"),
        ({**OFF, "port": 0}, ["any free one"], "mcpctl endpoint enable"),
        (ON, ["listens", *URLS, "2"], "mcpctl endpoint token AGENT"),
        (
            {
                **OFF,
                "enabled": True,
                "problem": "cannot listen: taken",
                "tokens": [
                    {"agent": "coder", "made": 1e9, "usable": True},
                    {"agent": "left", "made": 1e9, "usable": False},
                ],
            },
            ["enabled, does not listen", "cannot listen: taken", "coder, made 2001-09-0", "no such agent"],
            "",
        ),
    ],
)
def test_status(daemon: Control, folder: Path, status: Any, said: list[str], noted: str) -> None:
    daemon.answers["endpoint.status"] = status
    done = run(folder, "endpoint")
    assert done.returncode == 0
    for word in said:
        assert word in done.stdout
    assert noted in done.stderr
    assert json.loads(run(folder, "endpoint", "status", "--json").stdout) == status


@pytest.mark.parametrize(
    ("words", "method", "params"),
    [
        (["enable"], "endpoint.enable", {}),
        (["enable", "--port", "0"], "endpoint.enable", {"port": 0}),
        (["enable", "--port", "65535"], "endpoint.enable", {"port": 65535}),
        (["disable"], "endpoint.disable", {}),
        (["token", "coder", "--revoke"], "endpoint.revoke", {"agent": "coder"}),
    ],
)
def test_changes(daemon: Control, folder: Path, words: list[str], method: str, params: Any) -> None:
    daemon.answers[method] = ON
    done = run(folder, "endpoint", *words)
    assert done.returncode == 0
    assert URLS[0] in done.stdout
    assert (daemon.requests[-1]["method"], daemon.requests[-1]["params"]) == (method, params)


def test_any_free_port_is_said_to_be_another_at_each_start(daemon: Control, folder: Path) -> None:
    """Where it listens already it goes on there, and `--port 0` seemed to do nothing."""
    daemon.answers["endpoint.enable"] = ON
    done = run(folder, "endpoint", "enable", "--port", "0")
    assert f"port {ON['port']} until mcpd ends; any free one at each start" in done.stderr
    assert "at each start" not in run(folder, "endpoint", "enable").stderr


@pytest.mark.parametrize(("words", "rotate"), [([], False), (["--rotate"], True)])
def test_the_token_alone_is_the_answer(daemon: Control, folder: Path, words: list[str], rotate: bool) -> None:
    daemon.answers["endpoint.token"] = {**TOKEN, "replaced": rotate}
    done = run(folder, "endpoint", "token", "coder", *words)
    assert done.stdout == "mcpd_abc\n"
    assert URLS[0] in done.stderr
    assert ("before is of no use" in done.stderr) is rotate
    assert daemon.requests[-1]["params"] == {"agent": "coder", "rotate": rotate}
    assert json.loads(run(folder, "endpoint", "token", "coder", "--json").stdout)["token"] == "mcpd_abc"
    daemon.answers["endpoint.token"] = {**TOKEN, "urls": []}
    assert "mcpctl endpoint enable" in run(folder, "endpoint", "token", "coder").stderr


def test_refusals_pass(daemon: Control, folder: Path) -> None:
    daemon.answers["endpoint.token"] = Refusal("refused", "has a token", hint="--rotate makes another")
    done = run(folder, "endpoint", "token", "coder")
    assert done.returncode == 4
    assert "--rotate makes another" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["token"],
        ["enable", "coder"],
        ["status", "--port", "1"],
        ["enable", "--port", "65536"],
        ["enable", "--port", "-1"],
        ["enable", "--port", "x"],
        ["enable", "--rotate"],
        ["disable", "--revoke"],
        ["token", "coder", "--rotate", "--revoke"],
        ["restart"],
    ],
)
def test_words_that_do_not_go_together(daemon: Control, folder: Path, words: list[str]) -> None:
    assert run(folder, "endpoint", *words).returncode == 2
    assert [request["method"] for request in daemon.requests] in ([], ["hello"])
