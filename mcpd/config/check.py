"""What is wrong with a configuration, file by file and line by line, before it counts.

Pure. `load` says what cannot be used; this adds where it stands, and what can be used and hardly means what
its writer wants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import PurePath

import msgspec

from mcpd.config import places
from mcpd.config.fields import join
from mcpd.config.spec import AGENTS_DIR, MAIN, SERVERS_DIR, Agent, Config, Problem
from mcpd.policy.patterns import Known, unmatched
from mcpd.policy.terms import covered, specificity


class Finding(msgspec.Struct, frozen=True):
    """One thing that a person should look at."""

    file: str
    line: int
    """From 1; 0 where it has none."""
    place: str
    message: str
    certain: bool
    """It is wrong; else it may be meant so."""


def meant(file: PurePath, config_dir: PurePath, servers_dir: PurePath) -> PurePath:
    """Which of the user's files a file is, or is a draft of: by its folder, else config.toml."""
    agents_dir = config_dir / AGENTS_DIR
    if file.parent in (agents_dir, servers_dir):
        return file
    folder = {AGENTS_DIR: agents_dir, SERVERS_DIR: servers_dir}.get(file.parent.name)
    return config_dir / MAIN if folder is None else folder / file.name


def findings(
    file: str, text: str, found: Config, before: Iterable[Problem], known: Known
) -> tuple[Finding, ...]:
    """What to say of a file with that text. `found`: what all files say with it; `before`: the problems that
    there are without it."""
    old = set(before)
    own = [each for each in found.problems if each.file == file]
    told = {each.message for each in own}  # what two files say against each other is said once
    others = [each for each in found.problems if each.file != file and each.message not in told]
    problems = own + [each for each in others if each not in old]
    advice = [Problem(file, place, message) for place, message in _advice(file, found, known)]
    lines = _lines(text)
    certain = [_finding(each, file, lines, certain=True) for each in problems]
    return tuple(certain + [_finding(each, file, lines, certain=False) for each in advice])


def unusable(file: str, place: str, message: str) -> Finding:
    """The file as a whole cannot be read."""
    return _finding(Problem(file, place, message), file, {}, certain=True)


#: Patterns of a file that are looked for among the tools there are: each may be tried on all of them.
LOOKED_FOR = 200

#: The lists of an agent that hold patterns.
LISTS = ("allowed_tools", "denied_tools", "auto_approve")

_LINE = re.compile(r"line ([0-9]{1,9})")


def _finding(problem: Problem, file: str, lines: dict[str, int], *, certain: bool) -> Finding:
    told = _LINE.fullmatch(problem.place)
    line = int(told[1]) if told else places.line_of(lines, problem.place) if problem.file == file else 0
    return Finding(problem.file, line, "" if told else problem.place, problem.message, certain)


def _lines(text: str) -> dict[str, int]:
    try:
        return places.lines(text)
    except (ValueError, RecursionError):
        return {}


# What can be used, and may be a slip of the pen -------------------------------------------


def _advice(file: str, found: Config, known: Known) -> Iterator[tuple[str, str]]:
    for place, pattern in islice(_patterns(file, found), LOOKED_FOR):
        if why := unmatched(pattern, known):
            yield place, why
    for agent, place in _agents(file, found):
        yield from _of_agent(agent, place)
    most = found.settings.timeout_max
    for place, limit in _timeouts(file, found):
        if limit is not None and 0 < most < (limit or most + 1):
            yield place, f"a call ends after timeout_max, {most:g} s, whatever is said here"
    wait, deadline = found.settings.approval_wait, found.settings.approval_deadline
    if _is_main(file) and 0 < deadline < wait:
        yield "defaults.approval_wait", f"a question ends after approval_deadline, {deadline:g} s"


def _is_main(file: str) -> bool:
    return PurePath(file).name == MAIN


def _agents(file: str, found: Config) -> Iterator[tuple[Agent, str]]:
    """Those that the file defines, each with the place of its entry."""
    for agent in found.agents.values():
        if agent.source == file:
            yield agent, join("agents", agent.name) if _is_main(file) else ""


def _patterns(file: str, found: Config) -> Iterator[tuple[str, str]]:
    """Every pattern of the file, with its place."""
    for pattern, _ in found.tool_policies if _is_main(file) else ():
        yield join("tool_policies", pattern), pattern
    for agent, place in _agents(file, found):
        for field in LISTS:
            for number, pattern in enumerate(getattr(agent, field) or ()):
                yield f"{join(place, field)}[{number}]", pattern


def _timeouts(file: str, found: Config) -> Iterator[tuple[str, float | None]]:
    for server in found.servers.values():
        if server.source == file:
            place = join("servers", server.name) if _is_main(file) else ""
            yield f"{join(place, 'default_policy')}.timeout", server.policy.timeout
    for pattern, policy in found.tool_policies if _is_main(file) else ():
        yield f"{join('tool_policies', pattern)}.timeout", policy.timeout


def _of_agent(agent: Agent, place: str) -> Iterator[tuple[str, str]]:
    """What one of its lists says that another one takes back."""
    for field in ("allowed_tools", "auto_approve"):
        for number, pattern in enumerate(getattr(agent, field) or ()):
            where = f"{join(place, field)}[{number}]"
            if covered(pattern, agent.denied_tools):
                yield where, "denied_tools takes all of it away again"
            elif field == "auto_approve" and not _allowed(pattern, agent.allowed_tools):
                yield where, "allowed_tools does not have it"


def _allowed(pattern: str, allowed: tuple[str, ...] | None) -> bool:
    """False only for sure: of two patterns each may have a part of the other."""
    return allowed is None or not specificity(pattern).exact or covered(pattern, allowed)
