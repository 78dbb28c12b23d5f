"""Whether a launcher starts what it started when a person agreed to it (n09).

Looked at before it is started, as far as its cache tells, and again before anybody gets its connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import trio

from mcpd.config.accepted import Launched
from mcpd.config.spec import Server
from mcpd.transport import sweep
from mcpd.transport.base import ConnectFailed
from mcpd.upstream import launch, launched
from mcpd.upstream.attempt import Surroundings


async def before(server: Server, around: Surroundings) -> None:
    """Raises ConnectFailed where its cache holds something else by now."""
    known = around.known_launch(server) if launched.is_known(server) else None
    if known is not None and known.place:
        env = launch.environment(server, around.environ, around.marker)
        look = partial(launched.again, server, known.place, env)
        await _say(server, around, await trio.to_thread.run_sync(look))


async def after(server: Server, around: Surroundings, marker: str) -> None:
    """`marker`: that of its processes. Raises ConnectFailed where they are something else than before."""
    if launched.is_known(server):
        await _say(server, around, await trio.to_thread.run_sync(_look, server, around, marker))


def _look(server: Server, around: Surroundings, marker: str) -> Launched | None:
    found = sorted(sweep.find(marker), key=lambda process: process.started)
    argvs: list[Sequence[str]] = [process.argv for process in found]
    return launched.find(server, argvs, launch.environment(server, around.environ, marker))


async def _say(server: Server, around: Surroundings, found: Launched | None) -> None:
    why = around.launched(server, found) if found is not None else ""
    if why:
        # Whoever says so has ended this turn; where not, it ends here.
        await trio.lowlevel.checkpoint()
        raise ConnectFailed("failed", why, lasting=True)
