"""Entries as rows of the file: what of arguments is kept, and what is redacted before it is."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, TypeAlias

import msgspec

from mcpd.journal.entry import Entry
from mcpd.journal.shape import LARGEST, shape

KEPT = 16 << 10
"""Characters kept of arguments, where they are kept at all."""
CHAIN = 2000
"""Characters kept of the rules that decided, or of what happened."""

_DIGEST, _SHAPE, _ARGUMENTS, _TOOL, _BECAUSE, _FINDINGS = map(
    Entry.__struct_fields__.index, ("digest", "shape", "arguments", "tool", "because", "findings")
)


#: An entry that is not yet in the file, with the arguments that it is about (JSON text). A plain tuple: the
#: collector lets go of those at its first look, and thousands wait at full load.
Waiting: TypeAlias = tuple[Entry, bytes]


class Redactor(Protocol):
    """Takes out what must not be stored (n17). Called in a worker thread."""

    def text(self, text: str) -> str:
        """The same of a text for people."""
        ...

    def stored(self, text: bytes) -> bytes:
        """The same of arguments as JSON text, in which a value may be written with escapes."""
        ...


class Rows:
    """The rows of one batch. What repeats in it is looked through once."""

    def __init__(self, key: bytes, redactor: Redactor | None, *, keep: bool) -> None:
        self._key = key
        self._redactor = redactor
        self._keep = keep
        self._seen: dict[str, str] = {}

    def values(self, part: Sequence[Waiting]) -> list[object]:
        """The values of the rows one after the other."""
        values: list[object] = []
        for entry, arguments in part:
            values += self._row(entry, arguments)
        return values

    def _row(self, entry: Entry, arguments: bytes) -> list[object]:
        row: list[object] = list(msgspec.structs.astuple(entry))
        row[0] = None  # the number is the file's to give
        if arguments:
            row[_DIGEST] = blake2b(arguments, digest_size=12, key=self._key).hexdigest()
            row[_SHAPE] = self._clean(shape(arguments))
            if self._keep:
                row[_ARGUMENTS] = self._whole(arguments)
        row[_BECAUSE] = self._clean(entry.because)[:CHAIN]
        if self._redactor is not None:
            row[_TOOL] = self._clean(entry.tool)
            row[_FINDINGS] = self._clean(entry.findings)
        return row

    def _clean(self, text: str) -> str:
        if self._redactor is None or not text:
            return text
        found = self._seen.get(text)
        if found is None:
            found = self._seen[text] = self._redactor.text(as_text(text))
        return found

    def _whole(self, arguments: bytes) -> str:
        """Redacted before it is cut: the half of a value would not be known any more."""
        if len(arguments) > LARGEST:
            return f"({len(arguments)} bytes)"
        if self._redactor is not None:
            arguments = self._redactor.stored(arguments)
        text = arguments.decode("utf-8", "replace")
        return text if len(text) <= KEPT else f"{text[:KEPT]}… ({len(text)} characters)"


def as_text(text: str) -> str:
    """The same without lone surrogates, which no file of text can hold."""
    return text.encode("utf-8", "replace").decode()
