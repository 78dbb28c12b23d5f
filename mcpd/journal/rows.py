"""Entries as rows of the file: what of arguments is kept, and what is redacted before it is."""

from __future__ import annotations

from hashlib import blake2b
from typing import Protocol, TypeAlias

from mcpd.journal.entry import Entry
from mcpd.journal.shape import LARGEST, shape

KEPT = 16 << 10
"""Characters kept of arguments, where they are kept at all."""
CHAIN = 2000
"""Characters kept of the rules that decided, or of what happened."""


#: An entry that is not yet in the file, with the arguments that it is about (JSON text). A plain tuple: the
#: collector lets go of those at its first look, and thousands wait at full load.
Waiting: TypeAlias = tuple[Entry, bytes]

#: All that may repeat: equal ones are one context.
Words: TypeAlias = tuple[object, ...]


class Redactor(Protocol):
    """Takes out what must not be stored (n17). Called in a worker thread."""

    times_held: int
    """Another number whenever it takes out something else."""

    def text(self, text: str) -> str:
        """The same of a text for people."""
        ...

    def stored(self, text: bytes) -> bytes:
        """The same of arguments as JSON text, in which a value may be written with escapes."""
        ...


def words(entry: Entry, arguments: bytes) -> Words:
    """What of an entry may repeat, as it was said: `context` makes columns of it."""
    return (
        entry.caller,
        entry.about,
        entry.kind,
        entry.decision,
        entry.because,
        entry.outcome,
        entry.approval,
        entry.grant,
        entry.findings,
        entry.proof,
        shape(arguments) if arguments else "",
    )


def context(entry: Entry, shaped: str, redactor: Redactor | None) -> dict[str, object]:
    """The columns that all entries with the same words share."""
    caller, about = entry.caller, entry.about
    return {
        "kind": entry.kind,
        "session": caller.session,
        "agent": caller.agent,
        "pid": caller.pid,
        "exe": caller.exe,
        "server": about.server,
        "tool": _clean(about.tool, redactor),
        "method": about.method,
        "decision": entry.decision,
        "because": _clean(entry.because, redactor)[:CHAIN],
        "outcome": entry.outcome,
        "destination": about.destination,
        "risk": about.risk,
        "rule": about.rule,
        "approval": entry.approval,
        "grant": entry.grant,
        "pin": about.pin,
        "findings": _clean(entry.findings, redactor),
        "proof": entry.proof,
        "shape": _clean(shaped, redactor),
    }


class Rows:
    """What an entry has of its own. `key`: of the digests, the file's."""

    def __init__(self, key: bytes) -> None:
        self._hash = blake2b(digest_size=12, key=key)

    def own(self, entry: Entry, arguments: bytes, kept: str) -> tuple[object, ...]:
        """Its columns in the order of `OWN`; `kept`: what is kept of the arguments, as `whole` gives it."""
        digest = ""
        if arguments:
            # Half as dear as to begin one with the key.
            begun = self._hash.copy()
            begun.update(arguments)
            digest = begun.hexdigest()
        return (
            entry.at,
            entry.duration,
            entry.request_bytes,
            entry.result_bytes,
            digest,
            entry.waited,
            entry.decided,
            kept,
        )


def whole(arguments: bytes, redactor: Redactor | None) -> str:
    """Arguments as they are kept. Redacted before they are cut: the half of a value would not be known any
    more."""
    if len(arguments) > LARGEST:
        return f"({len(arguments)} bytes)"
    if redactor is not None:
        arguments = redactor.stored(arguments)
    text = arguments.decode("utf-8", "replace")
    return text if len(text) <= KEPT else f"{text[:KEPT]}… ({len(text)} characters)"


def _clean(text: str, redactor: Redactor | None) -> str:
    return redactor.text(as_text(text)) if redactor is not None and text else text


def as_text(text: str) -> str:
    """The same without lone surrogates, which no file of text can hold."""
    return text.encode("utf-8", "replace").decode()
