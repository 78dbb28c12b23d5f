"""An answer into a file, byte for byte: a terminal shows of what is binary only that it is there."""

from __future__ import annotations

import binascii
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
    if os.path.lexists(options.output) and not (options.force or is_stream(options.output)):
        message = f'cannot save to "{options.output}": it exists'
        raise CallError("not_writable", message, "--force replaces it")
    if not options.output or not os.path.isdir(os.path.dirname(options.output) or "."):
        raise CallError("not_writable", f'cannot save to "{options.output}": there is no such folder')


def offer(options: Namespace, found: list[object]) -> None:
    """What is binary is not shown: say how to get it, where it is one thing."""
    if len(found) == 1 and options.output is None:
        output.note("--output FILE saves what is binary")


def is_stream(path: str) -> bool:
    """Whether what is written there replaces nothing: a device, a pipe, or what stdout or stderr lead to."""
    there = _found(path)
    return there is not None and (not stat.S_ISREG(there.st_mode) or _standard(there) is not None)


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
    # What a link leads to is written, and the link stays.
    path = os.path.realpath(options.output)
    try:
        if there is not None and is_stream(options.output):
            fd = _standard(there)
            with open(options.output if fd is None else fd, "wb", buffering=0, closefd=fd is None) as file:
                _write(file, data)
            return  # what it says beside it would stand in it
        elif there is not None and options.force:
            _replace(data, path, there)
        else:
            _create(data, path)
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
        try:
            file, beside = _beside(path, old)
        except PermissionError:
            # The folder or the owner is another's: there is the file itself alone.
            there.truncate(0)
            return _write(there, data)
    try:
        with file:
            _write(file, data)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


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
