"""SQLite files with a version, opened with care.

One database a file, 0600, of a schema with a number in `meta(version)`. A newer number
is refused, not guessed (DESIGN, section 4); a damaged file is set aside under another
name and a new one begun, so that nothing of it counts.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from mcpd import files
from mcpd.errors import Failure

BUSY = 2.0
"""Seconds to wait for another process that has the file locked (a backup, sqlite3 by hand)."""

_COMPANIONS = ("-journal", "-wal", "-shm")


class Schema(NamedTuple):
    """What a new database is made of."""

    version: int
    script: str
    """The CREATE statements; `meta` is added."""
    probe: str
    """A query that only a database of this version can answer."""
    steps: Mapping[int, str] = MappingProxyType({})
    """Older version -> statements that make the next one of it."""


class Opened(NamedTuple):
    connection: sqlite3.Connection
    set_aside: Path | None
    """Where the damaged file is now; None when there was none."""


class _Damaged(Exception):
    pass


def open_database(path: Path, schema: Schema, pragmas: tuple[str, ...], *, thorough: bool = True) -> Opened:
    """Open or make a database, usable by one thread at a time, in autocommit mode.

    `thorough`: every page is looked at for damage, which takes as long as reading the file.
    Raises Failure: "refused" for a newer version, "not_writable" when the file cannot be
    opened or made, also when another process keeps it locked.
    """
    try:
        files.make_private_folder(path.parent)
        try:
            return Opened(_open(path, schema, pragmas, thorough), None)
        except _Damaged:
            aside = set_aside(path)
            return Opened(_open(path, schema, pragmas, thorough), aside)
    except (OSError, sqlite3.Error, _Damaged) as error:
        raise Failure("not_writable", f'cannot open "{path}": {reason(error)}', file=str(path)) from error


def reason(error: Exception) -> str:
    """What went wrong, in few words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


def _open(path: Path, schema: Schema, pragmas: tuple[str, ...], thorough: bool) -> sqlite3.Connection:
    # Made here, because SQLite would take the umask; its companions take over this mode.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    os.close(fd)
    connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
    try:
        for pragma in pragmas:
            connection.execute(f"pragma {pragma}")
        _check(connection, path, schema, thorough)
    except sqlite3.DatabaseError as error:
        connection.close()
        if is_damage(error):
            raise _Damaged(reason(error)) from error
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path, schema: Schema, thorough: bool) -> None:
    """Make the tables of an empty file; see whether those of another one are as they must be."""
    tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    if not tables:
        connection.executescript(
            f"begin immediate; create table meta (version integer not null); {schema.script}; "
            f"insert into meta values ({schema.version}); commit"
        )
        return
    version = _version(connection) if "meta" in tables else None
    if version is not None and version > schema.version:
        raise Failure(
            "refused",
            f'cannot use "{path}": it has version {version}, and this mcpd knows version {schema.version}',
            hint="start the newer mcpd again, or move the file away",
            file=str(path),
        )
    if version is None:
        raise _Damaged("it has no version")
    if version < schema.version:
        _raise_version(connection, schema, version)
    connection.execute(schema.probe).fetchone()
    if thorough:
        [(found,)] = connection.execute("pragma quick_check(1)")
        if found != "ok":
            raise _Damaged(found)


def _raise_version(connection: sqlite3.Connection, schema: Schema, version: int) -> None:
    """Make an older database one of this version, all or nothing: what is in it stays."""
    scripts = [schema.steps.get(number) for number in range(version, schema.version)]
    if None in scripts:
        raise _Damaged("it has a version that never was")
    steps = "; ".join(filter(None, scripts))
    connection.executescript(f"begin immediate; {steps}; update meta set version = {schema.version}; commit")


def _version(connection: sqlite3.Connection) -> int | None:
    rows = connection.execute("select version from meta").fetchall()
    return rows[0][0] if len(rows) == 1 and isinstance(rows[0][0], int) else None


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Damage of the file, as opposed to a lock, a full disk or missing rights."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


def set_aside(path: Path) -> Path:
    """Give a damaged database and its companions another name."""
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%dT%H%M%S')}-{number}")
    os.rename(path, aside)
    for end in _COMPANIONS:
        with contextlib.suppress(FileNotFoundError):
            os.rename(f"{path}{end}", f"{aside}{end}")
    return aside
