"""What many sessions want to hear of one server is one wish at the server (5.3, 5.6, 5.14, 8.2)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.errors import Failure
from mcpd.protocol.revisions import REVISIONS
from mcpd.protocol.shapes import LEVELS, META_SUBSCRIPTION
from mcpd.transport.pending import Deadlines
from mcpd.upstream import wishes
from mcpd.upstream.connection import Connection
from mcpd.upstream.opening import Settled
from mcpd.upstream.wishes import Wishes, lies_in

DEBUG, INFO, WARNING, ERROR = (LEVELS.index(name) for name in ("debug", "info", "warning", "error"))
ALL = {"logging": {}, "resources": {"subscribe": True}}


class Server:
    """The server and the sending half of the transport to it; it answers at once, unless it is `mute`."""

    queued = 0

    def __init__(self, wanted: Wishes, revision: str, capabilities: dict[str, Any]) -> None:
        self.heard: list[tuple[str, Any]] = []
        """Method and what it is about, in order; a stream that ended is ("end", its URIs)."""
        self.streams: dict[int, list[str]] = {}
        self.mute = False
        self.refuses: dict[str, Any] = {}
        """method -> error object"""
        self.remarks: list[str] = []
        settled = Settled(REVISIONS[revision], capabilities, {}, "")
        self.connection = Connection(settled, self, Deadlines(), wanted.notice, self.remarks.append)

    def write(self, line: bytes) -> bool:
        message = json.loads(line)
        method, params = message["method"], message["params"]
        if method == "notifications/cancelled":
            self.heard.append(("end", self.streams.pop(params["requestId"])))
        elif method == "subscriptions/listen":
            self.streams[message["id"]] = uris = params["notifications"]["resourceSubscriptions"]
            self.heard.append((method, uris))
            if method in self.refuses:
                self.says(id=message["id"], error=self.refuses[method])
            elif not self.mute:
                self.acknowledge(message["id"], uris)
        else:
            self.heard.append((method, params.get("uri") or params.get("level")))
            if method in self.refuses:
                self.says(id=message["id"], error=self.refuses[method])
            elif not self.mute:
                self.says(id=message["id"], result={})
        return True

    def acknowledge(self, stream: int | str, uris: list[str]) -> None:
        about = {"_meta": {META_SUBSCRIPTION: stream}, "notifications": {"resourceSubscriptions": uris}}
        self.says(method="notifications/subscriptions/acknowledged", params=about)

    def updated(self, uri: str) -> None:
        self.says(method="notifications/resources/updated", params={"uri": uri})

    def says(self, **members: Any) -> None:
        line = json.dumps({"jsonrpc": "2.0", **members}).encode()
        trio.lowlevel.current_trio_token().run_sync_soon(self.connection.receive, line)


@asynccontextmanager
async def kept(
    wanted: Wishes, revision: str = "2025-11-25", capabilities: dict[str, Any] | None = None
) -> AsyncIterator[Server]:
    """The wishes are kept at a server as long as the context lasts; then its connection is lost."""
    server = Server(wanted, revision, ALL if capabilities is None else capabilities)
    async with trio.open_nursery() as nursery:
        await nursery.start(wanted.keep, server.connection)
        yield server
        server.connection.lose()
        nursery.cancel_scope.cancel()


class Told:
    """A session that watches."""

    def __init__(self, name: str, wanted: Wishes) -> None:
        self.name = name
        self.wanted = wanted
        self.news: list[tuple[str, str]] = []

    def watches(self, *uris: str) -> None:
        for uri in uris:
            self.wanted.watch(self.name, uri, lambda watched, uri: self.news.append((watched, uri)))


quiet = trio.testing.wait_all_tasks_blocked


# -------------------------------------------------------------------- log levels


async def test_the_server_is_asked_for_the_lowest_level_that_anybody_wants() -> None:
    wanted = Wishes(lambda text: None)
    async with kept(wanted) as server:
        for session, rank in (("a", ERROR), ("b", DEBUG), ("c", ERROR), ("b", DEBUG)):
            wanted.want_level(session, rank)
            await quiet()
        assert server.heard == [("logging/setLevel", "info"), ("logging/setLevel", "debug")], (
            "who has said nothing may hear of the usual"
        )
        server.heard.clear()
        wanted.forget("b")
        await quiet()
        assert server.heard == [("logging/setLevel", "info")], "nobody wants more"
        wanted.forget("a")
        wanted.forget("c")
        await quiet()
        assert len(server.heard) == 1, "no wish is no level"


async def test_a_new_connection_is_told_the_level_before_anything_else() -> None:
    wanted = Wishes(lambda text: None)
    wanted.want_level("a", DEBUG)
    async with kept(wanted) as server:
        assert server.heard == [("logging/setLevel", "debug")]
    async with kept(wanted, "2026-07-28") as server:
        await quiet()
        assert server.heard == [], "each request says it there (5.6)"
    async with kept(wanted, capabilities={"resources": {"subscribe": True}}) as server:
        await quiet()
        assert server.heard == [], "only what is declared is asked for (5.1)"


async def test_a_level_that_is_refused_is_for_the_servers_log() -> None:
    remarks: list[str] = []
    wanted = Wishes(remarks.append)
    async with kept(wanted) as server:
        server.refuses["logging/setLevel"] = {"code": -32601, "message": "no such method"}
        wanted.want_level("a", INFO)
        await quiet()
        assert remarks == ["logging/setLevel failed: no such method"]
        wanted.want_level("a", INFO)
        await quiet()
        assert len(server.heard) == 1, "the same wish is no news"


async def test_who_sets_a_level_may_wait_until_the_server_has_it() -> None:
    wanted = Wishes(lambda text: None)
    wanted.want_level("a", ERROR)
    await wanted.level_told()
    async with kept(wanted) as server:
        await wanted.level_told()
        server.mute = True
        wanted.lower_level("a", DEBUG)
        wanted.lower_level("a", WARNING)
        with trio.move_on_after(5) as waited:
            await wanted.level_told()
        assert waited.cancelled_caught
        assert server.heard == [("logging/setLevel", "info"), ("logging/setLevel", "debug")]
    await wanted.level_told()


# ------------------------------------------------------------------------ watching


async def test_everybody_who_watches_is_told_and_the_server_only_once_to_stop() -> None:
    wanted = Wishes(lambda text: None)
    one, two = Told("a", wanted), Told("b", wanted)
    async with kept(wanted) as server:
        one.watches("note:///1", "note:///2")
        two.watches("note:///1")
        for uri in ("note:///1", "note:///2"):
            wanted.agreed(uri)
        await quiet()
        assert server.heard == [], "who wants it asks for it, by the path of every request (a01)"
        for uri in ("note:///1", "note:///2", "note:///3"):
            server.updated(uri)
        await quiet()
        assert one.news == [("note:///1", "note:///1"), ("note:///2", "note:///2")]
        assert two.news == [("note:///1", "note:///1")]
        wanted.unwatch("a", "note:///1")
        await quiet()
        assert server.heard == []
        wanted.forget("b")
        await quiet()
        assert server.heard == [("resources/unsubscribe", "note:///1")]
        server.updated("note:///1")
        await quiet()
        assert len(two.news) == 1


async def test_what_nobody_wants_any_more_when_the_server_agrees_is_given_up() -> None:
    wanted = Wishes(lambda text: None)
    async with kept(wanted) as server:
        Told("a", wanted).watches("note:///1")
        wanted.forget("a")
        wanted.agreed("note:///1")
        await quiet()
        assert server.heard == [("resources/unsubscribe", "note:///1")]


async def test_a_restarted_server_is_asked_again_and_who_watches_told_to_look() -> None:
    wanted = Wishes(lambda text: None)
    one = Told("a", wanted)
    async with kept(wanted):
        one.watches("note:///1", "note:///never")
        wanted.agreed("note:///1")
    assert one.news == []
    async with kept(wanted) as server:
        await quiet()
        assert server.heard == [("resources/subscribe", "note:///1")]
        assert one.news == [("note:///1", "note:///1")]


@pytest.mark.parametrize(
    ("uri", "watched", "lies"),
    [
        ("note:///1", "note:///1", True),
        ("note:///1/a", "note:///1", True),
        ("note:///1/a/b", "note:///1/", True),
        ("note:///1?x", "note:///1", True),
        ("note:///1#x", "note:///1", True),
        ("note:///10", "note:///1", False),
        ("note:///1", "note:///1/", False),
        ("note:///1", "note:///2", False),
        ("", "note:///1", False),
    ],
)
def test_who_watches_a_resource_hears_of_what_lies_below_it(uri: str, watched: str, lies: bool) -> None:
    assert lies_in(uri, watched) is lies


async def test_odd_notices_are_nobodys() -> None:
    wanted = Wishes(lambda text: None)
    one = Told("a", wanted)
    async with kept(wanted, "2026-07-28") as server:
        one.watches("note:///1")
        await quiet()
        updates: list[Any] = [{}, {"uri": 1}, {"uri": "note:///10"}, []]
        for params in updates:
            server.says(method="notifications/resources/updated", params=params)
        answers: list[Any] = [{}, {"_meta": {META_SUBSCRIPTION: "4"}}, {"notifications": 1}]
        for params in answers:
            server.says(method="notifications/subscriptions/acknowledged", params=params)
        await quiet()
        assert one.news == []


async def test_the_number_of_a_stream_may_come_back_as_text() -> None:
    """Some servers echo numbers so (2); once such a stream was never taken as agreed to."""
    wanted = Wishes(lambda text: None)
    async with kept(wanted, "2026-07-28") as server:
        server.mute = True
        Told("a", wanted).watches("note:///1")
        await quiet()
        [ident] = server.streams
        server.acknowledge(str(ident), ["note:///1"])
        assert await wanted.honoured("note:///1")


def test_watched_resources_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wishes, "WATCHED", 2)
    wanted = Wishes(lambda text: None)
    Told("a", wanted).watches("x:1", "x:2")
    Told("b", wanted).watches("x:1")
    with pytest.raises(Failure) as caught:
        Told("b", wanted).watches("x:3")
    assert caught.value.kind == "busy"


def test_one_session_does_not_take_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wishes, "WATCHED_BY_ONE", 2)
    wanted = Wishes(lambda text: None)
    Told("a", wanted).watches("x:1", "x:2")
    with pytest.raises(Failure) as caught:
        Told("a", wanted).watches("x:3")
    assert caught.value.kind == "busy"
    Told("b", wanted).watches("x:3")


# ------------------------------------------------------------- a stateless server


async def test_a_stateless_server_tells_on_one_stream_for_all() -> None:
    wanted = Wishes(lambda text: None)
    one, two = Told("a", wanted), Told("b", wanted)
    async with kept(wanted, "2026-07-28") as server:
        one.watches("note:///1")
        assert await wanted.honoured("note:///1")
        two.watches("note:///1")
        assert await wanted.honoured("note:///1")
        assert server.heard == [("subscriptions/listen", ["note:///1"])]
        two.watches("note:///2")
        assert await wanted.honoured("note:///2")
        await quiet()
        assert server.heard[1:] == [
            ("subscriptions/listen", ["note:///1", "note:///2"]),
            ("end", ["note:///1"]),
        ], "the new stream stands before the old one ends, so nothing is missed"
        server.updated("note:///1")
        await quiet()
        assert one.news == two.news == [("note:///1", "note:///1")]
        wanted.forget("a")
        wanted.forget("b")
        await quiet()
        assert server.streams == {}, "nobody watches, no stream"


async def test_a_stateless_server_says_what_it_tells_of() -> None:
    wanted = Wishes(lambda text: None)
    async with kept(wanted, "2026-07-28") as server:
        server.mute = True
        Told("a", wanted).watches("note:///1", "note:///2")
        await quiet()
        [stream] = server.streams
        server.acknowledge(stream + 1, ["note:///1", "note:///2"])
        server.acknowledge(stream, ["note:///2"])
        assert not await wanted.honoured("note:///1")
        assert await wanted.honoured("note:///2")


async def test_a_stateless_server_that_never_says_anything_tells_of_nothing() -> None:
    wanted = Wishes(lambda text: None)
    async with kept(wanted, "2026-07-28") as server:
        server.mute = True
        Told("a", wanted).watches("note:///1")
        began = trio.current_time()
        assert not await wanted.honoured("note:///1")
        assert trio.current_time() - began <= 30


async def test_a_server_that_knows_no_streams_is_not_asked_again() -> None:
    wanted = Wishes(lambda text: None)
    async with kept(wanted, "2026-07-28") as server:
        server.refuses["subscriptions/listen"] = {"code": -32601, "message": "no such method"}
        Told("a", wanted).watches("note:///1")
        assert not await wanted.honoured("note:///1")
        await trio.sleep(300)
        assert len(server.heard) == 1


async def test_a_lost_stream_is_opened_again_and_who_watches_told_to_look() -> None:
    wanted = Wishes(lambda text: None)
    one = Told("a", wanted)
    async with kept(wanted, "2026-07-28") as server:
        one.watches("note:///1")
        assert await wanted.honoured("note:///1")
        [stream] = server.streams
        server.says(id=stream, result={"resultType": "complete"})
        await trio.sleep(5)
        assert [method for method, _ in server.heard] == ["subscriptions/listen"] * 2
        assert one.news == [("note:///1", "note:///1")], "nothing is replayed (5.14)"
