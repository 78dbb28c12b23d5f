"""Who is on the other end of an agent's socket, by the kernel's word and by its own (DESIGN 3)."""

from __future__ import annotations

import os
import socket
import struct

import msgspec
import trio

from mcpd.errors import Failure
from mcpd.processes import linked, look


class Peer(msgspec.Struct, frozen=True):
    """The process that opened the connection, as the kernel saw it then."""

    pid: int
    exe: str
    cwd: str


class Attach(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Params of the line with which a connection may begin: notifications/dev.mcpd/attach."""

    agent: str = ""
    root: str = ""
    server: str = ""
    """One server to be shown alone, with its own names."""
    without: list[str] = []
    """Servers to leave out (c23)."""


def peer_of(sock: trio.socket.SocketType) -> Peer:
    """Facts from SO_PEERCRED and /proc; what cannot be read is empty.

    Whose process it is was checked when the connection was let in.
    """
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return facts(struct.unpack("3i", raw)[0])


def facts(pid: int) -> Peer:
    """What /proc says of a process; of no process, 0, it says nothing."""
    return Peer(pid, linked(pid, "exe"), linked(pid, "cwd"))


def check_root(root: str, peer: Peer) -> str:
    """The real path of a project root that the peer claims. Raises Failure `invalid_params`.

    It must be a folder of the user's that contains the working folder of the peer or of its parent
    (the bridge's parent is the host).
    """
    try:
        real = os.path.realpath(root)
        facts = os.stat(real)
    except OSError as e:
        raise Failure("invalid_params", f'cannot use root "{root[:200]}": {e.strerror}') from None
    except ValueError:
        raise Failure("invalid_params", f"cannot use root {root[:200]!r}: no name of a folder") from None
    if not os.path.isdir(real) or facts.st_uid != os.getuid():
        raise Failure("invalid_params", f'cannot use root "{root[:200]}": not a folder of this user')
    folders = (peer.cwd, linked(_parent(peer.pid), "cwd"))
    if not any(folder == real or folder.startswith(real.rstrip("/") + "/") for folder in folders if folder):
        raise Failure("invalid_params", f'cannot use root "{root[:200]}": the process does not work in it')
    return real


def _parent(pid: int) -> int:
    link = look(pid)
    return link.parent if link is not None else 0
