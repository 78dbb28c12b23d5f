"""Redirects, and servers that ask for patience."""

from __future__ import annotations

import email.utils
import time

import pytest
import trio
import trio.testing

from mcpd.http import HttpFailed
from tests.transport.web import (
    JSON,
    MODERN,
    URL,
    Reply,
    Sent,
    legacy,
    line,
    modern,
    result,
    running,
    usual,
)


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_on_the_same_origin_is_followed_and_remembered(status: int) -> None:
    def serve(sent: Sent) -> Reply | HttpFailed:
        if sent.url == URL:
            return Reply(status, location="/mcp/#x")
        return usual()(sent)

    async with running(serve, Authorization="Bearer t") as ends:
        await ends.shake_hands()
        await ends.ask(3, x=1)
    assert [sent.url for sent in ends.web.sent] == [URL] + [URL + "/"] * 5
    assert ends.web.those("tools/call")[0].message["params"] == {"x": 1}
    assert all(sent.headers["authorization"] == "Bearer t" for sent in ends.web.sent)


async def test_a_relative_redirect_counts_from_where_the_request_went() -> None:
    """Several requests are redirected at once, and the first of them moves the URL."""

    def serve(sent: Sent) -> Reply | HttpFailed:
        return Reply(307, location="mcp/") if sent.url == URL else Reply.says(result(sent))

    async with modern(serve) as ends:
        for key in (3, 4, 5):
            ends.http.write(line({"id": key, "method": "tools/call", "params": MODERN}))
        await trio.testing.wait_all_tasks_blocked()
        assert {sent.url for sent in ends.web.sent} == {URL, URL + "/"}


async def test_nothing_is_sent_to_another_origin() -> None:
    async with running(
        lambda sent: Reply(307, location="http://127.0.0.1:8932/mcp"), Authorization="t"
    ) as ends:
        await ends.ask(1, "initialize")
        assert "http://127.0.0.1:8932" in ends.ear.failure(b"1").message
    assert [sent.url for sent in ends.web.sent] == [URL]


async def test_a_redirect_in_a_circle_ends() -> None:
    async with running(lambda sent: Reply(307, location="/mcp")) as ends:
        await ends.ask(1, "initialize")
        assert "circle" in ends.ear.failure(b"1").message
    assert len(ends.web.sent) == 6


@pytest.mark.parametrize("status", [429, 503])
async def test_who_asks_for_patience_is_asked_again_once(status: int) -> None:
    def serve(sent: Sent) -> Reply:
        if sent.message["id"] == 3 and len(ends.web.those("tools/call")) > 1:
            return Reply.says(result(sent))
        return Reply(status, b'{"error":"slow down"}', retry_after="1", **JSON)

    async with legacy(serve) as ends:
        await ends.ask(3)
        assert ends.http.queued > 0, "it may be needed again"
        began = trio.current_time()
        await trio.sleep(1.1)
        assert [sent.at - began for sent in ends.web.sent] == [0, 1]
        assert ends.ear.heard[-1]["id"] == 3
        await ends.ask(4)
        await trio.sleep(1.1)
        assert len(ends.web.sent) == 4
        assert ends.ear.failure(b"4").kind == "unavailable"


async def test_patience_may_be_asked_for_by_a_date_and_has_an_end() -> None:
    when = email.utils.formatdate(time.time() + 20, usegmt=True)
    replies = [
        Reply(429, retry_after=when),
        Reply(200, b'{"jsonrpc":"2.0","id":3,"result":{}}'),
        Reply(429, retry_after="31"),
        Reply(503, retry_after="x"),
    ]
    async with legacy(lambda sent: replies.pop(0)) as ends:
        await ends.ask(3)
        await trio.sleep(17)
        assert len(ends.web.sent) == 1
        await trio.sleep(4)
        assert ends.ear.heard[-1]["id"] == 3
        await ends.ask(4)
        assert ends.ear.failure(b"4").status == 429
        await ends.ask(5)
        assert ends.ear.failure(b"5").status == 503


@pytest.mark.parametrize("method", ["ping", "server/discover", "initialize", "tools/list"])
async def test_what_mcpd_itself_asks_waits_only_as_long_as_it_has_time(method: str) -> None:
    """A check has ten seconds; once a server that asked for twenty was called one that does not answer."""
    replies = [Reply(429, retry_after="5"), Reply(429, retry_after="6")]
    async with modern(lambda sent: replies.pop(0)) as ends:
        await ends.ask(3, method, **MODERN)
        await trio.sleep(5.1)
        assert ends.ear.failure(b"3").status == 429
        assert "to be asked again after 6" in ends.ear.failure(b"3").message
        replies.append(Reply(429, retry_after="6"))
        await ends.ask(4, method, **MODERN)
        assert ends.ear.failure(b"4").status == 429, "and this one not at all"


async def test_a_request_that_waits_patiently_may_be_cancelled() -> None:
    async with modern(lambda sent: Reply(429, retry_after="20")) as ends:
        await ends.ask(3, **MODERN)
        ends.cancel(3)
        await trio.sleep(60)
        assert ends.web.names == ["tools/call"]
        assert ends.http.queued == 0
