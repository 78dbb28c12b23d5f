"""Grants: a lasting yes of a person, and which requests it covers (DESIGN 8.4).

A grant names one server at one destination (n24), one tool or a pattern of its tools, one agent or all,
what the arguments must be, and how long it lasts. Whatever is missing, doubtful or twice there is not
covered. No pattern reaches `re`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple
from unicodedata import normalize
from urllib.parse import unquote

import msgspec

from mcpd.policy.binding import LARGEST, read
from mcpd.policy.terms import Risk, glob_match

Lifespan = Literal["once", "session", "until", "count", "forever"]
Test = Literal["equals", "prefix", "glob", "under"]

#: The agent of a grant for all of them, and for the operator.
EVERY_AGENT: Final = "*"

#: How often a value is decoded that could hide a ".." in percent signs.
_DECODINGS: Final = 3


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one argument must be. Raises ValueError where it could never hold or says something unsaid."""

    argument: str
    """A member of the arguments themselves, not one further down."""
    test: Test
    value: str
    """For `equals` JSON text; else a beginning, a pattern with `*` and `?`, or an absolute folder. Where the
    argument is a list, these must fit each of its texts."""

    def __post_init__(self) -> None:
        if not self.argument:
            raise ValueError("a condition names an argument")
        if not self.value:
            raise ValueError(f'the condition on "{self.argument}" has no value')
        if self.test == "equals":
            try:
                read(self.value.encode(), _Number)
            except (ValueError, RecursionError):
                raise ValueError(f'the value of the condition on "{self.argument}" is no JSON') from None
        if self.test == "under" and (self.value[:1] != "/" or "\0" in self.value):
            raise ValueError(f'the folder of the condition on "{self.argument}" is no absolute path')

    @property
    def words(self) -> str:
        verb = {"equals": "=", "prefix": "begins with", "glob": "fits", "under": "is under"}[self.test]
        return f"{self.argument} {verb} {self.value if self.test == 'equals' else _quoted(self.value)}"


class Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lasting yes. Raises ValueError for a lifespan that lacks its end or has another's."""

    id: str
    agent: str
    """Its exact name; "" is the operator, "*" all."""
    server: str
    destination: str
    """The digest of where its server runs or is (n24)."""
    tool: str
    """By the server's own name."""
    exact: bool
    """`tool` is a name, not a pattern: only then does the grant count at high risk (D10)."""
    conditions: tuple[Condition, ...] = ()
    """All of them must hold."""
    only: bool = False
    """There must be no other arguments than those that conditions name."""
    lifespan: Lifespan
    session: str = ""
    """Whose end is that of a `session` grant."""
    until: float = 0.0
    """Seconds since the epoch, of `until`."""
    count: int = 0
    """Requests, of `count`."""
    reason: str = ""
    made_at: float = 0.0

    def __post_init__(self) -> None:
        if not (self.server and self.tool):
            raise ValueError("a grant names a server and a tool")
        wanted = {"session": "session", "until": "until", "count": "count"}.get(self.lifespan)
        for name, given in (("session", self.session), ("until", self.until), ("count", self.count)):
            if name == wanted and not given:
                raise ValueError(f'a grant of lifespan "{self.lifespan}" needs "{name}"')
            if name != wanted and given:
                raise ValueError(f'a grant of lifespan "{self.lifespan}" has no "{name}"')
        if self.until < 0 or self.count < 0:
            raise ValueError(f'the "{self.lifespan}" of a grant is not below 0')

    @property
    def words(self) -> str:
        """What it covers, for people; without its lifespan."""
        which = f'tool "{self.tool}"' if self.exact else f'tools "{self.tool}"'
        other = ["there are no other arguments"] if self.only else []
        where = " and ".join([*(each.words for each in self.conditions), *other])
        return f'grant {self.id} for {which} of server "{self.server}"{where and f" where {where}"}'

    @property
    def lasts(self) -> str:
        """Its lifespan, for people, as it was when it was given."""
        match self.lifespan:
            case "count":
                return f"for {self.count} calls"
            case "until":
                return f"for {round(self.until - self.made_at)} s"
            case "session":
                return f"until session {self.session} ends"
            case other:
                return other

    @property
    def uses(self) -> int:
        """Requests after which it has come to its end; 0 for any number."""
        return 1 if self.lifespan == "once" else self.count


class Said(NamedTuple):
    """Arguments, read for conditions: many may look at them, and they may be large."""

    members: Mapping[str, Any] | None
    """None for what no condition holds for: no JSON object, and more than a person could be asked about."""
    alike: Mapping[str, tuple[str, ...]]
    """The names that are one to a server which ignores case, by what they are to it; two at most."""


_UNREADABLE: Final = Said(None, {})


def said(arguments: bytes) -> Said:
    """What conditions see of a JSON object's text. Never raises."""
    if len(arguments) > LARGEST:
        return _UNREADABLE
    try:
        members = read(arguments, _Number)
    except (ValueError, RecursionError):
        return _UNREADABLE
    if not isinstance(members, dict):
        return _UNREADABLE
    alike: dict[str, tuple[str, ...]] = {}
    for name in members:
        folded = _fold(name)
        alike[folded] = (*alike.get(folded, ())[:1], name)
    return Said(members, alike)


class Request(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is asked for, as grants see it."""

    agent: str
    """"" is the operator."""
    session: str
    server: str
    destination: str
    tool: str
    """By the server's own name."""
    risk: Risk
    arguments: bytes
    """A JSON object's text: what the caller gave, which is what a person is shown (n07)."""
    said: Said | None = None
    """What `said` makes of them, where they were read already."""


def covers(grant: Grant, request: Request, used: int, now: float) -> bool:
    """Whether the grant, of which `used` requests have made use, answers this one (DESIGN 8.4, D10)."""
    return (
        grant.server == request.server
        and grant.destination == request.destination
        and grant.agent in (request.agent, EVERY_AGENT)
        and (grant.tool == request.tool if grant.exact else glob_match(grant.tool, request.tool))
        and (grant.exact or request.risk != "high")
        and lasts(grant, used, now)
        and (grant.lifespan != "session" or grant.session == request.session)
        and (not (grant.conditions or grant.only) or _hold(grant, request.said or said(request.arguments)))
    )


def lasts(grant: Grant, used: int, now: float) -> bool:
    """Whether it has not come to its end, as far as time and count say."""
    if grant.lifespan == "until":
        return now < grant.until
    return not grant.uses or used < grant.uses


def _hold(grant: Grant, found: Said) -> bool:
    members = found.members
    if members is None:
        return False
    if grant.only and not members.keys() <= {each.argument for each in grant.conditions}:
        return False
    return all(
        # A server that ignores case might read the other one of two.
        found.alike.get(_fold(each.argument)) == (each.argument,) and _holds(each, members[each.argument])
        for each in grant.conditions
    )


def _holds(condition: Condition, found: Any) -> bool:
    if condition.test == "equals":
        return bool(found == read(condition.value.encode(), _Number))
    texts = found if isinstance(found, list) else [found]
    return bool(texts) and all(isinstance(each, str) and _fits(condition, each) for each in texts)


def _fits(condition: Condition, text: str) -> bool:
    wanted = condition.value
    if condition.test == "under":
        return is_under(wanted, text)
    if climbs(text) or "\0" in text:
        # Also where nothing else says that it is a path: "notes" begins "notes/../../etc" as well, and some
        # programs read no further than a NUL.
        return False
    return text.startswith(wanted) if condition.test == "prefix" else glob_match(wanted, text)


def is_under(folder: str, path: str) -> bool:
    """Whether an absolute path is the folder or lies below it, when "." and ".." are taken out of both.

    By their words alone: where a symbolic link leads, the server's file system knows.
    """
    if path[:1] != "/" or "\0" in path:
        return False
    above, parts = _normal(folder), _normal(path)
    return parts[: len(above)] == above and not climbs("/".join(parts))


def climbs(text: str) -> bool:
    """Whether a path or URL has a ".." in it that some server could follow: plain, percent-encoded or between
    backslashes."""
    for _ in range(_DECODINGS):
        if "%" not in text:
            break
        text = unquote(text)
    return ".." in text.replace("\\", "/").split("/")


def _normal(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return parts


class _Number(msgspec.Struct, frozen=True):
    """A number as it is spelled: 1, 1.0 and 1e0 differ to some server (n07)."""

    text: str


def _fold(name: str) -> str:
    return normalize("NFKC", name).casefold()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
