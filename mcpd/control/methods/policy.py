"""`policy.*`."""

from __future__ import annotations

from mcpd import explaining, replaying
from mcpd.api.policy import Explain, Explained, Replay, Replayed
from mcpd.api.tools import NamedTool
from mcpd.control.methods.named import find_tool
from mcpd.control.operator import Operator


async def explain(operator: Operator, params: Explain) -> Explained:
    named = NamedTool(server=params.server, tool=params.tool, name=params.name)
    row = await find_tool(operator.broker, named)
    return await explaining.explain_request(operator.broker, row, params)


async def replay(operator: Operator, params: Replay) -> Replayed:
    return await replaying.replay(operator.broker, params)
