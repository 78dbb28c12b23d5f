"""What an agent may see, and waiting until it can be said (D5, a22, b01, b26)."""

from __future__ import annotations

import contextlib

import trio

from mcpd.broker import Broker
from mcpd.config.spec import Agent
from mcpd.errors import Failure
from mcpd.policy import rules
from mcpd.upstream.upstream import Upstream
from mcpd.views import Row, View, ViewKey

#: The first listing waits this long for servers whose catalogue nobody knows yet (D5).
FIRST_LISTING = 5.0

DEFAULT_AGENT = "default"

#: No configured agent has an empty name, so no session can come by this view.
OPERATOR = Agent(name="")
OPERATOR_KEY = ViewKey(("", "", frozenset()))


def find_agent(broker: Broker, name: str) -> Agent:
    """The agent's configuration; the default agent needs none. Raises Failure `no_such_agent`."""
    agent = broker.config.agents.get(name)
    if agent is not None:
        return agent
    if name == DEFAULT_AGENT:
        return Agent(name=DEFAULT_AGENT)
    raise Failure("no_such_agent", f'no agent is named "{name}"', agent=name)


def view_now(broker: Broker, key: ViewKey) -> View:
    """What is known at this moment, without waiting."""
    return broker.views.get(broker.config, broker.fleet.all(), find_agent(broker, key[0]), key)


async def view(broker: Broker, key: ViewKey) -> View:
    """The whole listing: servers without a known catalogue are connected and waited for, changes fetched."""
    agent = find_agent(broker, key[0])
    await _complete(broker, agent, key)
    return view_now(broker, key)


async def operator_view(broker: Broker) -> View:
    """Like `view`, of everything that can be called, in the default spelling: for the operator alone."""
    await _complete(broker, OPERATOR, OPERATOR_KEY)
    return operator_view_now(broker)


def operator_view_now(broker: Broker) -> View:
    return broker.views.get(broker.config, broker.fleet.all(), OPERATOR, OPERATOR_KEY)


async def _complete(broker: Broker, agent: Agent, key: ViewKey) -> None:
    _, only, without = key
    wanted = [
        upstream
        for upstream in broker.fleet.all()
        if (not only or upstream.name == only)
        and upstream.name not in without
        and upstream.usable
        and rules.may_use_server(agent, upstream.name)
    ]
    missing = [upstream for upstream in wanted if upstream.catalog is None]
    stale = [upstream for upstream in wanted if upstream.stale]
    if missing or stale:
        async with trio.open_nursery() as nursery:
            for upstream in missing:
                nursery.start_soon(_reach, upstream)
            for upstream in stale:
                nursery.start_soon(upstream.fresh)


async def _reach(upstream: Upstream) -> None:
    # A failure is in the status, and whoever calls its tools hears of it; the list goes on (a11).
    with contextlib.suppress(Failure):
        await upstream.reach(FIRST_LISTING)


def known_tool(broker: Broker, key: ViewKey, name: str) -> Row | None:
    """The tool, if it can be said without waiting: nothing has changed since the last look (a22)."""
    view = broker.views.current(key)
    row = view.rows.get(name) if view is not None else None
    return None if row is None or row.upstream.stale else row


async def find_tool(broker: Broker, key: ViewKey, name: str) -> Row:
    """The tool that this agent calls so. Raises Failure `no_such_tool`, also when it is not allowed."""
    row = view_now(broker, key).rows.get(name)
    if row is None or row.upstream.stale:
        # Its server may not have been listed yet, or a new catalogue is on its way (a22).
        row = (await view(broker, key)).rows.get(name)
    if row is None:
        raise Failure("no_such_tool", f'no tool is named "{name[:200]}"', tool=name[:200])
    return row
