"""Who is at the other end of a TCP connection within this machine, by the kernel's word (sock_diag(7))."""

from __future__ import annotations

import os
import socket
import struct
from typing import NamedTuple

import trio

from mcpd.agents.identity import Peer, facts

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_ANY_STATE = 0xFFFFFFFF

#: struct nlmsghdr; the beginning of struct inet_diag_req_v2; struct inet_diag_sockid, ports and addresses in
#: network order, with any interface and any cookie.
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBxI")
_SOCKET = struct.Struct("!HH16s16s4x8s")
_NO_COOKIE = b"\xff" * 8

#: Where uid and inode stand in the answer: behind its header, four bytes, the socket and three numbers.
_FOUND = struct.Struct("=II")
_FOUND_AT = _HEADER.size + 4 + _SOCKET.size + 12


class Owner(NamedTuple):
    """Of the peer's socket."""

    uid: int
    inode: int


def owner_of(sock: socket.socket) -> Owner | None:
    """Whose the socket at the other end is; None where the kernel does not tell, or it is gone already."""
    try:
        theirs, ours = sock.getpeername(), sock.getsockname()
        ident = _SOCKET.pack(
            theirs[1], ours[1], _packed(sock.family, theirs), _packed(sock.family, ours), _NO_COOKIE
        )
        request = _REQUEST.pack(sock.family, socket.IPPROTO_TCP, 0, _ANY_STATE) + ident
        header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as netlink:
            netlink.send(header + request)
            answer = netlink.recv(4096)  # it was made while we sent
        if _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
            return None
        return Owner(*_FOUND.unpack_from(answer, _FOUND_AT))
    except (OSError, struct.error):
        return None


def _packed(family: int, address: tuple[str, int]) -> bytes:
    return socket.inet_pton(family, address[0]).ljust(16, b"\0")


async def peer_of(inode: int) -> Peer:
    """The process that has this socket open, the first where there are several; empty where none is seen."""
    return facts(await trio.to_thread.run_sync(_holder, f"socket:[{inode}]")) if inode else facts(0)


def _holder(link: str) -> int:
    """Looks through the descriptors of all processes that we may look into."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            for fd in os.listdir(f"/proc/{name}/fd"):
                if os.readlink(f"/proc/{name}/fd/{fd}") == link:
                    return int(name)
        except OSError:
            continue
    return 0
