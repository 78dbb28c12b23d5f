"""Who may use what, as the operator sees it: the agents, what each gets of the servers, who is attached."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import trio

from mcpd import listing
from mcpd.api.agents import AgentDetails, AgentInfo, ServerShare, SessionInfo
from mcpd.broker import AttachedSession, Broker
from mcpd.caller import DEFAULT_AGENT
from mcpd.catalog.wrappers import wrappers
from mcpd.config import fields
from mcpd.config.spec import MAIN, Agent, Config
from mcpd.errors import Failure
from mcpd.policy.patterns import Known
from mcpd.policy.rules import may_use_server
from mcpd.policy.terms import risk_rank
from mcpd.rows import ViewKey

#: Tools that are looked at before others have a turn.
AT_A_TIME = 200


def list_agents(broker: Broker) -> tuple[AgentInfo, ...]:
    """Every agent, the default one first and whether it has an entry or not."""
    names = dict.fromkeys((DEFAULT_AGENT, *broker.config.agents))
    return tuple(info(broker, listing.find_agent(broker, name)) for name in names)


async def get_agent(broker: Broker, name: str) -> AgentDetails:
    """Raises Failure `no_such_agent`."""
    agent = listing.find_agent(broker, name)
    return AgentDetails(
        **_info(broker, agent),
        servers=tuple(await _shares(broker, agent)),
        attached=sessions(broker, name),
        socket=f"{broker.agents_dir}/{name}/mcp.sock",
    )


def info(broker: Broker, agent: Agent) -> AgentInfo:
    return AgentInfo(**_info(broker, agent))


def _info(broker: Broker, agent: Agent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "source": agent.source,
        "allowed_tools": agent.allowed_tools,
        "denied_tools": agent.denied_tools,
        "max_risk": agent.max_risk,
        "auto_approve": agent.auto_approve,
        "approver": agent.approver,
        "spelling": agent.spelling,
        "open": agent.open,
        "sessions": sum(session.agent == agent.name for session in broker.sessions.values()),
        "problems": problems(broker.config, agent.name, agent.source),
    }


def problems(config: Config, name: str, source: str) -> tuple[str, ...]:
    """What is wrong with an agent's entry; in a file of its own every place belongs to it."""
    own = Path(source).name != MAIN
    return config.problems_of(source, "" if own else fields.join("agents", name))


async def _shares(broker: Broker, agent: Agent) -> list[ServerShare]:
    every = known(broker).tools
    usable, above = Counter[str](), Counter[str]()
    rows = listing.view_now(broker, ViewKey((agent.name, "", frozenset(), ""))).rows.values()
    for number, row in enumerate(rows):
        if number % AT_A_TIME == 0:
            await trio.lowlevel.checkpoint()
        usable[row.upstream.name] += 1
        above[row.upstream.name] += risk_rank(row.ruling.risk) > risk_rank(agent.max_risk)
    return [
        ServerShare(
            server=server,
            known=tools is not None,
            tools=usable[server],
            of=len(tools or ()),
            above=above[server],
        )
        for server, tools in every.items()
        if usable[server] or (tools is None and may_use_server(agent, server))
    ]


def known(broker: Broker) -> Known:
    """The servers and their tools as far as their catalogues are known."""
    return Known(
        {
            upstream.name: None
            if upstream.catalog is None
            else frozenset(tool.name for tool in (*upstream.catalog.tools, *wrappers(upstream.catalog)))
            for upstream in broker.fleet.all()
        }
    )


def sessions(broker: Broker, agent: str = "") -> tuple[SessionInfo, ...]:
    """Who is attached, of all agents or of one. Raises Failure `no_such_agent`."""
    if agent:
        listing.find_agent(broker, agent)
    return tuple(_session(session) for session in broker.sessions.values() if agent in ("", session.agent))


def find_session(broker: Broker, ident: str) -> AttachedSession:
    """One that is attached. Raises Failure `no_such_session`."""
    session = broker.sessions.get(ident)
    if session is None:
        raise Failure(
            "no_such_session", f'no session has the id "{ident[:60]}"', hint="mcpctl agents session"
        )
    return session


def _session(session: AttachedSession) -> SessionInfo:
    key = session.key
    return SessionInfo(
        id=session.id,
        agent=session.agent,
        pid=session.pid,
        exe=session.exe,
        cwd=session.cwd,
        root=key.root,
        began=session.began,
        server=key.only,
        without=tuple(sorted(key.without - session.off)),
        off=tuple(sorted(session.off)),
    )


def switch(broker: Broker, ident: str, server: str, on: bool) -> SessionInfo:
    """Show one session a server no more, or again; what its agent may use is not changed by it.

    Raises Failure `no_such_session`, `no_such_server`.
    """
    session = find_session(broker, ident)
    if server not in session.off:
        broker.fleet.find(server)
    if on == (server in session.off):
        session.switch(server, on)
    return _session(session)
