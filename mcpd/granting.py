"""What the operator does with grants: giving, looking at, taking back (DESIGN 8.4)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

import trio

from mcpd import listing, pinning, roster
from mcpd.api.grants import AddGrant, Granted, GrantInfo, Where
from mcpd.broker import Broker
from mcpd.caller import DEFAULT_AGENT, Caller
from mcpd.catalog import names
from mcpd.config.spec import Server
from mcpd.consent.grantbook import Given
from mcpd.consent.questions import Question
from mcpd.errors import Failure
from mcpd.journal import About, Entry
from mcpd.policy.grants import EVERY_AGENT, Condition, Grant, Request, covers
from mcpd.policy.terms import glob_match
from mcpd.rows import Row

#: Of those that a new grant names and does not cover so many are told.
TOLD: Final = 20
#: Tools that a grant is given for before others have a turn: 5 ms.
AT_ONCE: Final = 100


def list_grants(broker: Broker) -> tuple[GrantInfo, ...]:
    return tuple(_info(broker, given) for given in broker.grants.all())


async def add(broker: Broker, by: Caller, wanted: AddGrant, proof: str = "") -> Granted:
    """Keep a grant, pin what it is for, and let it answer the questions that it covers.

    A pattern may name 10,000 tools, so others have a turn between some. They are pinned before the grant
    counts: what a server says meanwhile is not what a person has agreed to.

    `wanted` names server and tool, both exact and known to exist, or a pattern for tools of one server.
    Raises Failure `invalid_params`, `no_such_agent`, `no_such_server`, `no_such_session`, `not_writable`,
    `refused`.
    """
    name, tool = (wanted.server, wanted.tool) if wanted.tool else pattern_of(broker, wanted.name)
    server = _server(broker, name)
    now = time.time()
    try:
        grant = Grant(
            id=broker.grants.new_id(),
            agent=wanted.agent,
            server=name,
            destination=server.destination,
            tool=tool,
            exact=bool(wanted.tool),
            conditions=tuple(Condition(each.argument, each.test, each.value) for each in wanted.where),
            only=wanted.only,
            lifespan=wanted.lifespan,
            session=wanted.session,
            until=now + wanted.seconds if wanted.seconds else 0.0,
            count=wanted.count or 0,
            reason=wanted.reason,
            made_at=now,
        )
    except ValueError as error:
        raise Failure("invalid_params", f"cannot give this grant: {error}") from None
    _check(broker, grant)
    named = await _pinned(broker, by, grant)
    _check(broker, grant)  # somebody may have left meanwhile
    broker.grants.add(grant)
    _record(broker, by, grant, "added", proof)
    broker.changes.publish("grants", grant.id)
    answered = broker.approvals.settle(lambda question: covers(grant, _request(question), 0, now))
    beyond: list[str] = []
    for at in range(0, len(named), AT_ONCE):
        if at:
            await trio.lowlevel.checkpoint()
        beyond += _beyond(grant, named[at : at + AT_ONCE])
    return Granted(
        grant=_info(broker, Given(grant, 0)),
        answered=answered,
        covered=len(named) - len(beyond),
        beyond=tuple(beyond[:TOLD]),
    )


async def _pinned(broker: Broker, by: Caller, grant: Grant) -> list[Row]:
    """The tools that a grant names, as far as they are known, pinned as they are at this moment."""
    named: list[Row] = []
    rows = _named(broker, grant)
    while part := tuple(islice(rows, AT_ONCE)):
        if named:
            await trio.lowlevel.checkpoint()
        pinning.saw(broker, by, f"grant {grant.id}", *part)
        named += part
    return named


def pattern_of(broker: Broker, name: str) -> tuple[str, str]:
    """The server whose tools a pattern is for, and what it says of their own names. Raises Failure
    `invalid_params`."""
    for server in broker.config.servers:
        for head in (names.original(server, ""), names.prefix(server)):
            if name.startswith(head) and name != head:
                return server, name[len(head) :]
    raise Failure(
        "invalid_params",
        f'cannot give a grant for "{name[:200]}": it does not begin with the name of one server and "__"',
        hint="mcpctl list; a grant is for one server",
    )


def revoke(broker: Broker, by: Caller, key: str) -> GrantInfo:
    """Take a grant back; what it let through goes on. Raises Failure `no_such_grant`, `not_writable`."""
    given = next((each for each in broker.grants.all() if each.grant.id == key), None)
    grant = broker.grants.revoke(key)
    _record(broker, by, grant, "revoked", "")
    broker.changes.publish("grants", key)
    return _info(broker, given or Given(grant, 0))


def _server(broker: Broker, name: str) -> Server:
    server = broker.config.servers.get(name)
    if server is None:
        raise Failure("no_such_server", f'no server is named "{name[:60]}"', server=name[:60])
    return server


def _check(broker: Broker, grant: Grant) -> None:
    """Whether those whom it is for, and of, are there."""
    if grant.agent not in ("", EVERY_AGENT):
        listing.find_agent(broker, grant.agent)
    _server(broker, grant.server)
    if grant.session:
        session = roster.find_session(broker, grant.session)
        if grant.agent not in (session.agent, EVERY_AGENT):
            raise Failure("invalid_params", f'session "{grant.session}" is one of agent "{session.agent}"')


def _request(question: Question) -> Request:
    bound = question.bound
    return Request(
        agent=bound.agent,
        session=question.session,
        server=bound.server,
        destination=bound.destination,
        tool=bound.tool,
        risk=question.risk,
        arguments=bound.arguments,
    )


def _named(broker: Broker, grant: Grant) -> Iterator[Row]:
    """The tools that a grant names, as far as they are known."""
    rows = listing.operator_view_now(broker).rows
    for name, (server, each) in rows.places.items():
        if server == grant.server:
            tool = each.name
            if tool == grant.tool if grant.exact else glob_match(grant.tool, tool):
                yield rows[name]


def _beyond(grant: Grant, named: Iterable[Row]) -> Iterator[str]:
    """Those of them that it does not cover whatever the arguments are, with the reason (D10)."""
    for row in named:
        ruling = row.ruling
        if row.held:
            yield f"{row.name}: held, {row.held}"
        elif ruling.approval in ("always", "deny"):
            yield f"{row.name}: approval {ruling.approval}"
        elif ruling.risk == "high" and not grant.exact:
            yield f"{row.name}: risk high, which only a grant by its name covers"


def _info(broker: Broker, given: Given) -> GrantInfo:
    grant, used = given
    server = broker.config.servers.get(grant.server)
    idle = ""
    if server is None:
        idle = f'no server is named "{grant.server}" now'
    elif server.destination != grant.destination:
        idle = f'server "{grant.server}" has another command or address now'
    elif grant.agent not in ("", EVERY_AGENT, DEFAULT_AGENT, *broker.config.agents):
        idle = f'no agent is named "{grant.agent}" now'
    return GrantInfo(
        id=grant.id,
        agent=grant.agent,
        server=grant.server,
        tool=grant.tool,
        exact=grant.exact,
        where=tuple(Where(each.argument, each.test, each.value) for each in grant.conditions),
        only=grant.only,
        lifespan=grant.lifespan,
        session=grant.session,
        until=grant.until,
        count=grant.count,
        used=used,
        reason=grant.reason,
        made_at=grant.made_at,
        idle=idle,
    )


def _record(broker: Broker, by: Caller, grant: Grant, outcome: str, proof: str) -> None:
    broker.journal.record(
        Entry(
            kind="grant",
            caller=Caller(by.session, grant.agent, by.pid, by.exe),
            about=About(server=grant.server, tool=grant.tool, destination=grant.destination),
            because="; ".join(filter(None, (grant.words, grant.lasts, grant.reason))),
            outcome=outcome,
            grant=grant.id,
            proof=proof,
        )
    )
