"""How the arguments of a call are laid out for the person who is asked about it (a31, n07).

What a tool would touch comes first: paths, addresses, commands. Nothing is hidden: every character that
shows nothing, or turns the text round, becomes a visible one, and what a card leaves out is counted.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from mcpd.policy import hidden
from mcpd.policy.binding import read, spelled

Kind = Literal["path", "url", "command", ""]

#: What a card shows of one value, from its beginning and from its end, and how many lines of either.
HEAD: Final = 400
TAIL: Final = 100
LINES: Final = 8
#: Arguments on a card, and those that are looked at to choose them.
MOST: Final = 24
LOOK: Final = 2000
#: Arguments that are laid out one by one where all are to be seen; more are shown as one text.
WHOLE: Final = 5000
#: Characters of the place of a value, and how deep it may be: each of 100,000 values has a place of its own.
PLACE: Final = 300
DEEPEST: Final = 100
#: Characters of an argument's name.
NAME: Final = 120

_ORDER: Final[dict[Kind, int]] = {"path": 0, "url": 1, "command": 2, "": 3}


class Argument(msgspec.Struct, frozen=True):
    """One value among the arguments, fit for a person."""

    name: str
    """Its place, such as "options.path" or "edits[0].text"."""
    kind: Kind
    """What it looks like, by its name or by its value."""
    value: str
    """A string as it is, anything else as JSON with numbers as they are spelled."""
    left_out: int = 0
    """Characters of the value that are not shown."""
    hidden: tuple[str, ...] = ()
    """Which characters in it show nothing, in words."""


class Card(msgspec.Struct, frozen=True):
    """The arguments in the order in which a person should look at them."""

    arguments: tuple[Argument, ...]
    left_out: int = 0
    """Arguments that are not shown."""

    @property
    def cut(self) -> bool:
        """Whether something is not shown."""
        return self.left_out > 0 or any(each.left_out for each in self.arguments)


def lay_out(arguments: bytes, *, whole: bool = False) -> Card:
    """The card of a JSON object; `whole`: nothing is left out."""
    leaves = _leaves(arguments)
    kept = list(itertools.islice(leaves, WHOLE + 1 if whole else LOOK))
    if len(kept) > WHOLE:
        kept = [_in_one(arguments)]
        leaves = iter(())
    left_out = sum(1 for _ in leaves)
    kinds = [(_kind(name, _text(value)), name, value) for name, value in kept]
    kinds.sort(key=lambda each: _ORDER[each[0]])
    if not whole and len(kinds) > MOST:
        left_out += len(kinds) - MOST
        del kinds[MOST:]
    return Card(tuple(_argument(*each, whole=whole) for each in kinds), left_out)


def visible(text: str) -> str:
    """Text with every character that shows nothing, or obeys, as `<U+202E>`; line ends and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    found = {c for c in set(text) if not (c.isprintable() or c in "\n\t") or hidden.ANY.match(c)}
    return text.translate({ord(c): f"<U+{ord(c):04X}>" for c in found}) if found else text


class _Number(str):
    """A number as it is spelled."""

    __slots__ = ()


def _leaves(arguments: bytes) -> Iterator[tuple[str, object]]:
    """Every value that is no object, with its place; of lists those that hold neither objects nor lists."""
    try:
        value = read(arguments, _Number)
    except (ValueError, RecursionError):
        yield _in_one(arguments)
        return
    if any(depth > DEEPEST or place > PLACE for place, depth in _places(value)):
        yield _in_one(arguments)
        return
    yield from _under("", value)


def _in_one(arguments: bytes) -> tuple[str, object]:
    """All of it as one text: as JSON without any escape that is not needed, if it can be read at all."""
    with contextlib.suppress(ValueError, RecursionError):
        arguments = msgspec.json.encode(read(arguments, spelled))
    return "", arguments.decode("utf-8", "backslashreplace")


def _places(value: object) -> Iterator[tuple[int, int]]:
    """How long the place of each object and list is about, and how deep; by hand, since what is too deep must
    not reach the limit of recursion."""
    waiting = [(value, 0, 0)]
    while waiting:
        value, place, depth = waiting.pop()
        yield place, depth
        if isinstance(value, dict):
            inside = [(each, place + len(name) + 1, depth + 1) for name, each in value.items()]
        elif isinstance(value, list):
            inside = [(each, place + 4, depth + 1) for each in value]
        else:
            continue
        waiting += (each for each in inside if isinstance(each[0], (dict, list)))


def _under(place: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and (value or not place):
        for name, each in value.items():
            yield from _under(f"{place}.{_key(name)}" if place else _key(name), each)
    elif isinstance(value, list) and any(isinstance(each, (dict, list)) for each in value):
        for at, each in enumerate(value):
            yield from _under(f"{place}[{at}]", each)
    else:
        yield place, value


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else json.dumps(name, ensure_ascii=False)


def _argument(kind: Kind, name: str, value: object, *, whole: bool) -> Argument:
    text = _text(value)
    shown, left_out = (text, 0) if whole else _excerpt(text)
    return Argument(
        name=visible(name if len(name) <= NAME or whole else f"{name[:NAME]}…"),
        kind=kind,
        value=visible(shown),
        left_out=left_out + (0 if whole else max(len(name) - NAME, 0)),
        hidden=_hidden_in(name + text),
    )


def _text(value: object) -> str:
    if isinstance(value, str):
        # What reads like another value is quoted, so that the two differ.
        alike = not isinstance(value, _Number) and (value in _WORDS or _NUMERIC.fullmatch(value))
        return json.dumps(value) if alike else str(value)
    if isinstance(value, list):
        return f"[{', '.join(_item(each) for each in value)}]"
    return json.dumps(value)


#: A number takes few characters; longer text that looks like one is no number that anything reads.
_NUMERIC: Final = re.compile(r"-?[0-9][0-9.eE+-]{0,40}")
_WORDS: Final = frozenset({"", "true", "false", "null"})


def _item(value: object) -> str:
    return str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)


def _excerpt(text: str) -> tuple[str, int]:
    """The beginning and the end of a long text, and how many characters between them are missing."""
    head = _lines(text[:HEAD])
    if len(head) == len(text):
        return text, 0
    rest = text[len(head) :]
    tail = _lines(rest[-TAIL:][::-1])[::-1]
    left_out = len(rest) - len(tail)
    if not left_out:
        return text, 0
    return f"{head}\n[… {left_out:,} characters …]\n{tail}", left_out


def _lines(text: str) -> str:
    return "\n".join(text.split("\n", LINES)[:LINES])


def _hidden_in(text: str) -> tuple[str, ...]:
    """The hidden characters of a text by kind, with what they spell."""
    counts: dict[str, int] = {}
    said: dict[str, list[str]] = {}
    for run in hidden.find(text):
        counts[run.kind] = counts.get(run.kind, 0) + run.end - run.at
        if spelled := hidden.spelled(text, run):
            said.setdefault(run.kind, []).append(spelled)
    return tuple(
        f"{count} hidden ({kind})" + (f", which say {''.join(said[kind])[:200]!r}" if kind in said else "")
        for kind, count in counts.items()
    )


_PARTS: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
#: Words in the names of arguments, singular and plural as authors write them.
_COMMANDS: Final = "command commands cmd script code shell exec argv args sql query statement eval"
_URLS: Final = "url urls uri uris href link endpoint host hostname domain origin webhook"
_PATHS: Final = (
    "path paths file files filename filepath dir directory folder cwd root source src destination dest dst "
    "target"
)
_NAMED: Final[tuple[tuple[Kind, frozenset[str]], ...]] = (
    ("path", frozenset(_PATHS.split())),
    ("url", frozenset(_URLS.split())),
    ("command", frozenset(_COMMANDS.split())),
)
_URL: Final = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]{0,30}://")
_PATH: Final = re.compile(r"\s*(/|~[\w-]{0,32}(?:/|$)|\.{1,2}/|[A-Za-z]:\\|\\\\)")
#: A program at the beginning, or behind what joins commands.
_COMMAND: Final = re.compile(
    r"(?:^|[;&|(`]|\$\()\s{0,20}(?:sudo|doas|rm|mv|cp|dd|chmod|chown|curl|wget|nc|ssh|scp|rsync|bash|sh|zsh|fish|"
    r"python3?|node|perl|ruby|php|eval|exec|kill|pkill|docker|podman|kubectl|git|npm|npx|pip|uvx?|apt|systemctl|"
    r"crontab|mkfs\S{0,20})\s"
)
#: Characters of a value that say what it is.
_BEGIN: Final = 4000


def _kind(name: str, value: str) -> Kind:
    """By the value first: a name is a word of the tool's author, a value is what the tool would get."""
    text = value[:_BEGIN]
    if _URL.match(text):
        return "url"
    if _PATH.match(text):
        return "path"
    if _COMMAND.search(text):
        return "command"
    last = name.rpartition(".")[2]
    words = {word.casefold() for word in _PARTS.findall(_CAMEL.sub(" ", last[:NAME]))}
    return next((kind for kind, listed in _NAMED if words & listed), "")
