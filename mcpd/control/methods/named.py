"""Which tool the operator means: of all there are, whoever may use them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mcpd import listing
from mcpd.api.tools import NamedTool
from mcpd.broker import Broker
from mcpd.catalog import names
from mcpd.control.methods import lists
from mcpd.errors import Failure
from mcpd.policy.patterns import nearest
from mcpd.rows import Row
from mcpd.upstream.upstream import Upstream

#: Names that a mistyped one is compared with, as comparing takes its time: some 15 us each.
MOST: Final = 500


async def find_tool(broker: Broker, wanted: NamedTool) -> Row:
    """Raises Failure `invalid_params`, `no_such_server`, `no_such_tool`, and what `reach` raises."""
    if bool(wanted.name) == bool(wanted.tool) or bool(wanted.server) != bool(wanted.tool):
        raise Failure("invalid_params", "cannot find a tool without either name, or server and tool")
    for upstream in _candidates(broker, wanted):
        await lists.ready(upstream, "tools")
    rows = listing.operator_view_now(broker).rows
    row = rows.get(wanted.name) if wanted.name else rows.of(wanted.server, wanted.tool)
    if row is None:
        raise _unknown(wanted, rows)
    return row


def _unknown(wanted: NamedTool, rows: Iterable[str]) -> Failure:
    """`rows`: the names of all tools. A name without its server is as good a guess as a wrong letter."""
    if wanted.tool:
        return Failure(
            "no_such_tool",
            f'cannot find tool "{wanted.tool}" of server "{wanted.server}"',
            hint=f"mcpctl tools --server {wanted.server}",
        )
    tools = list(rows)
    whole = next((name for name in tools if name.endswith(f"__{wanted.name}")), "")
    server = wanted.name.partition("__")[0]
    near = [name for name in tools if name.startswith(f"{server}__")] or tools
    meant = f', did you mean "{whole}"?' if whole else nearest(wanted.name, near[:MOST])
    return Failure("no_such_tool", f'cannot find tool "{wanted.name}"{meant}', hint="mcpctl tools lists them")


def _candidates(broker: Broker, wanted: NamedTool) -> list[Upstream]:
    """The servers whose catalogue must be known before the tool can be said not to exist."""
    if wanted.server:
        return [broker.fleet.find(wanted.server)]
    return [up for up in broker.fleet.all() if wanted.name.startswith(names.prefix(up.name))]
