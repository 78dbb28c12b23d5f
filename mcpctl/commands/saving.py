"""An answer into a file, byte for byte: a terminal shows of what is binary only that it is there."""

from __future__ import annotations

import binascii
import errno
import os
import stat

from mcpctl import output
from mcpctl.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from io import FileIO

    from mcpctl.commands import Arguments


def saving(arguments: Arguments, what: str) -> None:
    """The options of what can save `what`."""
    arguments.add_argument("-o", "--output", metavar="FILE", help=f"save {what} there, as it is")
    arguments.add_argument("--force", action="store_true", help="with --output: replace a file that is there")


def check(options: Namespace) -> None:
    """Before anything is asked, which may need a person. Raises CallError."""
    if options.output is None:
        if options.force:
            raise CallError("usage", "--force belongs to --output")
        return
    if options.json:
        raise CallError("usage", "--json prints the whole answer, --output saves a part of it: take one")
    if os.path.isdir(options.output):
        raise CallError("not_writable", f'cannot save to "{options.output}": it is a folder')
    # Decided here and not when there is an answer: what somebody puts there meanwhile is not followed.
    options.saves = "new"
    if is_stream(options.output):
        options.saves = "stream"
    elif os.path.lexists(options.output):
        if not options.force:
            message = f'cannot save to "{options.output}": it exists'
            raise CallError("not_writable", message, "--force replaces it")
        options.saves = "replace"
    if not options.output or not os.path.isdir(os.path.dirname(options.output) or "."):
        raise CallError("not_writable", f'cannot save to "{options.output}": there is no such folder')


def offer(options: Namespace, found: list[object]) -> None:
    """What is binary is not shown: say how to get it, where it is one thing."""
    if len(found) == 1 and options.output is None:
        output.note("--output FILE saves what is binary")


def is_stream(path: str) -> bool:
    """Whether what is written there replaces nothing: a terminal or the like, a pipe, or what stdout or
    stderr lead to. A disk is none."""
    there = _found(path)
    if there is None:
        return False
    kinds = (stat.S_ISCHR, stat.S_ISFIFO, stat.S_ISSOCK)
    return any(kind(there.st_mode) for kind in kinds) or _standard(there) is not None


def to_stdout(options: Namespace) -> bool:
    """Whether what is saved goes where the answer would be printed."""
    there = None if options.output is None else _found(options.output)
    return there is not None and _standard(there) == 1


def _found(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _standard(there: os.stat_result) -> int | None:
    """The descriptor by which we have that file open already: another one would begin anew in it."""
    for fd in (1, 2):
        try:
            if os.path.samestat(os.fstat(fd), there):
                return fd
        except OSError:  # closed
            continue
    return None


def save(data: bytes, options: Namespace) -> None:
    """Raises CallError; BrokenPipeError of a reader who has seen enough."""
    there = _found(options.output)
    try:
        if options.saves == "stream":
            if there is None or not is_stream(options.output):
                raise FileExistsError(errno.EEXIST, "it is another file by now")
            fd = _standard(there)
            with open(options.output if fd is None else fd, "wb", buffering=0, closefd=fd is None) as file:
                _write(file, data)
            return  # what it says beside it would stand in it
        if options.saves == "new":
            _create(data, options.output)
        else:
            # What a link leads to is written, and the link stays.
            path = os.path.realpath(options.output)
            if there is None:
                _create(data, path)
            else:
                _replace(data, path, there)
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f'cannot save to "{options.output}": {(error.strerror or "failed").lower()}'
        raise CallError("not_writable", message) from None
    output.note(f"saved {len(data):,} bytes to {options.output}")


def _create(data: bytes, path: str) -> None:
    """A new file, or none: half an image is in the way of the next attempt."""
    with open(path, "xb", buffering=0) as file:
        try:
            _write(file, data)
        except BaseException:
            os.unlink(path)
            raise


def _replace(data: bytes, path: str, old: os.stat_result) -> None:
    """The new content where it can be written whole, else the old one stays."""
    with open(path, "ab", buffering=0) as there:  # what must not be written is not replaced either
        if stat.S_ISREG(old.st_mode) and old.st_nlink == 1 and _exchanged(data, path, old):
            return
        # It has other names as well, or the folder or the owner is another's: there is the file itself alone.
        if stat.S_ISREG(old.st_mode):
            there.truncate(0)
        _write(there, data)


def _exchanged(data: bytes, path: str, old: os.stat_result) -> bool:
    """Whether another file could be put in its place."""
    try:
        file, beside = _beside(path, old)
    except PermissionError:
        return False
    try:
        with file:
            _write(file, data)
        os.replace(beside, path)
    except BaseException as error:
        os.unlink(beside)
        if isinstance(error, OSError) and error.errno == errno.EBUSY:  # something is mounted there
            return False
        raise
    return True


def _beside(path: str, old: os.stat_result) -> tuple[FileIO, str]:
    """An empty file in the same folder, with the owner and the mode of the old one, and its path."""
    import tempfile

    fd, beside = tempfile.mkstemp(prefix=".mcpctl-", dir=os.path.dirname(path))
    try:
        new = os.fstat(fd)
        if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(fd, old.st_uid, old.st_gid)
        os.fchmod(fd, stat.S_IMODE(old.st_mode))
    except BaseException:
        os.close(fd)
        os.unlink(beside)
        raise
    return open(fd, "wb", buffering=0), beside


def _write(file: FileIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def decoded(data: object) -> bytes:
    """What base64 stands for. Raises CallError."""
    try:
        return binascii.a2b_base64(data if isinstance(data, str) else "?", strict_mode=True)
    except ValueError:
        raise CallError("bad_answer", "cannot save it: it is not base64", "--json prints it") from None
