"""Extensions: which of them cross mcpd, in either direction (5.17).

An extension is in use where both sides declare it, each with settings of its own. mcpd declares for
others only what it carries: members of known messages cross unread, so every extension that is no more
than that is carried, and tasks, which have methods and a result of their own. Of those that the protocol
reserves for itself the others are not declared: they need more, or are a matter of one hop as logins are.
Methods that nobody here knows are refused as such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

TASKS: Final = "io.modelcontextprotocol/tasks"
UI: Final = "io.modelcontextprotocol/ui"

#: Of those that the protocol reserves for itself; all others are for both ends to agree on.
CARRIED: Final = frozenset({TASKS, UI})
#: What a server may hear of without having announced it: it is about what clients show (MCP Apps).
UNANNOUNCED: Final = frozenset({UI})

#: Extensions of one side, and bytes of their settings together.
MOST: Final = 32
SIZE: Final = 16 * 1024

_NAME = re.compile(
    r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
)
_LONGEST: Final = 200

Extensions = Mapping[str, Mapping[str, Any]]
"""Name -> settings."""


def read(capabilities: object) -> dict[str, dict[str, Any]]:
    """The extensions in one side's `capabilities` that cross. Odd ones do not count, nor any where there
    is too much of them."""
    found = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    if not isinstance(found, dict) or len(found) > MOST:
        return {}
    crossing = {name: each for name, each in found.items() if isinstance(each, dict) and crosses(name)}
    return crossing if len(encode(crossing)) <= SIZE else {}


def crosses(name: str) -> bool:
    """Whether mcpd declares an extension of this name for others (5.17, 5.19)."""
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        return False
    labels = name.partition("/")[0].split(".")
    reserved = len(labels) > 1 and labels[1] in ("modelcontextprotocol", "mcp")
    return name in CARRIED if reserved else labels != ["dev", "mcpd"]


def encode(extensions: Extensions) -> bytes:
    """As JSON text, the same for the same extensions; empty for none."""
    return msgspec.json.encode(extensions, order="deterministic") if extensions else b""


def towards_server(declared: bytes, announced: Extensions) -> dict[str, dict[str, Any]]:
    """What a server is told of a caller's extensions, `declared` as `encode` gave it: those that it has
    announced as well."""
    if not declared:
        return {}
    said: dict[str, dict[str, Any]] = msgspec.json.decode(declared)
    return {name: each for name, each in said.items() if name in announced or name in UNANNOUNCED}
