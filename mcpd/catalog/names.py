"""Names: what a server may be called, and under which name agents see a tool or a prompt.

A tool's identity is the pair (server, tool), a prompt's (server, prompt). What agents see matches
^[A-Za-z_][A-Za-z0-9_-]{0,63}$, the strictest rule of the model vendors
(protocol reference, section 7.1), and depends on the pair alone.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Literal

import msgspec

Spelling = Literal["server__tool", "mcp_server_tool"]
Pair = tuple[str, str]
"""(server, tool or prompt), both exactly as configured and as the server says."""

LONGEST: Final = 64
LONGEST_SERVER: Final = 32

_SERVER = re.compile(r"[a-z0-9][a-z0-9_.-]{0,31}")
_FOREIGN = re.compile(r"[^a-z0-9_.-]+")
_SEPARATORS = re.compile(r"[_.]{2,}")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def server_name_problem(name: str) -> str | None:
    """Why a server cannot be called this, or None (c05).

    Dots count as the `_` they become in tool names; otherwise the first `__` of an
    exported name would not always be the border between server and tool.
    """
    if not name:
        return "the name is empty"
    if len(name) > LONGEST_SERVER:
        return f"the name is longer than {LONGEST_SERVER} characters"
    if not _SERVER.fullmatch(name):
        return (
            'the name has other characters than "a" to "z", digits, "_", "." and "-", or begins with a mark'
        )
    flat = name.replace(".", "_")
    if "__" in flat:
        return 'the name has two of "_" and "." in a row, and "__" separates server and tool'
    if flat.endswith("_"):
        return 'the name ends in "_" or "."'
    return None


def clean_server_name(foreign: str) -> str:
    """A name that c05 allows for one that another program's file uses; the same every time."""
    if server_name_problem(foreign) is None:
        return foreign
    name = _FOREIGN.sub("-", foreign.lower())
    name = _SEPARATORS.sub("_", name).strip("_.-")
    if not name:
        return "server-" + _digest(foreign)[:6]
    if len(name) > LONGEST_SERVER:
        return name[: LONGEST_SERVER - 7].rstrip("_.-") + "-" + _digest(foreign)[:6]
    return name


@lru_cache(maxsize=1024)
def prefix(server: str, spelling: Spelling = "server__tool") -> str:
    """What the exported names of a server's tools begin with."""
    flat = server.replace(".", "_")
    if spelling == "mcp_server_tool":
        return f"mcp_{flat}_"
    # Gemini wants a letter or "_" first.
    return f"_{flat}__" if flat[:1].isdigit() else f"{flat}__"


def original(server: str, tool: str) -> str:
    """The pair in one word, nothing cleaned or shortened; patterns are tried on it (a26)."""
    return f"{server}__{tool}"


def export(server: str, tool: str, spelling: Spelling = "server__tool") -> str:
    """The name of a tool towards agents, as long as no other tool has the same (a09, D2)."""
    name = prefix(server, spelling) + _cleaned(tool)
    return name if len(name) <= LONGEST else _suffixed(name, (server, tool))


def export_marked(server: str, tool: str, spelling: Spelling) -> str:
    """The name of a tool where another tool would have the same: nobody else's, whatever there is (D2)."""
    return _suffixed(prefix(server, spelling) + _cleaned(tool), (server, tool))


def _cleaned(tool: str) -> str:
    # Most names are identifiers, which is seen in a fifth of the time.
    return tool if tool.isascii() and tool.isidentifier() else _UNSAFE.sub("_", tool)


class Assigned(msgspec.Struct, frozen=True):
    """The exported names of several tools."""

    names: dict[str, Pair]
    """In the order of the tools given."""
    warnings: tuple[str, ...] = ()
    """One for each tool that was left out (a12)."""


def assign(pairs: Iterable[Pair], spelling: Spelling = "server__tool", noun: str = "tool") -> Assigned:
    """Name tools, or what `noun` says, in order; of two with one name the later is left out (a12).

    In the spelling `mcp_server_tool`, where `a` + `b_c` and `a_b` + `c` look alike,
    neither gets the plain name (D2): who comes first must not decide who is called.
    """
    pairs = list(pairs)
    marked = _ambiguous(pairs, spelling) if spelling == "mcp_server_tool" else {}
    names: dict[str, Pair] = {}
    warnings = []
    for pair in pairs:
        name = marked.get(pair) or export(*pair, spelling)
        if name not in names:
            names[name] = pair
        else:
            other = names[name]
            warnings.append(
                f'{noun} "{pair[1]}" of server "{pair[0]}" is left out: its name "{name}" is taken'
                f' by {noun} "{other[1]}" of server "{other[0]}"'
            )
    return Assigned(names, tuple(warnings))


def _ambiguous(pairs: list[Pair], spelling: Spelling) -> dict[Pair, str]:
    """The suffixed names of all pairs that cannot have their plain one."""
    plain: dict[str, set[Pair]] = {}
    for pair in pairs:
        plain.setdefault(export(*pair, spelling), set()).add(pair)
    doubtful = [name for name, owners in plain.items() if len(owners) > 1]
    marked: dict[Pair, str] = {}
    while doubtful:
        name = doubtful.pop()
        for pair in plain.pop(name, ()):
            marked[pair] = export_marked(*pair, spelling)
            # A tool whose plain name looks like this suffixed one must not win either.
            if marked[pair] in plain:
                doubtful.append(marked[pair])
    return marked


def _suffixed(name: str, pair: Pair) -> str:
    return f"{name[: LONGEST - 9]}_{_digest(chr(0).join(pair))[:8]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
