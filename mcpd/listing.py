"""What an agent may see, and waiting until it can be said (D5, a22, b01, b26)."""

from __future__ import annotations

import contextlib

import trio

from mcpd.broker import Broker
from mcpd.caller import DEFAULT_AGENT
from mcpd.catalog import names, qualify
from mcpd.catalog.tool import Tool
from mcpd.catalog.wrappers import GET_PROMPT, READ_RESOURCE
from mcpd.config.spec import Agent
from mcpd.errors import Failure
from mcpd.protocol.abilities import NONE, Ability
from mcpd.rows import Row, ViewKey
from mcpd.transport.pending import Asker
from mcpd.upstream.fetch import Primitive
from mcpd.upstream.instance import Scope
from mcpd.upstream.upstream import REACH, Upstream
from mcpd.views import View, shown

#: The first listing waits this long for servers whose catalogue nobody knows yet (D5).
FIRST_LISTING = 5.0

#: No configured agent has an empty name, so no session can come by this view.
OPERATOR = Agent(name="")
OPERATOR_KEY = ViewKey(("", "", frozenset(), ""))


def find_agent(broker: Broker, name: str) -> Agent:
    """The agent's configuration; the default agent needs none. Raises Failure `no_such_agent`."""
    agent = broker.config.agents.get(name)
    if agent is not None:
        return agent
    if name == DEFAULT_AGENT:
        return Agent(name=DEFAULT_AGENT)
    raise Failure("no_such_agent", f'no agent is named "{name[:60]}"', hint="mcpctl agents", agent=name[:60])


def _agent_of(broker: Broker, key: ViewKey) -> Agent:
    return OPERATOR if key is OPERATOR_KEY else find_agent(broker, key[0])


def view_now(broker: Broker, key: ViewKey) -> View:
    """What is known at this moment, without waiting."""
    return broker.views.get(broker.config, broker.fleet, _agent_of(broker, key), key)


async def view(broker: Broker, key: ViewKey, waiter: str = "", primitive: Primitive = "tools") -> View:
    """The whole listing: servers without a known catalogue are connected and waited for, changes fetched.

    `waiter` is the session that lists: it waits for each unknown server once, and then hears of it
    by list_changed; as long as it lives, the server goes on being tried (D5, D8). Changes are those of
    the `primitive` that is listed.
    """
    await _complete(broker, key, waiter, primitive)
    return view_now(broker, key)


def operator_view_now(broker: Broker) -> View:
    """Everything that can be called, in the default spelling: for the operator alone."""
    return view_now(broker, OPERATOR_KEY)


def wanted(broker: Broker, key: ViewKey) -> list[Upstream]:
    """The servers that the agent may use in this view, whether their catalogue is known or not, each by the
    instance that it uses there."""
    agent = _agent_of(broker, key)
    return [broker.fleet.at(main, agent.name, key.root) for main in shown(broker.fleet, agent, key)]


def available(broker: Broker, server: str, scope: Scope) -> Ability:
    """What the attached agents that may use an instance of a server can be asked, together (5.1)."""
    found = NONE
    for session in broker.sessions.values():
        if session.abilities and any(
            each.name == server and each.scope == scope for each in wanted(broker, session.key)
        ):
            found |= session.abilities
    return found


def sole(broker: Broker, server: str, scope: Scope) -> Asker | None:
    """The one attached session that may use an instance of a server, as an asker without a request."""
    found = [
        session
        for session in broker.sessions.values()
        if any(each.name == server and each.scope == scope for each in wanted(broker, session.key))
    ]
    return found[0].standing if len(found) == 1 else None


async def _complete(broker: Broker, key: ViewKey, waiter: str, primitive: Primitive) -> None:
    used = wanted(broker, key)
    # What nobody knows yet one instance tells for all.
    missing = [up.main for up in used if up.catalog is None and waiter not in up.main.wanters]
    for upstream in used:
        upstream.look(primitive)
    stale = [upstream for upstream in used if upstream.stale_in(primitive)]
    if missing or stale:
        async with trio.open_nursery() as nursery:
            for upstream in missing:
                nursery.start_soon(_reach, upstream)
            for upstream in stale:
                nursery.start_soon(upstream.fresh, primitive)
    if waiter:
        for upstream in missing:
            if upstream.catalog is None:
                upstream.wanters.add(waiter)


async def renew(upstream: Upstream, primitive: Primitive) -> None:
    """Before an answer from the catalogue: wait for what a listing would wait for."""
    upstream.look(primitive)
    await upstream.fresh(primitive)


async def _reach(upstream: Upstream) -> None:
    # A failure is in the status, and whoever calls its tools hears of it; the list goes on (a11).
    with contextlib.suppress(Failure):
        await upstream.reach(FIRST_LISTING)


def known_tool(broker: Broker, key: ViewKey, name: str) -> Row | None:
    """The tool, if it can be said without waiting: nothing has changed since the last look (a22)."""
    row = broker.views.row(key, name)
    return None if row is None or row.upstream.stale else row


async def find_tool(broker: Broker, key: ViewKey, name: str) -> Row:
    """The tool that this agent calls so, after waiting for the server that may have it.

    Raises Failure `no_such_tool`, also when the agent may not use it, and `unavailable` when the
    server's catalogue is not known and it does not come up (b26).
    """
    row = view_now(broker, key).rows.get(name)
    unavailable: Failure | None = None
    if row is None or row.upstream.stale:
        unavailable = await _learn(_named(broker, key, name, "tools"), "tools")
        row = view_now(broker, key).rows.get(name)
    if row is None:
        raise unavailable or Failure("no_such_tool", f'no tool is named "{name[:200]}"', tool=name[:200])
    return row


async def find_prompt(broker: Broker, key: ViewKey, name: str, method: str) -> tuple[Row, str]:
    """The row of `method` for the prompt that this agent calls so, and its own name at its server.

    Raises Failure `no_such_prompt` and `unavailable`, as `find_tool` does.
    """
    found = view_now(broker, key).prompts.get(name)
    unavailable: Failure | None = None
    if found is None or found[0].stale_in("prompts"):
        unavailable = await _learn(_named(broker, key, name, "prompts"), "prompts")
        found = view_now(broker, key).prompts.get(name)
    if found is None:
        raise unavailable or _no_such(GET_PROMPT, name)
    upstream, prompt = found
    return find_native(broker, key, upstream.name, GET_PROMPT, method, name), prompt.name


async def find_resource(broker: Broker, key: ViewKey, uri: str, method: str) -> tuple[Row, str]:
    """The row of `method` for a URI as this agent sees it, and the server's own URI.

    It need not be listed: templates make more. The qualifier alone says whose it is, or the view that
    shows one server; it is never looked for among servers. Raises Failure `no_such_resource` and
    `unavailable`, as `find_tool` does.
    """
    server, own = (key[1], uri) if key[1] else qualify.split(uri) or ("", uri)
    unknown = [each for each in wanted(broker, key) if each.name == server and each.catalog is None]
    unavailable = await _learn(unknown, "resources") if unknown else None
    offer = view_now(broker, key).offers.get(server)
    if offer is None or "resources" not in offer.catalog.features:
        raise unavailable or _no_such(READ_RESOURCE, uri)
    return find_native(broker, key, server, READ_RESOURCE, method, uri), own


def find_following(
    broker: Broker, key: ViewKey, upstream: Upstream, tool: str, name: str, method: str
) -> Row:
    """The row of a method about a task that a tool at this instance has made; `name`: what the agent called
    it then. Raises Failure `invalid_params` where the agent may not use that any more."""
    row = view_now(broker, key).following(upstream.name, tool, method, name)
    if row is None or row.upstream is not upstream:
        raise unknown_task()
    return row


def unknown_task() -> Failure:
    return Failure("invalid_params", "unknown task", hint="it may have expired")


def find_native(broker: Broker, key: ViewKey, server: str, gate: Tool, method: str, meant: str) -> Row:
    """The row of a method at a server. Raises Failure `no_such_prompt` or `no_such_resource`, with what is
    `meant` in it, where the agent may not use what `gate` stands for: that does not exist for it."""
    row = view_now(broker, key).native(server, gate, method)
    if row is None:
        raise _no_such(gate, meant)
    return row


def _no_such(gate: Tool, meant: str) -> Failure:
    if gate is GET_PROMPT:
        return Failure("no_such_prompt", f'no prompt is named "{meant[:200]}"', prompt=meant[:200])
    return Failure("no_such_resource", f'no resource is named "{meant[:200]}"', uri=meant[:2000])


def _named(broker: Broker, key: ViewKey, name: str, primitive: Primitive) -> list[Upstream]:
    """The servers that a tool or prompt of this name may belong to and whose catalogue is not known or not
    fresh."""
    agent = _agent_of(broker, key)
    return [
        upstream
        for upstream in wanted(broker, key)
        if (upstream.catalog is None or upstream.stale_in(primitive))
        and (key[1] or name.startswith(names.prefix(upstream.name, agent.spelling)))
    ]


async def _learn(upstreams: list[Upstream], primitive: Primitive) -> Failure | None:
    """Wait until their catalogues are known and new; why one is not."""
    unavailable: Failure | None = None
    for upstream in upstreams:
        try:
            if upstream.catalog is None:
                await upstream.main.reach(REACH)
            await upstream.fresh(primitive)
        except Failure as e:
            unavailable = e
    return unavailable
