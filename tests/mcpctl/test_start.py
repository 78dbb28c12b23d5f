"""Starting on demand: what a daemon inherits, who starts it, and that nobody waits for it (DESIGN 9)."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcpctl import paths, start
from mcpctl.errors import CallError
from tests.mcpctl.harness import LIMIT

#: Stands where the daemon would: reports what it was given, then binds the socket it was started for.
STAND_IN = """
import json, os, socket, sys, time
report = {
    "pid": os.getpid(), "sid": os.getsid(0), "ppid": os.getppid(), "cwd": os.getcwd(),
    "umask": os.umask(0o077), "environ": dict(os.environ), "argv": sys.argv[1:],
    "files": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
              if os.path.exists(f"/proc/self/fd/{fd}")},
}
print("a word for the log", flush=True)
target = sys.argv[1]
with open(target + "~", "w") as file:
    json.dump(report, file)
os.rename(target + "~", target)
"""


def wait_for(file: Path) -> None:
    end = time.monotonic() + LIMIT
    while not file.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_spawned_daemon_is_cut_loose(folder: Path) -> None:
    """The caller's pipe closes with the caller: whoever reads it must not wait for the daemon (hazard 7)."""
    report = folder / "report"
    driver = (
        "import sys, os\n"
        "from mcpctl import start\n"
        "os.dup2(1, 77)\n"
        "start.spawn_daemon([sys.executable, '-I', '-c', *sys.argv[2:]], {'ONLY': 'this'}, sys.argv[1])\n"
        "os.write(1, b'done')"
    )
    program = STAND_IN + "\nimport time; time.sleep(60)"
    log = folder / "state" / "mcpd" / "mcpd.log"
    caller = subprocess.run(
        [sys.executable, "-I", "-c", driver, str(log), program, str(report)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT,
        check=False,
        umask=0o022,
    )
    wait_for(report)
    seen = json.loads(report.read_text())
    os.kill(seen["pid"], 9)
    assert (caller.returncode, caller.stdout, caller.stderr) == (0, b"done", b"")
    assert seen["sid"] not in (os.getsid(0), seen["pid"]), "a session of its own that it does not lead"
    assert seen["cwd"] == "/"
    assert seen["umask"] == 0o022, "the caller's: servers get it, the daemon has one of its own"
    assert {k: v for k, v in seen["environ"].items() if k != "LC_CTYPE"} == {"ONLY": "this"}
    assert seen["files"].pop("0") == "/dev/null"
    assert seen["files"].pop("1") == str(log)
    assert seen["files"].pop("2") == str(log)
    assert "77" not in seen["files"]
    assert not [path for path in seen["files"].values() if path.startswith(("pipe:", "socket:"))]
    assert log.read_text() == "a word for the log\n"
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700


def test_a_program_that_is_missing(folder: Path) -> None:
    with pytest.raises(CallError) as caught:
        start.spawn_daemon([str(folder / "missing")], {}, str(folder / "log"))
    assert caught.value.exit_code == 3
    assert "No such file" in caught.value.message


def test_the_environment_of_a_daemon() -> None:
    environ = {
        **{
            name: name
            for name in ("HOME", "USER", "LOGNAME", "PATH", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE")
        },
        "LC_ALL": "C",
        "XDG_RUNTIME_DIR": "/run",
        "XDG_CONFIG_HOME": "/c",
        "MCPD_RUNTIME_DIR": "/else",
    }
    kept = start.daemon_environment(
        {
            **environ,
            **dict.fromkeys(("ANTHROPIC_API_KEY", "GITHUB_TOKEN", "https_proxy", "NO_PROXY"), "secret"),
            **dict.fromkeys(("PYTHONPATH", "LD_PRELOAD", "MCPD_NO_SPAWN", "MCPD_SOCKET"), "code"),
        },
        paths.Place("/here"),
    )
    assert kept == {**environ, "MCPD_RUNTIME_DIR": "/here"}


@pytest.mark.parametrize(
    ("value", "forbidden"), [("1", True), ("yes", True), ("0", False), ("", False), (None, False)]
)
def test_forbidden(value: str | None, forbidden: bool) -> None:
    assert start.forbidden({} if value is None else {"MCPD_NO_SPAWN": value}) is forbidden


def test_a_lock_that_is_held_is_seen_and_not_touched(folder: Path) -> None:
    path = folder / "lock"
    assert not start.lock_held(str(path))
    with open(path, "w") as file:
        assert not start.lock_held(str(path))
        fcntl.flock(file, fcntl.LOCK_EX)
        assert start.lock_held(str(path))
    assert not start.lock_held(str(path))


def test_a_lock_of_another_file_with_the_same_number_is_none(folder: Path) -> None:
    """Files of two tmpfs often share an inode number; btrfs shows stat a device of its own."""
    found = folder.stat()
    own = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"

    def seen(device: str, inode: int, pid: str, kind: str = "FLOCK") -> bool:
        line = f"1: {kind}  ADVISORY  WRITE {pid} {device}:{inode} 0 EOF"
        return start.is_lock_of(line.split(), found, "4711")

    assert seen(own, found.st_ino, "1")
    assert seen("00:fff", found.st_ino, "4711")
    assert not seen("00:fff", found.st_ino, "1")
    assert not seen(own, found.st_ino + 1, "4711")
    assert not seen(own, found.st_ino, "4711", "-> FLOCK")
    assert not seen(own, found.st_ino, "4711", "POSIX")


def test_made_folders_are_private(folder: Path) -> None:
    old = os.umask(0o022)
    try:
        start.make_folder(str(folder / "a" / "b"))
    finally:
        os.umask(old)
    assert [(folder / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o700, 0o700]


def test_a_folder_that_cannot_be_made(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(CallError) as caught:
        start.ensure(paths.Place(str(folder / "file" / "run")), lambda: None)
    assert caught.value.exit_code == 3


def test_a_log_that_cannot_exist_is_not_named(folder: Path) -> None:
    """With a state folder that cannot be made the daemon ends at once, and only a terminal can show why."""
    (folder / "file").write_text("")
    driver = (
        "import sys\n"
        "from mcpctl import errors, paths, start\n"
        "start.daemon_command = lambda: [sys.executable, '-I', '-c', 'raise SystemExit(1)']\n"
        "try:\n"
        "    start.ensure(paths.Place(sys.argv[1], 'test'), lambda: None)\n"
        "except errors.CallError as error:\n"
        "    print(error.hint)"
    )
    for state, word in ((folder / "file", "mcpd run"), (folder / "state", "mcpd.log")):
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(state)}
        done = subprocess.run(
            [sys.executable, "-I", "-c", driver, str(folder)],
            env=environ,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert word in done.stdout, done
        assert ("mcpd.log" in done.stdout) == (word == "mcpd.log")


def started(folder: Path, environ: dict[str, str]) -> dict[str, Any]:
    """What a daemon that mcpctl starts with this environment gets, and what mcpctl says meanwhile."""
    report = folder / "report"
    driver = (
        "import sys\n"
        "from mcpctl import paths, start\n"
        "program, report, folder = sys.argv[1:]\n"
        "start.daemon_command = lambda: [sys.executable, '-I', '-c', program, report]\n"
        "start.manager_serves = lambda *_: False\n"
        "start.log_file = lambda environ: folder + '/log'\n"
        "try:\n"
        "    start.ensure(paths.Place(folder + '/run', 'test'), lambda: None)\n"
        "except start.CallError:\n"
        "    pass"
    )
    caller = subprocess.run(
        [sys.executable, "-I", "-c", driver, STAND_IN, str(report), str(folder)],
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return {**json.loads(report.read_text()), "said": caller.stderr}


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}])
def test_whose_home_a_daemon_takes_is_said_where_nothing_names_it(
    folder: Path, environ: dict[str, str]
) -> None:
    seen = started(folder, environ)
    account = pwd.getpwuid(os.getuid()).pw_dir
    assert f"HOME is not set: mcpd starts with the files in {account}" in seen["said"]
    assert seen["environ"]["HOME"] == account, "its servers have the same one"


def test_nothing_is_said_where_something_names_it(folder: Path) -> None:
    assert started(folder, {"HOME": str(folder)})["said"] == ""
    (folder / "report").unlink()
    assert started(folder, dict.fromkeys(start.FOLDERS, str(folder)))["said"] == ""


def test_the_command_that_starts_it_is_the_units_where_they_are_installed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = paths.Place(str(folder / "mcpd"))
    monkeypatch.setattr(start, "manager_serves", lambda *_: True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    assert start.by_hand(place) == "mcpd run"
    units = folder / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "mcpd.socket").touch()
    assert start.by_hand(place) == "systemctl --user start mcpd.socket"
    monkeypatch.setattr(start, "manager_serves", lambda *_: False)
    assert start.by_hand(place) == "mcpd run", "the manager would start another"


def test_what_a_daemon_says_at_its_end_is_repeated(folder: Path) -> None:
    """Where another has the state folder, only they tell how to reach it; older ones do not count."""
    log = folder / "state" / "mcpd" / "mcpd.log"
    log.parent.mkdir(parents=True)
    log.write_text("mcpd: of yesterday\n")
    driver = (
        "import sys\n"
        "from mcpctl import errors, paths, start\n"
        "start.daemon_command = lambda: [sys.executable, '-I', '-c', sys.argv[2]]\n"
        "try:\n"
        "    start.ensure(paths.Place(sys.argv[1], 'test'), lambda: None)\n"
        "except errors.CallError as error:\n"
        "    print(error.hint)"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state")}
    for program, hint in (
        (
            "print('a line'); raise SystemExit('mcpd: cannot start: why')",
            "it was started and said: cannot start: why",
        ),
        ("raise SystemExit(1)", "it was started and did not answer"),
    ):
        done = subprocess.run(
            [sys.executable, "-I", "-c", driver, str(folder), program],
            env=environ,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.stdout == f"{hint}; its log: {log}\n", done


def test_nothing_is_started_for_a_named_socket(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCPD_NO_SPAWN", raising=False)
    place = paths.find(str(folder / "sub" / "x.sock"), {}, os.getuid())
    with pytest.raises(CallError) as caught:
        start.ensure(place, lambda: None)
    assert caught.value.exit_code == 3
    assert not (folder / "sub").exists()


def test_a_daemon_that_is_starting_is_waited_for(folder: Path) -> None:
    """Its lock is held, its socket is not there yet: even with --no-spawn the caller waits."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answers = iter([None, None, "there"])
        assert start.ensure(paths.Place(str(folder)), lambda: next(answers), spawn=False) == "there"


@pytest.mark.parametrize(
    ("moved_by", "environ", "serves"),
    [
        ("", {}, True),
        ("MCPD_RUNTIME_DIR", {}, False),
        ("XDG_RUNTIME_DIR", {}, False),
        ("", {"HOME": "/elsewhere"}, False),
        ("", {"XDG_CONFIG_HOME": "/elsewhere"}, False),
        ("", {"XDG_STATE_HOME": "/elsewhere"}, False),
    ],
)
def test_the_user_manager_serves_usual_folders_only(
    folder: Path, moved_by: str, environ: dict[str, str], serves: bool
) -> None:
    (folder / "systemd").mkdir()
    (folder / "systemd" / "private").touch()
    assert start.manager_serves(paths.Place(str(folder / "mcpd"), moved_by), environ) is serves
    assert not start.manager_serves(paths.Place(str(folder / "other" / "mcpd")), {})


@pytest.mark.parametrize(
    ("installed", "transient", "ran"),
    [
        (True, True, ["systemctl --user start mcpd.socket"]),
        (False, True, ["systemctl --user start mcpd.socket", "systemd-run --user --unit=mcpd"]),
    ],
)
def test_the_user_manager_is_asked_first(
    folder: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, transient: bool, ran: list[str]
) -> None:
    """Programs with the names of systemd's record how they were called."""
    for name, good in (("systemctl", installed), ("systemd-run", transient)):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >>{folder}/ran\nexit {0 if good else 5}\n')
        program.chmod(0o755)
    (folder / "systemd").mkdir()
    (folder / "systemd" / "private").touch()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert start.launch(paths.Place(str(folder / "mcpd"))) is None
    lines = (folder / "ran").read_text().splitlines()
    assert [line[: len(wanted)] for line, wanted in zip(lines, ran, strict=True)] == ran
    if not installed:
        assert f"--setenv=MCPD_RUNTIME_DIR={folder}/mcpd" in lines[1]
        assert lines[1].endswith("-I -m mcpd run --on-demand")


def test_a_command_of_the_manager(folder: Path) -> None:
    assert start.run(["true"])
    assert not start.run(["false"])
    assert not start.run([str(folder / "missing")])


def test_one_of_many_callers_starts_it(folder: Path) -> None:
    """Twenty at once: each gets an answer, one process is started."""
    stand_in = f"""
import os, socket, time
with open({str(folder / "starts")!r}, "a") as file:
    file.write("x")
listener = socket.socket(socket.AF_UNIX)
listener.bind({str(folder / "control.sock")!r})
listener.listen(64)
with open({str(folder / "pid")!r}, "w") as file:
    file.write(str(os.getpid()))
time.sleep(60)
"""
    driver = (
        "import sys\n"
        "from mcpctl import connect, paths, start\n"
        "folder, program = sys.argv[1:]\n"
        "start.daemon_command = lambda: [sys.executable, '-I', '-c', program]\n"
        "start.ensure(paths.Place(folder, 'test'), lambda: connect.connect(folder + '/control.sock'))\n"
    )
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    callers = [
        subprocess.Popen([sys.executable, "-I", "-c", driver, str(folder), stand_in], env=environ)
        for _ in range(20)
    ]
    try:
        assert [caller.wait(60) for caller in callers] == [0] * 20
    finally:
        for caller in callers:
            caller.kill()
        wait_for(folder / "pid")
        os.kill(int((folder / "pid").read_text()), 9)
    assert (folder / "starts").read_text() == "x"
