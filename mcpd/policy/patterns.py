"""What a pattern means with the servers and tools that are known now (a26, a29).

Pure. A pattern may be meant for tools that come later, so what is said here is advice, never a fault.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping

from mcpd.catalog.names import Spelling, export, original
from mcpd.policy.terms import glob_match

Known = Mapping[str, frozenset[str] | None]
"""Each server with the own names of its tools, wrapper tools included; None where they are not known."""

_SPELLINGS: tuple[Spelling, ...] = ("server__tool", "mcp_server_tool")


def pattern_for(word: str, servers: Collection[str]) -> str:
    """The pattern that a person means: a server's name stands for all its tools."""
    return f"{word}__*" if word in servers else word


def all_names(server: str, tool: str) -> tuple[str, ...]:
    """Every name that a pattern may mean a tool by, whichever spelling its agent has (a26)."""
    return (original(server, tool), *(export(server, tool, spelling) for spelling in _SPELLINGS))


def unmatched(pattern: str, known: Known) -> str:
    """Why a pattern matches nothing now, with the nearest name; empty where it matches or may match."""
    server, border, tool = pattern.partition("__")
    named = server if border and not _wild(server) else ""
    if named and not pattern.startswith("mcp_") and named not in _heads(known):
        return f'no server is named "{named[:60]}"{_nearest(named, known)}'
    of = {name: tools for name, tools in known.items() if not named or named in _heads((name,))}
    if any(tools is None for tools in of.values()) or _matches(pattern, of):
        return ""
    if not named or not of or pattern.startswith("mcp_"):
        return "it matches no tool that is known now"
    [(name, tools), *_] = of.items()
    if _wild(tool):
        return f'server "{name}" has no such tools now'
    return f'server "{name}" has no tool "{tool[:60]}" now{_nearest(tool, tools or ())}'


def _heads(servers: Iterable[str]) -> set[str]:
    """What stands before the first `__` of the names of servers, original and exported."""
    flat = {server.replace(".", "_") for server in servers}
    return {*servers, *flat, *(f"_{name}" for name in flat if name[:1].isdigit())}


def _wild(text: str) -> bool:
    return "*" in text or "?" in text


def _matches(pattern: str, known: Known) -> bool:
    return any(
        glob_match(pattern, name)
        for server, tools in known.items()
        for tool in tools or ()
        for name in all_names(server, tool)
    )


def _nearest(word: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(word[:60], list(names)[:10_000], 1, 0.6)
    return f', did you mean "{near[0][:60]}"?' if near else ""
