"""The guard against a stand-in daemon: real processes, the real pipe, shorter patience."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mcpd.daemon import guard

RUNTIME = f"guard{os.getpid()}"

DAEMON = '''
import os, subprocess, sys
from mcpd.daemon import guard
instance, patience, child = sys.argv[1:]
guard.PATIENCE = float(patience)
guarding = guard.start()
print(guarding.pid, flush=True)
guarding.watch(instance)
programs = dict(
    stubborn="from signal import *; signal(SIGTERM, SIG_IGN); print(flush=True); pause()",
    orderly="print(flush=True); input()",
    # A server whose own child, which is the one to look after, gets an environment without the variable.
    wrapper="""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-S", "-c", sys.argv[1]], env={}, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
input()
""",
)
started = subprocess.Popen([sys.executable, "-S", "-c", programs[child], programs["stubborn"]],
                           env={"MCPD_CHILD_OF": instance + ".1"},
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           start_new_session=True)
word = started.stdout.readline().strip()
guarding.add(started.pid)
print(int(word or started.pid), flush=True)
for order in sys.stdin:
    if order == "forget\\n":
        guarding.remove(started.pid)
    elif order == "replace\\n":
        guarding.replace()
        print(guarding.pid, flush=True)
    else:
        guarding.dismiss()
        print("dismissed", flush=True)
'''


class Daemon:
    def __init__(self, name: str, child: str, patience: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DAEMON, f"{RUNTIME}.{name}", str(patience), child],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.guard = os.pidfd_open(int(self.line()))
        child_pid = int(self.line())
        self.child = os.pidfd_open(child_pid)

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def say(self, order: str = "dismiss") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order}\n".encode())
        self.process.stdin.flush()

    def close(self) -> None:
        for pidfd in (self.child, self.guard):
            if not gone(pidfd, 0):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
        self.process.kill()
        self.process.communicate()


def gone(pidfd: int, seconds: float) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])


@pytest.fixture
def daemons() -> Iterator[list[Daemon]]:
    daemons: list[Daemon] = []
    yield daemons
    for daemon in daemons:
        daemon.close()


def test_a_stubborn_child_does_not_outlive_a_killed_daemon(daemons: list[Daemon]) -> None:
    daemon = Daemon("killed", "stubborn", 0.1)
    daemons.append(daemon)
    daemon.process.kill()
    assert gone(daemon.child, 5)
    assert gone(daemon.guard, 5)


def test_a_child_that_ends_by_itself_is_not_waited_for(daemons: list[Daemon]) -> None:
    daemon = Daemon("quick", "orderly", 60)
    daemons.append(daemon)
    daemon.process.kill()
    assert gone(daemon.child, 5)
    assert gone(daemon.guard, 5)


def test_an_orderly_stop_dismisses_the_guard_before_the_daemon_ends(daemons: list[Daemon]) -> None:
    daemon = Daemon("orderly", "stubborn", 60)
    daemons.append(daemon)
    daemon.say()
    assert daemon.line() == b"dismissed\n"
    assert gone(daemon.guard, 0)
    assert daemon.process.poll() is None
    assert not gone(daemon.child, 0)


def test_a_servers_child_without_the_variable_does_not_outlive_a_killed_daemon(daemons: list[Daemon]) -> None:
    daemon = Daemon("bare", "wrapper", 0.1)
    daemons.append(daemon)
    daemon.process.kill()
    assert gone(daemon.child, 5)


def test_a_session_that_was_given_back_is_left_alone(daemons: list[Daemon]) -> None:
    daemon = Daemon("given-back", "wrapper", 0.1)
    daemons.append(daemon)
    daemon.say("forget")
    daemon.say("replace")
    daemon.line()
    daemon.process.kill()
    assert gone(daemon.guard, 10)
    assert not gone(daemon.child, 0)


@pytest.mark.parametrize("child", ["stubborn", "wrapper"])
def test_another_guard_takes_the_place_of_one_that_was_killed(daemons: list[Daemon], child: str) -> None:
    daemon = Daemon("replaced", child, 0.1)
    daemons.append(daemon)
    signal.pidfd_send_signal(daemon.guard, signal.SIGKILL)
    assert gone(daemon.guard, 5)
    os.close(daemon.guard)
    daemon.say("replace")
    pid = int(daemon.line())
    daemon.guard = os.pidfd_open(pid)
    daemon.process.kill()
    assert gone(daemon.child, 10)
    assert gone(daemon.guard, 5)


def test_a_guard_that_took_over_is_dismissed_as_well(daemons: list[Daemon]) -> None:
    daemon = Daemon("again", "stubborn", 60)
    daemons.append(daemon)
    signal.pidfd_send_signal(daemon.guard, signal.SIGKILL)
    assert gone(daemon.guard, 5)
    os.close(daemon.guard)
    daemon.say("replace")
    daemon.guard = os.pidfd_open(int(daemon.line()))
    daemon.say()
    assert daemon.line() == b"dismissed\n"
    assert gone(daemon.guard, 5)
    assert not gone(daemon.child, 0)


def test_what_the_daemon_says_may_come_in_any_pieces() -> None:
    said = b"r.i\n+12\n+345\n-12\n+6\n."
    for cut in range(len(said) + 1):
        told = guard.Told()
        told.feed(said[:cut])
        assert told.dismissed == (cut == len(said))
        told.feed(said[cut:])
        assert (told.instance, told.servers, told.dismissed) == ("r.i", {345, 6}, True)


def test_a_guard_that_does_not_read_keeps_nobody_waiting() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    guarding = guard.Guard(0, writer)
    guarding.watch("r.i")
    for pid in range(1, 20_000):
        guarding.add(pid)
    guarding.dismiss()
    os.close(reader)


def test_signals_of_a_terminal_do_not_end_the_guard(daemons: list[Daemon]) -> None:
    daemon = Daemon("signals", "stubborn", 0.1)
    daemons.append(daemon)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.pidfd_send_signal(daemon.guard, signum)
    daemon.process.kill()
    assert gone(daemon.child, 5)


def test_whoever_reads_the_daemons_output_does_not_wait_for_the_guard(daemons: list[Daemon]) -> None:
    """Hazard: a test driver waits for ever on a process that inherited its stdout."""
    daemon = Daemon("output", "stubborn", 60)
    daemons.append(daemon)
    daemon.process.kill()
    assert daemon.process.stdout is not None
    assert daemon.process.stdout.read() == b""
    assert not gone(daemon.guard, 0)


def test_a_daemon_that_never_said_whose_children_to_watch_leaves_nothing() -> None:
    program = "from mcpd.daemon import guard; print(guard.start().pid)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    try:
        pidfd = os.pidfd_open(int(run.stdout))
    except ProcessLookupError:
        return
    assert gone(pidfd, 5)
    os.close(pidfd)
