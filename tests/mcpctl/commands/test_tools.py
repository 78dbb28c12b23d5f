"""Tools: listing all pages, describing, calling with the very text that was written (b29)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from mcpd.catalog import content
from tests.mcpctl.harness import LIMIT, Control, Hang, Hangup, Raw, Refusal, command, environment, run, tool


def test_the_schema_is_asked_for_where_it_matters(daemon: Control, folder: Path) -> None:
    definition = {"inputSchema": {"type": "object", "properties": {"message": {"type": "string"}}}}
    daemon.answers |= {"tools.describe": {"definition": definition}, "tools.call": answer(content=[])}
    assert run(folder, "call", "echo", "--server", "fs", "message=2024", "n=1").returncode == 0
    assert daemon.params("tools.call")["arguments"] == {"message": "2024", "n": 1}
    assert daemon.params("tools.describe") == {"server": "fs", "tool": "echo"}
    for words in (["message=x"], ['{"message":2024}'], []):
        daemon.requests.clear()
        assert run(folder, "call", "fs__echo", *words).returncode == 0
        assert [request["method"] for request in daemon.requests] == ["hello", "tools.call"]
    odd: Any
    for odd in (Refusal("no_such_tool"), {"definition": {"inputSchema": []}}, {"definition": None}):
        daemon.answers["tools.describe"] = odd
        assert run(folder, "call", "fs__echo", "message=2024").returncode == 0
        assert daemon.params("tools.call")["arguments"] == {"message": 2024}


def test_a_tools_name_that_is_not_utf_8(daemon: Control, folder: Path) -> None:
    for verb in ("call", "describe"):
        done = subprocess.run(
            [os.fsencode(word) for word in command(verb)] + [b"fs__\xff"],
            env=environment(folder),
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        assert (done.returncode, b'"fs__\\xff"' in done.stderr) == (2, True)
    assert daemon.requests == []


def answer(**result: Any) -> dict[str, Any]:
    return {"server": "fs", "tool": "read", "duration": 0.1, "result": result}


@pytest.mark.parametrize(
    ("words", "params"),
    [
        (["fs__read", '{"n": 1.00}'], '{"name": "fs__read","arguments":{"n": 1.00}}'),
        (["read", "--server", "fs", "n=1.00"], '{"server": "fs", "tool": "read","arguments":{"n":1.00}}'),
        (["fs__read", "--timeout", "2m"], '{"name": "fs__read", "timeout": 120.0,"arguments":{}}'),
        (["fs__read", "a=1", "--json", "b=2"], '{"name": "fs__read","arguments":{"a":1,"b":2}}'),
        (["fs__read", "--", "--x=1"], '{"name": "fs__read","arguments":{"--x":1}}'),
        (["--server", "fs", "--", "-n"], '{"server": "fs", "tool": "-n","arguments":{}}'),
        (["--server", "fs", "--", "-n", "a=1"], '{"server": "fs", "tool": "-n","arguments":{"a":1}}'),
    ],
)
def test_the_request_is_the_text(daemon: Control, folder: Path, words: list[str], params: str) -> None:
    daemon.answers["tools.call"] = answer(content=[])
    assert run(folder, "call", *words).returncode == 0
    # Nobody waits for a person there: the one at this terminal is asked here (n05).
    assert daemon.lines[-1].decode().partition('"params":')[2] == params[:-1] + ',"patience":0}}\n'


def test_a_daemon_that_gets_stuck_does_not_hold_up_a_call(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.call"] = Hang()
    began = time.monotonic()
    assert run(folder, "call", "fs__read", "--timeout", "100ms").returncode == 7
    assert time.monotonic() - began < 8


def test_arguments_from_stdin(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.call"] = answer(content=[])
    assert run(folder, "call", "fs__read", "-", input='{\n"a": 1.0\n}\n').returncode == 0
    assert daemon.params("tools.call") == {"name": "fs__read", "arguments": {"a": 1.0}, "patience": 0}
    assert run(folder, "call", "fs__read", "-", input="").returncode == 2


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"content": [{"type": "text", "text": "a\nb\tc"}]}, "a\nb\tc\n"),
        ({"content": [{"type": "text", "text": "\x1b]0;x\x07\u202e"}]}, "\\u001b]0;x\\u0007\\u202e\n"),
        (
            {"content": [{"type": "image", "mimeType": "image/png", "data": "QUJDRA=="}]},
            "[binary image/png: ~4 bytes]\n",
        ),
        (
            {"content": [{"type": "audio", "mimeType": "a\x1b", "data": "QUJD"}]},
            "[binary a\\u001b: ~3 bytes]\n",
        ),
        ({"content": [{"type": "resource", "resource": {"uri": "x:y", "text": "inner"}}]}, "inner\n"),
        (
            {"content": [{"type": "resource", "resource": {"uri": "x:y", "blob": "QUJD"}}]},
            "[binary application/octet-stream: ~3 bytes]\n",
        ),
        ({"content": [{"type": "resource_link", "uri": "file:///x", "name": "x"}]}, "[resource file:///x]\n"),
        ({"content": [{"type": "hologram"}]}, "[hologram]\n"),
        ({"content": [], "structuredContent": {"a": "\u202e"}}, '{\n  "a": "\\u202e"\n}\n'),
        ({"content": "no list"}, ""),
        (
            {"content": [1, None, {"type": "resource"}, {}]},
            "1\nnull\n[binary application/octet-stream: ~0 bytes]\n[None]\n",
        ),
        ({}, ""),
    ],
)
def test_results_for_people(daemon: Control, folder: Path, result: dict[str, Any], shown: str) -> None:
    daemon.answers["tools.call"] = answer(**result)
    done = run(folder, "call", "fs__read")
    offer = "mcpctl: --output FILE saves what is binary\n" if re.search("~[1-9]", shown) else ""
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, offer)


TEXT = {"type": "text", "text": "here it is"}
IMAGE = {"type": "image", "data": "AP8KDQ==", "mimeType": "image/png"}
FILE = {"type": "resource", "resource": {"uri": "x:y", "blob": "AP8KDQ=="}}


@pytest.mark.parametrize("block", [IMAGE, FILE, {**IMAGE, "type": "audio"}])
def test_what_is_binary_is_saved_and_the_rest_said(daemon: Control, folder: Path, block: Any) -> None:
    daemon.answers["tools.call"] = answer(content=[TEXT, block])
    file = folder / "saved"
    done = run(folder, "call", "fs__read", "-o", str(file), "n=1")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "here it is")
    assert file.read_bytes() == b"\0\xff\n\r"
    again = run(folder, "call", "fs__read", "-o", str(file))
    assert (again.returncode, "--force" in again.stderr) == (1, True)
    assert len([each for each in daemon.requests if each["method"] == "tools.call"]) == 1
    assert run(folder, "call", "fs__read", "-o", str(file), "--force").returncode == 0


@pytest.mark.parametrize(
    ("content", "why"),
    [([TEXT], "nothing binary"), ([IMAGE, FILE], "2 binary parts"), ([{**IMAGE, "data": "?"}], "base64")],
)
def test_what_is_not_one_thing_is_not_saved(
    daemon: Control, folder: Path, content: list[Any], why: str
) -> None:
    daemon.answers["tools.call"] = answer(content=content)
    done = run(folder, "call", "fs__read", "-o", str(folder / "saved"))
    assert (done.returncode, why in done.stderr) == (1, True)
    assert done.stdout, "the call was made, so its answer is shown"
    daemon.answers["tools.call"] = answer(content=[IMAGE], isError=True)
    assert run(folder, "call", "fs__read", "-o", str(folder / "saved")).returncode == 9
    assert not (folder / "saved").exists()


def test_on_stdout_what_is_binary_stands_alone(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.call"] = answer(content=[TEXT, {**IMAGE, "data": "UE5H"}])
    done = run(folder, "call", "fs__read", "-o", "/dev/stdout")
    assert (done.returncode, done.stdout) == (0, "PNG")
    assert done.stderr == "here it is\n[binary image/png: ~3 bytes]\n"


def test_a_tools_own_error_is_its_answer(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.call"] = answer(content=[{"type": "text", "text": "no such file"}], isError=True)
    done = run(folder, "call", "fs__read")
    assert (done.returncode, done.stdout, done.stderr) == (9, "no such file\n", "")
    assert run(folder, "call", "fs__read", "--json").returncode == 9


def test_a_verdict_of_mcpd_is_an_error(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.call"] = Refusal("denied", "denied: nobody can be asked yet")
    done = run(folder, "call", "fs__read")
    assert (done.returncode, done.stdout) == (5, "")


def test_a_cut_answer_is_said_beside_it(daemon: Control, folder: Path) -> None:
    """`mcpctl call ... > file` is short with exit code 0; the words are those of the daemon."""
    big = json.dumps({"content": [{"type": "text", "text": "x" * 5000}, {"type": "hologram"}]}).encode()
    bounded = content.bound(big, 1000)
    assert bounded.cut
    daemon.answers["tools.call"] = answer(**json.loads(bounded.text))
    for words in ([], ["--json"]):
        done = run(folder, "call", "fs__read", *words)
        assert done.returncode == 0
        assert "the answer is cut: 4,000 bytes of text left out" in done.stderr
        assert "max_result" in done.stderr
        assert "4,000 bytes of text left out" in done.stdout
    quoted = [{"type": "text", "text": "[mcpd: 4 bytes of text left out]"}, {"type": "text", "text": "more"}]
    daemon.answers["tools.call"] = answer(content=quoted)
    assert run(folder, "call", "fs__read").stderr == ""


def test_a_daemon_that_ends_during_a_call(daemon: Control, folder: Path) -> None:
    """Not "not running" (3), which says that nothing has happened."""
    daemon.answers["tools.call"] = Hangup()
    done = run(folder, "call", "fs__read", "--json")
    assert done.returncode == 1
    assert "may or may not have taken effect" in done.stderr
    assert json.loads(done.stdout)["error"]["kind"] == "outcome_unknown"


def test_json_is_the_daemons_own_text(daemon: Control, folder: Path) -> None:
    text = '{"result":{"content":[],"structuredContent":{"n":1.00,"s":"\u202e"}},"duration":0.5}'
    daemon.answers["tools.call"] = Raw(text)
    assert run(folder, "call", "fs__read", "--json").stdout == text.replace("\u202e", "\\u202e") + "\n"


def test_all_pages_are_read(daemon: Control, folder: Path) -> None:
    def page(params: dict[str, str]) -> dict[str, Any]:
        number = int(params.get("cursor", "0"))
        return {
            "tools": [tool(f"fs__t{number}")],
            "next_cursor": str(number + 1) if number < 2 else "",
            "left_out": ["fs: one too large"],
        }

    daemon.answers["tools.list"] = page
    done = run(folder, "tools", "--server", "fs", "--agent", "coder", "--json")
    found = json.loads(done.stdout)
    assert [entry["name"] for entry in found["tools"]] == ["fs__t0", "fs__t1", "fs__t2"]
    assert found["left_out"] == ["fs: one too large"]
    assert daemon.params("tools.list") == {"server": "fs", "agent": "coder", "cursor": "2"}
    shown = run(folder, "tools")
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["TOOL", "fs__t0", "fs__t1", "fs__t2"]
    assert shown.stderr == "mcpctl: left out: fs: one too large\n"


def test_a_listing_that_changes_is_read_again(daemon: Control, folder: Path) -> None:
    refused = 0

    def page(params: dict[str, str]) -> Any:
        nonlocal refused
        if params.get("cursor") == "old":
            refused += 1
            return Refusal("invalid_params", "unknown or outdated cursor")
        if not params.get("cursor"):
            following = "new" if refused else "old"
            return {"tools": [tool("fs__a")], "next_cursor": following, "left_out": []}
        return {"tools": [tool("fs__b")], "next_cursor": "", "left_out": []}

    daemon.answers["tools.list"] = page
    found = json.loads(run(folder, "tools", "--json").stdout)
    assert ([entry["name"] for entry in found["tools"]], refused) == (["fs__a", "fs__b"], 1)
    daemon.answers["tools.list"] = lambda params: Refusal("invalid_params", f"bad {len(params)}")
    assert run(folder, "tools").returncode == 2


def test_a_listing_without_an_end(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.list"] = {"tools": [], "next_cursor": "again", "left_out": []}
    assert run(folder, "tools").returncode == 1


def test_a_tool_whose_definition_waits_is_said_to(daemon: Control, folder: Path) -> None:
    held = tool("fs__odd", approval="never", held="it has hidden characters")
    daemon.answers["tools.list"] = {"tools": [held], "next_cursor": "", "left_out": []}
    assert run(folder, "tools").stdout.splitlines()[1].split()[:3] == ["fs__odd", "low", "held"]


def test_describe(daemon: Control, folder: Path) -> None:
    details = {
        "server": "fs",
        "tool": "read",
        "name": "fs__read",
        "definition": {"name": "read", "description": "Reads\n\x1b[2Jall", "inputSchema": {"type": "object"}},
        "risk": "high",
        "approval": "always",
        "timeout": 0.0,
        "because": ["risk: untrusted server", "approval: built in"],
        "held": "it has hidden characters",
        "flags": ['words to the model in description: "\u202eassistant"'],
    }
    daemon.answers["tools.describe"] = details
    done = run(folder, "describe", "fs__read")
    for word in (
        "high",
        "always",
        "none",
        "risk: untrusted server",
        "Reads",
        "\\u001b[2Jall",
        '"type": "object"',
        "it has hidden characters",
        'words to the model in description: "\\u202eassistant"',
    ):
        assert word in done.stdout
    assert daemon.params("tools.describe") == {"name": "fs__read"}
    assert json.loads(run(folder, "describe", "read", "--server", "fs", "--json").stdout) == details
    assert daemon.params("tools.describe") == {"server": "fs", "tool": "read"}
    assert run(folder, "describe", "--server", "fs", "--", "-n").returncode == 0
    assert daemon.params("tools.describe") == {"server": "fs", "tool": "-n"}


def test_a_call_that_policy_denies_says_how_to_learn_why(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.call"] = Refusal("denied", "denied: the policy denies it")
    assert "mcpctl explain - fs__read" in run(folder, "call", "fs__read").stderr
    assert "mcpctl explain - read --server fs" in run(folder, "call", "read", "--server", "fs").stderr
    daemon.answers["tools.call"] = Refusal("denied", "denied: too high", hint="mcpctl trust fs")
    assert "explain" not in run(folder, "call", "fs__read").stderr


def test_tools_of_a_server_that_is_simply_named(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.list"] = {"tools": [tool()], "left_out": [], "next_cursor": ""}
    assert run(folder, "tools", "fs").returncode == 0
    assert daemon.params("tools.list") == {"server": "fs"}
    assert run(folder, "tools", "fs", "--server", "fs").returncode == 2


@pytest.mark.parametrize(
    ("words", "code"), [(["fs", "read"], 2), (["fs", "read", "a=1"], 2), (["fs", "a=1"], 0)]
)
def test_server_and_tool_as_two_words(daemon: Control, folder: Path, words: list[str], code: int) -> None:
    daemon.answers["tools.call"] = {"result": {"content": []}}
    daemon.answers["tools.describe"] = Refusal("no_such_tool")
    done = run(folder, "call", *words)
    assert (done.returncode, "fs__read" in done.stderr) == (code, code == 2)
