"""What a person types as arguments of a call, as JSON text (b29)."""

from __future__ import annotations

import json
import sys

from mcpctl.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def guessed(words: list[str], text: str) -> bool:
    """Whether a value of KEY=VALUE was taken for something else than a string: its schema may know better."""
    by_name = words != ["-"] and not is_object(words)
    return by_name and not all(isinstance(value, str) for value in json.loads(text).values())


def is_object(words: list[str]) -> bool:
    return len(words) == 1 and words[0].lstrip()[:1] == "{"


def wants_text(schema: object, value: object) -> bool:
    """Whether a JSON schema allows strings and not the type that `value` has."""
    allowed = types_of(schema)
    return "string" in allowed and not allowed & types_as(value)


def types_of(schema: object) -> set[str]:
    """The names of types that a schema allows, as far as it says them outright."""
    if not isinstance(schema, dict):
        return set()
    said = schema.get("type")
    found = {name for name in (said if isinstance(said, list) else [said]) if isinstance(name, str)}
    for word in ("anyOf", "oneOf"):
        choices = schema.get(word)
        found.update(*map(types_of, choices if isinstance(choices, list) else ()))
    return found


def types_as(value: object) -> set[str]:
    """The names by which a schema may mean the type of a decoded value."""
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, (int, float)):
        return {"number", "integer"}
    return {"object" if isinstance(value, dict) else "array" if isinstance(value, list) else "null"}


def arguments_text(words: list[str], schemas: Mapping[str, Any] | None = None) -> str:
    """The arguments as JSON text on one line: what was written, not what it decodes to (b29).

    `schemas`, by name, say which values of KEY=VALUE are text although they read as something else.
    Raises CallError `usage`.
    """
    schemas = schemas or {}
    if words == ["-"]:
        return json_object(sys.stdin.buffer.read() if sys.stdin else b"")
    if is_object(words):
        return json_object(words[0].encode("utf-8", "surrogateescape"))
    members: dict[str, str] = {}
    for word in words:
        name, equals, value = readable(word).partition("=")
        if not equals or not name:
            raise CallError("usage", f'cannot read "{word}": neither KEY=VALUE nor one JSON object')
        if name in members:
            raise CallError("usage", f'"{name}" is given twice')
        members[name] = json_value(value, schemas.get(name))
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members.items()) + "}"


def readable(word: str) -> str:
    """`word`, which can be written in JSON. Raises CallError `usage` where it is not UTF-8."""
    try:
        word.encode()
    except UnicodeEncodeError:
        shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise CallError("usage", f'cannot use "{shown}": it is not valid UTF-8') from None
    return word


def json_object(data: bytes) -> str:
    """JSON text of an object, on one line. What the daemon would refuse is said here in the writer's words.

    Raises CallError `usage`.
    """
    try:
        text = data.decode("utf-8")
        decoded = decode(text)
    except UnicodeDecodeError:
        raise CallError("usage", "cannot read the arguments: they are not valid UTF-8") from None
    except UnicodeEncodeError:
        raise CallError("usage", "cannot use the arguments: a surrogate stands alone in a string") from None
    except RecursionError:
        raise CallError("usage", "cannot read the arguments: they are nested too deeply") from None
    except ValueError as error:
        raise CallError("usage", f"cannot read the arguments as JSON: {error}") from None
    if not isinstance(decoded, dict):
        raise CallError("usage", "cannot use the arguments: they must be a JSON object")
    return one_line(text)


def json_value(text: str, schema: object = None) -> str:
    """`text` itself where it is JSON, else, or where the schema asks for one, `text` as a JSON string.

    Raises CallError `usage` for a number of which most readers would make infinity.
    """
    try:
        value = decode(text)
    except (ValueError, RecursionError):
        return json.dumps(text)
    if not isinstance(value, str) and wants_text(schema, value):
        return json.dumps(text)
    if isinstance(value, float) and abs(value) == float("inf"):
        raise CallError("usage", f'cannot use "{text}": too large for a number', f"as text: '\"{text}\"'")
    return one_line(text)


def decode(text: str) -> Any:
    """Raises ValueError, RecursionError; UnicodeEncodeError for surrogates without their other half."""
    value = json.loads(text, parse_constant=_no_constant)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def one_line(text: str) -> str:
    # Valid JSON has bare line ends between tokens only.
    return text.strip().replace("\r", " ").replace("\n", " ")
