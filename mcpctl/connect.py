"""Opening a socket of the daemon, with as few imports as the bridge can afford."""

from __future__ import annotations

import _socket
import os
import sys

from mcpctl.errors import CallError
from mcpctl.paths import LONGEST


def connect(path: str, timeout: float | None = 10.0) -> _socket.socket | None:
    """A connection to the daemon's socket at `path`; None while nobody listens there.

    Nothing is ever sent to another user's process: the peer must be the caller's own or root's, by the
    kernel's word. Raises CallError `foreign_socket`, or `not_running` where the socket cannot be used at all.
    """
    if len(os.fsencode(path)) > LONGEST:
        raise CallError(
            "not_running",
            f'cannot use "{path}": longer than the {LONGEST} bytes that a socket path may have',
        )
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout)
        sock.connect(path)
        check_peer(peer_uid(sock), os.getuid(), path)
        return sock
    # Refused: nobody accepts any more. Would block: the queue of connections is full.
    except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError, BlockingIOError):
        sock.close()
        return None
    except OSError as error:
        sock.close()
        raise CallError("not_running", f'cannot connect to "{path}": {error.strerror or error}') from None
    except CallError:
        sock.close()
        raise


def peer_uid(sock: _socket.socket) -> int:
    """Whose process made the listening socket. SO_PEERCRED gives struct ucred {pid, uid, gid}."""
    credentials = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[4:8], sys.byteorder)


def check_peer(peer: int, own: int, path: str) -> None:
    if peer not in (own, 0):
        raise CallError("foreign_socket", f'cannot trust "{path}": it belongs to the user with uid {peer}')
