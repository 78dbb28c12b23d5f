"""Rulings and allowlists: a23-a26, a29, b11-b13, D3, D4, D7, D11."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.names import Spelling, export, original
from mcpd.catalog.tool import Annotations, Tool, read_tools
from mcpd.config.spec import Agent, Settings
from mcpd.policy.rules import Ruling, Subject, barred, may_replay, may_use_server, may_use_whole, resolve
from mcpd.policy.terms import (
    APPROVALS,
    RISKS,
    Approval,
    Leaks,
    Policy,
    Replay,
    Risk,
    approval_rank,
    risk_rank,
)

READ = Annotations(read_only_hint=True)
DESTROY = Annotations(destructive_hint=True)
BOTH = Annotations(read_only_hint=True, destructive_hint=True)
SILENT = Annotations()
OPEN = Policy()
BUILT_IN = Settings()


def rule(
    annotations: Annotations = SILENT,
    own: Policy = OPEN,
    tools: tuple[tuple[str, Policy], ...] = (),
    settings: Settings = BUILT_IN,
    *,
    trusted: bool = False,
    tool: str = "write_file",
) -> Ruling:
    spellings = (original("fs", tool), export("fs", tool))
    return resolve(
        Subject("fs", Tool(tool, b"", annotations), spellings, own, tools, settings), trusted=trusted
    )


@pytest.mark.parametrize(
    ("annotations", "trusted", "risk", "approval"),
    [
        # b11, D4: untrusted is high, whatever it says; destructive raises.
        (SILENT, False, "high", "unless_auto_approved"),
        (READ, False, "high", "unless_auto_approved"),
        (Annotations(destructive_hint=False), False, "high", "unless_auto_approved"),
        (DESTROY, False, "high", "always"),
        (BOTH, False, "high", "always"),
        # a24: destructive wins
        (READ, True, "low", "never"),
        (Annotations(read_only_hint=True, destructive_hint=False), True, "low", "never"),
        (DESTROY, True, "high", "always"),
        (BOTH, True, "high", "always"),
        # D7
        (SILENT, True, "medium", "unless_auto_approved"),
        (Annotations(idempotent_hint=True, open_world_hint=False), True, "medium", "unless_auto_approved"),
        (Annotations(read_only_hint=False), True, "medium", "unless_auto_approved"),
        (Annotations(destructive_hint=False), True, "medium", "unless_auto_approved"),
        (Annotations(read_only_hint=False, destructive_hint=False), True, "medium", "unless_auto_approved"),
    ],
)
def test_annotations_and_trust(
    annotations: Annotations, trusted: bool, risk: Risk, approval: Approval
) -> None:
    found = rule(annotations, trusted=trusted)
    assert (found.risk, found.approval, found.timeout) == (risk, approval, 60)


@pytest.mark.parametrize(
    ("annotations", "risk"),
    [
        (SILENT, "low"),
        (Annotations(idempotent_hint=True), "low"),
        # Who says that it changes something has not been silent.
        (Annotations(read_only_hint=False), "medium"),
        (READ, "low"),
        (DESTROY, "high"),
    ],
)
def test_unannotated_low_gives_jazz_its_rule(annotations: Annotations, risk: Risk) -> None:
    settings = Settings(unannotated="low")
    assert rule(annotations, settings=settings, trusted=True).risk == risk
    assert rule(annotations, settings=settings).risk == "high"


def test_unannotated_does_not_decide_about_approval() -> None:
    assert rule(settings=Settings(unannotated="low"), trusted=True).approval == "unless_auto_approved"


@pytest.mark.parametrize(
    ("approval", "annotations", "trusted", "expected"),
    [
        ("never", SILENT, False, "unless_auto_approved"),
        ("never", DESTROY, False, "always"),
        ("always", SILENT, False, "always"),
        ("deny", DESTROY, False, "deny"),
        ("deny", DESTROY, True, "deny"),
        ("never", SILENT, True, "never"),
        ("always", SILENT, True, "always"),
        ("always", READ, True, "never"),
    ],
)
def test_the_floor_is_not_below_the_settings(
    approval: Approval, annotations: Annotations, trusted: bool, expected: Approval
) -> None:
    assert rule(annotations, settings=Settings(approval=approval), trusted=trusted).approval == expected


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("annotations", [SILENT, READ, DESTROY, BOTH])
def test_the_users_pins_win_over_annotations_and_trust(annotations: Annotations, trusted: bool) -> None:
    own = Policy("low", "never", 120)
    assert rule(annotations, own, trusted=trusted).risk == "low"
    assert rule(annotations, own, trusted=trusted).approval == "never"
    assert rule(annotations, own, trusted=trusted).timeout == 120
    strict = rule(annotations, own, (("fs__*", Policy("high", "deny", 5)),), trusted=trusted)
    assert (strict.risk, strict.approval, strict.timeout) == ("high", "deny", 5)


def test_each_field_is_decided_on_its_own() -> None:
    found = rule(
        DESTROY,
        Policy(risk="medium", timeout=10),
        (("fs__write_*", Policy(approval="never")), ("fs__*", Policy(timeout=20))),
    )
    assert (found.risk, found.approval, found.timeout) == ("medium", "never", 20)
    assert found.because == (
        'risk medium: default_policy of server "fs"',
        'approval never: tool policy "fs__write_*"',
        'timeout 20 s: tool policy "fs__*"',
    )


def test_because_names_the_rule_of_annotations_and_settings() -> None:
    assert rule().because == (
        'risk high: server "fs" is untrusted (b11)',
        'approval unless_auto_approved: server "fs" is untrusted (b11)',
        "timeout 60 s: settings",
    )
    assert rule(READ, trusted=True, settings=Settings(timeout=0)).because == (
        'risk low: trusted server "fs" calls the tool read-only (a24)',
        'approval never: trusted server "fs" calls the tool read-only (a24)',
        "timeout none: settings",
    )
    assert rule(settings=Settings(approval="deny")).because[1] == "approval deny: settings"


@pytest.mark.parametrize(
    ("patterns", "winner"),
    [
        (("fs__write_file", "fs__write_*"), "fs__write_file"),
        (("*", "fs__*"), "fs__*"),
        (("*__write_file", "fs__*"), "fs__*"),
        (("fs__*", "fs__w*", "fs__wr*"), "fs__wr*"),
        (("fs__*e", "fs__*file"), "fs__*file"),
        (("*file", "*le"), "*file"),
    ],
)
def test_the_most_specific_pattern_counts_in_any_order(patterns: tuple[str, ...], winner: str) -> None:
    for order in itertools.permutations(patterns):
        policies = tuple((each, Policy(timeout=7 if each == winner else 1)) for each in order)
        assert rule(tools=policies).timeout == 7


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_equally_specific_patterns_the_stricter_counts(order: tuple[int, int]) -> None:
    both = (("fs__write?file", Policy("low", "always", 0)), ("fs__write*file", Policy("medium", "never", 30)))
    found = rule(tools=tuple(both[n] for n in order))
    assert (found.risk, found.approval, found.timeout) == ("medium", "always", 30)


def test_a_specific_policy_that_leaves_a_field_open_does_not_decide_it() -> None:
    found = rule(tools=(("fs__write_file", Policy(risk="low")), ("fs__*", Policy(approval="never"))))
    assert (found.risk, found.approval) == ("low", "never")


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [
        ("fs__a.b", True),
        ("fs__a_b", True),
        ("fs__a?b", True),
        ("fs__a.*", True),
        ("a.b", False),
        ("x__a.b", False),
    ],
)
def test_patterns_mean_the_original_and_the_exported_spelling(pattern: str, hit: bool) -> None:
    found = rule(tools=((pattern, Policy(approval="never")),), tool="a.b")
    assert (found.approval == "never") is hit


hints = st.sampled_from([None, True, False])
annotations_ = st.builds(Annotations, hints, hints, hints, hints)
settings_ = st.builds(
    Settings,
    risk=st.sampled_from(RISKS),
    approval=st.sampled_from(APPROVALS),
    unannotated=st.sampled_from(RISKS),
)
odd = st.none() | st.integers() | st.text() | st.sampled_from(["true", "false", 0, 1, [], {}])


@given(annotations_, settings_)
def test_nothing_an_untrusted_server_says_makes_a_tool_milder(said: Annotations, settings: Settings) -> None:
    silent, found = rule(settings=settings), rule(said, settings=settings)
    assert found.risk == "high"
    assert approval_rank(found.approval) >= approval_rank(silent.approval)
    assert approval_rank(found.approval) >= approval_rank("unless_auto_approved")
    assert approval_rank(found.approval) >= approval_rank(settings.approval)


@given(annotations_, settings_)
def test_trust_alone_only_lowers_by_what_is_said(said: Annotations, settings: Settings) -> None:
    found = rule(said, settings=settings, trusted=True)
    if said.destructive_hint:
        assert found.risk == "high"
        assert approval_rank(found.approval) >= approval_rank("always")
    elif said.read_only_hint:
        assert (found.risk, found.approval) == ("low", "never")
    else:
        assert found.approval == settings.approval
        least = settings.risk if said.destructive_hint is False else settings.unannotated
        assert risk_rank(found.risk) >= risk_rank(least)


@given(
    st.dictionaries(st.sampled_from(["readOnlyHint", "destructiveHint", "idempotentHint", "x"]), odd),
    settings_,
    st.booleans(),
)
def test_an_unknown_value_counts_as_not_said(
    said: dict[str, object], settings: Settings, trusted: bool
) -> None:
    definition = {"name": "write_file", "inputSchema": {"type": "object"}, "annotations": said}
    (tool,), _ = read_tools([json.dumps(definition).encode()])
    assert rule(tool.annotations, settings=settings, trusted=trusted) == rule(
        settings=settings, trusted=trusted
    )


def agent(
    allowed: tuple[str, ...] | None, denied: tuple[str, ...] = (), spelling: Spelling = "server__tool"
) -> Agent:
    return Agent(name="coder", allowed_tools=allowed, denied_tools=denied, spelling=spelling)


def may(who: Agent, server: str, tool: str) -> bool:
    return not barred(who, (original(server, tool), export(server, tool, who.spelling)))


@pytest.mark.parametrize(
    ("who", "usable"),
    [
        (agent(None), {"fs__read", "fs__a.b", "git__push"}),
        (agent(()), set()),
        (agent(("*",)), {"fs__read", "fs__a.b", "git__push"}),
        (agent(("fs__*",)), {"fs__read", "fs__a.b"}),
        (agent(("fs__read",)), {"fs__read"}),
        (agent(("fs__a.b",)), {"fs__a.b"}),
        (agent(("fs__a_b",)), {"fs__a.b"}),
        (agent(("read", "fs", "fs__")), set()),
        (agent(None, ("fs__*",)), {"git__push"}),
        (agent(("*",), ("*__push",)), {"fs__read", "fs__a.b"}),
        (agent(("fs__read",), ("fs__read",)), set()),
        (agent(None, ("*",)), set()),
        (agent(None, ("fs__a_b",)), {"fs__read", "git__push"}),
        (agent(("mcp_fs_*",), (), "mcp_server_tool"), {"fs__read", "fs__a.b"}),
        (agent(("fs__*",), (), "mcp_server_tool"), {"fs__read", "fs__a.b"}),
        (agent(("mcp_fs_*",)), set()),
        (agent(None, ("mcp_git_push",), "mcp_server_tool"), {"fs__read", "fs__a.b"}),
    ],
)
def test_who_may_use_what(who: Agent, usable: set[str]) -> None:
    tools = [("fs", "read"), ("fs", "a.b"), ("git", "push")]
    assert {original(*pair) for pair in tools if may(who, *pair)} == usable
    for server in ("fs", "git"):
        any_usable = any(name.startswith(f"{server}__") for name in usable)
        assert may_use_server(who, server) or not any_usable


@pytest.mark.parametrize(
    ("who", "server", "usable"),
    [
        (agent(None), "fs", True),
        (agent(()), "fs", False),
        (agent(("fs__*",)), "fs", True),
        (agent(("fs__*",)), "git", False),
        (agent(("fs__new_tool",)), "fs", True),
        (agent(("fs__?",)), "fs", True),
        (agent(("fs__",)), "fs", False),
        (agent(("fs",)), "fs", False),
        (agent(("f*",)), "fs", True),
        (agent(("f*",)), "git", False),
        (agent(("*__read",)), "git", True),
        (agent(("?s__read",)), "fs", True),
        (agent(("?s__read",)), "git", False),
        (agent(("_7z__*",)), "7z", True),
        (agent(("7z__*",)), "7z", True),
        (agent(("a_b__*",)), "a.b", True),
        (agent(("a.b__*",)), "a.b", True),
        (agent(("mcp_fs_*",)), "fs", False),
        (agent(("mcp_fs_*",), (), "mcp_server_tool"), "fs", True),
        (agent(None, ("fs__*",)), "fs", False),
        (agent(None, ("fs*",)), "fs", False),
        (agent(None, ("*",)), "fs", False),
        (agent(None, ("fs__*",)), "git", True),
        (agent(None, ("fs__r*",)), "fs", True),
        (agent(None, ("*__delete_*",)), "fs", True),
        (agent(("fs__read",), ("fs__read",)), "fs", False),
    ],
)
def test_which_servers_an_agent_may_come_to_use(who: Agent, server: str, usable: bool) -> None:
    assert may_use_server(who, server) is usable


patterns = st.lists(st.text("ab_.*?", max_size=7), max_size=3).map(tuple)


@given(
    st.none() | patterns,
    patterns,
    st.sampled_from(["a", "b", "a.b", "a_b"]),
    st.text("ab_.", min_size=1, max_size=4),
    st.sampled_from(["server__tool", "mcp_server_tool"]),
)
def test_a_server_with_a_usable_tool_is_never_refused(
    allowed: tuple[str, ...] | None, denied: tuple[str, ...], server: str, tool: str, spelling: Spelling
) -> None:
    who = agent(allowed, denied, spelling)
    if may(who, server, tool):
        assert may_use_server(who, server)
    else:
        assert not may_use_whole(who, server)


@pytest.mark.parametrize(
    ("who", "whole"),
    [
        (agent(None), True),
        (agent(("*",)), True),
        (agent(("git__*", "fs__*")), True),
        (agent(("mcp_fs_*",), (), "mcp_server_tool"), True),
        (agent(None, ("git__*",)), True),
        (agent(()), False),
        (agent(("fs__read", "fs__write")), False),
        (agent(None, ("fs__*",)), False),
        (agent(("*",), ("*__delete_*",)), False),
        (agent(None, ("mcp_fs_delete",), "mcp_server_tool"), False),
    ],
)
def test_where_no_tool_needs_to_be_asked_for(who: Agent, whole: bool) -> None:
    assert may_use_whole(who, "fs") is whole


@pytest.mark.parametrize(
    ("replay", "reached", "annotations", "trusted", "again"),
    [
        ("auto", False, SILENT, False, True),
        ("auto", False, DESTROY, False, True),
        ("auto", True, SILENT, True, False),
        ("auto", True, READ, True, True),
        ("auto", True, READ, False, False),
        ("auto", True, Annotations(idempotent_hint=True), True, True),
        ("auto", True, Annotations(idempotent_hint=True), False, False),
        ("auto", True, BOTH, True, False),
        ("auto", True, DESTROY, True, False),
        ("auto", True, Annotations(read_only_hint=False), True, False),
        ("always", True, DESTROY, False, True),
        ("always", False, SILENT, False, True),
        ("never", True, READ, True, False),
        ("never", False, READ, True, False),
    ],
)
def test_which_calls_are_sent_again(
    replay: Replay, reached: bool, annotations: Annotations, trusted: bool, again: bool
) -> None:
    assert may_replay(replay, reached, annotations, trusted=trusted) is again


ALLOW = Policy(leaks=Leaks(arguments="allow", results="allow"))
ASK = Policy(leaks=Leaks(arguments="ask", results="redact"))
TAKES = Policy(leaks=Leaks(arguments="allow"))


@pytest.mark.parametrize(
    ("own", "tools", "takes", "gives"),
    [
        (OPEN, (), False, False),
        (ALLOW, (), True, True),
        (TAKES, (), True, False),
        (OPEN, (("fs__*", TAKES),), True, False),
        (ALLOW, (("fs__*", ASK),), False, False),
        (ALLOW, (("fs__write_file", TAKES), ("fs__*", ASK)), True, False),
        (ALLOW, (("fs__write_*", ASK), ("fs__write_?", ALLOW), ("other__*", ALLOW)), False, False),
        # of equally specific ones the stricter
        (OPEN, (("fs__w*e", ALLOW), ("fs__w*e", ASK)), False, False),
    ],
)
def test_what_becomes_of_secrets_goes_down_the_same_chain(
    own: Policy, tools: tuple[tuple[str, Policy], ...], takes: bool, gives: bool
) -> None:
    """n17, a23: a tool's policy before its server's, else secrets are asked about and redacted."""
    found = rule(own=own, tools=tools, trusted=True)
    assert (found.takes_secrets, found.gives_secrets) == (takes, gives)
