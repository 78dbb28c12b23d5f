"""`tools.*`: every tool of every server, as the operator sees and calls them."""

from __future__ import annotations

import math
import re
from time import perf_counter
from typing import Any

import msgspec
import trio

from mcpd import calls, listing
from mcpd.api.tools import Called, CallTool, ListTools, NamedTool, ToolDetails, ToolInfo, Tools
from mcpd.broker import Broker
from mcpd.catalog import names
from mcpd.control.methods import lists
from mcpd.control.operator import Operator
from mcpd.errors import Failure
from mcpd.rows import Row
from mcpd.upstream.ticket import Ticket
from mcpd.upstream.upstream import Upstream

#: The number of a rule at the end of its words, "(b11)" or "(b11, D4)": the journal keeps it.
_RULE_NUMBER = re.compile(r" \([a-zA-Z][0-9]+(, [a-zA-Z][0-9]+)*\)\Z")


async def list_tools(operator: Operator, params: ListTools) -> Tools:
    broker = operator.broker
    view = await lists.view(broker, params.server, params.agent, "tools")
    rows = [row for row in view.rows.values() if params.server in ("", row.upstream.name)]
    page, following = lists.page(rows, params.cursor, lambda row: row.name)
    missing = lists.left_out(broker, view.warnings, params.server, params.agent)
    return Tools(
        tools=tuple(_info(row) for row in page),
        next_cursor=following,
        left_out=() if params.cursor else missing,
    )


async def describe(operator: Operator, params: NamedTool) -> ToolDetails:
    row = await _find(operator.broker, params)
    ruling = row.ruling
    return ToolDetails(
        server=row.upstream.name,
        tool=row.tool.name,
        name=row.name,
        definition=msgspec.Raw(row.tool.entry(row.tool.name, stateless=True)),
        risk=ruling.risk,
        approval=ruling.approval,
        timeout=ruling.timeout,
        because=tuple(_RULE_NUMBER.sub("", rule) for rule in ruling.because),
    )


async def call(operator: Operator, params: CallTool) -> Called:
    """The path of every agent's call (a01). `timeout` counts the wait for the server too."""
    began = perf_counter()
    row = await _find(operator.broker, params)
    limit = math.inf if params.timeout is None else params.timeout
    with trio.move_on_after(limit):
        result = await calls.call(
            operator.broker, operator.caller, row, bytes(params.arguments), b"", Ticket(), operator.asker
        )
        return Called(
            server=row.upstream.name,
            tool=row.tool.name,
            result=msgspec.Raw(result.text),
            duration=perf_counter() - began,
        )
    raise lists.late(row.upstream.name, limit, tool=row.tool.name)


async def _find(broker: Broker, wanted: NamedTool) -> Row:
    """Raises Failure `invalid_params`, `no_such_server`, `no_such_tool`, and what `reach` raises."""
    if bool(wanted.name) == bool(wanted.tool) or bool(wanted.server) != bool(wanted.tool):
        raise Failure("invalid_params", "cannot find a tool without either name, or server and tool")
    for upstream in _candidates(broker, wanted):
        await lists.ready(upstream, "tools")
    rows = listing.operator_view_now(broker).rows
    if wanted.name:
        row = rows.get(wanted.name)
    else:
        # Nearly always under this name; a shortened or doubtful one is looked for.
        row = rows.get(names.export(wanted.server, wanted.tool))
        if row is None or not _is(row, wanted):
            row = next((row for row in rows.values() if _is(row, wanted)), None)
    if row is None:
        what = f'tool "{wanted.name}"' if wanted.name else f'tool "{wanted.tool}" of server "{wanted.server}"'
        raise Failure("no_such_tool", f"cannot find {what}", hint="mcpctl list --tools")
    return row


def _is(row: Row, wanted: NamedTool) -> bool:
    return row.upstream.name == wanted.server and row.tool.name == wanted.tool


def _candidates(broker: Broker, wanted: NamedTool) -> list[Upstream]:
    """The servers whose catalogue must be known before the tool can be said not to exist."""
    if wanted.server:
        return [broker.fleet.find(wanted.server)]
    return [up for up in broker.fleet.all() if wanted.name.startswith(names.prefix(up.name))]


def _info(row: Row) -> ToolInfo:
    words = msgspec.json.decode(row.tool.entry("", stateless=True), type=_Words)
    hints: dict[str, Any] = msgspec.to_builtins(row.tool.annotations)
    return ToolInfo(
        server=row.upstream.name,
        tool=row.tool.name,
        name=row.name,
        title=words.title,
        description=lists.brief(words.description),
        risk=row.ruling.risk,
        approval=row.ruling.approval,
        annotations={hint: said for hint, said in hints.items() if said is not None},
    )


class _Words(msgspec.Struct):
    title: str = ""
    description: str = ""
