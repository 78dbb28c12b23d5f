"""Requests of agents to servers. Only `calls` may import this: every request takes the one path (a01)."""

from __future__ import annotations

from functools import partial

import msgspec

from mcpd.config.spec import Server
from mcpd.errors import Failure, ServerError
from mcpd.transport.base import ConnectionLost, Unanswered
from mcpd.transport.pending import Asker, Slot
from mcpd.upstream.connection import Connection
from mcpd.upstream.opening import HEADER_MISMATCH
from mcpd.upstream.refusals import ended, late, unanswered
from mcpd.upstream.step import Begun, Sending
from mcpd.upstream.ticket import Superseded, Ticket, Withdrawn
from mcpd.upstream.upstream import REACH, Upstream
from mcpd.upstream.wishes import Tell


def begin(
    upstream: Upstream,
    method: str,
    members: bytes,
    kept_meta: bytes,
    slot: Slot,
) -> Begun | None:
    """Send a request, if nothing has to be waited for first; else None, and nothing has been sent. The
    arguments are those of `Sending`; what comes of it settles `slot`."""
    connection, asker = upstream.connection, slot.asker
    if connection is None or upstream.relay.turns is not None:
        return None
    if asker is not None and asker.abilities and not upstream.knows(asker):
        return None
    try:
        return Begun(connection, connection.send(method, members, kept_meta, slot), slot)
    except (ConnectionLost, Failure):
        return None


async def request(sending: Sending) -> bytes:
    """The result's JSON text.

    Raises Superseded when the decision does not hold any more, ServerError for the server's own error,
    Failure `unavailable`, `disabled`, `needs_login`, `timed_out`, `outcome_unknown`, `bad_answer`,
    `too_large`, `busy`, Withdrawn when the ticket is taken back.
    """
    upstream, ticket, asker, holds = sending.upstream, sending.ticket, sending.asker, sending.holds
    written = replayed = relisted = False
    # What is asked about a task begins nothing at the server.
    about = sending.method.startswith("tasks/")
    begun = sending.begun
    while True:
        turns = None
        if begun is not None:
            slot = begun.slot
        else:
            connection = await _connected(sending, written, replayed)
            turns = upstream.relay.turns if asker is not None and not about else None
            if turns is not None and asker is not None:
                # Nor does waiting for those who are before it.
                with ticket.stoppable():
                    await turns.enter(asker.party)
            slot = Slot(sending.idle, sending.total, asker)
        try:
            if begun is not None:
                result = begun.connection.result(begun.key, slot)
            else:
                if turns is not None:
                    await ticket.come_back()
                if turns is not None and upstream.connection is not connection:
                    continue
                if turns is not None and not holds():
                    raise Superseded if not written else ended(upstream.name, upstream.status, written)
                ticket.waits_in(slot)
                told = partial(sending.sent, connection) if sending.sent is not None else None
                result = await connection.exchange(
                    sending.method, sending.members, sending.kept_meta, slot, told
                )
        except ConnectionLost:
            written = written or slot.written
            if not replayed and sending.may_replay(slot.written):
                replayed = True
                continue
            raise ended(upstream.name, upstream.status, written) from None
        except Unanswered as e:
            raise unanswered(upstream.definition, e, upstream.ring.clean(e.message)) from None
        except ServerError as e:
            if relisted or not _is_mismatch(upstream, e):
                raise
            # The server has refused it before doing anything: the headers are not those that its listing
            # asks for by now (3.3, a21).
            relisted = True
            with ticket.stoppable():
                await upstream.relist()
            if not holds():
                raise Superseded from None
            continue
        except Failure as e:
            if e.kind == "timed_out":
                raise late(upstream.name, slot) from None
            raise
        finally:
            begun = None
            ticket.waits_in(None)
            if turns is not None and asker is not None:
                turns.leave(asker.party)
        upstream.succeeded()
        return result


class Watch(msgspec.Struct, frozen=True):
    """Who wants to hear of a resource, as the last step of a request: called like `request`.

    A server with a handshake is asked for it, a stateless one by the stream that it tells on (8.2).
    """

    watcher: str
    uri: str
    """The server's own."""
    tell: Tell

    async def __call__(self, sending: Sending) -> bytes:
        """Raises what `request` does, and `bad_answer` where a stateless server does not tell of it;
        then nothing is watched."""
        upstream, ticket = sending.upstream, sending.ticket
        wishes = upstream.wishes
        connection = upstream.connection
        if connection is None:
            connection = await _reach(upstream, ticket, sending.asker)
            if not sending.holds():
                raise Superseded
        if not _tells(connection):
            raise Failure("bad_answer", f'server "{upstream.name}" does not tell of changed resources')
        # Before the server is asked: the first news may come together with its answer.
        wishes.watch(self.watcher, self.uri, self.tell)
        try:
            if connection.settled.revision.stateless:
                ticket.reached = True
                with ticket.stoppable():
                    if await wishes.honoured(self.uri):
                        return b"{}"
                raise Failure("bad_answer", f'server "{upstream.name}" does not tell of this resource')
            result = await request(sending)
            wishes.agreed(self.uri)
            return result
        except BaseException:
            wishes.unwatch(self.watcher, self.uri)
            raise


def _tells(connection: Connection) -> bool:
    resources = connection.settled.capabilities.get("resources")
    return isinstance(resources, dict) and resources.get("subscribe") is True


async def _connected(sending: Sending, written: bool, replayed: bool) -> Connection:
    """The server's connection, the request having a place and the decision being what it was. `written`: it
    may have reached the server before. Raises what `request` does."""
    upstream, ticket, asker = sending.upstream, sending.ticket, sending.asker
    about = sending.method.startswith("tasks/")
    # Looked at once: where the next connection is told no more, it would be opened anew for ever.
    fits = asker is None or not asker.abilities or about or upstream.told_enough(asker)
    waited = replayed
    while True:
        connection, fits = upstream.connection if fits else None, True
        if connection is None:
            waited = True
            try:
                connection = await _reach(upstream, ticket, asker)
            except Failure as e:
                if written and not isinstance(e, Withdrawn):
                    raise ended(upstream.name, upstream.status, written) from None
                raise
        if ticket.placed or ticket.places is None:
            break
        waited = True
        await ticket.come_back()
    if waited and not sending.holds():
        if written:
            raise ended(upstream.name, upstream.status, written)
        raise Superseded
    return connection


async def _reach(upstream: Upstream, ticket: Ticket, asker: Asker | None) -> Connection:
    # Waiting for the server does not count towards the call (D9).
    with ticket.stoppable(), upstream.relay.waits(asker):
        return await upstream.reach(REACH)
    raise Withdrawn


def _is_mismatch(upstream: Upstream, e: ServerError) -> bool:
    definition = upstream.definition
    return e.server_code == HEADER_MISMATCH and isinstance(definition, Server) and bool(definition.url)
