"""What is kept of what happened: `journal.*` (n12)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mcpd.api import Params

Kind = Literal["request", "decision", "approval", "ask", "grant", "pin", "login", "change", "status", "gap"]

# fmt: off
Outcome = Literal[
    "", "ok", "tool_error",
    # The kinds of failures (mcpd.errors).
    "parse_error", "invalid_request", "unknown_method", "invalid_params", "internal", "header_mismatch",
    "missing_capability", "unsupported_revision", "no_such_server", "no_such_tool", "no_such_agent",
    "name_taken", "bad_definition", "config_invalid", "not_writable", "disabled", "denied", "pending",
    "unavailable", "needs_login", "timed_out", "outcome_unknown", "busy", "server_error", "bad_answer",
    "cancelled", "too_large", "refused", "api_mismatch", "stopping", "no_such_resource", "no_such_prompt",
    "no_such_grant", "no_such_session", "no_such_approval", "factor_needed",
    # What becomes of a question to a person, and of one to an agent.
    "asked", "approved", "granted", "expired", "superseded", "muted", "withdrawn",
    "accept", "decline", "cancel", "error", "unread",
    # Of a grant, and of a definition.
    "added", "revoked", "pinned", "changed", "held", "accepted",
]
# fmt: on

#: Entries of one answer (b24).
MOST = 500
#: Seconds that an answer is waited for which has news; shorter than what proxies and people bear.
LONGEST_WAIT = 60.0


Words = Annotated[str, msgspec.Meta(max_length=200)]


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened; absent texts are empty, absent numbers 0."""

    id: int = 0
    """Its number in the file, rising; 0 before it is written."""
    at: float = 0.0
    """Seconds since the epoch: of a request, when it ended."""
    kind: str = "request"
    """"request"; "decision": of a request of high risk, written before it is sent; "approval": a question
    was opened or settled; "ask": a server asked an agent; "grant"; "pin"; "login"; "change" (of configuration
    or trust); "status" (of a server); "gap" (entries that were lost)."""
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
    """The chain of rules, one after the other; what decided stands at its end."""
    outcome: str = ""
    """"ok", "tool_error", or the kind of the failure; of a question, a grant or a pin what became of it."""
    duration: float = 0.0
    """Seconds."""
    request_bytes: int = 0
    result_bytes: int = 0
    digest: str = ""
    """Of the arguments as they were sent, under a key of the file: equal arguments have equal digests."""
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
    """Names and types of the arguments, no values, as JSON text."""
    arguments: str = ""
    """The arguments themselves, redacted, where `journal_arguments` is on."""


class QueryJournal(Params, frozen=True, kw_only=True):
    """All conditions count together. Texts may have `*` and `?`, except `text` and `id`."""

    since: float = 0.0
    """Seconds since the epoch; 0: without a limit, as in `until`."""
    until: float = 0.0
    agent: Words | None = None
    """"" is whoever has no name: the operator."""
    server: Words | None = None
    tool: Words | None = None
    kinds: tuple[Kind, ...] = ()
    outcomes: tuple[Words, ...] = ()
    decision: Words | None = None
    risk: Words | None = None
    id: Words = ""
    """Of an approval, a grant or a session."""
    text: Words = ""
    """Somewhere in the words of the entry, upper and lower case alike."""
    before: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Only entries with smaller numbers; 0: from the newest on, newest first."""
    after: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Only entries with larger numbers, oldest first."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 100
    wait: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT)] = 0.0
    """With `after`: seconds to wait for the first entry behind it."""


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    entries: tuple[Recorded, ...]
    next: int
    """What `before` (or `after`) has to be in the next question; without `after` 0 means that this is all.
    A search through much that does not fit answers with what it has found in two seconds."""
    problems: tuple[str, ...] = ()
    """Why nothing can be written now, and what was found wrong with the file."""
