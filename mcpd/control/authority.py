"""Who may ask for more (n06): an agent cannot approve itself.

What speaks is the line of a process's parents, as the kernel tells it: when it opened the connection, and
when it asks. Who stands below an agent's process is refused. Who cannot be told from an agent's process that
has left its parents (a second fork, a terminal multiplexer, a service) has to show the second factor where
one is set, and is recorded as unverified where not. Terminal, session and cgroup never refuse anybody: they
are the same for an agent and for whoever started it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcpd.consent.hosts import Hosting
from mcpd.processes import Link

#: Programs of root's by which a person comes in. What they start has not been started by an agent, unless the
#: agent can log in as the user.
LOGINS = frozenset(
    {"login", "sshd", "sshd-session", "dropbear", "gdm-session-wor", "lightdm", "sddm-helper", "xrdp-sesman"}
)


class Verdict(NamedTuple):
    """Both empty: nothing speaks against it."""

    refused: str = ""
    """Why it is an agent's process, in words."""
    unverified: str = ""
    """Why it could be one."""


def judge(
    pid: int, origin: Sequence[Link], current: Sequence[Link], present: Hosting, past: Hosting, uid: int
) -> Verdict:
    """`pid` is the process, 0 for one of another pid namespace; `origin` is its chain when it opened the
    connection, `current` the one now; `present` and `past` are the agents' processes; `uid` is the daemon's
    user."""
    for link in (*current, *origin):
        if link.ident in present:
            return Verdict(refused=f"{_where(link, current or origin)} is an agent's, or hosts one")
    if not pid:
        return Verdict(unverified="the process is one from outside of this container")
    if not current:
        return Verdict(refused="the process that opened this connection has ended")
    for link in (*current, *origin):
        if link.ident in past:
            return Verdict(unverified=f"{_where(link, current)} was an agent's, or hosted one")
    return Verdict(unverified=_adopted(current, uid))


def _where(link: Link, chain: Sequence[Link]) -> str:
    return f"the process {link}" if chain and link is chain[0] else f"{link}, above the process,"


def _adopted(chain: Sequence[Link], uid: int) -> str:
    """Why the line of parents does not tell where the process comes from; empty where it does."""
    for at, link in enumerate(chain):
        if link.session > 1 and all(link.session != above.pid for above in chain[at:]):
            return f"{link} has left the process that started it"
        if link.uid != uid and link.name in LOGINS:
            return ""
    top = chain[-1]
    if top.parent == 0:
        return ""  # started from outside of this container or machine
    return f"whoever started {top} is gone or starts things for anybody"
