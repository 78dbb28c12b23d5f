"""The decision about one request: allowed, to be asked for, or denied in words that say what would change it
(DESIGN 8)."""

from __future__ import annotations

import json
from typing import Protocol

import msgspec

from mcpd.catalog.names import export, original
from mcpd.policy.rules import Ruling
from mcpd.policy.terms import Risk, glob_match, risk_rank, specificity


class AgentLimits(Protocol):
    """What a decision asks of an agent."""

    @property
    def name(self) -> str: ...
    @property
    def max_risk(self) -> Risk: ...
    @property
    def auto_approve(self) -> tuple[str, ...]: ...


class Cover(msgspec.Struct, frozen=True):
    """A grant that covers a request."""

    id: str
    words: str
    exact: bool
    """It names the tool itself, not a pattern or the whole server (D10)."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision depends on."""

    ruling: Ruling
    agent: AgentLimits
    server: str
    tool: str
    """Its exact name at the server."""
    names: tuple[str, ...]
    """All names that a pattern may mean it by."""
    held: str = ""
    """Why its definition waits for a person (n09, n18)."""
    blocked: str = ""
    """Whose secret the arguments hold that its server must not get (n17)."""
    suspect: str = ""
    """What in the arguments looks like a secret."""
    cover: Cover | None = None
    approved: str = ""
    """The id of a person's yes to exactly this request (n05)."""
    unrecorded: bool = False
    """The journal cannot be written (n12)."""


class Allow(msgspec.Struct, frozen=True):
    """The request may go to the server."""

    because: tuple[str, ...]
    """The rules of risk, approval and timeout, then the one that decided."""
    cover: str = ""
    """The id of the grant that was needed."""
    approved: str = ""
    """The id of the person's yes that was needed."""


class Ask(msgspec.Struct, frozen=True):
    """A person decides."""

    because: tuple[str, ...]
    once_only: bool
    """Only a yes to this very request counts; no grant answers it (D10)."""


class Deny(msgspec.Struct, frozen=True):
    """The request does not go anywhere."""

    message: str
    because: tuple[str, ...]
    hint: str = ""
    """What the user could do about it."""


Decision = Allow | Ask | Deny


def decide(facts: Facts) -> Decision:
    """Whether the request may go to its server (DESIGN 8, D10)."""
    return _denied(facts) or _asked(facts)


def _denied(facts: Facts) -> Deny | None:
    """What no person's yes changes."""
    ruling, what = facts.ruling, f'tool "{facts.tool}" of server "{facts.server}"'
    if facts.blocked:
        return _deny(facts, f"denied: {facts.blocked}", "a leak (n17)")
    if facts.held:
        return _deny(
            facts,
            f"denied: {what} is held: {facts.held}",
            "its definition waits for a person (n09)",
            f"mcpctl pins diff {facts.server}",
        )
    most = facts.agent.max_risk
    if risk_rank(ruling.risk) > risk_rank(most):
        return _deny(
            facts,
            f'denied: {what} has risk {ruling.risk}, and agent "{facts.agent.name}" may use up to {most}',
            f"max_risk {most} of the agent (b33)",
            f"mcpctl agents max-risk {facts.agent.name} {ruling.risk}",
        )
    if facts.unrecorded and ruling.risk == "high":
        return _deny(
            facts,
            f"denied: {what} has risk high, and the journal cannot be written",
            "nothing of high risk without a record (n12)",
            "mcpctl status says what is wrong with the journal",
        )
    if ruling.approval == "deny":
        return _deny(facts, f"denied: the policy denies {what}", "approval deny")
    return None


def _deny(facts: Facts, message: str, rule: str, hint: str = "") -> Deny:
    return Deny(message, (*facts.ruling.because, f"denied: {rule}"), hint)


def _asked(facts: Facts) -> Allow | Ask:
    ruling = facts.ruling
    if facts.suspect and not facts.approved:
        return Ask((*ruling.because, f"asked: {facts.suspect} (n17)"), once_only=True)
    if ruling.approval == "never" and not facts.suspect:
        return Allow((*ruling.because, "allowed: approval never"))
    if facts.approved:
        return Allow(
            (*ruling.because, f"allowed: a person said yes ({facts.approved})"), approved=facts.approved
        )
    if ruling.approval == "always":
        return Ask((*ruling.because, "asked: approval always, each time anew (D10)"), once_only=True)
    high = ruling.risk == "high"
    cover = facts.cover
    if cover is not None and (cover.exact or not high):
        return Allow((*ruling.because, f"allowed: {cover.words}"), cover=cover.id)
    own = _auto_approved(facts.agent.auto_approve, facts.names, exact_only=high)
    if own:
        return Allow((*ruling.because, f'allowed: auto_approve "{own}" of the agent (D10)'))
    rule = "neither a grant nor auto_approve covers it"
    return Ask((*ruling.because, f"asked: {rule}{' at high risk (D10)' if high else ''}"), once_only=False)


def _auto_approved(patterns: tuple[str, ...], names: tuple[str, ...], *, exact_only: bool) -> str:
    """The pattern that covers the tool, empty for none; of high risk only its exact name does (D10)."""
    for pattern in patterns:
        if specificity(pattern).exact:
            if pattern in names:
                return pattern
        elif not exact_only and any(glob_match(pattern, name) for name in names):
            return pattern
    return ""


def policy_key(server: str, tool: str) -> str:
    """The tool as a quoted TOML key that means it alone.

    Basic strings of TOML and JSON have the same escapes for printable characters. A name
    with a wildcard of its own would be a pattern, so it is given as agents see it.
    """
    name = original(server, tool)
    return json.dumps(export(server, tool) if "*" in name or "?" in name else name, ensure_ascii=False)
