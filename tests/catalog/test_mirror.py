"""Mirrored arguments, by the rules of 3.3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.catalog.mirror import Mirror, Unmirrorable, mirrored, read_mirrors
from mcpd.catalog.tool import read_tools


def schema(**properties: Any) -> bytes:
    return json.dumps({"type": "object", "properties": properties}).encode()


def annotated(header: Any = "Region", kind: Any = "string", **members: Any) -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header, **members}


def test_arguments_at_any_depth_are_found_in_their_order() -> None:
    text = schema(
        region=annotated(),
        plain={"type": "string"},
        options={"type": "object", "properties": {"limit": annotated("Limit", "integer")}},
        confirm=annotated("X-Confirm", "boolean"),
    )
    assert read_mirrors(text) == (
        (
            Mirror("Region", ("region",), "string"),
            Mirror("Limit", ("options", "limit"), "integer"),
            Mirror("X-Confirm", ("confirm",), "boolean"),
        ),
        "",
    )


@pytest.mark.parametrize(
    "text",
    [
        b'{"type":"object"}',
        b'{"type":"object","properties":{"x-mcp-header":{"type":"string"}}}',
        schema(a={"type": "string", "default": {"x-mcp-header": 5}, "examples": [{"x-mcp-header": ""}]}),
        schema(a={"enum": [{"x-mcp-header": ""}], "const": {"x-mcp-header": ""}}),
        schema(a={"type": "string", "description": "x-mcp-header is not here \\u0041"}),
        b'{"type":"object","properties":[{"x-mcp-header":""}]}',
    ],
)
def test_what_is_no_annotation_asks_for_nothing(text: bytes) -> None:
    assert read_mirrors(text) == ((), "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (schema(a=annotated("")), "no name of a header"),
        (schema(a=annotated(" ")), "no name of a header"),
        (schema(a=annotated("a b")), "no name of a header"),
        (schema(a=annotated("a:b")), "no name of a header"),
        (schema(a=annotated("Région")), "no name of a header"),
        (schema(a=annotated("a\r\nb")), "no name of a header"),
        (schema(a=annotated(5)), "no name of a header"),
        (schema(a=annotated(None)), "no name of a header"),
        (schema(a=annotated(kind="number")), "is no string"),
        (schema(a=annotated(kind="object")), "is no string"),
        (schema(a=annotated(kind="array")), "is no string"),
        (schema(a=annotated(kind="null")), "is no string"),
        (schema(a=annotated(kind=["string", "null"])), "is no string"),
        (schema(a={"x-mcp-header": "A"}), "is no string"),
        (schema(a=annotated("Region"), b=annotated("REGION")), "'a' and 'b'"),
        (json.dumps({"type": "object", "x-mcp-header": "A"}).encode(), "do not lead"),
        *(
            (schema(a={keyword: annotated()}), "do not lead")
            for keyword in ("items", "additionalProperties", "not", "if", "then", "else", "contains")
        ),
        *(
            (schema(a={keyword: [{"type": "null"}, annotated()]}), "do not lead")
            for keyword in ("oneOf", "anyOf", "allOf", "prefixItems", "items")
        ),
        *(
            (schema(a={keyword: {"b": annotated()}}), "do not lead")
            for keyword in ("$defs", "definitions", "patternProperties", "dependentSchemas")
        ),
        (schema(a={"items": {"properties": {"b": annotated()}}}), "do not lead"),
        (b'{"type":"object","properties":{"a":{"type":"string","\\u0078-mcp-header":""}}}', "no name"),
    ],
)
def test_a_broken_rule_makes_the_tool_unusable_over_http(text: bytes, why: str) -> None:
    mirrors, unmirrorable = read_mirrors(text)
    assert mirrors == ()
    assert why in unmirrorable
    assert unmirrorable.isprintable()


REGION = Mirror("Region", ("region",), "string")
LIMIT = Mirror("Limit", ("options", "limit"), "integer")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (b'{"region":"eu-2","sql":"select 1"}', {"Mcp-Param-Region": "eu-2"}),
        (b'{"region":""}', {"Mcp-Param-Region": ""}),
        ('{"region":"Grüße"}'.encode(), {"Mcp-Param-Region": "=?base64?R3LDvMOfZQ==?="}),
        (rb'{"region":"Gr\u00fc\u00dfe"}', {"Mcp-Param-Region": "=?base64?R3LDvMOfZQ==?="}),
        (rb'{"region":"a\r\nX: 1"}', {"Mcp-Param-Region": "=?base64?YQ0KWDogMQ==?="}),
        (b'{"region":null}', {}),
        (b"{}", {}),
        (b'{"region":true}', {"Mcp-Param-Region": "true"}),
        (b'{"region": false }', {"Mcp-Param-Region": "false"}),
        (b'{"options":{"limit":-5}}', {"Mcp-Param-Limit": "-5"}),
        (b'{"options":{"limit":9007199254740991}}', {"Mcp-Param-Limit": "9007199254740991"}),
        (
            b'{"options":{"limit":123456789012345678901234567890}}',
            {"Mcp-Param-Limit": "123456789012345678901234567890"},
        ),
        (b'{"options":{"limit":5.0}}', {"Mcp-Param-Limit": "5"}),
        (b'{"options":{"limit":1e3}}', {"Mcp-Param-Limit": "1000"}),
        (b'{"options":{"limit":1.5}}', {"Mcp-Param-Limit": "1.5"}),
        (b'{"options":{"limit":1e400}}', {"Mcp-Param-Limit": "1e400"}),
        (b'{"options":{"limit":{}}}', {}),
        (b'{"options":{"limit":[1]}}', {}),
        (b'{"options":null}', {}),
        (b'{"options":[]}', {}),
        (b'{"options":"limit"}', {}),
        (b'{"limit":5}', {}),
        (b"", {}),
        (b"null", {}),
    ],
)
def test_the_headers_of_a_call(arguments: bytes, found: dict[str, str]) -> None:
    assert mirrored((REGION, LIMIT), arguments) == found


def test_a_value_too_long_for_a_header_is_said() -> None:
    assert mirrored((REGION,), b'{"region":"' + b"x" * 4096 + b'"}')["Mcp-Param-Region"] == "x" * 4096
    with pytest.raises(Unmirrorable, match="'region' is too long"):
        mirrored((REGION,), b'{"region":"' + b"x" * 4097 + b'"}')


def test_tools_know_what_they_mirror() -> None:
    page = [
        {"name": "query", "inputSchema": json.loads(schema(region=annotated()))},
        {"name": "bad", "inputSchema": json.loads(schema(region=annotated("")))},
        {"name": "plain", "inputSchema": {"type": "object"}},
    ]
    tools, warnings = read_tools([json.dumps(page).encode()])
    assert [(tool.name, tool.mirrors, bool(tool.unmirrorable)) for tool in tools] == [
        ("query", (REGION,), False),
        ("bad", (), True),
        ("plain", (), False),
    ]
    assert warnings == (), "over stdio the annotation means nothing"
