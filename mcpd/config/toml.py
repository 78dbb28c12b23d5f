"""One file of the user as TOML, or why it is none, with the line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from mcpd import files

MAX_FILE = 1 << 20
"""Bytes of one file; configuration that people write is a thousand times smaller."""


class Draft(NamedTuple):
    """What one of the files could say in place of what it says."""

    file: Path
    data: bytes


class Unreadable(Exception):
    """A file as a whole cannot be used; `place` is a line where one is known."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


def read_toml(path: Path, draft: Draft | None = None) -> dict[str, Any]:
    """One file of the user as TOML. Raises FileNotFoundError or Unreadable."""
    try:
        data = draft.data if draft and draft.file == path else files.read_own(path, MAX_FILE)
        text = data.decode().removeprefix("\ufeff")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unreadable("", f"{error.strerror or error}".lower()) from None
    except files.Unfit as error:
        raise Unreadable("", str(error)) from None
    except UnicodeDecodeError as error:
        raise Unreadable(f"line {data.count(10, 0, error.start) + 1}", "it is not UTF-8 text") from None
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise Unreadable("", "it is nested too deeply") from None
    except ValueError as error:
        raise _not_toml(text, str(error)) from None


_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")


def _not_toml(text: str, message: str) -> Unreadable:
    """tomllib's message, which shows no more of the text than one character or key."""
    at = _AT.search(message)
    if not at:
        return Unreadable("", f"it is not TOML ({message[:200]})")
    line = at[1] or str(text.count("\n") + 1)
    return Unreadable(f"line {line}", f"it is not TOML ({message[: at.start()][:200]})")
