"""Agents, tool policies, settings and overrides, from TOML values to the structs of `spec`.

Pure. What a person wrote to narrow something must never widen it because of a slip of
the pen: an agent with a fault may use nothing, a policy with a fault denies, an override
with a fault switches off.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from msgspec.structs import replace

from mcpd.catalog.names import server_name_problem
from mcpd.config import fields, units
from mcpd.config.fields import Fault, Reader, read_table
from mcpd.config.spec import Agent, Policy, Settings

_AGENT: dict[str, Reader] = {
    "schema": fields.schema,
    "name": fields.text,
    "allowed_tools": fields.texts,
    "denied_tools": fields.texts,
    "spelling": fields.word("server__tool", "mcp_server_tool"),
    "open": fields.flag,
    "max_risk": fields.POLICY["risk"],
    "auto_approve": fields.texts,
    "approver": fields.word("person", "host"),
}
_AGENT_LATER = frozenset({"tool_profile"})

_SETTINGS: dict[str, Reader] = {
    "risk": fields.POLICY["risk"],
    "approval": fields.POLICY["approval"],
    "timeout": fields.duration,
    "timeout_max": fields.duration,
    "max_result": fields.quantity(units.size),
    "idle_timeout": fields.duration,
    "max_in_flight_session": fields.count,
    "journal_keep": fields.quantity(units.retention),
    "journal_arguments": fields.flag,
    "unannotated": fields.POLICY["risk"],
    "approval_wait": fields.duration,
    "approval_deadline": fields.duration,
    "notify": fields.command_line,
}
_SETTINGS_LATER = frozenset({"max_in_flight", "queue_wait"})

#: What stands in the place of a setting that cannot be read, where the built-in value is not the strictest.
_STRICTEST = {"risk": "high", "approval": "deny", "unannotated": "high"}

_OVERRIDE: dict[str, Reader] = {"enabled": fields.flag, "trusted": fields.flag}


class Override(NamedTuple):
    """What the user's config.toml says of a server that another file defines (b30)."""

    enabled: bool
    trusted: bool | None


def read_agent(name: str, source: str, value: object, place: str) -> tuple[Agent | None, tuple[Fault, ...]]:
    """One agent; with a fault it may use nothing, with an unusable name there is none."""
    read = read_table(value, place, _AGENT, _AGENT_LATER)
    faults = list(read.faults)
    if problem := server_name_problem(name):
        faults.append(Fault(place, problem))
    if read.values.get("name", name) != name:
        faults.append(Fault(fields.join(place, "name"), f'must be "{name}" like the entry itself'))
    for key in ("allowed_tools", "denied_tools", "auto_approve"):
        for number, pattern in enumerate(read.values.get(key, ())):
            if problem := pattern_problem(pattern):
                faults.append(Fault(f"{fields.join(place, key)}[{number}]", problem))
    if faults:
        return closed_agent(name, source), tuple(faults)
    members = {key: item for key, item in read.values.items() if key not in ("schema", "name")}
    return Agent(name=name, source=source, **members), ()


def pattern_problem(pattern: str) -> str:
    """Why a pattern can match no tool, whatever servers there are; empty where it can (a26)."""
    if not pattern:
        return "an empty text names no tool"
    if "__" in pattern or "*" in pattern or "?" in pattern or pattern.startswith("mcp_"):
        return ""
    shown = json.dumps(f"{pattern[:60]}__*", ensure_ascii=False)
    return f"names no tool: a tool is SERVER__TOOL, and all tools of a server are like {shown}"


def closed_agent(name: str, source: str) -> Agent | None:
    """An agent whose entry cannot be used: it may use nothing.

    "Default" means the agent `default`, not an agent less: its limits must not vanish.
    """
    name = name.lower()
    return None if server_name_problem(name) else Agent(name=name, source=source, allowed_tools=())


#: In place of a policy that cannot be read.
DENY = Policy(approval="deny")


def read_policies(value: object, place: str) -> tuple[tuple[tuple[str, Policy], ...], tuple[Fault, ...]]:
    """`[tool_policies]` in the order of the file; a faulty entry denies what it matches (a26)."""
    if not isinstance(value, dict):
        return (("*", DENY),), (
            Fault(place, f"expected a table, found {fields.kind(value)}; every tool is denied"),
        )
    found: list[tuple[str, Policy]] = []
    faults: list[Fault] = []
    for pattern, item in value.items():
        where = fields.join(place, pattern)
        if problem := pattern_problem(pattern):
            # If a server was meant, its tools must not be milder than whoever wrote this wanted.
            meant = f"{pattern}__*"
            denied = bool(pattern) and meant not in value
            faults.append(Fault(where, f"{problem}; those are denied" if denied else problem))
            found += [(meant, DENY)] if denied else []
            continue
        read = read_table(item, where, fields.POLICY)
        faults.extend(
            replace(fault, message=f"{fault.message}; what it matches is denied") for fault in read.faults
        )
        found.append((pattern, DENY if read.faults else Policy(**read.values)))
    return tuple(found), tuple(faults)


def read_settings(value: object, place: str) -> tuple[Settings, tuple[Fault, ...]]:
    """`[defaults]`; a field with a fault keeps its built-in value, those of policy the strictest."""
    read = read_table(value, place, _SETTINGS, _SETTINGS_LATER)
    members = dict(read.values)
    for key, strictest in _STRICTEST.items():
        if not isinstance(value, dict) or (key in value and key not in members):
            members[key] = strictest
    days, held = members.pop("journal_keep", (None, None))
    if days is not None:
        members["journal_keep_days"] = days
    if held is not None:
        members["journal_keep_bytes"] = held
    return Settings(**members), read.faults


def read_override(value: object, place: str) -> tuple[Override, tuple[Fault, ...]]:
    """`[overrides.NAME]` (b30); what is faulty in it neither leaves the server enabled nor trusts it."""
    read = read_table(value, place, _OVERRIDE)
    written = isinstance(value, dict) and "enabled" not in value
    trusted = False if read.faults else read.values.get("trusted")
    return Override(bool(read.values.get("enabled", written)), trusted), read.faults
