"""A question to a person about one call, as data: what is asked, who answered, what came of it."""

from __future__ import annotations

import shlex
from typing import Literal

import msgspec

from mcpd.config.spec import Approver, Server
from mcpd.policy.binding import Bound
from mcpd.policy.terms import Risk

Outcome = Literal["asked", "approved", "granted", "denied", "expired", "superseded", "muted", "withdrawn"]
"""What happened to a question: it was opened; a person said yes, once; a new grant covers it; a person said
no; nobody answered in time; what it was asked under has changed; its agent was muted; the daemon ended."""

Proof = Literal["", "second_factor", "unverified", "host"]
"""How sure it is that a person answered (n06): nothing speaks against it, it was proven, nobody knows whose
process it was, or the calling program says so."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One call that waits for a yes, with all that a person should know of it."""

    bound: Bound
    """What the answer will hold for (n07)..."""
    digest: str
    """...and the name of that, as `binding.digest` says it."""
    session: str
    pid: int
    exe: str
    cwd: str
    """Of the calling process, by the kernel's word; empty where nobody knows."""
    host: str = ""
    """The command line of the program behind a bridge; empty where the calling process is no bridge."""
    name: str
    """What the caller calls the tool."""
    risk: Risk
    question: str
    """Why it is asked, in words."""
    because: tuple[str, ...]
    """The chain of rules."""
    once_only: bool
    """Only a yes to this very call counts: grants do not cover it (`always`, a leak)."""
    approver: Approver = "person"
    runs: str = ""
    """How the server runs, or where it is."""
    description: str = ""
    """The tool's, as its server wrote it."""
    flags: tuple[str, ...] = ()
    """What else speaks against it, in words (n18)."""


class By(msgspec.Struct, frozen=True):
    """Who answered."""

    pid: int
    exe: str
    proof: Proof = ""


class Event(msgspec.Struct, frozen=True):
    """Something that happened to a question, for the journal (n12)."""

    id: str
    question: Question
    outcome: Outcome
    by: By | None = None
    """None where nobody answered."""
    waited: float = 0.0
    """Seconds since it was opened."""


def how_it_runs(server: Server) -> str:
    """The command line or the address of a server, in one line for a person."""
    if server.url:
        return server.url
    return shlex.join((server.command, *server.args))
