"""Reading one TOML table against a table of its fields.

Pure. A reader takes a value and its place and returns what the field holds; it raises
Misfit with what was expected. Values of fields that can hold secrets (command lines,
variables, headers, addresses) are never repeated in a message, only their type is.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from mcpd.config import units
from mcpd.policy.terms import SECRETS_IN, SECRETS_OUT, Leaks


class Fault(msgspec.Struct, frozen=True):
    """One thing wrong with an entry."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


class Misfit(Exception):
    """A value is not what its field takes."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(map(str, faults)))
        self.faults = faults


Reader = Callable[[object, str], Any]


class Reading(NamedTuple):
    """What a table holds: the fields that could be read and what was wrong with the others."""

    values: dict[str, Any]
    faults: tuple[Fault, ...]


def read_table(
    value: object,
    place: str,
    readers: Mapping[str, Reader],
    later: frozenset[str] = frozenset(),
    elsewhere: Mapping[str, str] | None = None,
) -> Reading:
    """Read every field of a table; no field is passed over silently.

    `later`: fields that mcpd will have but does not have yet. `elsewhere`: words that
    belong into another place, with the way to write them there.
    """
    if not isinstance(value, dict):
        return Reading({}, (Fault(place, f"expected a table, found {kind(value)}"),))
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for key, item in value.items():
        where = join(place, key)
        if key in readers:
            try:
                values[key] = readers[key](item, where)
            except Misfit as misfit:
                faults.extend(misfit.faults)
        elif key in later:
            faults.append(Fault(where, "not supported by this version of mcpd"))
        else:
            faults.append(Fault(where, _unknown(key, readers, elsewhere or {})))
    return Reading(values, tuple(faults))


def _unknown(key: str, readers: Mapping[str, Reader], elsewhere: Mapping[str, str]) -> str:
    if key in elsewhere:
        return f"unknown field, write {elsewhere[key]}"
    nearest = difflib.get_close_matches(key[:60], readers, 1, 0.7)
    return f'unknown field, did you mean "{nearest[0]}"?' if nearest else "unknown field"


_BARE = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)


def join(place: str, key: str) -> str:
    """The place of a field within a table, as TOML writes dotted keys."""
    word = key if _BARE.fullmatch(key) else json.dumps(key if len(key) <= 60 else key[:57] + "...")
    return f"{place}.{word}" if place else word


def kind(value: object) -> str:
    """The type of a TOML value in plain words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    names = {str: "a text", int: "a number", float: "a number", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def shown(value: object) -> str:
    """A value for a message; only for fields that hold no secret."""
    if isinstance(value, str) and len(value) <= 40:
        return json.dumps(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.15g}" if abs(value) < 1e300 else "a huge number"
    return kind(value)


# Readers -----------------------------------------------------------------------------


def text(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise Misfit(Fault(place, f"expected a text, found {kind(value)}"))
    if "\0" in value:
        raise Misfit(Fault(place, "holds a NUL character"))
    return value


def texts(value: object, place: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Misfit(Fault(place, f"expected a list of texts, found {kind(value)}"))
    return tuple(text(item, f"{place}[{index}]") for index, item in enumerate(value))


def command_line(value: object, place: str) -> tuple[str, ...]:
    """A program and its arguments, each a text of its own; an empty list is none."""
    words = texts(value, place)
    if words and not words[0].strip():
        raise Misfit(Fault(f"{place}[0]", "an empty text names no program"))
    return words


def text_map(value: object, place: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Misfit(Fault(place, f"expected a table of texts, found {kind(value)}"))
    return {key: text(item, join(place, key)) for key, item in value.items()}


def flag(value: object, place: str) -> bool:
    if not isinstance(value, bool):
        raise Misfit(Fault(place, f"expected true or false, found {shown(value)}"))
    return value


def count(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 1_000_000:
        raise Misfit(Fault(place, f"expected a whole number from 0 to 1000000, found {shown(value)}"))
    return value


def word(*choices: str) -> Reader:
    """One of a closed set of words."""

    def read(value: object, place: str) -> str:
        if value not in choices:
            expected = " or ".join((", ".join(f'"{choice}"' for choice in choices[:-1]), f'"{choices[-1]}"'))
            near = (
                difflib.get_close_matches(value.lower()[:60], choices, 1, 0.6)
                if isinstance(value, str)
                else []
            )
            meant = f', did you mean "{near[0]}"?' if near else ""
            raise Misfit(Fault(place, f"expected {expected}, found {shown(value)}{meant}"))
        return str(value)

    return read


def quantity(read: Callable[[object], Any]) -> Reader:
    """A duration or size of `units`."""

    def reader(value: object, place: str) -> Any:
        try:
            return read(value)
        except ValueError as error:
            raise Misfit(Fault(place, f"{error}, found {shown(value)}")) from None

    return reader


def table(readers: Mapping[str, Reader], build: Callable[..., Any]) -> Reader:
    """A table within the table, all of whose fields must be right."""

    def read(value: object, place: str) -> Any:
        reading = read_table(value, place, readers)
        if reading.faults:
            raise Misfit(*reading.faults)
        return build(**reading.values)

    return read


duration = quantity(units.seconds)

SCHEMA = 1


def schema(value: object, place: str) -> int:
    """The number of a file's format; another one is refused, not guessed (DESIGN, section 4)."""
    if isinstance(value, bool) or value != SCHEMA:
        raise Misfit(Fault(place, f"this version of mcpd reads schema {SCHEMA}, found {shown(value)}"))
    return SCHEMA


LEAKS: dict[str, Reader] = {"arguments": word(*SECRETS_IN), "results": word(*SECRETS_OUT)}

#: The fields of a policy, for servers and for tools (a23).
POLICY: dict[str, Reader] = {
    "risk": word("low", "medium", "high"),
    "approval": word("never", "unless_auto_approved", "always", "deny"),
    "timeout": duration,
    "leaks": table(LEAKS, Leaks),
}
