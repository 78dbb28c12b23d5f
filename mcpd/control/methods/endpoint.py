"""`endpoint.*`: the door for agents that come over HTTP, and the tokens that open it (n23)."""

from __future__ import annotations

from mcpd.api import Params
from mcpd.api.endpoint import (
    AgentToken,
    AgentWithToken,
    EnableEndpoint,
    EndpointStatus,
    NewToken,
    TokenInfo,
)
from mcpd.broker import Broker
from mcpd.caller import DEFAULT_AGENT
from mcpd.consent import tokens
from mcpd.control.operator import Operator
from mcpd.errors import Failure
from mcpd.listing import find_agent


async def status(operator: Operator, params: Params) -> EndpointStatus:
    return _status(operator.broker)


async def enable(operator: Operator, params: EnableEndpoint) -> EndpointStatus:
    """Listens first: what cannot be done is not kept. Raises Failure `refused`, `not_writable`."""
    broker = operator.broker
    async with broker.editing:
        before = broker.state.endpoint
        port = before.port if params.port is None else params.port
        await broker.endpoint.open(port)
        try:
            broker.state.set_endpoint(True, port)
        except Failure:
            if not before.enabled:
                await broker.endpoint.close()
            raise
    return _status(broker)


async def disable(operator: Operator, params: Params) -> EndpointStatus:
    """Ends every session over HTTP. Raises Failure `not_writable`: then it is off until the daemon ends."""
    broker = operator.broker
    async with broker.editing:
        await broker.endpoint.close()
        broker.state.set_endpoint(False, broker.state.endpoint.port)
    return _status(broker)


async def token(operator: Operator, params: AgentToken) -> NewToken:
    """Raises Failure `no_such_agent`, `not_writable`, and `refused` for an agent that has a token."""
    broker = operator.broker
    agent = find_agent(broker, params.agent).name
    replaced = agent in broker.state.tokens
    if replaced and not params.rotate:
        raise Failure(
            "refused",
            f'agent "{agent}" has a token, and it is shown only once',
            hint=f"mcpctl endpoint token {agent} --rotate makes another in its place",
            agent=agent,
        )
    made = tokens.new_token()
    broker.state.put_token(agent, tokens.digest(made))
    broker.endpoint.end_sessions(agent)
    return NewToken(agent=agent, token=made, replaced=replaced, urls=broker.endpoint.urls)


async def revoke(operator: Operator, params: AgentWithToken) -> EndpointStatus:
    """Ends the agent's sessions over HTTP. Raises Failure `no_such_agent` for one without a token."""
    broker = operator.broker
    agent = params.agent
    if agent not in broker.state.tokens:
        raise Failure("no_such_agent", f'no agent "{agent[:60]}" has a token', agent=agent[:60])
    try:
        broker.state.forget_token(agent)
    finally:
        broker.endpoint.end_sessions(agent)
    return _status(broker)


def _status(broker: Broker) -> EndpointStatus:
    endpoint, switch = broker.endpoint, broker.state.endpoint
    known = {DEFAULT_AGENT, *broker.config.agents}
    return EndpointStatus(
        enabled=switch.enabled,
        port=endpoint.port or switch.port,
        urls=endpoint.urls,
        problem=endpoint.problem,
        sessions=endpoint.sessions,
        tokens=tuple(
            TokenInfo(agent, kept.made_at, agent in known)
            for agent, kept in sorted(broker.state.tokens.items())
        ),
    )
