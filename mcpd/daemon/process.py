"""What the daemon asks of the kernel for its own process. Loaded before the guard is forked."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys

PR_SET_DUMPABLE = 4
PR_SET_NAME = 15


def conceal() -> int:
    """Keep other processes of the user out of our memory and environment; private files by default.

    Returns the former umask, which children get back: what a server writes is its user's, not ours.

    Not inherited over exec: a server's environment stays readable to the user's processes.
    """
    umask = os.umask(0o077)
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    return umask


def rename(name: str) -> None:
    """What `ps -o comm` shows, 15 bytes."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def switch_soon() -> None:
    """Let a thread that computes give the interpreter's lock back after half a millisecond instead of five.

    The loop loses the lock with each call of the kernel, so a few of them in a row stood still for a tenth of
    a second beside a thread that wrote the journal or the cache. Measured: 94 ms became 20, nothing else
    became slower.
    """
    sys.setswitchinterval(0.0005)


def raise_file_limit() -> int:
    """Raise the limit of open files to the hard one; returns the former one, which children get back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems name a hard limit that they refuse; the soft one then has to do.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft
