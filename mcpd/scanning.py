"""The leak scans of the path (n17, b25): what goes to a server, what comes back, and that it is told.

Told are type, form, server and tool, never a value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.errors import ServerError
from mcpd.policy.leaks.finding import Finding, Leak
from mcpd.rows import Row

#: Findings of one answer that are told one by one.
TOLD = 10


async def arguments(broker: Broker, caller: Caller, row: Row, arguments: bytes, meta: bytes) -> Leak | None:
    """What must not, or should not, go to the row's server. `meta`: the members of `_meta` that go with it,
    without braces."""
    held_values = broker.held_values
    server, takes = row.upstream.name, row.ruling.takes_secrets
    leak = await held_values.arguments(server, arguments, takes_secrets=takes)
    if meta and (leak is None or leak.action != "block"):
        beside = await held_values.arguments(server, meta, takes_secrets=takes)
        if beside is not None and beside.action == "ask":
            # A person would be shown the arguments, and say yes to what they do not hold (n07).
            words = f"`_meta` holds what looks like a secret ({beside.type}), which nobody can be asked about"
            beside = replace(beside, action="block", words=words)
        leak = beside if beside is not None and (leak is None or beside.action == "block") else leak
    if leak is not None:
        found = [{"type": leak.type, "form": leak.form, "action": leak.action}]
        _tell(broker, caller, row, "arguments", found)
    return leak


async def result(broker: Broker, caller: Caller, row: Row, raw: bytes) -> tuple[bytes, str]:
    """What the server answered as its caller may have it, and in words what was found."""
    scanned = await broker.held_values.result(raw, gives_secrets=row.ruling.gives_secrets)
    if not scanned.found and not scanned.hidden and scanned.whole:
        return scanned.text, ""
    found = [
        {"type": each.type, "form": each.form, "action": "redact" if each.layer < 3 else "warn"}
        for each in scanned.found[:TOLD]
    ]
    if scanned.hidden:
        found.append({"type": "hidden characters", "form": "", "action": "mark"})
    if not scanned.whole:
        found.append({"type": "too large for more than held values", "form": "", "action": "warn"})
    if found:
        _tell(broker, caller, row, "result", found)
    return scanned.text, words(scanned.found)


async def error(broker: Broker, caller: Caller, row: Row, failure: ServerError) -> ServerError:
    """The server's own error as its caller may have it."""
    raw, _ = await result(broker, caller, row, failure.raw)
    if raw is failure.raw:
        return failure
    return ServerError(raw, failure.server_code, broker.held_values.text(failure.message))


def words(found: Iterable[Finding]) -> str:
    """For the journal: what was taken out of an answer, and what was only noticed."""
    said = dict.fromkeys(f"{'redacted' if each.layer < 3 else 'noticed'} {each.type}" for each in found)
    return ", ".join(list(said)[:TOLD])


def _tell(broker: Broker, caller: Caller, row: Row, where: str, found: list[dict[str, str]]) -> None:
    data: dict[str, Any] = {
        "server": row.upstream.name,
        "tool": row.tool.name,
        "agent": caller.agent,
        "in": where,
        "found": found,
    }
    broker.changes.publish("leaks", data)
