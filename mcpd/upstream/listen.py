"""What a server has promised to announce of its lists (5.14).

A server of 2026-07-28 announces only on streams that were asked for, each a request that stays open;
for the lists there is one. Older servers announce what they say they do, unasked. News of single
resources are the matter of `wishes`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from mcpd.protocol.shapes import Acknowledged, ListenFilter, StreamMeta, read_result
from mcpd.upstream.connection import Connection
from mcpd.upstream.fetch import Primitive, primitives
from mcpd.upstream.subscription import Subscription, again


class _Notice(msgspec.Struct):
    """Params of what comes on a stream."""

    meta: StreamMeta = msgspec.field(default_factory=StreamMeta, name="_meta")


class Listener:
    """The owner of the stream for the lists of one server.

    `changed` is told of a primitive whose lists may have changed unseen; `remark` gets notes for the
    server's log.
    """

    def __init__(self, changed: Callable[[Primitive], None], remark: Callable[[str], None]) -> None:
        self._changed = changed
        self._remark = remark
        self._stream = Subscription(remark)
        self._asked: tuple[Primitive, ...] = ()
        self._honoured: tuple[Primitive, ...] = ()
        """What of that the server has promised, as long as the request is open."""

    def announces(self, connection: Connection, primitive: Primitive) -> bool:
        """Whether the server has promised to say when these lists change."""
        if connection.settled.revision.stateless:
            return primitive in self._honoured
        return primitive in announced(connection)

    def heard(self, params: bytes) -> bool:
        """Whether a notice came on the stream; others are not to be believed in 2026-07-28 (4.8)."""
        notice = read_result(params or b"{}", _Notice)
        return notice is not None and self._stream.is_ours(notice.meta)

    def acknowledged(self, params: bytes) -> None:
        """The server says what of a stream it honours; compared with what was asked for (5.14)."""
        said = read_result(params or b"{}", Acknowledged)
        if said is None or not self._stream.is_ours(said.meta):
            return
        found = said.notifications
        honoured: dict[Primitive, bool] = {
            "tools": found.tools_list_changed,
            "prompts": found.prompts_list_changed,
            "resources": found.resources_list_changed,
        }
        self._honoured = tuple(name for name in self._asked if honoured[name])
        missing = [name for name in self._asked if name not in self._honoured]
        if missing:
            self._remark(f"changes of its {' and '.join(missing)} are not announced, though asked for")

    async def run(self, connection: Connection) -> None:
        """Ask a stateless server for what it offers to announce, again after each loss. Until cancelled,
        or the server refuses."""
        self._asked = announced(connection)
        if connection.settled.revision.stateless and self._asked:
            await again(partial(self._listen, connection))

    async def _listen(self, connection: Connection) -> bool:
        """One request, until it ends; whether another may do better."""
        wanted = ListenFilter(
            tools_list_changed="tools" in self._asked,
            prompts_list_changed="prompts" in self._asked,
            resources_list_changed="resources" in self._asked,
        )
        members = b'"notifications":' + msgspec.json.encode(wanted)
        try:
            better = await self._stream.hold(connection, members)
        finally:
            self._honoured = ()
        # Nothing is replayed, so everything is listed again.
        for primitive in self._asked if better else ():
            self._changed(primitive)
        return better


def announced(connection: Connection) -> tuple[Primitive, ...]:
    """The primitives whose changes the server says that it announces."""
    capabilities = connection.settled.capabilities
    return tuple(
        name
        for name in primitives(capabilities)
        if isinstance(capabilities[name], dict) and capabilities[name].get("listChanged") is True
    )
