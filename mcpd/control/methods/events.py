"""`events.*`."""

from __future__ import annotations

from mcpd.api.events import Subscribe, Subscribed
from mcpd.control import feed
from mcpd.control.operator import Operator


async def subscribe(operator: Operator, params: Subscribe) -> Subscribed:
    return feed.subscribe(operator, params)
