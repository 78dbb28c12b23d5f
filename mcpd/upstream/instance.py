"""Which sessions share one running instance of a server, and what instances come to together (n04).

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mcpd.api.status import State, Status
from mcpd.config.spec import Faulty, Instance, Server


class Scope(NamedTuple):
    """Whose an instance is."""

    kind: Instance
    of: str = ""
    """The agent's name, or the project's root; empty for sessions that have none."""

    def __str__(self) -> str:
        return f"{self.kind} {self.of or '(none)'}" if self.kind != "shared" else ""


#: Of the instance that every server has: it stands for the definition, and serves the operator. Where
#: `instance` is "shared" it serves all agents.
MAIN = Scope("shared")


def scope_of(definition: Server | Faulty, agent: str, root: str) -> Scope:
    """Whose instance a session uses; the operator has no agent. Sessions without a root are one project."""
    if not agent or not isinstance(definition, Server) or definition.instance == "shared":
        return MAIN
    return Scope(definition.instance, agent if definition.instance == "agent" else root)


#: What of several is told first: what works, then what may come to work, then what does not.
_TOLD: tuple[State, ...] = (
    "connected",
    "connecting",
    "restarting",
    "needs_auth",
    "waiting_secrets",
    "failed",
    "crashed",
    "idle",
)


def overall(main: Status, others: Iterable[Status]) -> Status:
    """The one status of a server: of the instance that says most. `main` goes first among equals."""
    if main.state not in _TOLD:
        return main
    return min((main, *others), key=lambda status: _TOLD.index(status.state) if status.state in _TOLD else 99)
