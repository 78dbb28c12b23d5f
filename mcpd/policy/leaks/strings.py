"""JSON text as what it says: its strings decoded, in place, and put back where something was redacted.

`flat` writes the text with every escape resolved, so that what is looked through is what a reader gets, and
no `\\u0041` hides a value. Structure stays where it was, so that a place in the flat text says which string
it is in. The text must be valid JSON in valid UTF-8.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from mcpd.policy import hidden
from mcpd.policy.leaks.finding import Finding

#: Bytes that no UTF-8 has; they stand for an escaped backslash and quote while the others are resolved.
_BACKSLASH: Final = b"\xfe"
_QUOTE: Final = b"\xff"
_SIMPLE: Final = (
    (b"\\n", b"\n"),
    (b"\\t", b"\t"),
    (b"\\r", b"\r"),
    (b"\\/", b"/"),
    (b"\\b", b"\b"),
    (b"\\f", b"\f"),
)
_ESCAPE: Final = ord("\\")
_CODES: Final = re.compile(rb"(?:\\u[0-9A-Fa-f]{4})+")
_FIRST: Final = re.compile(rb"(?<!\\)\\u[dD][89abAB]")
_SECOND: Final = re.compile(rb"\\u[dD][c-fC-F]")
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.S)
_EDGE: Final = re.compile(rb'"')
#: A number, true, false or null: what else of a value there is beside strings.
_PLAIN: Final = re.compile(rb"[A-Za-z0-9+.-]+")


class Flat(NamedTuple):
    text: bytes
    """With all escapes resolved."""
    marked: bytes
    """The same with marks for escaped quotes: every quote in it begins or ends a string."""


def valid(raw: bytes) -> bytes:
    """`raw` with U+FFFD for what is no UTF-8; the same object where all of it is."""
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace").encode()
    return raw


def flat(raw: bytes) -> Flat:
    """`raw` itself, twice, when it has no escapes."""
    if b"\\" not in raw:
        return Flat(raw, raw)
    text = raw.replace(b"\\\\", _BACKSLASH).replace(b'\\"', _QUOTE)
    for escape, char in _SIMPLE:
        text = text.replace(escape, char)
    if b"\\u" in text:
        text = _CODES.sub(_resolved, text)
    return Flat(text.replace(_BACKSLASH, b"\\").replace(_QUOTE, b'"'), text)


def _resolved(match: re.Match[bytes]) -> bytes:
    codes = match[0].decode("unicode_escape").encode("utf-16", "surrogatepass")
    text = codes.decode("utf-16", "replace").encode()
    # A quote or a backslash that was written as a code belongs to its string as well.
    return text.replace(b"\\", _BACKSLASH).replace(b'"', _QUOTE)


def parts(raw: bytes, size: int) -> Iterator[bytes]:
    """The text in pieces of about that size, none of which ends within an escape or between the two codes of
    one character."""
    start = 0
    while len(raw) - start > size:
        end = _cut(raw, start + size)
        if end <= start:  # one run of backslashes
            break
        yield raw[start:end]
        start = end
    yield raw[start:]


def _cut(raw: bytes, at: int) -> int:
    """`at`, or the beginning of the escapes that reach there."""
    escape = raw.rfind(b"\\", max(0, at - 6), at)
    if escape < 0:
        return at
    # A run of backslashes begins with one that is not escaped itself.
    while escape and raw[escape - 1] == _ESCAPE:
        escape -= 1
    # The second code of a character belongs to the first.
    return escape - 6 if _SECOND.match(raw, escape) and _FIRST.match(raw, max(0, escape - 6)) else escape


def redacted(raw: bytes, told: Flat, found: Sequence[Finding]) -> bytes:
    """`raw` with a mark in the place of everything found in `told.text`; still JSON.

    A string keeps what it has besides; a number is replaced by the mark as a string. What has nothing in it
    is passed over: a text may be millions of empty strings.
    """
    spans = merged(found)
    quotes = (match.start() for match in _EDGE.finditer(told.marked))
    parts: list[bytes] = []
    done = 0
    """Up to where `raw` is in `parts`."""
    at, before = 0, 0
    """Where what follows the last string begins, in `raw` and in the flat text."""
    reached = 0
    """The first of `spans` that does not end before there."""
    for string in _STRING.finditer(raw):
        opened, closed = next(quotes), next(quotes)
        while reached < len(spans) and spans[reached].end <= before:
            reached += 1
        if reached == len(spans):
            break
        if spans[reached].start < closed:
            parts += (raw[done:at], _plain(raw[at : string.start()], before, spans))
            inside = within(spans, opened + 1, closed)
            parts.append(_string(told.text, opened + 1, closed, inside) if inside else string[0])
            done = string.end()
        at, before = string.end(), closed + 1
    parts += (raw[done:at], _plain(raw[at:], before, spans))
    return b"".join(parts)


class Span(NamedTuple):
    start: int
    end: int
    mark: str


def merged(found: Sequence[Finding]) -> list[Span]:
    """One span for all that overlaps, under the mark of the lowest layer and there the longest."""
    spans: list[Span] = []
    group: list[Finding] = []
    end = 0
    for finding in sorted(found):
        if group and finding.start >= end:
            spans.append(_joined(group))
            group = []
        group.append(finding)
        end = max(end, finding.end)
    return [*spans, _joined(group)] if group else spans


def _joined(group: Sequence[Finding]) -> Span:
    first = min(group, key=lambda each: (each.layer, each.start - each.end))
    return Span(min(each.start for each in group), max(each.end for each in group), first.mark)


def within(spans: Sequence[Span], start: int, end: int) -> list[Span]:
    """Those that reach into [start, end), in order; `spans` do not overlap."""
    first = max(0, bisect_right(spans, (start,)) - 1)
    found = []
    for span in spans[first:]:
        if span.start >= end:
            break
        if span.end > start:
            found.append(span)
    return found


def blanked(text: bytes, start: int, end: int, spans: Sequence[Span]) -> bytes:
    """text[start:end] with the marks of `spans` in it."""
    parts = []
    at = start
    for span in spans:
        parts += [text[at : max(at, span.start)], span.mark.encode()]
        at = min(max(at, span.end), end)
    return b"".join(parts) + text[at:end]


def _string(text: bytes, start: int, end: int, spans: Sequence[Span]) -> bytes:
    return msgspec.json.encode(blanked(text, start, end, spans).decode("utf-8", "replace"))


def _plain(between: bytes, at: int, spans: Sequence[Span]) -> bytes:
    """What stands between two strings, from `at` on in the flat text."""
    hit = within(spans, at, at + len(between))
    if not hit:
        return between

    def replaced(match: re.Match[bytes]) -> bytes:
        covering = within(hit, at + match.start(), at + match.end())
        return msgspec.json.encode(covering[0].mark) if covering else match[0]

    return _PLAIN.sub(replaced, between)


def may_hide(told: Flat) -> bool:
    """Whether there is a character that a person does not see, beside control characters of ASCII."""
    return not told.text.isascii() and hidden.ANY.search(told.text.decode("utf-8", "replace")) is not None


def shown(raw: bytes) -> tuple[bytes, int]:
    """`raw` with visible marks for hidden characters in its strings (b25), and how many."""
    count = 0

    def marked(match: re.Match[bytes]) -> bytes:
        nonlocal count
        if match[0].isascii() and b"\\u" not in match[0]:
            return match[0]
        try:
            text = msgspec.json.decode(match[0], type=str)
        except msgspec.MsgspecError:
            return match[0]
        cleaned, runs = hidden.in_answer(text)
        count += runs
        return msgspec.json.encode(cleaned) if runs else match[0]

    text = _STRING.sub(marked, raw)
    return (text, count) if count else (raw, 0)
