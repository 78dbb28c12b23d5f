"""What a reading of the files may change by itself (a03); everything else waits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcpd.config.narrow import Narrowed, keep, narrows
from mcpd.config.spec import Agent, Config, Faulty, Policy, Problem, Server, Settings
from mcpd.policy.terms import APPROVALS, RISKS, Leaks, glob_match, specificity

A = Server(name="a", source="a.toml", command="x", args=("1",), env={"K": "v"}, start="eager", replay="auto")
BROKEN = Faulty("a", "a.toml", "bad_definition", "command: expected a text, found a number")


def words(narrowed: Narrowed) -> dict[str, str]:
    return {name: hold.words for name, hold in narrowed.held.items()}


def config(*servers: Server | Faulty, agents: tuple[Agent, ...] = (), **more: object) -> Config:
    return Config(
        servers={server.name: server for server in servers if isinstance(server, Server)},
        faulty={server.name: server for server in servers if isinstance(server, Faulty)},
        agents={agent.name: agent for agent in agents},
        **more,  # type: ignore[arg-type]
    )


# Servers -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"enabled": False, "disabled_by": "a.toml"},
        {"start": "lazy"},
        {"replay": "never"},
        {"policy": Policy(approval="deny")},
        {"policy": Policy(risk="high")},
        {"source": "b.toml"},
    ],
    ids=str,
)
def test_what_narrows_a_server_applies_by_itself(change: dict[str, object]) -> None:
    # A rule that denies exists, so that only "deny" is surely the strictest.
    policies = (("z__*", Policy(approval="deny")),)
    after = config(replace(A, **change), tool_policies=policies)
    assert narrows(config(A, tool_policies=policies), after) == (after, {})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"command": "y"}, "command changed, waits for mcpctl reload"),
        ({"args": ("1", "2")}, "args changed, waits for mcpctl reload"),
        ({"env": {}}, "env changed, waits for mcpctl reload"),
        ({"cwd": "/x"}, "cwd changed, waits for mcpctl reload"),
        ({"path": "/x"}, "path changed, waits for mcpctl reload"),
        ({"command": "", "url": "https://h/"}, "command and url changed, waits for mcpctl reload"),
        ({"headers": {"A": "b"}}, "headers changed, waits for mcpctl reload"),
        ({"protocol": "legacy"}, "protocol changed, waits for mcpctl reload"),
        ({"replay": "always"}, "replay changed, waits for mcpctl reload"),
        ({"sampling": True}, "sampling changed, waits for mcpctl reload"),
        ({"roots": "fixed"}, "roots changed, waits for mcpctl reload"),
        ({"instance": "agent"}, "instance changed, waits for mcpctl reload"),
        ({"connect_timeout": 1.0}, "connect_timeout changed, waits for mcpctl reload"),
        ({"policy": Policy(approval="never")}, "default_policy changed, waits for mcpctl reload"),
        ({"policy": Policy(approval="always")}, "default_policy changed, waits for mcpctl reload"),
        ({"policy": Policy(timeout=5)}, "default_policy changed, waits for mcpctl reload"),
    ],
    ids=str,
)
def test_what_does_not_waits_and_the_running_definition_stays(change: dict[str, object], reason: str) -> None:
    policies = (("z__*", Policy(approval="deny")),)
    running = config(A, tool_policies=policies)
    held = narrows(running, config(replace(A, source="b.toml", **change), tool_policies=policies))
    same_program = replace(A, **change).digest == A.digest
    expected = replace(A, source="b.toml") if same_program else A
    assert held.config.servers == {"a": expected}
    assert words(held) == {"a": reason}


def test_asking_less_of_agents_applies_at_once() -> None:
    running = replace(A, sampling=True, roots="agent")
    for less in (replace(running, sampling=False), replace(running, roots="fixed"), A):
        assert narrows(config(running), config(less)) == (config(less), {})


def test_switching_on_waits_and_switching_off_applies_even_when_more_changed() -> None:
    off = replace(A, enabled=False, disabled_by="a.toml")
    assert narrows(config(off), config(A)).config.servers == {"a": off}
    assert words(narrows(config(off), config(A))) == {"a": "enabled changed, waits for mcpctl reload"}
    both = narrows(config(A), config(replace(off, command="y")))
    assert both.config.servers == {"a": off}
    assert words(both) == {"a": "command changed, waits for mcpctl reload"}


def test_eager_waits() -> None:
    lazy = replace(A, start="lazy")
    assert words(narrows(config(lazy), config(A))) == {"a": "start changed, waits for mcpctl reload"}


def test_removed_servers_go_and_new_ones_are_not_there_yet() -> None:
    b = replace(A, name="b")
    narrowed = narrows(config(A), config(b))
    assert narrowed.config.servers == {}
    assert words(narrowed) == {"b": "new, waits for mcpctl reload"}


def test_a_running_server_outlives_a_definition_that_cannot_be_used() -> None:
    narrowed = narrows(config(A), config(BROKEN))
    assert narrowed.config.servers == {"a": A}
    assert narrowed.config.faulty == {}
    assert BROKEN.message in words(narrowed)["a"]


def test_a_running_server_outlives_a_reload_of_one_as_well() -> None:
    b = replace(A, name="b")
    kept = keep(config(A, b), config(BROKEN, replace(BROKEN, name="new")))
    assert kept.config == config(A, replace(BROKEN, name="new"))
    assert BROKEN.message in words(kept)["a"]
    assert kept.held.keys() == {"a"}


def test_what_a_file_says_is_no_command_that_a_person_is_told() -> None:
    """The next step was read back out of the words, into which a faulty definition puts its own."""
    rude = replace(BROKEN, message='"waits for rm -rf ~" is no field')
    for narrowed in (keep(config(A), config(rude)), narrows(config(A), config(rude))):
        assert narrowed.held["a"].command == "mcpctl reload"
        assert "rm -rf" in narrowed.held["a"].words


@pytest.mark.parametrize("read", [keep, narrows])
def test_a_definition_that_cannot_be_used_can_still_switch_off(
    read: Callable[[Config, Config], Narrowed],
) -> None:
    broken = replace(BROKEN, disabled_by="main")
    assert read(config(A), config(broken)).config.servers == {
        "a": replace(A, enabled=False, disabled_by="main")
    }


def test_faulty_entries_come_change_and_go_but_a_mended_one_waits() -> None:
    worse = replace(BROKEN, message="args: expected a list of texts, found a text")
    assert narrows(config(), config(BROKEN)).config.faulty == {"a": BROKEN}
    assert narrows(config(BROKEN), config(worse)).config.faulty == {"a": worse}
    assert narrows(config(BROKEN), config()).config.faulty == {}
    mended = narrows(config(BROKEN), config(A))
    assert mended.config.faulty == {"a": BROKEN}
    assert mended.config.servers == {}
    assert words(mended) == {"a": "mended, waits for mcpctl reload"}


def test_what_comes_back_unchanged_is_no_longer_held() -> None:
    running = config(A)
    held = narrows(running, config(replace(A, command="y")))
    assert narrows(held.config, running) == (running, {})


# Policies ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected", "waits"),
    [
        # (policy before, after, applied, whether something waits); None: no entry.
        (Policy(approval="never"), Policy(approval="always"), Policy(approval="always"), False),
        (Policy(approval="always"), Policy(approval="never"), Policy(approval="always"), True),
        (Policy(risk="low"), Policy(risk="medium"), Policy(risk="medium"), False),
        (Policy(risk="high"), Policy(risk="low"), Policy(risk="high"), True),
        # Other rules may have said anything up to "always": only that is surely no milder.
        (None, Policy(approval="always"), Policy(approval="always"), False),
        (None, Policy(approval="unless_auto_approved"), None, True),
        (None, Policy(risk="high"), Policy(risk="high"), False),
        (None, Policy(risk="medium"), None, True),
        # Nothing is milder than the mildest, whatever rule decides next.
        (Policy(approval="never", risk="low"), None, None, False),
        (Policy(approval="always"), None, Policy(approval="always"), True),
        (Policy(timeout=60), Policy(timeout=30), Policy(timeout=30), False),
        (Policy(timeout=0), Policy(timeout=30), Policy(timeout=30), False),
        (Policy(timeout=30), Policy(timeout=0), Policy(timeout=30), True),
        (None, Policy(leaks=Leaks(arguments="allow")), None, True),
        (Policy(leaks=Leaks(results="allow")), None, None, False),
        (Policy(leaks=Leaks("allow")), Policy(leaks=Leaks("ask", "allow")), Policy(leaks=Leaks("ask")), True),
        (
            Policy(risk="low", approval="always"),
            Policy(risk="high", approval="never"),
            Policy(risk="high", approval="always"),
            True,
        ),
    ],
    ids=str,
)
def test_tool_policies(old: Policy | None, new: Policy | None, expected: Policy | None, waits: bool) -> None:
    def with_policy(policy: Policy | None) -> Config:
        return config(tool_policies=() if policy is None else (("a__t", policy),))

    narrowed = narrows(with_policy(old), with_policy(new)).config
    got = dict(narrowed.tool_policies).get("a__t")
    assert (got or Policy()) == (expected or Policy())
    assert bool(narrowed.problems) == waits
    for problem in narrowed.problems:
        assert problem.place == "tool_policies.a__t"
        assert "waits for mcpctl reload" in problem.message


def test_defaults_only_become_stricter() -> None:
    old, new = (
        Settings(risk="medium", approval="always"),
        Settings(risk="high", approval="never", max_result=0),
    )
    narrowed = narrows(config(settings=old), config(settings=new)).config
    assert narrowed.settings == replace(old, risk="high")
    assert {problem.place for problem in narrowed.problems} == {"defaults.approval", "defaults.max_result"}


POLICIES = st.builds(Policy, st.sampled_from([None, *RISKS]), st.sampled_from([None, *APPROVALS]))
CONFIGS = st.builds(
    lambda settings, server, tools: config(
        replace(A, policy=server), settings=settings, tool_policies=tuple(tools.items())
    ),
    st.builds(Settings, risk=st.sampled_from(RISKS), approval=st.sampled_from(APPROVALS)),
    POLICIES,
    st.dictionaries(st.sampled_from(["a__t", "a__*", "*__t", "*", "b__*"]), POLICIES),
)


def effective(config: Config, tool: str) -> tuple[int, int]:
    """The tiers of a23 for a tool without annotations, worked out the long way."""
    matching = [(p, policy) for p, policy in config.tool_policies if glob_match(p, tool)]
    matching.sort(key=lambda pair: specificity(pair[0]), reverse=True)
    chain = [policy for _, policy in matching] + [config.servers["a"].policy]
    risk = next((policy.risk for policy in chain if policy.risk), config.settings.risk)
    approval = next((policy.approval for policy in chain if policy.approval), config.settings.approval)
    return RISKS.index(risk), APPROVALS.index(approval)


@given(CONFIGS, CONFIGS)
def test_no_tool_is_ever_more_open_than_it_was(running: Config, read: Config) -> None:
    narrowed = narrows(running, read).config
    for tool in ("a__t", "a__u"):
        before, after = effective(running, tool), effective(narrowed, tool)
        assert after[0] >= before[0]
        assert after[1] >= before[1]


@given(CONFIGS)
def test_without_a_change_nothing_is_held(running: Config) -> None:
    assert narrows(running, running) == (running, {})


# Agents --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "expected", "waits"),
    [
        (None, ("a__*",), ("a__*",), False),
        (("a__*",), None, ("a__*",), True),
        (("a__*", "b__*"), ("a__*",), ("a__*",), False),
        (("a__*",), ("a__*", "b__*"), ("a__*",), True),
        (("a__*",), (), (), False),
        ((), ("a__*",), (), True),
        (("a__*",), ("a__read",), ("a__read",), False),
        (("a__*",), ("a__r*d",), ("a__r*d",), False),
        (("a__read",), ("a__*",), ("a__read",), True),
        # One taken away, one added: the first counts at once.
        (("a__*", "b__*"), ("b__*", "c__*"), ("b__*",), True),
        # "?" is one character and "*" any number of them.
        (("a__?",), ("a__*",), ("a__?",), True),
        (("a__?",), ("a__x",), ("a__x",), False),
    ],
    ids=str,
)
def test_allowlists_only_become_shorter(
    old: tuple[str, ...] | None, new: tuple[str, ...] | None, expected: tuple[str, ...] | None, waits: bool
) -> None:
    narrowed = narrows(
        config(agents=(Agent(name="c", allowed_tools=old),)),
        config(agents=(Agent(name="c", allowed_tools=new),)),
    ).config
    assert narrowed.agents["c"].allowed_tools == expected
    assert bool(narrowed.problems) == waits


@pytest.mark.parametrize(
    ("old", "new", "expected", "waits"),
    [
        ((), ("a__*",), ("a__*",), False),
        (("a__*",), (), ("a__*",), True),
        (("a__read",), ("a__*",), ("a__*",), False),
        (("a__*",), ("b__*",), ("b__*", "a__*"), True),
    ],
    ids=str,
)
def test_denylists_only_become_longer(
    old: tuple[str, ...], new: tuple[str, ...], expected: tuple[str, ...], waits: bool
) -> None:
    narrowed = narrows(
        config(agents=(Agent(name="c", denied_tools=old),)),
        config(agents=(Agent(name="c", denied_tools=new),)),
    ).config
    assert narrowed.agents["c"].denied_tools == expected
    assert bool(narrowed.problems) == waits


def test_agents_go_at_once_and_come_with_a_reload() -> None:
    c, d = Agent(name="c", source="c.toml"), Agent(name="d", source="d.toml")
    narrowed = narrows(config(agents=(c,)), config(agents=(d,))).config
    assert narrowed.agents == {}
    assert narrowed.problems == (Problem("d.toml", "agents.d", "a new agent, waits for mcpctl reload"),)


def test_the_default_agent_is_there_without_an_entry() -> None:
    closed = Agent(name="default", source="default.toml", allowed_tools=())
    assert narrows(config(), config(agents=(closed,))).config.agents == {"default": closed}
    # Taking the entry away would open everything.
    kept = narrows(config(agents=(closed,)), config()).config
    assert kept.agents["default"].allowed_tools == ()
    assert kept.problems


def test_an_agent_that_may_use_nothing_any_more_leaves_nothing_to_wait_for() -> None:
    old, new = Agent(name="c", denied_tools=("a__*",)), Agent(name="c", allowed_tools=())
    assert narrows(config(agents=(old,)), config(agents=(new,))).config == config(agents=(new,))


def test_openness_and_spelling_of_an_agent() -> None:
    c = Agent(name="c", open=True)
    closed = narrows(config(agents=(c,)), config(agents=(replace(c, open=False),))).config
    assert (closed.agents["c"].open, closed.problems) == (False, ())
    opened = narrows(config(agents=(replace(c, open=False),)), config(agents=(c,))).config
    assert (opened.agents["c"].open, len(opened.problems)) == (False, 1)
    spelled = narrows(config(agents=(c,)), config(agents=(replace(c, spelling="mcp_server_tool"),))).config
    assert (spelled.agents["c"].spelling, len(spelled.problems)) == ("server__tool", 1)


@pytest.mark.parametrize(
    ("old", "new", "expected", "waits"),
    [
        (("a__x", "b__*"), ("b__*",), ("b__*",), False),
        ((), ("a__*",), (), True),
        (("a__*",), ("a__r*",), ("a__r*",), False),
        # A glob approves up to medium risk, an exact name any (D10).
        (("a__*",), ("a__x",), (), True),
        (("a__x",), ("a__*",), (), True),
        (("a__x", "a__*"), ("a__x",), ("a__x",), False),
    ],
    ids=str,
)
def test_what_needs_no_question_only_becomes_less(
    old: tuple[str, ...], new: tuple[str, ...], expected: tuple[str, ...], waits: bool
) -> None:
    narrowed = narrows(
        config(agents=(Agent(name="c", auto_approve=old),)),
        config(agents=(Agent(name="c", auto_approve=new),)),
    ).config
    assert narrowed.agents["c"].auto_approve == expected
    assert bool(narrowed.problems) == waits


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (Agent(name="c", max_risk="low"), Agent(name="c", max_risk="medium")),
        (Agent(name="c", max_risk="medium"), Agent(name="c")),
        (Agent(name="c"), Agent(name="c", approver="host")),
    ],
    ids=str,
)
def test_how_far_an_agent_may_go_is_only_lowered(narrow: Agent, wide: Agent) -> None:
    assert narrows(config(agents=(wide,)), config(agents=(narrow,))).config == config(agents=(narrow,))
    held = narrows(config(agents=(narrow,)), config(agents=(wide,))).config
    assert held.agents == {"c": narrow}
    assert held.problems


def test_what_the_daemon_starts_or_waits_for_waits_for_a_reload() -> None:
    old, new = Settings(unannotated="low"), Settings(unannotated="high", notify=("x",), approval_wait=0.0)
    narrowed = narrows(config(settings=old), config(settings=new)).config
    assert narrowed.settings == replace(old, unannotated="high")
    assert {problem.place for problem in narrowed.problems} == {"defaults.notify", "defaults.approval_wait"}


PATTERNS = st.lists(st.text("ab*?", max_size=3), max_size=3, unique=True).map(tuple)


@given(st.none() | PATTERNS, PATTERNS, st.none() | PATTERNS, PATTERNS, st.text("ab", max_size=4))
def test_no_agent_is_ever_allowed_more_than_before(
    allowed: tuple[str, ...] | None,
    denied: tuple[str, ...],
    allowed_later: tuple[str, ...] | None,
    denied_later: tuple[str, ...],
    tool: str,
) -> None:
    def may(agent: Agent) -> bool:
        allowed = agent.allowed_tools is None or any(glob_match(p, tool) for p in agent.allowed_tools)
        return allowed and not any(glob_match(p, tool) for p in agent.denied_tools)

    old = Agent(name="c", allowed_tools=allowed, denied_tools=denied)
    new = Agent(name="c", allowed_tools=allowed_later, denied_tools=denied_later)
    narrowed = narrows(config(agents=(old,)), config(agents=(new,))).config
    assert may(narrowed.agents["c"]) <= may(old)
    if not narrowed.problems:
        assert narrowed.agents["c"] == new
