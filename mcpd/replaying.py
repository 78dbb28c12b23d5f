"""Recorded requests, decided once more by what counts now (n10). Nothing is called, asked or used up.

The journal has no arguments unless `journal_arguments` is on: a grant with conditions then counts where it
covered the request when that was made.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

import msgspec
import trio

from mcpd import listing
from mcpd.api.journal import MOST as PAGE
from mcpd.api.journal import QueryJournal, Recorded
from mcpd.api.policy import Difference, Replay, Replayed, Verdict
from mcpd.broker import Broker
from mcpd.caller import DEFAULT_AGENT, Caller
from mcpd.config.spec import Agent
from mcpd.permit import facts_of, request_of
from mcpd.policy.decide import Ask
from mcpd.policy.explain import verdict
from mcpd.policy.grants import Grant, Request, covers
from mcpd.rows import ViewKey, barred
from mcpd.views import View

#: Requests that are looked at.
MOST: Final = 100_000

#: Entries told of one difference.
ENTRIES: Final = 20

#: Methods that are decided as the call that made the task, which has an entry of its own.
_FOLLOWING: Final = "tasks/"


class Again(NamedTuple):
    """How a request would be decided now; None where the tools of its server are not known."""

    verdict: Verdict | None
    decided: str = ""
    """The line that decides."""


class _Known(NamedTuple):
    """What one agent may use."""

    agent: Agent
    view: View


#: Entries decided before others have a turn: arguments that are kept are read for each.
_AT_ONCE: Final = 10


async def replay(broker: Broker, wanted: Replay, most: int = MOST) -> Replayed:
    """Raises Failure `not_writable` where the journal cannot be read."""
    found: dict[tuple[str, str, str, Verdict, Verdict], list[tuple[Recorded, str]]] = defaultdict(list)
    query = QueryJournal(
        since=wanted.since,
        until=wanted.until,
        agent=wanted.agent,
        server=wanted.server or None,
        kinds=("request",),
        limit=PAGE,
    )
    examined = unknown = 0
    while True:
        page = await broker.journal.query(query)
        # What is known may have changed while the page was read.
        known: dict[str, _Known | None] = {}
        for number, entry in enumerate(page.entries):
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            was = recorded(entry)
            if was is None:
                continue
            examined += 1
            now = _decide_again(broker, entry, known)
            if now.verdict is None:
                unknown += 1
            elif now.verdict != was:
                kind = (entry.agent, entry.server, entry.tool, was, now.verdict)
                found[kind].append((entry, now.decided))
        if not page.next or examined >= most:
            break
        query = msgspec.structs.replace(query, before=page.next)
    differences = [_difference(*kind, entries=entries) for kind, entries in found.items()]
    differences.sort(key=lambda each: each.count, reverse=True)
    return Replayed(
        examined=examined, unknown=unknown, differences=tuple(differences), complete=not page.next
    )


def recorded(entry: Recorded) -> Verdict | None:
    """What was decided; None for what was not decided at all, or together with another request."""
    if not entry.server or entry.method.startswith(_FOLLOWING):
        return None
    match entry.decision:
        case "allow":
            return "ask" if entry.approval else "allow"
        case "ask":
            return "ask"
        case "deny":
            return "deny"
    return None


def _decide_again(broker: Broker, entry: Recorded, known: dict[str, _Known | None]) -> Again:
    if entry.agent not in known:
        agent = _agent(broker, entry.agent)
        known[entry.agent] = None if agent is None else _Known(agent, _view(broker, agent))
    who = known[entry.agent]
    if who is None:
        return Again("absent", f'no agent is named "{entry.agent}" now')
    row = who.view.rows.of(entry.server, entry.tool)
    if row is None:
        return _missing(broker, who.agent, entry)
    if entry.method != row.method:
        row = who.view.native(entry.server, row.tool, entry.method) or row
    session = entry.session if entry.at >= broker.started else ""
    arguments = entry.arguments.encode() or b"{}"
    request = request_of(Caller(session, entry.agent, 0, ""), row, arguments)
    grant = broker.grants.find(request) or _grant_then(broker, entry, request)
    decision = row.decided(facts_of(broker, row, grant, ""))
    now = verdict(decision)
    if isinstance(decision, Ask) and not row.asks:
        now = "deny"
    return Again(now, decision.because[-1])


def _agent(broker: Broker, name: str) -> Agent | None:
    if not name:
        return listing.OPERATOR
    if name in broker.config.agents or name == DEFAULT_AGENT:
        return listing.find_agent(broker, name)
    return None


def _view(broker: Broker, agent: Agent) -> View:
    operator = agent is listing.OPERATOR
    key = listing.OPERATOR_KEY if operator else ViewKey((agent.name, "", frozenset(), ""))
    return listing.view_now(broker, key)


def _missing(broker: Broker, agent: Agent, entry: Recorded) -> Again:
    if entry.server not in broker.config.servers:
        return Again("absent", f'no server is named "{entry.server}" now')
    if rule := barred(agent, entry.server, entry.tool):
        return Again("absent", rule)
    upstream = broker.fleet.find(entry.server)
    if upstream.catalog is None or not upstream.usable:
        return Again(None)
    return Again("absent", f'server "{entry.server}" has no such tool now')


def _grant_then(broker: Broker, entry: Recorded, request: Request) -> Grant | None:
    """The grant that covered it, where it is still given: its conditions held then."""
    for grant, used in broker.grants.all():
        if grant.id == entry.grant and not entry.arguments:
            free = msgspec.structs.replace(grant, conditions=(), only=False)
            return grant if covers(free, request, used, 0.0) else None
    return None


def _difference(
    agent: str,
    server: str,
    tool: str,
    was: Verdict,
    now: Verdict,
    *,
    entries: list[tuple[Recorded, str]],
) -> Difference:
    return Difference(
        agent=agent,
        server=server,
        tool=tool,
        was=was,
        now=now,
        count=len(entries),
        first_at=min(entry.at for entry, _ in entries),
        last_at=max(entry.at for entry, _ in entries),
        entries=tuple(entry.id for entry, _ in entries[:ENTRIES]),
        decided=entries[0][1],
    )
