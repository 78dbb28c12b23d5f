"""What an answer of a person is bound to: exactly the call that runs (n07).

Two calls are the same when agent, method, destination, definition, arguments and rules are. Arguments
are compared as what they say, not as how they are written: order of members, white space and escapes do
not count, the spelling of numbers does, since 1 and 1.0 need not be one thing to a server (b29).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Final

import msgspec

#: Bytes of arguments that a person can be asked about.
LARGEST: Final = 1024 * 1024


class Bound(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The parts of a call that an answer holds for."""

    agent: str
    """Its name; empty for the operator."""
    server: str
    destination: str
    """The digest of what is started or contacted (n24)."""
    tool: str
    """The server's own name, also of the tool that stands for another method (a01)."""
    method: str
    """What the server is asked."""
    pin: str
    """The digest of the definition that was decided on."""
    arguments: bytes
    """A JSON object."""
    rules: tuple[str, ...]
    """The tool's chain of rules, as its ruling says it."""


def digest(bound: Bound) -> str:
    """The name of a call and of all that are the same: SHA-256 in hexadecimal digits."""
    parts = msgspec.structs.replace(bound, arguments=canonical(bound.arguments))
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def canonical(arguments: bytes) -> bytes:
    """JSON text in the one way to write it, numbers as they are spelled.

    Text that has no such way (no JSON, a name twice, lone surrogates, nested too deeply), or is too long for
    anybody to be asked about, is the same as itself alone.
    """
    if len(arguments) > LARGEST:
        return b"\0" + arguments
    try:
        return msgspec.json.encode(read(arguments, spelled), order="deterministic")
    except (ValueError, RecursionError):
        return b"\0" + arguments  # no JSON begins like this


def read(arguments: bytes, number: Callable[[str], object]) -> object:
    """JSON text as values; `number` makes one of a number's spelling.

    Raises ValueError for what has no single meaning, RecursionError.
    """
    return json.loads(
        arguments, parse_int=number, parse_float=number, parse_constant=_refuse, object_pairs_hook=_once
    )


def spelled(number: str) -> msgspec.Raw:
    """A number for `read` that is written as it was."""
    return msgspec.Raw(number.encode())


def _refuse(constant: str) -> object:
    raise ValueError(constant)


def _once(members: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a name twice")
    return found
