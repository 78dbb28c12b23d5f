"""What a person has seen of a definition, and what has changed in it since (n09).

A pin is a digest over canonical text, so that the order of keys, `$schema`, escapes and white space never ask
anybody anything. What differs is put into classes; which of them wait for a person depends on trust
(search-and-leaks reference 3.2).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from mcpd.catalog.tool import Annotations
from mcpd.policy.schemas import NAMED, Change, Class, changed, differences, inside, shown, strings

Kind = Literal["tool", "prompt", "template", "instructions"]

#: What of each kind is pinned. Icons and `_meta` are for programs and change without meaning.
_MEMBERS: Final[dict[Kind, frozenset[str]]] = {
    "tool": frozenset(
        {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"}
    ),
    "prompt": frozenset({"name", "title", "description", "arguments"}),
    "template": frozenset({"uriTemplate", "name", "title", "description", "mimeType", "annotations"}),
    "instructions": frozenset({"instructions"}),
}

#: From the mildest to the strictest reading of a hint; None is: not said.
_STRICTER: Final[dict[str, tuple[bool | None, ...]]] = {
    "readOnlyHint": (True, None, False),
    "destructiveHint": (False, None, True),
    "openWorldHint": (False, None, True),
    "idempotentHint": (True, None, False),
}


def read(entry: bytes) -> Any:
    """The value of JSON text, also where it has lone surrogates; 1.0 is 1. Raises ValueError."""
    try:
        return json.loads(entry, parse_float=_number, parse_int=_integer)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _integer(text: str) -> int | str:
    """Python reads no number of more than 4,300 digits."""
    return int(text) if len(text) < 1000 else text


def instructions_entry(text: str) -> bytes:
    """A server's instructions as a definition."""
    return msgspec.json.encode({"instructions": text})


def canonical(kind: Kind, entry: bytes) -> bytes:
    """The pinned members in one spelling. Text that cannot be read stands for itself."""
    try:
        value = _pinned(kind, read(entry))
    except ValueError:
        return entry
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest(kind: Kind, entry: bytes) -> str:
    """The pin of a definition: a hexadecimal SHA-256."""
    return hashlib.sha256(canonical(kind, entry)).hexdigest()


def _pinned(kind: Kind, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kept = {key: each for key, each in value.items() if key in _MEMBERS[kind]}
    for key in ("inputSchema", "outputSchema"):
        if key in kept:
            kept[key] = _without_dialect(kept[key])
    return kept


def _without_dialect(schema: Any, *, named: bool = False) -> Any:
    """A schema without `$schema`; `named`: its keys are names that the server has given."""
    if isinstance(schema, dict):
        return {
            key: value
            if not named and key in _VALUES
            else _without_dialect(value, named=not named and key in NAMED)
            for key, value in schema.items()
            if named or key != "$schema"
        }
    if isinstance(schema, list):
        return [_without_dialect(each) for each in schema]
    return schema


_VALUES: Final = frozenset({"default", "const", "enum", "examples"})


def compare(kind: Kind, before: bytes, after: bytes) -> tuple[Change, ...]:
    """What has changed between two definitions of one name; empty where their pins are equal."""
    if canonical(kind, before) == canonical(kind, after):
        return ()
    try:
        old, new = _pinned(kind, read(before)), _pinned(kind, read(after))
    except ValueError:
        return (Change("text", "", shown(before.decode("utf-8", "replace")), ""),)
    if not isinstance(old, dict) or not isinstance(new, dict):
        return (changed("text", "", old, new),)
    found = list(_COMPARE[kind](old, new))
    if len(found) > MOST:
        rest = classes(found[MOST:])
        kept = classes(found[:MOST])
        # What is not told one by one is told as a whole, in each class that would be missing else.
        missing = [each for each in rest if each not in kept] or rest[:1]
        found[MOST:] = [changed(each, "", old, new) for each in missing]
    # What no rule sees differs in spelling alone: 1 and 1.0.
    return tuple(found) or (Change("cosmetic", "", "", ""),)


#: Differences of one definition that are told one by one: 64 KiB have room for 10,000, each with its place.
MOST: Final = 200


def _compare_tools(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    yield from _texts(old, new, ("name", "title", "description"))
    for key in ("inputSchema", "outputSchema"):
        yield from differences(key, old.get(key), new.get(key), str(new.get("name", "")))
    yield from _compare_hints(old.get("annotations"), new.get("annotations"))
    if old.get("execution") != new.get("execution"):
        same = _support(old) == _support(new)
        yield changed(
            "cosmetic" if same else "shape", "execution", old.get("execution"), new.get("execution")
        )


def _support(tool: dict[str, Any]) -> Any:
    execution = tool.get("execution")
    return execution.get("taskSupport", "forbidden") if isinstance(execution, dict) else "forbidden"


def _compare_hints(old: Any, new: Any) -> Iterable[Change]:
    old, new = (each if isinstance(each, dict) else {} for each in (old, new))
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key), new.get(key)
        if before == after and type(before) is type(after):
            continue
        where = inside("annotations", key)
        order = _STRICTER.get(key)
        if order is not None and before in order and after in order:
            milder = order.index(after) < order.index(before)
            yield changed("loosened" if milder else "tightened", where, before, after)
        else:
            said = any(strings(before)) or any(strings(after))
            yield changed("text" if said else "cosmetic", where, before, after)


def _compare_prompts(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    yield from _texts(old, new, ("name", "title", "description"))
    before, after = (_by_name(each.get("arguments")) for each in (old, new))
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name), after.get(name)
        where = inside("arguments", name)
        if one is None or other is None:
            yield from differences(where, one, other, name)
            continue
        yield from _texts(one, other, ("title", "description"), where)
        if bool(one.get("required")) != bool(other.get("required")):
            yield changed("shape", f"{where}.required", one.get("required"), other.get("required"))
        for key in sorted((one.keys() | other.keys()) - {"name", "title", "description", "required"}):
            if one.get(key) != other.get(key):
                said = any(strings([one.get(key), other.get(key)]))
                place = inside(where, key)
                yield changed("text" if said else "cosmetic", place, one.get(key), other.get(key))


def _by_name(arguments: Any) -> dict[str, dict[str, Any]]:
    listed = arguments if isinstance(arguments, list) else []
    return {str(each.get("name", "")): each for each in listed if isinstance(each, dict)}


def _compare_templates(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    yield from _texts(old, new, ("uriTemplate", "name", "title", "description"))
    if old.get("mimeType") != new.get("mimeType"):
        yield changed("shape", "mimeType", old.get("mimeType"), new.get("mimeType"))
    if old.get("annotations") != new.get("annotations"):
        yield changed("cosmetic", "annotations", old.get("annotations"), new.get("annotations"))


def _compare_instructions(old: dict[str, Any], new: dict[str, Any]) -> Iterable[Change]:
    return _texts(old, new, ("instructions",))


def _texts(
    old: dict[str, Any], new: dict[str, Any], keys: Iterable[str], where: str = ""
) -> Iterable[Change]:
    for key in keys:
        before, after = old.get(key), new.get(key)
        if before != after:
            # Nothing said in two ways: no text, and an empty one.
            nothing = not before and not after
            place = f"{where}.{key}" if where else key
            yield changed("cosmetic" if nothing else "text", place, before, after)


_COMPARE: Final = {
    "tool": _compare_tools,
    "prompt": _compare_prompts,
    "template": _compare_templates,
    "instructions": _compare_instructions,
}

#: What waits for a person. For a trusted server another shape is noted; the agent sees it, and the server is
#: the judge of arguments (b29).
_HELD: Final[frozenset[Class]] = frozenset({"text", "loosened", "shape"})
_HELD_TRUSTED: Final[frozenset[Class]] = frozenset({"text", "loosened"})


def classes(changes: Iterable[Change]) -> tuple[Class, ...]:
    """Those that the changes are of, each once, the gravest first."""
    found = {change.kind for change in changes}
    order: tuple[Class, ...] = ("text", "loosened", "shape", "tightened", "cosmetic")
    return tuple(each for each in order if each in found)


def held(changes: Iterable[Change], *, trusted: bool) -> bool:
    """Whether a definition with these changes waits for a person."""
    return not (_HELD_TRUSTED if trusted else _HELD).isdisjoint(classes(changes))


def usable(changes: Iterable[Change]) -> bool:
    """Whether calls that were made for the definition as it was still fit the server."""
    return "shape" not in classes(changes)


def strictest(one: Annotations, other: Annotations) -> Annotations:
    """Of each hint the stricter of what two definitions say (D4)."""
    stricter = {
        name: max(getattr(one, name), getattr(other, name), key=_STRICTER[hint].index)
        for name, hint in _HINTS.items()
    }
    return Annotations(**stricter)


_HINTS: Final = dict(zip(Annotations.__struct_fields__, Annotations.__struct_encode_fields__, strict=True))
