"""Who owns a runtime folder: the holder of a flock on `<runtime>/lock`, for life. Never a ping (n21).

The kernel drops the lock with the process, however it ends, so a lock file that lies about means nothing.
"""

from __future__ import annotations

import fcntl
import os

from mcpd.errors import Failure


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


def take(path: str) -> Lock:
    """Become the owner. Raises Taken, or Failure when the file cannot be opened."""
    return Lock(path, _take(path))


def _take(path: str) -> int:
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
        if _same_file(path, fd):
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
            return fd
        os.close(fd)  # removed between opening and locking: what we hold guards nothing


def _same_file(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(fd))
    except OSError:  # gone, or its folder is no folder any more
        return False


def _owner(fd: int) -> int:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else 0
