"""Who may do what, as tables worked out from the contract, and every combination tried against them.

Three tables: what a server says of its tool (b11, b12, a24, D4, D7), what the user's own pins make of it
(a23, a25), and what then happens to a request (DESIGN 8.3, D10, b33).
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.names import export, original
from mcpd.catalog.tool import Annotations, Tool
from mcpd.config.load import load
from mcpd.config.spec import Agent, Config, Settings
from mcpd.policy.decide import Allow, Ask, Cover, Deny, Facts, decide
from mcpd.policy.grants import Grant, Request, covers
from mcpd.policy.rules import Ruling, Subject, barred, resolve
from mcpd.policy.terms import APPROVALS, RISKS, Approval, Policy, Risk, approval_rank, risk_rank

SERVER, TOOL = "fs", "write_file"
NAMES = (original(SERVER, TOOL), export(SERVER, TOOL))

Verdict = Literal["allow", "ask", "ask once", "deny"]

HINTS = {
    "none": Annotations(),
    "read": Annotations(read_only_hint=True),
    "destr": Annotations(destructive_hint=True),
    "both": Annotations(read_only_hint=True, destructive_hint=True),
}

#: What a server says, believed or not -> risk, approval.
SAID = """
    untrusted  none   high    unless_auto_approved   b11: high, whatever it says
    untrusted  read   high    unless_auto_approved   b11, D4: it lowers nothing
    untrusted  destr  high    always                 D4: it may raise
    untrusted  both   high    always                 D4, a24: destructive wins
    trusted    none   medium  unless_auto_approved   D7
    trusted    read   low     never                  a24, b12
    trusted    destr  high    always                 a24, b12
    trusted    both   high    always                 a24: destructive wins
"""

#: What the user may have pinned, for a tool or for its server; each field goes by itself (a23).
PINS: dict[str, Policy] = {
    "-": Policy(),
    "low": Policy(risk="low"),
    "high": Policy(risk="high"),
    "never": Policy(approval="never"),
    "unless": Policy(approval="unless_auto_approved"),
    "always": Policy(approval="always"),
    "deny": Policy(approval="deny"),
    "medium/never": Policy(risk="medium", approval="never"),
}

#: max_risk below the risk or not, approval, risk, grant, auto_approve -> what happens; "." is any.
HAPPENS = """
    below   .                     .       .      .      deny      b33, D10: max_risk denies all above it
    enough  deny                  .       .      .      deny      DESIGN 8.3
    enough  never                 .       .      .      allow     DESIGN 8.3
    enough  always                .       .      .      ask once  D10: only a person, once
    enough  unless_auto_approved  low     none   none   ask       DESIGN 8.3
    enough  unless_auto_approved  low     none   glob   allow     D10: a pattern covers at most medium
    enough  unless_auto_approved  low     none   exact  allow     D10
    enough  unless_auto_approved  low     glob   .      allow     DESIGN 8.3: a grant covers it
    enough  unless_auto_approved  low     exact  .      allow
    enough  unless_auto_approved  medium  none   none   ask
    enough  unless_auto_approved  medium  none   glob   allow     D10: a pattern covers at most medium
    enough  unless_auto_approved  medium  none   exact  allow
    enough  unless_auto_approved  medium  glob   .      allow
    enough  unless_auto_approved  medium  exact  .      allow
    enough  unless_auto_approved  high    none   none   ask
    enough  unless_auto_approved  high    none   glob   ask       D10: no pattern at high risk
    enough  unless_auto_approved  high    none   exact  allow     D10: by exact name any tier
    enough  unless_auto_approved  high    glob   none   ask       D10: a grant must name the tool
    enough  unless_auto_approved  high    glob   glob   ask
    enough  unless_auto_approved  high    glob   exact  allow
    enough  unless_auto_approved  high    exact  .      allow     D10: a grant naming the tool
"""

#: (risk, max_risk) of which the first is above the second.
ABOVE = {("medium", "low"), ("high", "low"), ("high", "medium")}

GRANTS = ("none", "glob", "exact")
AUTO: dict[str, tuple[str, ...]] = {"none": (), "glob": ("fs__w*",), "exact": ("fs__write_file",)}


def rows(table: str, columns: int) -> Iterator[list[str]]:
    for line in filter(str.strip, table.splitlines()):
        yield line.replace("ask once", "ask_once").split(maxsplit=columns)[:columns]


def said() -> dict[tuple[str, str], tuple[Risk, Approval]]:
    found: dict[Any, Any] = {}
    for trust, hint, risk, approval in rows(SAID, 4):
        found[trust, hint] = (risk, approval)
    return found


def happens() -> dict[tuple[str, str, str, str, str], Verdict]:
    """The table with its "any" written out; no two lines say something about the same case."""
    found: dict[tuple[str, ...], str] = {}
    every = (("below", "enough"), APPROVALS, RISKS, GRANTS, tuple(AUTO))
    for *cells, verdict in rows(HAPPENS, 6):
        choices = [values if cell == "." else (cell,) for cell, values in zip(cells, every, strict=True)]
        for case in itertools.product(*choices):
            assert case not in found, case
            found[case] = verdict.replace("_", " ")
    assert set(found) == set(itertools.product(*every))
    return found  # type: ignore[return-value]


class Case(NamedTuple):
    override: str
    server: str
    trust: str
    hint: str
    grant: str
    auto: str
    max_risk: Risk


SAYS = said()
VERDICTS = happens()


def expected(case: Case) -> tuple[Risk, Approval, Verdict]:
    """By the three tables alone."""
    hinted = SAYS[case.trust, case.hint]
    override, server = PINS[case.override], PINS[case.server]
    risk = override.risk or server.risk or hinted[0]
    approval = override.approval or server.approval or hinted[1]
    reach = "below" if (risk, case.max_risk) in ABOVE else "enough"
    return risk, approval, VERDICTS[reach, approval, risk, case.grant, case.auto]


def ruled(case: Case, settings: Settings = Settings()) -> Ruling:  # noqa: B008
    pins = (("fs__*", PINS[case.override]),) if case.override != "-" else ()
    tool = Tool(TOOL, b"", HINTS[case.hint])
    subject = Subject(SERVER, tool, NAMES, PINS[case.server], pins, settings)
    return resolve(subject, trusted=case.trust == "trusted")


def decided(case: Case, ruling: Ruling, approved: str = "") -> Allow | Ask | Deny:
    return decide(
        Facts(
            ruling=ruling,
            agent=Agent(name="coder", max_risk=case.max_risk, auto_approve=AUTO[case.auto]),
            server=SERVER,
            tool=TOOL,
            names=NAMES,
            cover=cover(case.grant, ruling.risk),
            approved=approved,
        )
    )


def cover(kind: str, risk: Risk) -> Cover | None:
    """As the path finds it: only a grant that covers the request."""
    if kind == "none":
        return None
    exact = kind == "exact"
    grant = Grant(
        id="ab12",
        agent="coder",
        server=SERVER,
        destination="d1",
        tool=TOOL if exact else "w*",
        exact=exact,
        lifespan="forever",
    )
    request = Request(
        agent="coder", session="s1", server=SERVER, destination="d1", tool=TOOL, risk=risk, arguments=b"{}"
    )
    return Cover(grant.id, grant.words, grant.exact) if covers(grant, request, 0, 1.0) else None


def verdict(decision: Allow | Ask | Deny) -> Verdict:
    match decision:
        case Allow():
            return "allow"
        case Ask():
            return "ask once" if decision.once_only else "ask"
        case Deny():
            return "deny"


def cases(override: str, server: str) -> Iterator[Case]:
    rest = (("untrusted", "trusted"), HINTS, GRANTS, AUTO, RISKS)
    for trust, hint, grant, auto, most in itertools.product(*rest):
        yield Case(override, server, trust, hint, grant, auto, most)


@pytest.mark.parametrize("server", PINS)
@pytest.mark.parametrize("override", PINS)
def test_every_combination(override: str, server: str) -> None:
    count = 0
    for case in cases(override, server):
        ruling = ruled(case)
        found = (ruling.risk, ruling.approval, verdict(decided(case, ruling)))
        assert found == expected(case), case
        count += 1
    assert count == 2 * 4 * 3 * 3 * 3


@pytest.mark.parametrize("override", PINS)
def test_a_persons_yes_answers_every_question_and_lifts_no_denial(override: str) -> None:
    answered: dict[Verdict, Verdict] = {"ask": "allow", "ask once": "allow", "allow": "allow", "deny": "deny"}
    for case in cases(override, "-"):
        decision = decided(case, ruled(case), approved="q1")
        assert verdict(decision) == answered[expected(case)[2]], case
        if isinstance(decision, Allow) and expected(case)[2] in ("ask", "ask once"):
            assert decision.approved == "q1"


def test_the_order_of_trust_and_hints_is_not_that_of_pins() -> None:
    # b13: trust approves nothing by itself, grants nothing, overrides no policy.
    for pins in ("always", "deny", "high"):
        for hint in HINTS:
            case = Case(pins, "-", "trusted", hint, "none", "none", "high")
            distrusted = case._replace(trust="untrusted")
            pinned = PINS[pins]
            for each in (case, distrusted):
                ruling = ruled(each)
                assert pinned.risk in (None, ruling.risk)
                assert pinned.approval in (None, ruling.approval)


hints = st.sampled_from([None, True, False])
annotations_ = st.builds(Annotations, hints, hints, hints, hints)
policies = st.builds(
    Policy, st.none() | st.sampled_from(RISKS), st.none() | st.sampled_from(APPROVALS), st.none()
)
patterns = st.sampled_from(["*", "fs__*", "fs__w*", "fs__?rite_file", "fs__write_file", "git__*", "*file"])
tables = st.lists(st.tuples(patterns, policies), max_size=5)
#: A person who wants silent tools to be milder than the usual has said so (D7).
settings_ = st.builds(
    Settings, risk=st.sampled_from(RISKS), approval=st.sampled_from(APPROVALS), unannotated=st.just("high")
)


def any_ruling(
    said: Annotations,
    own: Policy,
    table: list[tuple[str, Policy]],
    settings: Settings,
    trusted: bool,
) -> Ruling:
    subject = Subject(SERVER, Tool(TOOL, b"", said), NAMES, own, tuple(table), settings)
    return resolve(subject, trusted=trusted)


def rank(ruling: Ruling) -> tuple[int, int]:
    return risk_rank(ruling.risk), approval_rank(ruling.approval)


@given(annotations_, policies, tables, settings_, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_rules_changes_nothing(
    said: Annotations,
    own: Policy,
    table: list[tuple[str, Policy]],
    settings: Settings,
    trusted: bool,
    random: Any,
) -> None:
    first = any_ruling(said, own, table, settings, trusted)
    random.shuffle(table)
    assert rank(any_ruling(said, own, table, settings, trusted)) == rank(first)


@given(annotations_, policies, tables, settings_, st.booleans())
def test_a_missing_hint_lowers_nothing(
    said: Annotations, own: Policy, table: list[tuple[str, Policy]], settings: Settings, trusted: bool
) -> None:
    """Against what it would be where the hint said the milder thing."""
    silent = any_ruling(said, own, table, settings, trusted)
    for field, milder in (("read_only_hint", True), ("destructive_hint", False), ("idempotent_hint", True)):
        if getattr(said, field) is None:
            known = {name: getattr(said, name) for name in said.__struct_fields__} | {field: milder}
            told = any_ruling(Annotations(**known), own, table, settings, trusted)
            assert risk_rank(silent.risk) >= risk_rank(told.risk)
            assert approval_rank(silent.approval) >= approval_rank(told.approval)


WORDS = st.text("abdehilmnorsuvwy_ ", max_size=8).filter(lambda word: word not in (*RISKS, *APPROVALS))


@hypothesis.settings(max_examples=25)
@given(st.sampled_from(["risk", "approval"]), WORDS, annotations_, st.booleans())
def test_an_unknown_word_in_a_file_lowers_nothing(
    field: str, word: str, said: Annotations, trusted: bool
) -> None:
    """Against the same file without it: for a tool, in the settings, for an agent."""
    without, broken = (
        loaded(line) for line in ("", f'[tool_policies]\n"fs__*" = {{ {field} = "{word}" }}\n')
    )
    for config in (broken, loaded(f'[defaults]\n{field} = "{word}"\n')):
        before, after = (
            any_ruling(said, Policy(), [*each.tool_policies], each.settings, trusted)
            for each in (without, config)
        )
        assert risk_rank(after.risk) >= risk_rank(before.risk)
        assert approval_rank(after.approval) >= approval_rank(before.approval)
    agent = loaded(f'[agents.coder]\nmax_risk = "{word}"\n').agents["coder"]
    assert barred(agent, NAMES)


def loaded(text: str) -> Config:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.toml").write_text(text)
        return load(Path(folder), {})


@given(annotations_, policies, tables, settings_)
def test_trust_is_all_that_lets_a_hint_lower(
    said: Annotations, own: Policy, table: list[tuple[str, Policy]], settings: Settings
) -> None:
    distrusted = any_ruling(said, own, table, settings, False)
    silent = any_ruling(Annotations(), own, table, settings, False)
    assert risk_rank(distrusted.risk) >= risk_rank(silent.risk)
    assert approval_rank(distrusted.approval) >= approval_rank(silent.approval)
    for name in ("risk", "approval"):
        pinned = getattr(own, name) is not None or any(getattr(each, name) is not None for _, each in table)
        if not pinned and name == "risk":
            assert distrusted.risk == "high"
        if not pinned and name == "approval":
            assert approval_rank(distrusted.approval) >= approval_rank("unless_auto_approved")


MILD: dict[Verdict, int] = {"allow": 0, "ask": 1, "ask once": 2, "deny": 3}

rulings = st.builds(
    lambda risk, approval: Ruling(risk, approval, 60.0, ("", "", "")),
    st.sampled_from(RISKS),
    st.sampled_from(APPROVALS),
)
cases_ = st.builds(
    lambda grant, auto, most: Case("-", "-", "trusted", "none", grant, auto, most),
    st.sampled_from(GRANTS),
    st.sampled_from(list(AUTO)),
    st.sampled_from(RISKS),
)


@given(rulings, cases_)
def test_more_risk_or_a_stricter_rule_is_never_milder(ruling: Ruling, case: Case) -> None:
    now = MILD[verdict(decided(case, ruling))]
    for risk, approval in itertools.product(RISKS, APPROVALS):
        if risk_rank(risk) >= risk_rank(ruling.risk) and approval_rank(approval) >= approval_rank(
            ruling.approval
        ):
            stricter = Ruling(risk, approval, 60.0, ruling.because)
            assert MILD[verdict(decided(case, stricter))] >= now


@given(rulings, cases_)
def test_a_lower_max_risk_is_never_milder_and_a_grant_never_stricter(ruling: Ruling, case: Case) -> None:
    now = MILD[verdict(decided(case, ruling))]
    for most in RISKS:
        if risk_rank(most) <= risk_rank(case.max_risk):
            assert MILD[verdict(decided(case._replace(max_risk=most), ruling))] >= now
    assert MILD[verdict(decided(case._replace(grant="exact"), ruling))] <= now
    assert MILD[verdict(decided(case._replace(auto="exact"), ruling))] <= now
