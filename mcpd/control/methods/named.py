"""Which tool the operator means: of all there are, whoever may use them."""

from __future__ import annotations

from mcpd import listing
from mcpd.api.tools import NamedTool
from mcpd.broker import Broker
from mcpd.catalog import names
from mcpd.control.methods import lists
from mcpd.errors import Failure
from mcpd.rows import Row
from mcpd.upstream.upstream import Upstream


async def find_tool(broker: Broker, wanted: NamedTool) -> Row:
    """Raises Failure `invalid_params`, `no_such_server`, `no_such_tool`, and what `reach` raises."""
    if bool(wanted.name) == bool(wanted.tool) or bool(wanted.server) != bool(wanted.tool):
        raise Failure("invalid_params", "cannot find a tool without either name, or server and tool")
    for upstream in _candidates(broker, wanted):
        await lists.ready(upstream, "tools")
    rows = listing.operator_view_now(broker).rows
    row = rows.get(wanted.name) if wanted.name else rows.of(wanted.server, wanted.tool)
    if row is None:
        what = f'tool "{wanted.name}"' if wanted.name else f'tool "{wanted.tool}" of server "{wanted.server}"'
        raise Failure("no_such_tool", f"cannot find {what}", hint="mcpctl list --tools")
    return row


def _candidates(broker: Broker, wanted: NamedTool) -> list[Upstream]:
    """The servers whose catalogue must be known before the tool can be said not to exist."""
    if wanted.server:
        return [broker.fleet.find(wanted.server)]
    return [up for up in broker.fleet.all() if wanted.name.startswith(names.prefix(up.name))]
