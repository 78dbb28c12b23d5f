"""`journal.*`."""

from __future__ import annotations

from mcpd.api.journal import Journal, QueryJournal
from mcpd.control.operator import Operator


async def query(operator: Operator, params: QueryJournal) -> Journal:
    journal = operator.broker.journal
    page = await journal.query(params)
    return Journal(
        entries=tuple(page.entries),
        next=page.next,
        problems=tuple(problem.message for problem in journal.problems),
    )
