"""What in a server's definitions tries to be more than a definition (n18).

Hard flags hold the definition until a person accepts it, whatever the trust: characters that nobody sees,
commands and orders in an encoding. Soft flags are shown to whoever approves, with the words that fit. All
rules and their rates on real tools: search-and-leaks reference 3.1 and 3.3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec

from mcpd.catalog.plain import is_plain
from mcpd.policy import hidden, payloads
from mcpd.policy.payloads import Room
from mcpd.policy.phrases import find as phrases

#: Characters of a text that a flag repeats.
_WORDS: Final = 160
#: Characters shown on each side of what fits.
_AROUND: Final = 24
#: Characters of a definition in which phrases are looked for; hostile text takes up to 10 us a character.
_READ: Final = 16_000
#: Flags of one definition; one is enough to hold it.
MOST: Final = 20


class Flag(msgspec.Struct, frozen=True):
    """One thing to know before anybody says yes."""

    code: str
    """A stable word: one of `_SAID`, or the name of another rule of `phrases`."""
    hard: bool
    where: str
    """Where it stands, such as "inputSchema.properties.path.description"."""
    words: str
    """What fits, nothing hidden in it; of a payload what it decodes to."""

    @property
    def said(self) -> str:
        """The flag in a line for people."""
        return f'{_SAID.get(self.code, self.code.replace("_", " "))} in {self.where}: "{self.words}"'


#: What the codes are called where they are shown, unless their own words will do.
_SAID: Final = {
    "hidden": "hidden characters",
    "payload": "an encoded command",
    "pseudo_tag": "a tag that orders are put in",
    "override": "words that set rules aside",
    "conceals": "words that keep something from the user",
    "speaks_to_model": "words to the model",
    "steers_tools": "words about other tools",
    "obeys_content": "content taken for orders",
    "secret_file": "a file that holds secrets",
    "fixed_recipient": "an address that things are sent to",
    "runs_code": "code that is run",
    "reveals_prompt": "words that ask for the prompt",
    "takes_conversation": "words that ask for the conversation",
    "changes_later": "words about another behaviour later",
    "shadow": "another server's tool",
    "imitation": "a likeness to another server's tool",
    "long": "a very long text",
    "look_alikes": "letters of another alphabet that look like these",
}


class Text(NamedTuple):
    """One string that a model reads."""

    where: str
    text: str


def texts(entry: bytes) -> tuple[Text, ...]:
    """All strings of a definition, keys included: a model reads these as well. `entry` is its JSON text."""
    try:
        value = msgspec.json.decode(entry)
    except msgspec.ValidationError:
        # A number that is too large for it; here no number counts.
        value = json.loads(entry, parse_int=len, parse_float=len)
    return tuple(_strings("", value))


def _strings(where: str, value: object) -> Iterator[Text]:
    if isinstance(value, str):
        yield Text(where, value)
    elif isinstance(value, dict):
        for key, each in value.items():
            inside = f"{where}.{key}" if where else key
            if not _NAME.fullmatch(key):
                yield Text(f"a name in {where}" if where else "a name", key)
            yield from _strings(inside, each)
    elif isinstance(value, list):
        for each in value:
            yield from _strings(where, each)


_NAME: Final = re.compile(r"[A-Za-z0-9_.$-]{1,15}")


def hard(entry: bytes, room: Room | None = None) -> tuple[Flag, ...]:
    """The flags for which a definition is held; empty, at little cost, for nearly all."""
    if is_plain(entry):
        return ()
    return tuple(islice(_hard(texts(entry), room), MOST))


def _hard(strings: Iterable[Text], room: Room | None) -> Iterator[Flag]:
    for where, text in strings:
        for run in hidden.find(text):
            said = hidden.spelled(text, run)
            words = _shown(text, run.at, run.end) + (f' (it spells "{said[:_WORDS]}")' if said else "")
            yield Flag("hidden", True, _place(where), words)
        for payload in payloads.find(text, room):
            yield Flag("payload", True, _place(where), cut(payload.decoded))


def soft(entry: bytes) -> tuple[Flag, ...]:
    """The phrases in a definition that a person should have read; 0.1 ms a tool, so for where one looks."""
    strings, beyond = _beginning(texts(entry))
    # Most have none, and one text is searched faster than many.
    whole = "\n\n".join([each.text for each in strings])
    mixed = not whole.isascii() and _MIXED.search(whole)
    if not beyond and not mixed and not phrases.find(phrases.folded(whole)):
        return ()
    found: dict[str, Flag] = {}
    if beyond:
        words = f"its text goes on for {beyond:,} characters after those that were looked at"
        found["long"] = Flag("long", False, _place(strings[-1].where), words)
    for where, text in strings:
        if mixed and (odd := _MIXED.search(text)):
            words = _shown(text, odd.start(), odd.end())
            found.setdefault("look_alikes", Flag("look_alikes", False, _place(where), words))
        folded = phrases.folded(text)
        for phrase in phrases.find(folded):
            words = _shown(folded, phrase.at, phrase.end)
            found.setdefault(phrase.code, Flag(phrase.code, False, _place(where), words))
    return tuple(found.values())[:MOST]


#: Letters that look like Latin ones: Cyrillic, Armenian, full-width, mathematical, and some Greek ones.
_ALIKE: Final = (
    "\u0400-\u052f\u0531-\u0587\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7cb"
    "\u0391\u0392\u0395-\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03b1\u03b9\u03bd\u03bf\u03c1"
)
_MIXED: Final = re.compile(f"[A-Za-z][{_ALIKE}]|[{_ALIKE}][A-Za-z]")


def _beginning(strings: tuple[Text, ...]) -> tuple[list[Text], int]:
    """As many strings as are looked at, and the characters of the rest."""
    kept = []
    left = _READ
    beyond = 0
    for where, text in strings:
        if left > 0:
            kept.append(Text(where, text[:left]))
        beyond += max(0, len(text) - max(0, left))
        left -= len(text)
    return kept, beyond


def _shown(text: str, at: int, end: int) -> str:
    """The place in its surroundings, hidden characters as marks."""
    first, last = max(0, at - _AROUND), min(len(text), end + _AROUND)
    around = f"{'...' if first else ''}{text[first:last]}{'...' if last < len(text) else ''}"
    return cut(around)


def cut(text: str) -> str:
    """Text as a flag repeats it: on one line, not too long, nothing hidden in it."""
    text = " ".join(hidden.strip(text)[0].split())
    return text if len(text) <= _WORDS else f"{text[: _WORDS - 3]}..."


def _place(where: str) -> str:
    return cut(where) or "instructions"
