"""Prompts on the command line: the list with their arguments, and one that is filled in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpctl.commands import prompts
from mcpctl.errors import CallError
from tests.mcpctl.harness import Control, Refusal, run


def entry(name: str = "fs__review", **fields: Any) -> dict[str, Any]:
    """A PromptInfo."""
    return {
        "server": "fs",
        "prompt": name.partition("__")[2],
        "name": name,
        "title": "",
        "description": "Review code.",
        "arguments": [
            {"name": "code", "description": "", "required": True},
            {"name": "style", "description": "", "required": False},
        ],
        "risk": "high",
        "approval": "never",
        **fields,
    }


def answer(*messages: Any) -> dict[str, Any]:
    return {"server": "fs", "prompt": "review", "duration": 0.1, "result": {"messages": list(messages)}}


def said(role: str, **block: Any) -> dict[str, Any]:
    return {"role": role, "content": block}


def test_the_list_marks_required_arguments_a15(daemon: Control, folder: Path) -> None:
    page = {
        "prompts": [entry(), entry("fs__greet", arguments=[], title="Greet\x1b")],
        "next_cursor": "",
        "left_out": [],
    }
    daemon.answers["prompts.list"] = page
    done = run(folder, "prompts")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["PROMPT", "ARGUMENTS", "APPROVAL", "DESCRIPTION"],
        ["fs__review", "code*", "style", "never", "Review", "code."],
        ["fs__greet", "-", "never", "Greet\\u001b"],
    ]
    found = json.loads(run(folder, "prompts", "list", "--server", "fs", "--agent", "a", "--json").stdout)
    assert found == {"prompts": page["prompts"], "left_out": []}
    assert daemon.params("prompts.list") == {"server": "fs", "agent": "a"}
    daemon.answers["prompts.list"] = {"prompts": [], "next_cursor": "", "left_out": []}
    assert run(folder, "prompts").stderr == "mcpctl: no prompts\n"


@pytest.mark.parametrize(
    ("words", "params"),
    [
        (["fs__greet"], {"name": "fs__greet", "arguments": {}}),
        (["greet", "--server", "fs"], {"server": "fs", "prompt": "greet", "arguments": {}}),
        (["fs__r", "code=1", "style=a b=c"], {"name": "fs__r", "arguments": {"code": "1", "style": "a b=c"}}),
        (["fs__r", '{"code": "x\\ny"}'], {"name": "fs__r", "arguments": {"code": "x\ny"}}),
        (["fs__r", "--timeout", "1m"], {"name": "fs__r", "arguments": {}, "timeout": 60.0}),
        (["--", "-n", "a=1"], {"name": "-n", "arguments": {"a": "1"}}),
        (["fs__r", "--", "--a=1"], {"name": "fs__r", "arguments": {"--a": "1"}}),
    ],
)
def test_what_is_got(daemon: Control, folder: Path, words: list[str], params: Any) -> None:
    daemon.answers["prompts.get"] = answer(said("user", type="text", text="hello"))
    done = run(folder, "prompts", "get", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[user] hello\n", "")
    assert daemon.params("prompts.get") == {**params, "patience": 0}


def test_messages_for_people_a19(daemon: Control, folder: Path) -> None:
    got = answer(
        said("user", type="text", text="a\nb\x1b"),
        said("assistant", type="image", data="QUJDRA==", mimeType="image/png"),
        said("user", type="resource", resource={"uri": "x:y", "text": "inner"}),
        {"role": "user"},
        "odd",
    )
    daemon.answers["prompts.get"] = got
    assert run(folder, "prompts", "get", "fs__r").stdout.splitlines() == [
        "[user] a",
        "b\\u001b",
        "[assistant] [binary image/png: ~4 bytes]",
        "[user] inner",
        "[user] ",
        "[None] ",
    ]
    assert json.loads(run(folder, "prompts", "get", "fs__r", "--json").stdout) == got


@pytest.mark.parametrize(
    "words", [["x"], ["=1"], ["a=1", "a=2"], ['{"a":1}'], ['{"a":"1"}', "b=2"], ["{"], ["a=\udcff"]]
)
def test_what_is_no_arguments(words: list[str]) -> None:
    with pytest.raises(CallError) as caught:
        prompts.arguments_of(words)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "words",
    [["get"], ["list", "fs__r"], ["drop", "x"], ["get", "fs__r", "--agent", "a"], ["list", "--", "x"]],
)
def test_usage(daemon: Control, folder: Path, words: list[str]) -> None:
    assert run(folder, "prompts", *words).returncode == 2


def test_an_unknown_prompt(daemon: Control, folder: Path) -> None:
    daemon.answers["prompts.get"] = Refusal("no_such_prompt", "no such prompt")
    assert run(folder, "prompts", "get", "x").returncode == 6
