"""One request of an agent to one server, against real processes that die at the worst moments (D3, D9)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.changes import Changes
from mcpd.config.spec import Config, Server
from mcpd.errors import Failure, ServerError
from mcpd.protocol.abilities import Ability
from mcpd.transport import stdio
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.fleet import Fleet
from mcpd.upstream.request import request
from mcpd.upstream.step import Sending
from mcpd.upstream.ticket import Ticket, Withdrawn
from mcpd.upstream.upstream import Upstream
from tests.upstream.test_connection import Ear

TINY = str(Path(__file__).parents[1] / "servers" / "tiny.py")


@asynccontextmanager
async def serving(cache: Path, *options: str, **fields: Any) -> AsyncIterator[Upstream]:
    """A tiny server that runs."""
    server = Server(name="tiny", source="test", command=sys.executable, args=("-I", TINY, *options), **fields)
    fleet = Fleet(
        Changes(), CatalogCache(cache), {"PATH": os.environ["PATH"], "HOME": "/"}, f"t{os.getpid()}.r."
    )
    fleet.apply(Config(servers={"tiny": server}), frozenset(), {}, connect=False)
    async with trio.open_nursery() as nursery:
        await nursery.start(fleet.run)
        upstream = fleet.find("tiny")
        await upstream.reach(20)
        yield upstream
        nursery.cancel_scope.cancel()


async def ask(
    upstream: Upstream,
    members: bytes = b'"name":"echo","arguments":{"text":"hi"}',
    *,
    method: str = "tools/call",
    ticket: Ticket | None = None,
    idle: float = 20.0,
    total: float = 0.0,
    may_replay: Callable[[bool], bool] = lambda reached: False,
    holds: Callable[[], bool] = lambda: True,
) -> bytes:
    with trio.fail_after(30):
        return await request(
            Sending(upstream, ticket or Ticket(), method, members, b"", idle, total, None, may_replay, holds)
        )


class Policy:
    """Answers always the same and remembers what it was asked."""

    def __init__(self, answer: bool) -> None:
        self.answer = answer
        self.asked: list[bool] = []

    def __call__(self, reached: bool) -> bool:
        self.asked.append(reached)
        return self.answer


def kill(upstream: Upstream) -> None:
    """End the process; nothing of mcpd runs before its pipe is broken."""
    pid = upstream.status.pid
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


async def test_a_result_comes_back_as_its_json_text(real_clock: None, tmp_path: Path) -> None:
    async with serving(tmp_path) as upstream:
        assert await ask(upstream) == b'{"content": [{"type": "text", "text": "hi"}], "isError": false}'


async def test_a_servers_own_error_passes(real_clock: None, tmp_path: Path) -> None:
    async with serving(tmp_path) as upstream:
        with pytest.raises(ServerError) as caught:
            await ask(upstream, b"", method="no/such")
        assert caught.value.raw == b'{"code": -32601, "message": "no method no/such"}'


async def test_a_server_that_rests_is_started_and_the_start_costs_no_time_of_the_call(
    real_clock: None, tmp_path: Path
) -> None:
    async with serving(tmp_path) as upstream:
        upstream._end_turn()
        assert upstream.connection is None
        assert b"hi" in await ask(upstream, idle=0.5)


async def test_what_never_arrived_is_sent_after_the_restart(real_clock: None, tmp_path: Path) -> None:
    async with serving(tmp_path) as upstream:
        policy = Policy(True)
        kill(upstream)
        assert b"hi" in await ask(upstream, may_replay=policy)
        assert policy.asked == [False], "it never arrived"
        assert upstream.status.state == "connected"


async def test_what_never_arrived_and_may_not_be_repeated_is_said_to_have_failed(
    real_clock: None, tmp_path: Path
) -> None:
    async with serving(tmp_path) as upstream:
        kill(upstream)
        with pytest.raises(Failure) as caught:
            await ask(upstream)
        assert caught.value.kind == "unavailable"
        assert "before the request reached it" in caught.value.message


@pytest.mark.parametrize("replay", [True, False])
async def test_what_arrived_is_repeated_once_at_most(real_clock: None, tmp_path: Path, replay: bool) -> None:
    async with serving(tmp_path) as upstream:
        policy = Policy(replay)
        with pytest.raises(Failure) as caught:
            await ask(upstream, b'"name":"crash"', may_replay=policy)
        assert caught.value.kind == "outcome_unknown"
        assert policy.asked == [True]
        assert next(upstream._around.spawns) == (3 if replay else 2), "so many processes were started before"


async def test_a_server_that_closed_its_input_is_restarted(
    real_clock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lives and keeps its output open, so that nothing but the broken pipe tells."""
    monkeypatch.setattr(stdio, "CLOSE_WAIT", 0.1)
    async with serving(tmp_path, "--deaf", str(tmp_path / "flag")) as upstream:
        assert b"hi" in await ask(upstream, may_replay=lambda reached: not reached)
        assert upstream.status.state == "connected"


async def test_a_request_can_be_taken_back_while_the_server_comes_up(
    real_clock: None, tmp_path: Path
) -> None:
    async with serving(tmp_path) as upstream:
        kill(upstream)
        ticket = Ticket()
        async with trio.open_nursery() as nursery:

            async def give_up() -> None:
                with pytest.raises(Withdrawn):
                    await ask(upstream, ticket=ticket, may_replay=lambda reached: True)

            nursery.start_soon(give_up)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert upstream.connection is None
            ticket.withdraw()
        await upstream.reach(20)


async def test_a_request_that_was_taken_back_is_never_sent(real_clock: None, tmp_path: Path) -> None:
    async with serving(tmp_path) as upstream:
        ticket = Ticket()
        ticket.withdraw()
        connection = upstream.connection
        assert connection is not None
        sent = connection._next
        with pytest.raises(Withdrawn):
            await ask(upstream, ticket=ticket)
        assert connection._next == sent


@pytest.mark.parametrize(
    ("idle", "total", "words"),
    [
        (0.2, 0.0, "gave no answer and no progress for 0.2 s"),
        (0.2, 30.0, "gave no answer and no progress for 0.2 s"),
        (0.0, 0.2, "did not finish within 0.2 s"),
        (30.0, 0.2, "did not finish within 0.2 s"),
    ],
)
async def test_which_limit_ended_it_is_said(
    real_clock: None, tmp_path: Path, idle: float, total: float, words: str
) -> None:
    async with serving(tmp_path) as upstream:
        with pytest.raises(Failure) as caught:
            await ask(upstream, b'"name":"sleep","arguments":{"seconds":0.5}', idle=idle, total=total)
        assert caught.value.kind == "timed_out"
        assert words in caught.value.message
        assert b"hi" in await ask(upstream), "the late answer is dropped, the next one is its own"


async def test_a_call_that_succeeds_starts_the_restart_schedule_again(
    real_clock: None, tmp_path: Path
) -> None:
    async with serving(tmp_path) as upstream:
        for _ in range(2):
            kill(upstream)
            with upstream._around.changes.subscribe() as changes, trio.fail_after(20):
                while upstream.status.state != "restarting":
                    await changes.__anext__()
            delay = upstream.status.retry_at - upstream.status.last_failure
            assert round(delay, 1) == 1.0, "the first delay, and not the second (D8)"
            assert b"hi" in await ask(upstream)


class Room:
    """Places for everybody."""

    def leave(self, ticket: Ticket) -> None:
        ticket.placed = False

    async def enter(self, ticket: Ticket) -> None:
        await trio.lowlevel.checkpoint()
        ticket.placed = True


async def test_for_what_its_server_is_never_told_it_is_opened_anew_once(
    real_clock: None, tmp_path: Path
) -> None:
    """It was for ever: the next handshake says no more than the last of who can be asked what (5.1)."""
    async with serving(tmp_path) as upstream:
        first = upstream.connection
        sending = Sending(
            upstream,
            Ticket(Room(), True),
            "tools/call",
            b'"name":"echo","arguments":{"text":"hi"}',
            b"",
            20.0,
            0.0,
            Ear(abilities=Ability.FORM),
            lambda reached: False,
            lambda: True,
        )
        with trio.fail_after(20):
            assert b"hi" in await request(sending)
        assert upstream.connection is not first
