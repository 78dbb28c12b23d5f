"""What stands in headers, and the end of sessions (3.2, 3.3)."""

from __future__ import annotations

import pytest
import trio

from mcpd.catalog.mirror import Mirror
from mcpd.http import HttpFailed
from mcpd.protocol.revisions import REVISIONS
from tests.transport.web import (
    HELLO,
    MODERN,
    Reply,
    Sent,
    event,
    legacy,
    line,
    modern,
    result,
    running,
    usual,
)


async def test_the_handshake_has_no_headers_of_a_session_and_the_rest_has_them_all() -> None:
    async with running(usual()) as ends:
        await ends.shake_hands()
        await ends.ask(3)
        http_session = {"mcp-session-id": "s-41", "mcp-protocol-version": "2025-06-18"}
    assert ends.web.names == ["initialize", "notifications/initialized", "GET", "tools/call", "DELETE"]
    for sent in ends.web.sent:
        found = {name: value for name, value in sent.headers.items() if name.startswith("mcp-")}
        assert found == ({} if str(sent) == "initialize" else http_session)
    for sent in ends.web.sent:
        if sent.method == "POST":
            assert sent.headers["accept"] == "application/json, text/event-stream"
            assert sent.headers["content-type"] == "application/json"
    assert ends.web.those("GET")[0].headers["accept"] == "text/event-stream"


async def test_what_a_server_asks_before_it_answers_initialize_is_answered_in_the_session_to_come() -> None:
    def serve(sent: Sent) -> Reply | HttpFailed:
        if str(sent) == "initialize":
            ping = event({"id": "p", "method": "ping"})
            return Reply.streams(ping, 1.0, event(result(sent, **HELLO)), mcp_session_id="s-41")
        return usual()(sent)

    async with running(serve) as ends:
        ends.ear.then = lambda message: ends.answer("p") if message.get("method") == "ping" else None
        await ends.ask(1, "initialize")
        (pong,) = ends.web.those("answer")
        assert pong.headers["mcp-session-id"] == "s-41"


async def test_what_was_refused_outside_of_the_session_says_nothing_about_it() -> None:
    """Hazard: it is answered when the session has begun meanwhile."""
    late = Reply(404, 1.0, b"no session")

    def serve(sent: Sent) -> Reply | HttpFailed:
        return late if str(sent) in ("server/discover", "notifications/x") else usual()(sent)

    async with running(serve) as ends:
        await ends.ask(0, "server/discover")
        ends.http.write(line({"method": "notifications/x"}))
        await ends.shake_hands()
        await trio.sleep(2)
        assert ends.ear.endings == []
        assert ends.ear.failure(b"0").status == 404


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
async def test_older_revisions_are_not_named_in_headers(revision: str) -> None:
    async with legacy(revision=revision) as ends:
        await ends.ask(3)
    assert all("mcp-protocol-version" not in sent.headers for sent in ends.web.sent)


async def test_a_stateless_request_says_in_headers_what_its_body_says() -> None:
    asked = {"name": "query", "arguments": {"region": "Grüße", "sql": "select 1"}, **MODERN}
    async with running(lambda sent: Reply.says(result(sent))) as ends:
        ends.mirrors["query"] = (Mirror("Region", ("region",), "string"),)
        await ends.ask(1, "server/discover", **MODERN)
        ends.http.settle(REVISIONS["2026-07-28"])
        await ends.ask(2, "tools/call", **asked)
        await ends.ask(3, "resources/read", uri="note:///a%20b?id=1", **MODERN)
        await ends.ask(4, "prompts/get", name=" p", **MODERN)
        await ends.ask(5, "tasks/get", taskId="t-1", **MODERN)
        await ends.ask(6, "tools/list", name="not this", **MODERN)
    found = [{k: v for k, v in sent.headers.items() if k.startswith("mcp-")} for sent in ends.web.sent]
    version = {"mcp-protocol-version": "2026-07-28"}
    assert found == [
        {**version, "mcp-method": "server/discover"},
        {
            **version,
            "mcp-method": "tools/call",
            "mcp-name": "query",
            "mcp-param-region": "=?base64?R3LDvMOfZQ==?=",
        },
        {**version, "mcp-method": "resources/read", "mcp-name": "note:///a%20b?id=1"},
        {**version, "mcp-method": "prompts/get", "mcp-name": "=?base64?IHA=?="},
        {**version, "mcp-method": "tasks/get", "mcp-name": "t-1"},
        {**version, "mcp-method": "tools/list"},
    ]


async def test_a_mirrored_argument_too_long_for_a_header_is_refused_here() -> None:
    async with modern(lambda sent: Reply.says(result(sent))) as ends:
        ends.mirrors["query"] = (Mirror("Region", ("region",), "string"),)
        await ends.ask(2, "tools/call", name="query", arguments={"region": "x" * 5000}, **MODERN)
        failure = ends.ear.failure(b"2")
        assert (failure.kind, failure.reached) == ("too_large", False)
    assert ends.web.sent == []


async def test_a_name_too_long_for_a_header_is_refused_here() -> None:
    """Servers close the connection in the middle of it, and then nobody knows what has happened."""
    async with modern(lambda sent: Reply.says(result(sent))) as ends:
        await ends.ask(2, "resources/read", uri="note:///" + "x" * 5000, **MODERN)
        failure = ends.ear.failure(b"2")
        assert (failure.kind, failure.reached) == ("too_large", False)
        assert "`uri`" in failure.message
    assert ends.web.sent == []


async def test_the_definitions_headers_go_along_but_never_in_place_of_the_transports() -> None:
    own = {
        "Authorization": "Bearer t",
        "X_Key": "k",
        "Accept": "*/*",
        "Mcp_Session_Id": "x",
        "Last_Event_ID": "9",
    }
    async with running(usual(), **own) as ends:
        await ends.shake_hands()
    for sent in ends.web.sent:
        assert (sent.headers["authorization"], sent.headers["x-key"]) == ("Bearer t", "k")
        assert sent.headers.get("accept") != "*/*"
        assert sent.headers.get("mcp-session-id") != "x"
        assert "last-event-id" not in sent.headers
    assert "Accept" in ends.remarks[0]
    assert "Bearer" not in ends.remarks[0]
