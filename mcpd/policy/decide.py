"""The decision about one call: allowed, or denied in words that say what would change it."""

from __future__ import annotations

import json

import msgspec

from mcpd.catalog.names import export, original
from mcpd.policy.rules import Ruling


class Allow(msgspec.Struct, frozen=True):
    """The call may go to the server."""

    because: tuple[str, ...]


class Deny(msgspec.Struct, frozen=True):
    """The call does not go anywhere."""

    message: str
    because: tuple[str, ...]
    hint: str = ""
    """What the user could do about it."""


Decision = Allow | Deny


def decide(ruling: Ruling, server: str, tool: str) -> Decision:
    """Whether the tool of the server may be called under its ruling (DESIGN, section 8, rule 3).

    `server` and `tool` are their exact names, for the words.
    """
    match ruling.approval:
        case "never":
            return Allow(ruling.because)
        case "deny":
            return Deny(f'denied: the policy denies tool "{tool}" of server "{server}"', ruling.because)
    # Whoever cannot be asked has not said yes.
    return Deny(
        f'denied: nobody can be asked yet; set approval = "never" in the policy of server "{server}"'
        f' or tool "{tool}"',
        ruling.because,
        f'in the definition of server "{server}": default_policy = {{ approval = "never" }},'
        f' or in config.toml under [tool_policies]: {_key(server, tool)} = {{ approval = "never" }}',
    )


def _key(server: str, tool: str) -> str:
    """The tool as a quoted TOML key that means it alone.

    Basic strings of TOML and JSON have the same escapes for printable characters. A name
    with a wildcard of its own would be a pattern, so it is given as agents see it.
    """
    name = original(server, tool)
    return json.dumps(export(server, tool) if "*" in name or "?" in name else name, ensure_ascii=False)
