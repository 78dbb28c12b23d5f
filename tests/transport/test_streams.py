"""The session's own stream (3.2, section 11)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import trio
import trio.testing

from mcpd.http import HttpFailed
from tests.transport.web import (
    FOREVER,
    Reply,
    Sent,
    Serve,
    event,
    line,
    modern,
    running,
    usual,
)


def streaming(get: Callable[[Sent], Reply | HttpFailed]) -> Serve:
    return lambda sent: get(sent) if sent.method == "GET" else usual()(sent)


@pytest.mark.parametrize(
    "reply",
    [
        *map(Reply, (405, 404, 406, 400, 401, 500, 501)),
        Reply.says({"id": None, "error": {"code": -32601, "message": "x"}}),
        Reply(200, b"<html>"),
    ],
)
async def test_a_server_without_a_stream_of_the_session_is_asked_once_and_quietly(reply: Reply) -> None:
    async with running(streaming(lambda sent: reply)) as ends:
        await ends.shake_hands()
        await trio.sleep(300)
        await ends.ask(3)
        assert ends.ear.heard[-1]["id"] == 3
        assert len(ends.web.those("GET")) == 1
        assert (ends.ear.failures, ends.ear.endings, ends.remarks) == ([], [], [])


@pytest.mark.parametrize("status", [429, 503])
async def test_a_server_that_is_busy_at_first_is_asked_for_its_stream_again(status: int) -> None:
    """Else no change of its lists would be heard of for as long as the connection lives (a22)."""
    changed = event({"method": "notifications/tools/list_changed"})
    replies = [Reply(status), Reply(status), Reply.streams(changed, FOREVER)]
    async with running(streaming(lambda sent: replies.pop(0))) as ends:
        await ends.shake_hands()
        await trio.sleep(10)
        assert ends.ear.heard[-1]["method"] == "notifications/tools/list_changed"
        assert ends.ear.failures == [], "a stream that was never there is not missed"


@pytest.mark.parametrize(("late", "asked"), [(0.3, 0.3), (40.0, 0.5)])
async def test_nothing_is_asked_before_the_sessions_stream_is_there(late: float, asked: float) -> None:
    """What a server says on it before is lost with many; but some answer the GET with their first event."""
    async with running(streaming(lambda sent: Reply.streams(FOREVER).after(late))) as ends:
        await ends.shake_hands()
        began = trio.current_time()
        await ends.ask(3)
        await trio.sleep(1)
        [get], [call] = ends.web.those("GET"), ends.web.those("tools/call")
        assert get.at == began
        assert call.at - began == pytest.approx(asked)
        assert ends.ear.heard[-1]["id"] == 3


async def test_what_comes_on_the_sessions_stream_belongs_to_no_request() -> None:
    asked = {"id": "r1", "method": "roots/list"}
    more = [
        event({"method": "notifications/tools/list_changed"}, "9"),
        b"event: odd\ndata: {}\n\n",
        event(asked),
    ]
    async with running(streaming(lambda sent: Reply.streams(*more, FOREVER))) as ends:
        await ends.shake_hands()
        assert [(m.get("method"), on) for m, on in ends.ear.messages[1:]] == [
            ("notifications/tools/list_changed", b""),
            ("roots/list", b""),
        ]
        assert ends.web.those("GET")[0].apart


async def test_the_sessions_stream_is_opened_again_ever_later_until_one_lasted() -> None:
    """prompts.chat #1117: a stream that closes at once makes a storm of most clients."""
    lasting = [0.0] * 12 + [100.0] + [0.0] * 100

    def get(sent: Sent) -> Reply:
        return Reply.streams(b"id: 7\n\n", lasting.pop(0))

    async with running(streaming(get)) as ends:
        await ends.shake_hands()
        await trio.sleep(800)
    gets = ends.web.those("GET")
    pauses = [b.at - a.at for a, b in itertools.pairwise(gets)]
    assert pauses[0] < 1.2
    assert all(27 <= pause <= 33 for pause in pauses[9:12])
    assert 100 < pauses[12] < 102, "after a long one it is as in the beginning"
    assert pauses[13] < 2
    assert [get.headers.get("last-event-id") for get in gets[:3]] == [None, "7", "7"]


async def test_an_id_that_no_header_can_hold_does_not_end_the_stream_for_good() -> None:
    """Once every further GET was refused in mcpd itself, for as long as the connection lived."""
    async with running(streaming(lambda sent: Reply.streams(b"id: a\x01\n\n", 40.0))) as ends:
        await ends.shake_hands()
        await trio.sleep(100)
        assert [get.headers.get("last-event-id") for get in ends.web.those("GET")] == [None] * 3
        assert ends.ear.failures == []


async def test_the_servers_own_pause_is_kept_by_the_sessions_stream() -> None:
    async with running(streaming(lambda sent: Reply.streams(b"retry: 7000\n\n"))) as ends:
        await ends.shake_hands()
        await trio.sleep(20)
    gets = ends.web.those("GET")
    assert [get.at - gets[0].at for get in gets] == [0, 7, 14]


async def test_an_outage_shows_by_the_sessions_stream() -> None:
    """No call need be made to notice that the remote is gone."""
    replies: list[Reply | HttpFailed] = [
        Reply.streams(10.0, HttpFailed("failed", "cut", sent=True)),
        HttpFailed("unreachable", "refused", sent=False),
        Reply(502),
        Reply.streams(1.0),
        Reply(409),
        Reply.streams(1.0),
        Reply(404),
    ]
    async with running(streaming(lambda sent: replies.pop(0))) as ends:
        await ends.shake_hands()
        await trio.sleep(100)
        assert replies == [], "a stream that is refused in the end is given up"
        assert all(key == b"" for key, _ in ends.ear.failures)
        told = [
            failure.message.removeprefix("the server answered with HTTP status ")
            for _, failure in ends.ear.failures
        ]
        assert told == ["refused", "502 (Bad Gateway)", "409 (Conflict)", "404 (Not Found)"]
        assert ends.ear.endings == [], "whether the server is gone, a request shows"


@pytest.mark.parametrize("where", ["POST", "GET"])
async def test_a_storm_of_events_lets_others_have_their_turn(where: str) -> None:
    """A piece of 64 KiB holds 7,000 of the smallest; taking them held the loop for 180 ms."""
    say, heard = trio.open_memory_channel[bytes](1)
    streams = Reply.streams(heard)

    def serve(sent: Sent) -> Reply | HttpFailed:
        return streams if str(sent) == ("GET" if where == "GET" else "tools/call") else usual()(sent)

    async with running(serve) as ends:
        most = turn = 0

        def count(message: object) -> None:
            nonlocal most
            most = max(most, len(ends.ear.messages) - turn)

        await ends.shake_hands()
        await ends.ask(3)
        before = turn = len(ends.ear.messages)
        ends.ear.then = count
        await say.send(b"data:{}\n\n" * 7000)
        while len(ends.ear.messages) < before + 7000:
            turn = len(ends.ear.messages)
            await trio.lowlevel.checkpoint()
        assert most < 2000


async def test_stateless_servers_have_no_stream_of_a_session() -> None:
    async with modern(lambda sent: Reply(202)) as ends:
        ends.http.write(line({"method": "notifications/initialized"}))
        await trio.sleep(1)
    assert "GET" not in ends.web.names
    assert "DELETE" not in ends.web.names
