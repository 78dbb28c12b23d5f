"""Arguments as a person types them: the very text that was written (b29)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpctl.arguments import arguments_text
from mcpctl.errors import CallError


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "{}"),
        (
            ['{"a": 1.00, "b":1e400, "c":"\\u00e4\\ud83d\\ude00"}'],
            '{"a": 1.00, "b":1e400, "c":"\\u00e4\\ud83d\\ude00"}',
        ),
        (['{"a":\n 1,\r\n"a": 2}'], '{"a":  1,  "a": 2}'),
        (["a=1"], '{"a":1}'),
        (["a=1.00", "b=12345678901234567890.50"], '{"a":1.00,"b":12345678901234567890.50}'),
        (["a=text", "b=a b=c", "c="], '{"a":"text","b":"a b=c","c":""}'),
        (
            ['a="1"', "b=true", "c=null", "d=[1, 2]", 'e={"x":1}'],
            '{"a":"1","b":true,"c":null,"d":[1, 2],"e":{"x":1}}',
        ),
        (["a=NaN", "b=Infinity", "c=-Infinity"], '{"a":"NaN","b":"Infinity","c":"-Infinity"}'),
        (["a=01", "b=1 2", "c='x'"], '{"a":"01","b":"1 2","c":"\'x\'"}'),
        (['ä"=ü'], '{"\\u00e4\\"":"\\u00fc"}'),
        (["a= [1,\n2] "], '{"a":[1, 2]}'),
    ],
)
def test_arguments(words: list[str], text: str) -> None:
    assert arguments_text(words) == text


@pytest.mark.parametrize(
    "words",
    [
        ["x"],
        ["=1"],
        ["a=1", "a=1"],
        ["[1]"],
        ["{"],
        ['{"a":1}', "b=1"],
        ['{"a":"\n"}'],
        ["{\udcff"],
        ["{" + '"a":{' * 100_000],
        ['{"a":NaN}'],
        ['{"a":[-Infinity]}'],
        ['{"a":"\\ud800"}'],
        ['{"\\udc00\\ud800":1}'],
        ["a=\udcff\udcfe"],
        ["\udcff=a"],
        ["a=1e400"],
        ["a=-1e400"],
    ],
)
def test_what_is_no_arguments(words: list[str]) -> None:
    """What a server could not read, or read in two ways (b29), is the caller's to mend: exit code 2."""
    with pytest.raises(CallError) as caught:
        arguments_text(words)
    assert caught.value.exit_code == 2
    assert "position" not in caught.value.message, "no bytes of the wire"


STRING: dict[str, Any] = {"type": "string"}


@pytest.mark.parametrize(
    ("word", "schema", "text"),
    [
        ("2024", STRING, '"2024"'),
        ("1.50", STRING, '"1.50"'),
        ("1e400", STRING, '"1e400"'),
        ("true", STRING, '"true"'),
        ("null", STRING, '"null"'),
        ("[1]", STRING, '"[1]"'),
        ('{"x":1}', STRING, '"{\\"x\\":1}"'),
        ('"x"', STRING, '"x"'),
        ("x", STRING, '"x"'),
        ("2024", {"type": "integer"}, "2024"),
        ("2024", {"type": ["string", "null"]}, '"2024"'),
        ("null", {"type": ["string", "null"]}, "null"),
        ("2024", {"type": ["number", "string"]}, "2024"),
        ("2024", {"anyOf": [STRING, {"type": "null"}]}, '"2024"'),
        ("null", {"anyOf": [STRING, {"type": "null"}]}, "null"),
        ("2024", {"oneOf": [STRING, {"type": "integer"}]}, "2024"),
        ("2024", {}, "2024"),
        ("2024", None, "2024"),
        ("2024", {"type": 7, "anyOf": 7}, "2024"),
        ("2024", [STRING], "2024"),
        ("true", {"type": "integer"}, "true"),
    ],
)
def test_a_schema_knows_text_from_numbers(word: str, schema: Any, text: str) -> None:
    """Types of JSON Schema: validation, 6.1.1. What it does not say outright stays a guess."""
    assert arguments_text([f"a={word}"], {"a": schema}) == f'{{"a":{text}}}'
