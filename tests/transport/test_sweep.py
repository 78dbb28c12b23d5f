from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mcpd.transport import sweep
from mcpd.transport.sweep import Process

RUNTIME = f"test{os.getpid()}"


def process(pid: int, name: str, *argv: str, parent: int = 1, session: int = 0, group: int = 0) -> Process:
    return Process(
        pid,
        1,
        "rt.i.1",
        parent=parent,
        session=session or pid,
        group=group or session or pid,
        name=name,
        argv=argv,
    )


JUDGED = {
    "an orphan in a session of its own is ended": ([process(10, "node")], set()),
    "a detached tmux and the shells in it are the user's": (
        [
            process(10, "tmux: server"),
            process(11, "bash", parent=10),
            process(12, "vim", parent=11, session=11),
        ],
        {10, 11, 12},
    ),
    "screen runs under its name in capitals": ([process(10, "screen", "SCREEN", "-dmS", "x")], {10}),
    "zellij forks once more after its session began": ([process(10, "zellij", session=9)], {10}),
    "a multiplexer in a live session of a server's is the server's": (
        [process(9, "node"), process(10, "tmux", session=9)],
        set(),
    ),
    "a server whose name begins like a multiplexer's is a server": ([process(10, "tmux-mcp-server")], set()),
    "a window that detached itself stays": (
        [process(10, "chrome", "/opt/google/chrome/chrome"), process(11, "chrome", parent=10, session=10)],
        {10, 11},
    ),
    "a browser that a server drives is ended": (
        [
            process(10, "chrome", "/opt/chrome", "--headless=new"),
            process(11, "firefox", "firefox", "-juggler-pipe"),
            process(12, "chromium", "chromium", "--remote-debugging-port=9222"),
        ],
        set(),
    ),
    "a browser in the session of its server is ended": (
        [process(9, "node"), process(10, "firefox", parent=9, session=9)],
        set(),
    ),
    "a circle of parents (pids used again) is no reason to hang": (
        [process(10, "a", parent=11), process(11, "b", parent=10)],
        set(),
    ),
}


@pytest.mark.parametrize("title", JUDGED)
def test_judge(title: str) -> None:
    found, expected = JUDGED[title]
    to_end, spared = sweep.judge(found)
    assert {p.pid for p in spared} == expected
    assert {p.pid for p in to_end} == {p.pid for p in found} - expected


def test_nothing_in_the_servers_own_group_is_spared() -> None:
    to_end, spared = sweep.judge([process(10, "tmux: server")], group=10)
    assert ([p.pid for p in to_end], spared) == ([10], [])


STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
MILD = "import signal; print(flush=True); signal.pause()"


class Children:
    """Real processes with a marker; whatever is left of them ends with the test."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[bytes]] = []

    def start(self, marker: str, program: str = MILD) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", program],
            env={"MCPD_CHILD_OF": marker},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.all.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child


@pytest.fixture
def children() -> Iterator[Children]:
    children = Children()
    yield children
    for child in children.all:
        child.kill()
        child.communicate()


def test_find_sees_the_children_of_one_owner(children: Children) -> None:
    first = children.start(f"{RUNTIME}.i.1")
    twelfth = children.start(f"{RUNTIME}.i.12")
    assert [p.pid for p in sweep.find(f"{RUNTIME}.i.1")] == [first.pid]
    found = {p.pid: p for p in sweep.find(RUNTIME)}
    assert set(found) == {first.pid, twelfth.pid}
    assert found[first.pid].session == found[first.pid].group == first.pid
    assert found[first.pid].parent == os.getpid()
    assert found[first.pid].argv[1:3] == ("-S", "-c")


def test_a_dead_process_that_nobody_waited_for_is_not_found(children: Children) -> None:
    child = children.start(f"{RUNTIME}.i.2")
    child.kill()
    pidfd = os.pidfd_open(child.pid)
    select.select([pidfd], [], [], 10)
    os.close(pidfd)
    assert sweep.find(f"{RUNTIME}.i.2") == []


def test_a_pid_used_again_is_left_alone(children: Children) -> None:
    child = children.start(f"{RUNTIME}.i.3")
    (found,) = sweep.find(f"{RUNTIME}.i.3")
    sweep.end([Process(found.pid, found.started - 1, found.marker)], signal.SIGKILL)
    assert child.poll() is None
    assert not sweep.wait_gone([found], 0.05)
    sweep.end([found], signal.SIGKILL)
    assert sweep.wait_gone([found], 10)
    assert child.wait() == -signal.SIGKILL


def test_clear_ends_also_what_ignores_sigterm(children: Children) -> None:
    mild = children.start(f"{RUNTIME}.old.1")
    stubborn = children.start(f"{RUNTIME}.old.2", STUBBORN)
    other = children.start(f"{RUNTIME}.new.1")
    ended, spared = sweep.clear_others(RUNTIME, "new")
    assert ({p.pid for p in ended}, spared) == ({mild.pid, stubborn.pid}, [])
    assert (mild.wait(), stubborn.wait()) == (-signal.SIGTERM, -signal.SIGKILL)
    assert other.poll() is None


def test_clear_lets_go_what_leaves_by_itself(children: Children) -> None:
    leaver = children.start(
        f"{RUNTIME}.i.4", "import select; print(flush=True); select.select([], [], [], 0.2)"
    )
    ended, _ = sweep.clear(lambda: sweep.find(f"{RUNTIME}.i.4"), patience=10)
    assert (leaver.wait(), ended) == (0, [])


def test_the_module_stays_light() -> None:
    """The guard holds it in memory for the daemon's life."""
    code = "import sys; import mcpd.transport.sweep; print({'typing', 'msgspec', 'trio'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_the_guard_of_a_daemon_is_no_leftover_of_another() -> None:
    """A daemon that a server of its forerunner started has handed the old marker down to its guard."""
    program = (
        "import os, subprocess, sys; from mcpd.transport import sweep;"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'input()'], stdin=subprocess.PIPE);"
        f"print(sweep.clear_others('{RUNTIME}', 'new', child.pid)); child.communicate()"
    )
    environ = {**os.environ, "MCPD_CHILD_OF": f"{RUNTIME}.old.1"}
    run = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True
    )
    assert run.stdout == "([], [])\n"
