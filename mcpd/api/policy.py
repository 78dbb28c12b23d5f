"""Why something is decided as it is, and what would be now: `policy.*` (n10)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mcpd.api import Params
from mcpd.api.terms import Approval, Risk
from mcpd.api.tools import NamedTool

Verdict = Literal["allow", "ask", "deny", "absent"]
"""`absent`: for this agent there is no such tool."""


class Explain(NamedTool, frozen=True, kw_only=True):
    agent: str
    """"" is the operator."""
    arguments: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    """A JSON object. Nothing is called."""
    session: str = ""
    """One that is attached: grants for it count."""


class Rule(msgspec.Struct, frozen=True):
    """What one rule says."""

    field: Literal["agent", "risk", "approval", "timeout", "decision"]
    says: str
    rule: str
    decides: bool


class Remedy(msgspec.Struct, frozen=True):
    """What a person could do, and what would happen then."""

    step: str
    verdict: Verdict


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    agent: str
    server: str
    tool: str
    name: str
    """What the agent calls it."""
    verdict: Verdict
    once_only: bool
    """Only a person's yes to this very request counts; no grant does."""
    risk: Risk
    approval: Approval
    timeout: float
    rules: tuple[Rule, ...]
    """Every rule that says something; of each field the deciding one first."""
    decided: str
    """The line that decided."""
    changes: tuple[Remedy, ...]
    """Each alone would change the verdict."""
    notes: tuple[str, ...]


class Replay(Params, frozen=True, kw_only=True):
    since: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds since the epoch."""
    until: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """0: until now."""
    agent: str | None = None
    """Only of this agent; "" is the operator."""
    server: str = ""
    """Only to this server."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Requests of one kind that would be decided otherwise now."""

    agent: str
    server: str
    tool: str
    was: Verdict
    now: Verdict
    count: int
    first_at: float
    last_at: float
    entries: tuple[int, ...]
    """Of the journal: the newest 20."""
    decided: str
    """The line that decides now."""


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    examined: int
    """Recorded requests that were looked at, the newest first."""
    unknown: int
    """Of these to servers whose tools are not known at present."""
    differences: tuple[Difference, ...]
    """The most frequent first."""
    complete: bool
    """False where there are older ones, which were not looked at."""
