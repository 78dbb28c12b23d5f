"""One row of the journal, as it is recorded, and the columns it is stored in."""

from __future__ import annotations

import time
from typing import Final

import msgspec

from mcpd.api.journal import Recorded


class Entry(Recorded, frozen=True, kw_only=True, gc=False):
    """What happens now; the fields are described there."""

    at: float = msgspec.field(default_factory=time.time)


_SQL_TYPES: Final = {"float": "real", "int": "integer", "str": "text"}

#: Column -> its declaration, in the order of the fields; `id` is the key of the row.
COLUMNS: Final = {
    name: f"{_SQL_TYPES[kind]} not null" for name, kind in Recorded.__annotations__.items() if name != "id"
}
