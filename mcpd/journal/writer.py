"""The journal's owner: collects what is recorded and has it written off the request path.

`record` is on the path of every call: it appends and returns. One task writes what has
gathered, in a worker thread, at the latest a quarter of a second after the first of it;
`kill -9` loses at most that and the batch that is being written. With nothing to write the task
waits and wakes nobody. The file may be deleted at any time; the next batch makes a new one.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import deque
from pathlib import Path

import trio
from msgspec.structs import replace

from mcpd.api.journal import QueryJournal
from mcpd.config.spec import Problem
from mcpd.database import reason
from mcpd.errors import Failure
from mcpd.journal.entry import Entry
from mcpd.journal.rows import Redactor, Waiting
from mcpd.journal.search import Page
from mcpd.journal.store import Keep, Store

log = logging.getLogger(__name__)

WAIT = 0.25
"""Seconds that a batch gathers after its first entry."""
FULL = 2000
"""Entries after which a batch is written without waiting longer."""
LIMIT = 10_000
"""Entries held at most; above, the oldest are dropped and counted."""
ROOM = 32 << 20
"""Bytes of arguments held at most; above, entries are written without."""
AGAIN = 5.0
"""Seconds until the next attempt after a batch could not be written."""


EVERYTHING = QueryJournal()
KEEP = Keep()


class Journal:
    """The owner of journal.db. Everything here belongs to the trio thread.

    `keep`: older entries go, and the oldest while the file is larger. Age is looked at when the file is
    opened and once a day after writing, and counts from what had been stored last: a clock that jumps
    forward must not cost everything. Size is looked at after each batch.
    """

    def __init__(self, path: Path, keep: Keep = KEEP, redactor: Redactor | None = None) -> None:
        self._store = Store(path, keep, redactor)
        self._waiting: deque[Waiting] = deque()
        self._room = ROOM
        self._dropped = 0
        self._some = trio.Event()
        self._many = trio.Event()
        self._written = trio.Event()
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

    @property
    def writable(self) -> bool:
        """Whether all that was recorded is written or will be, as far as is known (n12)."""
        return not self.error and len(self._waiting) < LIMIT

    @property
    def keep(self) -> Keep:
        return self._store.keep

    @keep.setter
    def keep(self, keep: Keep) -> None:
        self._store.keep = keep

    def record(self, entry: Entry, arguments: bytes = b"") -> None:
        """Note something; never waits and never fails.

        `arguments`: the JSON text of what it is about. Digest, shape and, where they are kept, the redacted
        arguments of the entry are made from it when it is written.
        """
        waiting = self._waiting
        count = len(waiting)
        if not count:
            self._some.set()
        elif count >= FULL:
            self._many.set()
            if count >= LIMIT:
                self._room += len(waiting.popleft()[1])
                self._dropped += 1
        self._room -= len(arguments)
        if self._room < 0:
            self._room += len(arguments)
            arguments = b""
            self._many.set()
        waiting.append((entry, arguments))

    async def decided(self, entry: Entry, arguments: bytes = b"") -> int:
        """Write a decision before what was decided on happens; its number, 0 when it cannot be written.

        With it goes all that waits. Once begun it is not cancelled.
        """
        return await self._flush((entry, arguments))

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
                await self._flush()
                if self.error:
                    await trio.sleep(AGAIN)
        finally:
            with trio.CancelScope(shield=True):
                await self._flush()
                async with self._writing:
                    await trio.to_thread.run_sync(self._store.close)

    async def query(self, wanted: QueryJournal = EVERYTHING) -> Page:
        """The entries that fit, those just recorded included.

        Newest first, or with `wanted.after` oldest first. With `wanted.wait` as well it waits so many seconds
        for the first one, and for that they come when they are written: a reader that follows must not
        make each entry a batch of its own. Raises Failure("not_writable") when the file cannot be read.
        """
        if wanted.after is None or not wanted.wait:
            await self._flush()
            return await self._read(wanted)
        with trio.move_on_after(wanted.wait):
            while True:
                written = self._written
                page = await self._read(wanted)
                if page.entries:
                    return page
                wanted = replace(wanted, after=page.next)
                await written.wait()
        return Page([], wanted.after or 0)

    async def _read(self, wanted: QueryJournal) -> Page:
        return await trio.to_thread.run_sync(self._store.read, wanted)

    async def _flush(self, last: Waiting | None = None) -> int:
        """Write what waits, and `last` after it; the number of the last entry written, 0 for none.

        What could not be written waits again, except `last`.
        """
        async with self._writing:
            if not self._waiting and last is None:
                return 0
            batch, self._waiting, self._room = self._waiting, deque(), ROOM
            dropped, self._dropped = self._dropped, 0
            if batch:  # else `run` waits for them
                self._some, self._many = trio.Event(), trio.Event()
            if dropped:
                gap = f"{dropped} entries before this one were not written"
                batch.appendleft((Entry(at=batch[0][0].at, kind="gap", because=gap), b""))
            if last is not None:
                batch.append(last)
            try:
                # Shielded, because run_sync may give up before it begins, and the batch with it.
                with trio.CancelScope(shield=True):
                    number = await trio.to_thread.run_sync(self._store.write, batch)
            except (sqlite3.Error, OSError, Failure) as error:
                if last is not None:
                    batch.pop()
                self._give_back(batch, dropped)
                self._failed(error)
                return 0
            self.error = ""
            self._written.set()
            self._written = trio.Event()
            return number

    def _failed(self, error: Exception) -> None:
        if not self.error:
            log.error("cannot write the journal: %s", reason(error))
        self.error = reason(error)

    def _give_back(self, batch: deque[Waiting], dropped: int) -> None:
        if dropped:
            batch.popleft()
        batch.extend(self._waiting)
        self._dropped += dropped + max(0, len(batch) - LIMIT)
        while len(batch) > LIMIT:
            batch.popleft()
        self._waiting = batch
        self._room = ROOM - sum(len(arguments) for _, arguments in batch)
        if batch:
            self._some.set()
