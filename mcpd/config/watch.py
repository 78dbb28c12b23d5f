"""Waiting for changes in folders, by inotify: no polling, no thread.

Watched are folders, not files: editors and mcpd itself replace a file by renaming, and a
watch on the old file would see no more. A change behind a symbolic link (a file that
lies elsewhere) is not seen; `mcpctl reload` reads it.

The three calls of libc are reached by ctypes. The maintained packages for them bring an
asyncio or thread layer of their own, larger than what is needed here.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import trio

# <sys/inotify.h>
_CLOSE_WRITE, _ATTRIB, _MOVED_FROM, _MOVED_TO = 0x8, 0x4, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_Q_OVERFLOW, _IGNORED, _ONLYDIR = 0x4000, 0x8000, 0x0100_0000
#: In a folder that was asked for; and in one above it while that does not exist: a home
#: folder is busy, and nobody is to be woken by what happens there.
_WANTED = _CLOSE_WRITE | _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_ABOVE = _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF
_HEADER = struct.Struct("iIII")

QUIET = 0.2
"""Seconds without an event after which a change counts as finished."""
PATIENCE = 2.0
"""Seconds after which a change is reported though events keep coming."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


class Watch:
    """The folders named, and what changes in them; a context manager that owns one descriptor.

    A folder that does not exist (any more) is waited for in the nearest folder above it
    that does. Raises OSError when the kernel gives no more watches or instances
    (fs.inotify.max_user_instances); the caller then does without.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(dict.fromkeys(Path(os.path.abspath(folder)) for folder in folders))
        #: watch descriptor -> the folder it stands for now. A descriptor belongs to an inode.
        self._watched: dict[int, Path] = {}
        self._changed: set[Path] = set()
        self._fd = _checked(_libc().inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify_init1")
        try:
            self._arm()
        except BaseException:
            self.close()
            raise
        self._changed.clear()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptor back. No task may be waiting in `changed`."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    async def changed(self) -> frozenset[Path]:
        """Wait until something changed and settled; return what, and forget it.

        The paths are entries of the folders, or a folder itself when it appeared,
        vanished, or too much happened to tell. When cancelled, nothing is forgotten.
        """
        while not self._changed:
            await trio.lowlevel.wait_readable(self._fd)
            self._read()
        latest = trio.current_time() + PATIENCE
        with trio.move_on_at(latest):
            while True:
                with trio.move_on_after(QUIET) as quiet:
                    await trio.lowlevel.wait_readable(self._fd)
                if quiet.cancelled_caught:
                    break
                self._read()
        changed, self._changed = frozenset(self._changed), set()
        return changed

    def _read(self) -> None:
        """Take in all events that are there."""
        rearm = False
        while True:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                break
            at = 0
            while at < len(data):
                number, mask, _, length = _HEADER.unpack_from(data, at)
                at += _HEADER.size
                name = data[at : at + length].rstrip(b"\0")
                at += length
                rearm |= self._take(number, mask, name)
        if rearm:
            self._arm()

    def _take(self, number: int, mask: int, name: bytes) -> bool:
        """Note one event; True when a watched folder came or went."""
        if mask & _Q_OVERFLOW:
            self._changed.update(self._folders)
            return True
        folder = self._watched.get(number)
        if folder is None:
            return False
        if mask & _IGNORED:
            # The folder is gone; a watch that was taken back is no longer in the table.
            del self._watched[number]
            self._changed.update({folder}.intersection(self._folders))
            return True
        if not name:
            # About the folder itself; its permissions do not matter to anybody here.
            return bool(mask & (_DELETE_SELF | _MOVE_SELF))
        path = folder / os.fsdecode(name)
        if folder in self._folders:
            self._changed.add(path)
        return any(path in (wanted, *wanted.parents) for wanted in self._folders)

    def _arm(self) -> None:
        """Watch every folder, or the nearest one above it that exists.

        Watching a folder again changes nothing. A folder that is watched anew may have
        been filled before, so it counts as changed.
        """
        watched: dict[int, Path] = {}
        for folder in self._folders:
            self._arm_one(folder, watched)
        for number in self._watched.keys() - watched.keys():
            _libc().inotify_rm_watch(self._fd, number)
        before = {path: number for number, path in self._watched.items()}
        after = {path: number for number, path in watched.items()}
        self._watched = watched
        self._changed.update(folder for folder in self._folders if before.get(folder) != after.get(folder))

    def _arm_one(self, folder: Path, watched: dict[int, Path]) -> None:
        # Again when the next folder appeared after it was looked for; bounded, because what
        # is there may also be a file or closed to us.
        for _ in range(8):
            below = folder
            for path in (folder, *folder.parents):
                number = self._add(path)
                if number is not None:
                    watched[number] = path
                    break
                below = path
            if path == folder or not below.is_dir():
                return

    def _add(self, path: Path) -> int | None:
        """A watch on one folder; None when there is no such folder."""
        mask = _ONLYDIR | (_WANTED if path in self._folders else _ABOVE)
        number = _libc().inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask))
        if number < 0 and ctypes.get_errno() in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
            return None
        return _checked(number, f'cannot watch "{path}"')


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return int(result)
