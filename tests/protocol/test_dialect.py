"""What each era adds to requests and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpd.errors import Failure
from mcpd.protocol import dialect
from mcpd.protocol.revisions import REVISIONS
from mcpd.protocol.shapes import ListenFilter

MODERN = REVISIONS["2026-07-28"]


def test_a_stateless_request_carries_revision_and_capabilities() -> None:
    line = dialect.request_line(b"5", "tools/call", b'"name":"x"', dialect.standing_meta(MODERN), b'"own":1')
    request = json.loads(line)
    meta = request["params"]["_meta"]
    assert (request["id"], request["method"], request["params"]["name"]) == (5, "tools/call", "x")
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "mcpd"
    assert (meta["progressToken"], meta["own"]) == (5, 1)


@pytest.mark.parametrize("name", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_request_after_a_handshake_carries_only_its_token(name: str) -> None:
    line = dialect.request_line(b"5", "ping", b"", dialect.standing_meta(REVISIONS[name]), b"")
    assert json.loads(line)["params"] == {"_meta": {"progressToken": 5}}


def test_nothing_to_say_is_an_empty_object() -> None:
    assert dialect.params(b"") == b"{}"


@pytest.mark.parametrize(
    ("meta", "kept"),
    [
        ({"progressToken": 1}, {}),
        ({"io.modelcontextprotocol/protocolVersion": "2026-07-28"}, {}),
        ({"com.mcp.tools/x": 1}, {}),
        ({"com.example.mcp/x": 1}, {"com.example.mcp/x": 1}),
        ({"dev.mcpd/kind": "denied"}, {}),
        ({"baggage": "userId=alice"}, {}),
        ({"tracestate": "a=1"}, {"tracestate": "a=1"}),
        ({"traceparent": "00-" + "0a" * 16 + "-" + "0b" * 8 + "-01"},) * 2,
        ({"traceparent": "00-zz-01"}, {}),
        ({"own": {"deep": [1, 2.50]}, "progressToken": "t"}, {"own": {"deep": [1, 2.50]}}),
    ],
)
def test_which_members_of_meta_cross(meta: dict[str, object], kept: dict[str, object]) -> None:
    assert json.loads(b"{" + dialect.forwarded_meta(json.dumps(meta).encode()) + b"}") == kept


@pytest.mark.parametrize("meta", [b"[1]", b"1", b"true", b'{"a":' * 100_000 + b"1" + b"}" * 100_000])
def test_meta_that_is_no_object_is_refused(meta: bytes) -> None:
    with pytest.raises(Failure) as caught:
        dialect.forwarded_meta(meta)
    assert caught.value.kind == "invalid_params"


@pytest.mark.parametrize("meta", [b"", b"null"])
def test_meta_that_is_not_there(meta: bytes) -> None:
    assert dialect.forwarded_meta(meta) == b""


def test_own_results_by_era() -> None:
    assert json.loads(dialect.own_result(b'"tools":[]', False)) == {"tools": []}
    modern = json.loads(dialect.own_result(b'"tools":[]', True))
    assert modern["resultType"] == "complete"
    assert modern["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mcpd"
    assert json.loads(dialect.own_result(b"", True))["resultType"] == "complete"


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_which_revision_initialize_is_answered_with(asked: str, answered: str) -> None:
    assert dialect.answer_revision(asked, REVISIONS).name == answered


def test_progress_goes_on_under_the_agents_token() -> None:
    raw = b'{"progressToken":9,"progress":0.50,"total":1,"message":"half"}'
    assert json.loads(dialect.progress_params(raw, b'"mine"') or b"") == {
        "progressToken": "mine",
        "progress": 0.5,
        "total": 1,
        "message": "half",
    }
    assert dialect.progress_params(b"[]", b"1") is None


def test_progress_is_one_line_for_every_reader() -> None:
    raw = b'{"progressToken":7,"progress":\r1,"x":{\r"y":1}}'
    text = dialect.progress_params(raw, b'"mine"')
    assert text is not None
    assert b"\r" not in text
    assert json.loads(text) == {"progressToken": "mine", "progress": 1, "x": {"y": 1}}


@pytest.mark.parametrize(
    ("said", "server", "told"),
    [
        ({"level": "info", "data": "x"}, "", {"level": "info", "data": "x"}),
        ({"level": "info", "data": "x"}, "s", {"level": "info", "logger": "s", "data": "x"}),
        (
            {"level": "alert", "logger": "a", "data": {"b": [1.5]}, "_meta": {"dev.mcpd/kind": "x"}},
            "s",
            {"level": "alert", "logger": "s/a", "data": {"b": [1.5]}},
        ),
        ({"level": "debug", "logger": None}, "", {"level": "debug", "data": None}),
        ({"level": "loud", "data": "x"}, "", None),
        ({"level": 1, "data": "x"}, "", None),
        ({"data": "x"}, "", None),
        ([], "", None),
    ],
)
def test_log_messages_name_their_server_where_there_are_several(said: Any, server: str, told: Any) -> None:
    text = dialect.log_params(json.dumps(said).encode(), server)
    assert (None if text is None else json.loads(text)) == told


def test_a_log_message_is_one_line_of_bounded_length() -> None:
    text = dialect.log_params(b'{"level":"info","data":{\r"a":\r1}}', "")
    assert text is not None
    assert b"\r" not in text
    long = dialect.log_params(b'{"level":"info","data":"' + b"x" * dialect.LOG + b'"}', "s")
    assert long is not None
    assert len(long) < 200
    assert "left out" in json.loads(long)["data"]
    assert json.loads(dialect.left_out_logs(7))["data"] == "7 log messages are left out"


def test_an_acknowledgement_names_what_is_honoured_and_nothing_else() -> None:
    honoured = ListenFilter(prompts_list_changed=True, resource_subscriptions=("x:y",))
    params = json.loads(dialect.acknowledged(b'"i"', honoured))
    assert params["_meta"] == {"io.modelcontextprotocol/subscriptionId": "i"}
    assert params["notifications"] == {"promptsListChanged": True, "resourceSubscriptions": ["x:y"]}
    assert json.loads(dialect.acknowledged(b"1", ListenFilter()))["notifications"] == {}


@pytest.mark.parametrize(
    ("error", "stateless", "told"),
    [
        ({"code": -32002, "message": "m"}, True, {"code": -32602, "message": "m", "data": {"uri": "asked"}}),
        (
            {"code": -32002, "message": "m", "data": {"uri": "own", "more": 1.50}},
            True,
            {"code": -32602, "message": "m", "data": {"uri": "own", "more": 1.5}},
        ),
        (
            {"code": -32002, "message": "m", "data": [1]},
            True,
            {"code": -32602, "message": "m", "data": {"uri": "asked"}},
        ),
        (
            {"code": -32602, "message": "m", "data": {"uri": "own"}},
            False,
            {"code": -32002, "message": "m", "data": {"uri": "own"}},
        ),
        ({"code": -32602, "message": "bad arguments"}, False, None),
        ({"code": -32602, "message": "m", "data": {"uri": "own"}}, True, None),
        ({"code": -32002, "message": "m"}, False, None),
        ({"code": -32000, "message": "m", "data": {"uri": "own"}}, True, None),
        ({"code": -32603, "message": "m", "data": {"uri": "own"}}, False, None),
    ],
)
def test_a_resource_that_is_not_found_is_so_in_both_eras(error: Any, stateless: bool, told: Any) -> None:
    raw = dialect.not_found(json.dumps(error).encode(), "asked", stateless=stateless)
    assert (None if raw is None else json.loads(raw)) == told
