"""One control connection, as the methods see it: whoever speaks there is the operator."""

from __future__ import annotations

import trio

from mcpd.api import Params
from mcpd.broker import Broker
from mcpd.calls import Caller
from mcpd.journal import Entry
from mcpd.transport.lines import LineWriter

#: Bytes that may wait for a slow reader before its next request or event has to wait too.
ROOM = 1024 * 1024


class Operator:
    """What a method may use beside its params. Lives as long as its connection."""

    def __init__(self, broker: Broker, caller: Caller, writer: LineWriter, nursery: trio.Nursery) -> None:
        self.broker = broker
        self.caller = caller
        """Under whom its calls are recorded; it is no agent."""
        self.writer = writer
        self.nursery = nursery
        """Ends with the connection; for what goes on after an answer."""
        self.subscribed = False

    def record(self, method: str, params: Params, outcome: str) -> None:
        """Who changed something, for the journal (n12)."""
        caller = self.caller
        agent = getattr(params, "agent", "")
        self.broker.journal.record(
            Entry(
                kind="change",
                session=caller.session,
                pid=caller.pid,
                exe=caller.exe,
                server=getattr(params, "server", "") or getattr(params, "name", ""),
                method=method,
                because=f'agent "{agent[:60]}"' if agent else "",
                outcome=outcome,
            )
        )

    async def room(self) -> None:
        """Wait while more than `ROOM` bytes wait for this reader; at once when it is gone."""
        if self.writer.queued > ROOM:
            await self.writer.drained()
