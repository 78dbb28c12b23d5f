"""What the operator changes about agents: which there are, and what each may use (b20, b33, D11).

A change is written into the agent's own file, read back, and counts at once for sessions that are attached:
their listings are made anew, and those that differ are told. Other agents notice nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace

from mcpd import applying, granting, listing, roster
from mcpd.api.agents import AddAgent, AgentChanged, AgentDetails
from mcpd.broker import Broker
from mcpd.caller import DEFAULT_AGENT, Caller
from mcpd.config import save
from mcpd.config.change import Applied, applied
from mcpd.config.entry import pattern_problem
from mcpd.config.fields import join
from mcpd.config.narrow import WAITS
from mcpd.config.spec import AGENTS_DIR, Agent, Config
from mcpd.errors import Failure
from mcpd.policy import lists
from mcpd.policy.grants import EVERY_AGENT
from mcpd.policy.patterns import Known, pattern_for, unmatched
from mcpd.policy.terms import Risk

log = logging.getLogger(__name__)


async def add(broker: Broker, wanted: AddAgent) -> AgentDetails:
    """Write an agent's file. Raises Failure `name_taken`, `bad_definition`, `config_invalid`,
    `not_writable`; nothing is left behind then."""
    name = wanted.agent
    async with broker.editing:
        if taken := broker.config.agents.get(name):
            raise Failure(
                "name_taken",
                f'cannot add agent "{name}": it is defined in "{taken.source}"',
                hint=f"mcpctl agents show {name}",
                agent=name,
                file=taken.source,
            )
        await _write(broker, Agent(name=name), _file_fields(broker, wanted), "agents.add")
    return await roster.get_agent(broker, name)


def _file_fields(broker: Broker, wanted: AddAgent) -> dict[str, Any]:
    """The fields of the file, without what only repeats a default."""
    plain = AddAgent(agent=wanted.agent)
    names = [name for name in plain.__struct_fields__ if name != "agent"]
    said = {name: getattr(wanted, name) for name in names}
    for name in ("allowed_tools", "denied_tools", "auto_approve"):
        if said[name]:
            said[name] = tuple(pattern_for(word, broker.fleet.names()) for word in said[name])
    return {name: value for name, value in said.items() if value != getattr(plain, name)}


async def remove(broker: Broker, by: Caller, name: str) -> str:
    """Delete an agent's file, and with the agent its token and its grants: its sessions end. The path of the
    file.

    The default agent stays, and may use everything without an entry (D11). Raises Failure `no_such_agent`,
    `not_writable`.
    """
    async with broker.editing:
        agent = broker.config.agents.get(name)
        if agent is None:
            raise _no_entry(broker, name)
        path = _own_file(broker, agent)
        await trio.to_thread.run_sync(save.remove_agent, path)
        before = broker.config
        others = {key: value for key, value in before.agents.items() if key != name}
        _install(broker, replace(before, agents=others), "agents.remove")
        if name != DEFAULT_AGENT:
            _forget(broker, by, name)
            _forget_token(broker, name)
    return str(path)


async def forget_gone(broker: Broker, by: Caller) -> tuple[Applied, ...]:
    """Take back the grants of agents that no file names any more; what was done, for who has asked for it by
    `reload`. A token is of no use meanwhile and goes on being listed.

    The watcher does not: a file that an editor has put aside for a moment costs nobody a grant. Nor does
    anything while something in the files cannot be read, which could be the agent.
    """
    async with broker.editing:
        if broker.config.problems:
            return ()
        given = Counter(each.grant.agent for each in broker.grants.all())
        names = sorted(broker.grants.agents - {"", EVERY_AGENT, DEFAULT_AGENT, *broker.config.agents})
        for name in names:
            _forget(broker, by, name)
    return tuple(
        Applied(join("agents", name), f"removed; {_counted(given[name])} taken back")
        for name in names
        if given[name]
    )


def _counted(grants: int) -> str:
    return "its grant" if grants == 1 else f"its {grants} grants"


def _forget(broker: Broker, by: Caller, name: str) -> None:
    """Whoever gets this name next begins anew."""
    broker.approvals.forget(name)
    broker.tasks.forget(Caller("", name, 0, "").owner)
    for key in broker.grants.of_agent(name):
        try:
            granting.revoke(broker, by, key)
        except Failure as failure:  # the agent is gone, and what stays is listed
            if failure.kind != "no_such_grant":
                log.warning("%s", failure.message)


def _forget_token(broker: Broker, name: str) -> None:
    try:
        if name in broker.state.tokens:
            broker.state.forget_token(name)
    except Failure as failure:
        log.warning("%s", failure.message)


async def allow(broker: Broker, name: str, words: Iterable[str]) -> AgentChanged:
    """Give an agent servers or tools. Raises Failure `no_such_agent`, `invalid_params`, `refused`, and what
    `_write` does."""

    def change(now: lists.Lists, patterns: list[str]) -> lists.Lists:
        try:
            return lists.allow(now, patterns)
        except lists.Blocked as blocked:
            raise Failure(
                "refused",
                f'cannot allow "{blocked.pattern[:200]}" to agent "{name}": "{blocked.by[:200]}" is denied',
                hint=f"take that away first: mcpctl agents allow {name} '{blocked.by[:200]}'",
                agent=name,
            ) from None

    return await _relist(broker, name, words, change, "agents.allow")


async def deny(broker: Broker, name: str, words: Iterable[str]) -> AgentChanged:
    """Take servers or tools from an agent, whatever else allows them. Raises Failure as `allow` does."""
    return await _relist(broker, name, words, lists.deny, "agents.deny")


async def set_max_risk(broker: Broker, name: str, risk: Risk) -> AgentChanged:
    """Calls of this agent above the risk are denied (b33). Raises Failure `no_such_agent` and what `_write`
    does."""

    def change(agent: Agent) -> dict[str, Any]:
        return {} if agent.max_risk == risk else {"max_risk": risk}

    return await _change(broker, name, change, "agents.max_risk")


async def _relist(
    broker: Broker,
    name: str,
    words: Iterable[str],
    change: Callable[[lists.Lists, list[str]], lists.Lists],
    by: str,
) -> AgentChanged:
    # Looking for near names among thousands takes a while.
    known = roster.known(broker)
    patterns, notes = await trio.to_thread.run_sync(_understood, tuple(words), known)

    def fields_of(agent: Agent) -> dict[str, Any]:
        after = change(lists.Lists(agent.allowed_tools, agent.denied_tools), patterns)
        said = {"allowed_tools": after.allowed, "denied_tools": after.denied}
        return {key: value for key, value in said.items() if value != getattr(agent, key)}

    return await _change(broker, name, fields_of, by, notes)


def _understood(words: tuple[str, ...], known: Known) -> tuple[list[str], tuple[str, ...]]:
    """The patterns that are meant, and what to say of those that match nothing now. Raises Failure
    `invalid_params`."""
    patterns = [_pattern(word, known) for word in words]
    said = [(pattern, unmatched(pattern, known)) for pattern in patterns]
    return patterns, tuple(f'"{pattern}": {why}' for pattern, why in said if why)


def _pattern(word: str, known: Known) -> str:
    """Raises Failure `invalid_params` for what is neither a server nor can match a tool."""
    pattern = pattern_for(word, known.tools)
    if problem := pattern_problem(pattern):
        near = unmatched(f"{pattern}__*", known) if pattern else problem
        raise Failure(
            "invalid_params", near or problem, hint="name a server, a tool SERVER__TOOL or a pattern"
        )
    return pattern


async def _change(
    broker: Broker,
    name: str,
    change: Callable[[Agent], dict[str, Any]],
    by: str,
    notes: tuple[str, ...] = (),
) -> AgentChanged:
    async with broker.editing:
        agent = listing.find_agent(broker, name)
        said = change(agent)
        file = await _write(broker, agent, said, by) if said else ""
    now = listing.find_agent(broker, name)
    if now.allowed_tools is None and by == "agents.allow":
        notes += (f'agent "{name}" has no allowed_tools, so it may use all that is not denied',)
    return AgentChanged(agent=roster.info(broker, now), changed=bool(said), file=file, notes=notes)


async def _write(broker: Broker, agent: Agent, said: Mapping[str, Any], by: str) -> str:
    """Set fields in the agent's own file and let them count; the path of the file.

    What else changed in the files keeps waiting for `reload`, so an agent whose entry waits cannot be
    changed. Raises Failure `refused`, `bad_definition`, `config_invalid`, `name_taken`, `not_writable`; the
    file is as it was then.
    """
    name = agent.name
    path = _own_file(broker, agent)
    running = broker.config.agents.get(name)
    if (await applying.read_files(broker)).agents.get(name) != running:
        raise Failure(
            "refused",
            f'cannot change agent "{name}": its entry was changed and {WAITS}',
            hint="mcpctl reload",
            agent=name,
        )
    # From the first byte on the verb goes through, or takes back what it wrote.
    with trio.CancelScope(shield=True):
        before = None
        if running is None:
            await trio.to_thread.run_sync(save.add_agent, path.parent, name, said)
        else:
            before = await trio.to_thread.run_sync(save.change_agent, path, said)
        try:
            now = _read_back(await applying.read_files(broker), replace(agent, source=str(path), **said))
        except Failure:
            if before is None:
                save.remove_agent(path)
            else:
                save.restore_agent(path, before)
            raise
    others = {**broker.config.agents, name: now}
    _install(broker, replace(broker.config, agents=others), by)
    return str(path)


def _read_back(found: Config, wanted: Agent) -> Agent:
    """What the files say of the agent now. Raises Failure `bad_definition` where that is something else."""
    now = found.agents.get(wanted.name)
    if now == wanted:
        return now
    why = "; ".join(roster.problems(found, wanted.name, wanted.source)) or "it does not read back as written"
    raise Failure("bad_definition", f'cannot change agent "{wanted.name}": "{wanted.source}": {why}')


def _own_file(broker: Broker, agent: Agent) -> Path:
    """The file that mcpd may write. Raises Failure `not_writable` for an entry in config.toml."""
    path = Path(broker.config_dir, AGENTS_DIR, f"{agent.name}.toml")
    if agent.source in ("", str(path)):
        return path
    raise Failure(
        "not_writable",
        f'cannot change agent "{agent.name}": it is defined in "{agent.source}", which only you write',
        hint=f"edit [agents.{agent.name}] there and run mcpctl reload, or move the entry to {path}",
        agent=agent.name,
        file=agent.source,
    )


def _no_entry(broker: Broker, name: str) -> Failure:
    try:
        listing.find_agent(broker, name)
    except Failure as failure:
        return failure
    return Failure(
        "no_such_agent",
        f'agent "{name}" has no entry that could be removed: it may use everything',
        agent=name,
    )


def _install(broker: Broker, config: Config, by: str) -> None:
    changes = applied(broker.config, config)
    applying.install(broker, config, broker.held, broker.waiting)
    applying.record(broker, by, changes)
    # A server that an attached agent may use now is connected once where nobody knows its tools (D5).
    for session in broker.sessions.values():
        with suppress(Failure):  # its agent is gone
            for upstream in listing.wanted(broker, session.key):
                if upstream.main.catalog is None:
                    upstream.main.connect_once()
