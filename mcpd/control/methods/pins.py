"""`pins.*`."""

from __future__ import annotations

from mcpd import pinning
from mcpd.api.pins import Accepted, AcceptPins, DiffPins, ListPins, PinDiffs, PinList
from mcpd.control.operator import Operator


async def list_pins(operator: Operator, params: ListPins) -> PinList:
    return pinning.list_pins(operator.broker, params.server)


async def diff(operator: Operator, params: DiffPins) -> PinDiffs:
    return pinning.diff(operator.broker, params.server, params.names)


async def accept(operator: Operator, params: AcceptPins) -> Accepted:
    return pinning.accept(operator.broker, operator.caller, params, operator.proof)
