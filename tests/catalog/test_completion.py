"""Suggestions for an argument: in the specified form, within the limits, nothing in mcpd's name (5.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.blocks import BESIDE
from mcpd.catalog.completion import MOST, NOTHING, bound
from mcpd.errors import Failure


def bounded(cap: int = 0, **members: Any) -> Any:
    return json.loads(bound(json.dumps(members).encode(), cap).text)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"values": []}, {"values": []}),
        ({"values": ["a", "\u00fc"]}, {"values": ["a", "\u00fc"]}),
        ({"values": ["a"], "total": 7, "hasMore": True}, {"values": ["a"], "total": 7, "hasMore": True}),
        ({"values": ["a"], "hasMore": False}, {"values": ["a"], "hasMore": False}),
        ({"values": ["a"], "total": None, "hasMore": None}, {"values": ["a"], "hasMore": False}),
        ({"values": ["a"], "total": "many", "odd": 1}, {"values": ["a"], "odd": 1}),
        ({"values": ["v"] * 101}, {"values": ["v"] * 100, "hasMore": True}),
        ({"values": ["v"] * 101, "hasMore": False}, {"values": ["v"] * 100, "hasMore": True}),
    ],
)
def test_completions_in_the_specified_form(said: Any, told: Any) -> None:
    assert bounded(completion=said) == {"completion": told}


def test_further_members_pass_without_what_only_mcpd_says() -> None:
    meta = {"example.com/a": 1, "dev.mcpd/kind": "denied"}
    told = bounded(completion={"values": []}, resultType="complete", _meta=meta, more=[1.5])
    assert told == {"completion": {"values": []}, "_meta": {"example.com/a": 1}, "more": [1.5]}


def test_further_members_that_are_very_large_are_left_out() -> None:
    large = "x" * (BESIDE + 1)
    told = {"completion": {"values": ["a"], "total": 1}}
    assert bounded(completion={"values": ["a"], "total": 1, "odd": large}) == told
    assert bounded(completion={"values": ["a"], "total": 1}, more=large) == told


def test_values_are_left_out_whole() -> None:
    result = json.dumps({"completion": {"values": ["\u00fc" * 4, "b", "c" * 10]}}).encode()
    cut = bound(result, 10)
    assert json.loads(cut.text)["completion"] == {"values": ["\u00fc" * 4, "b"], "hasMore": True}
    assert cut.cut
    assert bound(result, 0).cut is False


@pytest.mark.parametrize(
    "result",
    [
        b"{}",
        b"[]",
        b'{"completion":[]}',
        b'{"completion":{}}',
        b'{"completion":{"values":"a"}}',
        b'{"completion":{"values":[1]}}',
        b'{"completion":{"values":[]},"resultType":"input_required"}',
        b'{"completion":{"values":[]},"resultType":1}',
        b'{"completion":' + b"[" * 100_000,
    ],
)
def test_what_is_no_completion(result: bytes) -> None:
    with pytest.raises(Failure) as caught:
        bound(result, 0)
    assert caught.value.kind == "bad_answer"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=150), st.integers(0, 200))
def test_whatever_is_suggested_stays_within_the_limits(values: list[str], cap: int) -> None:
    told = bounded(cap, completion={"values": values})["completion"]
    kept = told["values"]
    assert kept == values[: len(kept)]
    assert len(kept) <= MOST
    assert not cap or sum(len(value.encode()) for value in kept) <= cap
    assert told.get("hasMore", False) is (len(kept) < len(values))


def test_nothing_is_a_completion_too() -> None:
    assert bounded(**json.loads(b"{" + NOTHING + b"}")) == json.loads(b"{" + NOTHING + b"}")
