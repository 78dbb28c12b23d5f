"""Whether a remote is still there: every answer to a check, and the sleep of the machine."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.api.status import Reason
from mcpd.protocol.revisions import REVISIONS
from mcpd.transport.base import ConnectionLost, Ending, Unanswered
from mcpd.transport.pending import Deadlines, Slot
from mcpd.upstream.connection import Connection
from mcpd.upstream.health import CHECK, PATIENCE, Health, follow_sleep, watch_sleep
from mcpd.upstream.opening import Settled


class Ends:
    """A connection under watch; what it sends is kept."""

    queued = 0

    def __init__(self, revision: str = "2025-11-25") -> None:
        self.sent: list[dict[str, Any]] = []
        self.endings: list[Ending] = []
        self.deadlines = Deadlines()
        settled = Settled(REVISIONS[revision], {}, {}, "")
        self.connection = Connection(settled, self, self.deadlines, lambda method, params: None, print)
        self.over = trio.Event()
        self.health = Health(self.connection, self.lost)
        self.connection.doubted = self.health.doubt

    def lost(self, ending: Ending) -> None:
        self.endings.append(ending)
        self.over.set()

    def write(self, line: bytes) -> bool:
        self.sent.append(json.loads(line))
        return True

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.sent]

    def answers(self, **members: Any) -> None:
        answer = {"jsonrpc": "2.0", "id": self.sent[-1]["id"], **members}
        self.connection.receive(json.dumps(answer).encode())

    def unanswered(self, failure: Unanswered | ConnectionLost) -> None:
        self.connection.failed(b"%d" % self.sent[-1]["id"], failure)


@asynccontextmanager
async def watched(revision: str = "2025-11-25") -> AsyncIterator[Ends]:
    ends = Ends(revision)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.deadlines.run)
        nursery.start_soon(ends.health.run)
        await trio.testing.wait_all_tasks_blocked()
        assert ends.sent == [], "nothing is asked without a reason"
        yield ends
        nursery.cancel_scope.cancel()


def no_answer(kind: str, reason: Reason, status: int = 0) -> Unanswered:
    return Unanswered(kind, "why", reason=reason, status=status)


@pytest.mark.parametrize(("revision", "method"), [("2025-06-18", "ping"), ("2026-07-28", "server/discover")])
async def test_a_server_that_answers_is_there(revision: str, method: str) -> None:
    async with watched(revision) as ends:
        ends.connection.failed(b"", no_answer("unavailable", "unreachable"))
        await trio.testing.wait_all_tasks_blocked()
        assert ends.methods == [method]
        ends.health.doubt()
        ends.answers(result={})
        await trio.testing.wait_all_tasks_blocked()
        assert ends.methods == [method], "doubts that came meanwhile are answered with it"
        ends.health.doubt()
        await trio.testing.wait_all_tasks_blocked()
        assert ends.methods == [method] * 2
        ends.answers(error={"code": -32601, "message": "what?"})
        await trio.sleep(3600)
        assert ends.endings == []
        assert ends.methods == [method] * 2


@pytest.mark.parametrize(
    ("failure", "ending"),
    [
        (no_answer("unavailable", "unreachable"), Ending("unreachable", "why")),
        (no_answer("bad_answer", "bad_answer", 502), Ending("bad_answer", "why")),
        (no_answer("needs_login", "needs_auth", 401), Ending("needs_auth", "why", lasting=True)),
        (no_answer("bad_answer", "access_denied", 403), Ending("access_denied", "why", lasting=True)),
        # It is there, though it says little.
        (no_answer("bad_answer", "bad_answer", 429), None),
        # Its transport says so itself, and why.
        (ConnectionLost("HTTP status 404"), None),
    ],
)
async def test_what_comes_instead_of_an_answer(
    failure: Unanswered | ConnectionLost, ending: Ending | None
) -> None:
    async with watched() as ends:
        ends.health.doubt()
        await trio.testing.wait_all_tasks_blocked()
        ends.unanswered(failure)
        await trio.sleep(3600)
        assert ends.endings == ([] if ending is None else [ending])
        assert ends.methods == ["ping"]


async def test_a_server_that_keeps_silent_is_given_up_after_ten_seconds() -> None:
    async with watched() as ends:
        began = trio.current_time()
        ends.health.doubt()
        await ends.over.wait()
        assert CHECK <= trio.current_time() - began < CHECK + 1
        assert ends.endings == [Ending("not_responding", "no answer to ping within 10 s")]
        assert ends.methods == ["ping", "notifications/cancelled"]


async def test_a_server_that_works_on_something_else_is_asked_again_and_not_for_ever() -> None:
    """One that does one thing at a time answers no ping meanwhile; its call must not be given up for that."""
    async with watched() as ends, trio.open_nursery() as nursery:

        async def call() -> None:
            await ends.connection.exchange("tools/call", b"", b"", Slot(0, 0))

        nursery.start_soon(call)
        await trio.testing.wait_all_tasks_blocked()
        ends.health.doubt()
        await trio.sleep(CHECK + 1)
        assert ends.methods.count("ping") == 2
        ends.answers(result={})
        await trio.sleep(3600)
        assert ends.endings == []
        began = trio.current_time()
        ends.health.doubt()
        await ends.over.wait()
        assert trio.current_time() - began < PATIENCE * CHECK + 2
        nursery.cancel_scope.cancel()


async def test_a_sleep_of_the_machine_is_told_and_a_clock_that_was_set_is_not(real_clock: None) -> None:
    fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
    clock = iter([0.0, 0.2, 3600.0, 3600.5])
    woken: list[bool] = []
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow_sleep, fd, lambda: next(clock), lambda: woken.append(True))
            for told in ([], [True], [True]):
                await trio.testing.wait_all_tasks_blocked(0.05)
                os.eventfd_write(fd, 1)
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert woken == told
            nursery.cancel_scope.cancel()
    finally:
        os.close(fd)


async def test_watching_costs_one_descriptor_and_wakes_nobody(real_clock: None) -> None:
    before = os.listdir("/proc/self/fd")
    woken: list[bool] = []
    with trio.move_on_after(0.3) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch_sleep, lambda: woken.append(True))
            await trio.testing.wait_all_tasks_blocked()
            assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    assert scope.cancelled_caught, "it waits until it is cancelled"
    assert woken == []
    assert len(os.listdir("/proc/self/fd")) == len(before)
