"""What counts for a call of one tool, and who may use it at all.

Risk, approval and timeout go down one chain, each on its own (a23):
per-tool policy > the server's default_policy > annotations > settings.
A missing or unknown hint never makes anything milder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from mcpd.catalog.names import Spelling, original, prefix
from mcpd.catalog.tool import Annotations, Tool
from mcpd.policy.terms import (
    SECRETS_IN,
    SECRETS_OUT,
    Approval,
    Policy,
    Replay,
    Risk,
    SecretsIn,
    SecretsOut,
    approval_rank,
    glob_match,
    risk_rank,
    specificity,
    timeout_rank,
)

T = TypeVar("T")

#: What decides where nothing else says anything.
SETTINGS: Final = "settings"


class Defaults(Protocol):
    """What policy asks of the settings."""

    @property
    def risk(self) -> Risk: ...
    @property
    def approval(self) -> Approval: ...
    @property
    def timeout(self) -> float: ...
    @property
    def unannotated(self) -> Risk: ...


class AgentFacts(Protocol):
    """What policy asks of an agent."""

    @property
    def allowed_tools(self) -> tuple[str, ...] | None: ...
    @property
    def denied_tools(self) -> tuple[str, ...]: ...
    @property
    def spelling(self) -> Spelling: ...


class Ruling(msgspec.Struct, frozen=True):
    """What counts for one tool."""

    risk: Risk
    approval: Approval
    timeout: float
    """Seconds; 0 means no limit (D9)."""
    because: tuple[str, ...]
    """The deciding rule of risk, approval and timeout, in this order."""
    takes_secrets: bool = False
    """What looks like a secret may go into its arguments unasked (n17)."""
    gives_secrets: bool = False
    """What looks like a secret is left in its results."""


class _Hinted(msgspec.Struct, frozen=True):
    """What annotations and trust make of a tool; None leaves the field to the settings."""

    risk: Risk | None
    approval: Approval | None
    rule: str


class Choice(NamedTuple, Generic[T]):
    """What one rule says about one field."""

    value: T
    rule: str


class Chain(NamedTuple):
    """Every rule that says something, field by field, the deciding one first (a23)."""

    risk: tuple[Choice[Risk], ...]
    approval: tuple[Choice[Approval], ...]
    timeout: tuple[Choice[float], ...]


class Subject(NamedTuple):
    """A tool, and what the user's files say that could be meant for it."""

    server: str
    tool: Tool
    names: tuple[str, ...]
    """All names that a pattern may mean it by: the original and the exported ones (a26)."""
    server_policy: Policy
    tool_policies: tuple[tuple[str, Policy], ...]
    """(pattern, policy); their order does not matter."""
    settings: Defaults
    doubtful: str = ""
    """A name that another server's tool could have as well: by that a policy can be stricter, not milder
    (D2)."""


def resolve(subject: Subject, *, trusted: bool) -> Ruling:
    """The rules for a tool of a server (a23)."""
    found = chain(subject, trusted=trusted)
    takes, gives = _leaks(subject)
    if subject.doubtful:
        also = _leaks(_by_every_name(subject))
        takes, gives = takes and also[0], gives and also[1]
    risk, approval, timeout = found.risk[0], found.approval[0], found.timeout[0]
    because = (
        f"risk {risk.value}: {risk.rule}",
        f"approval {approval.value}: {approval.rule}",
        f"timeout {spelled(timeout.value)}: {timeout.rule}",
    )
    return Ruling(risk.value, approval.value, timeout.value, because, takes, gives)


def _by_every_name(subject: Subject) -> Subject:
    return subject._replace(names=(*subject.names, subject.doubtful), doubtful="")


def _matching(subject: Subject) -> list[tuple[str, Policy]]:
    """The tool policies that mean it by one of its sure names."""
    return [each for each in subject.tool_policies if _matches(each[0], subject.names)]


def _leaks(subject: Subject) -> tuple[bool, bool]:
    """Whether the tool takes secrets, and whether it gives them: down the same chain, else neither."""
    matching = [(pattern, policy.leaks) for pattern, policy in _matching(subject)]
    own = subject.server_policy.leaks
    takes: tuple[Choice[SecretsIn], ...] = _in_order(
        [(pattern, leaks.arguments) for pattern, leaks in matching],
        SECRETS_IN.index,
        (own.arguments, ""),
        ("ask", SETTINGS),
    )
    gives: tuple[Choice[SecretsOut], ...] = _in_order(
        [(pattern, leaks.results) for pattern, leaks in matching],
        SECRETS_OUT.index,
        (own.results, ""),
        ("redact", SETTINGS),
    )
    return takes[0].value == "allow", gives[0].value == "allow"


def spelled(timeout: float) -> str:
    return f"{timeout:g} s" if timeout else "none"


def chain(subject: Subject, *, trusted: bool) -> Chain:
    """What every rule says about a tool of a server."""
    if subject.doubtful:
        sure, other = (
            chain(each, trusted=trusted) for each in (subject._replace(doubtful=""), _by_every_name(subject))
        )
        return Chain(
            max(sure.risk, other.risk, key=lambda said: risk_rank(said[0].value)),
            max(sure.approval, other.approval, key=lambda said: approval_rank(said[0].value)),
            max(sure.timeout, other.timeout, key=lambda said: timeout_rank(said[0].value)),
        )
    server, settings, server_policy = subject.server, subject.settings, subject.server_policy
    matching = _matching(subject)
    own = f'default_policy of server "{server}"'
    hinted = _read_hints(subject.tool.annotations, server, settings, trusted=trusted)
    return Chain(
        _in_order(
            [(pattern, policy.risk) for pattern, policy in matching],
            risk_rank,
            (server_policy.risk, own),
            (hinted.risk, hinted.rule),
            (settings.risk, SETTINGS),
        ),
        _in_order(
            [(pattern, policy.approval) for pattern, policy in matching],
            approval_rank,
            (server_policy.approval, own),
            (hinted.approval, hinted.rule),
            (settings.approval, SETTINGS),
        ),
        _in_order(
            [(pattern, policy.timeout) for pattern, policy in matching],
            timeout_rank,
            (server_policy.timeout, own),
            (settings.timeout, SETTINGS),
        ),
    )


def _matches(pattern: str, names: Sequence[str]) -> bool:
    return any(glob_match(pattern, name) for name in names)


def _in_order(
    policies: Sequence[tuple[str, T | None]], rank: Callable[[T], float], *others: tuple[T | None, str]
) -> tuple[Choice[T], ...]:
    """Tool policies first: the most specific pattern, of equally specific ones the strictest (a23). Who
    leaves the field open says nothing."""
    said = [(pattern, value) for pattern, value in policies if value is not None]
    if len(said) > 1:
        said.sort(key=lambda each: (specificity(each[0]), rank(each[1])), reverse=True)
    first = [Choice(value, f'tool policy "{pattern}"') for pattern, value in said]
    return (*first, *(Choice(value, rule) for value, rule in others if value is not None))


def _read_hints(said: Annotations, server: str, settings: Defaults, *, trusted: bool) -> _Hinted:
    destructive = said.destructive_hint is True
    if not trusted:
        # A floor: what the server says can raise it, settings that are stricter stay (b11, D4).
        least: Approval = "always" if destructive else "unless_auto_approved"
        rule = f'server "{server}" is untrusted' + (" and calls the tool destructive" if destructive else "")
        return _Hinted("high", _at_least(least, settings), f"{rule} (b11)")
    if destructive:
        rule = f'trusted server "{server}" calls the tool destructive (a24)'
        return _Hinted("high", _at_least("always", settings), rule)
    if said.read_only_hint:
        return _Hinted("low", "never", f'trusted server "{server}" calls the tool read-only (a24)')
    if said.destructive_hint is None:
        rule = f'trusted server "{server}" does not say what the tool does (D7)'
        if said.read_only_hint is None or risk_rank(settings.unannotated) > risk_rank(settings.risk):
            return _Hinted(settings.unannotated, None, rule)
    return _Hinted(None, None, "")


def _at_least(least: Approval, settings: Defaults) -> Approval | None:
    """None where the settings are stricter by themselves and are to be named as the reason."""
    return None if approval_rank(settings.approval) > approval_rank(least) else least


def barred(agent: AgentFacts, spellings: Sequence[str]) -> str:
    """The rule by which an agent may not use the tool that has these names; empty where it may (a29, D11)."""
    for pattern in agent.denied_tools:
        if _matches(pattern, spellings):
            return f'denied_tools "{pattern}" of the agent (D11)'
    allowed = agent.allowed_tools
    if allowed is None or any(_matches(pattern, spellings) for pattern in allowed):
        return ""
    return "allowed_tools of the agent has no name or pattern for it (D11)"


def may_use_whole(agent: AgentFacts, server: str) -> bool:
    """Whether an agent may use every tool that the server has or could come to have, so that none of 10,000
    needs to be asked for. It may say no too often, and never yes."""
    heads = (original(server, ""), prefix(server, agent.spelling))
    if any(_reaches(pattern, head) for pattern in agent.denied_tools for head in heads):
        return False
    allowed = agent.allowed_tools
    return allowed is None or any(_covers(pattern, head) for pattern in allowed for head in heads)


def may_use_server(agent: AgentFacts, server: str) -> bool:
    """Whether an agent may use any tool that the server has or could come to have.

    Decides about connecting (b01); each tool is then asked for by `barred`. So it may say
    yes too often, where several denials together leave nothing, and never no too often.
    """
    heads = (original(server, ""), prefix(server, agent.spelling))
    denied = agent.denied_tools
    if any(_covers(pattern, head) for pattern in denied for head in heads):
        return False
    allowed = agent.allowed_tools
    return allowed is None or any(
        _reaches(pattern, head) and pattern not in denied for pattern in allowed for head in heads
    )


def _covers(pattern: str, head: str) -> bool:
    """Whether the pattern fits everything that begins with `head`, for sure."""
    return pattern.endswith("*") and glob_match(pattern, head)


def _reaches(pattern: str, head: str) -> bool:
    """Whether the pattern fits anything longer that begins with `head`."""
    star = pattern.find("*")
    if star < 0 or star >= len(head):
        # No star in reach: character by character, and something must be left for the tool.
        return len(pattern) > len(head) and glob_match(pattern[: len(head)], head)
    return glob_match(pattern[:star], head[:star])


def may_replay(replay: Replay, reached: bool, annotations: Annotations, *, trusted: bool) -> bool:
    """Whether a call that met the end of its connection may be sent again (D3).

    `reached` is False only where the server provably never saw the call.
    """
    if replay != "auto":
        return replay == "always"
    if not reached:
        return True
    harmless = annotations.read_only_hint is True and annotations.destructive_hint is not True
    return trusted and (harmless or annotations.idempotent_hint is True)
