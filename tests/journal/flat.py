"""Entries by the names of their columns, as they are read again."""

from __future__ import annotations

from typing import Any

from mcpd.api.journal import Recorded
from mcpd.caller import Caller
from mcpd.journal import About, Entry
from mcpd.journal.entry import COLUMNS
from mcpd.journal.rows import context


def entry(**fields: Any) -> Entry:
    """An entry with these columns."""
    said = {name: fields.pop(name, "") for name in ("session", "agent", "exe")}
    caller = Caller(**said, pid=fields.pop("pid", 0))
    about = About(**{name: fields.pop(name) for name in About.__struct_fields__ if name in fields})
    return Entry(caller=caller, about=about, **fields)


def recorded(entry: Entry) -> Recorded:
    """The columns of an entry that no file has seen."""
    shared = context(entry, "", None)
    own = {name: getattr(entry, name) for name in COLUMNS if name in Entry.__struct_fields__}
    return Recorded(**{**shared, **own})
