"""The sessions of agents that come over HTTP, each known to the holder of its agent's token alone.

A handshake opens a session with an id of its own that nobody can guess. Stateless requests have none: those
of one agent to one place share a session that stands by itself, because cursors and request states must hold
from one POST to the next.
"""

from __future__ import annotations

import secrets
from functools import partial

import msgspec
import trio

from mcpd.agents import loopback
from mcpd.agents.endpoint.head import Refused
from mcpd.agents.endpoint.streams import Streams
from mcpd.agents.identity import Peer
from mcpd.agents.serve import contained, enrolled
from mcpd.agents.session import Face, Session
from mcpd.broker import Broker
from mcpd.errors import Failure

#: Sessions of one agent and of all; the one that was unused longest makes room.
ROOMS_OF_ONE = 64
ROOMS = 256

#: Processes of one agent that a session of stateless requests is made for.
CLIENTS = 8

#: Connections of one session whose processes are not looked for again.
CONNECTIONS_KNOWN = 1024

#: Seconds without a request or a stream after which a session ends. A host that went without DELETE leaves
#: little behind; one that only pauses should not have to begin again.
IDLE = 86400.0


class Room:
    """One session over HTTP. Mutable: who comes and goes."""

    def __init__(self, session: Session, streams: Streams, ident: str, server: str) -> None:
        self.session = session
        self.streams = streams
        self.ident = ident
        """`Mcp-Session-Id`; empty for the one that stands by itself."""
        self.server = server
        self.visits = 0
        """Responses that are being sent."""
        self.used = trio.current_time()
        self.inodes: set[int] = set()
        """Of the connections whose process is known to have come, or is being looked for."""

    @property
    def agent(self) -> str:
        return self.session.agent

    @property
    def quiet(self) -> bool:
        """Nobody is there, and nothing is under way."""
        return not self.visits and not self.session.busy

    def __enter__(self) -> Room:
        self.visits += 1
        return self

    def __exit__(self, *exc: object) -> None:
        self.visits -= 1
        self.used = trio.current_time()


class Rooms:
    """The only owner of these sessions."""

    def __init__(self, broker: Broker, face: Face, nursery: trio.Nursery) -> None:
        self._broker = broker
        self._face = face
        self._nursery = nursery
        self._rooms: dict[str, Room] = {}
        """By `Mcp-Session-Id`."""
        self._standing: dict[tuple[str, str], Room] = {}
        """By agent and server."""
        self._opening = trio.Lock()
        """Held while one of these is opened: all who want it get the same one."""

    def __len__(self) -> int:
        return len(self._rooms) + len(self._standing)

    def agents(self) -> set[str]:
        return {room.agent for room in self._all()}

    def find(self, ident: str, agent: str, server: str) -> Room:
        """The session of that id. Raises Refused: one of another agent or place is as unknown as none."""
        room = self._rooms.get(ident)
        if room is None or (room.agent, room.server) != (agent, server):
            raise Refused(404, Failure("invalid_request", "unknown session; send initialize again"))
        return room

    async def open(self, agent: str, server: str, peer: Peer) -> Room:
        """A new session with a handshake before it. Raises Refused."""
        return await self._open(secrets.token_urlsafe(24), agent, server, peer)

    async def standing(self, agent: str, server: str, peer: Peer) -> Room:
        """The session of the agent's stateless requests to this place. Raises Refused."""
        room = self._standing.get((agent, server))
        if room is None:
            async with self._opening:
                room = self._standing.get((agent, server)) or await self._open("", agent, server, peer)
        return room

    def came(self, room: Room, inode: int) -> None:
        """Find out beside the request whose process this connection is: of the several that share a session
        each is the agent's (n06)."""
        if inode and inode not in room.inodes:
            if len(room.inodes) >= CONNECTIONS_KNOWN:
                room.inodes.clear()
            room.inodes.add(inode)
            self._nursery.start_soon(self._meet, room.session.id, inode)

    async def _meet(self, session: str, inode: int) -> None:
        peer = await loopback.peer_of(inode)
        if session in self._broker.sessions:
            self._broker.hosts.attached(session, peer.pid)
            self._broker.changes.publish("sessions", session)

    def close(self, room: Room) -> None:
        """End a session and all that it has under way."""
        self._forget(room)
        room.session.over.set()

    def close_all(self, agent: str = "") -> None:
        """End the sessions of an agent, or of all."""
        for room in self._all():
            if agent in ("", room.agent):
                self.close(room)

    # ------------------------------------------------------------------------

    async def _open(self, ident: str, agent: str, server: str, peer: Peer) -> Room:
        self._make_room(agent)
        room: Room = await self._nursery.start(partial(self._live, ident, agent, server, peer))
        return room

    async def _live(
        self, ident: str, agent: str, server: str, peer: Peer, *, task_status: trio.TaskStatus[Room]
    ) -> None:
        streams = Streams()
        with contained(agent):
            async with trio.open_nursery() as nursery:
                clients = 1 if ident else CLIENTS
                session = Session(self._broker, self._face, peer, agent, streams, nursery, clients=clients)
                session.show(server)
                session.opens = bool(ident)
                session.caller = msgspec.structs.replace(session.caller, proven=True)
                room = Room(session, streams, ident, server)
                if ident:
                    self._rooms[ident] = room
                else:
                    self._standing[agent, server] = room
                with enrolled(self._broker, session):
                    try:
                        task_status.started(room)
                        await _ended(room)
                    finally:
                        self._forget(room)
                        streams.close()
                        session.end()
                nursery.cancel_scope.cancel()
        self._broker.fleet.left(session.id)
        self._broker.tasks.forget(session.id)

    def _forget(self, room: Room) -> None:
        if self._rooms.get(room.ident) is room:
            del self._rooms[room.ident]
        if self._standing.get((room.agent, room.server)) is room:
            del self._standing[room.agent, room.server]

    def _all(self) -> list[Room]:
        return [*self._rooms.values(), *self._standing.values()]

    def _make_room(self, agent: str) -> None:
        """Raises Refused when there is no room, and nobody who could leave."""
        everybody = self._all()
        own = [room for room in everybody if room.agent == agent]
        for rooms, limit in ((own, ROOMS_OF_ONE), (everybody, ROOMS)):
            if len(rooms) < limit:
                continue
            quiet = [room for room in rooms if room.quiet]
            if not quiet:
                busy = Failure(
                    "busy", f"cannot serve more than {limit} sessions at a time", hint="try again later"
                )
                raise Refused(503, busy, (b"retry-after", b"5"))
            self.close(min(quiet, key=lambda room: room.used))


async def _ended(room: Room) -> None:
    """Return when the session was ended, or has been quiet for so long that it is taken for left."""
    over = room.session.over
    while not over.is_set():
        since = room.used if room.quiet else trio.current_time()
        if since + IDLE <= trio.current_time():
            return
        with trio.move_on_at(since + IDLE):
            await over.wait()
