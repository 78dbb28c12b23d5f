"""Who owns a runtime folder: the holder of a flock on `<runtime>/lock`, for life. Never a ping (n21).

A second lock is on the state folder: two daemons with different sockets would run every server twice and
write into the same databases. The kernel drops a lock with the process, however it ends, so a lock file
that lies about means nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from mcpd.errors import Failure

#: Seconds in which a daemon that is ending gives up its second lock after the first one.
HANDOVER = 1.0
PAUSE = 0.02


class Taken(Failure):
    """Another daemon owns the folder. `pid` is what it wrote into the file; 0 if that cannot be read."""

    def __init__(self, path: str, pid: int) -> None:
        owner = f"process {pid}" if pid else "another process"
        super().__init__(
            "refused",
            f'cannot start: mcpd already runs here, {owner} holds "{path}"',
            hint="use that one, or stop it with `mcpctl stop`",
        )
        self.pid = pid


class Lock:
    """A held lock. The descriptor is not inherited over exec: a server cannot hold it for us."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    @property
    def intact(self) -> bool:
        """Whether the file at the path is still the one we hold."""
        return _same_file(self.path, self._fd)

    def renew(self) -> None:
        """Take the lock again after somebody removed the file.

        Raises Taken when another was faster, Failure when it cannot be taken; the old one is held on to then.
        """
        fd = _take(self.path)
        os.close(self._fd)
        self._fd = fd

    def release(self) -> None:
        """Give the folder up; the file stays, since removing it would let two owners in."""
        os.close(self._fd)


def take(path: str, note: str = "") -> Lock:
    """Become the owner. Raises Taken, or Failure when the file cannot be opened or locked.

    `note` is written below the pid, for whoever comes too late.
    """
    return Lock(path, _take(path, note))


def take_state(path: str, control_socket: str) -> Lock:
    """Become the only daemon of a state folder; to be called by the owner of the runtime folder.

    Waits a moment for one that is ending. Raises Failure, which names the other's socket.
    """
    deadline = time.monotonic() + HANDOVER
    while True:
        try:
            return take(path, control_socket)
        except Taken as taken:
            if time.monotonic() < deadline:
                time.sleep(PAUSE)
                continue
            raise _state_in_use(path, taken.pid) from None


def _state_in_use(path: str, pid: int) -> Failure:
    owner = f"process {pid}" if pid else "another process"
    socket = _note(path)
    where = f' and listens on "{socket}"' if socket else ""
    return Failure(
        "refused",
        f'cannot start: mcpd, {owner}, already uses the folder "{os.path.dirname(path)}"{where}',
        hint=f"set MCPD_RUNTIME_DIR={os.path.dirname(socket)} to reach it" if socket else "use that one",
    )


def _note(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).partition("\n")[2].strip()
    except OSError:
        return ""


def _take(path: str, note: str = "") -> int:
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as e:
            raise Failure("refused", f'cannot open lock file "{path}": {e.strerror}') from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _owner(fd)
            os.close(fd)
            raise Taken(path, pid) from None
        except OSError as e:
            os.close(fd)
            raise Failure("refused", f'cannot lock "{path}": {e.strerror}') from None
        if _same_file(path, fd):
            text = f"{os.getpid()}\n{note}\n" if note else f"{os.getpid()}\n"
            with contextlib.suppress(OSError):  # a full disk; what is written only names us
                os.ftruncate(fd, 0)
                os.pwrite(fd, os.fsencode(text), 0)
            return fd
        os.close(fd)  # removed between opening and locking: what we hold guards nothing


def _same_file(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except OSError:  # gone, or its folder is no folder any more
        return False


def _owner(fd: int) -> int:
    text = os.pread(fd, 32, 0).partition(b"\n")[0].strip()
    return int(text) if text.isdigit() else 0
