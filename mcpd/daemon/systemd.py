"""The service manager, where there is one: passed sockets, readiness, watchdog, stop.

The one import of systemd-python, for notices; without it that small protocol is spoken here (sd_notify(3): a
datagram to NOTIFY_SOCKET). Sockets are taken here in any case (sd_listen_fds(3): descriptors from 3 on, named
by variables).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import socket
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)

FIRST_FD = 3  # SD_LISTEN_FDS_START


def notify(*fields: str) -> bool:
    """Tell the manager, for instance `notify("READY=1", "STATUS=serving")`. False when nobody listens."""
    if not os.environ.get("NOTIFY_SOCKET"):
        return False
    text = "\n".join(fields)
    try:
        daemon = _systemd_python()
    except ImportError:
        return _notify(os.environ["NOTIFY_SOCKET"], text)
    try:
        return bool(daemon.notify(text))
    except OSError:
        return False  # a manager that is gone must not end us


def _systemd_python() -> Any:
    """`systemd.daemon`. By name, because type checkers take the folder of units beside the package for it."""
    return importlib.import_module("systemd.daemon")


def _notify(address: str, text: str) -> bool:
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.connect(address)
            sender.send(text.encode())
        except OSError:
            return False
    return True


def take_sockets() -> dict[str, list[socket.socket]]:
    """The listening sockets passed to this process, by name. They are ours alone afterwards.

    The variables are removed and close-on-exec is set, so that no child takes them for its own.
    """
    if not os.environ.get("LISTEN_FDS"):
        return {}
    passed: dict[str, list[socket.socket]] = {}
    for fd, name in _listen_fds().items():
        try:
            sock = socket.socket(fileno=fd)
        except OSError:  # a FIFO or a file of a unit of somebody's own
            log.warning('closing descriptor %d passed as "%s": it is no socket', fd, name)
            with contextlib.suppress(OSError):
                os.close(fd)
            continue
        sock.setblocking(False)
        passed.setdefault(name, []).append(sock)
    return passed


def _listen_fds() -> dict[int, str]:
    # Not by systemd-python: sd_listen_fds gives up when one descriptor is not there, and it takes the
    # variables out of the C library's environment, which os.environ does not notice.
    names = passed_names(os.environ, os.getpid())
    for variable in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
        os.environ.pop(variable, None)
    for fd in names:
        with contextlib.suppress(OSError):  # promised and not there
            os.set_inheritable(fd, False)
    return names


def passed_names(environ: Mapping[str, str], pid: int) -> dict[int, str]:
    """Descriptor -> name of what the manager passed to process `pid`; empty when it was meant for another."""
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(pid) or not count.isdigit():
        return {}
    names = environ.get("LISTEN_FDNAMES", "").split(":")
    return {FIRST_FD + i: names[i] if i < len(names) and names[i] else "unknown" for i in range(int(count))}


def watchdog_interval(environ: Mapping[str, str], pid: int) -> float | None:
    """Seconds between signs of life: a third of what the manager allows; None when it does not watch us."""
    limit = environ.get("WATCHDOG_USEC", "")
    if environ.get("WATCHDOG_PID", str(pid)) != str(pid) or not limit.isdigit() or int(limit) == 0:
        return None
    return int(limit) / 3e6


def stderr_is_journal(environ: Mapping[str, str], fd: int = 2) -> bool:
    """Whether what we write to standard error goes to the journal (systemd.exec(5), JOURNAL_STREAM)."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    if not (device.isdigit() and inode.isdigit()):
        return False
    try:
        found = os.fstat(fd)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (int(device), int(inode))
