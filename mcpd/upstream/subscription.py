"""One stream of notices that a stateless server was asked for, kept open (5.14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from mcpd.errors import Failure, ServerError
from mcpd.protocol.jsonrpc import same_id
from mcpd.protocol.shapes import StreamMeta
from mcpd.transport.base import ConnectionLost
from mcpd.transport.pending import Slot
from mcpd.upstream.connection import Connection

#: Seconds until a lost stream is asked for again; doubles up to a minute.
AGAIN = 1.0
AGAIN_MAX = 60.0

_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602


class Subscription:
    """The request for a stream, while it is open. `remark` gets notes for the server's log."""

    def __init__(self, remark: Callable[[str], None]) -> None:
        self._remark = remark
        self._id = b""
        """The id's JSON text of the open request; empty when there is none."""

    def is_ours(self, meta: StreamMeta) -> bool:
        """Whether a notice came on this stream."""
        return self._id != b"" and same_id(bytes(meta.subscription), self._id)

    async def hold(self, connection: Connection, members: bytes, extensions: bytes = b"") -> bool:
        """One request, until it ends; whether another may do better. `extensions` are declared with it."""
        slot = Slot(0.0, 0.0, stream=True)
        slot.extensions = extensions
        try:
            await connection.exchange("subscriptions/listen", members, b"", slot, self._opened)
        except ConnectionLost:
            # The server ended this stream, or everything.
            pass
        except Failure as e:
            self._remark(f"subscriptions/listen ended: {e.message}")
            if isinstance(e, ServerError) and e.server_code in (_METHOD_NOT_FOUND, _INVALID_PARAMS):
                return False
        finally:
            self._id = b""
        return True

    def _opened(self, key: bytes) -> None:
        self._id = key


async def again(hold: Callable[[], Awaitable[bool]]) -> None:
    """Once more after each end, ever later until one lasted; until `hold` says that it is of no use."""
    wait = AGAIN
    while True:
        began = trio.current_time()
        if not await hold():
            return
        if trio.current_time() - began > AGAIN_MAX:
            wait = AGAIN
        await trio.sleep(wait)
        wait = min(wait * 2, AGAIN_MAX)
