"""Agents' connections: each becomes a session that speaks by the method table."""

from __future__ import annotations

import trio

from mcpd.agents import methods
from mcpd.agents.identity import peer_of
from mcpd.agents.session import Session
from mcpd.broker import Broker
from mcpd.transport.lines import LineWriter


async def serve_connection(broker: Broker, stream: trio.SocketStream, agent: str) -> None:
    """Serve one connection to the socket of `agent` until it ends, then close it.

    Raises nothing of the peer's making. Cancelling ends the session and all its requests.
    """
    async with stream:
        peer = peer_of(stream.socket)
        fd = stream.socket.fileno()
        async with trio.open_nursery() as nursery:
            session = Session(broker, methods, peer, agent, LineWriter(fd, nursery), nursery, fd)
            broker.sessions[session.id] = session
            broker.changes.publish("sessions", session.id)
            broker.fleet.reader.add(fd, session.received)
            try:
                await session.over.wait()
            finally:
                broker.fleet.reader.remove(fd)
                del broker.sessions[session.id]
                broker.changes.publish("sessions", session.id)
                session.writer.close()
            nursery.cancel_scope.cancel()
        # Only now no request of it can use a server any more.
        broker.fleet.left(session.id)


async def announce(broker: Broker) -> None:
    """Tell sessions when what they were shown is no longer true. One task for all of them."""
    with broker.changes.subscribe() as changes:
        async for change in changes:
            if changes.lagged or change.topic in ("catalog", "servers"):
                changes.lagged = False
                for session in list(broker.sessions.values()):
                    session.tools_changed()
