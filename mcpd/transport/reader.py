"""One task that reads every stream of the daemon.

All descriptors stand in one epoll set, and the task waits for that set alone. A stream costs no
task of its own and no registration for each chunk; with many agents that halves the time of a small
call (measured). What a stream's chunk leads to runs here and must not wait.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

import trio

from mcpd.transport.lines import CHUNK, Turns

Receive = Callable[[bytes | None], None]
"""Takes a chunk; empty at the end of the input; None when the peer is gone in both directions."""


class Reader:
    """The owner of the epoll set. Descriptors are non-blocking and stay their owners'."""

    def __init__(self) -> None:
        self.turns = Turns()
        self._epoll = select.epoll()
        self._streams: dict[int, Receive] = {}
        self._ended: set[int] = set()

    def add(self, fd: int, receive: Receive) -> None:
        """Read from now on. `receive` may add and remove streams, also its own; it must not raise."""
        if not self._epoll.closed:
            self._streams[fd] = receive
            self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Stop reading; to be called before the descriptor is closed. Does nothing for an unknown one."""
        if self._streams.pop(fd, None) is not None:
            self._ended.discard(fd)
            self._epoll.unregister(fd)

    def pause(self, fd: int) -> None:
        """Let the peer wait until `resume`; its going is still noticed."""
        if fd in self._streams:
            self._epoll.modify(fd, 0)

    def resume(self, fd: int) -> None:
        if fd in self._streams and fd not in self._ended:
            self._epoll.modify(fd, select.EPOLLIN)

    def close(self) -> None:
        """The end: what is added or removed from now on is of no consequence."""
        self._streams.clear()
        self._epoll.close()

    async def run(self) -> None:
        """Until cancelled."""
        epoll, streams, read, turns = self._epoll, self._streams, os.read, self.turns
        fd_of_all = epoll.fileno()
        while True:
            await trio.lowlevel.wait_readable(fd_of_all)
            turns.number += 1
            for fd, events in epoll.poll(0):
                receive = streams.get(fd)
                if receive is None:
                    # An earlier stream of this round has removed it.
                    continue
                if events & select.EPOLLIN:
                    try:
                        chunk = read(fd, CHUNK)
                    except BlockingIOError:
                        continue
                    except OSError:
                        chunk = b""
                    if not chunk:
                        self._end(fd)
                    receive(chunk)
                else:
                    # EPOLLHUP or EPOLLERR alone: nothing is left to read.
                    self._gone(fd, receive)

    def _end(self, fd: int) -> None:
        """The input has ended; only the hangup is waited for from here on."""
        self._ended.add(fd)
        self._epoll.modify(fd, 0)

    def _gone(self, fd: int, receive: Receive) -> None:
        ended = fd in self._ended
        self.remove(fd)
        if not ended:
            receive(b"")
        receive(None)
