"""Ids out, answers back: hostile and sloppy servers included (protocol reference 2, 11)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.errors import Failure, ServerError
from mcpd.protocol import extensions
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.extensions import TASKS, UI
from mcpd.protocol.revisions import REVISIONS
from mcpd.protocol.shapes import LEVELS
from mcpd.transport.base import ConnectionLost, Unanswered
from mcpd.transport.pending import Ask, Deadlines, Slot
from mcpd.upstream import connection
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
    def __init__(self, revision: str = "2025-11-25", capabilities: dict[str, Any] | None = None) -> None:
        self.wire = Wire()
        self.deadlines = Deadlines()
        self.changed = 0
        self.noticed: list[tuple[str, bytes]] = []
        self.remarks: list[str] = []
        settled = Settled(REVISIONS[revision], capabilities or {"tools": {}}, {}, "")
        self.connection = Connection(settled, self.wire, self.deadlines, self._noticed, self.remarks.append)

    def _noticed(self, method: str, params: bytes) -> None:
        self.changed += method == "notifications/tools/list_changed"
        self.noticed.append((method, params))

    def says(self, message: Any) -> None:
        self.connection.receive(json.dumps(message).encode())


class Ear:
    """Who made a request; hears progress, logs and questions."""

    def __init__(
        self, session: str = "s1", level: str | None = "info", abilities: Ability = NONE, party: str = ""
    ) -> None:
        self.session = session
        self.party = party or session
        self.abilities = abilities
        self.extensions = b""
        self.makes_tasks = False
        self.asks: list[Ask] = []
        self.level = None if level is None else LEVELS.index(level)
        self.progress: list[Any] = []
        self.logs: list[Any] = []

    def progressed(self, raw: bytes) -> None:
        self.progress.append(json.loads(raw)["progress"])

    def logged(self, raw: bytes) -> None:
        self.logs.append(json.loads(raw)["data"])

    def asked(self, ask: Ask) -> None:
        self.asks.append(ask)


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
    ear = Ear()

    def progress(ident: int) -> dict[str, Any]:
        tokens: list[Any] = [ident + 1, True, None, "x", {}]
        for token in tokens:
            ends.says({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        ends.says({"method": "notifications/progress", "params": {"progressToken": ident, "progress": 0.5}})
        ends.says({"method": "notifications/progress", "params": [1]})
        ends.says({"method": "notifications/progress"})
        return {"id": ident, "result": {}}

    await outcome(ends, progress, Slot(0, 0, ear))
    assert ear.progress == [0.5]


async def test_after_its_outcome_a_request_hears_of_no_progress() -> None:
    """The caller took it back; nothing may follow (8.1)."""
    ends = Ends()
    ear = Ear()
    slot = Slot(0, 0, ear)

    def take_back(ident: int) -> None:
        slot.settle(Failure("cancelled", "taken back"))
        ends.says({"method": "notifications/progress", "params": {"progressToken": ident, "progress": 1}})

    assert isinstance(await outcome(ends, take_back, slot), Failure)
    assert ear.progress == []


# ------------------------------------------------- whose a message is (n03)


@asynccontextmanager
async def asked_by(ends: Ends, *ears: Ear | None) -> AsyncIterator[list[bytes]]:
    """Requests under way, one for each; their ids."""
    keys: list[bytes] = []
    async with trio.open_nursery() as nursery:
        for ear in ears:
            slot = Slot(0, 0, ear)
            nursery.start_soon(ends.connection.exchange, "tools/call", b"", b"", slot, keys.append)
            await trio.testing.wait_all_tasks_blocked()
        yield keys
        nursery.cancel_scope.cancel()


def logs(ends: Ends, level: str, data: str, on: bytes = b"") -> None:
    message = {"method": "notifications/message", "params": {"level": level, "data": data}}
    ends.connection.receive(json.dumps(message).encode(), on)


async def test_a_log_message_is_for_the_only_session_with_requests_there() -> None:
    ends = Ends()
    a, b = Ear("a"), Ear("b")
    logs(ends, "error", "nobody's")
    async with asked_by(ends, None, a):
        logs(ends, "error", "a's")
        async with asked_by(ends, a):
            logs(ends, "error", "a's, of one of two requests")
            async with asked_by(ends, b):
                logs(ends, "error", "a's or b's")
    async with asked_by(ends, b):
        logs(ends, "error", "b's")
    assert a.logs == ["a's", "a's, of one of two requests"]
    assert b.logs == ["b's"]
    assert len(ends.remarks) == 5, "all of them are in the server's own log"


async def test_a_message_on_the_stream_of_a_request_is_for_that_one() -> None:
    ends = Ends()
    a, b = Ear("a"), Ear("b")
    async with asked_by(ends, a, b, None) as keys:
        for number, key in enumerate(keys):
            logs(ends, "error", f"of {number}", key)
        logs(ends, "error", "of a stream that is not there", b"999")
        assert [ear.logs for ear in (a, b)] == [["of 0"], ["of 1"]]
        assert ends.connection.askers(keys[1]) == [b]
        assert ends.connection.askers() == []


@pytest.mark.parametrize(
    ("wanted", "heard"),
    [
        ("debug", ["debug", "info", "error"]),
        ("info", ["info", "error"]),
        ("error", ["error"]),
        ("emergency", []),
        (None, []),
    ],
)
async def test_logs_are_heard_from_the_wanted_level_on(wanted: str | None, heard: list[str]) -> None:
    ends = Ends()
    ear = Ear(level=wanted)
    async with asked_by(ends, ear):
        for level in ("debug", "info", "error", "loud", ""):
            logs(ends, level, level)
    assert ear.logs == heard


async def test_of_one_sessions_requests_the_one_that_wants_most_hears_it() -> None:
    ends = Ends("2026-07-28")
    none, error, info = Ear(level=None), Ear(level="error"), Ear(level="info")
    async with asked_by(ends, none, error, info):
        logs(ends, "warning", "x")
    assert (none.logs, error.logs, info.logs) == ([], [], ["x"])


@pytest.mark.parametrize(
    ("revision", "capabilities", "level", "said"),
    [
        ("2026-07-28", {"logging": {}}, "warning", "warning"),
        ("2026-07-28", {"logging": {}}, None, None),
        ("2026-07-28", {}, "warning", None),
        ("2025-11-25", {"logging": {}}, "warning", None),
    ],
)
async def test_a_stateless_server_is_told_the_level_by_each_request(
    revision: str, capabilities: dict[str, Any], level: str | None, said: str | None
) -> None:
    ends = Ends(revision, capabilities)
    async with asked_by(ends, Ear(level=level)):
        meta = ends.wire.lines[-1]["params"]["_meta"]
    assert meta.get("io.modelcontextprotocol/logLevel") == said
    async with asked_by(ends, None):
        assert "io.modelcontextprotocol/logLevel" not in ends.wire.lines[-1]["params"]["_meta"]


# ------------------------------------------------------------------ batches

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


async def test_an_array_is_messages_where_the_revision_has_batches_but_not_within_another() -> None:
    """2025-03-26 alone has them; JSON-RPC 2.0, section 6, knows no array within one."""
    ends = Ends("2025-03-26")
    ends.says([CHANGED, [CHANGED], CHANGED])
    assert (ends.changed, len(ends.remarks)) == (2, 1)
    ends = Ends("2025-11-25")
    ends.says([CHANGED, CHANGED])
    assert (ends.changed, len(ends.remarks)) == (0, 1)


# ------------------------------------------------------------------ its end


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


# ------------------------------------------------------- extensions and tasks


async def declared(ends: Ends, asker: Ear | None, own: bytes = b"") -> Any:
    """The extensions that a stateless server is told of with a request."""
    slot = Slot(0, 0, asker)
    slot.extensions = own
    ends.connection.send("tools/call", b"", b"", slot)
    meta = ends.wire.lines[-1]["params"]["_meta"]
    return meta["io.modelcontextprotocol/clientCapabilities"].get("extensions")


async def test_a_stateless_server_is_told_of_extensions_that_both_have() -> None:
    """For the caller of each request alone (5.17)."""
    ends = Ends("2026-07-28", {"tools": {}, "extensions": {TASKS: {}, "com.example/x": {}}})
    a, b = Ear("a"), Ear("b")
    a.extensions = extensions.encode({TASKS: {}, UI: {"mimeTypes": ["x"]}, "com.example/y": {}})
    assert await declared(ends, a) == {TASKS: {}, UI: {"mimeTypes": ["x"]}}
    assert await declared(ends, b) is None
    assert await declared(ends, None) is None
    assert await declared(ends, None, extensions.encode({TASKS: {}})) == {TASKS: {}}
    silent = Ends("2026-07-28", {"tools": {}})
    assert await declared(silent, a) == {UI: {"mimeTypes": ["x"]}}
    assert not silent.connection.announces(TASKS)
    assert ends.connection.announces(TASKS)


async def test_of_many_different_declarations_only_some_are_kept() -> None:
    ends = Ends("2026-07-28", {"extensions": {"com.example/x": {}}})
    for number in range(connection.STANDINGS * 2):
        ear = Ear()
        ear.extensions = extensions.encode({"com.example/x": {"n": number}})
        assert await declared(ends, ear) == {"com.example/x": {"n": number}}
    assert len(ends.connection._standings) <= connection.STANDINGS


async def test_the_progress_of_a_task_reaches_its_caller_after_the_request() -> None:
    """Its token is good for the task's life (5.15)."""
    ends = Ends()
    a, b = Ear("a"), Ear("b")
    async with asked_by(ends, a) as keys:
        (key,) = keys
        ends.connection.follow(key, Slot(0, 0, a))
        ends.says({"id": int(key), "result": {"task": {}}})
        async with asked_by(ends, b):
            progress = {"progressToken": int(key), "progress": 1}
            ends.says({"method": "notifications/progress", "params": progress})
            ends.connection.unfollow(key)
            ends.says({"method": "notifications/progress", "params": progress})
    assert (len(a.progress), b.progress) == (1, [])


async def test_a_question_about_a_task_is_for_who_made_it() -> None:
    """Whoever else has requests under way (n03, 5.15)."""
    ends = Ends()
    a, b = Ear("a", abilities=Ability.FORM), Ear("b", abilities=Ability.FORM)
    followed = ends.connection.follow(b"77", Slot(0, 0, a))
    followed.task = "t-1"
    about = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}}}
    async with asked_by(ends, b):
        ends.says({"id": 1, "method": "elicitation/create", "params": {"message": "who?", **about}})
        assert (len(a.asks), len(b.asks)) == (1, 0)
        assert followed.slot.held
        ends.says({"id": 2, "method": "elicitation/create", "params": {"message": "who?"}})
        assert ends.wire.lines[-1]["error"]["code"] in (-32601, -32603), "a's task counts as a request"
        followed.waits = False
        ends.says({"id": 3, "method": "elicitation/create", "params": {"message": "who?"}})
        assert (len(a.asks), len(b.asks)) == (1, 1)
    ends.connection.unfollow(b"77")
    assert ends.wire.lines[-1]["error"]["message"] == "the request that this belonged to has ended"


async def test_the_state_of_a_task_is_told_to_who_follows_it() -> None:
    ends = Ends()
    heard: list[bytes] = []
    followed = ends.connection.follow(b"77", Slot(0, 0, Ear("a")))
    followed.task, followed.told = "t-1", heard.append
    ends.connection.follow(b"78", Slot(0, 0, Ear("b"))).task = "t-2"
    for task in ("t-1", "t-2", "t-3", 3, None):
        ends.says({"method": "notifications/tasks/status", "params": {"taskId": task, "status": "working"}})
    ends.says({"method": "notifications/tasks/status"})
    assert [json.loads(raw) for raw in heard] == [{"taskId": "t-1", "status": "working"}]
    ends.connection.lose()
    assert followed.slot.settled
