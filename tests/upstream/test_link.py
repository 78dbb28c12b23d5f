"""From the first byte to the last: the opening, the hand-over to the connection, the end."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.errors import Failure
from mcpd.protocol.revisions import Revision
from mcpd.transport.base import ConnectFailed, ConnectionLost, Ending, Unanswered
from mcpd.transport.pending import Deadlines, Slot
from mcpd.upstream.connection import QUEUE_MAX, Connection
from mcpd.upstream.link import Link
from mcpd.upstream.opening import Opening


class Wire:
    """The far end of a transport: what left, and a tap to close it."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.open = True
        self.revision = ""

    queued: int = 0

    def write(self, line: bytes) -> bool:
        if self.open:
            self.sent.append(json.loads(line))
        return self.open

    def settle(self, revision: Revision) -> None:
        self.revision = revision.name

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.sent]


class Ends:
    def __init__(self, opening: Opening | None = None, silence: float = 5.0) -> None:
        self.wire = Wire()
        self.changed = 0
        self.remarks: list[str] = []
        self.link = Link(
            self.wire, opening or Opening(), Deadlines(), self._noticed, self.remarks.append, silence
        )

    def _noticed(self, method: str, params: bytes) -> None:
        self.changed += method == "notifications/tools/list_changed"

    def says(self, *messages: Any) -> None:
        for message in messages:
            self.link.receive(json.dumps(message).encode())

    def answers(self, number: int, **members: Any) -> None:
        """Answer the message that was sent as this one, counted from the end or the beginning."""
        self.says({"jsonrpc": "2.0", "id": self.wire.sent[number]["id"], **members})

    async def opened(self) -> Connection:
        """A legacy connection, by probe and handshake."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.link.open)
            await trio.testing.wait_all_tasks_blocked()
            self.answers(0, error={"code": -32601, "message": "what?"})
            self.answers(-1, result=hello())
        assert self.link.connection is not None
        return self.link.connection


def hello(revision: str = "2025-06-18") -> dict[str, Any]:
    return {
        "protocolVersion": revision,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    }


async def test_a_refused_probe_is_followed_by_the_handshake() -> None:
    ends = Ends()
    connection = await ends.opened()
    assert ends.wire.methods == ["server/discover", "initialize", "notifications/initialized"]
    assert connection.settled.revision.name == ends.wire.revision == "2025-06-18"


async def test_who_asks_while_it_opens_and_takes_no_answer_is_not_answered_for_ever() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.link.open)
        await trio.testing.wait_all_tasks_blocked()
        ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
        ends.says(ping)
        ends.wire.queued = QUEUE_MAX + 1
        ends.says(ping, ping)
        assert len(ends.wire.sent) == 2
        ends.answers(0, error={"code": -32601, "message": "what?"})
        ends.answers(-1, result=hello())
    assert ends.link.connection is not None


async def test_a_probe_that_a_modern_error_answers_is_no_reason_to_fall_back() -> None:
    """Hazard: -32022 with a mutual revision means the server is modern, so it is probed once more."""
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.link.open)
        await trio.testing.wait_all_tasks_blocked()
        unsupported = {"supported": ["2099-01-01", "2026-07-28"], "requested": "2026-07-28"}
        ends.answers(0, error={"code": -32022, "message": "unsupported", "data": unsupported})
        assert ends.wire.methods == ["server/discover", "server/discover"]
        ends.answers(1, result={"supportedVersions": ["2026-07-28"], "capabilities": {}})
    assert ends.link.connection is not None
    assert ends.link.connection.settled.revision.stateless
    assert ends.wire.methods == ["server/discover"] * 2, "no initialize, nor anything else of that era"


async def test_a_modern_server_without_a_common_revision_is_never_initialized() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:

        async def fail() -> None:
            with pytest.raises(ConnectFailed) as caught:
                await ends.link.open()
            assert (caught.value.reason, caught.value.lasting) == ("no_common_revision", True)

        nursery.start_soon(fail)
        await trio.testing.wait_all_tasks_blocked()
        ends.answers(0, error={"code": -32022, "message": "?", "data": {"supported": ["2099-01-01"]}})
    assert ends.wire.methods == ["server/discover"]


async def test_silence_is_followed_by_initialize_after_five_seconds_on_the_same_pipe() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.link.open)
        await trio.sleep(4.9)
        assert ends.wire.methods == ["server/discover"]
        await trio.sleep(0.2)
        assert ends.wire.methods == ["server/discover", "initialize"]
        ends.answers(1, result=hello())
    assert ends.wire.methods[-1] == "notifications/initialized"


async def test_noise_before_the_handshake_is_remarked_and_nothing_else() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.link.open)
        await trio.testing.wait_all_tasks_blocked()
        for noise in (b"Server ready!", b"\xff\xfe", b"[1, 2]", b"[" * 100_000, b"{}", b"3", b"null"):
            ends.link.receive(noise)
        ends.says({"jsonrpc": "2.0", "id": 99, "result": {}})
        ends.answers(0, error={"code": -1, "message": ""})
        ends.answers(1, result=hello())
    assert any("Server ready!" in remark for remark in ends.remarks)
    assert ends.link.connection is not None


async def test_lines_that_follow_the_handshake_at_once_belong_to_the_connection() -> None:
    """The everything server announces a change right after `initialized`."""
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.link.open)
        await trio.testing.wait_all_tasks_blocked()
        ends.answers(0, error={"code": -1, "message": ""})
        ends.answers(1, result=hello())
        ends.says({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        ends.says({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        assert ends.changed == 1
        assert ends.wire.sent[-1] == {"jsonrpc": "2.0", "id": "p", "result": {}}


async def test_an_end_during_the_opening_is_told_with_its_words() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:

        async def fail() -> None:
            with pytest.raises(ConnectFailed) as caught:
                await ends.link.open()
            assert caught.value.reason == "exited"
            assert caught.value.message == "the server exited with code 3"
            assert not caught.value.lasting

        nursery.start_soon(fail)
        await trio.testing.wait_all_tasks_blocked()
        ends.link.lost(Ending("exited", "the server exited with code 3"))
    assert ends.link.over.is_set()


async def test_a_dying_connection_is_withdrawn_before_anybody_is_told() -> None:
    """Hazard: whoever hears of the end must not be given the same connection again."""
    ends = Ends()
    connection = await ends.opened()
    published: list[Connection] = [connection]
    seen: list[int] = []

    def withdraw() -> None:
        seen.append(len(published))
        published.clear()

    ends.link.withdraw = withdraw
    async with trio.open_nursery() as nursery:

        async def call() -> None:
            with pytest.raises(ConnectionLost):
                await connection.exchange("tools/call", b"", b"", Slot(0, 0))
            seen.append(len(published))

        async def watch() -> None:
            await ends.link.over.wait()
            seen.append(len(published))

        nursery.start_soon(call)
        nursery.start_soon(watch)
        await trio.testing.wait_all_tasks_blocked()
        ends.link.lost(Ending("exited", "the server closed its output"))
    assert seen == [1, 0, 0]


async def test_a_connection_that_takes_no_more_lines_is_withdrawn_at_once() -> None:
    """So that who tries again waits for the next one instead of meeting the same (D3)."""
    ends = Ends()
    connection = await ends.opened()
    withdrawn: list[bool] = []
    ends.link.withdraw = lambda: withdrawn.append(True)
    slot = Slot(0, 0)
    ends.wire.open = False
    with pytest.raises(ConnectionLost):
        await connection.exchange("tools/call", b"", b"", slot)
    assert withdrawn
    assert not slot.written, "it provably never arrived"
    ends.link.lost(Ending("exited", "the server exited with code 1"))
    assert ends.link.ending.message == "the server exited with code 1"


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ('{"jsonrpc":"2.0","id":%d,"result":{"content":[', "]}}"),
        ('{"result":{"content":[', ']},"jsonrpc":"2.0","id":%d}'),
        ('{"error":{"code":1,"message":"', '"},"id":"%d","jsonrpc":"2.0"}'),
    ],
)
async def test_an_answer_that_is_too_large_ends_its_request_at_once(head: str, tail: str) -> None:
    ends = Ends()
    connection = await ends.opened()

    async def ask() -> None:
        with pytest.raises(Failure) as caught:
            await connection.ask("tools/call", timeout=60)
        assert caught.value.kind == "too_large"

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        number = ends.wire.sent[-1]["id"]
        ends.link.dropped(b'{"jsonrpc":"2.0","method":"x","params":{', b'},"id":%d}' % number)
        ends.link.dropped(b'{"id":999,"result":{', b"}}")
        ends.link.dropped(
            (head % number if "%d" in head else head).encode(),
            (tail % number if "%d" in tail else tail).encode(),
        )
    assert trio.current_time() - began < 1
    assert ends.wire.methods[-1] == "tools/call", "and nothing is cancelled"


# ------------------------------------------------------------------- transports over HTTP


def page(status: int) -> Unanswered:
    return Unanswered("bad_answer", f"HTTP status {status}", reason="bad_answer", status=status)


async def test_a_page_instead_of_an_answer_to_the_probe_is_followed_by_the_handshake() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.link.open)
        await trio.testing.wait_all_tasks_blocked()
        ends.link.failed(b'"mcpd-probe-1"', page(502))
        assert ends.wire.methods == ["server/discover", "initialize"]
        ends.answers(1, result=hello())
    assert ends.link.connection is not None


async def test_an_error_that_names_no_request_counts_for_the_one_on_whose_stream_it_came() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.link.open)
        await trio.testing.wait_all_tasks_blocked()
        refused = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "no session"}}
        ends.link.receive(json.dumps(refused).encode(), b'"mcpd-probe-1"')
        assert ends.wire.methods == ["server/discover", "initialize"]
        ends.answers(1, result=hello())
    connection = ends.link.connection
    assert connection is not None
    async with trio.open_nursery() as nursery:

        async def ask() -> None:
            with pytest.raises(Failure, match="no session"):
                await connection.ask("tools/list", timeout=60)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        ends.link.receive(json.dumps(refused).encode())
        ends.link.receive(json.dumps({**refused, "id": 99, "error": None, "result": {}}).encode(), b"3")
        ends.link.receive(json.dumps(refused).encode(), b"3")


async def test_a_server_that_cannot_be_reached_fails_the_opening_with_its_reason() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:

        async def fail() -> None:
            with pytest.raises(ConnectFailed) as caught:
                await ends.link.open()
            assert (caught.value.reason, caught.value.message) == ("unreachable", "connection refused")

        nursery.start_soon(fail)
        await trio.testing.wait_all_tasks_blocked()
        gone = Unanswered("unavailable", "connection refused", reason="unreachable", reached=False)
        ends.link.failed(b'"mcpd-probe-1"', gone)


async def test_an_end_during_the_opening_keeps_its_reason() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:

        async def fail() -> None:
            with pytest.raises(ConnectFailed) as caught:
                await ends.link.open()
            assert (caught.value.reason, caught.value.lasting) == ("needs_auth", True)

        nursery.start_soon(fail)
        await trio.testing.wait_all_tasks_blocked()
        ends.link.lost(Ending("needs_auth", "HTTP status 401", lasting=True))
        ends.link.lost(Ending("failed", "and then everything else"))
    assert ends.link.ending.reason == "needs_auth", "the first end is the one"


async def test_a_remote_that_keeps_silent_is_not_asked_in_the_older_way() -> None:
    """A timeout says nothing about the era (3.6)."""
    ends = Ends(silence=float("inf"))
    with trio.move_on_after(3600):
        await ends.link.open()
    assert ends.wire.methods == ["server/discover"]
