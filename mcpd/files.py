"""Files of the user's own, read with care and written whole.

Reading: a regular file, the user's (or root's, as system-wide managers of home folders
make them), not writable by everybody, no larger than a stated limit. Writing: a new
private file beside the old one, then a rename, so that a reader sees the old text or
the new one and never half of it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path


class Unfit(Exception):
    """The file is there but must not be used; the text says why, without the file's name."""


def read_own(path: Path, limit: int) -> bytes:
    """The content of one file of at most `limit` bytes.

    Raises FileNotFoundError when there is none, OSError when it cannot be read, Unfit
    when it is not a file that may be trusted. A symbolic link is followed: people keep
    their settings in a folder of their own; what counts is the file it ends at.
    """
    # O_NONBLOCK: opening a FIFO that nobody writes would wait for ever.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        # First, because a folder cannot be made a file object: the descriptor would be nobody's.
        _check_fit(os.fstat(fd))
        with open(fd, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise Unfit(f"it is larger than {limit} bytes")
    return data


def _check_fit(info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        raise Unfit("it is not a regular file")
    if info.st_uid not in (os.geteuid(), 0):
        raise Unfit("it belongs to another user")
    if info.st_mode & stat.S_IWOTH:
        raise Unfit("everybody may write to it (chmod o-w)")


def make_private_folder(path: Path) -> None:
    """Make a folder, and what is missing above it, for this user only (0700)."""
    for missing in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def write_whole(path: Path, data: bytes, *, durable: bool = True, exclusive: bool = False) -> None:
    """Replace or make a file (0600) in one step.

    `durable`: after the return it survives a power cut. `exclusive`: raises
    FileExistsError, and changes nothing, when there is a file of that name.
    Raises OSError when it cannot be written; nothing is left behind then.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if durable:
                os.fsync(fd)
        if exclusive:
            _link_new(temporary, path)
        else:
            os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    if durable:
        sync_folder(path.parent)


def _link_new(temporary: Path, path: Path) -> None:
    """Give a finished file its name unless somebody has taken it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        # No hard links on this file system; the remaining window is a few microseconds.
        if os.path.lexists(path):
            raise FileExistsError(f"{path} exists") from None
        os.rename(temporary, path)
    else:
        os.unlink(temporary)


def sync_folder(path: Path) -> None:
    """Make a rename or a removal in a folder survive a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
