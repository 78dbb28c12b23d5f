"""Where in a TOML text each key and value stands, for messages that name a line and edits that keep the rest.

Pure. Only for texts that `tomllib` has read: what is wrong with others is its business.
"""

from __future__ import annotations

import re
import tomllib
from typing import NamedTuple

from mcpd.config.fields import join

Path = tuple[str | int, ...]
"""Keys, and the numbers of places in lists."""


class Span(NamedTuple):
    """One value, or the header of a table."""

    path: Path
    line: int
    """From 1, where the key or, in a list, the value begins."""
    start: int
    end: int
    """The value's place in the text; of a header that of its name."""


def spans(text: str) -> tuple[Span, ...]:
    """Every key, list member and table header of a TOML text, in the order of the text.

    Raises ValueError for what is no TOML, RecursionError for what is nested too deeply.
    """
    return _Reader(text).document()


def lines(text: str) -> dict[str, int]:
    """The line of every place as problems name it (`servers.x.args[1]`), tables included."""
    found: dict[str, int] = {}
    for span in spans(text):
        place = ""
        for part in span.path:
            place = f"{place}[{part}]" if isinstance(part, int) else join(place, part)
            found.setdefault(place, span.line)
    return found


def line_of(found: dict[str, int], place: str) -> int:
    """The line of a place, or of the nearest thing around it that has one; 0 for none."""
    while place and place not in found:
        place = place[: max(place.rfind("."), place.rfind("["), 0)]
    return found.get(place, 0)


_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:[^\\"]|\\.|"(?!""))*"{3,5}'
    r"|'''(?:[^']|'(?!''))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
#: A date may have a blank before its time.
_SCALAR = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:[^\s,\]}#]*|[^\s,\[\]{}#\"']+")


class _Reader:
    """One reading of a text; `at` is how far it has come."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: list[Span] = []
        self._line = 1
        self._counted = 0

    def document(self) -> tuple[Span, ...]:
        table: Path = ()
        arrays: dict[Path, int] = {}
        self.take(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self.header(arrays)
            else:
                self.pair(table)
            self.take(_BLANK)
        return tuple(self.found)

    def header(self, arrays: dict[Path, int]) -> Path:
        """`[a.b]`, or `[[a.b]]`, which is one more member of a list."""
        double = self.text.startswith("[[", self.at)
        self.at += 2 if double else 1
        self.take(_SPACE)
        line, start = self.line, self.at
        path: Path = ()
        *outer, last = self.keys()
        for key in outer:
            path = (*path, key)
            if path in arrays:  # of a list of tables its last member is meant
                path = (*path, arrays[path])
        path = (*path, last)
        if double:
            arrays[path] = arrays.get(path, -1) + 1
            path = (*path, arrays[path])
        self.found.append(Span(path, line, start, self.at))
        self.take(_SPACE)
        self.expect("]]" if double else "]")
        return path

    def pair(self, table: Path) -> None:
        line = self.line
        path = (*table, *self.keys())
        self.take(_SPACE)
        self.expect("=")
        self.take(_SPACE)
        self.value(path, line)

    def keys(self) -> tuple[str, ...]:
        found = [self.key()]
        while True:
            end = self.at
            self.take(_SPACE)
            if not self.text.startswith(".", self.at):
                self.at = end
                return tuple(found)
            self.at += 1
            self.take(_SPACE)
            found.append(self.key())

    def key(self) -> str:
        if self.text[self.at : self.at + 1] in ('"', "'"):
            word = self.take(_STRING)
            return str(tomllib.loads(f"k = {word}")["k"])
        return self.take(_BARE)

    def value(self, path: Path, line: int) -> None:
        """Notes the value before its members."""
        place, start = len(self.found), self.at
        match self.text[start : start + 1]:
            case "[":
                self.members(path)
            case "{":
                self.inline(path)
            case '"' | "'":
                self.take(_STRING)
            case _:
                self.take(_SCALAR)
        self.found.insert(place, Span(path, line, start, self.at))

    def members(self, path: Path) -> None:
        self.at += 1
        number = 0
        self.take(_BLANK)
        while not self.text.startswith("]", self.at):
            self.value((*path, number), self.line)
            number += 1
            self.take(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1
                self.take(_BLANK)
            elif not self.text.startswith("]", self.at):
                self.expect("]")
        self.at += 1

    def inline(self, path: Path) -> None:
        self.at += 1
        self.take(_BLANK)
        while not self.text.startswith("}", self.at):
            self.pair(path)
            self.take(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1
                self.take(_BLANK)
            elif not self.text.startswith("}", self.at):
                self.expect("}")
        self.at += 1

    @property
    def line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def take(self, shape: re.Pattern[str]) -> str:
        found = shape.match(self.text, self.at)
        if found is None:
            raise ValueError(f"no TOML at character {self.at}")
        self.at = found.end()
        return found.group()

    def expect(self, word: str) -> None:
        if not self.text.startswith(word, self.at):
            raise ValueError(f'no "{word}" at character {self.at}')
        self.at += len(word)
