"""`input_required` and what follows it, as values (5.13)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.errors import Failure
from mcpd.protocol import input as input_
from mcpd.protocol.input import Question, Wanted
from mcpd.protocol.jsonrpc import VALUES

ASKED = {"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": {}}}


def text(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("result", "wants"),
    [
        ({"resultType": "input_required", "requestState": "x"}, True),
        ({"resultType": "complete", "content": [{"type": "text", "text": '"input_required"'}]}, False),
        ({"content": ["input_required"]}, False),
        ({"resultType": ["input_required"]}, False),
        ({"resultType": None, "x": "input_required"}, False),
    ],
)
def test_only_the_result_type_says_so(result: object, wants: bool) -> None:
    assert input_.wants_input(text(result)) is wants


def test_very_many_values_are_not_read() -> None:
    """A server's word must not hold the loop, or fill the memory."""
    many: list[Any] = [[]] * (VALUES + 1)
    questions = {str(n): {"method": "roots/list"} for n in range(VALUES)}
    for wanted in ({"inputRequests": questions}, {"requestState": "x", "more": many}):
        with pytest.raises(Failure, match="values"):
            input_.read_wanted(text({"resultType": "input_required", **wanted}))


def test_a_result_is_read() -> None:
    wanted = input_.read_wanted(
        text({"resultType": "input_required", "requestState": "s.1", "inputRequests": {"who": ASKED}})
    )
    assert wanted.request_state == "s.1"
    assert wanted.input_requests["who"].method == "elicitation/create"
    assert json.loads(wanted.input_requests["who"].text) == ASKED["params"]


def test_a_question_without_params_has_empty_ones() -> None:
    wanted = input_.read_wanted(text({"inputRequests": {"r": {"method": "roots/list"}}}))
    assert wanted == Wanted({"r": Question("roots/list")}, None)
    assert wanted.input_requests["r"].text == b"{}"


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"inputRequests": []},
        {"inputRequests": {"k": {"params": {}}}},
        {"inputRequests": {"k": {"method": "tools/call"}}},
        {"inputRequests": {"k": {"method": "ping"}}},
        {"inputRequests": {"k" * 201: ASKED}},
        {"inputRequests": {str(n): ASKED for n in range(input_.MOST + 1)}},
        {"requestState": 5},
        {"requestState": "x" * (input_.STATE + 1)},
    ],
)
def test_what_is_no_proper_result(members: dict[str, Any]) -> None:
    with pytest.raises(Failure) as caught:
        input_.read_wanted(text({"resultType": "input_required", **members}))
    assert caught.value.kind == "bad_answer"


@given(
    st.text().filter(lambda s: s.isprintable()),
    st.dictionaries(st.text(max_size=20), st.integers(), max_size=5),
)
def test_the_next_round_carries_state_and_answers_as_they_are(state: str, answers: dict[str, int]) -> None:
    raw = {key: text({"n": value}) for key, value in answers.items()}
    members = json.loads(b"{" + input_.round_members(raw, state) + b"}")
    assert members.pop("requestState") == state
    assert members.get("inputResponses", {}) == {key: {"n": value} for key, value in answers.items()}


def test_no_state_means_none_is_sent() -> None:
    assert input_.round_members({}, None) == b""
    assert b"requestState" not in input_.round_members({"a": b"{}"}, None)


def test_a_result_for_an_agent_reads_as_what_was_wanted() -> None:
    questions = {"a": Question("roots/list"), "b": Question("elicitation/create", ASKED_RAW)}
    result = input_.wanted_result(questions, "mine")
    assert input_.wants_input(result)
    wanted = input_.read_wanted(result)
    assert wanted.request_state == "mine"
    assert {key: q.text for key, q in wanted.input_requests.items()} == {
        key: q.text for key, q in questions.items()
    }


ASKED_RAW = input_.read_wanted(text({"inputRequests": {"x": ASKED}})).input_requests["x"].params


def test_an_empty_state_is_not_an_absent_one() -> None:
    assert input_.read_retry(b'{"name":"x"}').request_state is None
    assert input_.read_retry(b'{"name":"x","requestState":""}').request_state == ""


@pytest.mark.parametrize("params", [b'{"requestState":5}', b"[]", b"{"])
def test_a_state_is_a_text(params: bytes) -> None:
    with pytest.raises(Failure) as caught:
        input_.read_retry(params)
    assert caught.value.kind == "invalid_params"


@given(st.binary())
def test_any_answers_are_read_or_refused(raw: bytes) -> None:
    try:
        input_.read_responses(raw)
    except Failure as e:
        kind = e.kind
    else:
        return
    assert kind == "invalid_params"
