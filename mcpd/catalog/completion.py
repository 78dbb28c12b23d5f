"""Results of completion/complete: what may stand in the place of an argument that is being typed (5.5)."""

from __future__ import annotations

from typing import Final

import msgspec

from mcpd.catalog.blocks import one_line
from mcpd.catalog.content import Bounded
from mcpd.catalog.members import foreign_meta, join_members, split_members
from mcpd.errors import Failure

#: Values of one answer, by the specification (5.5).
MOST: Final = 100

#: Where a server offers no completions, there is nothing to suggest.
NOTHING: Final = b'"completion":{"values":[],"total":0,"hasMore":false}'

_VALUES: Final = msgspec.json.Decoder(list[str])
_TYPE: Final = msgspec.json.Decoder(str)
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, KeyError)


def bound(result: bytes, cap: int) -> Bounded:
    """A server's answer in the specified form: at most MOST values, and `cap` bytes of them (0: no limit).

    Raises Failure `bad_answer` for what is none.
    """
    try:
        members = split_members(one_line(result))
        if _TYPE.decode(members.pop("resultType", b'"complete"')) != "complete":
            raise Failure("bad_answer", "cannot use the server's completion: it is not complete")
        said = split_members(members["completion"])
        values = _VALUES.decode(said["values"])
        kept = _fitting(values, cap)
        more = said.get("hasMore") == b"true" or len(kept) < len(values)
        completion: dict[str, bytes] = {"values": msgspec.json.encode(kept)}
        if said.get("total", b"").isdigit():
            completion["total"] = said["total"]
        if more or "hasMore" in said:
            completion["hasMore"] = b"true" if more else b"false"
        members["completion"] = b"{" + join_members(completion) + b"}"
        meta = members.pop("_meta", b"")
        if meta[:1] == b"{":
            members["_meta"] = foreign_meta(meta)
    except _UNREADABLE as error:
        raise Failure("bad_answer", f"cannot read the server's completion: {error}") from None
    return Bounded(b"{" + join_members(members) + b"}", cut=len(kept) < len(values))


def _fitting(values: list[str], cap: int) -> list[str]:
    """The first of them that fit; one that is cut in half would be another value."""
    kept: list[str] = []
    left = cap
    for value in values[:MOST]:
        left -= len(value.encode())
        if cap and left < 0:
            break
        kept.append(value)
    return kept
