"""One entry of the journal, as it is recorded, and the columns it is stored in.

What repeats from entry to entry, all its words, is stored once and called its context: an entry itself
is a few numbers then, which at full load makes it half as dear to write (measured).
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from mcpd.api.journal import Kind, Recorded
from mcpd.caller import NOBODY, Caller


class About(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """What an entry is about; the fields are described in `Recorded`."""

    server: str = ""
    tool: str = ""
    method: str = ""
    destination: str = ""
    risk: str = ""
    rule: str = ""
    pin: str = ""


NOTHING: Final = About()


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What happens now; the fields are described in `Recorded`."""

    caller: Caller = NOBODY
    about: About = NOTHING
    kind: Kind = "request"
    decision: str = ""
    because: str = ""
    outcome: str = ""
    duration: float = 0.0
    request_bytes: int = 0
    result_bytes: int = 0
    approval: str = ""
    grant: str = ""
    findings: str = ""
    waited: float = 0.0
    proof: str = ""
    decided: int = 0
    at: float = msgspec.field(default_factory=time.time)


#: The columns of an entry itself, beside `id` and the number of its context.
OWN: Final = ("at", "duration", "request_bytes", "result_bytes", "digest", "waited", "decided", "arguments")

_SQL_TYPES: Final = {"float": "real", "int": "integer", "str": "text"}

#: Every column but `id` -> its declaration, in the order of the fields of `Recorded`.
COLUMNS: Final = {
    name: f"{_SQL_TYPES[kind]} not null" for name, kind in Recorded.__annotations__.items() if name != "id"
}

#: The columns of a context, beside its number.
SHARED: Final = tuple(name for name in COLUMNS if name not in OWN)
