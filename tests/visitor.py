"""A process that opens connections for the tests, so that one run of them can be an agent and a person.

An agent's own processes, and whatever they start, widen nothing (n06). The visitor is neither above nor below
the process of the tests: it is a child of init.
"""

from __future__ import annotations

import atexit
import functools
import socket
import subprocess
import sys
from typing import NamedTuple

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


class _Visitor(NamedTuple):
    channel: socket.socket
    pid: int


@functools.cache
def _visitor() -> _Visitor:
    """The one of this run of the tests; it ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = [sys.executable, "-I", "-S", "-c", _PROGRAM]
    subprocess.run(program, stdin=theirs.fileno(), env={}, cwd="/", check=True)
    theirs.close()
    atexit.register(ours.close)
    return _Visitor(ours, int(ours.recv(20)))


def pid() -> int:
    """Its process id."""
    return _visitor().pid


def connect(path: str) -> socket.socket:
    """A connection to the socket at `path`. Raises OSError as connect(2) does."""
    return _ask(path, 1)[0]


def pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection, for each of which the other is the visitor's."""
    ours, theirs = _ask("", 2)
    return ours, theirs


def _ask(path: str, count: int) -> list[socket.socket]:
    channel = _visitor().channel
    channel.send(b"/" + path.encode())
    said, fds, _, _ = socket.recv_fds(channel, 20, count)
    if not fds:
        raise OSError(int(said), "cannot connect")
    return [socket.socket(fileno=fd) for fd in fds]
