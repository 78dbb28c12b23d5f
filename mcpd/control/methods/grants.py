"""`grants.*`."""

from __future__ import annotations

import contextlib

import msgspec

from mcpd import granting
from mcpd.api import Params
from mcpd.api.grants import AddGrant, Granted, GrantId, GrantInfo, Grants
from mcpd.api.tools import NamedTool
from mcpd.control.methods import lists
from mcpd.control.methods.named import find_tool
from mcpd.control.operator import Operator
from mcpd.errors import Failure


async def list_grants(operator: Operator, params: Params) -> Grants:
    return Grants(granting.list_grants(operator.broker))


async def add(operator: Operator, params: AddGrant) -> Granted:
    if _is_pattern(params):
        server, _ = granting.pattern_of(operator.broker, params.name)
        # So that it can be said what it covers; it may be given all the same.
        with contextlib.suppress(Failure):
            await lists.ready(operator.broker.fleet.find(server), "tools")
    else:
        named = NamedTool(server=params.server, tool=params.tool, name=params.name)
        row = await find_tool(operator.broker, named)
        params = msgspec.structs.replace(params, server=row.upstream.name, tool=row.tool.name, name="")
    return await granting.add(operator.broker, operator.caller, params, operator.proof)


async def revoke(operator: Operator, params: GrantId) -> GrantInfo:
    return granting.revoke(operator.broker, operator.caller, params.id)


def _is_pattern(params: AddGrant) -> bool:
    """What agents see of a name has none of these marks."""
    return not (params.server or params.tool) and any(mark in params.name for mark in "*?")
