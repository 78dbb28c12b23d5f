"""Characters that a person does not see and a model reads (n18, b25).

Real definitions have none of them: 0 of 6,612 tools (search-and-leaks reference 3.1). What people's
languages and emoji need is none: a joiner inside an emoji or where a script's shaping needs it (RFC 5892,
appendix A.1 and A.2), one variation selector, the flags of England, Scotland and Wales, no-break spaces.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Final, Literal, NamedTuple

Kind = Literal[
    "zero-width",
    "joiner",
    "bidirectional",
    "tag",
    "private use",
    "control",
    "soft hyphen",
    "variation selector",
    "filler",
]


class Hidden(NamedTuple):
    """One run of hidden characters of a kind: `text[at:end]`."""

    at: int
    end: int
    kind: Kind


#: What each kind is made of, as the inside of a character class. Sources: Unicode 16 DerivedCoreProperties
#: (Default_Ignorable_Code_Point), Bidi_Control, and the characters that are drawn as a blank.
_CLASSES: Final[dict[Kind, str]] = {
    "control": "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f",
    "soft hyphen": "\u00ad",
    "joiner": "\u200c\u200d",
    "zero-width": "\u034f\u180e\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a",
    "bidirectional": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f",
    "filler": "\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0",
    "variation selector": "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef",
    "tag": "\U000e0000-\U000e00ff",
    "private use": "\ue000-\uf8ff\U000f0000-\U0010ffff",
}
_RUNS: Final = re.compile("|".join(f"(?P<k{at}>[{chars}]+)" for at, chars in enumerate(_CLASSES.values())))
_KINDS: Final[dict[str, Kind]] = {f"k{at}": kind for at, kind in enumerate(_CLASSES)}
ANY: Final = re.compile(f"[{''.join(_CLASSES.values())}]")

#: What real text has little of, besides what it needs.
_SELDOM: Final = re.compile(
    "".join(("[", *(_CLASSES[kind] for kind in _CLASSES if kind not in ("control", "soft hyphen")), "]+"))
)

#: What follows the black flag in the three subdivision flags of emoji (UTS 51, RGI_Emoji_Tag_Sequence).
_FLAGS: Final = frozenset(
    "".join(chr(0xE0000 + ord(c)) for c in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)
_BLACK_FLAG: Final = "\U0001f3f4"
#: Canonical combining class of a virama (RFC 5892, appendix A.1).
_VIRAMA: Final = 9
#: Scripts whose letters join (RFC 5892, appendix A.1: Joining_Type): Arabic, Syriac, N'Ko, Mandaic,
#: Mongolian, and Arabic's supplements.
_JOINING: Final = re.compile(
    "[\u0620-\u064a\u066e-\u06d3\u06d5\u06fa-\u06ff\u0710-\u074f\u0750-\u077f\u07ca-\u07ea\u0840-\u0858\u0860-\u08c9\u1820-\u18aa]"
)
#: Private characters in a row from which on they are no icons of a terminal's font.
_ICONS: Final = 4
_OVERRIDE: Final = re.compile("[\u202d\u202e]")
_RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_IDEOGRAPH: Final = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")


def find(text: str) -> tuple[Hidden, ...]:
    """The runs of hidden characters, in order; empty for ordinary text."""
    return tuple(_find(text))


#: Characters looked through without a look at who else wants to run, in whatever thread.
_WINDOW: Final = 64 * 1024


def _find(text: str) -> Iterator[Hidden]:
    if text.isascii() and text.isprintable():
        return
    at = 0
    while at < len(text):
        first = ANY.search(text, at, at + _WINDOW)
        if first is None:
            at += _WINDOW
            continue
        match = _RUNS.match(text, first.start())
        assert match is not None
        assert match.lastgroup is not None
        run = Hidden(match.start(), match.end(), _KINDS[match.lastgroup])
        if not _ordinary(text, run):
            yield run
        at = run.end


def any_in(text: str, start: int = 0, end: int = sys.maxsize) -> bool:
    """Whether there is a character in text[start:end] that may be hidden."""
    return ANY.search(text, start, end) is not None


def strip(text: str, but: frozenset[Kind] = frozenset()) -> tuple[str, int]:
    """Text without its hidden characters, a visible mark in the place of each run, and how many runs
    there were. Runs of a kind in `but` stay. The same object where nothing is hidden."""
    runs = [run for run in find(text) if run.kind not in but]
    if not runs:
        return text, 0
    return _without(text, runs), len(runs)


def in_answer(text: str) -> tuple[str, int]:
    """What b25 wants of results, resources and prompts: as `strip`, and left alone is what terminals, web
    pages and right-to-left text are full of. Overrides of the direction never are.

    From some thousand runs on they go without a mark each.
    """
    right_to_left = cache(lambda: _RIGHT_TO_LEFT.search(text) is not None)
    found = (run for run in _find(text) if not _usual(text, run, right_to_left))
    runs = list(islice(found, MOST))
    if not runs:
        return text, 0
    if len(runs) < MOST or next(found, None) is None:
        return _without(text, runs), len(runs)
    end = runs[-1].end
    rest, more = _SELDOM.subn("", text[end:])
    return f"{_without(text[:end], runs)}[hidden: {more} more taken out]{rest}", len(runs) + more


#: Runs of one text that get a mark each.
MOST: Final = 5_000


def _usual(text: str, run: Hidden, right_to_left: Callable[[], bool]) -> bool:
    match run.kind:
        case "control" | "soft hyphen":
            return True
        case "private use":
            return run.end - run.at < _ICONS
        case "bidirectional":
            return not _OVERRIDE.search(text, run.at, run.end) and right_to_left()
    return False


def _without(text: str, runs: Sequence[Hidden]) -> str:
    parts: list[str] = []
    at = 0
    for run in runs:
        parts += (text[at : run.at], mark(text, run))
        at = run.end
    return "".join(parts) + text[at:]


def mark(text: str, run: Hidden) -> str:
    """What stands for a run where it is shown: its kind, and how long it is or which character it is."""
    length = run.end - run.at
    what = f"U+{ord(text[run.at]):04X}" if length == 1 else f"{length} characters"
    return f"[hidden {run.kind}: {what}]"


def spelled(text: str, run: Hidden) -> str:
    """What a run of tag characters or variation selectors says, where it spells ASCII text; else empty."""
    said = []
    for character in text[run.at : run.end]:
        code = ord(character)
        if 0xE0020 <= code <= 0xE007E:
            said.append(chr(code - 0xE0000))
        elif 0xE0100 <= code <= 0xE01EF:
            # Bytes 16-255 as variation selectors 17-256.
            said.append(chr(code - 0xE0100 + 16))
    spelled = "".join(said)
    return spelled if spelled.isascii() and spelled.isprintable() else ""


def _ordinary(text: str, run: Hidden) -> bool:
    """Whether a run is what a language or an emoji needs there."""
    before = text[run.at - 1] if run.at else ""
    after = text[run.end : run.end + 1]
    match run.kind:
        case "variation selector":
            # Those of the supplement choose between forms of an ideograph (UTS 37) and of nothing else.
            chosen = text[run.at] < "\U000e0100" or bool(_IDEOGRAPH.match(before))
            return run.end - run.at == 1 and chosen and before.isprintable() and bool(before.strip())
        case "tag":
            return before == _BLACK_FLAG and text[run.at : run.end] in _FLAGS
        case "zero-width":
            # A byte order mark: some editors begin a file with it.
            return run == (0, 1, "zero-width") and text[0] == "\ufeff"
        case "joiner" if run.end - run.at == 1:
            if before and unicodedata.combining(before) == _VIRAMA:
                return True
            if text[run.at] == "\u200c":
                return bool(_JOINING.match(before) and _JOINING.match(after))
            return _pictured(text, run.at - 1) and _pictured(text, run.end)
    return False


def _pictured(text: str, at: int) -> bool:
    """Whether an emoji ends or begins there; a skin tone or selector before a joiner belongs to one."""
    if not 0 <= at < len(text):
        return False
    code = ord(text[at])
    return code == 0xFE0F or 0x1F000 <= code <= 0x1FAFF or 0x2190 <= code <= 0x2BFF
