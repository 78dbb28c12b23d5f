"""What a server may ask an agent, how the agent hears it, and which answers go back (n03)."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.policy import asks
from mcpd.policy.asks import BadAnswer, Budget, Refused, Settled
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.input import Question
from mcpd.protocol.jsonrpc import VALUES

A = Ability


def question(method: str, params: object = None) -> Question:
    return Question(method, msgspec.Raw(json.dumps({} if params is None else params).encode()))


def form(properties: dict[str, Any], **more: Any) -> Question:
    schema = {"type": "object", "properties": properties}
    return question("elicitation/create", {"message": "Which?", "requestedSchema": schema, **more})


def visit(url: object) -> Question:
    return question("elicitation/create", {"mode": "url", "message": "Go", "url": url, "elicitationId": "e1"})


ROOTS = question("roots/list")
SAMPLE = question("sampling/createMessage", {"messages": [], "maxTokens": 5})
FORM = form({"name": {"type": "string"}})


def refusal(code: int) -> Any:
    return pytest.raises(Refused, check=lambda e: e.code == code)


@pytest.mark.parametrize(
    ("sampling", "roots", "allowed"),
    [
        (False, "none", A.FORM | A.URL),
        (True, "none", A.FORM | A.URL | A.SAMPLING | A.SAMPLING_TOOLS | A.SAMPLING_CONTEXT),
        (False, "fixed", A.FORM | A.URL | A.ROOTS),
        (False, "agent", A.FORM | A.URL | A.ROOTS),
    ],
)
def test_what_a_definition_allows(sampling: bool, roots: asks.Roots, allowed: Ability) -> None:
    assert asks.allowed(sampling=sampling, roots=roots) == allowed


@pytest.mark.parametrize(
    ("asked", "needed"),
    [
        (ROOTS, A.ROOTS),
        (SAMPLE, A.SAMPLING),
        (question("sampling/createMessage", {"includeContext": "none"}), A.SAMPLING),
        (
            question("sampling/createMessage", {"includeContext": "allServers"}),
            A.SAMPLING | A.SAMPLING_CONTEXT,
        ),
        (question("sampling/createMessage", {"tools": []}), A.SAMPLING | A.SAMPLING_TOOLS),
        (FORM, A.FORM),
        (visit("https://h/"), A.URL),
    ],
)
def test_what_a_client_must_have_declared(asked: Question, needed: Ability) -> None:
    assert asks.needed(asked) == needed
    asks.check_declared(asked, needed)
    with refusal(-32601):
        asks.check_declared(asked, NONE)


@pytest.mark.parametrize(
    ("asked", "declared"),
    [
        (visit("https://h/"), A.FORM),
        (FORM, A.URL),
        (question("sampling/createMessage", {"tools": []}), A.SAMPLING),
    ],
)
def test_a_form_of_asking_that_was_not_declared(asked: Question, declared: Ability) -> None:
    with refusal(-32602):
        asks.check_declared(asked, declared)


def test_who_asks_is_said_and_reserved_members_are_left_out() -> None:
    asked = form({}, task={"ttl": 5}, more=1, _meta={"progressToken": 3, "own": 4, "dev.mcpd/x": 5})
    shown = json.loads(asks.shown("fs", asked).text)
    assert shown["message"] == "[fs, untrusted] Which?"
    assert shown["more"] == 1
    assert shown["_meta"] == {"own": 4}
    assert "task" not in shown


@pytest.mark.parametrize(
    ("url", "shown", "host"),
    [
        ("https://example.com/a?b=c#d", "https://example.com/a?b=c#d", "example.com"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x", "127.0.0.1"),
        ("http://[::1]:80/x", "http://[::1]:80/x", "[::1]"),
        ("https://g\u043e\u043egle.com/", "https://xn--ggle-55da.com/", "xn--ggle-55da.com"),
    ],
)
def test_an_address_shows_its_host(url: str, shown: str, host: str) -> None:
    said = json.loads(asks.shown("s", visit(url)).text)
    assert said["url"] == shown
    assert said["message"] == f"[s, untrusted] (leads to {host}) Go"


@pytest.mark.parametrize(
    "url",
    [
        None,
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        "https://bank.com@evil.com/",
        "https://evil.com\\@bank.com/",
        "https://h/a b",
        "https://h/\n",
        "http://[::1",
        "https://h:99999/",
        "https://h/" + "x" * asks.ADDRESS,
    ],
)
def test_what_nobody_is_sent_to(url: object) -> None:
    with refusal(-32602):
        asks.shown("s", visit(url))


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("password", TEXT),
        ("userPassword", TEXT),
        ("my_passwd2", TEXT),
        ("API-Key", TEXT),
        ("apiKey", TEXT),
        ("APIToken", TEXT),
        ("accesstoken", TEXT),
        ("clientSecret", TEXT),
        ("pin", {"type": "integer"}),
        ("cvv", {"type": "number"}),
        ("x", {"type": "string", "title": "Your Password"}),
        ("x", {"type": "string", "title": "SSH private key"}),
        ("x", {"type": "string", "title": "\uff30\uff21\uff33\uff33\uff37\uff2f\uff32\uff24"}),
        ("x", {"type": "string", "format": "password"}),
        ("x", {"type": "string", "writeOnly": True}),
        ("token", {}),
    ],
)
def test_secrets_are_not_asked_for(name: str, schema: dict[str, Any]) -> None:
    with refusal(-32602):
        asks.shown("s", form({"harmless": TEXT, name: schema}))


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("name", TEXT),
        ("opinion", TEXT),
        ("spinner", TEXT),
        ("max_tokens", {"type": "integer"}),
        ("token_count", {"type": "integer"}),
        ("remember_password", {"type": "boolean"}),
        ("token_type", {"type": "string", "enum": ["a", "b"]}),
        ("keyboard", TEXT),
        ("public_key_id", TEXT),
    ],
)
def test_other_words_are_no_secrets(name: str, schema: dict[str, Any]) -> None:
    asks.shown("s", form({name: schema}))


@pytest.mark.parametrize(
    "asked",
    [
        question("elicitation/create", []),
        question("elicitation/create", {"requestedSchema": {}}),
        question("elicitation/create", {"message": "x"}),
        question("elicitation/create", {"message": 5, "requestedSchema": {}}),
        question("elicitation/create", {"message": "x" * 8001, "requestedSchema": {}}),
        question("elicitation/create", {"message": "x", "requestedSchema": {}, "more": "x" * 70000}),
        question("sampling/createMessage", {"maxTokens": 5}),
        Question("elicitation/create", msgspec.Raw(b"[" * 100000)),
    ],
)
def test_what_has_no_proper_shape(asked: Question) -> None:
    with refusal(-32602):
        asks.shown("s", asked)


def test_an_unknown_mode_is_refused() -> None:
    with refusal(-32602):
        asks.needed(form({}, mode="voice"))


def test_twenty_questions_an_hour() -> None:
    budget = Budget()
    for second in range(20):
        budget.spend(second)
    for moment in (20, 3599.5):
        with refusal(-32603):
            budget.spend(moment)
    budget.spend(3600)
    with refusal(-32603):
        budget.spend(3600.5)
    budget.spend(3601)


def test_no_limit() -> None:
    budget = Budget(0)
    for _ in range(1000):
        budget.spend(0.0)


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=200), st.integers(1, 30))
def test_no_hour_has_more_than_its_share(gaps: list[float], hourly: int) -> None:
    budget, now = Budget(hourly), 0.0
    spent: list[float] = []
    for gap in gaps:
        now += gap
        try:
            budget.spend(now)
        except Refused:
            assert len([at for at in spent if now - at < 3600]) == hourly
        else:
            spent.append(now)
            assert len([at for at in spent if now - at < 3600]) <= hourly


# ----------------------------------------------------------------------- answers


def settle(asked: Question, answer: object) -> Settled:
    return asks.settle(asked, json.dumps(answer).encode())


def test_an_accepted_form_gets_its_defaults() -> None:
    asked = form({"a": {"type": "string", "default": "x"}, "b": {"type": "integer"}})
    settled = settle(asked, {"action": "accept", "content": {"b": 5}, "_meta": {"x": 1}})
    assert json.loads(settled.result) == {"action": "accept", "content": {"a": "x", "b": 5}}
    assert settled.outcome == "accept"


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_no_carries_nothing_else(action: str) -> None:
    settled = settle(FORM, {"action": action, "content": {"name": "x"}})
    assert (json.loads(settled.result), settled.outcome) == ({"action": action}, action)


def test_an_address_is_answered_without_content() -> None:
    settled = settle(visit("https://h/"), {"action": "accept", "content": {"x": 1}})
    assert json.loads(settled.result) == {"action": "accept"}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (SAMPLE, {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m", "more": 1}),
        (SAMPLE, {"role": "assistant", "content": [], "model": "m"}),
        (ROOTS, {"roots": [{"uri": "file:///home/me", "name": "me"}]}),
        (ROOTS, {"roots": []}),
    ],
)
def test_other_answers_pass_as_they_are(asked: Question, answer: object) -> None:
    assert settle(asked, answer) == Settled(json.dumps(answer).encode(), "ok")


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (FORM, {}),
        (FORM, {"action": "yes"}),
        (FORM, 12345),
        (FORM, {"action": "accept", "content": "x"}),
        (FORM, {"action": "accept", "content": {"name": 5}}),
        (FORM, {"action": "accept", "content": {"other": "x"}}),
        (SAMPLE, {"role": "assistant", "model": "m"}),
        (SAMPLE, {"role": "assistant", "content": "x", "model": "m"}),
        (ROOTS, {"roots": [{"uri": "https://h/"}]}),
        (ROOTS, {"roots": [{"uri": "file:///x"}] * 101}),
        (ROOTS, {}),
    ],
)
def test_answers_that_no_server_gets(asked: Question, answer: object) -> None:
    with pytest.raises(BadAnswer):
        settle(asked, answer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.sampled_from(["elicitation/create", "sampling/createMessage", "roots/list"]), JSON)
def test_any_question_is_shown_or_refused(method: str, params: object) -> None:
    try:
        asked = question(method, params)
        asks.check_declared(asked, A(63))
        json.loads(asks.shown("s", asked).text)
    except Refused as e:
        code = e.code
    else:
        return
    assert code in (-32601, -32602)


@given(st.sampled_from([FORM, SAMPLE, ROOTS, visit("https://h/")]), JSON)
def test_any_answer_is_settled_or_not(asked: Question, answer: object) -> None:
    with contextlib.suppress(BadAnswer):
        json.loads(settle(asked, answer).result)


def test_very_many_values_are_not_read() -> None:
    """They would hold the loop for seconds."""
    many: list[Any] = [[]] * (VALUES + 1)
    with refusal(-32602):
        asks.shown("s", question("sampling/createMessage", {"messages": many}))
    with pytest.raises(BadAnswer, match="values"):
        settle(SAMPLE, {"role": "assistant", "content": {"type": "text", "text": many}, "model": "m"})
