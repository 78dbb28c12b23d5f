"""Results of completion/complete: what may stand in the place of an argument that is being typed (5.5)."""

from __future__ import annotations

from typing import Final

import msgspec

from mcpd.catalog.blocks import BESIDE, one_line
from mcpd.catalog.content import Bounded
from mcpd.catalog.members import foreign_meta, join_members, split_members
from mcpd.errors import Failure
from mcpd.protocol.arrays import elements

#: Values of one answer, by the specification (5.5).
MOST: Final = 100

#: Where a server offers no completions, there is nothing to suggest.
NOTHING: Final = b'"completion":{"values":[],"total":0,"hasMore":false}'

_SPECIFIED: Final = ("values", "total", "hasMore")

_STRING: Final = msgspec.json.Decoder(str)
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError, KeyError)


def bound(result: bytes, cap: int) -> Bounded:
    """A server's answer in the specified form: at most MOST values, and `cap` bytes of them (0: no limit).

    Raises Failure `bad_answer` for what is none.
    """
    try:
        members = split_members(one_line(result))
        if _STRING.decode(members.pop("resultType", b'"complete"')) != "complete":
            raise Failure("bad_answer", "cannot use the server's completion: it is not complete")
        said = split_members(members["completion"])
        found, cut = elements(said["values"], MOST)
        kept = _fitting([_STRING.decode(value) for value in found], cap)
        cut = cut or len(kept) < len(found)
        more = cut or said.get("hasMore") == b"true"
        completion = {**said, "values": msgspec.json.encode(kept)}
        if not said.get("total", b"").isdigit():
            completion.pop("total", None)
        if more or "hasMore" in said:
            completion["hasMore"] = b"true" if more else b"false"
        del members["completion"]
        meta = members.pop("_meta", b"")
        if meta[:1] == b"{":
            members["_meta"] = foreign_meta(meta)
        beside = (
            sum(map(len, members.values())) + sum(map(len, completion.values())) - len(completion["values"])
        )
        if beside > BESIDE:
            members = {}
            completion = {name: completion[name] for name in _SPECIFIED if name in completion}
        members["completion"] = b"{" + join_members(completion) + b"}"
    except _UNREADABLE as error:
        raise Failure("bad_answer", f"cannot read the server's completion: {error}") from None
    return Bounded(b"{" + join_members(members) + b"}", cut=cut)


def _fitting(values: list[str], cap: int) -> list[str]:
    """The first of them that fit; one that is cut in half would be another value."""
    kept: list[str] = []
    left = cap
    for value in values:
        left -= len(value.encode())
        if cap and left < 0:
            break
        kept.append(value)
    return kept
