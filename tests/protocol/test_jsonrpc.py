"""The envelope, what is refused before policy (b29), and what a lenient reader saves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.errors import Failure
from mcpd.protocol import jsonrpc

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


def kind_of(call: Any, *args: Any) -> str:
    with pytest.raises(Failure) as caught:
        call(*args)
    return caught.value.kind


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"GET / HTTP/1.1", "parse_error"),
        (b'{"jsonrpc": "2.0", "id": 1, "meth', "parse_error"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', "parse_error"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\xb0\xa1"}}', "parse_error"),
        (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}', "parse_error"),
        (b"\x00\x01", "parse_error"),
        (b"[]", "invalid_request"),
        (b"null", "invalid_request"),
        (b"{}", "invalid_request"),
        (b'{"id":1,"method":"m"}', "invalid_request"),
        (b'{"jsonrpc":"1.0","id":1,"method":"m"}', "invalid_request"),
        (b'{"jsonrpc":2.0,"id":1,"method":"m"}', "invalid_request"),
        (b'{"jsonrpc":null,"id":1,"result":{}}', "invalid_request"),
        (b'{"jsonrpc":"2.0","id":1}', "invalid_request"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', "invalid_request"),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "invalid_request",
        ),
    ],
)
def test_what_is_no_message(line: bytes, kind: str) -> None:
    assert kind_of(jsonrpc.read, line) == kind


@pytest.mark.parametrize("text", [b"0", b"-7", b"7.0", b"1e3", b'""', b'"7"', b"1" * 300])
def test_a_text_or_an_integer_is_an_id(text: bytes) -> None:
    assert jsonrpc.is_id(text)


@pytest.mark.parametrize("text", [b"", b"1.5", b"1e-3", b"1e999", b"null", b"true", b"[1]", b'{"a":1}'])
def test_nothing_else_is_an_id(text: bytes) -> None:
    assert not jsonrpc.is_id(text)


def test_payloads_keep_their_text() -> None:
    message = jsonrpc.read(
        b'{"jsonrpc":"2.0","id":"a\\u0062","method":"m","params":{"n": 1.00e2, "s":"\\u00e9"}}\r'
    )
    assert message.key == b'"a\\u0062"'
    assert bytes(message.params) == b'{"n": 1.00e2, "s":"\\u00e9"}'


@given(JSON)
def test_a_request_comes_back_as_it_went_out(value: Any) -> None:
    params = json.dumps({"v": value}).encode()
    line = jsonrpc.request_line(b"7", "tools/call", params)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    message = jsonrpc.read(line)
    assert (message.key, message.method, bytes(message.params)) == (b"7", "tools/call", params)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"x":{"a":1,"b":2,"a":3}}',
        b'{"x":[{"a":1,"a":1}]}',
        b'{"a":1,"\\u0061":2}',
        b'{"a":NaN}',
        b'{"a":[Infinity]}',
        b'{"a":-Infinity}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\udc00\\ud800"}',
        b'{"\\ud800":1}',
        b'{"a":["x","\\ud83d and more"]}',
        b'{"a":{"b":["\\ud83d"]}}',
        b"[1]",
        b'"text"',
        b"null",
        b"{",
        b"[" * 5000 + b"]" * 5000,
        b'{"a":' * 3000 + b"1" + b"}" * 3000,
    ],
)
def test_arguments_with_two_meanings_are_refused(text: bytes) -> None:
    """By the reader of the line, or by the check that follows it."""

    def read_and_check() -> None:
        message = jsonrpc.read(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + text + b"}")
        jsonrpc.check_arguments(bytes(message.params))

    with pytest.raises(Failure) as caught:
        read_and_check()
    assert caught.value.kind in ("parse_error", "invalid_request", "invalid_params")


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"a":"b:c"}',
        b'{"a":{"a":1},"b":[{"a":1},{"a":2}]}',
        b'{"a":"\\ud83d\\ude42"}',
        b'{"a":1e400,"b":123456789012345678901234567890}',
        b'{"a":{"b":{"c":"x:y"}}}',
    ],
)
def test_arguments_with_one_meaning_pass(text: bytes) -> None:
    jsonrpc.check_arguments(text)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), JSON))
def test_whatever_a_json_writer_makes_passes(value: dict[str, Any]) -> None:
    jsonrpc.check_arguments(json.dumps(value).encode())


MANY = 300_000


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":[' + b",".join([b"[]"] * MANY) + b'],"b":0}',
        b'{"a":[' + b",".join([b'""'] * MANY) + b'],"b":0}',
        b'{"a":[' + b",".join([b'"\\""'] * MANY) + b'],"b":0}',
        b'{"a":[' + b",".join([b'"\\\\"'] * MANY) + b'],"b":0}',
        b'{"a":[' + b",".join([b'{"a":1}'] * MANY) + b'],"b":0}',
        b"{" + b",".join([b'"%d":0' % number for number in range(MANY)]) + b"}",
    ],
)
def test_arguments_of_very_many_values_are_refused_before_they_are_read(text: bytes) -> None:
    with pytest.raises(Failure, match="more than") as caught:
        jsonrpc.check_arguments(text)
    assert caught.value.kind == "invalid_params"


@pytest.mark.parametrize("text", ["a,b" * MANY, '["x",{' * MANY, '\\,\\"' * MANY])
def test_what_a_text_holds_are_no_values(text: str) -> None:
    jsonrpc.check_arguments(json.dumps({"path": "x", "content": text}).encode())


@given(st.binary(max_size=200))
def test_a_lenient_reader_never_raises(line: bytes) -> None:
    jsonrpc.read_lenient(line)


def test_bytes_that_are_no_text_are_replaced() -> None:
    message = jsonrpc.read_lenient(b'{"id":1,"result":{"t":"\xb0 ok"}}')
    assert message is not None
    assert json.loads(bytes(message.result)) == {"t": "\ufffd ok"}


def test_an_answer_only_a_lenient_reader_takes_still_ends_its_call() -> None:
    message = jsonrpc.read_lenient(b'{"jsonrpc":"2.0","id":12,"result":{"x":NaN}}')
    assert message is not None
    assert (message.key, bytes(message.result)) == (b"12", b"null")


BIG = b'{"a":[' + b"[]," * 300_000 + b"NaN]}"


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":12,"result":' + BIG + b"}",
        b'{"id": 12, "result":' + BIG + b"}",
        b'{"result":' + BIG + b',"jsonrpc":"2.0","id":12}',
        b'{"result":' + BIG + b', "id": 12, "jsonrpc": "2.0"}\r',
    ],
)
def test_a_large_answer_that_no_reader_takes_ends_its_call_without_being_read(
    line: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.protocol.jsonrpc.json", None)
    message = jsonrpc.read_lenient(line)
    assert message is not None
    assert (message.key, bytes(message.result), message.method) == (b"12", b"null", "")


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        (b'{"jsonrpc":"2.0","result":{"id":12,', b'"x":1}}'),
        (b'{"result":{"x":1', b',"id":12}}'),
        (b'{"result":{"x":1', b'"the end is \\"id\\":12}"}'),
        (b'{"jsonrpc":"2.0","id":12,"method":"ping","params":{', b"}}"),
        (b'{"id":null,"result":{', b"}}"),
        (b'{"id":{"id":12},"result":{', b"}}"),
        (b"", b""),
    ],
)
def test_only_an_answers_own_id_is_seen(head: bytes, tail: bytes) -> None:
    assert jsonrpc.answered_id(head, tail) == b""


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        (b'{"jsonrpc":"2.0","id":"a b","method":"tools/call","params":{', b"}}"),
        (b'{"jsonrpc":"2.0","method":"tools/call","id":"a b","params":{', b"}}"),
        (b'{"method":"tools/call","params":{"id":7', b'},"jsonrpc":"2.0","id":"a b"}'),
    ],
)
def test_the_id_of_a_request_is_seen_from_its_ends(head: bytes, tail: bytes) -> None:
    assert jsonrpc.requested_id(head, tail) == b'"a b"'
    assert jsonrpc.answered_id(head, tail) == b""


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":5}', b"7"),
        (b'{"jsonrpc":"2.0","method":5,"params":{"id":3},"id":"a","x":1}', b'"a"'),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"id":3}', b"7"),
        (b'{"method":"x","params":{"text":"\\ud83d"},"jsonrpc":"2.0","id":7}', b"7"),
        (b'{"method":"x","params":{"text":"' + b"x" * 200_000 + b'\\ud83d"},"jsonrpc":"2.0","id":7}', b"7"),
        # Cut off: the id at its end is another's.
        (b'{"jsonrpc":"2.0","method":"x","params":{"id":3}', b""),
        (b'{"jsonrpc":"2.0","method":5,"params":{"id":3}', b""),
        (b'{"method":"x","params":[{"id":3,"jsonrpc":"2.0"}', b""),
        (b'{"method":"x","params":{"text":"' + b"x" * 200_000 + b'","and":{"id":3}', b""),
        # No JSON, nor would an answer be that has it.
        (b'{"jsonrpc":"2.0","id":07,"method":"x"}', b""),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"x"}', b""),
        (b'{"jsonrpc":"2.0","id":"a\tb","method":"x"}', b""),
        (b'{"jsonrpc":"2.0","id":"\xff","method":5}', b""),
        # No request's.
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', b""),
        (b'{"jsonrpc":"2.0","id":[7],"method":"x"}', b""),
        (b'{"jsonrpc":"1.0","id":7,"result":{"method":"x"}}', b""),
        (b"[" * 100_000, b""),
    ],
)
def test_the_id_of_what_cannot_be_read(line: bytes, key: bytes) -> None:
    assert jsonrpc.unread_id(line) == key


def test_noise_is_none() -> None:
    assert jsonrpc.read_lenient(b"Server listening on stdio") is None
    assert jsonrpc.read_lenient(b'"text"') is None
    assert jsonrpc.read_lenient(b"[" * 100_000) is None


def test_half_an_emoji_costs_only_itself() -> None:
    message = jsonrpc.read_lenient(
        b'{"id":3,"result":{"content":[{"type":"text","text":"cut \\ud83d"}],"n":12345678901234567890}}'
    )
    assert message is not None
    assert message.key == b"3"
    assert json.loads(bytes(message.result)) == {
        "content": [{"type": "text", "text": "cut ?"}],
        "n": 12345678901234567890,
    }


@pytest.mark.parametrize("extra", [b'"error":null', b'"method":null', b'"method":null,"error":null'])
def test_members_that_are_null_count_as_absent(extra: bytes) -> None:
    """As some servers of JSON-RPC 1.0 habits answer."""
    message = jsonrpc.read_lenient(b'{"jsonrpc":"2.0","id":1,"result":{"a":1},' + extra + b"}")
    assert message is not None
    assert (message.method, bytes(message.error), json.loads(bytes(message.result))) == ("", b"", {"a": 1})
