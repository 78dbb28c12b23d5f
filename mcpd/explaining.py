"""Why a request is decided as it is (n10). Here no server is reached, nobody asked, nothing used up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from mcpd import listing
from mcpd.api import policy as api
from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.catalog import names
from mcpd.config.spec import MAIN, Agent
from mcpd.permit import bound_of, facts_of, request_of
from mcpd.policy import binding, rules
from mcpd.policy.explain import Case, Limits, explain
from mcpd.policy.grants import Grant, Request, covers
from mcpd.policy.lists import Blocked, Lists, allow
from mcpd.rows import Row, ViewKey, barred


async def explain_request(broker: Broker, row: Row, wanted: api.Explain) -> api.Explained:
    """`row` is the tool as the operator sees it. Raises Failure `no_such_agent`, `invalid_params`."""
    agent = listing.find_agent(broker, wanted.agent) if wanted.agent else listing.OPERATOR
    row = seen_by(broker, agent, row)
    payload = row.checked(bytes(wanted.arguments))
    arguments = row.arguments(payload)
    request = request_of(Caller(wanted.session, wanted.agent, 0, ""), row, arguments)
    digest = binding.digest(bound_of(row, arguments))
    unused = (yes.id for yes in broker.approvals.unused() if yes.question.digest == digest)
    takes = row.ruling.takes_secrets
    # Not told as an event: nothing is sent.
    leak = await broker.held_values.arguments(row.upstream.name, arguments, takes_secrets=takes)
    facts = facts_of(broker, row, broker.grants.find(request), next(unused, ""), leak)
    server = row.upstream.name
    case = Case(
        facts=facts,
        chain=rules.chain(row.subject, trusted=row.trusted),
        name=row.name,
        limits=Limits(agent.name, agent.max_risk, agent.auto_approve),
        barred=barred(agent, server, row.tool.name),
        unbar=_unbar(agent, row),
        turn=_turn(row),
        turned=rules.resolve(row.subject, trusted=not row.trusted),
    )
    found = explain(case, row.decided)
    return api.Explained(
        agent=agent.name,
        server=server,
        tool=row.tool.name,
        name=row.name,
        verdict=found.verdict,
        once_only=found.once_only,
        risk=row.ruling.risk,
        approval=row.ruling.approval,
        timeout=row.ruling.timeout,
        rules=tuple(api.Rule(each.field, each.says, each.rule, each.decides) for each in found.steps),
        decided=case.barred or row.decided(facts).because[-1],
        changes=tuple(api.Remedy(each.step, each.verdict) for each in found.changes),
        notes=tuple(_notes(broker, row, request, digest, found.verdict)),
    )


def seen_by(broker: Broker, agent: Agent, row: Row) -> Row:
    """The row of the same tool for an agent, as it is or, where it may not use the tool, as it would be."""
    if agent is listing.OPERATOR:
        return row
    key = ViewKey((agent.name, "", frozenset(), ""))
    pair = (row.upstream.name, row.tool.name)
    seen = listing.view_now(broker, key).rows.of(*pair)
    if seen is not None:
        return seen
    offer = listing.operator_view_now(broker).offers[row.upstream.name]
    return type(row)(key, names.export(*pair, agent.spelling), agent, offer, row.tool, broker.config)


def _unbar(agent: Agent, row: Row) -> str:
    try:
        lists = allow(Lists(agent.allowed_tools, agent.denied_tools), (row.name,))
    except Blocked as blocked:
        return f'denied_tools of agent {agent.name} without "{blocked.by}"'
    if Path(agent.source).name == MAIN:  # there mcpctl writes nothing
        fields = (
            f'denied_tools without "{row.name}"' if row.name in agent.denied_tools else "",
            f'allowed_tools with "{row.name}"' if lists.allowed != agent.allowed_tools else "",
        )
        return f"[agents.{agent.name}] of {MAIN}: {' and '.join(filter(None, fields))}"
    return f"mcpctl agents allow {agent.name} {row.name}"


def _turn(row: Row) -> str:
    server = row.upstream.name
    if row.unverified:
        return f"mcpctl test {server}: it is trusted, and what is known of its tools is from the cache"
    return f"mcpctl {'untrust' if row.trusted else 'trust'} {server}"


def _notes(broker: Broker, row: Row, request: Request, digest: str, verdict: api.Verdict) -> Iterator[str]:
    """What a person should know besides."""
    if row.upstream.held is not None:
        yield row.upstream.held.words
    if verdict == "ask" and request.agent in {each.agent for each in broker.approvals.muted()}:
        yield f"nobody is asked now, the agent is muted: mcpctl approvals --unmute {request.agent}".rstrip()
    if verdict == "ask" and (left := broker.approvals.refused(digest)):
        yield f"a person has said no to this very call, which is refused for {left / 60:.0f} min more"
    for grant in _nearly(broker, request):
        why = "its condition does not hold" if grant.lifespan != "session" else "it is for a session"
        yield f"{grant.words} does not cover this: {why}"


#: Grants that are told as not covering.
_TOLD: Final = 20


def _nearly(broker: Broker, request: Request) -> list[Grant]:
    """Grants that would cover the request with other arguments, or from another session."""
    found = []
    for grant, used in broker.grants.all():
        session = grant.session or request.session
        free = msgspec.structs.replace(grant, conditions=(), only=False)
        if covers(free, msgspec.structs.replace(request, session=session), used, 0.0) and not covers(
            grant, request, used, 0.0
        ):
            found.append(grant)
    return found[:_TOLD]
