"""The guard: a small process that ends the servers when the daemon cannot (SIGKILL, out of memory, a crash).

It is forked before anything large is loaded and holds one thing, the read end of a pipe whose write end
only the daemon has. The daemon writes whose children to look after, and a last byte when it stops in good
order; end-of-file without that byte means that it died. It never polls.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time

from mcpd.daemon import process
from mcpd.transport import sweep

#: Seconds that servers have to end by themselves (their standard input ended with the daemon).
PATIENCE = 5.0
#: Seconds after which a child that was being spawned when the daemon died can be seen.
BIRTH = 0.2
#: Seconds that an orderly stop waits for the guard to leave.
LEAVE = 1.0


class Guard:
    """The daemon's side."""

    def __init__(self, pid: int, fd: int) -> None:
        self.pid = pid
        self._fd = fd

    def watch(self, instance: str) -> None:
        """Look after the children of this instance (`<runtime>.<instance>`). To be called once."""
        self._tell(instance.encode() + b"\n")

    def dismiss(self) -> None:
        """An orderly stop: nothing is left, or it is ours to end. Waits a moment until the guard is gone."""
        self._tell(b".")
        os.close(self._fd)
        try:
            pidfd = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if select.select([pidfd], [], [], LEAVE)[0]:
                os.waitpid(self.pid, os.WNOHANG)
        finally:
            os.close(pidfd)

    def _tell(self, words: bytes) -> None:
        # Somebody may have ended the guard; then the next start sweeps.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._fd, words)


def start() -> Guard:
    """Fork the guard. Only where no thread and no event loop exists yet."""
    read_end, write_end = (
        os.pipe()
    )  # neither survives an exec: no server keeps the daemon alive for the guard
    pid = os.fork()
    if pid == 0:
        _guard(read_end)
    os.close(read_end)
    return Guard(pid, write_end)


def _guard(pipe: int) -> None:
    """The guard's life. It never returns: the daemon's code above must not go on here."""
    try:
        _let_go(pipe)
        words = b""
        while part := os.read(pipe, 4096):
            words += part
            if words.endswith(b"\n."):
                os._exit(0)
        if words.endswith(b"\n"):
            instance = words[:-1].decode()
            if not sweep.find(instance):
                time.sleep(BIRTH)
            sweep.clear(lambda: sweep.find(instance), patience=PATIENCE)
        os._exit(0)
    finally:
        os._exit(1)


def _let_go(pipe: int) -> None:
    """Hold nothing but the pipe: no terminal, no signal of the terminal's, no descriptor, no folder."""
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
