"""The tables of the journal's file, and how older files become such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcpd.database import Schema
from mcpd.journal.entry import COLUMNS, OWN, SHARED

#: The key makes the digests of arguments say nothing without the file: many arguments could be guessed.
_KEY: Final = "create table key (bytes blob not null); insert into key values (randomblob(32))"
#: What version 2 added.
_ADDED: Final = (
    *("destination", "risk", "rule", "approval", "grant", "pin", "findings"),
    *("waited", "proof", "decided", "shape", "arguments"),
)


def _declared(names: Sequence[str]) -> str:
    return ", ".join(f"{name} {COLUMNS[name]}" for name in names)


_TABLES: Final = (
    f"create table context (id integer primary key, {_declared(SHARED)});"
    f"create table entry (id integer primary key, context integer not null, {_declared(OWN)})"
)
#: An entry and its context together, which is what is searched: read in the order of the entries, whatever is
#: asked of the contexts.
_VIEW: Final = (
    f"create view entries as select entry.id, {', '.join(COLUMNS)} "
    "from entry cross join context on context.id = entry.context"
)

SCHEMA = Schema(
    version=3,
    script=f"{_TABLES}; {_VIEW}; {_KEY}",
    probe=f"select id, {', '.join(COLUMNS)}, bytes from entries, key limit 1",
    steps={
        1: "; ".join(
            f"alter table entries add column {name} {COLUMNS[name]} default "
            + ("''" if COLUMNS[name].startswith("text") else "0")
            for name in _ADDED
        )
        + f"; {_KEY}",
        # Each entry gets a context of its own; to find equal ones would take long, and they go with time.
        2: f"{_TABLES};"
        f"insert into context (id, {', '.join(SHARED)}) select id, {', '.join(SHARED)} from entries;"
        f"insert into entry (id, context, {', '.join(OWN)}) select id, id, {', '.join(OWN)} from entries;"
        f"drop table entries; {_VIEW}",
    },
)
#: The order matters: auto_vacuum counts only before the first table. A crash of the machine may
#: lose the last commits but damages nothing.
PRAGMAS = (
    "auto_vacuum = incremental",
    "journal_mode = wal",
    "synchronous = normal",
    f"journal_size_limit = {16 << 20}",
    # In pages: at full load the log is copied a fourth as often (measured: 10 % of the writer's time).
    "wal_autocheckpoint = 4000",
)
