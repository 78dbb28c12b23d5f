"""An answer into a file, byte for byte: a terminal shows of what is binary only that it is there."""

from __future__ import annotations

import binascii
import os

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
    if os.path.lexists(options.output) and not options.force:
        message = f'cannot save to "{options.output}": it exists'
        raise CallError("not_writable", message, "--force replaces it")
    if not options.output or not os.path.isdir(os.path.dirname(options.output) or "."):
        raise CallError("not_writable", f'cannot save to "{options.output}": there is no such folder')


def offer(options: Namespace, found: list[object]) -> None:
    """What is binary is not shown: say how to get it, where it is one thing."""
    if len(found) == 1 and options.output is None:
        output.note("--output FILE saves what is binary")


def save(data: bytes, options: Namespace) -> None:
    """Raises CallError."""
    try:
        with open(options.output, "wb" if options.force else "xb", buffering=0) as file:
            _write(file, data, options)
    except OSError as error:
        message = f'cannot save to "{options.output}": {(error.strerror or "failed").lower()}'
        raise CallError("not_writable", message) from None
    output.note(f"saved {len(data):,} bytes to {options.output}")


def _write(file: FileIO, data: bytes, options: Namespace) -> None:
    """All of it, or no file where there was none: half an image is in the way of the next attempt."""
    try:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
    except OSError:
        if not options.force:
            os.unlink(options.output)
        raise


def decoded(data: object) -> bytes:
    """What base64 stands for. Raises CallError."""
    try:
        return binascii.a2b_base64(data if isinstance(data, str) else "?", strict_mode=True)
    except ValueError:
        raise CallError("bad_answer", "cannot save it: it is not base64", "--json prints it") from None
