"""Resources on the command line: the list with templates, and one that is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import Control, Refusal, run


def entry(uri: str = "note:///1", **fields: Any) -> dict[str, Any]:
    """A ResourceInfo."""
    return {
        "server": "fs",
        "uri": uri,
        "name": f"mcpd://fs/{uri}",
        "template": False,
        "label": "one",
        "title": "",
        "description": "The first.",
        "mime_type": "text/plain",
        "size": 3,
        "risk": "high",
        "approval": "never",
        **fields,
    }


def answer(*contents: Any) -> dict[str, Any]:
    return {"server": "fs", "uri": "note:///1", "duration": 0.1, "result": {"contents": list(contents)}}


def test_the_list_has_resources_and_templates(daemon: Control, folder: Path) -> None:
    page = {
        "resources": [
            entry(),
            entry("note:///{id}", template=True, label="", description="A\x1b[2J\nnote."),
            entry("blob:x", mime_type="", label="", description="", title="Title"),
        ],
        "next_cursor": "",
        "left_out": ['server "sad" is failed'],
    }
    daemon.answers["resources.list"] = page
    for words in (["resources"], ["resources", "list"]):
        done = run(folder, *words)
        assert [line.split() for line in done.stdout.splitlines()] == [
            ["URI", "TYPE", "APPROVAL", "DESCRIPTION"],
            ["mcpd://fs/note:///1", "text/plain", "never", "one"],
            ["mcpd://fs/note:///{id}", "template", "never", "A\\u001b[2J"],
            ["mcpd://fs/blob:x", "-", "never", "Title"],
        ]
        assert done.stderr == 'mcpctl: left out: server "sad" is failed\n'
    found = json.loads(run(folder, "resources", "--server", "fs", "--agent", "coder", "--json").stdout)
    assert found == {"resources": page["resources"], "left_out": page["left_out"]}
    assert daemon.params("resources.list") == {"server": "fs", "agent": "coder"}


def test_all_pages_are_read(daemon: Control, folder: Path) -> None:
    def page(params: dict[str, str]) -> dict[str, Any]:
        number = int(params.get("cursor", "0"))
        following = str(number + 1) if number < 2 else ""
        return {"resources": [entry(f"note:///{number}")], "next_cursor": following, "left_out": []}

    daemon.answers["resources.list"] = page
    found = json.loads(run(folder, "resources", "--json").stdout)
    assert [each["uri"] for each in found["resources"]] == ["note:///0", "note:///1", "note:///2"]


@pytest.mark.parametrize(
    ("words", "params"),
    [
        (["mcpd://fs/note:///1"], {"uri": "mcpd://fs/note:///1"}),
        (["note:///1", "--server", "fs"], {"uri": "note:///1", "server": "fs"}),
        (["note:///1", "--timeout", "2s"], {"uri": "note:///1", "timeout": 2.0}),
    ],
)
def test_what_is_read(daemon: Control, folder: Path, words: list[str], params: Any) -> None:
    daemon.answers["resources.read"] = answer({"uri": "note:///1", "text": "one"})
    done = run(folder, "resources", "read", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\n", "")
    assert daemon.params("resources.read") == {**params, "patience": 0}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"text": "a\nb\tc\x1b"}, "a\nb\tc\\u001b\n"),
        ({"blob": "QUJDRA==", "mimeType": "image/png"}, "[binary image/png: ~4 bytes]\n"),
        ({"blob": "QUJD"}, "[binary application/octet-stream: ~3 bytes]\n"),
        ("odd", "[binary application/octet-stream: ~0 bytes]\n"),
    ],
)
def test_contents_for_people(daemon: Control, folder: Path, part: Any, shown: str) -> None:
    daemon.answers["resources.read"] = answer(part)
    assert run(folder, "resources", "read", "x:y").stdout == shown
    assert json.loads(run(folder, "resources", "read", "x:y", "--json").stdout) == answer(part)


def test_a_cut_text_is_said_beside_it(daemon: Control, folder: Path) -> None:
    note = "[mcpd: 4,000 bytes of text left out, the limit is 1,000 bytes a result]"
    daemon.answers["resources.read"] = answer({"uri": "x:y", "text": "x"}, {"uri": "x:y", "text": note})
    done = run(folder, "resources", "read", "x:y")
    assert done.returncode == 0
    assert "the answer is cut: 4,000 bytes of text left out" in done.stderr
    assert "max_result" in done.stderr


@pytest.mark.parametrize(
    "words", [["read"], ["list", "note:///1"], ["write", "x:y"], ["read", "x:y", "--agent", "coder"]]
)
def test_usage(daemon: Control, folder: Path, words: list[str]) -> None:
    assert run(folder, "resources", *words).returncode == 2
    assert daemon.requests == [] or daemon.requests[-1]["method"] == "hello"


def test_an_unknown_resource(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = Refusal("no_such_resource", "no such resource")
    assert run(folder, "resources", "read", "x:y").returncode == 6
