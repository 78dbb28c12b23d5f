"""What is kept of arguments: names and types, never a value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.journal.shape import LARGEST, NAME, NAMES, shape


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (b"", ""),
        (b"{}", ""),
        (b'{"path":"/etc/passwd"}', '{"path":"string"}'),
        (
            b'{"s":"x","n":-1.5e3,"t":true,"f":false,"z":null,"a":[1,{"b":2}]}',
            '{"s":"string","n":"number","t":"boolean","f":"boolean","z":"null","a":"array"}',
        ),
        (b'{"o":{"deep":{"deeper":1}},"e":{}}', '{"o":{"deep":"object"},"e":"object"}'),
        (b'{ "a" : "x" }', '{"a":"string"}'),
        (b'{"a":"x","a":1}', '{"a":"number"}'),
        (b'["x"]', ""),
        (b'"x"', ""),
        (b"{", ""),
        (b'{"a":', ""),
        (b"\xff", ""),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, ""),
        (b'{"a":"' + b"x" * LARGEST + b'"}', ""),
    ],
    ids=lambda value: str(value)[:20],
)
def test_shapes(arguments: bytes, kept: str) -> None:
    assert shape(arguments) == kept


def test_many_and_long_names_are_cut() -> None:
    found = json.loads(shape(json.dumps({f"n{at}": 1 for at in range(NAMES + 5)}).encode()))
    assert (len(found), found["…"]) == (NAMES + 1, "5 more")
    [name] = json.loads(shape(json.dumps({"x" * 500: 1}).encode()))
    assert name == "x" * (NAME - 1) + "…"


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.just("the-value-itself"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from("abcdef"), _VALUES))
def test_no_value_is_in_it(arguments: dict[str, object]) -> None:
    kept = shape(json.dumps(arguments).encode())
    assert "the-value-itself" not in kept
    assert (json.loads(kept).keys() if kept else set()) == arguments.keys()
