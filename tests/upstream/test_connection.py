"""Ids out, answers back: hostile and sloppy servers included (protocol reference 2, 11)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.errors import Failure, ServerError
from mcpd.protocol.revisions import REVISIONS
from mcpd.transport.base import ConnectionLost, Unanswered
from mcpd.transport.pending import Deadlines, Slot
from mcpd.upstream.connection import Connection
from mcpd.upstream.opening import Settled


class Wire:
    """The sending half of a transport that remembers what left."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.open = True

    queued = 0

    def write(self, line: bytes) -> bool:
        if self.open:
            self.lines.append(json.loads(line))
        return self.open


class Ends:
    def __init__(self, revision: str = "2025-11-25") -> None:
        self.wire = Wire()
        self.deadlines = Deadlines()
        self.changed = 0
        self.noticed: list[tuple[str, bytes]] = []
        self.remarks: list[str] = []
        settled = Settled(REVISIONS[revision], {"tools": {}}, {}, "")
        self.connection = Connection(settled, self.wire, self.deadlines, self._noticed, self.remarks.append)

    def _noticed(self, method: str, params: bytes) -> None:
        self.changed += method == "notifications/tools/list_changed"
        self.noticed.append((method, params))

    def says(self, message: Any) -> None:
        self.connection.receive(json.dumps(message).encode())


async def outcome(
    ends: Ends, answer: Callable[[int], Any], slot: Slot | None = None
) -> bytes | BaseException:
    """Send one request, answer it as told, and give what came of it."""
    got: list[bytes | BaseException] = []

    async def send() -> None:
        try:
            got.append(await ends.connection.exchange("tools/call", b'"name":"x"', b"", slot or Slot(0, 0)))
        except (Failure, ConnectionLost) as e:
            got.append(e)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        await trio.testing.wait_all_tasks_blocked()
        ident = ends.wire.lines[-1]["id"]
        message = answer(ident)
        if message is not None:
            ends.says(message)
    return got[0]


@pytest.mark.parametrize("spelled", [int, str, float])
async def test_an_answer_matches_however_its_id_is_spelled(spelled: Callable[[int], Any]) -> None:
    assert await outcome(Ends(), lambda i: {"id": spelled(i), "result": {"a": 1}}) == b'{"a": 1}'


async def test_a_servers_error_passes_unchanged() -> None:
    error = {"code": -32000, "message": "no", "data": {"x": [1.50]}}
    got = await outcome(Ends(), lambda i: {"id": i, "error": error})
    assert isinstance(got, ServerError)
    assert json.loads(got.raw) == error


@pytest.mark.parametrize(
    ("error", "passed"),
    [
        ("boom", {"code": -32603, "message": '"boom"'}),
        ([], {"code": -32603, "message": "[]"}),
        ({}, {"code": -32603, "message": "an error without a message"}),
        ({"code": -5}, {"code": -5, "message": "an error without a message"}),
        ({"message": "no"}, {"code": -32603, "message": "no"}),
        (
            {"code": -5, "data": {"x": 1}},
            {"code": -5, "message": "an error without a message", "data": {"x": 1}},
        ),
        ({"code": "E1", "message": "no"}, {"code": -32603, "message": '{"code": "E1", "message": "no"}'}),
        ({"code": -5, "message": None}, {"code": -32603, "message": '{"code": -5, "message": null}'}),
    ],
)
async def test_an_error_of_another_shape_is_mended(error: Any, passed: dict[str, Any]) -> None:
    """A strict agent would drop the whole answer and wait for ever."""
    got = await outcome(Ends(), lambda i: {"jsonrpc": "2.0", "id": i, "error": error})
    assert isinstance(got, ServerError)
    assert json.loads(got.raw) == passed


async def test_a_result_beside_an_error_that_is_null_counts() -> None:
    got = await outcome(Ends(), lambda i: {"id": i, "result": {"a": 1}, "error": None})
    assert got == b'{"a": 1}'


@pytest.mark.parametrize(
    "extra", [{}, {"error": None}, {"result": None}, {"result": []}, {"result": "text"}, {"result": 1}]
)
async def test_an_answer_without_an_object_ends_the_call_at_once(extra: dict[str, Any]) -> None:
    got = await outcome(Ends(), lambda i: {"jsonrpc": "2.0", "id": i, **extra})
    assert isinstance(got, Failure)
    assert got.kind == "bad_answer"


async def test_doubled_late_and_unknown_answers_are_dropped() -> None:
    ends = Ends()
    assert await outcome(ends, lambda i: {"id": i, "result": {}}) == b"{}"
    last = ends.wire.lines[-1]["id"]
    idents: list[Any] = [last, -1, 10**30, "abc", None, last + 1, 1.5, [1], {}]
    for ident in idents:
        ends.says({"jsonrpc": "2.0", "id": ident, "result": {}})
        ends.says({"jsonrpc": "2.0", "id": ident, "error": {"code": 1, "message": "x"}})
    assert ends.remarks == ["error answer to no request: x"] * 9
    assert await outcome(ends, lambda i: {"id": i, "result": {}}) == b"{}"


async def test_ids_are_never_reused_and_serve_as_progress_tokens() -> None:
    ends = Ends()
    for _ in range(3):
        await outcome(ends, lambda i: {"id": i, "result": {}})
    sent = [line for line in ends.wire.lines if "id" in line]
    assert len({line["id"] for line in sent}) == 3
    assert all(line["params"]["_meta"]["progressToken"] == line["id"] for line in sent)


async def test_a_request_that_times_out_is_cancelled_upstream() -> None:
    ends = Ends()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.deadlines.run)
        with pytest.raises(Failure) as caught:
            await ends.connection.exchange("tools/call", b"", b"", Slot(2, 0))
        nursery.cancel_scope.cancel()
    assert caught.value.kind == "timed_out"
    request, cancel = ends.wire.lines
    assert cancel["method"] == "notifications/cancelled"
    assert cancel["params"]["requestId"] == request["id"]


async def test_a_cancelled_caller_tells_the_server_and_no_half_line_leaves() -> None:
    ends = Ends()
    with trio.move_on_after(1):
        await ends.connection.exchange("tools/call", b"", b"", Slot(0, 0))
    assert [line["method"] for line in ends.wire.lines] == ["tools/call", "notifications/cancelled"]


async def test_an_answered_request_is_not_cancelled() -> None:
    ends = Ends()
    await outcome(ends, lambda i: {"id": i, "result": {}})
    assert [line["method"] for line in ends.wire.lines] == ["tools/call"]


async def test_progress_reaches_its_request_alone() -> None:
    ends = Ends()
    heard: list[bytes] = []

    def progress(ident: int) -> dict[str, Any]:
        tokens: list[Any] = [ident + 1, True, None, "x", {}]
        for token in tokens:
            ends.says({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        ends.says({"method": "notifications/progress", "params": {"progressToken": ident, "progress": 0.5}})
        ends.says({"method": "notifications/progress", "params": [1]})
        ends.says({"method": "notifications/progress"})
        return {"id": ident, "result": {}}

    await outcome(ends, progress, Slot(0, 0, heard.append))
    assert [json.loads(raw)["progress"] for raw in heard] == [0.5]


async def test_after_its_outcome_a_request_hears_of_no_progress() -> None:
    """The caller took it back; nothing may follow (8.1)."""
    ends = Ends()
    heard: list[bytes] = []
    slot = Slot(0, 0, heard.append)

    def take_back(ident: int) -> None:
        slot.settle(Failure("cancelled", "taken back"))
        ends.says({"method": "notifications/progress", "params": {"progressToken": ident, "progress": 1}})

    assert isinstance(await outcome(ends, take_back, slot), Failure)
    assert heard == []


async def test_losing_the_connection_tells_who_waits_and_refuses_what_follows() -> None:
    ends = Ends()

    def lose(ident: int) -> None:
        ends.connection.lose()

    assert isinstance(await outcome(ends, lose), ConnectionLost)
    with pytest.raises(ConnectionLost):
        await ends.connection.exchange("tools/call", b"", b"", Slot(0, 0))
    assert len(ends.wire.lines) == 1


async def test_a_request_that_cannot_leave_is_known_not_to_have_reached_the_server() -> None:
    ends = Ends()
    ends.wire.open = False
    slot = Slot(0, 0)
    with pytest.raises(ConnectionLost):
        await ends.connection.exchange("tools/call", b"", b"", slot)
    assert not slot.written


def test_requests_of_the_server_are_answered_by_era() -> None:
    legacy, modern = Ends(), Ends("2026-07-28")
    for ends in (legacy, modern):
        ends.says({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        ends.says({"jsonrpc": "2.0", "id": "s", "method": "sampling/createMessage", "params": {}})
    assert legacy.wire.lines[0] == {"jsonrpc": "2.0", "id": 5, "result": {}}
    assert legacy.wire.lines[1]["error"]["code"] == -32601
    assert modern.wire.lines == []


def test_notices_with_wrong_members_are_ignored() -> None:
    ends = Ends()
    odd: list[Any] = [None, [], "x", {"requestId": 1}, {"level": 3}]
    for params in odd:
        for method in ("notifications/cancelled", "notifications/message", "notifications/odd", ""):
            ends.says({"jsonrpc": "2.0", "method": method, "params": params})
    ends.says({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    assert ends.changed == 1


def test_what_concerns_no_request_goes_upward_as_it_stands() -> None:
    ends = Ends()
    ends.connection.receive(b'{"method":"notifications/resources/updated","params":{"uri": "a:\\u0062"}}')
    ends.says({"method": "notifications/prompts/list_changed"})
    assert ends.noticed == [
        ("notifications/resources/updated", b'{"uri": "a:\\u0062"}'),
        ("notifications/prompts/list_changed", b""),
    ]


def test_arrays_are_taken_only_where_the_revision_has_them() -> None:
    for revision, changed in (("2025-03-26", 2), ("2025-11-25", 0)):
        ends = Ends(revision)
        ends.says([{"method": "notifications/tools/list_changed"}] * 2)
        assert ends.changed == changed


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 400 + b'"' + b"x" * 1_000_000 + b'"' + b"]" * 400,
        b"[" * 100_000,
        b"[" + b"1," * 1_000_000 + b"1]",
        b"[" + b",".join([b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'] * 257) + b"]",
    ],
)
async def test_an_array_is_read_one_level_deep_and_so_far(line: bytes) -> None:
    ends = Ends("2025-03-26")
    ends.connection.receive(line)
    assert len(ends.remarks) == 1
    assert len(ends.remarks[0]) < 1000
    assert ends.changed == 0


async def test_members_of_an_array_that_are_no_messages_cost_only_themselves() -> None:
    ends = Ends("2025-03-26")
    notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    ends.says([notice, [notice], 1, None, notice])
    assert ends.changed == 2
    assert len(ends.remarks) == 3


async def test_a_long_error_passes_whole_and_is_short_in_our_own_words() -> None:
    ends = Ends()
    error = {"code": -1, "message": "one\ntwo " + "x" * 1_000_000}
    ends.says({"jsonrpc": "2.0", "id": 999, "error": error})
    [remark] = ends.remarks
    assert len(remark) < 400
    assert "\n" not in remark
    got = await outcome(ends, lambda i: {"id": i, "error": error})
    assert isinstance(got, ServerError)
    assert json.loads(got.raw) == error
    assert got.message.startswith("one two xxx")
    assert len(got.message) <= 300


# ------------------------------------------------------------------- what a transport brings no answer to


@pytest.mark.parametrize(
    ("failure", "reached"),
    [
        (Unanswered("bad_answer", "HTTP status 502", reason="bad_answer", status=502), True),
        (Unanswered("unavailable", "connection refused", reason="unreachable", reached=False), False),
        (ConnectionLost("HTTP status 404"), False),
    ],
)
async def test_a_request_without_an_answer_is_told_why_and_whether_it_arrived(
    failure: Unanswered | ConnectionLost, reached: bool
) -> None:
    ends = Ends()
    doubts: list[bool] = []
    ends.connection.doubted = lambda: doubts.append(True)
    slot = Slot(0, 0)

    async def ask() -> None:
        with pytest.raises(type(failure)) as caught:
            await ends.connection.exchange("tools/call", b"", b"", slot)
        assert caught.value is failure

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        ends.connection.failed(b"99", failure)
        ends.connection.failed(b"%d" % ends.wire.lines[-1]["id"], failure)
    assert slot.written is reached
    assert not ends.connection.busy
    assert len(ends.wire.lines) == 1, "nothing is left to be cancelled"
    assert len(doubts) == (2 if isinstance(failure, Unanswered) else 0)


async def test_a_request_that_timed_out_raises_doubts() -> None:
    ends = Ends()
    doubts: list[bool] = []
    ends.connection.doubted = lambda: doubts.append(True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.deadlines.run)
        with pytest.raises(Failure, match="time limit"):
            await ends.connection.ask("tools/list", timeout=5)
        nursery.cancel_scope.cancel()
    assert doubts == [True]
