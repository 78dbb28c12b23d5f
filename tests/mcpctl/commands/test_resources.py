"""Resources on the command line: the list with templates, and one that is read."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.mcpctl.harness import LIMIT, Control, Refusal, command, environment, run


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


def answer(*contents: Any, cut: bool = False) -> dict[str, Any]:
    result = {"contents": list(contents)}
    return {"server": "fs", "uri": "note:///1", "duration": 0.1, "result": result, "cut": cut}


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
    done = run(folder, "resources", "read", "x:y")
    assert done.stdout == shown
    assert ("--output FILE" in done.stderr) == ("[binary" in shown)
    assert json.loads(run(folder, "resources", "read", "x:y", "--json").stdout) == answer(part)


def test_a_cut_text_is_said_beside_it(daemon: Control, folder: Path) -> None:
    note = "[mcpd: 4,000 bytes of text left out, the limit is 1,000 bytes a result]"
    daemon.answers["resources.read"] = answer({"uri": "x:y", "text": "x"}, {"uri": "x:y", "text": note})
    done = run(folder, "resources", "read", "x:y")
    assert done.returncode == 0
    assert "the answer is cut: 4,000 bytes of text left out" in done.stderr
    assert "max_result" in done.stderr


@pytest.mark.parametrize(
    ("part", "saved"),
    [
        ({"blob": "AP8KDQ==", "mimeType": "image/png"}, b"\0\xff\n\r"),
        ({"text": "\u00e9\r\n\x1b[2J"}, b"\xc3\xa9\r\n\x1b[2J"),
        ({"blob": ""}, b""),
    ],
)
def test_a_resource_is_saved_as_it_is(daemon: Control, folder: Path, part: Any, saved: bytes) -> None:
    daemon.answers["resources.read"] = answer(part)
    file = folder / "saved"
    done = run(folder, "resources", "read", "x:y", "--output", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    assert f"saved {len(saved)} bytes to {file}" in done.stderr
    assert file.read_bytes() == saved


def test_a_file_that_is_there_is_replaced_on_a_word_alone(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = answer({"text": "new"})
    file, link = folder / "saved", folder / "link"
    file.write_text("precious")
    link.symlink_to(folder / "nowhere")
    for there in (file, link):
        done = run(folder, "resources", "read", "x:y", "-o", str(there))
        assert (done.returncode, "it exists" in done.stderr, "--force" in done.stderr) == (1, True, True)
    assert not daemon.requests, "nothing is read in vain"
    assert file.read_text() == "precious"
    assert run(folder, "resources", "read", "x:y", "-o", str(file), "--force").returncode == 0
    assert file.read_text() == "new"


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (answer({"text": "[binary image/png: ~9000000 bytes]"}, cut=True), "left out"),
        (answer({"text": "a"}, {"text": "b"}), "2 parts"),
        (answer(), "0 parts"),
        (answer("odd"), "parts"),
        (answer({"blob": "not base64!"}), "base64"),
        (answer({"uri": "x:y"}), "base64"),
        (answer({"uri": "x:y", "blob": 7}), "base64"),
    ],
)
def test_what_is_not_all_there_is_not_saved(daemon: Control, folder: Path, found: Any, why: str) -> None:
    daemon.answers["resources.read"] = found
    done = run(folder, "resources", "read", "x:y", "-o", str(folder / "saved"))
    assert done.returncode == 1
    assert why in done.stderr
    assert not (folder / "saved").exists()


def test_a_file_that_cannot_be_written(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = answer({"text": "x"})
    done = run(folder, "resources", "read", "x:y", "-o", str(folder / "no" / "such"))
    assert done.returncode == 1
    assert "there is no such folder" in done.stderr
    done = run(folder, "resources", "read", "x:y", "--force", "-o", str(folder))
    assert (done.returncode, "it is a folder" in done.stderr) == (1, True)
    assert run(folder, "resources", "read", "x:y", "-o", "").returncode == 1
    assert not daemon.requests, "nothing is read in vain"


def test_half_a_file_is_none(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = answer({"text": "x" * 10_000})

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = run(folder, "resources", "read", "x:y", "-o", "saved", preexec_fn=full)
    assert (done.returncode, "file too large" in done.stderr) == (1, True)
    assert not (folder / "saved").exists()
    assert run(folder, "resources", "read", "x:y", "-o", "saved").returncode == 0
    assert (folder / "saved").read_text() == "x" * 10_000


def test_the_old_file_is_there_until_the_new_one_is(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = answer({"text": "x" * 10_000})
    place = folder / "place"
    place.mkdir()
    file, link = place / "saved", folder / "link"
    file.write_text("precious")
    file.chmod(0o640)
    link.symlink_to(file)

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = run(folder, "resources", "read", "x:y", "--force", "-o", "link", preexec_fn=full)
    assert (done.returncode, "file too large" in done.stderr) == (1, True)
    assert [(each.name, each.read_text()) for each in place.iterdir()] == [("saved", "precious")]
    with file.open() as opened:
        assert run(folder, "resources", "read", "x:y", "--force", "-o", "link").returncode == 0
        assert opened.read() == "precious", "nobody sees it half written"
    assert [(each.name, each.read_text()) for each in place.iterdir()] == [("saved", "x" * 10_000)]
    assert (file.stat().st_mode & 0o7777, link.is_symlink()) == (0o640, True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_what_must_not_be_written_is_not_replaced(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = answer({"text": "new"})
    place = folder / "place"
    place.mkdir()
    (place / "mine").write_text("precious")
    (place / "mine").chmod(0o400)
    (place / "open").write_text("precious")
    place.chmod(0o500)
    for name, code, content in (("mine", 1, "precious"), ("open", 0, "new")):
        assert run(folder, "resources", "read", "x:y", "--force", "-o", f"place/{name}").returncode == code
        assert (place / name).read_text() == content
    place.chmod(0o700)
    assert len(list(place.iterdir())) == 2


@pytest.mark.parametrize("planted", ["link", "pipe", "file"])
def test_what_comes_there_meanwhile_is_not_followed(daemon: Control, folder: Path, planted: str) -> None:
    """A person may take minutes to say yes."""
    place = folder / "saved"

    def plant(params: dict[str, Any]) -> Any:
        if planted == "link":
            place.symlink_to(folder / "elsewhere")
        elif planted == "pipe":
            os.mkfifo(place)
        else:
            place.write_text("precious")
        return answer({"text": "new"})

    daemon.answers["resources.read"] = plant
    done = run(folder, "resources", "read", "x:y", "-o", "saved")
    assert (done.returncode, "file exists" in done.stderr) == (1, True)
    assert not (folder / "elsewhere").exists()
    assert planted != "file" or place.read_text() == "precious"


def test_a_file_of_two_names_stays_one(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = answer({"text": "new"})
    (folder / "saved").write_text("precious")
    (folder / "same").hardlink_to(folder / "saved")
    assert run(folder, "resources", "read", "x:y", "--force", "-o", "saved").returncode == 0
    assert (folder / "same").read_text() == "new"


def test_stdout_gets_what_is_saved_and_nothing_else(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = answer({"text": "new"})
    done = run(folder, "resources", "read", "x:y", "-o", "/dev/stdout")
    assert (done.returncode, done.stdout, done.stderr) == (0, "new", "")
    log = folder / "log"
    log.write_text("old ")
    with log.open("ab") as stdout:
        code = subprocess.run(
            command("resources", "read", "x:y", "-o", "/dev/stdout"),
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stdout,
            timeout=LIMIT,
            check=False,
        ).returncode
    assert (code, log.read_text()) == (0, "old new"), "it stands behind what is there"
    done = run(folder, "resources", "read", "x:y", "-o", "/dev/null")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "words",
    [
        ["read"],
        ["list", "note:///1"],
        ["write", "x:y"],
        ["read", "x:y", "--agent", "coder"],
        ["list", "--output", "x"],
        ["read", "x:y", "--force"],
        ["read", "x:y", "--json", "--output", "x"],
    ],
)
def test_usage(daemon: Control, folder: Path, words: list[str]) -> None:
    assert run(folder, "resources", *words).returncode == 2
    assert daemon.requests == [] or daemon.requests[-1]["method"] == "hello"


def test_an_unknown_resource(daemon: Control, folder: Path) -> None:
    daemon.answers["resources.read"] = Refusal("no_such_resource", "no such resource")
    assert run(folder, "resources", "read", "x:y").returncode == 6
