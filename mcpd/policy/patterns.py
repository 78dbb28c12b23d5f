"""What a pattern means with the servers and tools that are known now (a26, a29).

Pure. A pattern may be meant for tools that come later, so what is said here is advice, never a fault.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from mcpd.catalog.names import Spelling, export, original
from mcpd.policy.terms import glob_match, specificity

_SPELLINGS: tuple[Spelling, ...] = ("server__tool", "mcp_server_tool")


class Known:
    """The servers and tools that there are now."""

    def __init__(self, tools: Mapping[str, frozenset[str] | None]) -> None:
        """`tools`: each server with the own names of its tools, wrapper tools included; None where they are
        not known."""
        self.tools = tools
        self.servers = {head: server for server in tools for head in _heads(server)}
        """Each server by what stands before the first `__` of its tools' names."""

    @cached_property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """Every name that a pattern may mean a server's tools by, whichever spelling its agent has (a26)."""
        return {
            server: tuple(name for tool in tools or () for name in _names(server, tool))
            for server, tools in self.tools.items()
        }

    @cached_property
    def every(self) -> frozenset[str]:
        return frozenset(name for names in self.names.values() for name in names)


def pattern_for(word: str, servers: Collection[str]) -> str:
    """The pattern that a person means: a server's name stands for all its tools."""
    return f"{word}__*" if word in servers else word


def unmatched(pattern: str, known: Known) -> str:
    """Why a pattern matches nothing now, with the nearest name; empty where it matches or may match."""
    head, border, tool = pattern.partition("__")
    if not border or _wild(head) or pattern.startswith("mcp_"):
        open_end = any(tools is None for tools in known.tools.values())
        return (
            ""
            if open_end or _matches(pattern, known, known.tools)
            else "it matches no tool that is known now"
        )
    server = known.servers.get(head)
    if server is None:
        return f'no server is named "{head[:60]}"{nearest(head, known.tools)}'
    tools = known.tools[server]
    if tools is None or _matches(pattern, known, (server,)):
        return ""
    if _wild(tool):
        return f'server "{server}" has no such tools now'
    return f'server "{server}" has no tool "{tool[:60]}" now{nearest(tool, tools)}'


def _names(server: str, tool: str) -> tuple[str, ...]:
    return (original(server, tool), *(export(server, tool, spelling) for spelling in _SPELLINGS))


def _heads(server: str) -> tuple[str, ...]:
    flat = server.replace(".", "_")
    return (server, flat, f"_{flat}") if flat[:1].isdigit() else (server, flat)


def _wild(text: str) -> bool:
    return "*" in text or "?" in text


def _matches(pattern: str, known: Known, servers: Iterable[str]) -> bool:
    if specificity(pattern).exact:
        return pattern in known.every
    return any(glob_match(pattern, name) for server in servers for name in known.names[server])


def nearest(word: str, names: Iterable[str]) -> str:
    """The name that was probably meant, as the end of a message; empty where none is like it."""
    near = difflib.get_close_matches(word[:60], list(names)[:10_000], 1, 0.6)
    return f', did you mean "{near[0][:60]}"?' if near else ""
