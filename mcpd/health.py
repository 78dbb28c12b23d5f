"""What the daemon says of itself: how it is, and everything that is wrong or waits for a person."""

from __future__ import annotations

import os
from collections import Counter
from time import time

from mcpd import __version__, accepting, applying
from mcpd.api import daemon as api
from mcpd.broker import Broker
from mcpd.caller import DEFAULT_AGENT
from mcpd.config import fields
from mcpd.config.spec import MAIN, Hold, Problem


def daemon_status(broker: Broker) -> api.DaemonStatus:
    agents = tuple(sorted({DEFAULT_AGENT, *broker.config.agents}))
    states = Counter(broker.fleet.status(name).state for name in broker.fleet.names())
    return api.DaemonStatus(
        version=__version__,
        pid=os.getpid(),
        instance=broker.instance,
        started=broker.started,
        uptime=max(0.0, time() - broker.started),
        servers=dict(sorted(states.items())),
        sessions=len(broker.sessions),
        approvals=len(broker.approvals.open()),
        problems=applying.shown(_problems(broker)),
        sockets=api.Sockets(
            control=broker.control_socket,
            agents={name: f"{broker.agents_dir}/{name}/mcp.sock" for name in agents},
        ),
        config_file=f"{broker.config_dir}/{MAIN}",
        servers_dir=broker.config.settings.servers_dir,
        agents=agents,
    )


def _problems(broker: Broker) -> tuple[Problem, ...]:
    """Of the files, of what waits in them, of the databases and of the daemon itself, each once."""
    held = (_held(broker, name, hold) for name, hold in broker.held.items())
    stored = (*broker.store.problems, *broker.grants.problems, *broker.journal.problems)
    listening = (Problem("", "", broker.endpoint.problem),) if broker.endpoint.problem else ()
    pinned = (_waiting(broker, name, count) for name, count in accepting.waiting(broker))
    found = (*broker.config.problems, *held, *pinned, *stored, *broker.troubles, *listening)
    return tuple(dict.fromkeys(found))


def _held(broker: Broker, name: str, hold: Hold) -> Problem:
    server = broker.waiting.get(name) or broker.fleet.find(name).definition
    return Problem(server.source, fields.join("servers", name), hold.words)


def _waiting(broker: Broker, name: str, count: int) -> Problem:
    what = "a definition waits" if count == 1 else f"{count} definitions wait"
    source = broker.fleet.find(name).definition.source
    return Problem(source, fields.join("servers", name), f"{what} for mcpctl pins diff {name}")
