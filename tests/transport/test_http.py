"""Streamable HTTP as one connection sees it, against a server without a network."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.http import HttpFailed
from mcpd.protocol.revisions import REVISIONS
from mcpd.transport import http
from mcpd.transport.base import ConnectionLost, Ending
from mcpd.upstream.connection import QUEUE_MAX
from tests.transport.web import (
    FOREVER,
    HELLO,
    JSON,
    MODERN,
    Ends,
    Reply,
    Sent,
    Web,
    event,
    legacy,
    line,
    modern,
    result,
    running,
    usual,
)


@pytest.mark.parametrize("form", ["json", "stream"])
async def test_the_session_is_there_before_the_answer_is_handed_on(form: str) -> None:
    """Hazard: `initialized` is written while the answer to `initialize` is handed on."""

    def serve(sent: Sent) -> Reply | HttpFailed:
        if str(sent) == "initialize" and form == "stream":
            return Reply.streams(event(result(sent, **HELLO)), FOREVER, mcp_session_id="s-41")
        return usual()(sent)

    async with running(serve) as ends:

        def follow(message: dict[str, Any]) -> None:
            ends.http.settle(REVISIONS["2025-06-18"])
            ends.http.write(line({"method": "notifications/initialized"}))

        ends.ear.then = follow
        await ends.ask(1, "initialize")
    assert ends.web.those("notifications/initialized")[0].headers["mcp-session-id"] == "s-41"


async def test_a_session_comes_from_a_successful_initialize_alone() -> None:
    """PY 1.x puts one even on error answers (3.2)."""

    def serve(sent: Sent) -> Reply:
        if str(sent) == "initialize" and sent.message["id"] == 1:
            return Reply.says({"id": 1, "error": {"code": -1, "message": "no"}}, mcp_session_id="bad")
        if str(sent) == "initialize":
            return Reply.says(result(sent, **HELLO))
        return Reply.says(result(sent), mcp_session_id="worse") if sent.message.get("id") else Reply(202)

    async with running(serve) as ends:
        await ends.ask(0, "server/discover")
        await ends.ask(1, "initialize")
        await ends.ask(2, "initialize")
        ends.http.settle(REVISIONS["2025-06-18"])
        ends.http.write(line({"method": "notifications/initialized"}))
        await ends.ask(3)
        await ends.ask(4)
    assert all("mcp-session-id" not in sent.headers for sent in ends.web.sent)
    assert "DELETE" not in ends.web.names


@pytest.mark.parametrize("session", ["a b", "é", "x" * 1025])
async def test_a_session_id_against_the_rules_is_not_used(session: str) -> None:
    async with running(usual(session=session)) as ends:
        await ends.shake_hands()
        await ends.ask(3)
    assert all("mcp-session-id" not in sent.headers for sent in ends.web.sent)
    assert ends.remarks


NO_SESSION = {"id": None, "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}


@pytest.mark.parametrize(
    "reply",
    [
        Reply(404),
        Reply.says(NO_SESSION, 404),
        Reply.says({**NO_SESSION, "id": 3}, 404),
        Reply.says(NO_SESSION, 400),
        Reply.says({**NO_SESSION, "id": 3}, 400),
        Reply.says({**NO_SESSION, "id": "server-error"}, 400),
        Reply.says(NO_SESSION, 503),
        Reply(400, b"Bad Request", content_type="text/plain"),
    ],
)
async def test_a_lost_session_ends_the_connection_to_be_opened_anew(reply: Reply) -> None:
    """404 by the letter, 400 and 503 by experience (section 11); the request never reached the server."""
    async with legacy(lambda sent: reply) as ends:
        await ends.ask(3)
        ((key, failure),) = ends.ear.failures
        assert key == b"3"
        assert isinstance(failure, ConnectionLost)
        (ending,) = ends.ear.endings
        assert (ending.reason, ending.anew, ending.lasting) == ("session_lost", True, False)
        assert str(reply.status) in ending.message
        assert ends.ear.order == ["failed", "lost"]
        assert not ends.http.write(line({"id": 4, "method": "ping"}))
    assert "DELETE" not in ends.web.names, "there is none to be ended"


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (400, -32602, "bad arguments"),
        (400, -32000, "quota of the plan is used up"),
        (404, -32601, "Method not found"),
        (503, -32000, "quota"),
    ],
)
async def test_an_error_about_the_request_is_no_lost_session(status: int, code: int, words: str) -> None:
    async with legacy(
        lambda sent: Reply.says({"id": 3, "error": {"code": code, "message": words}}, status)
    ) as ends:
        await ends.ask(3)
        assert ends.ear.heard[-1]["error"]["message"] == words
        assert ends.ear.endings == []


@pytest.mark.parametrize("status", [404, 503])
async def test_a_notice_meets_the_lost_session_as_well(status: int) -> None:
    def serve(sent: Sent) -> Reply | HttpFailed:
        if str(sent) == "notifications/progress":
            return Reply.says(NO_SESSION, status)
        return usual()(sent)

    async with running(serve) as ends:
        await ends.shake_hands()
        ends.http.write(line({"method": "notifications/progress"}))
        await trio.testing.wait_all_tasks_blocked()
        assert [ending.reason for ending in ends.ear.endings] == ["session_lost"]


async def test_a_refused_notice_is_remarked_and_nothing_more() -> None:
    def serve(sent: Sent) -> Reply | HttpFailed:
        return Reply(400, b"what?") if str(sent) == "notifications/progress" else usual()(sent)

    async with running(serve) as ends:
        await ends.shake_hands()
        ends.http.write(line({"method": "notifications/progress"}))
        await ends.ask(3)
        assert ends.ear.heard[-1]["id"] == 3
        assert "notifications/progress was refused" in ends.remarks[-1]


async def test_a_refused_login_ends_the_connection_for_good() -> None:
    async with legacy(lambda sent: Reply(401, b'{"error":"invalid_token"}', **JSON)) as ends:
        await ends.ask(3)
        failure = ends.ear.failure(b"3")
        assert (failure.kind, failure.status, failure.reached) == ("needs_login", 401, False)
        assert ends.ear.endings == [Ending("needs_auth", failure.message, lasting=True)]
        assert "401" in failure.message
        assert "authorization" in failure.message
    assert "DELETE" not in ends.web.names


async def test_the_session_is_ended_when_we_leave_and_that_takes_no_time() -> None:
    def serve(sent: Sent) -> Reply | HttpFailed:
        if str(sent) == "DELETE":
            return Reply(200, FOREVER)
        return Reply.streams(FOREVER) if str(sent) == "tools/call" else usual()(sent)

    async with running(serve) as ends:
        await ends.shake_hands()
        await ends.ask(3)
        assert ends.web.open == 1
        began = trio.current_time()
    assert trio.current_time() - began <= http.LEAVE_WAIT
    assert ends.web.names[-1] == "DELETE"
    assert ends.ear.endings == [], "who cancels knows it"


async def test_nothing_overtakes_initialized() -> None:
    def serve(sent: Sent) -> Reply | HttpFailed:
        return Reply(202) if str(sent) == "notifications/initialized" else usual()(sent)

    class Slow(Web):
        @asynccontextmanager
        async def stream(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
            async with super().stream(*args, **more) as answer:
                if str(self.sent[-1]) == "notifications/initialized":
                    await trio.sleep(3)
                yield answer

    ends = Ends(Slow(serve))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.http.run, ends.ear)
        await ends.ask(1, "initialize")
        ends.http.settle(REVISIONS["2025-06-18"])
        ends.http.write(line({"method": "notifications/initialized"}))
        await ends.ask(3)
        ends.http.write(line({"id": "p", "result": {}}))
        await ends.ask(4)
        assert ends.web.names == ["initialize", "notifications/initialized"]
        assert ends.http.queued > 0
        ends.cancel(4)
        await trio.sleep(3)
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(ends.web.names[2:]) == ["GET", "answer", "tools/call"]
        assert ends.web.those("tools/call")[0].message["id"] == 3, "and 4 was never sent"
        assert ends.http.queued == 0
        nursery.cancel_scope.cancel()


async def test_answers_that_the_server_does_not_take_are_few_on_their_way() -> None:
    """A storm of pings once became as many tasks and requests, and the loop stood still for seconds."""

    class Deaf(Web):
        @asynccontextmanager
        async def stream(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
            async with super().stream(*args, **more) as answer:
                if str(self.sent[-1]) == "answer":
                    await trio.sleep_forever()
                yield answer

    ends = Ends(Deaf(usual()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.http.run, ends.ear)
        await ends.shake_hands()
        written = 0
        while ends.http.queued <= QUEUE_MAX:
            ends.answer("p")
            written += 1
        assert written < 2100, "what is queued bounds their number, not their bytes alone"
        await ends.ask(3)
        assert ends.ear.heard[-1]["id"] == 3, "calls go on"
        assert len(ends.web.those("answer")) == http.TELLING
        await trio.sleep(http.TELL_WAIT + 1)
        assert ends.http.queued == 0
        assert len(ends.web.those("answer")) == http.TELLING, "whose time was over while they waited"
        nursery.cancel_scope.cancel()


async def test_what_is_written_before_the_beginning_is_sent_then() -> None:
    ends = Ends(Web(usual()))
    ends.http.write(line({"id": 1, "method": "initialize"}))
    await trio.testing.wait_all_tasks_blocked()
    assert ends.web.sent == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.http.run, ends.ear)
        await trio.testing.wait_all_tasks_blocked()
        assert ends.ear.heard[0]["id"] == 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, content_type="application/json"),
        Reply(204),
        Reply(202, b"Accepted", content_type="text/plain; charset=UTF-8"),
        Reply(202, FOREVER),
        Reply.streams(FOREVER),
        Reply(202, *[b"x" * 65536] * 100),
        Reply(500, b"<html>"),
        HttpFailed("unreachable", "refused", sent=False),
    ],
)
async def test_notices_may_be_answered_by_anything(reply: Reply | HttpFailed) -> None:
    def serve(sent: Sent) -> Reply | HttpFailed:
        return reply if str(sent) == "notifications/initialized" else usual()(sent)

    async with running(serve) as ends:
        await ends.shake_hands()
        await ends.ask(3)
        await trio.sleep(2)
        assert ends.ear.heard[-1]["id"] == 3
        assert ends.web.open == 0
        accepted = isinstance(reply, Reply) and reply.status < 300
        assert ("GET" in ends.web.names) is accepted, "the session's stream follows an accepted one only"


async def test_bytes_count_as_queued_until_the_server_reacts() -> None:
    asked = line({"id": 3, "method": "tools/call", "params": {"x": "y" * 1000}})
    async with legacy(lambda sent: Reply.streams(5.0, event(result(sent)))) as ends:
        ends.http.write(asked)
        assert ends.http.queued == len(asked)
        await trio.testing.wait_all_tasks_blocked()
        assert ends.http.queued == 0
        assert ends.web.open == 1
        await trio.sleep(6)
        assert ends.ear.heard[-1]["id"] == 3


async def test_many_long_calls_keep_nobody_from_a_connection() -> None:
    async with legacy(lambda sent: Reply.streams(FOREVER)) as ends:
        for key in range(3, 3 + http.MANY + 1):
            await ends.ask(key)
        assert [sent.apart for sent in ends.web.sent] == [False] * http.MANY + [True]
        ends.cancel(3)
        await trio.testing.wait_all_tasks_blocked()
        assert ends.web.those("notifications/cancelled")[0].apart


async def test_a_stream_of_notices_has_a_connection_of_its_own() -> None:
    async with modern(lambda sent: Reply.streams(FOREVER)) as ends:
        await ends.ask(3, "subscriptions/listen")
        await ends.ask(4, "tools/call")
        assert [sent.apart for sent in ends.web.sent] == [True, False]


async def test_a_legacy_server_is_told_before_the_stream_is_closed() -> None:
    async with legacy(lambda sent: Reply.streams(FOREVER)) as ends:
        await ends.ask(3)
        await ends.ask(4)
        ends.cancel(3)
        ends.cancel(99)
        await trio.testing.wait_all_tasks_blocked()
        assert ends.web.names == ["tools/call", "tools/call", "notifications/cancelled"]
        assert [sent.closed for sent in ends.web.sent] == [True, False, True]
        assert ends.ear.failures == [], "nobody waits for it any more"


async def test_the_stream_is_closed_though_the_server_hears_of_nothing() -> None:
    def serve(sent: Sent) -> Reply | HttpFailed:
        if str(sent) == "notifications/cancelled":
            return HttpFailed("failed", "no", sent=True)
        return Reply.streams(FOREVER) if str(sent) == "tools/call" else usual()(sent)

    async with running(serve) as ends:
        await ends.shake_hands()
        await ends.ask(3)
        ends.cancel(3)
        await trio.testing.wait_all_tasks_blocked()
        assert ends.web.those("tools/call")[0].closed


async def test_a_stateless_server_learns_it_by_the_end_of_the_stream() -> None:
    async with modern(lambda sent: Reply.streams(FOREVER)) as ends:
        await ends.ask(3, **MODERN)
        ends.cancel(3)
        await trio.testing.wait_all_tasks_blocked()
        assert ends.web.names == ["tools/call"]
        assert ends.web.sent[0].closed
        assert ends.ear.failures == []


async def test_only_the_first_end_is_told_and_nothing_after_it() -> None:
    async with legacy(lambda sent: Reply(401)) as ends:
        for key in (3, 4, 5):
            ends.http.write(line({"id": key, "method": "tools/call"}))
        await trio.testing.wait_all_tasks_blocked()
        assert ends.ear.order == ["failed", "lost"]


async def test_a_bug_in_what_is_told_reaches_whoever_runs_the_transport() -> None:
    ends = Ends(Web(usual()))

    def stumble(message: dict[str, Any]) -> None:
        raise RuntimeError("bug")

    ends.ear.then = stumble
    ends.http.write(line({"id": 1, "method": "initialize"}))
    with pytest.RaisesGroup(RuntimeError):
        await ends.http.run(ends.ear)
