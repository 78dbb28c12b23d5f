"""The endpoint as an ASGI application: from a request's head to the stream that carries its answer.

One path: who asks and what for (`head`), which session (`rooms`), the message to it, and its answer back:
as JSON where it comes soon and alone, else as server-sent events.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count

import msgspec

from mcpd import listing
from mcpd.agents import loopback
from mcpd.agents.endpoint import event
from mcpd.agents.endpoint import head as heads
from mcpd.agents.endpoint.exchange import Exchange, Gone, Receive, Scope, Send
from mcpd.agents.endpoint.head import EVENTS, Accepts, Head, Refused
from mcpd.agents.endpoint.rooms import Room, Rooms
from mcpd.agents.endpoint.streams import GENERAL, Carrier
from mcpd.agents.identity import Peer
from mcpd.agents.session import check_server
from mcpd.broker import Broker
from mcpd.consent import tokens
from mcpd.errors import Failure
from mcpd.listing import find_agent
from mcpd.protocol import headers, jsonrpc
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.shapes import read_call

#: At the other end of a session that several processes may share.
SEVERAL = Peer(0, "", "")


class App:
    """Serves requests for the sessions that it is given. Raises nothing of a client's making."""

    def __init__(self, broker: Broker, rooms: Rooms) -> None:
        self._broker = broker
        self._rooms = rooms
        self._posts = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # no other type is offered to us
            return
        head = heads.read_head(scope["method"], scope["raw_path"], scope["headers"])
        exchange = Exchange(receive, send, scope["state"].get("inode", 0))
        with suppress(Gone):
            try:
                await self._serve(head, exchange)
            except Refused as refused:
                await exchange.say(refused.status, refused.body, *refused.extra)

    async def _serve(self, head: Head, exchange: Exchange) -> None:
        heads.check_framing(head)
        heads.check_host(head)
        server = heads.place(head)
        agent = self._agent(head)
        if server:
            self._check_server(agent, server)
        match head.method:
            case "POST":
                await self._post(head, exchange, agent, server)
            case "GET":
                await self._get(head, exchange, self._room(head, agent, server))
            case "DELETE":
                self._rooms.close(self._room(head, agent, server))
                await exchange.say(204)
            case _:
                raise _not_allowed(b"GET, POST, DELETE")

    def _agent(self, head: Head) -> str:
        """Whose token it is. Raises Refused, also for one of an agent that is not configured any more."""
        token = heads.bearer(head)
        digests = {agent: kept.digest for agent, kept in self._broker.state.tokens.items()}
        agent = tokens.owner(token, digests)
        with suppress(Failure):
            if agent:
                return find_agent(self._broker, agent).name
        raise heads.not_authorized(token)

    def _check_server(self, agent: str, server: str) -> None:
        try:
            check_server(self._broker, agent, server)
        except Failure as failure:
            raise Refused(404, failure) from None

    def _room(self, head: Head, agent: str, server: str) -> Room:
        """The session that the head names. Raises Refused; a stateless revision has none (3.3)."""
        if heads.is_stateless(head):
            raise _not_allowed(b"POST")
        ident = head.only(headers.SESSION)
        if ident is None:
            raise Refused(400, Failure("invalid_request", f"{headers.SESSION} is missing"))
        room = self._rooms.find(ident, agent, server)
        heads.check_revision(head)
        return room

    # ----------------------------------------------------------------- messages

    async def _post(self, head: Head, exchange: Exchange, agent: str, server: str) -> None:
        heads.check_content(head)
        accepts = heads.accepts(head)
        line = _one_line(await exchange.body(head))
        if line.startswith(b"["):
            await self._batch(line, exchange, accepts, self._room(head, agent, server))
            return
        message = _read(line)
        try:
            if heads.era(head, message) == "stateless":
                await self._stateless(head, message, exchange, accepts, agent, server)
            elif head.only(headers.SESSION) is None:
                await self._initialize(message, exchange, accepts, agent, server)
            else:
                await self._handshake(message, exchange, accepts, self._room(head, agent, server))
        except Refused as refused:
            if message.method:
                refused.key = message.key or refused.key
            raise

    async def _stateless(
        self, head: Head, message: Message, exchange: Exchange, accepts: Accepts, agent: str, server: str
    ) -> None:
        """A request that stands for itself; the end of its response is its own (3.3)."""
        if not message.method:
            raise Refused(400, Failure("invalid_request", "nothing was asked that this could answer"))
        heads.check_headers(head, message)
        if not message.key:
            await exchange.say(202)  # there is no notification that would mean anything here
            return
        room = await self._rooms.standing(agent, server, SEVERAL)
        if message.method == "tools/call":
            await self._check_mirrors(head, message, room)
            room = await self._rooms.standing(agent, server, SEVERAL)  # that one may have ended meanwhile
        self._rooms.came(room, exchange.inode)
        with room:
            # Clients of one agent know nothing of each other, and all begin with the same ids.
            on = b"%d:%b" % (next(self._posts), message.key)
            carrier = room.streams.open(on, resumable=False, mute=not accepts.events)
            try:
                room.session.take(message, on)
                await exchange.carry(carrier, accepts)
            finally:
                carrier.leave()
                room.session.withdraw(on)

    async def _check_mirrors(self, head: Head, message: Message, room: Room) -> None:
        """Raises Refused where headers and arguments of a call differ; may have to wait for its server."""
        try:
            call = read_call(bytes(message.params))
            key = room.session.key
            row = listing.known_tool(self._broker, key, call.name)
            row = row or await listing.find_tool(self._broker, key, call.name)
        except Failure:
            return  # the call itself says what is wrong
        heads.check_mirrors(head, row.tool.mirrors, bytes(call.arguments))

    async def _initialize(
        self, message: Message, exchange: Exchange, accepts: Accepts, agent: str, server: str
    ) -> None:
        """The session's id goes out with the answer, if that is a success (3.2)."""
        if not message.key:
            raise Refused(400, Failure("invalid_request", "initialize is a request and has an id"))
        room = await self._rooms.open(agent, server, await loopback.peer_of(exchange.inode))
        with room:
            try:
                await self._request(message, exchange, accepts, room)
            finally:
                if room.session.revision is None:
                    self._rooms.close(room)

    async def _handshake(self, message: Message, exchange: Exchange, accepts: Accepts, room: Room) -> None:
        self._rooms.came(room, exchange.inode)
        with room:
            if message.method and message.key:
                await self._request(message, exchange, accepts, room)
            else:
                room.session.take(message)
                await exchange.say(202)

    async def _request(self, message: Message, exchange: Exchange, accepts: Accepts, room: Room) -> None:
        if room.session.runs(message.key):
            # Taken on, it would take over the stream of the one that runs.
            raise Refused(400, Failure("invalid_request", "the id is used by a request that is not answered"))
        with _stream(room, message.key, exchange, accepts) as carrier:
            room.session.take(message, message.key)
            await exchange.carry(carrier, accepts, room)

    async def _batch(self, line: bytes, exchange: Exchange, accepts: Accepts, room: Room) -> None:
        """An array of messages, in the one revision that has them; its answers are one array, or none."""
        revision = room.session.revision
        if revision is None or not revision.batches:
            raise Refused(400, Failure("invalid_request", "this revision has no batches"))
        on = b"batch %d" % next(self._posts)
        with room, _stream(room, on, exchange, accepts) as carrier:
            room.session.take_batch(line, on)
            await exchange.carry(carrier, accepts, room)

    async def _get(self, head: Head, exchange: Exchange, room: Room) -> None:
        """The general stream, or one that broke off and is resumed (3.2)."""
        if not heads.accepts(head).events:
            raise Refused(406, Failure("invalid_request", f"the answer is {EVENTS}"))
        last = head.only(headers.LAST_EVENT)
        place = (GENERAL, None) if last is None else event.read_ident(last)
        carrier = room.streams.resume(*place) if place is not None else None
        if carrier is None:
            raise Refused(410, Failure("invalid_request", "the stream of this event is not known any more"))
        with room:
            try:
                await exchange.stream(carrier, room)
            finally:
                carrier.leave()


@contextmanager
def _stream(room: Room, on: bytes, exchange: Exchange, accepts: Accepts) -> Iterator[Carrier]:
    """The stream of a request in a session with a handshake: it outlives a response that breaks off."""
    carrier = room.streams.open(on, resumable=True, mute=not accepts.events)
    try:
        yield carrier
    finally:
        if exchange.resumable:
            carrier.leave()
        else:
            carrier.discard()


def _read(line: bytes) -> Message:
    try:
        return jsonrpc.read(line)
    except Failure as failure:
        refused = Refused(400, failure)
        refused.key = jsonrpc.unread_id(line) or refused.key
        raise refused from None


def _one_line(body: bytes) -> bytes:
    """The body without line ends, which JSON may have between its values and no line to a server may.

    Raises Refused for what is no JSON.
    """
    if b"\n" not in body and b"\r" not in body:
        return body
    try:
        return msgspec.json.format(body, indent=-1)
    except RecursionError:
        raise Refused(400, Failure("invalid_request", "the message is nested too deeply")) from None
    except msgspec.DecodeError as e:
        raise Refused(400, Failure("parse_error", f"not JSON: {e}")) from None


def _not_allowed(allowed: bytes) -> Refused:
    failure = Failure("invalid_request", f"this takes {allowed.decode()}")
    return Refused(405, failure, (b"allow", allowed))
