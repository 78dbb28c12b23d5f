"""A server at the message level that answers lists, for tests of how a catalogue is kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import trio

from mcpd.protocol.revisions import REVISIONS
from mcpd.transport.pending import Deadlines
from mcpd.upstream.connection import Connection, Noticed
from mcpd.upstream.opening import Settled

Page = Callable[[dict[str, Any]], dict[str, Any] | None]
"""From the params of a list to the members of the answer; None for silence."""


def tools(*names: str, **more: Any) -> dict[str, Any]:
    """An answer to tools/list."""
    return {"result": {"tools": [{"name": n, "inputSchema": {"type": "object"}} for n in names], **more}}


def _unknown(params: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": -32601, "message": "unknown"}}


class Lister:
    """Both the server and the sending half of the transport to it; it answers at once.

    `page` answers tools/list, `others` the lists and requests that it names; the rest is not known.
    """

    def __init__(
        self,
        page: Page,
        *,
        capabilities: dict[str, Any] | None = None,
        revision: str = "2025-11-25",
        noticed: Noticed = lambda method, params: None,
        others: dict[str, Page] | None = None,
    ) -> None:
        offered = {"tools": {}} if capabilities is None else capabilities
        settled = Settled(REVISIONS[revision], offered, {}, "be kind")
        self.asked: list[dict[str, Any]] = []
        """The params of every tools/list."""
        self.listens: list[int] = []
        """The id of every subscriptions/listen; they stay open."""
        self.filters: list[dict[str, Any]] = []
        """What each of them asked for."""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        """Every other request, and every notification: its method and params."""
        self.remarks: list[str] = []
        self.deadlines = Deadlines()
        self.pages: dict[str, Page] = {"tools/list": page, **(others or {})}
        self.connection = Connection(settled, self, self.deadlines, noticed, self.remarks.append)

    queued = 0

    def write(self, line: bytes) -> bool:
        message = json.loads(line)
        method, params = message["method"], message["params"]
        params.pop("_meta", None)
        if method == "subscriptions/listen":
            self.listens.append(message["id"])
            self.filters.append(params["notifications"])
            return True
        if method == "tools/list":
            self.asked.append(params)
        else:
            self.requests.append((method, params))
        if "id" in message:
            answer = self.pages.get(method, _unknown)(params)
            if answer is not None:
                self.says(id=message["id"], **answer)
        return True

    def says(self, **members: Any) -> None:
        """A message of the server, received at the next turn of the loop."""
        line = json.dumps({"jsonrpc": "2.0", **members}).encode()
        trio.lowlevel.current_trio_token().run_sync_soon(self.connection.receive, line)
