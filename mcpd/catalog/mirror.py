"""Arguments that a call repeats in headers, as the tool's input schema asks by `x-mcp-header` (3.3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from mcpd.protocol import headers

ANNOTATION: Final = "x-mcp-header"

#: Bytes of an argument or a name that go into a header; servers take 8 to 16 KiB of headers in all.
LONGEST: Final = 4096

#: Keywords with one schema, a list of schemas and a map of schemas (JSON Schema 2020-12). What they lead
#: to may not be mirrored; `properties` alone may. Other members hold data, in which nothing is a schema.
_ONE: Final = frozenset(
    {
        *("additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items"),
        *("not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
_MANY: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_NAMED: Final = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"})

Kind = Literal["string", "integer", "boolean"]
_KINDS: Final[dict[str, Kind]] = {"string": "string", "integer": "integer", "boolean": "boolean"}

_Object = dict[str, msgspec.Raw]
_OBJECT: Final = msgspec.json.Decoder(_Object)
_UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)


class Mirror(msgspec.Struct, frozen=True):
    """One argument that is repeated in a header."""

    header: str
    """What follows `Mcp-Param-`."""
    path: tuple[str, ...]
    """Where the argument stands: member by member, from the arguments down."""
    kind: Kind


class Unmirrorable(ValueError):
    """Why a part of a message cannot be mirrored."""


def read_mirrors(schema: bytes) -> tuple[tuple[Mirror, ...], str]:
    """What an input schema wants to be mirrored; or none of it, and why an HTTP client must not offer the
    tool. `schema` is JSON text within the catalogue's limits."""
    if ANNOTATION.encode() not in schema and rb"\u" not in schema:
        return (), ""
    found: dict[str, Mirror] = {}
    try:
        for path, place in _schemas(json.loads(schema)):
            if ANNOTATION in place:
                mirror = _mirror(path, place)
                other = found.setdefault(mirror.header.lower(), mirror)
                if other is not mirror:
                    raise Unmirrorable(
                        f"{_named(other.path)} and {_named(mirror.path)} have one {ANNOTATION}"
                    )
    except Unmirrorable as e:
        return (), str(e)
    except (ValueError, RecursionError):
        return (), "its input schema cannot be read"
    return tuple(found.values()), ""


def _schemas(root: Any) -> Iterator[tuple[tuple[str, ...] | None, dict[str, Any]]]:
    """Every schema in a schema, in its order, with its path; None where that is not of `properties` alone."""
    waiting: list[tuple[tuple[str, ...] | None, Any]] = [((), root)]
    while waiting:
        path, place = waiting.pop()
        if not isinstance(place, dict):
            continue
        yield path, place
        below: list[tuple[tuple[str, ...] | None, Any]] = []
        for key, value in place.items():
            if key == "properties" and isinstance(value, dict):
                below += ((None if path is None else (*path, name), one) for name, one in value.items())
            elif key in _NAMED and isinstance(value, dict):
                below += ((None, one) for one in value.values())
            elif key in _MANY and isinstance(value, list):
                below += ((None, one) for one in value)
            elif key in _ONE:
                below.append((None, value))
        waiting += reversed(below)


def _mirror(path: tuple[str, ...] | None, place: dict[str, Any]) -> Mirror:
    if not path:
        raise Unmirrorable(f"{ANNOTATION} stands where `properties` alone do not lead")
    header, declared = place[ANNOTATION], place.get("type")
    if not isinstance(header, str) or not headers.is_token(header):
        raise Unmirrorable(f"{_named(path)} has an {ANNOTATION} that is no name of a header")
    kind = _KINDS.get(declared) if isinstance(declared, str) else None
    if kind is None:
        raise Unmirrorable(f"{_named(path)} has {ANNOTATION}, but is no string, integer or boolean")
    return Mirror(header, path, kind)


def _named(path: tuple[str, ...]) -> str:
    return ascii(".".join(path)[:100])


def mirrored(mirrors: tuple[Mirror, ...], arguments: bytes) -> dict[str, str]:
    """The headers of a call. `arguments`: JSON text; an absent or null argument has no header, nor has one
    that is no string, number or boolean: the server says what is wrong with it.

    Raises Unmirrorable for a value that is too long for a header.
    """
    found: dict[str, str] = {}
    for mirror in mirrors:
        text = _argument(arguments, mirror.path)
        if text in (b"", b"null") or text[:1] in (b"{", b"["):
            continue
        value = headers.encode(_value(text))
        found[headers.PARAM + mirror.header] = fitting(value, f"the argument {_named(mirror.path)}")
    return found


def fitting(value: str, what: str) -> str:
    """A header's value. Raises Unmirrorable for one that servers would not take, in words about `what`."""
    if len(value) > LONGEST:
        raise Unmirrorable(f"{what} is too long for a header")
    return value


def _argument(arguments: bytes, path: tuple[str, ...]) -> bytes:
    """The JSON text of the value at the path; empty where there is none."""
    text = arguments
    for name in path:
        try:
            text = bytes(_OBJECT.decode(text).get(name, b""))
        except _UNREADABLE:
            return b""
    return text


def _value(text: bytes) -> str:
    """A string's characters; the text of everything else, an integral number in plain decimals."""
    if text[:1] == b'"':
        return str(json.loads(text))
    plain = text.decode()
    if plain.lstrip("-").isdigit() or plain in ("true", "false"):
        return plain
    number = float(plain)
    return f"{number:.0f}" if number.is_integer() and abs(number) < 2**53 else plain
