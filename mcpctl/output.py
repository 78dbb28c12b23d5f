"""What people see: one escaper for every string that comes from elsewhere, one table for every list.

Answers go to stdout, everything else to stderr. Servers write tool names, descriptions and errors, so
all of them are untrusted input for a terminal (b25).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Characters that Python calls printable and that show nothing: joiners, fillers, variation selectors.
INVISIBLE = frozenset(
    chr(code)
    for first, last in (
        (0x034F, 0x034F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x2800, 0x2800),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)

#: Spaces other than the plain one are no secret; Japanese text is full of U+3000.
SPACES = frozenset(
    "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)


def hidden(text: str) -> set[str]:
    """The characters of `text` that a terminal would obey or swallow instead of showing them."""
    if text.isascii() and text.isprintable():
        return set()
    return {
        character
        for character in set(text)
        if character in INVISIBLE or not (character.isprintable() or character in SPACES)
    }


def visible(text: str, keep: str = "") -> str:
    """`text` fit for a terminal: what is hidden in it becomes `\\u202e`; `keep` names exceptions.

    Covers control characters (ESC, CSI), bidirectional and zero-width characters, surrogates.
    """
    found = hidden(text) - set(keep)
    if not found:
        return text
    return text.translate(
        {ord(c): f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}" for c in found}
    )


def visible_block(text: str) -> str:
    """`visible` for text of several lines: line ends and tabs stay."""
    return visible(text.replace("\r\n", "\n"), keep="\n\t")


def visible_json(text: str) -> str:
    """JSON text with the same meaning and nothing hidden: such characters can only stand in its strings."""
    found = hidden(text) - set("\n\r\t")
    return text.translate({ord(c): _json_escape(c) for c in found}) if found else text


def _json_escape(character: str) -> str:
    code = ord(character)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def say(text: str) -> None:
    """Print one answer, already escaped, to stdout."""
    if sys.stdout is not None:
        sys.stdout.write(text + "\n")


def say_json(text: str) -> None:
    """Print JSON text, always as UTF-8."""
    if sys.stdout is not None:
        sys.stdout.flush()
        sys.stdout.buffer.write(visible_json(text).encode("utf-8", "backslashreplace") + b"\n")


def flush() -> None:
    """Hand over what was said so far; for answers that come one by one."""
    if sys.stdout is not None:
        sys.stdout.flush()


def note(text: str) -> None:
    """Print a message about the answer to stderr; one that nobody takes changes nothing."""
    say_beside(f"mcpctl: {visible(text)}")


def say_beside(text: str) -> None:
    """Print words, already escaped, to stderr: of an answer whose bytes go to stdout."""
    if sys.stderr is not None:
        try:
            sys.stderr.write(text + "\n")
        except OSError:
            return


def note_waiting(text: str) -> None:
    """Say to a person who would see nothing else for a while what is waited for."""
    if sys.stderr is not None and sys.stderr.isatty():
        note(f"waiting for {text} ...")


def settle() -> None:
    """Leave nothing to the interpreter's end, which would complain and take another exit code."""
    for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, spill: bool = False) -> str:
    """Columns under their heads. On a terminal lines are cut to its width.

    With `spill` the last column then stands whole on lines of its own, below the others.
    """
    lines = [list(head), *(cells(row) for row in rows)]
    limit = terminal_width()
    whole = aligned(lines)
    if not spill or all(width(line) <= limit for line in whole):
        return "\n".join(cut(line, limit) for line in whole)
    out = []
    for line, (*_, last) in zip(aligned([line[:-1] for line in lines]), lines, strict=True):
        out.append(cut(line, limit))
        if last and len(out) > 1:  # else it is the head
            out.append(f"    {last}")
    return "\n".join(out)


def cells(row: Sequence[object]) -> list[str]:
    """A row's cells fit for a terminal; nothing in them looks like the gap between two columns, but for the
    last one."""
    shown = [visible(str(cell)) for cell in row]
    return [*map(squeezed, shown[:-1]), *shown[-1:]]


def squeezed(cell: str) -> str:
    """With single blanks, but for an indent."""
    indent = min(len(cell) - len(cell.lstrip(" ")), 4)
    return f"{cell[:indent]}{' '.join(cell.split())}"


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Each line's cells as one text, columns below each other."""
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(cell + " " * (room - width(cell)) for cell, room in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def width(text: str) -> int:
    """The columns of a terminal that `text` takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(
        0 if category(c) in ("Mn", "Me") else 2 if east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` columns."""
    if width(text) <= limit:
        return text
    text = text[: limit - 1]
    while width(text) > limit - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def fields(pairs: Iterable[tuple[str, object]]) -> str:
    """`name  value` lines; pairs without a value are left out. Further lines of a value are indented."""
    shown = [(name, visible_block(str(value))) for name, value in pairs if value not in ("", None)]
    width = max((len(name) for name, _ in shown), default=0)
    indent = "\n" + " " * (width + 2)
    return "\n".join(f"{name.ljust(width)}  {value.replace(chr(10), indent)}" for name, value in shown)


def terminal_width() -> int:
    """Columns of the terminal behind stdout; without one no line is cut."""
    try:
        return max(os.get_terminal_size(1).columns, 20)
    except OSError:
        return sys.maxsize


def duration(seconds: float) -> str:
    """A length of time for people: 850 ms, 12.5 s, 3 min, 5 h, 2 d."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{round(seconds / size, 1):g} {unit}"
    return f"{seconds / 86400:.0f} d"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
