"""What `tools.list`, `resources.list` and `prompts.list` have in common: waiting, pages, what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from mcpd import listing
from mcpd.broker import Broker
from mcpd.entries import PAGE
from mcpd.errors import Failure
from mcpd.policy import rules
from mcpd.rows import ViewKey
from mcpd.upstream.fetch import Primitive
from mcpd.upstream.upstream import Upstream
from mcpd.views import View

T = TypeVar("T")

#: Characters of a description in a list.
BRIEF = 1000


async def view(broker: Broker, server: str, agent: str, primitive: Primitive) -> View:
    """What the agent, or with "" the operator, may use of all servers.

    Connects on demand (D5): one server that is named is waited for, of all others what is there in 5 s.
    Raises Failure `no_such_agent`, `no_such_server`, `disabled`, `unavailable`.
    """
    if agent:
        listing.find_agent(broker, agent)
    key = ViewKey((agent, "", frozenset(), "")) if agent else listing.OPERATOR_KEY
    if server:
        await ready(broker.fleet.find(server), primitive)
        return listing.view_now(broker, key)
    return await listing.view(broker, key, primitive=primitive)


async def ready(upstream: Upstream, primitive: Primitive) -> None:
    """Wait until its catalogue is known and, of the primitive, new. Raises Failure `disabled`, `unavailable`.

    There is no limit beside the one of every attempt (c12): the operator waits, and can leave.
    """
    if upstream.catalog is None or not upstream.usable:
        await upstream.reach(math.inf)
    upstream.look(primitive)
    await upstream.fresh(primitive)


def page(entries: Sequence[T], cursor: str, mark: Callable[[T], str]) -> tuple[Sequence[T], str]:
    """The entries behind the one that the cursor names, so that a list which changes goes on as well, and
    the next cursor. `mark` names an entry.

    Raises Failure `invalid_params` for what is no cursor, or when that entry is gone.
    """
    start = 0
    if cursor:
        start = next((at for at, entry in enumerate(entries, 1) if mark(entry) == cursor), 0)
        if not start:
            raise Failure("invalid_params", "unknown or outdated cursor", hint="list from the start again")
    found = entries[start : start + PAGE]
    return found, mark(found[-1]) if start + PAGE < len(entries) else ""


def left_out(broker: Broker, warnings: Sequence[str], server: str, agent: str) -> tuple[str, ...]:
    """What the list lacks: servers that did not get ready, and what was left out of catalogues (b24).

    Of servers only that `agent` may use; "" is the operator.
    """
    who = listing.find_agent(broker, agent) if agent else listing.OPERATOR
    notes = list(warnings)
    for upstream in broker.fleet.all():
        if server in ("", upstream.name) and rules.may_use_server(who, upstream.name):
            notes += _missing(upstream)
    return tuple(notes)


def _missing(upstream: Upstream) -> list[str]:
    status = upstream.status
    if status.state == "disabled":
        return []
    if upstream.catalog is None or not upstream.usable:
        why = f": {status.error}" if status.error else ""
        return [f'server "{upstream.name}" is {status.state}{why}']
    return [f'server "{upstream.name}": {warning}' for warning in upstream.catalog.warnings]


def brief(description: str) -> str:
    return description if len(description) <= BRIEF else description[:BRIEF] + "…"


def limit(timeout: float | None, patience: float | None) -> float:
    """Seconds for a request of the operator's: those that they wait for a person are no server's."""
    return math.inf if timeout is None else timeout + (patience or 0.0)


def late(server: str, limit: float, **data: str) -> Failure:
    """The operator's own limit of `limit` seconds is over."""
    return Failure(
        "timed_out",
        f'server "{server}" gave no answer within {limit:g} s; the request was cancelled',
        server=server,
        **data,
    )
