"""Explaining a decision: the chain, the line that decides, what would change it (n10)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from mcpd.catalog.tool import Annotations, Tool
from mcpd.config.spec import Agent, Settings
from mcpd.policy.decide import Cover, Facts, decide
from mcpd.policy.explain import Case, Explanation, Limits, explain, verdict
from mcpd.policy.rules import Subject, chain, resolve
from mcpd.policy.terms import APPROVALS, RISKS, Policy

NAMES = ("fs__write",)


def case(
    own: Policy = Policy(),  # noqa: B008
    table: tuple[tuple[str, Policy], ...] = (),
    said: Annotations = Annotations(),  # noqa: B008
    *,
    trusted: bool = False,
    barred: str = "",
    agent: Agent = Agent(name="coder"),  # noqa: B008
    **facts: Any,
) -> Case:
    subject = Subject("fs", Tool("write", b"", said), NAMES, own, table, Settings())
    known = Facts(
        ruling=resolve(subject, trusted=trusted),
        agent=agent,
        server="fs",
        tool="write",
        names=NAMES,
        **facts,
    )
    return Case(
        facts=known,
        chain=chain(subject, trusted=trusted),
        name="fs__write",
        limits=Limits(agent.name, agent.max_risk, agent.auto_approve),
        barred=barred,
        turn="mcpctl untrust fs" if trusted else "mcpctl trust fs",
        turned=resolve(subject, trusted=not trusted),
    )


def told(each: Case) -> Explanation:
    return explain(each, decide)


def changes(found: Explanation) -> dict[str, str]:
    return {change.step: change.verdict for change in found.changes}


def test_the_chain_shows_every_rule_and_which_decides() -> None:
    found = told(
        case(
            Policy(risk="low", timeout=5),
            (("fs__*", Policy(approval="never")), ("fs__write", Policy(approval="always"))),
            trusted=True,
        )
    )
    assert [(each.field, each.says, each.rule, each.decides) for each in found.steps] == [
        ("agent", "allowed", "nothing in its lists is against it (D11)", True),
        ("risk", "low", 'default_policy of server "fs"', True),
        ("risk", "medium", 'trusted server "fs" does not say what the tool does (D7)', False),
        ("risk", "medium", "settings", False),
        ("approval", "always", 'tool policy "fs__write"', True),
        ("approval", "never", 'tool policy "fs__*"', False),
        ("approval", "unless_auto_approved", "settings", False),
        ("timeout", "5 s", 'default_policy of server "fs"', True),
        ("timeout", "60 s", "settings", False),
        ("decision", "asked", "approval always, each time anew (D10)", True),
    ]
    assert (found.verdict, found.once_only) == ("ask", True)


def test_a_question_tells_every_way_to_be_spared_it() -> None:
    found = changes(told(case(said=Annotations(read_only_hint=True))))
    assert found == {
        "mcpctl grants add fs__write --agent coder --for 8h": "allow",
        "a person says yes when it is asked: mcpctl approvals": "allow",
        'auto_approve = ["fs__write"] for agent coder': "allow",
        "mcpctl trust fs": "allow",
        '"fs__write" = { approval = "never" } under [tool_policies]': "allow",
    }


def test_trust_is_not_offered_where_it_would_not_help() -> None:
    assert "mcpctl trust fs" not in changes(told(case()))


def test_no_grant_is_offered_for_what_is_asked_each_time() -> None:
    found = told(case(said=Annotations(destructive_hint=True)))
    assert found.once_only
    assert set(changes(found)) == {
        "a person says yes when it is asked: mcpctl approvals",
        '"fs__write" = { approval = "never" } under [tool_policies]',
    }


def test_what_lets_a_call_through_can_be_taken_away() -> None:
    granted = told(case(cover=Cover("ab12", 'grant ab12 for tool "write"', exact=True)))
    assert granted.verdict == "allow"
    assert changes(granted)["mcpctl revoke ab12"] == "ask"
    auto = told(case(agent=Agent(name="coder", auto_approve=("fs__write", "git__*"))))
    assert changes(auto)['auto_approve without "fs__write" for agent coder'] == "ask"
    trusted = told(case(said=Annotations(read_only_hint=True), trusted=True))
    assert changes(trusted) == {
        "mcpctl untrust fs": "ask",
        '"fs__write" = { approval = "always" } under [tool_policies]': "ask",
    }


@pytest.mark.parametrize(
    ("facts", "step", "then"),
    [
        ({"held": "its text has changed"}, "mcpctl pins accept fs write", "ask"),
        ({"blocked": "a secret"}, "arguments without what looks like a secret", "ask"),
        ({"unrecorded": True}, "a journal that can be written: mcpctl status", "ask"),
        (
            {"agent": Agent(name="reader", max_risk="low")},
            "mcpctl agents max-risk reader high",
            "ask",
        ),
    ],
)
def test_what_a_denial_hangs_on(facts: dict[str, Any], step: str, then: str) -> None:
    found = told(case(**facts))
    assert found.verdict == "deny"
    assert changes(found)[step] == then


def test_a_tool_that_the_agent_may_not_use_is_absent() -> None:
    rule = 'denied_tools "fs__*" of the agent (D11)'
    found = told(replace(case(Policy(approval="never"), barred=rule), unbar="the way back"))
    assert found.verdict == "absent"
    assert found.steps[0].rule == 'denied_tools "fs__*" of the agent (D11)'
    assert found.steps[-1].field != "decision"
    assert changes(found) == {"the way back": "allow"}


def test_the_operator_has_no_lists_and_no_limits() -> None:
    found = told(case(agent=Agent(name="")))
    assert found.steps[0].field == "risk"
    assert not any("agent" in step for step in changes(found))
    assert changes(found)["mcpctl grants add fs__write --operator --for 8h"] == "allow"


def test_what_is_promised_is_what_is_decided_then() -> None:
    """Each change that has a fact of its own, over all rulings."""
    for risk, approval, most in itertools.product(RISKS, APPROVALS, RISKS):
        agent = Agent(name="coder", max_risk=most)
        now = case(Policy(risk, approval), agent=agent)
        found = told(now)
        assert found.verdict == verdict(decide(now.facts))
        for step, then in changes(found).items():
            facts = now.facts
            if step.startswith("mcpctl grants add"):
                facts = replace(facts, cover=Cover("x", "", exact=True))
            elif step.startswith("a person says yes"):
                facts = replace(facts, approved="x")
            elif step.startswith("auto_approve ="):
                facts = replace(facts, agent=Agent(name="coder", max_risk=most, auto_approve=("fs__write",)))
            elif step.startswith("mcpctl agents max-risk"):
                facts = replace(facts, agent=Agent(name="coder", max_risk=risk))
            else:
                continue
            assert verdict(decide(facts)) == then != found.verdict
