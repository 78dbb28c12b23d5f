"""Processes that open connections for the tests, so that one run of them can be an agent and a person.

An agent's own processes, and whatever they start, widen nothing (n06). A visitor is neither above nor below
the process of the tests: it is a child of init. There are two, the agent and the person.
"""

from __future__ import annotations

import atexit
import functools
import socket
import subprocess
import sys
from typing import Literal, NamedTuple

#: For each path on its standard input a connection to it is handed over; for an empty one, a pair.
_PROGRAM = """
import os, socket
if os.fork():
    os._exit(0)
channel = socket.socket(fileno=0)
channel.send(str(os.getpid()).encode())
while asked := channel.recv(200):
    path = asked[1:]
    try:
        if path:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(path)
            socks = [sock]
        else:
            socks = socket.socketpair()
    except OSError as error:
        channel.send(str(error.errno).encode())
    else:
        socket.send_fds(channel, [b"0"], [sock.fileno() for sock in socks])
        for sock in socks:
            sock.close()
"""


Who = Literal["agent", "person"]


class _Visitor(NamedTuple):
    channel: socket.socket
    pid: int


@functools.cache
def _visitor(who: Who) -> _Visitor:
    """It ends with this run of the tests."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    subprocess.run(program, stdin=theirs.fileno(), env={}, check=True)
    theirs.close()
    atexit.register(ours.close)
    return _Visitor(ours, int(ours.recv(20)))


def pid(who: Who) -> int:
    """Its process id."""
    return _visitor(who).pid


def connect(who: Who, path: str) -> socket.socket:
    """A connection to the socket at `path`. Raises OSError as connect(2) does."""
    return _ask(who, path, 1)[0]


def pair(who: Who) -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection, for each of which the other is the visitor's."""
    ours, theirs = _ask(who, "", 2)
    return ours, theirs


def _ask(who: Who, path: str, count: int) -> list[socket.socket]:
    channel = _visitor(who).channel
    channel.send(b"/" + path.encode())
    said, fds, _, _ = socket.recv_fds(channel, 20, count)
    if not fds:
        raise OSError(int(said), "cannot connect")
    return [socket.socket(fileno=fd) for fd in fds]
