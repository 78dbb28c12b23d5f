"""`subscriptions/listen` (5.14): a stream of what changes, for agents without a handshake."""

from __future__ import annotations

import msgspec
import trio

from mcpd.agents.methods import resources
from mcpd.agents.methods.following import Feed
from mcpd.agents.methods.request import Request
from mcpd.agents.session import Session
from mcpd.errors import Failure
from mcpd.protocol import dialect, extensions, jsonrpc
from mcpd.protocol.extensions import TASKS
from mcpd.protocol.shapes import ListenFilter, ListenParams, read_params
from mcpd.upstream.ticket import Ticket
from mcpd.upstream.wishes import Wishes

#: URIs of one stream.
URIS = 1000

#: Tasks of one stream.
IDS = 256

#: Seconds that servers have to agree; what they have not agreed to by then is not acknowledged.
PATIENCE = 5.0

#: Servers' answers that are waited for at once.
AT_ONCE = 8


async def listen(session: Session, request: Request) -> bytes:
    """Stays open until the agent cancels it; mcpd's end gives the graceful result."""
    asked = read_params(request.params, ListenParams).notifications
    if len(asked.resource_subscriptions) > URIS:
        raise Failure("invalid_params", f"a stream tells of at most {URIS:,} resources")
    if len(asked.task_ids) > IDS:
        raise Failure("invalid_params", f"a stream tells of at most {IDS} tasks")
    watched: dict[str, tuple[Wishes, str]] = {}
    # Who has not declared the extension is told of no tasks.
    followed = asked.task_ids if TASKS in extensions.read(request.meta and request.meta.capabilities) else ()
    feed = Feed(session, request, followed)
    try:
        if asked.resource_subscriptions:
            with request.ticket.stoppable():
                await _watch_all(session, request, asked.resource_subscriptions, watched)
        if followed:
            with request.ticket.stoppable():
                await session.begin(feed.run)
        granted = _granted(
            asked,
            tuple(uri for uri in asked.resource_subscriptions if uri in watched),
            tuple(ident for ident in followed if ident in feed.granted),
        )
        # Unlike the notices that follow it is never left out: it must come first, and is part of the answer.
        line = jsonrpc.notification_line(
            "notifications/subscriptions/acknowledged", dialect.acknowledged(request.key, granted)
        )
        session.outlet.write(line, request.on)
        session.notices.open(request.on, request.key, granted)
        feed.acknowledged.set()
        with request.ticket.stoppable():
            await session.broker.stop.wait()
    finally:
        feed.stop()
        session.notices.close(request.on)
        for wishes, own in watched.values():
            wishes.unwatch(resources.watcher(session, request.on), own)
    return dialect.own_result(b"", True, dialect.subscription_meta(request.key))


def _granted(asked: ListenFilter, uris: tuple[str, ...], tasks: tuple[str, ...]) -> ListenFilter:
    return ListenFilter(
        tools_list_changed=asked.tools_list_changed,
        prompts_list_changed=asked.prompts_list_changed,
        resources_list_changed=asked.resources_list_changed,
        resource_subscriptions=uris,
        task_ids=tasks,
    )


async def _watch_all(
    session: Session, request: Request, uris: tuple[str, ...], watched: dict[str, tuple[Wishes, str]]
) -> None:
    """Ask for news of each, as far as the agent may have it and the servers agree in time."""
    free = trio.CapacityLimiter(AT_ONCE)

    async def watch(uri: str) -> None:
        async with free:
            # A ticket is for one wait at a time.
            beside = msgspec.structs.replace(request, ticket=Ticket())
            try:
                row, own = await resources.find(session, beside, uri, "resources/subscribe")
                await resources.watch(session, beside, beside.ticket, row, own, b"", request.on)
            except Failure:
                return
            watched[uri] = (row.upstream.wishes, own)

    with trio.move_on_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for uri in dict.fromkeys(uris):
                nursery.start_soon(watch, uri)
