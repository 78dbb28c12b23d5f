"""JSON arrays of which nobody has said how long they are.

Sixteen MiB of `1,1,1` are eight million values; as objects of Python they are a GiB and seconds on the
loop. Here only as many elements become objects as were asked for; the rest is checked and passed over.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

#: Elements that are made into objects without a thought: some 20 MiB, for some 20 ms.
_FEW: Final = 200_000
#: Numbers of elements that there are readers for. One for each number that a server can bring about would be
#: as many of them as it likes.
_SIZES: Final = (1_001, 10_001)

_ABSENT: Final = msgspec.Raw()
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def elements(text: bytes, most: int) -> tuple[list[bytes], bool]:
    """The first elements of an array, each as it is spelled, and whether there are more than `most`.

    Raises what msgspec raises for a text that is no array: MsgspecError, RecursionError.
    """
    if text.count(b",") < max(most, _FEW):
        every = _ELEMENTS.decode(text)
        return list(map(bytes, every[:most])), len(every) > most
    size = next((size for size in _SIZES if size > most), most + 1)
    found = msgspec.structs.astuple(_first(size).decode(text))
    # An element has at least one byte, so what is empty was not there.
    kept = [element for element in found[: most + 1] if element]
    return list(map(bytes, kept[:most])), len(kept) > most


@cache
def _first(count: int) -> msgspec.json.Decoder[Any]:
    """Reads the first elements and skips the others (0.1 s to make for 10,000, so only once needed)."""
    fields = [(f"e{number}", msgspec.Raw, _ABSENT) for number in range(count)]
    return msgspec.json.Decoder(msgspec.defstruct("First", fields, array_like=True))
