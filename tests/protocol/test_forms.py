"""Forms that servers ask people to fill in: defaults, and what fits (5.12, SEP-1034, SEP-1330)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol import forms

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def form(properties: dict[str, Any], required: list[str] | None = None) -> forms.Form:
    return forms.read({"type": "object", "properties": properties, "required": required or []})


DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["b"]},
    "note": {"type": "string"},
}


def test_defaults_fill_in_what_was_left_out() -> None:
    filled = form(DEFAULTS).filled({"age": 31, "name": None})
    assert filled == {
        "name": "John Doe",
        "age": 31,
        "score": 95.5,
        "status": "active",
        "verified": True,
        "tags": ["b"],
    }


def test_a_default_that_does_not_fit_is_none() -> None:
    odd = form({"a": {"type": "integer", "default": "x"}, "b": {"enum": ["x"], "default": "y"}})
    assert odd.filled({}) == {}


TITLED = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        ({"type": "string"}, ["", "x"], [1, True, ["x"], {}]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü"], ["a", "abcd"]),
        ({"type": "string", "format": "email"}, ["a@b"], ["a", "@b", "a@", "a b@c"]),
        ({"type": "string", "format": "uri"}, ["https://h/x", "urn:x:y"], ["x", "http://["]),
        ({"type": "string", "format": "date"}, ["2026-07-28"], ["28.7.2026", "2026-13-01"]),
        ({"type": "string", "format": "date-time"}, ["2026-07-28T12:00:00Z"], ["2026-07-28", "noon"]),
        ({"type": "string", "format": "hostname"}, ["anything"], [1]),
        ({"type": "number", "minimum": 1, "maximum": 2.5}, [1, 2.5], [0, 3, True, "1"]),
        ({"type": "integer"}, [1, 2.0], [1.5, False, float("inf")]),
        ({"type": "boolean"}, [True, False], [0, "true"]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["c", 1]),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, ["a"], ["A"]),
        ({"type": "string", "oneOf": TITLED}, ["b"], ["B"]),
        ({"enum": [1, True]}, [1, True], [1.0, False]),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, [[], ["a", "b"]], ["a", ["c"]]),
        (
            {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1, "maxItems": 1},
            [["a"]],
            [[], ["a", "b"]],
        ),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, ["x", 1, ["x"]], [{}, [1]]),
    ],
)
def test_what_fits_a_field(schema: dict[str, Any], right: list[Any], wrong: list[Any]) -> None:
    asked = form({"f": schema})
    assert [asked.problem({"f": value}) for value in right] == [""] * len(right)
    assert all(asked.problem({"f": value}).startswith("the field 'f' must") for value in wrong)


def test_what_is_required_must_be_there_and_nothing_else() -> None:
    asked = form({"f": {"type": "string"}, "g": {"type": "string"}}, ["f"])
    assert asked.problem({"g": "x"}) == "the field 'f' is missing"
    assert asked.problem({"f": "x", "h": "x"}) == "there is no field 'h'"
    assert asked.problem({"f": "x"}) == ""


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"type": "array"},
        {"properties": []},
        {"properties": {"a": 1}},
        {"properties": {str(n): {} for n in range(forms.FIELDS + 1)}},
        {"properties": {}, "required": "a"},
    ],
)
def test_what_is_no_form(schema: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        forms.read(schema)


@given(JSON, st.dictionaries(st.text(), JSON))
def test_any_schema_and_any_content_are_judged(schema: object, content: dict[str, Any]) -> None:
    try:
        asked = forms.read(schema)
    except ValueError:
        return
    asked.problem(asked.filled(content))


@given(st.dictionaries(st.sampled_from(list(DEFAULTS)), JSON))
def test_filling_in_changes_nothing_that_was_given(content: dict[str, Any]) -> None:
    filled = form(DEFAULTS).filled(content)
    assert {k: v for k, v in content.items() if v is not None}.items() <= filled.items() or any(
        value != value for value in content.values()
    )
