"""What has changed in a JSON Schema, each difference in its class (n09).

text: strings that a model reads. shape: what calls must look like. cosmetic: neither.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from mcpd.policy.phrases import find as phrases

Class = Literal["text", "loosened", "shape", "tightened", "cosmetic"]


class Change(msgspec.Struct, frozen=True):
    """One difference between a definition that was seen and the one that is there now."""

    kind: Class
    where: str
    """Such as "inputSchema.properties.path.description"."""
    before: str
    """The text, or the JSON text of what is none; empty for absent."""
    after: str


#: Keywords whose value maps names to schemas.
NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
#: Keywords whose value is a schema, or a list of them.
_NESTED: Final = frozenset(
    {"items", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems", "unevaluatedItems"}
    | {"contentSchema", "anyOf", "oneOf", "allOf", "prefixItems"}
)
#: Whether more members are let in: programs change it by themselves.
_OPEN: Final = frozenset({"additionalProperties", "unevaluatedProperties"})
#: Keywords with one word as value, which no sentence fits into.
_WORD: Final = frozenset(
    {"format", "pattern", "$ref", "$id", "$anchor", "$dynamicRef", "contentEncoding", "contentMediaType"}
)
#: Keywords with numbers and switches, and what each means where it is absent.
_BOUNDS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("minLength", "minItems", "minProperties", "minContains"), 0),
    **dict.fromkeys(("uniqueItems", "nullable", "readOnly", "writeOnly", "deprecated"), False),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    **dict.fromkeys(("maxLength", "maxItems", "maxProperties", "maxContains")),
}
#: What may hold schemas in its turn.
_HOLDING: Final = NAMED | _NESTED | _OPEN
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_ONE_WORD: Final = re.compile(r"\S{0,200}")
#: A default that says no more than a value: a word, no sentence.
_VALUE: Final = re.compile(r"[\w.:/+@-]{0,32}")


def differences(where: str, old: Any, new: Any, name: str = "") -> Iterator[Change]:
    """The differences of two schemas, None for none; `name` is what the schema is of, for its titles."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _within(where, old, new, name)
    elif not _same(old, new):
        yield from _replaced(where, old, new)


def _within(where: str, old: dict[str, Any], new: dict[str, Any], name: str) -> Iterator[Change]:
    """Of what may hold further schemas nothing is compared as a whole: with each level of nesting the same
    text would be read once more."""
    for key in (*old, *(key for key in new if key not in old)):
        before, after = old.get(key), new.get(key)
        if key == "$schema":
            continue
        both = (key in old) == (key in new)
        if (both and _deeper(key, before, after)) or not (both and _same(before, after)):
            yield from _keyword(inside(where, key), key, before, after, name)


def _deeper(key: str, old: Any, new: Any) -> bool:
    """Whether a keyword's values are compared piece by piece."""
    kinds = (dict, list) if key in _NESTED else (dict,)
    return key in _HOLDING and any(isinstance(old, kind) and isinstance(new, kind) for kind in kinds)


def _keyword(where: str, key: str, old: Any, new: Any, name: str) -> Iterator[Change]:
    if key in NAMED:
        before, after = (each if isinstance(each, dict) else {} for each in (old, new))
        for each in (*before, *(each for each in after if each not in before)):
            yield from differences(inside(where, each), before.get(each), after.get(each), each)
    elif key in _OPEN and isinstance(old, dict) and isinstance(new, dict):
        found = list(_within(where, old, new, ""))
        if found:
            yield Change("cosmetic", where, "", "")
        yield from found
    elif key in _OPEN:
        yield changed("cosmetic", where, old, new)
        if isinstance(old, dict) or isinstance(new, dict):
            before, after = (each if isinstance(each, dict) else {} for each in (old, new))
            yield from differences(where, before, after)
    elif key in _NESTED:
        yield from _nested(where, old, new, name)
    elif key == "title":
        derived = all(each is None or _derived(each, name) for each in (old, new))
        yield changed("cosmetic" if derived else "text", where, old, new)
    elif key == "required":
        names = [set(map(str, each)) if isinstance(each, list) else set() for each in (old, new)]
        yield changed("cosmetic" if names[0] == names[1] else "shape", where, old, new)
    elif key == "type":
        known = all(set(_listed(each)) <= _TYPES for each in (old, new))
        yield changed("shape" if known else "text", where, old, new)
    elif key in _WORD:
        words = all(_ONE_WORD.fullmatch(text) for text in strings([old, new]))
        yield changed("shape" if words else "text", where, old, new)
    elif key in _BOUNDS:
        said = any(strings([old, new]))
        absent = _BOUNDS[key]
        same = absent is not None and None in (old, new) and any(_same(each, absent) for each in (old, new))
        yield changed("text" if said else "cosmetic" if same else "shape", where, old, new)
    elif key == "default":
        spelled_out = old is None and all(_VALUE.fullmatch(text) for text in strings(new))
        value = spelled_out or not any(strings([old, new]))
        yield changed("cosmetic" if value else "text", where, old, new)
    elif key in ("enum", "const"):
        moved = (
            isinstance(old, list)
            and isinstance(new, list)
            and len(old) == len(new)
            and Counter(map(_spelled, old)) == Counter(map(_spelled, new))
        )
        said = any(strings([old, new]))
        yield changed("cosmetic" if moved else "text" if said else "shape", where, old, new)
    else:
        said = any(strings([old, new])) or not _VALUE.fullmatch(key)
        yield changed("text" if said else "cosmetic", where, old, new)


def _nested(where: str, old: Any, new: Any, name: str) -> Iterator[Change]:
    if not isinstance(old, list) or not isinstance(new, list):
        yield from differences(where, old, new, name)
        return
    for at in range(max(len(old), len(new))):
        before, after = (each[at] if at < len(each) else None for each in (old, new))
        yield from differences(inside(where, str(at)), before, after, name)


def _replaced(where: str, old: Any, new: Any) -> Iterator[Change]:
    """A schema that came, went or became something else: another shape. What comes with one and gives orders
    is text as well."""
    yield changed("shape", where, old, new)
    said = " \n\n".join(strings(new))
    if said and phrases.find(phrases.folded(said)):
        yield changed("text", where, old, new)


def inside(where: str, key: str) -> str:
    """The place of a member. A server chooses how long names are, and how deep: what is left out is the
    middle of a name, and the beginning of a long way."""
    key = key if len(key) <= _KEY else f"{key[: _KEY - 20]}...{key[-17:]}"
    way = f"{where}.{key}"
    return way if len(way) <= _WAY else f"...{way[3 - _WAY :]}"


#: Characters of one name and of a whole way in `Change.where`.
_KEY: Final = 100
_WAY: Final = 400


def changed(kind: Class, where: str, before: Any, after: Any) -> Change:
    return Change(kind, where, shown(before), shown(after))


def shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def strings(value: Any) -> Iterator[str]:
    """All strings in a value, names of members included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON values; Python holds 1 and True for equal."""
    return bool(one == other) and _spelled(one) == _spelled(other)


def _spelled(value: Any) -> str | tuple[type, Any]:
    """What is the same for equal JSON values alone; a schema may have 10,000, mostly plain ones."""
    return _text(value) if isinstance(value, dict | list) else (type(value), value)


_text: Final = json.JSONEncoder(sort_keys=True).encode


def _listed(declared: Any) -> list[str]:
    if declared is None:
        return []
    return [str(each) for each in declared] if isinstance(declared, list) else [str(declared)]


def _derived(title: Any, name: str) -> bool:
    """Whether a title is the name once more, as libraries make them ("Max Results", "addArguments")."""
    if not isinstance(title, str):
        return False
    plain, of = (re.sub(r"[\W_]+", "", each).casefold() for each in (title, name))
    return plain in (of, f"{of}arguments", f"{of}output", f"{of}result", f"{of}response")
