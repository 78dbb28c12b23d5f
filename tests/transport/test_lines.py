"""Lines leave whole, whoever is cancelled and however slowly they are read."""

from __future__ import annotations

import os
import socket

import trio
import trio.testing

from mcpd.transport.lines import LineWriter, Turns, hung_up, read_chunk


def pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return ours, theirs


async def read_lines(fd: int, count: int) -> list[bytes]:
    data = b""
    while data.count(b"\n") < count:
        chunk = await read_chunk(fd)
        assert chunk
        data += chunk
    return data.split(b"\n")[:-1]


async def test_what_is_not_taken_at_once_follows_whole_and_in_order(real_clock: None) -> None:
    ours, theirs = pair()
    with ours, theirs:
        async with trio.open_nursery() as nursery:
            writer = LineWriter(ours.fileno(), nursery)
            lines = [bytes([65 + i]) * 300_000 + b"\n" for i in range(4)]
            assert all(writer.write(line) for line in lines)
            assert writer.queued > 900_000
            got = await read_lines(theirs.fileno(), 4)
            await writer.drained()
        assert [line + b"\n" for line in got] == lines
        assert writer.queued == 0


async def test_the_lines_of_one_turn_leave_together_behind_the_first(real_clock: None) -> None:
    ours, theirs = pair()
    turns = Turns()
    with ours, theirs:
        async with trio.open_nursery() as nursery:
            writer = LineWriter(ours.fileno(), nursery, turns=turns)
            for line in (b"a\n", b"b\n", b"c\n"):
                assert writer.write(line)
            assert theirs.recv(100) == b"a\n"
            assert writer.queued == 4
            await writer.drained()
            assert theirs.recv(100) == b"b\nc\n"
            turns.number += 1
            writer.write(b"d\n")
            assert theirs.recv(100) == b"d\n"
            assert writer.queued == 0


async def test_more_lines_of_one_turn_than_the_kernel_takes_at_once(real_clock: None) -> None:
    ours, theirs = pair()
    lines = [b"%d" % i * (1 + i % 50) for i in range(5000)]
    with ours, theirs:
        async with trio.open_nursery() as nursery:
            writer = LineWriter(ours.fileno(), nursery, turns=Turns())
            assert all(writer.write(line + b"\n") for line in lines)
            assert await read_lines(theirs.fileno(), len(lines)) == lines
            await writer.drained()
            assert writer.queued == 0


async def test_a_peer_that_goes_within_a_turn_is_noticed(real_clock: None) -> None:
    ours, theirs = pair()
    with ours:
        async with trio.open_nursery() as nursery:
            broke = trio.Event()
            writer = LineWriter(ours.fileno(), nursery, broke.set, Turns())
            writer.write(b"a\n")
            theirs.close()
            assert writer.write(b"b\n")
            await broke.wait()
            assert writer.broken
            assert writer.queued == 0


async def test_a_cancelled_caller_never_leaves_half_a_line(real_clock: None) -> None:
    ours, theirs = pair()
    with ours, theirs:
        async with trio.open_nursery() as nursery:
            writer = LineWriter(ours.fileno(), nursery)
            with trio.CancelScope() as scope:
                scope.cancel()
                writer.write(b"a" * 500_000 + b"\n")
                await trio.lowlevel.checkpoint()
            writer.write(b"after\n")
            first, second = await read_lines(theirs.fileno(), 2)
        assert (first, second) == (b"a" * 500_000, b"after")


async def test_a_broken_peer_is_noticed_and_nothing_raised(real_clock: None) -> None:
    ours, theirs = pair()
    with ours:
        async with trio.open_nursery() as nursery:
            writer = LineWriter(ours.fileno(), nursery)
            writer.write(b"x" * 1_000_000 + b"\n")
            theirs.close()
            await writer.drained()
            assert writer.broken
            assert not writer.write(b"more\n")


async def test_closing_wakes_who_waits(real_clock: None) -> None:
    ours, theirs = pair()
    with ours, theirs:
        async with trio.open_nursery() as nursery:
            writer = LineWriter(ours.fileno(), nursery)
            writer.write(b"x" * 1_000_000 + b"\n")
            nursery.start_soon(writer.drained)
            await trio.testing.wait_all_tasks_blocked()
            writer.close()
            trio.lowlevel.notify_closing(ours.fileno())


async def test_end_and_hangup(real_clock: None) -> None:
    ours, theirs = pair()
    with ours:
        theirs.shutdown(socket.SHUT_WR)
        assert await read_chunk(ours.fileno()) == b""
        with trio.move_on_after(0.05) as waited:
            await hung_up(ours.fileno())
        assert waited.cancelled_caught, "only one direction is closed"
        theirs.close()
        with trio.fail_after(5):
            await hung_up(ours.fileno())
        assert os.fstat(ours.fileno())
