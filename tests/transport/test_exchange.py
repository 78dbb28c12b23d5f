"""One request: the forms of its answer, and the rest of a stream that broke (3.2, 3.3, section 11)."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.http import HttpFailed
from mcpd.protocol.revisions import REVISIONS
from mcpd.transport import exchange
from tests.transport.web import (
    FOREVER,
    JSON,
    MODERN,
    Ends,
    FakeAnswer,
    Piece,
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

ANSWER = b'{"jsonrpc":"2.0","id":3,"result":{"ok":true}}'


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, ANSWER, content_type="application/json"),
        Reply(200, ANSWER, content_type="Application/JSON;charset=UTF-8"),
        Reply(200, ANSWER, content_type="text/html"),
        Reply(200, ANSWER),
        Reply(
            200,
            b"\xef\xbb\xbf\r\n " + ANSWER.replace(b",", b",\r\n ") + b"\n",
            content_type="application/json",
        ),
        Reply(201, ANSWER[:20], ANSWER[20:], content_type="application/json"),
        Reply.streams(b"data: " + ANSWER + b"\n\n"),
        Reply.streams(b"data: " + ANSWER + b"\n\n", FOREVER),
        Reply(200, b"data: " + ANSWER + b"\n\n", content_type="Text/Event-Stream; charset=utf-8"),
        Reply.streams(b"event: message\r", b"\ndata: " + ANSWER + b"\r", b"\n\r", FOREVER),
        Reply.streams(b"data: " + ANSWER.replace(b",", b",\ndata: ") + b"\n\n"),
        Reply.streams(
            b": hi\n\nevent: ping\ndata: {}\n\nid: 7\ndata:\n\nretry: 15000\n\ndata: " + ANSWER + b"\n\n"
        ),
    ],
)
async def test_an_answer_arrives_in_whatever_form_it_comes(reply: Reply) -> None:
    async with legacy(lambda sent: reply) as ends:
        began = trio.current_time()
        await ends.ask(3)
        assert ends.ear.messages == [({"jsonrpc": "2.0", "id": 3, "result": {"ok": True}}, b"3")]
        assert trio.current_time() == began
        await trio.sleep(0.3)
        assert ends.web.open == 0, "a stream that its server leaves open is closed"
        assert ends.web.sent[0].whole is (FOREVER not in reply.body), "else the connection would be lost"
        assert ends.ear.failures == []


async def test_what_comes_before_the_answer_is_handed_on_with_the_request_it_came_for() -> None:
    first: list[dict[str, Any]] = [
        {"method": "notifications/message", "params": {"level": "info", "data": "x"}},
        {"id": "p1", "method": "ping"},
        {"id": 424242, "result": {}},
    ]

    def serve(sent: Sent) -> Reply:
        return Reply.streams(*[event(message) for message in first], event(result(sent, ok=True)))

    async with legacy(serve) as ends:

        def pong(message: dict[str, Any]) -> None:
            if message.get("id") == "p1":
                ends.http.write(line({"id": "p1", "result": {}}))

        ends.ear.then = pong
        await ends.ask(3)
    assert [(message.get("id"), on) for message, on in ends.ear.messages] == [
        (None, b"3"),
        ("p1", b"3"),
        (424242, b"3"),
        (3, b"3"),
    ]
    (answer,) = ends.web.those("answer")
    assert answer.message == {"jsonrpc": "2.0", "id": "p1", "result": {}}
    assert answer.headers["mcp-session-id"] == "s-41"


@pytest.mark.parametrize("key", [None, "server-error", 99, "3", 3.0])
@pytest.mark.parametrize("status", [200, 400, 404, 405, 500, 503])
async def test_an_error_under_an_odd_id_answers_the_request_that_it_came_for(key: Any, status: int) -> None:
    """2; over HTTP a POST has one request. Without a session, 400 and 404 say nothing about one."""
    refusal = {"id": key, "error": {"code": -32000, "message": "quota of the plan"}}
    async with running(usual(lambda sent: Reply.says(refusal, status), session="")) as ends:
        await ends.shake_hands()
        await ends.ask(3)
        assert ends.ear.failures == []
        assert ends.ear.messages[-1] == ({"jsonrpc": "2.0", **refusal}, b"3")


@pytest.mark.parametrize(
    ("reply", "kind", "reason", "reached", "words"),
    [
        (Reply(202), "bad_answer", "bad_answer", True, "202 (Accepted) and no answer in it"),
        (
            Reply(200, b"<!doctype html>x", content_type="text/html"),
            "bad_answer",
            "bad_answer",
            True,
            "web page",
        ),
        (Reply(200, b"  <html>x", content_type="text/plain"), "bad_answer", "bad_answer", True, "web page"),
        (Reply(200, b"{}", **JSON), "bad_answer", "bad_answer", True, "no JSON-RPC answer: {}"),
        (Reply(200, b"[]", **JSON), "bad_answer", "bad_answer", True, "no JSON-RPC answer"),
        (Reply(200, b'{"id":9,"result":{}}', **JSON), "bad_answer", "bad_answer", True, "no JSON-RPC answer"),
        (
            Reply(502, b"<html>" + b"x" * 9999, content_type="text/html"),
            "bad_answer",
            "failed",
            True,
            "502 (Bad Gate",
        ),
        (
            Reply(500, b'{"error":"oh\x1b[31m"}', **JSON),
            "bad_answer",
            "failed",
            True,
            '500 (Internal Server Error): {"',
        ),
        (Reply(413), "bad_answer", "failed", False, "413 ("),
        (Reply(429), "unavailable", "failed", False, "429 (Too Many Requests)"),
        (Reply(429, retry_after="90"), "unavailable", "failed", False, "to be asked again after 90"),
        (Reply(599), "bad_answer", "failed", True, "HTTP status 599"),
        (
            Reply(403, b"no", content_type="text/plain"),
            "unavailable",
            "access_denied",
            False,
            "403 (Forbidden): no",
        ),
        (Reply(301, location="/new"), "bad_answer", "failed", False, "would make a GET of the request"),
        (Reply(303, location="/new"), "bad_answer", "failed", False, "would make a GET of the request"),
        (Reply(307), "bad_answer", "failed", False, "a redirect to nowhere"),
        (Reply(307, location="http://[::bad/"), "bad_answer", "failed", False, "a redirect to nowhere"),
        (Reply(307, location="ftp://127.0.0.1/"), "bad_answer", "failed", False, "a redirect to nowhere"),
        (Reply(307, location="http://u:p@127.0.0.1:8931/mcp"), "bad_answer", "failed", False, "to nowhere"),
        (
            Reply(307, location="//evil.example/a?b=secret"),
            "bad_answer",
            "failed",
            False,
            "http://evil.example,",
        ),
        (
            Reply(308, location="https://127.0.0.1:8931/mcp"),
            "bad_answer",
            "failed",
            False,
            "https://127.0.0.1:8931,",
        ),
        (Reply.streams(b": bye\n\n"), "outcome_unknown", "failed", True, "ended the stream of the answer"),
        (
            Reply.streams(HttpFailed("failed", "it broke", sent=True)),
            "outcome_unknown",
            "failed",
            True,
            "it broke",
        ),
        (
            Reply(200, b'{"id"', HttpFailed("failed", "cut", sent=True), **JSON),
            "outcome_unknown",
            "failed",
            True,
            "cut",
        ),
        (HttpFailed("unreachable", "refused", sent=False), "unavailable", "unreachable", False, "refused"),
        (HttpFailed("failed", "reset", sent=True), "outcome_unknown", "failed", True, "reset"),
    ],
)
async def test_a_request_without_an_answer_is_told_why_and_the_connection_lives(
    reply: Reply | HttpFailed, kind: str, reason: str, reached: bool, words: str
) -> None:
    async with legacy(
        lambda sent: reply if sent.message.get("id") == 3 else Reply.says(result(sent))
    ) as ends:
        await ends.ask(3)
        failure = ends.ear.failure(b"3")
        assert (failure.kind, failure.reason, failure.reached) == (kind, reason, reached)
        assert words in failure.message
        assert failure.message.isprintable()
        assert "secret" not in failure.message
        assert "<" not in failure.message
        assert len(failure.message) < 500
        if isinstance(reply, Reply):
            assert failure.status in (reply.status, 0)
        await ends.ask(4)
        assert ends.ear.heard[-1]["id"] == 4
        assert ends.ear.endings == []


async def test_an_endless_page_does_not_keep_a_refusal_from_its_request() -> None:
    drip: list[Piece] = [b"<p>", 1.0]
    async with legacy(lambda sent: Reply(500, *drip * 60)) as ends:
        await ends.ask(3)
        await trio.sleep(6)
        assert ends.ear.failure(b"3").status == 500
        assert ends.web.open == 0


@pytest.mark.parametrize("form", ["json", "stream"])
async def test_an_answer_over_the_limit_ends_its_request_at_once(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = b"x" * 1024 * 1024
    head = b'{"jsonrpc":"2.0","id":3,"result":{"text":"'
    body = [head, *[piece] * 17, b'"}}']
    if form == "json":
        reply = Reply(200, *body, FOREVER, content_type="application/json")
    else:
        reply = Reply.streams(b"data: ", *body, b"\n\n", FOREVER)
    async with legacy(lambda sent: reply) as ends:
        await ends.ask(3)
        assert ends.ear.failure(b"3").kind == "too_large"
        assert ends.web.open == 0


async def test_a_notice_over_the_limit_does_not_end_the_request_on_whose_stream_it_came() -> None:
    piece = b"x" * 1024 * 1024

    def serve(sent: Sent) -> Reply:
        big = (
            b'data: {"jsonrpc":"2.0","method":"notifications/message","params":"',
            *[piece] * 17,
            b'"}\n\n',
        )
        return Reply.streams(*big, event(result(sent, ok=True)))

    async with legacy(serve) as ends:
        await ends.ask(3)
        assert ends.ear.heard[-1]["id"] == 3
        ((head, _),) = ends.ear.too_long
        assert b"notifications/message" in head


async def test_arrays_are_messages_where_the_revision_has_them() -> None:
    def serve(sent: Sent) -> Reply:
        both = b"[" + line({"method": "notifications/x"}) + b"," + line(result(sent)) + b",[1]]"
        return Reply(200, both, content_type="application/json")

    async with legacy(serve, "2025-03-26") as ends:
        await ends.ask(3)
        assert [message.get("id") for message in ends.ear.heard] == [None, 3]
        assert ends.ear.failures == []


@pytest.mark.parametrize("end", [None, HttpFailed("failed", "cut", sent=True)])
async def test_a_broken_stream_is_resumed_after_the_pause_that_the_server_wants(
    end: HttpFailed | None,
) -> None:
    def serve(sent: Sent) -> Reply:
        if sent.method == "GET":
            return Reply.streams(event({"id": 3, "result": {"job": "done"}}, "ev-3"), FOREVER)
        first = (
            b"id: ev-1\nretry: 500\ndata:\n\n" + event({"method": "notifications/x"}, "ev-2") + b"data: ha"
        )
        return Reply.streams(first, *([end] if end else []))

    async with legacy(serve) as ends:
        await ends.ask(3)
        began = trio.current_time()
        await trio.sleep(0.6)
        (get,) = ends.web.those("GET")
        assert get.at - began == 0.5
        assert get.headers["last-event-id"] == "ev-2"
        assert get.headers["mcp-session-id"] == "s-41"
        assert get.headers["accept"] == "text/event-stream"
        assert [message.get("id") for message in ends.ear.heard] == [None, 3]
        assert all(on == b"3" for _, on in ends.ear.messages)
        assert len(ends.web.those("tools/call")) == 1, "it is not made twice"
        assert ends.web.open == 0


async def test_a_server_that_lets_itself_be_polled_is_polled_while_ids_go_on() -> None:
    count = 0

    def serve(sent: Sent) -> Reply:
        nonlocal count
        count += 1
        if count == 20:
            return Reply.streams(event({"id": 3, "result": {}}))
        return Reply.streams(f"id: {count}\nretry: 1000\ndata:\n\n".encode())

    async with legacy(serve) as ends:
        await ends.ask(3)
        await trio.sleep(18.5)
        assert ends.ear.messages == []
        await trio.sleep(1)
        assert ends.ear.heard[-1]["id"] == 3
        assert [get.headers["last-event-id"] for get in ends.web.those("GET")] == [
            str(n) for n in range(1, 20)
        ]


async def test_without_anything_new_the_pauses_grow_and_tries_end() -> None:
    def serve(sent: Sent) -> Reply:
        return Reply.streams(b"id: 1\ndata:\n\n") if sent.method == "POST" else Reply(503)

    async with legacy(serve) as ends:
        await ends.ask(3)
        began = trio.current_time()
        await trio.sleep(60)
        at = [get.at - began for get in ends.web.those("GET")]
        assert len(at) == 5
        pauses = [b - a for a, b in itertools.pairwise([0.0, *at])]
        for pause, usual_one in zip(pauses, [1, 1.5, 2.25, 3.375, 5.0625], strict=True):
            assert 0.9 * usual_one <= pause <= 1.1 * usual_one
        failure = ends.ear.failure(b"3")
        assert (failure.kind, failure.reached) == ("outcome_unknown", True)
        assert "503" in failure.message


@pytest.mark.parametrize("status", [405, 404, 400, 200])
async def test_a_server_that_resumes_nothing_is_asked_once(status: int) -> None:
    def serve(sent: Sent) -> Reply:
        return Reply.streams(b"id: 1\ndata:\n\n") if sent.method == "POST" else Reply(status)

    async with legacy(serve) as ends:
        await ends.ask(3)
        await trio.sleep(60)
        assert len(ends.web.those("GET")) == 1
        assert ends.ear.failure(b"3").kind == "outcome_unknown"
        assert ends.ear.endings == [], "the stream is gone, not the session"


async def test_a_server_that_wants_no_pause_gets_a_short_one() -> None:
    def serve(sent: Sent) -> Reply:
        return Reply.streams(b"id: 1\nretry: 0\ndata:\n\n") if sent.method == "POST" else Reply.streams()

    async with legacy(serve) as ends:
        await ends.ask(3)
        await trio.sleep(0.35)
        assert len(ends.web.those("GET")) == 3


async def test_stateless_streams_are_never_resumed() -> None:
    async with modern(lambda sent: Reply.streams(b"id: 1\nretry: 1\ndata:\n\n")) as ends:
        await ends.ask(3, **MODERN)
        await trio.sleep(5)
        assert ends.web.names == ["tools/call"]
        assert ends.ear.failure(b"3").kind == "outcome_unknown"


async def test_a_cancelled_request_is_not_resumed() -> None:
    def serve(sent: Sent) -> Reply:
        return Reply.streams(b"id: 1\nretry: 1000\ndata:\n\n")

    async with legacy(serve) as ends:
        await ends.ask(3)
        ends.cancel(3)
        await trio.sleep(5)
        assert ends.web.names == ["tools/call", "notifications/cancelled"]


async def test_an_answer_on_another_stream_closes_the_requests_own() -> None:
    """Some servers send an answer on whatever stream they find open."""

    def serve(sent: Sent) -> Reply:
        if sent.message["id"] == 4:
            return Reply.streams(event({"id": 3, "result": {}}), event({"id": 4, "result": {}}))
        return Reply.streams(FOREVER)

    async with legacy(serve) as ends:
        await ends.ask(3)
        assert ends.web.open == 1
        await ends.ask(4)
        assert ends.ear.messages == [
            ({"jsonrpc": "2.0", "id": 3, "result": {}}, b"4"),
            ({"jsonrpc": "2.0", "id": 4, "result": {}}, b"4"),
        ]
        assert ends.web.open == 0
        assert ends.ear.failures == []


# --------------------------------------------------------------- whatever comes

STATUSES = (
    200,
    200,
    200,
    201,
    202,
    204,
    299,
    301,
    307,
    400,
    401,
    403,
    404,
    405,
    409,
    429,
    500,
    502,
    503,
    599,
)
TYPES = ("application/json", "text/event-stream", "text/html", "TEXT/EVENT-STREAM;charset=x", "", "?/")
TEXTS = (
    *(b'{"jsonrpc":"2.0","id":3,"result":{}}', b'{"id":3,"error":{"code":1,"message":"m"}}', b'{"id":"3.0"}'),
    *(b'{"id":null,"error":{"code":-32001,"message":"session"}}', b'{"id":4,"result":{}}', b'{"error":5}'),
    *(b'{"id":3,"method":"ping"}', b'{"method":"notifications/x"}', b"[]", b"[{}]", b"{", b"NaN", b"\xff"),
    *(b"data: ", b"id: 1\n", b"id: \n", b"id: 2\0\n", b"retry: 10\n", b"\r", b"\n\n", b"\r\n\r\n", b": c\n"),
    *(
        b"event: endpoint\n",
        b"event: message\n",
        b"<html>",
        b"\xef\xbb\xbf",
        b"[" * 3000,
        b'{"a":' * 3000,
        b"",
    ),
)
BREAKS: tuple[Piece, ...] = (0.1, 3.0, HttpFailed("failed", "cut", sent=True))


def anything(rng: random.Random) -> Reply | HttpFailed:
    if rng.random() < 0.1:
        return HttpFailed("failed", "broken", sent=rng.random() < 0.5)
    body: list[Piece] = []
    for _ in range(rng.randrange(8)):
        text = rng.choice(TEXTS)
        body.append(b"data: " + text + b"\n\n" if rng.random() < 0.3 else text)
        if rng.random() < 0.1:
            body.append(rng.choice(BREAKS))
    headers = {
        "content_type": rng.choice(TYPES),
        "location": rng.choice(["", "/x", "//other", "http://[", "a\0b", "?" + "x" * 5000]),
        "retry_after": rng.choice(["", "1", "40", "-1", "Thu, 01 Jan 1970 00:00:10 GMT", "x"]),
        "mcp_session_id": rng.choice(["", "s-42", "a b"]),
    }
    return Reply(rng.choice(STATUSES), *body, **headers)


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_a_server_does_every_request_ends_and_nothing_raises(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        left = 40

        def serve(sent: Sent) -> Reply | HttpFailed:
            nonlocal left
            left -= 1
            return anything(rng) if left > 0 else Reply(405)

        ends = Ends(Web(usual(serve)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ends.http.run, ends.ear)
            await ends.shake_hands(rng.choice(["2025-03-26", "2025-11-25", "2026-07-28"]))
            asked = [key for key in range(3, 9) if ends.http.write(line({"id": key, "method": "tools/call"}))]
            await trio.sleep(3600)
            answered = {str(message.get("id")).removesuffix(".0") for message in ends.ear.heard}
            failures = [key.decode() for key, _ in ends.ear.failures if key]
            failed = set(failures)
            assert len(failures) == len(failed), "each is told once"
            odd = {on.decode() for message, on in ends.ear.messages if "error" in message}
            assert ends.ear.endings or {str(key) for key in asked} <= answered | failed | odd
            assert ends.ear.endings or ends.http.queued == 0
            assert ends.web.open == 0
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("form", ["json", "stream"])
async def test_of_large_answers_few_are_taken_in_at_once(form: str) -> None:
    """Twenty that a server left unfinished were 300 MiB."""
    taken = dict.fromkeys(range(3, 11), 0)
    done = trio.Event()

    class Counted(Web):
        @asynccontextmanager
        async def stream(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
            async with super().stream(*args, **more):
                key = self.sent[-1].message["id"]
                whole = line(result(self.sent[-1], x="y" * (3 << 20))).strip()
                whole = b"data: " + whole + b"\n\n" if form == "stream" else whole

                class Slow(FakeAnswer):
                    async def __anext__(self) -> bytes:
                        await trio.lowlevel.checkpoint()
                        piece = whole[taken[key] : taken[key] + 65536]
                        taken[key] += len(piece)
                        if taken[key] >= len(whole):
                            await done.wait()
                        if not piece:
                            raise StopAsyncIteration
                        return piece

                headers = {"content_type": "text/event-stream" if form == "stream" else "application/json"}
                yield Slow(Reply(200, **headers))

    ends = Ends(Counted(lambda sent: Reply(200)))
    ends.http.settle(REVISIONS["2026-07-28"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.http.run, ends.ear)
        for key in taken:
            await ends.ask(key, **MODERN)
        assert sum(size > 2 << 20 for size in taken.values()) == exchange.LARGE_AT_ONCE
        ends.cancel(3)
        await trio.testing.wait_all_tasks_blocked()
        assert sum(size > 2 << 20 for size in taken.values()) == exchange.LARGE_AT_ONCE + 1, "a place is free"
        done.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(message["id"] for message in ends.ear.heard) == list(range(4, 11))
        nursery.cancel_scope.cancel()
