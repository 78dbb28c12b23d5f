"""HTTP+SSE of 2024-11-05 against a server without a network (3.4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.http import HttpFailed
from mcpd.protocol.revisions import REVISIONS
from mcpd.transport import legacy_sse
from mcpd.transport.base import COST, ConnectionLost, Ending
from mcpd.transport.legacy_sse import LegacySse
from tests.transport.web import FOREVER, JSON, Ear, Piece, Reply, Sent, Serve, Web, event, line

SSE = "http://127.0.0.1:8931/sse"
ENDPOINT = b"event: endpoint\r\ndata: /messages/?session_id=5\r\n\r\n"


class Old:
    """A transport, what it tells, and the two ends of its server: what it was asked, what it says."""

    def __init__(self, serve: Serve | None, **own: str) -> None:
        self.says, heard = trio.open_memory_channel[bytes](100)
        self.ear = Ear()
        self.remarks: list[str] = []

        def usual(sent: Sent) -> Reply | HttpFailed:
            if sent.method == "GET":
                return Reply.streams(heard)
            return serve(sent) if serve else Reply(202, b"Accepted")

        self.web = Web(usual)
        self.sse = LegacySse(self.web, SSE, own, self.remarks.append)

    async def write(self, **message: Any) -> None:
        assert self.sse.write(line(message))
        await trio.testing.wait_all_tasks_blocked()

    async def say(self, text: bytes) -> None:
        self.says.send_nowait(text)
        await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def running(serve: Serve | None = None, *, opened: bool = True, **own: str) -> AsyncIterator[Old]:
    old = Old(serve, **own)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(old.sse.run, old.ear)
        if opened:
            await old.say(ENDPOINT)
        yield old
        nursery.cancel_scope.cancel()
    assert old.web.open == 0
    assert not old.sse.write(line({"method": "late"}))


async def test_messages_wait_for_the_endpoint_and_answers_come_on_the_stream() -> None:
    async with running(opened=False, Authorization="Bearer t") as old:
        await old.write(id=1, method="initialize")
        assert old.web.names == ["GET"]
        assert old.sse.queued > 0
        await old.say(ENDPOINT)
        assert old.web.names == ["GET", "initialize"]
        assert old.sse.queued == 0
        await old.say(event({"id": 1, "result": {"protocolVersion": "2024-11-05"}}))
        await old.say(event({"id": "p", "method": "ping"}) + b"event: odd\ndata: {}\n\n: hi\n\n")
        await old.write(id="p", result={})
        assert [(message["id"], on) for message, on in old.ear.messages] == [(1, b""), ("p", b"")]
    get, post, pong = old.web.sent
    assert (get.url, get.headers["accept"], get.apart) == (SSE, "text/event-stream", True)
    assert post.url == pong.url == "http://127.0.0.1:8931/messages/?session_id=5"
    assert all(sent.headers["authorization"] == "Bearer t" for sent in old.web.sent)
    assert old.ear.failures == []


async def test_a_newer_revision_is_named_in_headers_from_then_on() -> None:
    async with running() as old:
        await old.write(id=1, method="initialize")
        old.sse.settle(REVISIONS["2025-06-18"])
        await old.write(method="notifications/initialized")
    versions = [sent.headers.get("mcp-protocol-version") for sent in old.web.sent]
    assert versions == [None, None, "2025-06-18"]


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (b"messages", "http://127.0.0.1:8931/messages"),
        (b"?x=1", "http://127.0.0.1:8931/sse?x=1"),
        (b"http://127.0.0.1:8931/m#y", "http://127.0.0.1:8931/m"),
    ],
)
async def test_the_endpoint_is_read_as_a_link_on_the_page_of_the_stream(endpoint: bytes, url: str) -> None:
    async with running(opened=False) as old:
        await old.say(b"event: endpoint\ndata: " + endpoint + b"\n\n")
        await old.write(id=1, method="initialize")
        assert old.web.sent[-1].url == url


@pytest.mark.parametrize(
    "endpoint",
    [
        b"http://127.0.0.1:8932/messages",
        b"https://127.0.0.1:8931/messages",
        b"//evil.example/messages",
        b"http://u:p@127.0.0.1:8931/messages",
        b"javascript:alert(1)",
        b"http://[::bad",
    ],
)
async def test_no_message_goes_to_another_origin(endpoint: bytes) -> None:
    async with running(opened=False) as old:
        await old.write(id=1, method="initialize")
        await old.say(b"event: endpoint\ndata: " + endpoint + b"\n\n")
        assert old.web.names == ["GET"]
        (ending,) = old.ear.endings
        assert (ending.reason, ending.lasting) == ("bad_answer", True)
        assert "another origin" in ending.message


@pytest.mark.parametrize(
    ("reply", "ending"),
    [
        (Reply(405, allow="POST"), ("bad_answer", "405", False)),
        (Reply(404), ("bad_answer", "404", False)),
        (Reply(200, b"<html>", content_type="text/html"), ("bad_answer", "web page", False)),
        (Reply(500), ("bad_answer", "500", False)),
        (Reply(401), ("needs_auth", "401", True)),
        (Reply(403), ("access_denied", "403", False)),
        (Reply.streams(b"data: {}\n\n"), ("bad_answer", "without saying where", False)),
        (HttpFailed("unreachable", "refused", sent=False), ("unreachable", "refused", False)),
        (HttpFailed("not_responding", "late", sent=True), ("not_responding", "late", False)),
    ],
)
async def test_a_url_without_such_a_stream_says_so(
    reply: Reply | HttpFailed, ending: tuple[str, str, bool]
) -> None:
    sse = LegacySse(Web(lambda sent: reply), SSE, {}, lambda text: None)
    ear = Ear()
    await sse.run(ear)
    (told,) = ear.endings
    assert (told.reason, told.lasting, told.anew) == (ending[0], ending[2], False)
    assert ending[1] in told.message


@pytest.mark.parametrize("end", [(), (HttpFailed("failed", "cut", sent=True),)])
@pytest.mark.parametrize("settled", [True, False])
async def test_with_the_stream_the_session_is_lost(end: tuple[Piece, ...], settled: bool) -> None:
    sse = LegacySse(Web(lambda sent: Reply.streams(ENDPOINT, 5.0, *end)), SSE, {}, lambda text: None)
    ear = Ear()
    if settled:
        sse.settle(REVISIONS["2024-11-05"])
    await sse.run(ear)
    (told,) = ear.endings
    assert (told.reason, told.anew) == (("session_lost", True) if settled else ("failed", False))
    assert not sse.write(line({"id": 1, "method": "ping"}))


@pytest.mark.parametrize(
    ("reply", "kind", "status"),
    [
        (Reply(400, b"Received a bad message", content_type="text/plain"), "bad_answer", 400),
        (Reply(502, b"<html>", content_type="text/html"), "bad_answer", 502),
        (Reply(405, allow="GET"), "bad_answer", 405),
        (HttpFailed("unreachable", "refused", sent=False), "unavailable", 0),
        (HttpFailed("failed", "reset", sent=True), "outcome_unknown", 0),
    ],
)
async def test_a_message_that_is_not_taken_ends_its_request(
    reply: Reply | HttpFailed, kind: str, status: int
) -> None:
    async with running(lambda sent: reply) as old:
        await old.write(id=1, method="tools/call")
        await old.write(method="notifications/progress")
        failure = old.ear.failure(b"1")
        assert (failure.kind, failure.status) == (kind, status)
        assert "notifications/progress was not taken" in old.remarks[-1]
        assert old.ear.endings == []


async def test_an_error_in_the_body_of_a_refusal_is_the_answer() -> None:
    async with running(
        lambda sent: Reply.says({"id": 1, "error": {"code": -32602, "message": "x"}}, 400)
    ) as old:
        await old.write(id=1, method="tools/call")
        assert old.ear.heard[0]["error"]["code"] == -32602
        assert old.ear.failures == []


async def test_a_session_that_the_server_has_forgotten_is_opened_anew() -> None:
    async with running(lambda sent: Reply(404, b"Could not find session")) as old:
        old.sse.settle(REVISIONS["2024-11-05"])
        await old.write(id=1, method="tools/call")
        assert old.ear.order == ["failed", "lost"]
        assert old.ear.endings[0].anew
        ((_, failure),) = old.ear.failures
        assert isinstance(failure, ConnectionLost), "it never ran, so it may run in the next session (a21)"


async def test_ids_may_come_back_as_strings_in_a_refusal_as_well() -> None:
    refused = {"id": "1", "error": {"code": -32602, "message": "bad arguments"}}
    async with running(lambda sent: Reply.says(refused, 400)) as old:
        await old.write(id=1, method="tools/call")
        assert (old.ear.heard, old.ear.failures) == ([{"jsonrpc": "2.0", **refused}], [])


async def test_a_withdrawn_token_ends_the_connection_for_good() -> None:
    async with running(lambda sent: Reply(401, b"{}", **JSON)) as old:
        await old.write(id=1, method="tools/call")
        failure = old.ear.failure(b"1")
        assert old.ear.endings == [Ending("needs_auth", failure.message, lasting=True)]


async def test_a_message_that_nobody_takes_is_given_up() -> None:
    waiting = 0

    class Deaf(Web):
        @asynccontextmanager
        async def stream(self, method: str, *args: Any, **more: Any) -> AsyncIterator[Any]:
            nonlocal waiting
            if method == "POST":
                waiting += 1
                try:
                    await trio.sleep_forever()
                finally:
                    waiting -= 1
            async with super().stream(method, *args, **more) as answer:
                yield answer

    sse = LegacySse(Deaf(lambda sent: Reply.streams(ENDPOINT, FOREVER)), SSE, {}, lambda text: None)
    ear = Ear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sse.run, ear)
        sse.write(line({"id": 1, "method": "tools/call"}))
        await trio.sleep(legacy_sse.TAKE_WAIT + 1)
        assert ear.failure(b"1").reason == "not_responding"
        assert sse.queued == 0
        for _ in range(1000):
            sse.write(line({"id": "p", "result": {}}))
        assert sse.queued > 1000 * COST
        await trio.testing.wait_all_tasks_blocked()
        assert waiting == legacy_sse.TELLING
        await trio.sleep(legacy_sse.TAKE_WAIT + 1)
        assert (waiting, sse.queued) == (0, 0)
        nursery.cancel_scope.cancel()


async def test_a_message_over_the_limit_is_dropped_and_the_stream_goes_on() -> None:
    async with running() as old:
        await old.say(b'data: {"jsonrpc":"2.0","id":5,"result":"')
        for _ in range(17):
            await old.say(b"x" * 1024 * 1024)
        await old.say(b'"}\n\n' + event({"id": 6, "result": {}}))
        assert [message["id"] for message in old.ear.heard] == [6]
        ((head, _),) = old.ear.too_long
        assert b'"id":5' in head
