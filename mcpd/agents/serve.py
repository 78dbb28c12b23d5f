"""Agents' connections: each becomes a session that speaks by the method table."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from mcpd.agents.identity import peer_of
from mcpd.agents.methods import serve as methods
from mcpd.agents.pipe import Pipe, SocketOutlet
from mcpd.agents.session import Session
from mcpd.broker import Broker

log = logging.getLogger("mcpd.agents")


async def serve_connection(broker: Broker, stream: trio.SocketStream, agent: str) -> None:
    """Serve one connection to the socket of `agent` until it ends, then close it.

    Raises nothing of the peer's making. Cancelling ends the session and all its requests.
    """
    async with stream:
        peer = peer_of(stream.socket)
        fd = stream.socket.fileno()
        with contained(agent):
            async with trio.open_nursery() as nursery:
                outlet = SocketOutlet(fd, nursery)
                session = Session(broker, methods, peer, agent, outlet, nursery)
                reader = broker.fleet.reader
                with enrolled(broker, session):
                    reader.add(fd, Pipe(session, reader, fd, nursery).received)
                    try:
                        await session.over.wait()
                    finally:
                        reader.remove(fd)
                        outlet.close()
                        session.end()
                nursery.cancel_scope.cancel()
        # Only now no request of it can use a server any more.
        broker.fleet.left(session.id)
        broker.tasks.forget(session.id)


@contextmanager
def contained(agent: str) -> Iterator[None]:
    """Around all tasks of a session: what fails in one, beside its requests, is the end of that session
    alone."""
    try:
        yield
    except* Exception:
        log.exception('a session of agent "%s" ends: internal error', agent)


@contextmanager
def enrolled(broker: Broker, session: Session) -> Iterator[None]:
    """The session is one of those that others know, as long as it lasts."""
    broker.sessions[session.id] = session
    broker.hosts.attached(session.id, session.pid)
    broker.changes.publish("sessions", session.id)
    try:
        yield
    finally:
        del broker.sessions[session.id]
        broker.hosts.left(session.id)
        broker.changes.publish("sessions", session.id)
        if broker.grants.end_session(session.id):
            broker.changes.publish("grants")


async def announce(broker: Broker) -> None:
    """Tell sessions when what they were shown is no longer true. One task for all of them."""
    with broker.changes.subscribe() as changes:
        async for change in changes:
            if changes.lagged or change.topic in ("catalog", "servers"):
                changes.lagged = False
                for session in list(broker.sessions.values()):
                    # Its view may have to be made anew, 20 ms for 10,000 tools: others have a turn before.
                    await trio.lowlevel.checkpoint()
                    if broker.sessions.get(session.id) is session:
                        session.changed()
