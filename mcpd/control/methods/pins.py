"""`pins.*`."""

from __future__ import annotations

from mcpd import accepting
from mcpd.api.pins import Accepted, AcceptPins, DiffPins, FlaggedPins, ListPins, PinDiffs, PinList
from mcpd.api.servers import ServerName
from mcpd.control.operator import Operator


async def list_pins(operator: Operator, params: ListPins) -> PinList:
    return await accepting.list_pins(operator.broker, params.server)


async def flags(operator: Operator, params: ServerName) -> FlaggedPins:
    return await accepting.flagged(operator.broker, params.server)


async def diff(operator: Operator, params: DiffPins) -> PinDiffs:
    return await accepting.diff(operator.broker, params.server, params.names)


async def accept(operator: Operator, params: AcceptPins) -> Accepted:
    return accepting.accept(operator.broker, operator.caller, params, operator.proof)
