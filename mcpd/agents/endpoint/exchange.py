"""One HTTP request and its response, on the two functions that ASGI gives for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from math import inf
from typing import Any

import trio

from mcpd.agents.endpoint import event
from mcpd.agents.endpoint.head import EVENTS, JSON, Accepts, Head, Refused, status_of
from mcpd.agents.endpoint.rooms import Room
from mcpd.agents.endpoint.streams import Carrier, Event, Stream
from mcpd.errors import Failure
from mcpd.protocol import headers
from mcpd.protocol.framing import LINE_LIMIT

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Field = tuple[bytes, bytes]

#: Seconds that an answer may take to go out in one piece. With a handshake few: from then on the response is
#: one that can be resumed. A stateless one may need a status of its own (3.3), so it gets as long as proxies
#: and clients go without a byte.
SOON = 0.05
SOON_STATELESS = 10.0

#: Bytes from which on an answer does not go out as an event where it can be avoided: Python's client refuses
#: events of more than 1 MiB.
LARGE = 512 * 1024

#: Seconds of silence on a stream after which a comment shows that it lives.
QUIET = 15.0

#: Seconds that a client may take to send its body.
BODY_TIME = 60.0

SESSION = headers.SESSION.lower().encode()

_STREAM: tuple[Field, ...] = (
    (b"content-type", EVENTS.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Gone(Exception):
    """The client has left before its response was whole."""


class Exchange:
    """Mutable: how far its response is."""

    def __init__(self, receive: Receive, send: Send, inode: int = 0) -> None:
        self._receive = receive
        self._send = send
        self._gone = False
        self.inode = inode
        """Of the client's socket; 0 where that is not known."""
        self.resumable = False
        """The client knows an id of the stream."""

    async def body(self, head: Head) -> bytes:
        """The whole body. Raises Refused when it is too long or too slow, Gone."""
        if head.get("Content-Length").isdecimal() and int(head.get("Content-Length")[:20]) > LINE_LIMIT:
            raise _too_large()
        parts: list[bytes] = []
        size = 0
        with trio.move_on_after(BODY_TIME):
            while True:
                message = await self._receive()
                if message["type"] != "http.request":
                    raise Gone
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > LINE_LIMIT:
                    raise _too_large()
                if not message.get("more_body", False):
                    return b"".join(parts)
        raise Refused(408, Failure("invalid_request", f"the body did not come within {BODY_TIME:g} s"))

    async def say(self, status: int, body: bytes = b"", *fields: Field) -> None:
        """A response of one piece."""
        if body:
            fields = ((b"content-type", JSON.encode()), *fields)
        if status != 204:
            fields = (*fields, (b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": status, "headers": fields})
        await self._send({"type": "http.response.body", "body": body})

    async def carry(self, carrier: Carrier, accepts: Accepts, room: Room | None = None) -> None:
        """Carry a request's stream to its end: the answer alone as JSON, or events. Raises Gone.

        `room`: the session with a handshake that the request belongs to.
        """
        await self._attended(partial(self._carry, carrier, accepts, room))

    async def stream(self, carrier: Carrier, room: Room) -> None:
        """Carry a stream as events until it is over. Raises Gone."""
        await self._attended(partial(self._events, carrier, room))

    async def _carry(self, carrier: Carrier, accepts: Accepts, room: Room | None) -> None:
        soon = SOON_STATELESS if room is None else SOON
        with trio.move_on_after(soon if accepts.events else inf):
            await carrier.news()
        stream = carrier.stream
        if not stream.over or len(stream.waiting) > 1:
            await self._events(carrier, room)
        elif not stream.waiting:
            await self.say(_silence(room))
        else:
            await self._answer(carrier, accepts, room, stream.waiting[0].message)

    async def _answer(self, carrier: Carrier, accepts: Accepts, room: Room | None, answer: bytes) -> None:
        """The answer is there and nothing else was said."""
        status = status_of(answer) if room is None else 200
        plain = accepts.json and not (accepts.events and _primes(room) and len(answer) < LARGE)
        if plain or status != 200:
            carrier.take()
            await self.say(status, answer, *_greeting(room))
            carrier.discard()
        else:
            await self._events(carrier, room)

    async def _events(self, carrier: Carrier, room: Room | None) -> None:
        """As few pieces as possible: each costs hypercorn more than its bytes."""
        stream = carrier.stream
        fields = (*_STREAM, *_greeting(room))
        await self._send({"type": "http.response.start", "status": 200, "headers": fields})
        piece = b""
        if _primes(room):
            piece = event.priming(event.ident(stream.number, stream.last - len(stream.waiting)))
        while not carrier.replaced:
            piece += b"".join(_written(stream, each) for each in carrier.take())
            self.resumable = stream.resumable and (self.resumable or bool(piece))
            if stream.over:
                break
            if piece:
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                piece = b""
                continue
            with trio.move_on_after(QUIET) as quiet:
                await carrier.news()
            if quiet.cancelled_caught:
                piece = event.KEEP_ALIVE
        await self._send({"type": "http.response.body", "body": piece})

    async def _attended(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do the work as long as the client is there. Raises Gone."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch, nursery.cancel_scope)
            await work()
            nursery.cancel_scope.cancel()
        if self._gone:
            raise Gone

    async def _watch(self, scope: trio.CancelScope) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        scope.cancel()


def _greeting(room: Room | None) -> tuple[Field, ...]:
    """The session's id, from the first success on; never on an error (3.2)."""
    if room is None or room.session.revision is None:
        return ()
    return ((SESSION, room.ident.encode()),)


def _primes(room: Room | None) -> bool:
    return room is not None and room.session.revision is not None and room.session.revision.primes


def _silence(room: Room | None) -> int:
    """The status of a request that gets no answer: it was cancelled, or its session has ended."""
    if room is None:
        return 503
    return 404 if room.session.over.is_set() else 202


def _written(stream: Stream, each: Event) -> bytes:
    return event.message(each.message, event.ident(stream.number, each.position) if stream.resumable else "")


def _too_large() -> Refused:
    return Refused(413, Failure("too_large", f"a message is at most {LINE_LIMIT >> 20} MiB long"))
