"""state.db, whose tables the books of this package keep: read when a book is made, written through.

Each change is on the disk before it counts and before `write` returns: a few milliseconds that may be
spent in the trio thread, because people cause them, not calls.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcpd.config.spec import Problem
from mcpd.consent.schema import SCHEMA
from mcpd.database import open_database, reason
from mcpd.errors import Failure

#: With the rollback journal a commit is on the disk, and the database is one file.
_PRAGMAS = ("journal_mode = delete", "synchronous = full")

Statement = tuple[str, Sequence[object]]
"""SQL with its values."""


class Store:
    """The only owner of state.db. Not for use by several threads at once.

    Raises Failure when it is made: "refused" for a file of a newer version, "not_writable". A damaged file
    is set aside, nothing in it counts, and `problems` says so.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection, aside = open_database(path, SCHEMA, _PRAGMAS)
        self.problems: tuple[Problem, ...] = ()
        if aside is not None:
            what = "damaged: what it held is forgotten (accepted files, trust, grants, pins, the passphrase)"
            self.problems = (Problem(str(path), "", f"{what}; it is now {aside}"),)

    def close(self) -> None:
        self._connection.close()

    def rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """What a query finds."""
        return self._connection.execute(query, values).fetchall()

    def write(self, what: str, *statements: Statement) -> None:
        """Do all of it or nothing. `what` completes "cannot ..." in the Failure `not_writable`."""
        try:
            if len(statements) > 1:
                self._connection.execute("begin immediate")
            try:
                for statement, values in statements:
                    self._connection.execute(statement, values)
                if len(statements) > 1:
                    self._connection.execute("commit")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise
        except sqlite3.Error as error:
            raise Failure("not_writable", f"cannot {what}: {self.path}: {reason(error)}") from error
