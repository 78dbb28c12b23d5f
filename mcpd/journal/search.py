"""Finding entries again: the conditions of a query as SQL, and the search in steps of bounded work."""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Final, NamedTuple

from mcpd.api.journal import QueryJournal, Recorded
from mcpd.journal.entry import COLUMNS

STEP: Final = 20_000
"""Rows looked at by one statement."""
PATIENCE: Final = 2.0
"""Seconds after which a search that has not found enough tells what it has."""
SLACK: Final = 86400.0
"""Numbers rise with time as long as nobody sets the clock; a search gives up where all is so much older."""

_NAMES: Final = ", ".join(("id", *COLUMNS))
_WORDS: Final = (
    "kind",
    "agent",
    "exe",
    "server",
    "tool",
    "method",
    "because",
    "outcome",
    "findings",
    "shape",
    "arguments",
)
"""The columns in which `text` is looked for."""


class Page(NamedTuple):
    entries: list[Recorded]
    next: int
    """Where the search goes on; 0 where it has come to the oldest entry."""


def conditions(wanted: QueryJournal) -> tuple[str, list[object]]:
    """The query as an expression of SQL with its values. No text of the query becomes part of it."""
    parts: list[str] = []
    values: list[object] = []

    def add(part: str, *more: object) -> None:
        parts.append(part)
        values.extend(more)

    if wanted.since:
        add("at >= ?", wanted.since)
    if wanted.until:
        add("at < ?", wanted.until)
    for name in ("agent", "server", "tool", "decision", "risk"):
        if (text := getattr(wanted, name)) is not None:
            add(f"{name} glob ?", text.replace("[", "[[]"))
    for name, words in (("kind", wanted.kinds), ("outcome", wanted.outcomes)):
        if words:
            add(f"{name} in ({', '.join('?' * len(words))})", *words)
    if wanted.id:
        add("? in (approval, grant, session)", wanted.id)
    if wanted.text:
        escaped = wanted.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        add(
            "(" + " or ".join(f"{name} like ? escape '\\'" for name in _WORDS) + ")",
            *[f"%{escaped}%"] * len(_WORDS),
        )
    return " and ".join(parts) or "1", values


def ends(connection: sqlite3.Connection) -> tuple[int, int]:
    """The smallest and the largest number; (1, 0) for none."""
    # Asked for in one query they are looked for in the whole table.
    first, last = connection.execute(
        "select (select min(id) from entry), (select max(id) from entry)"
    ).fetchone()
    return (first, last) if first is not None else (1, 0)


def find(connection: sqlite3.Connection, wanted: QueryJournal) -> Page:
    """The entries that fit, of which there are at most `wanted.limit`, and where to go on."""
    where, values = conditions(wanted)
    found: list[Recorded] = []
    first, last = ends(connection)
    if first > last:
        return Page(found, 0)
    if wanted.after is not None:
        return _forward(connection, wanted, where, values, max(wanted.after, first - 1), last)
    at = min(wanted.before, last + 1) if wanted.before else last + 1
    until = time.monotonic() + PATIENCE
    while at > first:
        low = max(at - STEP, first)
        rows = connection.execute(
            f"select {_NAMES} from entries where id >= ? and id < ? and {where} order by id desc limit ?",
            [low, at, *values, wanted.limit - len(found)],
        ).fetchall()
        found += map(_recorded, rows)
        if len(found) == wanted.limit:
            return Page(found, found[-1].id if found[-1].id > first else 0)
        if wanted.since and not rows and _all_older(connection, low, at, wanted.since - SLACK):
            break
        at = low
        if time.monotonic() > until:
            return Page(found, at if at > first else 0)
    return Page(found, 0)


def _forward(
    connection: sqlite3.Connection,
    wanted: QueryJournal,
    where: str,
    values: list[object],
    at: int,
    last: int,
) -> Page:
    """From `at` on towards the newest, `last`. A number that was never given is one of another file."""
    at = at if at <= last else 0
    found: list[Recorded] = []
    until = time.monotonic() + PATIENCE
    while at < last and time.monotonic() <= until:
        high = min(at + STEP, last)
        rows = connection.execute(
            f"select {_NAMES} from entries where id > ? and id <= ? and {where} order by id limit ?",
            [at, high, *values, wanted.limit - len(found)],
        ).fetchall()
        found += map(_recorded, rows)
        if len(found) == wanted.limit:
            return Page(found, found[-1].id)
        at = high
    return Page(found, at)


def _all_older(connection: sqlite3.Connection, low: int, high: int, moment: float) -> bool:
    [(newest,)] = connection.execute("select max(at) from entry where id >= ? and id < ?", (low, high))
    return newest is not None and newest < moment


def _recorded(row: tuple[Any, ...]) -> Recorded:
    """The columns are declared by the fields, so what stands in one is of its field's type."""
    return Recorded(**dict(zip(("id", *COLUMNS), row, strict=True)))
