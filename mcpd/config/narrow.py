"""What of a changed configuration may apply by itself.

Pure. The watcher applies only what narrows, because a file that an agent can write must
not start a process or open a tool (a03); the rest waits for the operator's reload.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from mcpd.caller import DEFAULT_AGENT
from mcpd.config.change import differing, entries, setting
from mcpd.config.fields import join
from mcpd.config.spec import MAIN, Agent, Config, Faulty, Hold, Policy, Problem, Server, Settings
from mcpd.policy.terms import (
    APPROVALS,
    RISKS,
    SECRETS_IN,
    SECRETS_OUT,
    Approval,
    Leaks,
    covered,
    specificity,
)

WAITS = "waits for mcpctl reload"


class Narrowed(NamedTuple):
    """What may run now, and what waits.

    `config` holds the running definitions, narrowed; a new server is not in it. `held`
    gives, per server (running or new), what waits. Held policies, agents and settings
    are among `config.problems`.
    """

    config: Config
    held: dict[str, Hold]


def narrows(running: Config, read: Config, file: str = MAIN) -> Narrowed:
    """The part of `read` that only takes something away from `running` (a03); `file` has the settings."""
    held: dict[str, Hold] = {}
    servers: dict[str, Server] = {}
    faulty: dict[str, Faulty] = {}
    top = _strictest_approval(running)
    for name, entry in entries(read).items():
        before = running.servers.get(name)
        if isinstance(entry, Faulty):
            if before is None:
                faulty[name] = entry
            else:
                servers[name] = _kept(before, entry)
                held[name] = _unusable(name, entry)
        elif before is not None:
            servers[name], waiting = _narrow_server(before, entry, top)
            if waiting:
                held[name] = Hold(name, f"{' and '.join(waiting)} changed", "reload")
        else:
            if name in running.faulty:
                faulty[name] = running.faulty[name]
            held[name] = Hold(name, "mended" if name in running.faulty else "new", "reload")
    policies, policy_notes = _narrow_policies(running, read, top)
    agents, agent_notes = _narrow_agents(running.agents, read.agents)
    settings, settings_notes = _narrow_settings(running, read)
    notes = tuple(Problem(file, place, f"{what}, {WAITS}") for place, what in policy_notes + settings_notes)
    return Narrowed(
        Config(
            settings=settings,
            servers=servers,
            faulty=faulty,
            agents=agents,
            tool_policies=policies,
            problems=read.problems + notes + agent_notes,
            whole=running.whole and read.whole,
        ),
        held,
    )


def keep(running: Config, read: Config) -> Narrowed:
    """All of `read`, with the running definitions in place of those that cannot be used any more.

    A slip in a file must not end a server that works; `held` says what is not used.
    """
    kept = {
        name: _kept(running.servers[name], faulty)
        for name, faulty in read.faulty.items()
        if name in running.servers
    }
    faulty = {name: entry for name, entry in read.faulty.items() if name not in kept}
    held = {name: _unusable(name, read.faulty[name]) for name in kept}
    return Narrowed(replace(read, servers={**read.servers, **kept}, faulty=faulty), held)


def _kept(running: Server, unusable: Faulty) -> Server:
    """The running definition, unless what can be read of the new one switches it off."""
    if not unusable.disabled_by:
        return running
    return replace(running, enabled=False, disabled_by=unusable.disabled_by)


def _unusable(name: str, entry: Faulty) -> Hold:
    what = f"the changed definition cannot be used ({entry.message}), what ran before goes on"
    return Hold(name, what, "mend")


# Policies ------------------------------------------------------------------------------


def _strictest_approval(config: Config) -> Approval:
    """The strictest answer that any rule of a configuration gives."""
    policies = [server.policy for server in config.servers.values()]
    policies += [policy for _, policy in config.tool_policies]
    approvals = {config.settings.approval, *(policy.approval for policy in policies)}
    return "deny" if "deny" in approvals else "always"


def _narrow_policy(old: Policy, new: Policy, top: Approval) -> tuple[Policy, bool]:
    """Each field of `new` that is surely no milder than in `old`; and whether all are."""
    risk = new.risk if _no_milder(old.risk, new.risk, RISKS, "high") else old.risk
    approval = new.approval if _no_milder(old.approval, new.approval, APPROVALS, top) else old.approval
    timeout = new.timeout if _no_longer(old.timeout, new.timeout) else old.timeout
    told, tells = old.leaks, new.leaks
    leaks = Leaks(
        tells.arguments if _no_milder(told.arguments, tells.arguments, SECRETS_IN, "ask") else told.arguments,
        tells.results if _no_milder(told.results, tells.results, SECRETS_OUT, "redact") else told.results,
    )
    taken = Policy(risk, approval, timeout, leaks)
    return taken, taken == new


def _no_milder(old: str | None, new: str | None, scale: Sequence[str], top: str) -> bool:
    """None leaves the field to other rules, which may say anything from the mildest up to `top`."""
    if old == new:
        return True
    most = scale.index(top if old is None else old)
    least = 0 if new is None else scale.index(new)
    return least >= most


def _no_longer(old: float | None, new: float | None) -> bool:
    """A limit (0 is none) that is surely no longer than the old one."""
    return old == new or (old is not None and new is not None and new > 0 and (old == 0 or new < old))


def _narrow_policies(
    running: Config, read: Config, top: Approval
) -> tuple[tuple[tuple[str, Policy], ...], list[tuple[str, str]]]:
    old, new = dict(running.tool_policies), dict(read.tool_policies)
    out: list[tuple[str, Policy]] = []
    notes: list[tuple[str, str]] = []
    for pattern in (*new, *(pattern for pattern in old if pattern not in new)):
        policy, clean = _narrow_policy(old.get(pattern, Policy()), new.get(pattern, Policy()), top)
        if policy != Policy() or pattern in new:
            out.append((pattern, policy))
        if not clean:
            notes.append((join("tool_policies", pattern), "a policy that may be wider"))
    return tuple(out), notes


#: Settings of which a stricter one may count at once.
_STRICTER: dict[str, Sequence[str]] = {"risk": RISKS, "unannotated": RISKS, "approval": APPROVALS}


def _narrow_settings(running: Config, read: Config) -> tuple[Settings, list[tuple[str, str]]]:
    old, new = running.settings, read.settings
    taken: dict[str, object] = {}
    notes: list[tuple[str, str]] = []
    for field in differing(old, new):
        scale: Sequence[str] = _STRICTER.get(field, ())
        if scale and scale.index(getattr(new, field)) > scale.index(getattr(old, field)):
            taken[field] = getattr(new, field)
        else:
            notes.append((setting(field), "changed"))
    return replace(old, **taken), notes


# Servers -------------------------------------------------------------------------------

#: Fields with an order: towards the left is narrower.
_LADDERS: dict[str, tuple[object, ...]] = {
    "enabled": (False, True),
    "open": (False, True),
    "trusted": (False, None, True),
    "start": ("lazy", "eager"),
    "replay": ("never", "auto", "always"),
    "sampling": (False, True),
    "roots": ("none", "fixed", "agent"),
    "max_risk": RISKS,
    "approver": ("person", "host"),
}


def _narrow_server(old: Server, new: Server, top: Approval) -> tuple[Server, list[str]]:
    """The running server with what narrows it, and the fields whose change waits.

    Goes through all fields there are, so that a field added to Server waits unless a
    rule here says that it may not.
    """
    taken: dict[str, object] = {}
    waiting: list[str] = []
    for field in differing(old, new):
        if field == "policy":
            taken[field], clean = _narrow_policy(old.policy, new.policy, top)
            waiting += [] if clean else ["default_policy"]
        elif _steps_down(field, old, new):
            taken[field] = getattr(new, field)
        elif field not in ("source", "disabled_by", "keeps"):
            waiting.append(field)
    if old.digest == new.digest:
        taken["source"] = new.source
    if "enabled" not in waiting:
        taken["disabled_by"] = new.disabled_by
    return replace(old, **taken), waiting


def _steps_down(field: str, old: msgspec.Struct, new: msgspec.Struct) -> bool:
    ladder = _LADDERS.get(field)
    return ladder is not None and ladder.index(getattr(new, field)) < ladder.index(getattr(old, field))


# Agents --------------------------------------------------------------------------------


def _narrow_agents(
    old: dict[str, Agent], new: dict[str, Agent]
) -> tuple[dict[str, Agent], tuple[Problem, ...]]:
    out: dict[str, Agent] = {}
    notes: list[Problem] = []
    for name in (*old, *(name for name in new if name not in old)):
        before, after = _agent(old, name), _agent(new, name)
        if after is None:
            continue
        place = join("agents", name)
        if before is None:
            notes.append(Problem(after.source, place, f"a new agent, {WAITS}"))
            continue
        agent, waiting = _narrow_agent(before, after)
        if waiting or name in new:
            out[name] = agent
        if waiting:
            file = after.source or before.source
            notes.append(Problem(file, place, f"{' and '.join(waiting)} wider or changed, {WAITS}"))
    return out, tuple(notes)


def _agent(agents: dict[str, Agent], name: str) -> Agent | None:
    """`default` exists without an entry and may use everything then (D11)."""
    return agents.get(name) or (Agent(name=name) if name == DEFAULT_AGENT else None)


def _narrow_agent(old: Agent, new: Agent) -> tuple[Agent, list[str]]:
    taken: dict[str, object] = {}
    waiting: list[str] = []
    for field in differing(old, new):
        clean = True
        if field == "allowed_tools":
            taken[field], clean = _shorter(old.allowed_tools, new.allowed_tools)
        elif field == "denied_tools":
            # Who may use nothing needs no denials.
            needed = () if new.allowed_tools == () else old.denied_tools
            kept = tuple(item for item in needed if not covered(item, new.denied_tools))
            taken[field], clean = new.denied_tools + kept, not kept
        elif field == "auto_approve":
            taken[field], clean = _fewer_unasked(old.auto_approve, new.auto_approve)
        elif field == "source" or _steps_down(field, old, new):
            taken[field] = getattr(new, field)
        else:
            clean = False
        if not clean:
            waiting.append(field)
    return replace(old, **taken), waiting


def _shorter(old: tuple[str, ...] | None, new: tuple[str, ...] | None) -> tuple[tuple[str, ...] | None, bool]:
    """What both allowlists allow, and whether that is all of the new one; None allows everything."""
    if new is None:
        return old, old is None
    if old is None:
        return new, True
    both = tuple(item for item in new if covered(item, old))
    if both == new:
        return both, True
    return both + tuple(item for item in old if item not in both and covered(item, new)), False


def _fewer_unasked(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The part of the new list that approves no more than the old one, and whether that is all of it.

    An exact name approves any risk and a glob at most medium (D10), so a name in place of a glob that
    fits it would be wider.
    """
    both = tuple(item for item in new if item in old or (not specificity(item).exact and covered(item, old)))
    return both, both == new
