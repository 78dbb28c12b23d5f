"""Whether a remote server is still there, asked when there is reason to doubt it.

A process tells when it ends, a remote does not. Nothing here polls: a check follows a request that went
without an answer, or a sleep of the machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable

import trio

from mcpd.errors import Failure, ServerError
from mcpd.transport.base import ConnectionLost, Ending, Unanswered
from mcpd.upstream.connection import Connection

#: Seconds that the answer to one check may take.
CHECK = 10.0

#: A server that works on something else without reading is asked so many times, not given up for it.
PATIENCE = 6

TOO_MANY_REQUESTS = 429

#: Seconds by which the clock that counts sleep must have run ahead to call it one.
SLEPT = 1.0

_CLOCK_REALTIME = 0
_ABSOLUTE_CANCELLED_ON_SET = 3
_NEVER = 2**62


class Health:
    """Checks one connection, one check at a time; `lost` is told when the server is not there any more."""

    def __init__(self, connection: Connection, lost: Callable[[Ending], None]) -> None:
        self._connection = connection
        self._lost = lost
        self._doubted = trio.Event()

    def doubt(self) -> None:
        """Something went wrong that a dead server would explain."""
        self._doubted.set()

    async def run(self) -> None:
        """Until the server does not answer, or cancelled."""
        while True:
            await self._doubted.wait()
            ending = await self._check()
            if ending is not None:
                self._lost(ending)
                return
            # What was doubted meanwhile, the check itself included, is answered with it.
            self._doubted = trio.Event()

    async def _check(self) -> Ending | None:
        method = "server/discover" if self._connection.settled.revision.stateless else "ping"
        for _ in range(PATIENCE):
            try:
                await self._connection.ask(method, timeout=CHECK)
            except (ServerError, ConnectionLost):
                # An error is an answer as well; the end of a connection is told by its transport.
                return None
            except Unanswered as e:
                lasting = e.reason in ("needs_auth", "access_denied")
                busy = e.status == TOO_MANY_REQUESTS
                return None if busy else Ending(e.reason, e.message, lasting=lasting)
            except Failure as e:
                if e.kind != "timed_out":
                    return None
                if not self._connection.busy:
                    break
            else:
                return None
        return Ending("not_responding", f"no answer to {method} within {CHECK:g} s")


async def watch_sleep(woken: Callable[[], None]) -> None:
    """Call `woken` each time the machine has slept. Until cancelled; at once where the kernel cannot tell."""
    fd = _clock_changes()
    if fd is not None:
        try:
            await follow_sleep(fd, slept, woken)
        finally:
            trio.lowlevel.notify_closing(fd)
            os.close(fd)


async def follow_sleep(fd: int, slept: Callable[[], float], woken: Callable[[], None]) -> None:
    """`fd` becomes readable when the clocks were changed; `slept` says how long the machine has slept."""
    before = slept()
    while True:
        await trio.lowlevel.wait_readable(fd)
        try:
            os.read(fd, 8)
        except OSError as e:
            if e.errno not in (errno.ECANCELED, errno.EAGAIN):
                raise
        now = slept()
        if now - before >= SLEPT:
            woken()
        before = now


def slept() -> float:
    """Seconds that the machine has slept since it was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def _clock_changes() -> int | None:
    """A timer that never expires and is cancelled when the wall clock jumps, as it does after every sleep
    (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET); None where there is no such thing."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "timerfd_create"):
        return None
    fd = int(libc.timerfd_create(_CLOCK_REALTIME, os.O_NONBLOCK | os.O_CLOEXEC))
    if fd < 0:
        return None
    never = (ctypes.c_long * 4)(0, 0, _NEVER, 0)
    if libc.timerfd_settime(fd, _ABSOLUTE_CANCELLED_ON_SET, never, None) < 0:
        os.close(fd)
        return None
    return fd
