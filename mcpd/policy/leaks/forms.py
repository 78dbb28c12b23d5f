"""The forms in which a held value is looked for: as it is, escaped, percent-encoded, in hex, in base64.

Of base64 only the characters that depend on the value alone are looked for, at each of the three places
where a value can begin in a group of three bytes: so `user:VALUE` in a Basic header is found and a value
in the middle of a longer text.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus

#: What JavaScript's encodeURIComponent leaves as it is beside letters, digits and "-_.~" (ECMA-262).
_COMPONENT = "!*'()"


class Form(NamedTuple):
    name: str
    pattern: bytes


def forms(value: str) -> tuple[Form, ...]:
    """Each different way to write the value, the plain one first."""
    found: dict[bytes, Form] = {}
    for form in _written(value):
        found.setdefault(form.pattern, form)
    return tuple(found.values())


def _written(value: str) -> Iterator[Form]:
    raw = value.encode()
    yield Form("raw", raw)
    once = _escaped(value)
    yield from (Form("json", each.encode()) for each in once)
    yield from (Form("json", again.encode()) for each in once for again in _escaped(each))
    for safe in ("", "/", _COMPONENT):
        yield from _percent(quote(value, safe=safe))
    yield from _percent(quote_plus(value))
    yield Form("hex", raw.hex().encode())
    yield Form("hex", raw.hex().upper().encode())
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw)
        # The first and the last character may hold bits of a neighbour.
        fixed = text[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
        yield Form("base64", fixed)
        yield Form("base64url", fixed.translate(bytes.maketrans(b"+/", b"-_")))


def _escaped(value: str) -> tuple[str, ...]:
    """The value in JSON text, as the usual writers put it."""
    plain = json.dumps(value, ensure_ascii=False)[1:-1]
    ascii_only = json.dumps(value)[1:-1]
    slashed = plain.replace("/", "\\/")  # PHP
    html = plain.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")  # Go
    return tuple(dict.fromkeys((plain, ascii_only, slashed, html)))


def _percent(text: str) -> Iterator[Form]:
    yield Form("percent", text.encode())
    parts = text.split("%")
    lower = parts[0] + "".join("%" + part[:2].lower() + part[2:] for part in parts[1:])
    yield Form("percent", lower.encode())
