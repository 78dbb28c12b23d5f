"""The guard: a small process that ends the servers when the daemon cannot (SIGKILL, out of memory, a crash).

It is forked before anything large is loaded and holds one thing, the read end of a pipe whose write end
only the daemon has. It never polls. What the daemon writes: a line with the instance whose children to look
after, then `+PID` for each server that was started and `-PID` when all of its tree is gone, and a last byte
`.` when it stops in good order. End-of-file without that byte means that it died.

A guard that somebody ended is replaced by one that is started by exec: a process with threads and an event
loop cannot be forked.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import time

from mcpd.daemon import process
from mcpd.transport import sweep

#: Seconds that servers have to end by themselves (their standard input ended with the daemon).
PATIENCE = 5.0
#: Seconds after which a child that was being spawned when the daemon died can be seen.
BIRTH = 0.2
#: Seconds that an orderly stop waits for the guard to leave.
LEAVE = 1.0

#: The program of a later guard. Without site-packages: all that it imports is the standard library and two
#: modules of ours, from the folder in its first argument.
_LATER = "import sys; sys.path.insert(0, sys.argv[1]); from mcpd.daemon import guard; guard.take_over()"
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Guard:
    """The daemon's side."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        """0 while there is none."""
        self.servers: set[int] = set()
        """Pids of the servers that have been started and are not known to be gone."""
        self._fd = fd
        self._instance = ""

    def watch(self, instance: str) -> None:
        """Look after the children of this instance (`<runtime>.<instance>`). To be called once."""
        self._instance = instance
        self._tell(f"{instance}\n")

    def add(self, pid: int) -> None:
        """A server was started that leads a session of its own."""
        self.servers.add(pid)
        self._tell(f"+{pid}\n")

    def remove(self, pid: int) -> None:
        """All of that server's tree is gone."""
        self.servers.discard(pid)
        self._tell(f"-{pid}\n")

    def replace(self) -> None:
        """Start another one in place of one that has ended. Raises OSError, and nothing has changed then."""
        read_end, write_end = os.pipe()
        try:
            os.set_blocking(write_end, False)
            pid = _start_later(read_end)
        except OSError:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        os.close(self._fd)
        self.pid, self._fd = pid, write_end
        self._tell("".join([f"{self._instance}\n", *(f"+{server}\n" for server in sorted(self.servers))]))

    def reap(self) -> None:
        """Take the exit status of a guard that has ended; its number may be another's from now on."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        self.pid = 0

    def dismiss(self) -> None:
        """An orderly stop: nothing is left, or it is ours to end. Waits a moment until the guard is gone."""
        self._tell(".")
        os.close(self._fd)
        if not self.pid:
            return
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if select.select([pidfd], [], [], LEAVE)[0]:
                self.reap()
        finally:
            os.close(pidfd)

    def _tell(self, words: str) -> None:
        # Somebody may have ended the guard, or stopped it for so long that the pipe is full; the daemon must
        # not wait for it. At the worst the next start sweeps.
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._fd, words.encode())


def start() -> Guard:
    """Fork the guard. Only where no thread and no event loop exists yet."""
    read_end, write_end = (
        os.pipe()
    )  # neither survives an exec: no server keeps the daemon alive for the guard
    pid = os.fork()
    if pid == 0:
        _guard(read_end)
    os.close(read_end)
    os.set_blocking(write_end, False)
    return Guard(pid, write_end)


def _start_later(pipe: int) -> int:
    """The pid of a new process that reads `pipe` as its standard input. Raises OSError."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", _LATER, _ROOT],
            {},  # none of the user's secrets, and no marker of a server that started mcpd
            file_actions=[
                (os.POSIX_SPAWN_DUP2, pipe, 0),
                *((os.POSIX_SPAWN_DUP2, null, fd) for fd in (1, 2)),
            ],
            setsigmask=[],
        )
    finally:
        os.close(null)


def take_over() -> None:
    """The life of a guard that was started by exec, with the pipe as its standard input. Never returns."""
    process.conceal()
    _guard(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3))


def _guard(pipe: int) -> None:
    """The guard's life. It never returns: the daemon's code above must not go on here."""
    try:
        _let_go(pipe)
        told = Told()
        while part := os.read(pipe, 4096):
            told.feed(part)
            if told.dismissed:
                os._exit(0)
        if told.instance:
            if not told.left():
                time.sleep(BIRTH)
            sweep.clear(told.left, patience=PATIENCE)
        os._exit(0)
    finally:
        os._exit(1)


class Told:
    """What the daemon has said, as far as whole lines have come."""

    def __init__(self) -> None:
        self.instance = ""
        self.servers: set[int] = set()
        self._rest = b""

    @property
    def dismissed(self) -> bool:
        return bool(self.instance) and self._rest == b"."

    def feed(self, part: bytes) -> None:
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            if not self.instance:
                self.instance = line.decode()
            elif line[:1] == b"+":
                self.servers.add(int(line[1:]))
            else:
                self.servers.discard(int(line[1:]))

    def left(self) -> list[sweep.Process]:
        return sweep.find(self.instance, self.servers)


def _let_go(pipe: int) -> None:
    """Hold nothing but the pipe: no terminal, no signal of the terminal's, no descriptor, no folder."""
    with contextlib.suppress(PermissionError):  # whoever started it has seen to that
        os.setsid()
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    process.rename("mcpd-guard")
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    # The write end is among the rest, and so is whatever the daemon was handed: a caller that waits for the
    # end of our output, or a socket of systemd's.
    for fd in [int(entry) for entry in os.listdir("/proc/self/fd")]:
        if fd > 2 and fd != pipe:
            with contextlib.suppress(OSError):  # the one that listdir itself had open
                os.close(fd)
