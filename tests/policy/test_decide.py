"""Decisions: allowed, asked, or denied in words that say what would change it (DESIGN 8, D10)."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from mcpd.catalog.names import export, original
from mcpd.config.spec import Agent
from mcpd.policy.decide import Allow, Ask, Cover, Deny, Facts, decide, policy_key
from mcpd.policy.rules import Ruling
from mcpd.policy.terms import RISKS, Approval, Risk, glob_match

BECAUSE = ("risk high: x", "approval y: z", "timeout 60 s: settings")
AGENT = Agent(name="coder")


def facts(approval: Approval, risk: Risk = "medium", **more: Any) -> Facts:
    agent = more.pop("agent", AGENT)
    ruling = Ruling(risk, approval, 60, BECAUSE)
    return Facts(ruling=ruling, agent=agent, server="fs", tool="write", names=("fs__write",), **more)


def decided(approval: Approval, risk: Risk = "medium", **more: Any) -> str:
    decision = decide(facts(approval, risk, **more))
    assert decision.because[:3] == BECAUSE, "the chain is whole (n10)"
    assert len(decision.because) == 4, "and ends with the rule that decided"
    return "once" if isinstance(decision, Ask) and decision.once_only else type(decision).__name__.lower()


EXACT = Cover("g1", "grant g1", exact=True)
GLOB = Cover("g2", "grant g2", exact=False)


# Rows of CONTRACT D10 and DESIGN 8.3: approval, risk, what is known -> decision.
@pytest.mark.parametrize(
    ("approval", "risk", "known", "expected"),
    [
        ("never", "high", {}, "allow"),
        ("deny", "low", {}, "deny"),
        ("deny", "low", {"cover": EXACT, "approved": "a1"}, "deny"),
        ("unless_auto_approved", "low", {}, "ask"),
        ("unless_auto_approved", "medium", {"cover": GLOB}, "allow"),
        ("unless_auto_approved", "high", {"cover": GLOB}, "ask"),
        ("unless_auto_approved", "high", {"cover": EXACT}, "allow"),
        ("unless_auto_approved", "high", {"approved": "a1"}, "allow"),
        ("always", "low", {"cover": EXACT}, "once"),
        ("always", "low", {"approved": "a1"}, "allow"),
        ("never", "low", {"held": "changed"}, "deny"),
        ("never", "low", {"blocked": "a secret of another server", "approved": "a1"}, "deny"),
        ("never", "low", {"suspect": "looks like a key"}, "once"),
        ("never", "low", {"suspect": "looks like a key", "cover": EXACT}, "once"),
        ("never", "low", {"suspect": "looks like a key", "approved": "a1"}, "allow"),
        ("never", "high", {"unrecorded": True}, "deny"),
        ("never", "medium", {"unrecorded": True}, "allow"),
    ],
)
def test_what_is_decided(approval: Approval, risk: Risk, known: dict[str, Any], expected: str) -> None:
    assert decided(approval, risk, **known) == expected


@pytest.mark.parametrize(
    ("pattern", "medium", "high"),
    [
        ("fs__write", "allow", "allow"),
        ("fs__w*", "allow", "ask"),
        ("*", "allow", "ask"),
        ("fs__writ?", "allow", "ask"),
        ("fs__read", "ask", "ask"),
        ("write", "ask", "ask"),
    ],
)
def test_auto_approve_covers_high_by_exact_name_only(pattern: str, medium: str, high: str) -> None:
    agent = Agent(name="coder", auto_approve=(pattern,))
    assert decided("unless_auto_approved", "medium", agent=agent) == medium
    assert decided("unless_auto_approved", "high", agent=agent) == high
    assert decided("always", "low", agent=agent) == "once"


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize("most", RISKS)
def test_max_risk_denies_everything_above_it(risk: Risk, most: Risk) -> None:
    agent = Agent(name="coder", max_risk=most, auto_approve=("fs__write",))
    over = RISKS.index(risk) > RISKS.index(most)
    expected = "deny" if over else "allow"
    for approval in ("never", "unless_auto_approved"):
        assert decided(approval, risk, agent=agent, cover=EXACT, approved="a1") == expected


def test_what_let_it_pass_is_named() -> None:
    by_grant = decide(facts("unless_auto_approved", cover=GLOB))
    assert by_grant == Allow((*BECAUSE, "allowed: grant g2"), cover="g2")
    by_person = decide(facts("always", approved="a1"))
    assert isinstance(by_person, Allow)
    assert (by_person.approved, by_person.cover) == ("a1", "")


def test_deny_denies_in_words() -> None:
    decision = decide(facts("deny"))
    assert isinstance(decision, Deny)
    assert decision.message == 'denied: the policy denies tool "write" of server "fs"'


@pytest.mark.parametrize(
    "tool", ["write", "a.b", "with space", "日本", 'q"uo\\te', "a*b", "what?", "L" * 100]
)
def test_the_key_is_toml_that_means_this_tool(tool: str) -> None:
    ((pattern, policy),) = tomllib.loads(f"{policy_key('fs', tool)} = {{ approval = 'never' }}").items()
    assert policy == {"approval": "never"}
    spellings = (original("fs", tool), export("fs", tool))
    assert any(glob_match(pattern, name) for name in spellings)
    assert not glob_match(pattern, "fs__other")
    assert "*" not in pattern
    assert "?" not in pattern
