"""What malloc is asked for the daemon's own process. Nothing happens with a libc that cannot do it."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8


def settle() -> None:
    """To be called before there are threads.

    Malloc keeps what large messages took instead of mapping and unmapping it each time. Measured: a quarter
    of the CPU time of calls of 1 MB. Threads share one arena with the loop: what a catalogue of 10,000 tools
    is read and stored in would otherwise stay with each of them, 20 MiB.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 64 << 20)
        mallopt(M_TRIM_THRESHOLD, 256 << 20)
        mallopt(M_ARENA_MAX, 1)


def give_back() -> None:
    """Return what malloc holds and nobody uses, also between what is used; 1 to 5 ms, in any thread."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
