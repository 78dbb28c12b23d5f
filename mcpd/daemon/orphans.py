"""The daemon is the parent of what its servers leave behind (prctl(2), PR_SET_CHILD_SUBREAPER).

A process whose parent has ended would become a child of init, and nothing would tell any more that a server
has started it; so it becomes a child of the daemon's, whatever it does to its environment and session (n06).
What ends there has to be taken leave of, or it stays in the table of processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

import trio

from mcpd.processes import Ident, stat_of

PR_SET_CHILD_SUBREAPER = 36

#: Seconds after which a child that has ended is nobody's: whoever started one is told of its end at once.
PATIENCE = 5.0


def adopt() -> None:
    """Become the parent of orphans. Nothing happens with a libc without prctl."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def bury(*, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Take leave of orphans that have ended, until cancelled."""
    with trio.open_signal_receiver(signal.SIGCHLD) as ends:
        task_status.started()
        async for _ in ends:
            waiting = ended()
            while waiting:
                await trio.sleep(PATIENCE)
                still = ended()
                _take_leave(waiting & still)
                waiting = still - waiting


def _take_leave(children: set[Ident]) -> None:
    for pid, _ in children:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def ended() -> set[Ident]:
    """Children that have ended and that nobody has waited for. Empty where the kernel does not list them."""
    found: set[Ident] = set()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # the thread has ended, or CONFIG_PROC_CHILDREN is off
            with open(f"/proc/self/task/{thread}/children") as file:
                children = [int(pid) for pid in file.read().split()]
            found.update((pid, stat.started) for pid in children if (stat := stat_of(pid)).state == b"Z")
    return found
