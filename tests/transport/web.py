"""A web of one server without a network: what a transport sends, what it gets, and what it tells."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from mcpd.catalog.mirror import Mirror
from mcpd.http import Answer, Client, HttpFailed, TooLarge
from mcpd.protocol.revisions import REVISIONS
from mcpd.protocol.shapes import META_REVISION
from mcpd.transport.base import ConnectionLost, Ending, Unanswered
from mcpd.transport.http import Http

URL = "http://127.0.0.1:8931/mcp"

#: A piece of a body, seconds until the next one (infinite: it never comes), how the body breaks off, or
#: where further pieces come from.
Piece = bytes | float | HttpFailed | trio.MemoryReceiveChannel[bytes]

EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}


def line(message: Mapping[str, Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def event(message: Mapping[str, Any], ident: str = "") -> bytes:
    return (f"id: {ident}\n" if ident else "").encode() + b"data: " + line(message) + b"\n"


class Reply:
    """What the server answers a request with."""

    def __init__(self, status: int, *body: Piece, **headers: str) -> None:
        self.status = status
        self.body = body
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.wait = 0.0
        """Seconds until it begins."""

    def after(self, seconds: float) -> Reply:
        self.wait = seconds
        return self

    @classmethod
    def says(cls, message: Mapping[str, Any], status: int = 200, **headers: str) -> Reply:
        return cls(status, line(message), content_type="application/json", **headers)

    @classmethod
    def streams(cls, *body: Piece, **headers: str) -> Reply:
        return cls(200, *body, content_type="text/event-stream", **headers)


class Sent:
    """One request as it left."""

    def __init__(self, method: str, url: str, headers: Mapping[str, str], body: bytes, apart: bool) -> None:
        self.method = method
        self.url = url
        self.headers = {name.lower(): value for name, value in headers.items()}
        assert len(self.headers) == len(headers)
        self.message: dict[str, Any] = json.loads(body) if body else {}
        self.apart = apart
        self.at = trio.current_time()
        self.closed = False
        self.whole = False
        """The body was read to its end, so that the connection can be used again."""

    def __str__(self) -> str:
        return self.message.get("method") or ("answer" if self.message else self.method)


class FakeAnswer(Answer):
    def __init__(self, reply: Reply) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self._pieces = list(reply.body)
        self.whole = False

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> FakeAnswer:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        while self._pieces:
            piece = self._pieces.pop(0)
            if isinstance(piece, HttpFailed):
                raise piece
            if isinstance(piece, bytes):
                return piece
            if isinstance(piece, trio.MemoryReceiveChannel):
                self._pieces.insert(0, piece)
                try:
                    return await piece.receive()
                except trio.EndOfChannel:
                    self._pieces.pop(0)
            else:
                await trio.sleep(piece)
        self.whole = True
        raise StopAsyncIteration

    async def read(self, limit: int, paced: Callable[[int], Awaitable[None]] | None = None) -> bytes:
        body = b""
        async for chunk in self:
            body += chunk
            if len(body) > limit:
                raise TooLarge(limit)
            if paced is not None:
                await paced(len(body))
        return body


class Web(Client):
    """`serve` is asked for the reply to each request, in the order in which they leave."""

    def __init__(self, serve: Callable[[Sent], Reply | HttpFailed]) -> None:
        self.sent: list[Sent] = []
        self.open = 0
        self._serve = serve

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        long_lived: bool = False,
    ) -> AsyncIterator[Answer]:
        await trio.lowlevel.checkpoint()
        sent = Sent(method, url, headers, body, long_lived)
        self.sent.append(sent)
        reply = self._serve(sent)
        if isinstance(reply, HttpFailed):
            raise reply
        if reply.wait:
            await trio.sleep(reply.wait)
        self.open += 1
        answer = FakeAnswer(reply)
        try:
            yield answer
        finally:
            self.open -= 1
            sent.closed = True
            sent.whole = answer.whole

    def those(self, name: str) -> list[Sent]:
        """The requests of one HTTP or JSON-RPC method, or `answer`."""
        return [sent for sent in self.sent if str(sent) == name]

    @property
    def names(self) -> list[str]:
        return [str(sent) for sent in self.sent]


class Ear:
    """What a transport tells."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], bytes]] = []
        self.failures: list[tuple[bytes, Unanswered | ConnectionLost]] = []
        self.endings: list[Ending] = []
        self.too_long: list[tuple[bytes, bytes]] = []
        self.order: list[str] = []
        self.then: Callable[[dict[str, Any]], None] = lambda message: None

    def receive(self, line: bytes, on: bytes = b"") -> None:
        assert b"\n" not in line
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        self.messages.append((message if isinstance(message, dict) else {}, on))
        self.order.append("receive")
        self.then(self.messages[-1][0])

    def failed(self, key: bytes, failure: Unanswered | ConnectionLost) -> None:
        self.failures.append((key, failure))
        self.order.append("failed")

    def lost(self, ending: Ending) -> None:
        self.endings.append(ending)
        self.order.append("lost")

    def dropped(self, head: bytes, tail: bytes) -> None:
        self.too_long.append((head, tail))

    @property
    def heard(self) -> list[dict[str, Any]]:
        return [message for message, _ in self.messages]

    def failure(self, key: bytes) -> Unanswered:
        """Why a request has no answer."""
        (found,) = (failure for of, failure in self.failures if of == key)
        assert isinstance(found, Unanswered)
        return found


FOREVER = float("inf")

Serve = Callable[[Sent], Reply | HttpFailed]
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
MODERN: dict[str, Any] = {"_meta": {META_REVISION: "2026-07-28"}}


def result(sent: Sent, **members: Any) -> dict[str, Any]:
    return {"id": sent.message["id"], "result": members}


def usual(serve: Serve | None = None, session: str = "s-41") -> Serve:
    """A legacy server; `serve` answers what comes after the handshake."""

    def answer(sent: Sent) -> Reply | HttpFailed:
        match str(sent):
            case "initialize":
                return Reply.says(result(sent, **HELLO), mcp_session_id=session)
            case "notifications/initialized":
                return Reply(202)
            case "DELETE":
                return Reply(200)
            case "GET" if serve is None or "last-event-id" not in sent.headers:
                return Reply(405)
            case "answer" | "notifications/cancelled":
                return Reply(202)
        return serve(sent) if serve is not None else Reply.says(result(sent, ok=True))

    return answer


class Ends:
    """A transport, what it tells, and the server it talks to."""

    def __init__(self, web: Web, **own: str) -> None:
        self.web = web
        self.ear = Ear()
        self.remarks: list[str] = []
        self.mirrors: dict[str, tuple[Mirror, ...]] = {}
        headers = {name.replace("_", "-"): value for name, value in own.items()}
        self.http = Http(web, URL, headers, lambda tool: self.mirrors.get(tool, ()), self.remarks.append)

    async def ask(self, key: int, method: str = "tools/call", **params: Any) -> None:
        """Send a request, and wait until nothing more happens without time going by."""
        assert self.http.write(line({"id": key, "method": method, "params": params}))
        await trio.testing.wait_all_tasks_blocked()

    async def shake_hands(self, revision: str = "2025-06-18") -> None:
        await self.ask(1, "initialize", protocolVersion=revision)
        self.http.settle(REVISIONS[revision])
        assert self.http.write(line({"method": "notifications/initialized"}))
        await trio.testing.wait_all_tasks_blocked()

    def answer(self, key: str) -> None:
        assert self.http.write(line({"id": key, "result": {}}))

    def cancel(self, key: int) -> None:
        assert self.http.write(line({"method": "notifications/cancelled", "params": {"requestId": key}}))


@asynccontextmanager
async def running(serve: Serve, **own: str) -> AsyncIterator[Ends]:
    """Nothing is open or queued at the end."""
    ends = Ends(Web(serve), **own)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ends.http.run, ends.ear)
        yield ends
        nursery.cancel_scope.cancel()
    assert ends.web.open == 0
    assert not ends.http.write(line({"method": "late"}))


@asynccontextmanager
async def legacy(serve: Serve | None = None, revision: str = "2025-06-18") -> AsyncIterator[Ends]:
    """A connection after the handshake; only what is sent and told from there on is kept."""
    async with running(usual(serve)) as ends:
        await ends.shake_hands(revision)
        ends.web.sent.clear()
        ends.ear.messages.clear()
        ends.ear.order.clear()
        yield ends
        if not ends.ear.endings:
            assert ends.http.queued == 0


@asynccontextmanager
async def modern(serve: Serve) -> AsyncIterator[Ends]:
    async with running(serve) as ends:
        ends.http.settle(REVISIONS["2026-07-28"])
        yield ends
