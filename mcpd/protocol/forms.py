"""Forms that servers ask people to fill in: flat schemas, their defaults, and whether content fits (5.12).

A field of a shape that nobody specified is let through, as long as its value is of a kind that content
may have: the schema is a server's word to a person, and its server checks what comes back.
"""

from __future__ import annotations

import datetime
import math
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

#: Fields of one form, and choices of one field.
FIELDS = 100
CHOICES = 1000

Kind = Literal["string", "number", "integer", "boolean", "choice", "choices", "other"]


class Field(msgspec.Struct, frozen=True):
    """One property of a form."""

    kind: Kind
    title: str
    schema: dict[str, Any]
    choices: tuple[Any, ...] = ()
    """The values to choose from, of `choice` and `choices`."""


class Form(msgspec.Struct, frozen=True):
    fields: dict[str, Field]
    required: tuple[str, ...]

    def filled(self, content: dict[str, Any]) -> dict[str, Any]:
        """The content with the defaults of what was left out; null counts as left out (SEP-1034)."""
        given = {name: value for name, value in content.items() if value is not None}
        for name, field in self.fields.items():
            if name not in given and "default" in field.schema:
                default = field.schema["default"]
                if not _problem(field, default):
                    given[name] = default
        return given

    def problem(self, content: dict[str, Any]) -> str:
        """Why the content is no answer to this form, in words without its values; empty if it is one."""
        for name in self.required:
            if name not in content:
                return f"the field {name[:60]!r} is missing"
        for name, value in content.items():
            field = self.fields.get(name)
            if field is None:
                return f"there is no field {name[:60]!r}"
            if said := _problem(field, value):
                return f"the field {name[:60]!r} {said}"
        return ""


def read(schema: object) -> Form:
    """Read a `requestedSchema`. Raises ValueError, in words, for what is no form."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise ValueError("requestedSchema is no schema of an object")
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or not all(isinstance(item, dict) for item in properties.values()):
        raise ValueError("requestedSchema has no proper properties")
    if len(properties) > FIELDS:
        raise ValueError(f"a form has at most {FIELDS} fields")
    required = schema.get("required", [])
    if not isinstance(required, list):
        raise ValueError("required is no list")
    fields = {name: _field(item) for name, item in properties.items()}
    return Form(fields, tuple(name for name in required if isinstance(name, str) and name in fields))


def _field(schema: dict[str, Any]) -> Field:
    title = schema.get("title")
    title = title if isinstance(title, str) else ""
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        choices = _choices(items) if isinstance(items, dict) else ()
        return Field("choices" if choices else "other", title, schema, choices)
    choices = _choices(schema)
    if choices:
        return Field("choice", title, schema, choices)
    match kind:
        case "string" | "number" | "integer" | "boolean":
            return Field(kind, title, schema)
    return Field("other", title, schema)


def _choices(schema: dict[str, Any]) -> tuple[Any, ...]:
    plain = schema.get("enum")
    if isinstance(plain, list):
        return tuple(plain[:CHOICES])
    for word in ("oneOf", "anyOf"):
        titled = schema.get(word)
        if isinstance(titled, list) and titled and all(isinstance(t, dict) and "const" in t for t in titled):
            return tuple(each["const"] for each in titled[:CHOICES])
    return ()


def _problem(field: Field, value: object) -> str:
    schema = field.schema
    match field.kind:
        case "string":
            return _text_problem(schema, value) if isinstance(value, str) else "must be a text"
        case "boolean":
            return "" if isinstance(value, bool) else "must be true or false"
        case "number" | "integer":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return "must be a number"
            if not math.isfinite(value):
                return "must be a number"
            if field.kind == "integer" and value != int(value):
                return "must be a whole number"
            return _range_problem(schema, "imum", value, "must be at {} {}")
        case "choice":
            return "" if _is_among(value, field.choices) else "must be one of its choices"
        case "choices":
            if not isinstance(value, list) or not all(_is_among(each, field.choices) for each in value):
                return "must be a list of its choices"
            return _range_problem(schema, "Items", len(value), "must have at {} {} choices")
    if isinstance(value, str | int | float) or _is_texts(value):
        return ""
    return "must be a text, a number, true, false or a list of texts"


def _is_among(value: object, choices: tuple[Any, ...]) -> bool:
    # For Python 1 == True; for JSON they are different values.
    return any(type(value) is type(choice) and value == choice for choice in choices)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _text_problem(schema: dict[str, Any], value: str) -> str:
    if said := _range_problem(schema, "Length", len(value), "must have at {} {} characters"):
        return said
    match schema.get("format"):
        case "email":
            name, at, host = value.rpartition("@")
            return "" if at and name and host and " " not in value else "must be an e-mail address"
        case "uri":
            return "" if _is_uri(value) else "must be an address with a scheme"
        case "date":
            return "" if _reads(datetime.date.fromisoformat, value) else "must be a date like 2026-07-28"
        case "date-time":
            fits = "t" in value.lower() and _reads(datetime.datetime.fromisoformat, value.upper())
            return "" if fits else "must be a time like 2026-07-28T12:00:00Z"
    return ""


def _is_uri(value: str) -> bool:
    try:
        return bool(urlsplit(value).scheme) and " " not in value
    except ValueError:
        return False


def _reads(read: Any, value: str) -> bool:
    try:
        read(value)
    except ValueError:
        return False
    return True


def _range_problem(schema: dict[str, Any], word: str, size: float, words: str) -> str:
    least, most = schema.get("min" + word), schema.get("max" + word)
    if isinstance(least, int | float) and size < least:
        return words.format("least", least)
    if isinstance(most, int | float) and size > most:
        return words.format("most", most)
    return ""
