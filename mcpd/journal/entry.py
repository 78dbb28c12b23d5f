"""One row of the journal, and the columns it is stored in."""

from __future__ import annotations

import time
from typing import Final

import msgspec


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened; absent texts are empty, absent numbers 0.

    The fields are the columns, in this order. New ones go to the end, with a version of the schema.
    """

    at: float = msgspec.field(default_factory=time.time)
    """Seconds since the epoch: of a request, when it ended."""
    kind: str = "request"
    """"request"; "decision": of a request of high risk, written before it is sent; "approval": a question
    was opened or settled; "grant"; "pin"; "login"; "change" (of configuration or trust); "status" (of a
    server); "gap" (entries that were lost)."""
    session: str = ""
    agent: str = ""
    pid: int = 0
    exe: str = ""
    server: str = ""
    tool: str = ""
    """By its own name; of "resources/*" and "prompts/*" the wrapper that decides about them (a01)."""
    method: str = ""
    """Of MCP, or of the control socket for what the operator does."""
    decision: str = ""
    """What policy said: "allow", "ask" (a person was asked), "deny"; empty where it was not asked."""
    because: str = ""
    """The chain of rules, the one that decided first."""
    outcome: str = ""
    """"ok", "tool_error", or the kind of the failure; of an approval what became of the question."""
    duration: float = 0.0
    """Seconds."""
    request_bytes: int = 0
    result_bytes: int = 0
    digest: str = ""
    """Of the arguments as they were sent, under a key of this file: equal arguments have equal digests."""
    destination: str = ""
    """Digest of where the server's definition leads (n24)."""
    risk: str = ""
    rule: str = ""
    """The approval that the rules want: "never", "unless_auto_approved", "always", "deny"."""
    approval: str = ""
    """Id of the question that was asked, or whose yes was used up."""
    grant: str = ""
    """Id of the grant that covered it."""
    pin: str = ""
    """Digest of the definition that was decided on (n09)."""
    findings: str = ""
    """What the leak scan found in arguments and result, in words and without the value (n17)."""
    waited: float = 0.0
    """Seconds of `duration` that a person took."""
    proof: str = ""
    """How far whoever widened something was told from an agent (n06): empty where nothing spoke against it,
    "second_factor", "unverified", "host" (answered by the calling host)."""
    decided: int = 0
    """Number of the entry of kind "decision" that was written before it was sent."""
    shape: str = ""
    """Names and types of the arguments, no values."""
    arguments: str = ""
    """The arguments themselves, redacted, where `journal_arguments` is on."""


_SQL_TYPES: Final = {"float": "real", "int": "integer", "str": "text"}

#: Column -> its declaration.
COLUMNS: Final = {name: f"{_SQL_TYPES[kind]} not null" for name, kind in Entry.__annotations__.items()}
