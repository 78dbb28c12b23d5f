"""The file of the journal: rows in, rows out, and what is deleted of them.

Used in worker threads, one at a time except for `read`.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mcpd.api.journal import QueryJournal
from mcpd.config.spec import Problem, Settings
from mcpd.database import is_damage, open_database, reason, set_aside
from mcpd.errors import Failure
from mcpd.journal.entry import OWN, SHARED, Entry
from mcpd.journal.rows import Redactor, Rows, Waiting, Words, as_text, context, whole, words
from mcpd.journal.schema import PRAGMAS, SCHEMA
from mcpd.journal.search import Page, ends, find

log = logging.getLogger(__name__)

_ROW: Final = "(" + ", ".join("?" * (1 + len(OWN))) + ")"
#: Rows of a statement -> the statement. The interpreter's lock is given up and taken back once a statement,
#: so a row each would hold up the loop, and the writer still more, while calls go on. Few sizes, because
#: each that was used is kept, compiled.
_INSERTS: Final = {
    rows: f"insert into entry (context, {', '.join(OWN)}) values " + ", ".join([_ROW] * rows)
    for rows in (128, 16, 1)
}
_INSERT_CONTEXT: Final = (
    f"insert into context ({', '.join(SHARED)}) values ({', '.join(f':{name}' for name in SHARED)})"
)
CONTEXTS: Final = 2000
"""Contexts that are known again; another that is as good as one before costs some hundred bytes."""
LONG: Final = 2000
"""Characters of those: names of arguments may be many, and are not held in memory."""
NEAR: Final = 20_000
"""Numbers within which all entries of one context lie, so that whether it has any left is soon seen."""

DAY = 86400.0
_CHUNK = 20_000
"""Numbers in whose range one transaction deletes."""
PATIENCE: Final = 0.5
"""Seconds after which what comes to be written goes before what is too much: it may be waited for."""
_PLAIN: Final = "(select kind = 'request' and risk <> 'high' from context where context.id = entry.context)"
"""What goes first when the file is too large."""


class Keep(NamedTuple):
    """What the file keeps, and for how long; 0 switches a limit off."""

    days: int = 90
    bytes: int = 500 << 20
    arguments: bool = False


def kept(settings: Settings) -> Keep:
    return Keep(settings.journal_keep_days, settings.journal_keep_bytes, settings.journal_arguments)


class Store:
    """The database itself. `keep` may be exchanged at any time, whole."""

    def __init__(self, path: Path, keep: Keep, redactor: Redactor | None = None) -> None:
        self.problems: tuple[Problem, ...] = ()
        self.path = path
        self.keep = keep
        self._redactor = redactor
        self._connection: sqlite3.Connection | None = None
        self._rows = Rows(b"")
        self._contexts: dict[Words, int] = {}
        """The numbers of those that were written lately."""
        self._written = 0
        """Entries since the first of them."""
        self._held = 0
        """What the redactor took out then."""
        self._seen = -1
        """What tells whether somebody else has written to the file."""
        self._plain = 0
        """No plain entry is left before this number."""
        self._inode = 0
        self._tidied = 0.0

    def open(self) -> None:
        connection = self._ready()
        now = time.time()
        self._tidy(now, self._newest(connection, now), due=True)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def write(self, batch: Sequence[Waiting]) -> int:
        """Store all of it or nothing; the number of the last one. Raises sqlite3.Error, OSError, Failure."""
        now = newest = time.time()
        due = not 0 <= now - self._tidied < DAY
        try:
            if due:
                newest = self._newest(self._ready(), now)
            last = self._insert(batch)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.close()
            self._note_damage(set_aside(self.path))
            last = self._insert(batch)
        self._tidy(now, newest, due=due)
        return last

    def _insert(self, batch: Sequence[Waiting]) -> int:
        connection = self._ready()
        batch = list(batch)
        last = 0
        connection.execute("begin immediate")
        try:
            self._look_for_others(connection)
            at = 0
            for size, statement in _INSERTS.items():
                while at + size <= len(batch):
                    values = self._values(connection, batch[at : at + size])
                    last = connection.execute(statement, values).lastrowid or 0
                    at += size
            connection.execute("commit")
        except BaseException:
            # Those of this batch are not there.
            self._forget()
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        return last

    def _values(self, connection: sqlite3.Connection, part: Sequence[Waiting]) -> list[object]:
        """The values of the rows one after the other."""
        values: list[object] = []
        own, known, redactor = self._rows.own, self._contexts.get, self._redactor
        if self._written + len(part) > NEAR or (redactor is not None and redactor.times_held != self._held):
            self._forget()
        self._written += len(part)
        for entry, arguments in part:
            said = words(entry, arguments)
            number = known(said)
            if number is None:
                number = self._insert_context(connection, said, entry)
            kept = whole(arguments, redactor) if arguments and self.keep.arguments else ""
            values.append(number)
            values += own(entry, arguments, kept)
        return values

    def _insert_context(self, connection: sqlite3.Connection, said: Words, entry: Entry) -> int:
        shaped = str(said[-1])
        columns = context(entry, shaped, self._redactor)
        try:
            cursor = connection.execute(_INSERT_CONTEXT, columns)
        except UnicodeEncodeError:
            # A path of the file system may hold bytes that are no text. Nothing of the statement is in.
            texts = {name: as_text(text) for name, text in columns.items() if isinstance(text, str)}
            cursor = connection.execute(_INSERT_CONTEXT, columns | texts)
        number = cursor.lastrowid or 0
        if len(shaped) + len(entry.because) <= LONG:
            if len(self._contexts) >= CONTEXTS:
                self._contexts.clear()
            self._contexts[said] = number
        return number

    def _look_for_others(self, connection: sqlite3.Connection) -> None:
        """Whoever deletes entries by hand may delete contexts with them."""
        [(seen,)] = connection.execute("pragma data_version")
        if seen != self._seen:
            self._seen = seen
            self._plain = 0
            self._forget()

    def _forget(self) -> None:
        """Every context is written anew from here on."""
        self._contexts.clear()
        self._written = 0
        if self._redactor is not None:
            self._held = self._redactor.times_held

    def read(self, wanted: QueryJournal) -> Page:
        """One that was deleted is empty. Raises Failure `not_writable` when the file cannot be read."""
        try:
            # A connection of its own: WAL lets it read while a batch is written.
            connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=2)
            try:
                return find(connection, wanted)
            finally:
                connection.close()
        except sqlite3.Error as error:
            if not self.path.exists():
                return Page([], 0)
            raise Failure("not_writable", f"cannot read the journal: {self.path}: {reason(error)}") from error

    def _ready(self) -> sqlite3.Connection:
        """The connection, opened anew when the file was deleted or exchanged."""
        try:
            inode = os.stat(self.path).st_ino
        except FileNotFoundError:
            inode = 0
        if self._connection is not None and inode and inode == self._inode:
            return self._connection
        # Closed first: closing removes the companions by their names.
        self.close()
        # Not thorough: it may be half a gigabyte, and damage shows itself when it is written.
        opened = open_database(self.path, SCHEMA, PRAGMAS, thorough=False)
        [(key,)] = opened.connection.execute("select bytes from key limit 1")
        self._rows = Rows(key)
        self._seen = -1
        self._connection = opened.connection
        self._inode = os.stat(self.path).st_ino
        if opened.set_aside is not None:
            self._note_damage(opened.set_aside)
        return self._connection

    def _note_damage(self, aside: Path) -> None:
        log.error("the journal is damaged, it is now %s", aside)
        self.problems = (Problem(str(self.path), "", f"damaged, it is now {aside}"),)

    # Retention

    def _newest(self, connection: sqlite3.Connection, now: float) -> float:
        """When the last entry was stored, or now if it seems to come from later."""
        row = connection.execute("select at from entry order by id desc limit 1").fetchone()
        return min(now, row[0]) if row else now

    def _tidy(self, now: float, newest: float, *, due: bool) -> None:
        """Delete what is too much, and where it is due what is too old, counted from `newest`.

        A failure is only logged: what was to be written is.
        """
        try:
            connection = self._ready()
            if due:
                self._tidied = now
            elif self._excess(connection) <= 0:
                return
            if due and self.keep.days:
                self._delete_old(connection, newest - self.keep.days * DAY)
            self._make_room(connection)
            # As a script: a plain execute() steps once, and each step frees one page.
            connection.executescript("pragma incremental_vacuum")
        except (sqlite3.Error, OSError, Failure) as error:
            log.warning("cannot delete old entries of the journal: %s", reason(error))

    def _delete_old(self, connection: sqlite3.Connection, moment: float) -> None:
        first, last = ends(connection)
        for low in range(first, last + 1, _CHUNK):
            self._delete(connection, low, low + _CHUNK, "at < ?", moment)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Delete the oldest until the size is right; what takes too long the next batch goes on with."""
        until = time.monotonic() + PATIENCE
        # An agent that floods the journal with requests must not thereby be rid of what was decided about it.
        for which in (_PLAIN, "1"):
            low, last = ends(connection)
            if which == _PLAIN:
                low = max(low, self._plain)
            # The newest stays, so that no number is given twice.
            while low < last and (share := self._excess(connection)) > 0 and time.monotonic() < until:
                # Rows differ in size, so the share to delete is an estimate that is made again.
                high = low + min(_CHUNK, 1 + int((last - low) * share))
                self._delete(connection, low, high, which)
                low = high
                if which == _PLAIN:
                    self._plain = low

    def _delete(
        self, connection: sqlite3.Connection, low: int, high: int, condition: str, *values: float
    ) -> None:
        """Of the entries from `low` to `high`, and the contexts that have no others. In steps, so that a
        reader or a backup never waits long."""
        with connection:
            connection.execute("begin immediate")
            contexts = "select min(context), max(context) from entry where id >= ? and id < ?"
            theirs = connection.execute(contexts, (low, high)).fetchone()
            which = f"delete from entry where id >= ? and id < ? and {condition}"
            if connection.execute(which, (low, high, *values)).rowcount:
                self._forget()
                connection.execute(
                    "delete from context where id between ? and ?"
                    " and id not in (select context from entry where id > ? and id < ?)",
                    (*theirs, low - NEAR, high + NEAR),
                )

    def _excess(self, connection: sqlite3.Connection) -> float:
        """The share of the rows that must go, so that a tenth of the space is free again."""
        if not self.keep.bytes:
            return 0.0
        pages, free, size = (
            connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        used = (pages - free) * size
        return 1 - 0.9 * self.keep.bytes / used if used > self.keep.bytes else 0.0
