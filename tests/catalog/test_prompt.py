"""Reading prompts: tolerant, bounded, and acceptable to every client (b24, 5.4)."""

from __future__ import annotations

import json
from typing import Any

import mcp_types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.prompt import Argument, Prompt, read_prompts


def read(*prompts: Any) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """What agents see, by name, and the warnings."""
    found, warnings = read_prompts([json.dumps(prompts).encode()])
    return {prompt.name: json.loads(prompt.entry(prompt.name)) for prompt in found}, warnings


def test_an_entry_stays_the_same_text_but_for_its_name() -> None:
    rest = rb'"description":"\u00e9","arguments":[{"name":"a", "required":true},{"name":"b","x":1.0}],"x":[]'
    [prompt], warnings = read_prompts([b'{"name":"p",' + rest + b"}"])
    assert prompt == Prompt("p", rest, (Argument("a", True), Argument("b")))
    assert prompt.entry("s__p") == b'{"name":"s__p",' + rest + b"}"
    assert not warnings


def test_a_prompt_may_be_a_name_alone() -> None:
    [prompt], _ = read_prompts([b'[{"name":"p"}]'])
    assert prompt.entry("s__p") == b'{"name":"s__p"}'


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (7, "Expected `object`"),
        ({}, "name"),
        ({"name": None}, "name"),
        ({"name": 7}, "name"),
        ({"name": ""}, "empty"),
        ({"name": "a\nb"}, "control"),
        ({"name": "L" * 257}, "256"),
    ],
)
def test_a_bad_prompt_is_left_out_and_no_other(bad: Any, reason: str) -> None:
    prompts, warnings = read({"name": "a"}, bad, {"name": "z"}, {"name": "a"})
    assert list(prompts) == ["a", "z"]
    assert len(warnings) == 2
    assert reason in warnings[0]
    assert warnings[1] == 'a second prompt "a" is left out'


@pytest.mark.parametrize(
    ("sent", "listed", "said"),
    [
        ({"title": None, "description": None, "arguments": None, "_meta": None}, {}, False),
        ({"title": 1}, {}, True),
        ({"description": []}, {}, True),
        ({"icons": {}}, {}, True),
        ({"arguments": {}}, {}, True),
        ({"title": 1, "arguments": [{"name": "a"}]}, {"arguments": [{"name": "a"}]}, True),
        ({"arguments": [7, {"name": "a"}, {}, {"name": 1}]}, {"arguments": [{"name": "a"}]}, True),
        ({"arguments": [{"name": "a", "required": None}]}, {"arguments": [{"name": "a"}]}, False),
        ({"arguments": [{"name": "a", "required": "yes"}]}, {"arguments": [{"name": "a"}]}, True),
        (
            {"arguments": [{"name": "a", "description": 3, "title": "A", "x": None}]},
            {"arguments": [{"name": "a", "title": "A", "x": None}]},
            True,
        ),
    ],
)
def test_a_prompt_is_mended(sent: dict[str, Any], listed: dict[str, Any], said: bool) -> None:
    prompts, warnings = read({"name": "p", **sent})
    assert prompts == {"p": {"name": "p", **listed}}
    assert bool(warnings) == said
    assert all(warning.startswith('prompt "p": its ') for warning in warnings)


def test_many_odd_arguments_are_few_words() -> None:
    _, warnings = read({"name": "p", "arguments": [{}] * 5000})
    assert warnings == ('prompt "p": its list of arguments has 5000 without a name, dropped',)
    _, warnings = read({"name": "p", "arguments": [{"name": "a", "title": 1}] * 2000})
    assert len(warnings) == 101


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(max_size=5) | json_values,
        "title": json_values,
        "description": json_values,
        "required": st.booleans() | json_values,
        "x": json_values,
    },
)
prompts = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text(min_size=1, max_size=9) | json_values,
        "title": json_values,
        "description": json_values,
        "arguments": st.lists(arguments | json_values, max_size=4) | json_values,
        "icons": json_values | st.lists(st.fixed_dictionaries({}, optional={"src": json_values})),
        "_meta": json_values,
    },
)


@given(st.lists(prompts | json_values, max_size=4))
def test_whatever_is_listed_no_client_refuses(items: list[Any]) -> None:
    found, _ = read_prompts([json.dumps(items).encode()])
    for prompt in found:
        listed = json.loads(prompt.entry(f"s__{prompt.name}"))
        mcp_types.Prompt.model_validate(listed, strict=True)
        assert None not in listed.values(), "the TypeScript client refuses null"
        for argument in listed.get("arguments", []):
            assert None not in {argument.get(key, "") for key in ("name", "title", "description", "required")}
        assert prompt.arguments == tuple(
            Argument(argument["name"], argument.get("required", False))
            for argument in listed.get("arguments", [])
        )


@given(st.binary(max_size=60))
def test_any_bytes_are_read_without_a_failure(junk: bytes) -> None:
    for page in (junk, b'[{"name":"p","arguments":[' + junk + b"]}]", b'[{"name":"' + junk + b'"}]'):
        found, _ = read_prompts([page])
        for prompt in found:
            json.loads(prompt.entry("p").decode())
            assert b"\n" not in prompt.rest
