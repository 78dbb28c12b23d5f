"""The beginning of an array, whatever its length."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol.arrays import elements

VALUES = st.lists(
    st.none() | st.integers() | st.text() | st.lists(st.integers(), max_size=3) | st.just({"a": "b,c"}),
    max_size=12,
)


@given(VALUES, st.sampled_from([1, 2, 5]))
def test_the_first_elements_and_whether_there_are_more(values: list[Any], most: int) -> None:
    found, more = elements(json.dumps(values).encode(), most)
    assert [json.loads(text) for text in found] == values[:most]
    assert more == (len(values) > most)


@pytest.mark.parametrize(
    "text", [b"{}", b"1", b"", b"[1,2,3", b"[,,,,]", b"[1,2,3]x", b"[" * 100_000 + b",,,"]
)
def test_what_is_no_array_is_refused(text: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, RecursionError)):
        elements(text, 2)


@pytest.mark.parametrize("element", [b"1", b"{}", b"[]", b'""'])
def test_what_is_passed_over_takes_no_memory(element: bytes) -> None:
    text = b"[" + b",".join([element] * 1_000_000) + b"]"
    elements(text, 100)
    tracemalloc.start()
    try:
        found, more = elements(text, 100)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found, more) == ([element] * 100, True)
    assert peak < 100_000
