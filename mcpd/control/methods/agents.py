"""`agents.*` and `sessions.switch`: which agents there are, what each may use, who is attached."""

from __future__ import annotations

from mcpd import admitting, roster
from mcpd.api import Params
from mcpd.api.agents import (
    AddAgent,
    AgentChanged,
    AgentDetails,
    AgentRemoved,
    AgentRisk,
    Agents,
    AgentTools,
    ListSessions,
    NamedAgent,
    SessionInfo,
    Sessions,
    SwitchServer,
)
from mcpd.control.operator import Operator


async def list_agents(operator: Operator, params: Params) -> Agents:
    return Agents(roster.list_agents(operator.broker))


async def get(operator: Operator, params: NamedAgent) -> AgentDetails:
    return await roster.get_agent(operator.broker, params.agent)


async def add(operator: Operator, params: AddAgent) -> AgentDetails:
    return await admitting.add(operator.broker, params)


async def remove(operator: Operator, params: NamedAgent) -> AgentRemoved:
    return AgentRemoved(await admitting.remove(operator.broker, operator.caller, params.agent))


async def allow(operator: Operator, params: AgentTools) -> AgentChanged:
    return await admitting.allow(operator.broker, params.agent, params.tools)


async def deny(operator: Operator, params: AgentTools) -> AgentChanged:
    return await admitting.deny(operator.broker, params.agent, params.tools)


async def max_risk(operator: Operator, params: AgentRisk) -> AgentChanged:
    return await admitting.set_max_risk(operator.broker, params.agent, params.max_risk)


async def sessions(operator: Operator, params: ListSessions) -> Sessions:
    return Sessions(roster.sessions(operator.broker, params.agent))


async def switch(operator: Operator, params: SwitchServer) -> SessionInfo:
    return roster.switch(operator.broker, params.session, params.server, params.on)
