"""Events for one operator: a snapshot with its number, then every change after it.

An operator that reads too slowly loses the subscription, not the daemon's time: after 128 changes
that could not be written it gets one `events.lagged` and nothing more (as tailscaled does it).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from mcpd import admin
from mcpd.api.events import Event, Snapshot, Subscribe, Subscribed
from mcpd.broker import Broker
from mcpd.changes import Change, Subscription
from mcpd.control.operator import Operator
from mcpd.errors import Failure
from mcpd.protocol import jsonrpc

#: Changes that may wait for one operator (the figure of tailscaled).
QUEUE = 128


def subscribe(operator: Operator, params: Subscribe) -> Subscribed:
    """Start the feed of one connection. Raises Failure `busy` when it has one already.

    No checkpoint lies between taking the snapshot, taking its number, starting to collect and
    (in the listener) writing the answer: nothing is missed, and no event overtakes the answer.
    """
    if operator.subscribed:
        raise Failure("busy", "cannot subscribe twice on one connection", hint="open another connection")
    operator.subscribed = True
    changes = operator.broker.changes
    past = () if params.since is None else changes.since(params.since)
    operator.nursery.start_soon(
        _follow, operator, changes.subscribe(QUEUE), frozenset(params.topics), past or ()
    )
    return Subscribed(
        seq=changes.seq, gap=past is None, snapshot=Snapshot(servers=admin.list_servers(operator.broker))
    )


async def _follow(
    operator: Operator, subscription: Subscription, topics: frozenset[str], past: Iterable[Change]
) -> None:
    with subscription:
        for change in past:
            _send(operator, change, topics)
        async for change in subscription:
            if subscription.lagged:
                break
            _send(operator, change, topics)
            await operator.room()
    operator.subscribed = False
    operator.writer.write(jsonrpc.notification_line("events.lagged"))


def _send(operator: Operator, change: Change, topics: frozenset[str]) -> None:
    if change.topic in topics:
        # What an owner publishes beside plain data is shown as text: a feed never fails on it.
        params = msgspec.json.encode(_event(operator.broker, change), enc_hook=str)
        operator.writer.write(jsonrpc.notification_line("event", params))


def _event(broker: Broker, change: Change) -> Event:
    """What happened, with the present state of the server that it happened to."""
    data = change.data
    if change.topic in ("status", "catalog"):
        name = str(data)
        data = {"server": name, "status": admin.status_of(broker, name)}
    return Event(change.seq, change.topic, {} if data is None else data)
