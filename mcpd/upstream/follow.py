"""News of a stateless server's tasks: each agent's stream is one at the server (5.14, 5.16)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
import trio

from mcpd.errors import Failure
from mcpd.protocol import extensions
from mcpd.protocol.extensions import TASKS
from mcpd.protocol.shapes import Acknowledged, StreamMeta, read_result
from mcpd.upstream.connection import Connection
from mcpd.upstream.step import Sending
from mcpd.upstream.subscription import Subscription, again
from mcpd.upstream.upstream import Upstream

#: Seconds that a server may take to say of which tasks it tells.
ACKNOWLEDGED = 10.0

_DECLARED = extensions.encode({TASKS: {}})


class _About(msgspec.Struct, rename="camel"):
    """Params of `notifications/tasks`, as far as it is said what they are about."""

    task_id: str = ""
    meta: StreamMeta = msgspec.field(default_factory=StreamMeta, name="_meta")


class Follow:
    """The step that asks a server for news of its tasks, called like `upstream.request`: the stream goes on
    in `nursery`, after the answer that it has been agreed to.

    `tell` hears of a task under the server's own id, with the params of the notice; `again` that the
    stream was lost and is there again, so that something may have been missed.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        ids: frozenset[str],
        tell: Callable[[str, bytes], None],
        again: Callable[[], None],
    ) -> None:
        self.honoured: frozenset[str] = frozenset()
        """Of which tasks the server tells."""
        self._nursery = nursery
        self._ids = ids
        self._tell = tell
        self._again = again
        # What becomes of it the agent hears on its own stream.
        self._stream = Subscription(lambda text: None)
        self._answered = trio.Event()
        self._scope = trio.CancelScope()

    async def __call__(self, sending: Sending) -> bytes:
        """Raises Failure `bad_answer` where the server tells of none of them."""
        upstream = sending.upstream
        sending.ticket.reached = True
        self._nursery.start_soon(self._keep, upstream, sending.members)
        with sending.ticket.stoppable(), trio.move_on_after(ACKNOWLEDGED):
            await self._answered.wait()
        if not self.honoured:
            self._scope.cancel()
            raise Failure("bad_answer", f'server "{upstream.name}" does not tell of its tasks')
        return b"{}"

    async def _keep(self, upstream: Upstream, members: bytes) -> None:
        """The stream, again after each loss, until the nursery ends or the server refuses."""
        upstream.follows.add(self)
        try:
            with self._scope:
                await again(partial(self._hold, upstream, upstream.connection, members))
        finally:
            upstream.follows.discard(self)
            self._answered.set()

    async def _hold(self, upstream: Upstream, first: Connection | None, members: bytes) -> bool:
        if not upstream.remembers(first):
            return False  # its next process may give the ids to others (n03)
        connection = upstream.connection
        if connection is None or not connection.announces(TASKS):
            return True
        return await self._stream.hold(connection, members, _DECLARED)

    def notice(self, method: str, params: bytes) -> None:
        """Take a notification of the server that concerns no request; only those of this stream count."""
        if method == "notifications/tasks":
            about = read_result(params or b"{}", _About)
            if about is not None and self._stream.is_ours(about.meta) and about.task_id in self._ids:
                self._tell(about.task_id, params)
        elif method == "notifications/subscriptions/acknowledged":
            said = read_result(params or b"{}", Acknowledged)
            if said is None or not self._stream.is_ours(said.meta):
                return
            self.honoured = self._ids & frozenset(said.notifications.task_ids)
            if self._answered.is_set():
                self._again()
            self._answered.set()
