"""Open questions when what they were asked under changes: they are closed, and their calls decided anew.

So an edit of a policy answers what waits as it answers what comes: `deny` ends it, `never` lets it go. An
answer to such a question would be bound to rules that are none any more (n07).
"""

from __future__ import annotations

from functools import partial
from typing import Final

from mcpd import listing
from mcpd.broker import Broker
from mcpd.catalog.wrappers import GET_PROMPT, READ_RESOURCE
from mcpd.consent.questions import Question
from mcpd.errors import Failure
from mcpd.permit import bound_of
from mcpd.policy.decide import Ask, Deny
from mcpd.rows import Row, ViewKey


async def follow(broker: Broker) -> None:
    """Look at what is open with each change of servers, tools and policy, until cancelled."""
    with broker.changes.subscribe() as changes:
        async for change in changes:
            if changes.lagged or change.topic in ("catalog", "servers"):
                changes.lagged = False
                broker.approvals.reconsider(partial(stands, broker))


def stands(broker: Broker, question: Question) -> bool:
    """Whether it would be asked just so now. It waits where the tools of its server are not known."""
    try:
        row = _row(broker, question)
        upstream = broker.fleet.find(question.bound.server)
    except Failure:
        return False
    if row is None:
        return upstream.catalog is None and upstream.usable
    if bound_of(row, question.bound.arguments) != question.bound:
        return False
    # What was found in its arguments, which asks once, does not change with the rules.
    return not isinstance(row.decision, Deny) if question.once_only else isinstance(row.decision, Ask)


def _row(broker: Broker, question: Question) -> Row | None:
    """What it asks for, as its agent sees that now. Raises Failure for an agent that is none any more."""
    bound = question.bound
    session = broker.sessions.get(question.session)
    if session is not None:
        key = session.key
    elif bound.agent:
        key = ViewKey((bound.agent, "", frozenset(), ""))
    else:
        key = listing.OPERATOR_KEY
    view = listing.view_now(broker, key)
    gate = _GATES.get(bound.tool) if bound.method != "tools/call" else None
    if gate is not None:
        # Where one server is shown alone no tool stands for it in the view.
        return view.native(bound.server, gate, bound.method)
    return view.rows.of(bound.server, bound.tool)


#: What stands for other methods than calls, by the name that they are decided under (a01).
_GATES: Final = {tool.name: tool for tool in (READ_RESOURCE, GET_PROMPT)}
