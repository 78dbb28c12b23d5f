"""One task reads all streams: each gets its own chunks, its end, and its peer's going."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from mcpd.transport.reader import Reader


class Heard:
    """What one stream handed over; `until` waits for so many."""

    def __init__(self) -> None:
        self.chunks: list[bytes | None] = []
        self._news = trio.Event()

    def __call__(self, chunk: bytes | None) -> None:
        self.chunks.append(chunk)
        self._news.set()
        self._news = trio.Event()

    async def until(self, count: int) -> list[bytes | None]:
        with trio.fail_after(5):
            while len(self.chunks) < count:
                await self._news.wait()
        return self.chunks


@asynccontextmanager
async def reading() -> AsyncIterator[Reader]:
    reader = Reader()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.run)
        yield reader
        nursery.cancel_scope.cancel()
    reader.close()


def pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return ours, theirs


async def test_each_stream_gets_its_own_chunks(real_clock: None) -> None:
    (a, a_peer), (b, b_peer) = pair(), pair()
    one, two = Heard(), Heard()
    with a, a_peer, b, b_peer:
        async with reading() as reader:
            reader.add(a.fileno(), one)
            reader.add(b.fileno(), two)
            a_peer.send(b"1")
            b_peer.send(b"2")
            assert await one.until(1) == [b"1"]
            assert await two.until(1) == [b"2"]


async def test_the_end_of_the_input_and_the_going_of_the_peer_are_two_things(real_clock: None) -> None:
    ours, theirs = pair()
    heard = Heard()
    with ours:
        async with reading() as reader:
            reader.add(ours.fileno(), heard)
            theirs.send(b"last")
            theirs.shutdown(socket.SHUT_WR)
            assert await heard.until(2) == [b"last", b""]
            await trio.lowlevel.checkpoint()
            assert heard.chunks == [b"last", b""], "it still listens"
            theirs.close()
            assert await heard.until(3) == [b"last", b"", None]


async def test_a_pipe_whose_writer_is_gone_ends_once(real_clock: None) -> None:
    read, write = os.pipe2(os.O_NONBLOCK)
    heard = Heard()
    async with reading() as reader:
        reader.add(read, heard)
        os.write(write, b"x")
        os.close(write)
        assert await heard.until(3) == [b"x", b"", None]
    os.close(read)


async def test_a_paused_stream_waits_and_loses_nothing(real_clock: None) -> None:
    (a, a_peer), (b, b_peer) = pair(), pair()
    slow, other = Heard(), Heard()
    with a, a_peer, b, b_peer:
        async with reading() as reader:
            reader.add(a.fileno(), slow)
            reader.add(b.fileno(), other)
            reader.pause(a.fileno())
            a_peer.send(b"kept")
            b_peer.send(b"goes on")
            assert await other.until(1) == [b"goes on"]
            assert slow.chunks == []
            reader.resume(a.fileno())
            assert await slow.until(1) == [b"kept"]


async def test_a_stream_may_remove_another_of_the_same_round(real_clock: None) -> None:
    (a, a_peer), (b, b_peer) = pair(), pair()
    heard: list[str] = []
    with a, a_peer, b, b_peer:
        async with reading() as reader:
            done = trio.Event()

            def take(name: str, other: int) -> None:
                heard.append(name)
                reader.remove(other)
                done.set()

            reader.add(a.fileno(), lambda _: take("a", b.fileno()))
            reader.add(b.fileno(), lambda _: take("b", a.fileno()))
            a_peer.send(b"1")
            b_peer.send(b"2")
            await done.wait()
            await trio.lowlevel.checkpoint()
    assert len(heard) == 1


async def test_removing_twice_or_after_the_end_does_nothing(real_clock: None) -> None:
    ours, theirs = pair()
    with ours, theirs:
        async with reading() as reader:
            reader.add(ours.fileno(), Heard())
            reader.remove(ours.fileno())
            reader.remove(ours.fileno())
            reader.pause(ours.fileno())
        reader.remove(ours.fileno())
