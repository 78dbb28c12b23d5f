"""The journal: what was asked of servers, decided and changed, in journal.db.

`record` is on the path of every call: it appends and returns. One task writes what has
gathered, in a worker thread, at the latest a quarter of a second after the first of it;
`kill -9` loses at most that. With nothing to write the task waits and wakes nobody. The
file may be deleted at any time; the next batch makes a new one.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from mcpd.config.spec import Problem
from mcpd.database import Schema, is_damage, open_database, reason, set_aside
from mcpd.errors import Failure
from mcpd.journal.entry import COLUMNS, Entry

log = logging.getLogger(__name__)


_NAMES: Final = ", ".join(COLUMNS)

#: Columns of version 1; what came later is added to an older file, empty.
_FIRST: Final = 16

SCHEMA = Schema(
    version=2,
    script="create table entries (id integer primary key, "
    + ", ".join(f"{name} {declared}" for name, declared in COLUMNS.items())
    + ")",
    probe=f"select id, {_NAMES} from entries limit 1",
    steps={
        1: "; ".join(
            f"alter table entries add column {name} {declared} default "
            + ("''" if declared.startswith("text") else "0")
            for name, declared in list(COLUMNS.items())[_FIRST:]
        )
    },
)
#: The order matters: auto_vacuum counts only before the first table. A crash of the machine may
#: lose the last commits but damages nothing.
_PRAGMAS = (
    "auto_vacuum = incremental",
    "journal_mode = wal",
    "synchronous = normal",
    f"journal_size_limit = {16 << 20}",
)
_ROW: Final = "(" + ", ".join("?" * len(COLUMNS)) + ")"
#: Rows of one statement. The interpreter's lock is given up and taken back once a statement, so a row
#: each would hold up the loop, and the writer still more, while calls go on (measured: 45 us a row
#: against 11). SQLite takes at most 32,766 values.
_ROWS: Final = 400
_INSERT: Final = f"insert into entries ({_NAMES}) values "
_INSERT_MANY: Final = _INSERT + ", ".join([_ROW] * _ROWS)

WAIT = 0.25
"""Seconds that a batch gathers after its first entry."""
FULL = 2000
"""Entries after which a batch is written without waiting longer."""
LIMIT = 10_000
"""Entries held at most; above, the oldest are dropped and counted."""
AGAIN = 5.0
"""Seconds until the next attempt after a batch could not be written."""
DAY = 86400.0
_CHUNK = 20_000
"""Rows deleted in one transaction."""


class Journal:
    """The owner of journal.db. `record` and `run` belong to the trio thread.

    `keep_days` and `keep_bytes`: older entries go, and the oldest while the file is
    larger; 0 switches the limit off. Checked at the start and once a day after writing. Age
    counts from what had been stored last: a clock that jumps forward must not cost everything.
    """

    def __init__(self, path: Path, keep_days: int = 90, keep_bytes: int = 500 << 20) -> None:
        self._store = _Store(path, keep_days, keep_bytes)
        self._waiting: deque[Entry] = deque()
        self._dropped = 0
        self._some = trio.Event()
        self._many = trio.Event()
        self._writing = trio.Lock()
        self.error = ""
        """Why the last batch could not be written; empty when it was."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was found when the file was opened, and why nothing is written now."""
        if not self.error:
            return self._store.problems
        now = Problem(str(self._store.path), "", f"cannot write the journal: {self.error}")
        return (*self._store.problems, now)

    def record(self, entry: Entry) -> None:
        """Note something; never waits and never fails."""
        waiting = self._waiting
        count = len(waiting)
        if not count:
            self._some.set()
        elif count >= FULL:
            self._many.set()
            if count >= LIMIT:
                waiting.popleft()
                self._dropped += 1
        waiting.append(entry)

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Open the file and write until cancelled, then write what is left and close it.

        The last write is shielded and gives a locked file no more than its usual time.
        Raises Failure "refused" for a file of a newer version, before it has started. Whatever
        else goes wrong (a full disk, a file in the way) is logged, shown and tried again: the
        daemon is needed then too, if only to say so.
        """
        try:
            await trio.to_thread.run_sync(self._store.open)
        except Failure as failure:
            if failure.kind == "refused":
                raise
            self._failed(failure)
        try:
            task_status.started()
            while True:
                await self._some.wait()
                with trio.move_on_after(WAIT):
                    await self._many.wait()
                if not await self._flush():
                    await trio.sleep(AGAIN)
        finally:
            with trio.CancelScope(shield=True):
                await self._flush()
                async with self._writing:
                    await trio.to_thread.run_sync(self._store.close)

    async def query(
        self,
        *,
        server: str | None = None,
        agent: str | None = None,
        since: float | None = None,
        limit: int = 100,
    ) -> list[Entry]:
        """The newest entries that fit, newest first, those just recorded included.

        Raises Failure("not_writable") when the file cannot be read.
        """
        await self._flush()
        return await trio.to_thread.run_sync(self._store.read, server, agent, since, limit)

    async def _flush(self) -> bool:
        """Write what waits; False when that failed (it waits again then)."""
        async with self._writing:
            if not self._waiting:
                # The events stay as they are: `run` may be waiting for them.
                return True
            batch, self._waiting = self._waiting, deque()
            dropped, self._dropped = self._dropped, 0
            self._some, self._many = trio.Event(), trio.Event()
            if dropped:
                gap = f"{dropped} entries before this one were not written"
                batch.appendleft(Entry(at=batch[0].at, kind="gap", because=gap))
            try:
                # Shielded, because run_sync may give up before it begins, and the batch with it.
                with trio.CancelScope(shield=True):
                    await trio.to_thread.run_sync(self._store.write, batch)
            except (sqlite3.Error, OSError, Failure) as error:
                self._give_back(batch, dropped)
                self._failed(error)
                return False
            self.error = ""
            return True

    def _failed(self, error: Exception) -> None:
        if not self.error:
            log.error("cannot write the journal: %s", reason(error))
        self.error = reason(error)

    def _give_back(self, batch: deque[Entry], dropped: int) -> None:
        if dropped:
            batch.popleft()
        batch.extend(self._waiting)
        self._dropped += dropped + max(0, len(batch) - LIMIT)
        while len(batch) > LIMIT:
            batch.popleft()
        self._waiting = batch
        self._some.set()


class _Store:
    """The database itself; used in worker threads, one at a time except for `read`."""

    def __init__(self, path: Path, keep_days: int, keep_bytes: int) -> None:
        self.problems: tuple[Problem, ...] = ()
        self.path = path
        self._keep_days = keep_days
        self._keep_bytes = keep_bytes
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._tidied = 0.0

    def open(self) -> None:
        self._ready()
        self._tidy(time.time())

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def write(self, batch: Sequence[Entry]) -> None:
        rows = [msgspec.structs.astuple(entry) for entry in batch]
        now = newest = time.time()
        due = not 0 <= now - self._tidied < DAY
        try:
            if due:
                newest = self._newest(self._ready(), now)
            self._insert(rows)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self.close()
            self._note_damage(set_aside(self.path))
            self._insert(rows)
        if due:
            self._tidy(now, newest)

    def _insert(self, rows: Sequence[Sequence[object]]) -> None:
        connection = self._ready()
        connection.execute("begin immediate")
        try:
            try:
                _insert_rows(connection, rows)
            except UnicodeEncodeError:
                # A path of the file system may hold bytes that are no text. Some rows are in.
                connection.execute("rollback")
                connection.execute("begin immediate")
                _insert_rows(connection, [tuple(map(_as_text, row)) for row in rows])
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise

    def read(self, server: str | None, agent: str | None, since: float | None, limit: int) -> list[Entry]:
        conditions = [("server = ?", server), ("agent = ?", agent), ("at >= ?", since)]
        used = [(text, value) for text, value in conditions if value is not None]
        where = " and ".join(text for text, _ in used) or "1"
        try:
            # A connection of its own: WAL lets it read while a batch is written.
            connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, timeout=2)
            try:
                rows = connection.execute(
                    f"select {_NAMES} from entries where {where} order by id desc limit ?",
                    [*(value for _, value in used), max(0, min(limit, 10_000))],
                ).fetchall()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise Failure("not_writable", f"cannot read the journal: {self.path}: {reason(error)}") from error
        return [Entry(**dict(zip(COLUMNS, row, strict=True))) for row in rows]

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
        opened = open_database(self.path, SCHEMA, _PRAGMAS, thorough=False)
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
        row = connection.execute("select at from entries order by id desc limit 1").fetchone()
        return min(now, row[0]) if row else now

    def _tidy(self, now: float, newest: float | None = None) -> None:
        """Delete what is too old or too much. A failure is only logged: what was to be written is."""
        self._tidied = now
        try:
            connection = self._ready()
            self._delete_old(connection, self._newest(connection, now) if newest is None else newest)
        except (sqlite3.Error, OSError, Failure) as error:
            log.warning("cannot delete old entries of the journal: %s", reason(error))

    def _delete_old(self, connection: sqlite3.Connection, newest: float) -> None:
        if self._keep_days:
            _delete(connection, "at < ?", newest - self._keep_days * DAY)
        # Rows differ in size, so the share to delete is an estimate that is made again.
        for _ in range(8):
            share = self._excess(connection)
            [(first, last)] = connection.execute("select min(id), max(id) from entries")
            if share <= 0 or first is None:
                break
            _delete(connection, "id <= ?", first + int((last - first + 1) * share))
        # As a script: a plain execute() steps once, and each step frees one page.
        connection.executescript("pragma incremental_vacuum")

    def _excess(self, connection: sqlite3.Connection) -> float:
        """The share of the rows that must go, so that a tenth of the space is free again."""
        if not self._keep_bytes:
            return 0.0
        pages, free, size = (
            connection.execute(f"pragma {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        used = (pages - free) * size
        return 1 - 0.9 * self._keep_bytes / used if used > self._keep_bytes else 0.0


def _delete(connection: sqlite3.Connection, condition: str, value: float) -> None:
    """Delete in steps, so that a reader or a backup never waits long."""
    while True:
        cursor = connection.execute(
            f"delete from entries where id in (select id from entries where {condition} limit {_CHUNK})",
            (value,),
        )
        if cursor.rowcount < _CHUNK:
            return


def _insert_rows(connection: sqlite3.Connection, rows: Sequence[Sequence[object]]) -> None:
    whole = len(rows) - len(rows) % _ROWS
    for at in range(0, whole, _ROWS):
        connection.execute(_INSERT_MANY, [value for row in rows[at : at + _ROWS] for value in row])
    if rest := rows[whole:]:
        statement = _INSERT + ", ".join([_ROW] * len(rest))
        connection.execute(statement, [value for row in rest for value in row])


def _as_text(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
