"""Connections that another process has opened, so that the kernel does not take the tests for an agent.

An agent's own processes, and whatever they start, widen nothing (n06): a test that attached in its own
process could not be the person as well.
"""

from __future__ import annotations

import atexit
import functools
import socket
import subprocess
import sys

#: Connects to each path that is named on its standard input, and hands the connection over.
_PROGRAM = """
import socket, sys
channel = socket.socket(fileno=0)
while path := channel.recv(200):
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(path)
    except OSError as error:
        channel.send(str(error.errno).encode())
    else:
        socket.send_fds(channel, [b"0"], [sock.fileno()])
    sock.close()
"""


@functools.cache
def _visitor() -> socket.socket:
    """The channel to the one process that connects for this run of the tests; it ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", _PROGRAM], stdin=theirs.fileno(), env={})
    theirs.close()

    def end() -> None:
        ours.close()
        child.wait()

    atexit.register(end)
    return ours


def connect(path: str) -> socket.socket:
    """A connection to the socket at `path` by the visitor. Raises OSError as connect(2) does."""
    channel = _visitor()
    channel.send(path.encode())
    said, fds, _, _ = socket.recv_fds(channel, 20, 1)
    if not fds:
        raise OSError(int(said), "cannot connect")
    return socket.socket(fileno=fds[0])
