"""HTTP for the endpoint, by hypercorn's trio worker: the only import of it, made when somebody enables that.

Connections are accepted elsewhere (`endpoint`), so that they can be counted and closed: hypercorn shields
what it sends from cancellation, and a reader that does not read would hold up the daemon's end.
"""

from __future__ import annotations

import contextlib
import logging
from typing import Any, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState

from mcpd.agents.endpoint.app import App

log = logging.getLogger("mcpd.endpoint")

#: Seconds that a connection may be without a request, and that the head of one may take.
KEEP_ALIVE = 75
#: Bytes of a request's head: mirrored arguments stand there (3.3).
HEAD_LIMIT = 64 * 1024


class Web:
    """Serves accepted connections with one application."""

    def __init__(self, app: App) -> None:
        config = Config()
        config.keep_alive_timeout = KEEP_ALIVE
        config.keep_alive_max_requests = 1_000_000
        config.h11_max_incomplete_size = HEAD_LIMIT
        config.include_server_header = False
        # Heads of requests hold tokens: none is logged.
        config.accesslog = None
        config.errorlog = log
        self._config = config
        self._app = ASGIWrapper(cast("ASGIFramework", app))
        self._context = WorkerContext(None)

        self.idle: dict[trio.SocketStream, None] = {}
        """Connections without a request, the longest first."""

    async def serve(self, stream: trio.SocketStream, inode: int) -> None:
        """Serve one connection until it ends, and close it. Raises what hypercorn does not catch.

        `inode`: of the client's socket, for the application.
        """
        state = cast("ConnectionState", {"inode": inode})
        self.idle[stream] = None
        try:
            await _Connection(self, self._app, self._config, self._context, state, stream).run()
        finally:
            self.idle.pop(stream, None)

    async def finish(self) -> None:
        """Connections end with the request that they are at."""
        await self._context.terminated.set()


class _Connection(TCPServer):
    """Ends when its peer has left, and not only when the time for another request is over."""

    def __init__(
        self,
        web: Web,
        app: ASGIWrapper,
        config: Config,
        context: WorkerContext,
        state: ConnectionState,
        stream: trio.SocketStream,
    ) -> None:
        super().__init__(app, config, context, state, cast("Any", stream))
        self._idle = web.idle
        self._peer = stream
        self._left = False

    async def _read_data(self) -> None:
        await super()._read_data()
        self._left = True
        await self.idle_task.stop()

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, Updated):
            if self._left:
                return
            self._idle.pop(self._peer, None)
            if event.idle:
                self._idle[self._peer] = None
        # For a request that is none hypercorn ends the connection, also under an answer that is on its way.
        with contextlib.suppress(trio.BusyResourceError):
            await super().protocol_send(event)
