"""Roots of schemas: mended where the meaning is plain (protocol reference 5.2, 7.1, 7.2)."""

from __future__ import annotations

import json

import pytest

from mcpd.catalog.schema import free_schema, object_schema


@pytest.mark.parametrize(
    "text",
    [
        b'{"type":"object"}',
        b'{ "type" : "object", "properties": {"a": {"type": "number", "maximum": 1.50}} , "required":["a"]}',
        b'{"type":"object","anyOf":[{"properties":{"x":true}}],"$schema":"http://json-schema.org/draft-07/schema#"}',
        b'{"type":"object","properties":{"child":{"$ref":"#"}},"$defs":{"N":{"$ref":"#/$defs/N"}}}',
        b'{"type":"object","properties":{},"additionalProperties":false,"x-own":null}',
    ],
)
def test_a_plain_schema_stays_byte_for_byte(text: bytes) -> None:
    assert object_schema(text) == (text, ())


@pytest.mark.parametrize(
    ("text", "mended", "said"),
    [
        ({}, {"type": "object"}, True),
        ({"$schema": "s"}, {"type": "object", "$schema": "s"}, True),
        ({"type": None}, {"type": "object"}, True),
        ({"type": ["object", "null"]}, {"type": "object"}, True),
        ({"anyOf": [{"type": "object"}]}, {"type": "object", "anyOf": [{"type": "object"}]}, True),
        # Servers written in Go say null for an empty list or map.
        ({"type": "object", "properties": None, "required": None}, {"type": "object"}, False),
        ({"type": "object", "required": True}, {"type": "object"}, True),
        ({"type": "object", "required": ["a", 1]}, {"type": "object"}, True),
        ({"type": "object", "$schema": 7}, {"type": "object"}, True),
        ({"type": "object", "properties": []}, {"type": "object"}, True),
        (
            {"type": "object", "properties": {"a": True, "b": False, "c": None, "d": {"type": "null"}}},
            {"type": "object", "properties": {"a": {}, "b": {"not": {}}, "c": {}, "d": {"type": "null"}}},
            True,
        ),
    ],
)
def test_a_schema_is_mended(text: object, mended: object, said: bool) -> None:
    found, notes = object_schema(json.dumps(text).encode())
    assert json.loads(found) == mended
    assert bool(notes) == said


def test_what_is_not_mended_keeps_its_spelling() -> None:
    found, _ = object_schema(rb'{"properties":{"a":{"maximum":1.50e+1,"title":"\u00e9\/"}}}')
    assert found == rb'{"type":"object","properties":{"a":{"maximum":1.50e+1,"title":"\u00e9\/"}}}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"true", "no object"),
        (b"[]", "no object"),
        (b'"object"', "no object"),
        (b'{"type":"string"}', "of a type other"),
        (b'{"type":["string","null"]}', "of a type other"),
        (b'{"type":{}}', "of a type other"),
        (b'{"type":7}', "of a type other"),
    ],
)
def test_a_schema_for_something_else_is_refused(text: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        object_schema(text)


@pytest.mark.parametrize(
    ("text", "free", "plain"),
    [
        (b'{"type":"array", "items":{}}', b'{"type":"array", "items":{}}', False),
        (b'{"$id":"x.v1"}', b'{"$id":"x.v1"}', False),
        (b'{"type":"object", "a":1}', b'{"type":"object", "a":1}', True),
        (b'{"$schema":null,"type":"array"}', b'{"type":"array"}', False),
    ],
)
def test_an_output_schema_may_have_any_root(text: bytes, free: bytes, plain: bool) -> None:
    assert free_schema(text) == (free, plain)
