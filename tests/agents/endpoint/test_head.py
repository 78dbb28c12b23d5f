"""What may come in, which revision a message belongs to, and headers that repeat the body (3.2, 3.3, 8.1)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.agents.endpoint import head as heads
from mcpd.agents.endpoint.head import Accepts, Head, Refused, read_head
from mcpd.catalog.mirror import mirrored, read_mirrors
from mcpd.errors import KINDS
from mcpd.protocol import jsonrpc

META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}


def head(*fields: tuple[str, str], method: str = "POST", path: str = "/mcp") -> Head:
    return read_head(method, path.encode(), [(name.encode(), value.encode()) for name, value in fields])


def message(method: str, params: Any = None, ident: Any = 1) -> jsonrpc.Message:
    body = {"jsonrpc": "2.0", "method": method}
    if ident is not None:
        body["id"] = ident
    if params is not None:
        body["params"] = params
    return jsonrpc.read(json.dumps(body).encode())


def refused(what: Any, *arguments: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        what(*arguments)
    return caught.value


# ------------------------------------------------------------------ who asks


@pytest.mark.parametrize("host", ["localhost", "LocalHost:6273", "127.0.0.1:1", "[::1]", "[::1]:6273"])
def test_this_machine_has_three_names(host: str) -> None:
    heads.check_host(head(("Host", host)))
    heads.check_host(head(("Host", host), ("Origin", f"http://{host}")))


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example.com",
        "localhost.evil.example.com",
        "localhost.",
        "127.0.0.2",
        "127.1",
        "0.0.0.0",
        "[::]",
        "::1",
        "[::1",
        "localhost:",
        "localhost:123456",
        "localhost:6273@evil.example.com",
        "user@localhost",
        "localhost, evil.example.com",
        "2130706433",
    ],
)
def test_every_other_name_is_misdirected(host: str) -> None:
    assert refused(heads.check_host, head(("Host", host))).status == 421


def test_two_hosts_and_none() -> None:
    assert refused(heads.check_host, head()).status == 421
    assert refused(heads.check_host, head(("Host", "localhost"), ("Host", "localhost"))).status == 400


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example.com",
        "null",
        "",
        "https://localhost:6273",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:6273",
        "http://localhost:6273/",
        "file://",
    ],
)
def test_a_page_of_another_origin_has_no_business_here(origin: str) -> None:
    assert refused(heads.check_host, head(("Host", "localhost:6273"), ("Origin", origin))).status == 403


@pytest.mark.parametrize(
    ("path", "server"),
    [("/mcp", ""), ("/mcp/", ""), ("/server/git", "git"), ("/server/a.b-c/", "a.b-c")],
)
def test_places(path: str, server: str) -> None:
    assert heads.place(head(path=path)) == server


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/mcp//",
        "/MCP",
        "/mcpx",
        "/server",
        "/server/",
        "/server/a/b",
        "/server//",
        "/.well-known/oauth-protected-resource",
        "http://localhost/mcp",
        "*",
    ],
)
def test_no_places(path: str) -> None:
    assert refused(heads.place, head(path=path)).status == 404


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("BEARER   abc", "abc"),
        ("Basic abc", ""),
        ("abc", ""),
        ("Bearer", ""),
        ("", ""),
    ],
)
def test_the_token_of_a_request(value: str, token: str) -> None:
    assert heads.bearer(head(("Authorization", value))) == token


def test_two_tokens_are_none_that_anybody_has() -> None:
    assert heads.bearer(head(("Authorization", "Bearer a"), ("Authorization", "Bearer b"))) == "a, Bearer b"
    assert heads.bearer(head()) == ""


def test_who_has_no_token_is_told_what_is_wanted() -> None:
    without, wrong = heads.not_authorized(""), heads.not_authorized("x")
    assert (without.status, wrong.status) == (401, 401)
    assert without.extra == ((b"www-authenticate", b'Bearer realm="mcpd"'),)
    assert b'error="invalid_token"' in wrong.extra[0][1]
    answer = json.loads(wrong.body)
    assert answer["id"] is None
    assert answer["error"]["data"]["hint"] == "mcpctl endpoint token AGENT"


# ------------------------------------------------------------- what is asked


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/json;"])
def test_json_is_taken(kind: str) -> None:
    heads.check_content(head(("Content-Type", kind)))
    heads.check_content(head(("Content-Type", kind), ("Content-Encoding", "identity")))


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [("Content-Type", "")],
        [("Content-Type", "text/plain")],
        [("Content-Type", "application/x-www-form-urlencoded")],
        [("Content-Type", "multipart/form-data; boundary=application/json")],
        [("Content-Type", "text/plain, application/json")],
        [("Content-Type", "application/json"), ("Content-Encoding", "gzip")],
    ],
)
def test_nothing_that_a_form_can_send(fields: list[tuple[str, str]]) -> None:
    assert refused(heads.check_content, head(*fields)).status == 415


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [
        ([], (True, True)),
        ([("Accept", "*/*")], (True, True)),
        ([("Accept", "application/json, text/event-stream")], (True, True)),
        ([("Accept", "text/event-stream"), ("Accept", "application/json;q=0.5")], (True, True)),
        ([("Accept", "application/json")], (True, False)),
        ([("Accept", "TEXT/EVENT-STREAM")], (False, True)),
        ([("Accept", "text/html, application/*;q=0.1")], (True, False)),
        ([("Accept", "text/*")], (False, True)),
    ],
)
def test_accept_is_read_leniently(fields: list[tuple[str, str]], accepted: tuple[bool, bool]) -> None:
    assert heads.accepts(head(*fields)) == Accepts(*accepted)


def test_who_takes_neither_gets_neither() -> None:
    assert refused(heads.accepts, head(("Accept", "text/html"))).status == 406


MODERN = ("MCP-Protocol-Version", "2026-07-28")
LEGACY = ("MCP-Protocol-Version", "2025-06-18")
UNKNOWN = ("MCP-Protocol-Version", "v999.0.0")
SESSION = ("Mcp-Session-Id", "s")


@pytest.mark.parametrize(
    ("fields", "asked", "era"),
    [
        ([MODERN], message("tools/list", {"_meta": ENVELOPE}), "stateless"),
        ([MODERN], message("tools/list"), "stateless"),
        ([MODERN], message("initialize"), "stateless"),
        ([MODERN, SESSION], message("tools/list"), "stateless"),
        ([], message("tools/list", {"_meta": ENVELOPE}), "stateless"),
        ([UNKNOWN], message("tools/list", {"_meta": {META + "protocolVersion": "v999.0.0"}}), "stateless"),
        ([UNKNOWN], message("tools/list"), "stateless"),
        ([LEGACY], message("tools/list", {"_meta": ENVELOPE}), "stateless"),
        ([], message("initialize"), "handshake"),
        ([], message("initialize", {"_meta": ENVELOPE}), "handshake"),
        ([LEGACY], message("initialize"), "handshake"),
        ([SESSION], message("tools/list"), "handshake"),
        ([SESSION, LEGACY], message("tools/list", {"_meta": ENVELOPE}), "handshake"),
        ([SESSION, UNKNOWN], message("tools/list"), "handshake"),
        ([SESSION], message("notifications/initialized", ident=None), "handshake"),
    ],
)
def test_the_era_of_a_message(fields: list[tuple[str, str]], asked: jsonrpc.Message, era: str) -> None:
    assert heads.era(head(*fields), asked) == era


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ([], message("tools/list")),
        ([LEGACY], message("tools/list")),
        ([], message("tools/list", {"_meta": {"progressToken": 1}})),
        ([], message("notifications/initialized", ident=None)),
        ([], jsonrpc.read(b'{"jsonrpc":"2.0","id":1,"result":{}}')),
    ],
)
def test_who_neither_has_a_session_nor_says_the_revision_is_told_both_ways(
    fields: list[tuple[str, str]], asked: jsonrpc.Message
) -> None:
    caught = refused(heads.era, head(*fields), asked)
    assert caught.status == 400
    assert caught.failure.code == -32600
    assert "initialize" in caught.failure.message
    assert "2026-07-28" in caught.failure.message


def test_a_session_has_a_revision_with_a_handshake() -> None:
    heads.check_revision(head())
    heads.check_revision(head(LEGACY))
    for said in (UNKNOWN, MODERN):
        assert refused(heads.check_revision, head(said)).status == 400


# ------------------------------------------------ headers that repeat the body

CALL = message("tools/call", {"name": "query", "arguments": {}, "_meta": ENVELOPE})


def routed(*fields: tuple[str, str], method: str = "tools/call", name: str | None = "query") -> Head:
    own = [MODERN, ("Mcp-Method", method)]
    return head(*own, *([("Mcp-Name", name)] if name is not None else []), *fields)


def test_headers_that_repeat_the_body() -> None:
    heads.check_headers(routed(), CALL)
    heads.check_headers(routed(name="  query\t"), CALL)
    heads.check_headers(routed(name="=?base64?cXVlcnk=?="), CALL)
    heads.check_headers(head(("MCP-METHOD", "tools/call"), ("mcp-name", "query"), MODERN), CALL)
    listing = message("tools/list", {"_meta": ENVELOPE})
    heads.check_headers(routed(method="tools/list", name=None), listing)
    heads.check_headers(routed(method="tools/list", name="whatever"), listing)


@pytest.mark.parametrize("name", ["Grüße", " x ", "=?base64?x?=", "a\tb", "日本"])
def test_names_that_no_header_can_hold(name: str) -> None:
    asked = message("resources/read", {"uri": name, "_meta": ENVELOPE})
    coded = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    heads.check_headers(routed(method="resources/read", name=coded), asked)


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [MODERN, ("Mcp-Name", "query")],
        [("Mcp-Method", "tools/call"), ("Mcp-Name", "query")],
        [LEGACY, ("Mcp-Method", "tools/call"), ("Mcp-Name", "query")],
        [MODERN, ("Mcp-Method", "TOOLS/CALL"), ("Mcp-Name", "query")],
        [MODERN, ("Mcp-Method", "prompts/get"), ("Mcp-Name", "query")],
        [MODERN, ("Mcp-Method", "tools/call")],
        [MODERN, ("Mcp-Method", "tools/call"), ("Mcp-Name", "")],
        [MODERN, ("Mcp-Method", "tools/call"), ("Mcp-Name", "Query")],
        [MODERN, ("Mcp-Method", "tools/call"), ("Mcp-Name", "=?base64?cXVlcnk?=")],
        [MODERN, ("Mcp-Method", "tools/call"), ("Mcp-Name", "query"), ("Mcp-Name", "query")],
        [MODERN, MODERN, ("Mcp-Method", "tools/call"), ("Mcp-Name", "query")],
        [MODERN, ("Mcp-Method", "tools/call"), ("mcp-method", "tools/call"), ("Mcp-Name", "query")],
    ],
)
def test_headers_that_differ_from_the_body(fields: list[tuple[str, str]]) -> None:
    caught = refused(heads.check_headers, head(*fields), CALL)
    assert (caught.status, caught.failure.code) == (400, -32020)


def test_a_missing_envelope_is_the_sessions_to_judge() -> None:
    heads.check_headers(head(MODERN), message("tools/list"))
    heads.check_headers(head(MODERN), message("tools/list", {"_meta": {META + "clientCapabilities": {}}}))
    heads.check_headers(head(MODERN), message("tools/list", [1]))


SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
            "dry": {"type": "boolean", "x-mcp-header": "Dry"},
            "sql": {"type": "string"},
        },
    }
).encode()
MIRRORS, _ = read_mirrors(SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({}, []),
        ({"sql": "x"}, []),
        ({"region": None}, []),
        ({"region": "eu"}, [("Mcp-Param-Region", "eu")]),
        ({"region": "eu"}, [("mcp-param-REGION", " eu ")]),
        ({"region": "Hello"}, [("Mcp-Param-Region", "=?base64?SGVsbG8=?=")]),
        ({"region": "SGVsbG8="}, [("Mcp-Param-Region", "SGVsbG8=")]),
        ({"region": "Grüße"}, [("Mcp-Param-Region", "=?base64?R3LDvMOfZQ==?=")]),
        ({"region": ""}, [("Mcp-Param-Region", "")]),
        ({"deep": {"count": 42}}, [("Mcp-Param-Count", "42")]),
        ({"deep": {"count": 42}}, [("Mcp-Param-Count", "42.0")]),
        ({"deep": {"count": 42.0}}, [("Mcp-Param-Count", "42")]),
        ({"deep": {"count": 2**60 + 1}}, [("Mcp-Param-Count", str(2**60 + 1))]),
        ({"dry": True}, [("Mcp-Param-Dry", "true")]),
        ({}, [("Mcp-Param-Other", "1"), ("Mcp-Param-Other", "2")]),
        ({"region": "x" * 5000}, []),
    ],
)
def test_mirrored_arguments(arguments: Any, fields: list[tuple[str, str]]) -> None:
    heads.check_mirrors(head(*fields), MIRRORS, json.dumps(arguments).encode())


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"region": "eu"}, []),
        ({"region": "eu"}, [("Mcp-Param-Region", "EU")]),
        ({"region": "Hello"}, [("Mcp-Param-Region", "=?base64?SGVsbG8?=")]),
        ({"region": "Hello"}, [("Mcp-Param-Region", "=?base64?SGVs!!!bG8=?=")]),
        ({"region": "eu"}, [("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")]),
        ({}, [("Mcp-Param-Region", "eu")]),
        ({"region": None}, [("Mcp-Param-Region", "null")]),
        ({"region": ["eu"]}, [("Mcp-Param-Region", "eu")]),
        ({"deep": {"count": 42}}, [("Mcp-Param-Count", "42.5")]),
        ({"deep": {"count": 42}}, [("Mcp-Param-Count", "4.2e1")]),
        ({"deep": {"count": 2**60 + 1}}, [("Mcp-Param-Count", str(2**60))]),
        ({"count": 42}, [("Mcp-Param-Count", "42")]),
        ({"dry": False}, [("Mcp-Param-Dry", "False")]),
    ],
)
def test_mirrored_arguments_that_differ(arguments: Any, fields: list[tuple[str, str]]) -> None:
    caught = refused(heads.check_mirrors, head(*fields), MIRRORS, json.dumps(arguments).encode())
    assert (caught.status, caught.failure.code) == (400, -32020)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_whatever_the_argument_its_own_header_passes(text: str) -> None:
    arguments = json.dumps({"region": text}).encode()
    [(name, value)] = mirrored(MIRRORS, arguments).items()
    heads.check_mirrors(head((name, value)), MIRRORS, arguments)


# ----------------------------------------------------------------- the answer


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("parse_error", 400),
        ("invalid_request", 400),
        ("unknown_method", 404),
        ("invalid_params", 400),
        ("header_mismatch", 400),
        ("unsupported_revision", 400),
        ("internal", 200),
        ("busy", 200),
    ],
)
@pytest.mark.parametrize("ident", [b"1", b'"a,\\"error\\":"', b"null", b'"' + b"x" * 298 + b'"'])
def test_the_status_of_an_error(kind: str, status: int, ident: bytes) -> None:
    line = jsonrpc.error_line(ident, jsonrpc.error_text(KINDS[kind], "no"))
    assert heads.status_of(line) == status


def test_a_missing_capability_is_a_bad_request() -> None:
    assert heads.status_of(jsonrpc.error_line(b"1", b'{"code":-32021,"message":"no"}')) == 400


@pytest.mark.parametrize(
    "result", [b"{}", b'{"x":"","error":{"code":-32601}}', b'{"content":[{"text":"\\",\\"error\\":"}]}']
)
def test_a_result_is_200_whatever_stands_in_it(result: bytes) -> None:
    assert heads.status_of(jsonrpc.result_line(b"1", result)) == 200


# -------------------------------------------------------------------- anything

NAMES = st.sampled_from(
    [
        *("host", "origin", "authorization", "accept", "content-type", "content-encoding", "mcp-session-id"),
        *("mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region", "last-event-id"),
    ]
)
VALUES = st.sampled_from(
    [
        b"localhost",
        b"http://localhost",
        b"2026-07-28",
        b"2025-11-25",
        b"application/json",
        b"tools/call",
        b"query",
    ]
) | st.binary(max_size=40)


@given(
    st.lists(st.tuples(NAMES.map(str.encode) | st.binary(max_size=9), VALUES), max_size=12),
    st.binary(max_size=20),
    st.dictionaries(
        st.sampled_from(["name", "uri", "_meta", "arguments"]), st.none() | st.text() | st.just(ENVELOPE)
    ),
)
def test_whatever_comes_it_is_let_in_or_refused(
    fields: list[tuple[bytes, bytes]], path: bytes, params: dict[str, Any]
) -> None:
    asked = message("tools/call", params)
    found = read_head("POST", path, fields)
    for judge in (
        heads.check_host,
        heads.place,
        heads.bearer,
        heads.check_content,
        heads.accepts,
        heads.check_revision,
        lambda head: heads.era(head, asked),
        lambda head: heads.check_headers(head, asked),
        lambda head: heads.check_mirrors(head, MIRRORS, b'{"region":"eu"}'),
    ):
        answer = None
        try:
            judge(found)
        except Refused as caught:
            answer = caught
        assert answer is None or 400 <= answer.status < 500
        assert answer is None or json.loads(answer.body)["error"]["message"]
