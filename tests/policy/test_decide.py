"""Decisions: allowed, or denied in words that say what would change it (DESIGN 8, rule 3)."""

from __future__ import annotations

import re
import tomllib

import pytest

from mcpd.catalog.names import export, original
from mcpd.policy.decide import Allow, Deny, decide
from mcpd.policy.rules import Ruling
from mcpd.policy.terms import Approval, glob_match

BECAUSE = ("risk high: x", "approval y: z", "timeout 60 s: settings")


def ruling(approval: Approval) -> Ruling:
    return Ruling("high", approval, 60, BECAUSE)


def test_never_allows() -> None:
    assert decide(ruling("never"), "fs", "write") == Allow(BECAUSE)


def test_deny_denies() -> None:
    decision = decide(ruling("deny"), "fs", "write")
    assert decision == Deny('denied: the policy denies tool "write" of server "fs"', BECAUSE)


@pytest.mark.parametrize("approval", ["unless_auto_approved", "always"])
def test_what_would_ask_is_denied_while_nobody_can_be_asked(approval: Approval) -> None:
    decision = decide(ruling(approval), "fs", "write")
    assert isinstance(decision, Deny)
    assert decision.because == BECAUSE
    assert decision.message == (
        'denied: nobody can be asked yet; set approval = "never" in the policy of server "fs" or tool "write"'
    )


@pytest.mark.parametrize(
    "tool", ["write", "a.b", "with space", "日本", 'q"uo\\te', "a*b", "what?", "L" * 100]
)
def test_the_hint_is_toml_that_means_this_tool(tool: str) -> None:
    decision = decide(ruling("always"), "fs", tool)
    assert isinstance(decision, Deny)
    own = re.search(r"default_policy = \{.*?\}", decision.hint)
    line = re.search(r"\[tool_policies\]: (.*)", decision.hint)
    assert own
    assert line
    assert tomllib.loads(own[0]) == {"default_policy": {"approval": "never"}}
    ((pattern, policy),) = tomllib.loads(line[1]).items()
    assert policy == {"approval": "never"}
    spellings = (original("fs", tool), export("fs", tool))
    assert any(glob_match(pattern, name) for name in spellings)
    assert not glob_match(pattern, "fs__other")
    assert "*" not in pattern
    assert "?" not in pattern
