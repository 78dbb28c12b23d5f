"""Both HTTP transports over real connections on the loopback: what must show on the wire itself."""

from __future__ import annotations

import json
from typing import Any

import trio
import trio.testing

from mcpd.http import Client
from mcpd.protocol.revisions import REVISIONS
from mcpd.transport.http import Http
from mcpd.transport.legacy_sse import LegacySse
from tests.test_http import Peer, talking
from tests.transport.web import MODERN, Ear, event, line

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Server:
    """Answers a request by the method's name: `json`, `stream` in pieces of a byte, or never."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked: list[str] = []
        self.entered, self.waiting = trio.open_memory_channel[None](100)
        """A client waits for what never comes..."""
        self.leaving, self.left = trio.open_memory_channel[None](100)
        """...and has given it up."""

    async def __call__(self, peer: Peer) -> None:
        self.connections += 1
        while asked := await peer.asked():
            message: dict[str, Any] = json.loads(asked.body or b"{}")
            self.asked.append(message.get("method") or asked.method)
            match self.asked[-1]:
                case "stream":
                    await peer.send(STREAM)
                    text = event({"id": message["id"], "result": {"text": "naïve"}}).replace(b"\n", b"\r\n")
                    for byte in text:
                        await peer.send(chunk(bytes([byte])))
                    await peer.send(chunk(b""))
                case "never" | "GET":
                    await peer.send(STREAM)
                    self.entered.send_nowait(None)
                    await peer.closed()
                    self.leaving.send_nowait(None)
                    return
                case _ if "id" in message:
                    answer = line({"id": message["id"], "result": {}})
                    await peer.answer(answer, Content_Type="application/json", Mcp_Session_Id="s-1")
                case _:
                    await peer.answer(status=202)


async def settled() -> None:
    """Nothing has happened for a moment: the server is a task as well, and sockets pass on at once."""
    await trio.testing.wait_all_tasks_blocked(0.01)


def http(client: Client, url: str) -> Http:
    return Http(client, url, {}, lambda tool: (), lambda text: None)


async def test_calls_one_after_the_other_share_a_connection(real_clock: None) -> None:
    """Whether answers come as JSON or as streams."""
    server, ear = Server(), Ear()
    async with talking(server) as (client, url), trio.open_nursery() as nursery:
        transport = http(client, url)
        nursery.start_soon(transport.run, ear)
        transport.write(line({"id": 1, "method": "initialize"}))
        await settled()
        transport.settle(REVISIONS["2025-11-25"])
        transport.write(line({"method": "notifications/initialized"}))
        for key in range(3, 13):
            transport.write(line({"id": key, "method": "json" if key % 2 else "stream"}))
            await settled()
        nursery.cancel_scope.cancel()
    assert [message["id"] for message, _ in ear.messages] == [1, *range(3, 13)]
    assert ear.messages[-1][0]["result"] == {"text": "naïve"}
    assert ear.messages[-2][0]["result"] == {}
    assert server.connections == 2, "one of them is the session's stream"
    assert server.asked[-1] == "DELETE"


async def test_a_cancelled_request_closes_its_connection(real_clock: None) -> None:
    server, ear = Server(), Ear()
    async with talking(server) as (client, url), trio.open_nursery() as nursery:
        transport = http(client, url)
        nursery.start_soon(transport.run, ear)
        transport.settle(REVISIONS["2026-07-28"])
        transport.write(line({"id": 3, "method": "never", "params": MODERN}))
        with trio.fail_after(20):
            await server.waiting.receive()
            transport.write(line({"method": "notifications/cancelled", "params": {"requestId": 3}}))
            await server.left.receive()
        transport.write(line({"id": 4, "method": "json", "params": MODERN}))
        await settled()
        nursery.cancel_scope.cancel()
    assert server.asked == ["never", "json"]
    assert [message["id"] for message, _ in ear.messages] == [4]
    assert ear.failures == []


async def test_with_the_transport_every_stream_ends(real_clock: None) -> None:
    server = Server()
    async with talking(server) as (client, url):
        transport = http(client, url)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.run, Ear())
            for key in range(3, 10):
                transport.write(line({"id": key, "method": "never"}))
            with trio.fail_after(20):
                for _ in range(7):
                    await server.waiting.receive()
            nursery.cancel_scope.cancel()
        with trio.fail_after(20):
            for _ in range(7):
                await server.left.receive()


async def test_the_old_transport_brings_answers_on_its_stream(real_clock: None) -> None:
    says, heard = trio.open_memory_channel[bytes](10)

    async def serve(peer: Peer) -> None:
        while asked := await peer.asked():
            if asked.method == "GET":
                await peer.send(STREAM + chunk(b"event: endpoint\ndata: /m?key=1\n\n"))
                async for text in heard:
                    await peer.send(chunk(text))
                return
            assert asked.target == "/m?key=1"
            await peer.answer(b"Accepted", status=202)
            says.send_nowait(event({"id": json.loads(asked.body)["id"], "result": {}}))

    ear = Ear()
    async with talking(serve) as (client, url), trio.open_nursery() as nursery:
        transport = LegacySse(client, url, {}, lambda text: None)
        nursery.start_soon(transport.run, ear)
        for key in range(3, 13):
            transport.write(line({"id": key, "method": "x"}))
        await settled()
        says.close()
        nursery.cancel_scope.cancel()
    assert sorted(message["id"] for message, _ in ear.messages) == list(range(3, 13))
