"""The policy step of the path (DESIGN 6, 8): may this request go to its server, and who says so.

The decision is `policy.decide`'s. Here only what it depends on is gathered, and a person waited for.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import msgspec
import trio
from msgspec.structs import replace

from mcpd import pinning, scanning
from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.config.spec import Server
from mcpd.consent.approvals import LONG
from mcpd.consent.hosts import host_above
from mcpd.consent.questions import Question, how_it_runs
from mcpd.errors import Failure
from mcpd.journal import Entry
from mcpd.policy import binding, grants
from mcpd.policy.binding import Bound
from mcpd.policy.decide import Allow, Ask, Cover, Deny, Facts
from mcpd.policy.grants import Grant
from mcpd.policy.leaks.finding import Leak
from mcpd.rows import Row, chain
from mcpd.transport.pending import Asker
from mcpd.upstream.ticket import Superseded, Ticket
from mcpd.upstream.upstream import REACH


class Permit(msgspec.Struct):
    """What lets one request go to its server, or why not. A person's yes is used up by the request that takes
    it, and counts for it however often that is decided; a grant is counted once."""

    decision: str = ""
    """"allow", "ask" where a person had to decide, "deny"; empty before anything was decided."""
    because: tuple[str, ...] = ()
    """The chain of rules, with the one that decided at its end."""
    approved: str = ""
    """The id of the yes, or of the question that has none yet."""
    digest: str = ""
    """Of exactly the call that the yes is for (n07)."""
    cover: str = ""
    """The id of the grant that this request was counted for."""
    goes_by: str = ""
    """The same where it would not go without that."""
    waited: float = 0.0
    """Seconds that a person took."""
    decided: int = 0
    """The journal's entry of the decision, where that had to be written first (n12)..."""
    recorded: tuple[str, ...] = ()
    """...and what that says it was decided on and by."""
    findings: str = ""
    """What was found of secrets in the arguments and in the answer, in words (n17)."""


class _Asked(NamedTuple):
    """One request that is not let through at once, and who waits for it."""

    caller: Caller
    row: Row
    arguments: bytes
    """As policy reads them."""
    ticket: Ticket
    asker: Asker | None
    permit: Permit


def at_once(broker: Broker, row: Row, arguments: bytes, meta: bytes, permit: Permit) -> bool:
    """Let the request through if nothing has to be waited for, so that nothing that it is decided on can
    change; most requests are so. Else `obtain` decides; the arguments are the same."""
    return is_free(broker, row, arguments, meta, permit) and broker.views.holds(row)


def is_free(broker: Broker, row: Row, arguments: bytes, meta: bytes, permit: Permit) -> bool:
    """The same of a row that has just been found."""
    if not row.free or not (row.local or (not meta and broker.held_values.is_clean(arguments))):
        return False
    permit.decision, permit.because, permit.goes_by = "allow", row.decision.because, ""
    return True


async def obtain(
    broker: Broker,
    caller: Caller,
    row: Row,
    arguments: bytes,
    ticket: Ticket,
    asker: Asker | None,
    permit: Permit,
    meta: bytes = b"",
) -> None:
    """Return once the request may go to its server; `arguments` is what `row.arguments` gave, `meta` the
    members of `_meta` that go with it, and `permit` is filled in.

    Raises Failure `denied`, `pending` and `busy`, Superseded when something has changed while a person was
    waited for, Withdrawn when the caller gives up.
    """
    decision = row.decision
    leak = None if row.local else await scanning.arguments(broker, caller, row, arguments, meta)
    if leak is not None:
        permit.findings = leak.words
    if isinstance(decision, Allow) and (leak is None or leak.action == "warn"):
        permit.decision, permit.because, permit.goes_by = "allow", decision.because, ""
    else:
        await _verified(row, ticket)
        asked = _Asked(caller, row, arguments, ticket, asker, permit)
        decision = await _consented(broker, asked, leak)
    if row.ruling.risk == "high" and not row.local and permit.recorded != _recorded(row, decision):
        await _put_on_record(broker, caller, row, arguments, decision, permit)


def holds(broker: Broker, row: Row, permit: Permit) -> bool:
    """Whether what the request was let through by is still so (DESIGN 6)."""
    return broker.views.holds(row) and (not permit.goes_by or broker.grants.counts(permit.goes_by))


def give_back(broker: Broker, permit: Permit) -> None:
    """Nothing of the request has reached its server, as where that is down: what it has used up is there for
    the next one."""
    broker.approvals.give_back(permit.approved)
    broker.grants.give_back(permit.cover)


async def _verified(row: Row, ticket: Ticket) -> None:
    """Nobody is asked about what a trusted server may say otherwise once it runs: its hints are known from
    the cache alone so far, which lowers nothing. Raises Superseded when they have come, and what `reach`
    does."""
    if not row.unverified or row.held or row.ruling.approval == "deny":
        return
    with ticket.stoppable():
        await row.upstream.reach(REACH)
        raise Superseded


async def _consented(broker: Broker, asked: _Asked, leak: Leak | None) -> Allow:
    """What is allowed by a grant or by a person, who is waited for."""
    caller, row, arguments, _, _, permit = asked
    bound = bound_of(row, arguments)
    request = request_of(caller, row, arguments)
    if len(arguments) > LONG:
        request = replace(request, said=await trio.to_thread.run_sync(grants.said, arguments))
    # Only a person's yes needs it, and it is the dearest of all that is done here.
    digest = await _digest(bound) if permit.digest else ""
    while True:
        grant = broker.grants.find(request, permit.cover)
        yes = permit.approved if digest and permit.digest == digest else ""
        decision = row.decided(facts_of(broker, row, grant, yes, leak))
        permit.because = decision.because
        if isinstance(decision, Deny):
            permit.decision = "deny"
            raise refusal(row, decision)
        if isinstance(decision, Allow):
            permit.decision = permit.decision or "allow"
            _count(broker, grant, decision, permit)
            permit.goes_by = decision.cover
            if decision.approved or decision.cover:
                pinning.saw(broker, caller, decision.because[-1], row)
            return decision
        if not row.asks:
            permit.decision = "deny"
            raise unasked(row, decision)
        digest = digest or await _digest(bound)
        yes = broker.approvals.take(digest)
        if not yes:
            # A person's yes would lead nowhere now; one to a question that is open counts for the next call.
            row.upstream.refuse_out_of_reach()
            permit.decision = "ask"
            yes = await _ask(broker, asked, _question(row, caller, bound, digest, decision))
        permit.digest, permit.approved = digest, yes
        if not broker.views.holds(row):
            raise Superseded


async def _digest(bound: Bound) -> str:
    if len(bound.arguments) <= LONG:
        return binding.digest(bound)
    return await trio.to_thread.run_sync(binding.digest, bound)


async def _ask(broker: Broker, asked: _Asked, question: Question) -> str:
    """The id of the person's yes; empty where a new grant may cover the request."""
    caller, permit = asked.caller, asked.permit
    settings = broker.config.settings
    wait = (settings.approval_wait or inf) if caller.patience is None else caller.patience
    deadline = settings.approval_deadline or inf
    began = trio.current_time()
    try:
        return await broker.approvals.ask(question, asked.ticket, asked.asker, wait=wait, deadline=deadline)
    except Failure as failure:
        permit.approved = failure.data.get("approval", "")
        failure.data.setdefault("server", question.bound.server)
        raise
    finally:
        permit.waited += trio.current_time() - began


def facts_of(broker: Broker, row: Row, grant: Grant | None, yes: str, leak: Leak | None = None) -> Facts:
    """What a decision about one request depends on."""
    action = leak.action if leak is not None else ""
    words = leak.words if leak is not None else ""
    return replace(
        row.facts,
        cover=Cover(grant.id, grant.words, grant.exact) if grant is not None else None,
        approved=yes,
        blocked=words if action == "block" else "",
        suspect=words if action == "ask" else "",
        unrecorded=not broker.journal.writable,
    )


def _count(broker: Broker, grant: Grant | None, decision: Allow, permit: Permit) -> None:
    if grant is None or not decision.cover or permit.cover == grant.id:
        return
    try:
        broker.grants.use(grant)
    except Failure as failure:
        raise Failure("denied", f"denied: {failure.message}", hint=failure.hint) from None
    permit.cover = grant.id


def request_of(caller: Caller, row: Row, arguments: bytes) -> grants.Request:
    """The request, as grants see it."""
    return grants.Request(
        agent=caller.agent,
        session=caller.session,
        server=row.upstream.name,
        destination=row.destination,
        tool=row.tool.name,
        risk=row.ruling.risk,
        arguments=arguments,
    )


def bound_of(row: Row, arguments: bytes) -> Bound:
    """What a yes to the request would hold for (n07)."""
    return Bound(
        agent=row.agent.name,
        server=row.upstream.name,
        destination=row.destination,
        tool=row.tool.name,
        method=row.method,
        pin=row.pin,
        arguments=arguments,
        # Whether a host's word counts is a rule as well: a yes of one is none where that is not so any more.
        rules=(*row.ruling.because, f"approver {row.agent.approver}"),
    )


def _question(row: Row, caller: Caller, bound: Bound, digest: str, decision: Ask) -> Question:
    server = row.upstream.definition
    return Question(
        bound=bound,
        session=caller.session,
        pid=caller.pid,
        exe=caller.exe,
        cwd=caller.cwd,
        host=host_above(caller.pid),
        name=row.name,
        risk=row.ruling.risk,
        question=decision.because[-1],
        because=decision.because,
        once_only=decision.once_only,
        approver=row.agent.approver,
        runs=how_it_runs(server) if isinstance(server, Server) else "",
        description=row.description,
        flags=row.flags,
        digest=digest,
    )


async def _put_on_record(
    broker: Broker, caller: Caller, row: Row, arguments: bytes, decision: Allow, permit: Permit
) -> None:
    """What is of high risk happens only when the journal has it on the disk (n12)."""
    entry = Entry(
        kind="decision",
        caller=caller,
        about=row.about,
        decision="allow",
        because=chain(decision.because),
        approval=decision.approved,
        grant=decision.cover,
    )
    permit.decided = await broker.journal.decided(entry, arguments)
    if not permit.decided:
        denied = row.decided(replace(row.facts, unrecorded=True))
        assert isinstance(denied, Deny)
        permit.decision, permit.because = "deny", denied.because
        raise refusal(row, denied)
    permit.recorded = _recorded(row, decision)


def _recorded(row: Row, decision: Allow) -> tuple[str, ...]:
    return (row.destination, row.pin, *decision.because)


def refusal(row: Row, decision: Deny) -> Failure:
    """Why the request does not go anywhere, in words for its caller."""
    held = row.upstream.held
    hint = held.words if held is not None else decision.hint
    return Failure("denied", decision.message, hint=hint, server=row.upstream.name)


def unasked(row: Row, decision: Ask) -> Failure:
    """Where nobody is asked, only what already stands counts."""
    return Failure(
        "denied",
        f'denied: {row.method} of server "{row.upstream.name}" opens no question',
        hint=f"mcpctl grants add {row.tool.name} --server {row.upstream.name}"
        ' --agent NAME --forever, or approval = "never" in its policy',
        server=row.upstream.name,
    )
