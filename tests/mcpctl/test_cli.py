"""mcpctl as a process: words in, exit code out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mcpctl
import mcpd
from mcpctl import cli
from mcpctl.commands import MODULES, every_command, seconds
from mcpctl.errors import CODES
from tests.mcpctl.harness import LIMIT, Control, Hang, Hangup, Refusal, command, environment, run, server


def test_versions_are_one() -> None:
    assert mcpctl.__version__ == mcpd.__version__


def test_every_verb_has_its_command() -> None:
    verbs = list(every_command())
    assert [verb.name for verb in verbs] == list(MODULES)
    for verb in verbs:
        assert verb.summary
        cli.make_parser(verb).format_help()


@pytest.mark.parametrize(
    ("words", "leading", "verb", "rest"),
    [
        ([], [], "", []),
        (["list"], [], "list", []),
        (["--json", "list", "--tools"], ["--json"], "list", ["--tools"]),
        (["--socket", "/x", "list"], ["--socket", "/x"], "list", []),
        (["--socket=/x", "--no-spawn", "list"], ["--socket=/x", "--no-spawn"], "list", []),
        (["--help"], ["--help"], "", []),
    ],
)
def test_split(words: list[str], leading: list[str], verb: str, rest: list[str]) -> None:
    assert cli.split(words) == (leading, verb, rest)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ("60s", 60), ("500ms", 0.5), ("15m", 900), ("2h", 7200), ("1d", 86400), ("1.5s", 1.5)],
)
def test_seconds(text: str, value: float) -> None:
    assert seconds(text) == value


@pytest.mark.parametrize("text", ["", "s", "x", "-1", "1x", "1..2", "nan", "inf", "1e3", "٣s s"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        seconds(text)


@pytest.mark.parametrize(
    "words",
    [
        ["no-such-verb"],
        ["--no-such-option"],
        ["list", "--no-such-option"],
        ["list", "a", "b"],
        ["test"],
        ["call"],
        ["logs", "fs", "-n", "many"],
        ["status", "--timeout", "soon"],
        ["events", "--topic", "weather"],
        ["events", "--topic", "calls"],
        ["events", "-n", "-1"],
        ["events", "-n", "0"],
        ["events", "-n", "x"],
        ["add"],
        ["add", "fs"],
        ["add", "fs", "--"],
        ["add", "fs", "sh", "--no-such-option"],
        ["call", "fs__read", "no equals sign"],
        ["call", "fs__read", "a=1", "a=2"],
        ["call", "fs__read", "{not json"],
        ["call", "fs__read", "[1]", "-"],
        ["rpc", "x", "[]"],
        ["bridge", "--no-such-option"],
        ["bridge", "--agent"],
        ["bridge", "--agent", "../x"],
        ["completion"],
        ["completion", "tcsh"],
        ["socket-path", "--agent", "../x"],
    ],
    ids=" ".join,
)
def test_usage(daemon: Control, folder: Path, words: list[str]) -> None:
    done = run(folder, *words)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr
    assert not [r for r in daemon.requests if r["method"] != "hello"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["status", "--timeout", "soon"], '"soon" is no length of time; say 5, 500ms, 30m, 8h or 7d'),
        (["add", "fs", "--timeout", "2x", "--", "sh"], '"2x" is no length of time'),
        (["grants", "add", "fs__read", "--all", "--for", "ever"], '"ever" is no length of time'),
        (["grants", "add", "fs__read", "--all", "--count", "many"], '"many" is no number from 0 on'),
        (["endpoint", "enable", "--port", "80000"], '"80000" is no number from 0 to 65535'),
        (["journal", "-n", "-1"], '"-1" is no number from 0 on'),
        (["journal", "4x"], '"4x" is no number from 1 on'),
        (["logs", "fs", "-n", "201"], '"201" is no number from 1 to 200'),
    ],
    ids=str,
)
def test_what_an_option_takes_is_said(daemon: Control, folder: Path, words: list[str], why: str) -> None:
    done = run(folder, *words)
    assert done.returncode == 2
    assert why in done.stderr


@pytest.mark.parametrize("kind", ["needs_login", "busy", "a_later_kind"])
def test_the_daemons_errors(daemon: Control, folder: Path, kind: str) -> None:
    daemon.answers["servers.list"] = refusal = Refusal("internal", "cannot do \x1bit", hint="try \u202ethat")
    refusal.data["kind"] = kind
    done = run(folder, "list")
    assert done.returncode == CODES.get(kind, 1)
    assert done.stdout == ""
    assert done.stderr == "mcpctl: cannot do \\u001bit\nmcpctl: try \\u202ethat\n"


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (["status", "--json"], "not_running", 3),
        (["--json", "list"], "not_running", 3),
        (["call", "--json"], "usage", 2),
        (["call", "fs__read", "{", "--json"], "usage", 2),
        (["list", "--json", "--no-such-option"], "usage", 2),
        (["--json", "no-such-verb"], "usage", 2),
    ],
)
def test_errors_as_json(folder: Path, words: list[str], kind: str, code: int) -> None:
    """For programs on stdout, for people on stderr."""
    done = run(folder, *words)
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["kind"]) == (code, kind)
    assert error["message"] in done.stderr
    assert error["hint"] in done.stderr


def test_the_daemons_errors_as_json(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.get"] = Refusal(
        "no_such_server", 'no "ü\x1b"', hint="mcpctl list", server="ü\x1b"
    )
    done = run(folder, "list", "x", "--json")
    assert done.returncode == 6
    assert json.loads(done.stdout) == {
        "error": {"kind": "no_such_server", "message": 'no "ü\x1b"', "hint": "mcpctl list", "server": "ü\x1b"}
    }
    assert "\x1b" not in done.stdout


def test_the_bridge_has_no_json(folder: Path) -> None:
    assert "--json" not in run(folder, "bridge", "--help").stdout
    for words in (["bridge", "--json"], ["--json", "bridge"]):
        assert run(folder, *words).returncode == 2


@pytest.mark.parametrize(
    ("words", "answers", "code"),
    [
        (["status"], {"daemon.status": Hangup()}, 3),
        (["status", "--timeout", "50ms"], {"daemon.status": Hang()}, 7),
        (["status"], {"hello": Refusal("api_mismatch")}, 8),
        (["--json", "list"], {"servers.list": {"servers": []}}, 0),
    ],
)
def test_exit_codes(
    daemon: Control, folder: Path, words: list[str], answers: dict[str, Any], code: int
) -> None:
    daemon.answers |= answers
    assert run(folder, *words).returncode == code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["status"], 3),
        (["reload"], 3),
        (["list"], 3),
        (["bridge"], 3),
        (["--socket", "/nowhere.sock", "list"], 3),
        (["stop"], 0),
        ([], 0),
        (["version"], 0),
        (["socket-path"], 0),
        (["--help"], 0),
        (["help"], 0),
        (["--version"], 0),
        (["call", "--help"], 0),
        (["bridge", "--help"], 0),
        (["completion", "bash"], 0),
        (["completion", "--names", "servers"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_without_a_daemon(folder: Path, words: list[str], code: int) -> None:
    done = run(folder, *words)
    assert done.returncode == code
    if code:
        assert "mcpd is not running" in done.stderr
        assert done.stdout == ""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """What a background job of a shell starts ignores interrupts, and so does what that starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupted(daemon: Control, folder: Path) -> None:
    daemon.answers["tools.call"] = Hang()
    with subprocess.Popen(command("call", "fs__wait"), env=environment(folder), cwd=folder) as process:
        while not any(request["method"] == "tools.call" for request in daemon.requests):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 130


INTERRUPT_DURING_IMPORT = """
import os, signal, sys
from mcpctl.__main__ import main
def hook(event, details):
    if event == "import" and details[0] == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("mcpctl.cli", ["list"]),
        ("argparse", ["list"]),
        ("json", ["list"]),
        ("mcpctl.bridge", ["bridge"]),
        ("mcpctl.start", ["list"]),
    ],
)
def test_interrupted_while_it_starts(folder: Path, module: str, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", INTERRUPT_DURING_IMPORT, module, *words],
        env=environment(folder),
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_an_interrupt_that_the_caller_ignores(daemon: Control, folder: Path) -> None:
    """`nohup` and background jobs of scripts: SIGINT is ignored from the start and stays so."""
    daemon.answers["tools.call"] = {"result": {"content": []}}
    program = 'trap "" INT; "$@" & child=$!; kill -INT $child; wait $child'
    for _ in range(3):
        done = subprocess.run(
            ["/bin/sh", "-c", program, "sh", *command("call", "fs__read")],
            env=environment(folder),
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_has_seen_enough(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.list"] = {"servers": [server(f"s{n}") for n in range(5000)]}
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command("list"),
            env=environment(folder),
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=LIMIT,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_message_that_nobody_takes_changes_no_exit_code(folder: Path) -> None:
    """`mcpctl ... 2>&1 | head` and a full disk: stderr cannot be written, the answer is the same."""
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, os.fdopen(writer, "wb") as pipe:
        for stderr in (full, pipe):
            for words, code in ((["no-such-verb"], 2), (["list", "--no-such-option"], 2), (["status"], 3)):
                done = subprocess.run(
                    command(*words),
                    env=environment(folder),
                    stdout=stderr,
                    stderr=stderr,
                    timeout=LIMIT,
                    check=False,
                )
                assert done.returncode == code


def test_a_folder_that_was_removed_under_the_caller(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.list"] = {"servers": [server()]}
    program = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    for words, code in ((["list"], 0), (["--socket", "control.sock", "list"], 1)):
        done = subprocess.run(
            ["/bin/sh", "-c", program, "sh", *command(*words)],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
        assert (done.returncode, b"the current folder" in done.stderr) == (code, code == 1)


def test_an_answer_that_cannot_be_written(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.list"] = {"servers": [server()]}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("list"),
            env=environment(folder),
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LIMIT,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"mcpctl: cannot write the answer: No space left on device\n"


def test_output_survives_a_poor_locale(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.list"] = {"servers": [server("fs", held="größer 🎉")]}
    environ = environment(folder, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert run(folder, "list", environ=environ).returncode == 0


def test_a_hostile_folder_is_not_imported_from(daemon: Control, folder: Path) -> None:
    daemon.answers["servers.list"] = {"servers": []}
    hostile = folder / "hostile"
    hostile.mkdir()
    for name in ("json", "argparse", "os", "socket", "mcpctl", "mcpd", "sitecustomize"):
        (hostile / f"{name}.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nraise SystemExit(77)\n")
    environ = environment(folder, PYTHONPATH=str(hostile))
    script = Path(sys.executable).parent / "mcpctl"
    ways = [command("list")]
    if script.exists():  # as pip writes it; it does not carry -I, but never has the folder on its path
        ways.append([str(script), "list"])
    for way in ways:
        env = environ if "-I" in way else environment(folder)
        done = subprocess.run(way, env=env, cwd=hostile, capture_output=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr
    assert not (folder / "ran").exists()


HEAVY = {
    *("asyncio", "dataclasses", "httpx", "inspect", "keyring", "logging", "mcpd", "msgspec", "pathlib"),
    *("shutil", "subprocess", "tempfile", "threading", "tomllib", "trio", "typing"),
}


@pytest.mark.parametrize(
    "words", [["status"], ["list"], ["call", "fs__read", "a=1"], ["status", "--json"]], ids=" ".join
)
def test_little_is_imported(daemon: Control, folder: Path, words: list[str]) -> None:
    daemon.answers |= {
        "daemon.status": {
            "version": "1",
            "pid": 1,
            "uptime": 5.0,
            "servers": {},
            "sessions": 0,
            "agents": ["default"],
            "config_file": "",
            "servers_dir": "",
            "problems": [],
        },
        "servers.list": {"servers": [server()]},
        "tools.call": {"result": {"content": [{"type": "text", "text": "x"}]}},
    }
    # Modules that start-up loads by itself (site, .pth files of the environment) are not ours.
    script = (
        "import sys; before = set(sys.modules)\n"
        "from mcpctl.__main__ import main\n"
        "code = main(sys.argv[1:])\n"
        "print(*sorted(set(sys.modules) - before), file=sys.stderr)\n"
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, *words],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert {"argparse", "json", "_socket", "mcpctl"} <= loaded
    assert not loaded & HEAVY


def test_a_daemon_of_another_version_is_said(daemon: Control, folder: Path) -> None:
    daemon.answers |= {
        "hello": {**daemon.answers["hello"], "version": "0.0.9"},
        "servers.list": {"servers": []},
    }
    done = run(folder, "list", "--json")
    assert json.loads(done.stdout) == {"servers": []}
    assert "0.0.9" in done.stderr
    assert "mcpctl stop" in done.stderr


def test_a_command_that_was_meant_is_named(folder: Path) -> None:
    assert 'did you mean "approve"?' in run(folder, "aprove", "x").stderr
    assert "did you mean" not in run(folder, "qqqq").stderr
