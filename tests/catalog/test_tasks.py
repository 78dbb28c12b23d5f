"""What a server says of a task, and what an agent gets of that (5.15, 5.16)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog import tasks
from mcpd.catalog.content import Bounded
from mcpd.catalog.tasks import RELATED, Task
from mcpd.errors import Failure
from mcpd.protocol.input import Question
from mcpd.protocol.jsonrpc import VALUES

CORE: dict[str, Any] = {
    "taskId": "t-91",
    "status": "working",
    "createdAt": "2026-11-30T08:00:00Z",
    "lastUpdatedAt": "2026-11-30T08:00:00Z",
    "ttl": 60000,
}
EXTENSION: dict[str, Any] = {key: each for key, each in CORE.items() if key != "ttl"} | {
    "resultType": "task",
    "ttlMs": 600000,
    "pollIntervalMs": 2000,
}


def text(value: object) -> bytes:
    return json.dumps(value).encode()


# ---------------------------------------------------------------------- reading


def test_both_forms_are_read() -> None:
    assert tasks.read_task(text(CORE | {"pollInterval": 500})) == Task("t-91", "working", 60.0, 0.5)
    assert tasks.read_task(text(EXTENSION)) == Task("t-91", "working", 600.0, 2.0)


@pytest.mark.parametrize(
    ("said", "life", "poll"),
    [
        ({"ttl": None}, tasks.LONGEST_LIFE, tasks.POLL),
        ({"ttl": 10**12, "pollInterval": 10**9}, tasks.LONGEST_LIFE, tasks.POLL_MOST),
        ({"ttl": 0, "pollInterval": 0}, 0.0, tasks.POLL_LEAST),
        ({"ttl": -1, "pollInterval": -1}, tasks.LONGEST_LIFE, tasks.POLL),
        ({"ttl": "long", "pollInterval": True}, tasks.LONGEST_LIFE, tasks.POLL),
    ],
)
def test_times_are_kept_within_bounds(said: dict[str, Any], life: float, poll: float) -> None:
    assert tasks.read_task(text(CORE | said)) == Task("t-91", "working", life, poll)


@pytest.mark.parametrize(
    "odd",
    [{}, [], {"taskId": ""}, CORE | {"taskId": 3}, CORE | {"taskId": "x" * 2000}, CORE | {"status": None}],
)
def test_what_is_no_task_is_none(odd: object) -> None:
    assert tasks.read_task(text(odd)) is None
    with pytest.raises(Failure) as caught:
        tasks.state(text(odd), "mine")
    assert caught.value.kind == "bad_answer"


def test_a_usual_result_is_no_task() -> None:
    usual = {"content": [{"type": "text", "text": '"task"'}], "task": CORE}
    assert tasks.made_handshake(text(usual)) == b"", "what has content is the result of a call"
    assert not tasks.made_stateless(text(usual))
    assert not tasks.made_stateless(text({"content": [], "structuredContent": {"resultType": "task"}}))
    assert tasks.made_stateless(text(EXTENSION))
    assert json.loads(tasks.made_handshake(text({"task": CORE}))) == CORE


def test_the_task_that_a_message_belongs_to() -> None:
    assert tasks.related_to(text({"_meta": {RELATED: {"taskId": "t-91"}}})) == "t-91"
    for odd in ({}, {"_meta": {RELATED: 3}}, {"_meta": {RELATED: {"taskId": 3}}}, {"x": "related-task"}):
        assert tasks.related_to(text(odd)) == ""


# --------------------------------------------------------------- towards agents


def test_a_task_of_the_core_goes_under_another_id() -> None:
    about = {RELATED: {"taskId": "t-91"}, "io.modelcontextprotocol/model-immediate-response": "soon"}
    made = tasks.made(text({"task": CORE, "_meta": about}), "mine", stateless=False)
    assert json.loads(made.text) == {
        "task": CORE | {"taskId": "mine"},
        "_meta": about | {RELATED: {"taskId": "mine"}},
    }
    assert not made.typed
    assert b"t-91" not in made.text


def test_a_task_of_the_extension_goes_under_another_id() -> None:
    made = tasks.made(text(EXTENSION | {"unknown": {"kept": 1.50}}), "mine", stateless=True)
    assert json.loads(made.text) == EXTENSION | {"taskId": "mine", "unknown": {"kept": 1.5}}
    assert made.typed


def test_what_only_mcpd_may_say_is_left_out() -> None:
    said = text(EXTENSION | {"_meta": {"dev.mcpd/kind": "denied", "a.b/c": 1}})
    assert json.loads(tasks.state(said, "mine"))["_meta"] == {"a.b/c": 1}


def test_too_much_beside_the_result_is_refused() -> None:
    with pytest.raises(Failure) as caught:
        tasks.state(text(EXTENSION | {"statusMessage": "x" * tasks.DETAIL}), "mine")
    assert caught.value.kind == "bad_answer"


def test_the_result_within_a_task_is_bounded_as_a_call_s_own() -> None:
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    done = EXTENSION | {
        "status": "completed",
        "result": {"content": [link, {"type": "text", "text": "x" * 9000}]},
    }
    found = json.loads(tasks.detail(text(done), 1000, "srv").text)["result"]
    assert len(found["content"][1]["text"]) <= 1000
    assert found["content"][0]["uri"] == "mcpd://srv/file:///x"
    assert json.loads(tasks.detail(text(done), 0, "").text)["result"] == done["result"]


@pytest.mark.parametrize("odd", [{"result": 3}, {"result": {"content": 3}}, {"error": {"code": "x"}}])
def test_a_task_that_ended_in_nothing_usable_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(Failure) as caught:
        tasks.detail(text(EXTENSION | odd), 1000, "")
    assert caught.value.kind == "bad_answer"


def test_a_task_s_error_passes() -> None:
    failed = EXTENSION | {"status": "failed", "error": {"code": -32603, "message": "no", "data": [1]}}
    assert json.loads(tasks.detail(text(failed), 10, "").text) == failed


def test_a_result_says_mcpd_s_own_id_where_it_was_asked_for_by_that() -> None:
    meta = {RELATED: {"taskId": "t-91"}, "a/b": 1}
    said = Bounded(text({"content": [], "_meta": meta}))
    named = tasks.result(said, "mine").text
    assert json.loads(named) == {"content": [], "_meta": meta | {RELATED: {"taskId": "mine"}}}
    assert json.loads(tasks.result(Bounded(b'{"content":[]}'), "mine").text) == {
        "content": [],
        "_meta": {RELATED: {"taskId": "mine"}},
    }
    assert json.loads(tasks.unrelated(said.text)) == {"content": [], "_meta": {"a/b": 1}}
    alone = text({"content": [], "_meta": {RELATED: {"taskId": "t-91"}}})
    assert json.loads(tasks.unrelated(alone)) == {"content": []}
    for usual in (b'{"content":[]}', b'{"x":"related-task"', b'"related-task"'):
        assert tasks.unrelated(usual) == usual


def test_questions_keep_their_keys() -> None:
    who = {"method": "elicitation/create", "params": {"message": "who?"}}
    found = tasks.questions(text(EXTENSION | {"inputRequests": {"a": who}}))
    assert found == {"a": Question("elicitation/create", found["a"].params)}
    assert json.loads(tasks.asked(found)) == {"a": who}
    assert tasks.questions(text(EXTENSION)) == {}
    assert tasks.questions(text(EXTENSION | {"inputRequests": None})) == {}


def test_very_many_questions_are_not_read() -> None:
    many = {str(number): {"method": "roots/list"} for number in range(VALUES)}
    with pytest.raises(Failure, match="values"):
        tasks.questions(text(EXTENSION | {"inputRequests": many}))


@pytest.mark.parametrize(
    "odd", [3, [], {"a": 3}, {"a": {"params": {}}}, {str(n): {"method": "x"} for n in range(99)}]
)
def test_odd_questions_are_refused(odd: object) -> None:
    with pytest.raises(Failure) as caught:
        tasks.questions(text(EXTENSION | {"inputRequests": odd}))
    assert caught.value.kind == "bad_answer"


ids = st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable())
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
unknown = st.dictionaries(st.text("xyz", min_size=1, max_size=3), values, max_size=4)


@given(ids, ids, unknown)
def test_whatever_the_ids_are_only_the_agent_s_own_is_said_and_all_else_is_kept(
    server: str, own: str, more: dict[str, Any]
) -> None:
    said = EXTENSION | {"taskId": server} | more
    assert json.loads(tasks.made(text(said), own, stateless=True).text) == said | {"taskId": own}
    core = CORE | {"taskId": server} | more
    made = tasks.made(text({"task": core, "_meta": {RELATED: {"taskId": server}}}), own, stateless=False)
    assert json.loads(made.text) == {
        "task": core | {"taskId": own},
        "_meta": {RELATED: {"taskId": own}},
    }


@given(st.binary(max_size=60) | values.map(text) | unknown.map(text))
def test_nothing_that_a_server_says_breaks_the_reading(said: bytes) -> None:
    assert tasks.read_task(said) is None
    reads: tuple[Callable[[], object], ...] = (
        lambda: tasks.state(said, "mine"),
        lambda: tasks.made(said, "mine", stateless=False),
        lambda: tasks.questions(said),
        lambda: tasks.detail(said, 100, "srv"),
    )
    for read in reads:
        assert outcome_of(read) in ("", "bad_answer")


def outcome_of(read: Callable[[], object]) -> str:
    try:
        read()
    except Failure as e:
        return e.kind
    return ""
