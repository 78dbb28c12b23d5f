"""One accepted control connection: lines in, answers and events out.

Requests of one connection run at the same time, at most 64; answers come in the order in which
they are ready. A reader that does not read stops its own requests and events, nothing else.
"""

from __future__ import annotations

import socket
import struct

import trio

from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.control import dispatch
from mcpd.control.operator import Operator
from mcpd.errors import Failure
from mcpd.processes import linked
from mcpd.protocol.framing import LINE_LIMIT, LineBuffer
from mcpd.transport.lines import LineWriter, hung_up, read_chunk

#: Requests of one connection that run at the same time.
IN_FLIGHT = 64


async def serve(broker: Broker, stream: trio.SocketStream) -> None:
    """Serve a connection until it ends, then close it. Raises nothing of the peer's making.

    A peer that is gone takes its running requests with it; one that has only finished writing
    (`printf ... | socat`) still gets its answers. Cancelling ends the requests and the connection.
    """
    async with stream:
        pid = _peer(stream.socket)
        fd = stream.socket.fileno()
        async with trio.open_nursery() as nursery:
            writer = LineWriter(fd, nursery)
            operator = Operator(broker, Caller("control", "", pid, linked(pid, "exe")), writer, nursery)
            try:
                async with trio.open_nursery() as requests:
                    await _read(operator, fd, requests)
                    nursery.start_soon(_end_when_gone, fd, nursery.cancel_scope)
                if operator.subscribed:
                    await trio.sleep_forever()  # until the peer is gone
                await writer.drained()
            finally:
                writer.close()
            nursery.cancel_scope.cancel()


def _peer(sock: trio.socket.SocketType) -> int:
    """The pid by the kernel's word; whose process it is was checked when it was let in."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid: int
    pid, _, _ = struct.unpack("3i", raw)
    return pid


async def _read(operator: Operator, fd: int, requests: trio.Nursery) -> None:
    """Start a task for each request until the stream ends."""
    lines = LineBuffer(LINE_LIMIT)
    slots = trio.Semaphore(IN_FLIGHT)
    dropped = 0
    while chunk := await read_chunk(fd):
        for line in lines.feed(chunk):
            await slots.acquire()
            await operator.room()
            requests.start_soon(_answer, operator, line, slots)
        if lines.dropped > dropped:
            dropped = lines.dropped
            too_large = Failure("too_large", f"cannot read a line of more than {LINE_LIMIT} bytes")
            operator.writer.write(dispatch.failure_line(b"null", too_large))


async def _answer(operator: Operator, line: bytes, slots: trio.Semaphore) -> None:
    try:
        # No checkpoint between the method's end and the write: see feed.subscribe.
        operator.writer.write(await dispatch.answer(operator, line))
    finally:
        slots.release()


async def _end_when_gone(fd: int, scope: trio.CancelScope) -> None:
    await hung_up(fd)
    scope.cancel()
