"""A server at the message level that answers tools/list, for tests of how a catalogue is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import trio

from mcpd.protocol.revisions import REVISIONS
from mcpd.transport.pending import Deadlines
from mcpd.upstream.connection import Connection, Noticed
from mcpd.upstream.opening import Settled

Page = Callable[[dict[str, Any]], dict[str, Any]]
"""From the params of tools/list to the members of the answer."""


def tools(*names: str, **more: Any) -> dict[str, Any]:
    """An answer to tools/list."""
    return {"result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names], **more}}


class Lister:
    """Both the server and the sending half of the transport to it; it answers at once."""

    def __init__(
        self,
        page: Page,
        *,
        capabilities: dict[str, Any] | None = None,
        revision: str = "2025-11-25",
        noticed: Noticed = lambda method, params: None,
    ) -> None:
        offered = {"tools": {}} if capabilities is None else capabilities
        settled = Settled(REVISIONS[revision], offered, {}, "be kind")
        self.asked: list[dict[str, Any]] = []
        """The params of every tools/list."""
        self.listens: list[int] = []
        """The id of every subscriptions/listen; they stay open."""
        self.remarks: list[str] = []
        self.deadlines = Deadlines()
        self._page = page
        self.connection = Connection(settled, self, self.deadlines, noticed, self.remarks.append)

    queued = 0

    def write(self, line: bytes) -> bool:
        message = json.loads(line)
        if message["method"] == "tools/list":
            params = message["params"]
            params.pop("_meta")
            self.asked.append(params)
            self.says(id=message["id"], **self._page(params))
        elif message["method"] == "subscriptions/listen":
            self.listens.append(message["id"])
        return True

    def says(self, **members: Any) -> None:
        """A message of the server, received at the next turn of the loop."""
        line = json.dumps({"jsonrpc": "2.0", **members}).encode()
        trio.lowlevel.current_trio_token().run_sync_soon(self.connection.receive, line)
