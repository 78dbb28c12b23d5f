"""Why a request is allowed, asked for or denied: every rule that has a say, the one that decided, and what a
person could change (n10). What would happen then is not guessed but decided in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

import msgspec
from msgspec.structs import replace

from mcpd.policy.decide import Allow, Ask, Cover, Decision, Facts, policy_key
from mcpd.policy.rules import Chain, Choice, Ruling, spelled
from mcpd.policy.terms import Approval, Risk, glob_match

T = TypeVar("T")

Verdict = Literal["allow", "ask", "deny", "absent"]
"""`absent`: for this agent the tool does not exist."""

Field = Literal["agent", "risk", "approval", "timeout", "decision"]


class Limits(msgspec.Struct, frozen=True):
    """How far an agent may go."""

    name: str
    """Empty for the operator, who has no limits to change."""
    max_risk: Risk
    auto_approve: tuple[str, ...]


class Step(msgspec.Struct, frozen=True):
    """What one rule says."""

    field: Field
    says: str
    rule: str
    decides: bool


class Change(msgspec.Struct, frozen=True):
    """What a person could do, and what would happen to the request then."""

    step: str
    verdict: Verdict


class Explanation(msgspec.Struct, frozen=True):
    verdict: Verdict
    once_only: bool
    """Only a person's yes to this very request counts."""
    steps: tuple[Step, ...]
    changes: tuple[Change, ...]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """All that is to be explained."""

    facts: Facts
    chain: Chain
    name: str
    """What the agent calls the tool."""
    limits: Limits
    barred: str
    """The rule by which it may not use the tool; empty where it may."""
    unbar: str = ""
    """What would let it."""
    turn: str
    """What would have its server believed, or not any more..."""
    turned: Ruling
    """...and what would count then."""


def explain(case: Case, decided: Callable[[Facts], Decision]) -> Explanation:
    """`decided` is how such requests are decided."""
    decision = decided(case.facts)
    now = _verdict(case, decision)
    changes = (
        Change(step, _verdict(other, decided(other.facts))) for step, other in _alternatives(case, now)
    )
    return Explanation(
        now,
        now == "ask" and isinstance(decision, Ask) and decision.once_only,
        tuple(_steps(case, decision)),
        tuple(change for change in changes if change.verdict != now),
    )


def verdict(decision: Decision) -> Verdict:
    if isinstance(decision, Allow):
        return "allow"
    return "ask" if isinstance(decision, Ask) else "deny"


def _verdict(case: Case, decision: Decision) -> Verdict:
    return "absent" if case.barred else verdict(decision)


def _steps(case: Case, decision: Decision) -> Iterator[Step]:
    if case.limits.name:
        says = "not allowed" if case.barred else "allowed"
        yield Step("agent", says, case.barred or "nothing in its lists is against it (D11)", True)
    yield from _choices("risk", case.chain.risk)
    yield from _choices("approval", case.chain.approval)
    timeouts = tuple(Choice(spelled(each.value), each.rule) for each in case.chain.timeout)
    yield from _choices("timeout", timeouts)
    if not case.barred:
        says, _, rule = decision.because[-1].partition(": ")
        yield Step("decision", says, rule, True)


def _choices(field: Field, choices: Sequence[Choice[T]]) -> Iterator[Step]:
    for place, choice in enumerate(choices):
        yield Step(field, str(choice.value), choice.rule, not place)


def _alternatives(case: Case, now: Verdict) -> Iterator[tuple[str, Case]]:
    """What could be otherwise, each thing alone."""
    limits, facts = case.limits, case.facts
    if case.barred:
        yield case.unbar, replace(case, barred="")
        return
    yield from _facts_otherwise(case)
    if limits.name:
        yield (
            f"mcpctl agents max-risk {limits.name} {facts.ruling.risk}",
            _with_limits(case, replace(limits, max_risk=facts.ruling.risk)),
        )
    yield case.turn, replace(case, facts=replace(facts, ruling=case.turned))
    stricter: Approval = "always" if now == "allow" else "never"
    key = policy_key(facts.server, facts.tool)
    ruling = replace(facts.ruling, approval=stricter)
    yield (
        f'{key} = {{ approval = "{stricter}" }} under [tool_policies]',
        replace(case, facts=replace(facts, ruling=ruling)),
    )


def _facts_otherwise(case: Case) -> Iterator[tuple[str, Case]]:
    """What concerns this request or its agent, not the rules."""
    facts, limits = case.facts, case.limits

    def known(**fields: object) -> Case:
        return replace(case, facts=replace(facts, **fields))

    if facts.held:
        yield f"mcpctl pins accept {facts.server} {facts.tool}", known(held="")
    if facts.blocked or facts.suspect:
        yield "arguments without what looks like a secret", known(blocked="", suspect="")
    if facts.unrecorded:
        yield "a journal that can be written: mcpctl status", known(unrecorded=False)
    if facts.cover is not None:
        yield f"mcpctl revoke {facts.cover.id}", known(cover=None)
    else:
        whose = f"--agent {limits.name}" if limits.name else "--operator"
        step = f"mcpctl grants add {case.name} {whose} --for 8h"
        yield step, known(cover=Cover("", "", exact=True))
    if not facts.approved:
        yield "a person says yes when it is asked: mcpctl approvals", known(approved="-")
    if limits.name:
        added = replace(limits, auto_approve=(*limits.auto_approve, case.name))
        yield f'auto_approve = ["{case.name}"] for agent {limits.name}', _with_limits(case, added)
        covering = [each for each in limits.auto_approve if any(glob_match(each, n) for n in facts.names)]
        if covering:
            left = tuple(each for each in limits.auto_approve if each not in covering)
            words = ", ".join(f'"{each}"' for each in covering)
            without = _with_limits(case, replace(limits, auto_approve=left))
            yield f"auto_approve without {words} for agent {limits.name}", without


def _with_limits(case: Case, limits: Limits) -> Case:
    return replace(case, facts=replace(case.facts, agent=limits))
