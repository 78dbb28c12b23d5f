"""`tools.*`: every tool of every server, as the operator sees and calls them."""

from __future__ import annotations

import re
from time import perf_counter
from typing import Any

import msgspec
import trio

from mcpd import calls
from mcpd.api.tools import Called, CallTool, ListTools, NamedTool, ToolDetails, ToolInfo, Tools
from mcpd.control.methods import lists
from mcpd.control.methods.named import find_tool
from mcpd.control.operator import Operator
from mcpd.rows import Row
from mcpd.upstream.ticket import Ticket

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
    row = await find_tool(operator.broker, params)
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
        held=row.held,
        flags=row.flags,
    )


async def call(operator: Operator, params: CallTool) -> Called:
    """The path of every agent's call (a01). `timeout` counts the wait for the server too, and
    the patience for a person is added."""
    began = perf_counter()
    row = await find_tool(operator.broker, params)
    limit = lists.limit(params.timeout, params.patience)
    caller = msgspec.structs.replace(operator.caller, patience=params.patience)
    with trio.move_on_after(limit):
        result = await calls.call(
            operator.broker, caller, row, bytes(params.arguments), b"", Ticket(), operator.asker
        )
        return Called(
            server=row.upstream.name,
            tool=row.tool.name,
            result=msgspec.Raw(result.text),
            duration=perf_counter() - began,
        )
    raise lists.late(row.upstream.name, limit, tool=row.tool.name)


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
        held=row.held,
    )


class _Words(msgspec.Struct):
    title: str = ""
    description: str = ""
