"""Which parts of a configured value are looked for, and which values are none that could be.

Everything a definition gives to its server counts as a secret, except what would redact every second
sentence: plain words, paths, addresses, numbers, switches (search-and-leaks 2.3). What a telling name says
to be a secret is held more readily.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from mcpd.policy.leaks.finding import cleaned

#: Bytes from which on a value is looked for (n17): a shorter one stands in too many texts by chance.
LEAST: Final = 8

_TELLING = re.compile(
    r"key|token|secret|passw|passphrase|pwd|(?:^|[_-])pass(?:$|[_-])|(?:^|[_-])pat(?:$|[_-])"
    r"|auth|cred|cookie|session|signature|private|dsn|bearer|jwt",
    re.I,
)
_NAMED_OTHERWISE = re.compile(
    r"(?:_|-|^)(?:url|uri|host|path|file|dir|name|user|username|email|region)$", re.I
)
#: A scheme word and its credentials (RFC 9110 11.4); of other headers the whole value.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9-]{1,30})[ \t]+(\S.*)", re.S)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[A-Z]?[a-z]+(?:[A-Z][a-z]{2,})+")
_BETWEEN = re.compile(r"[^A-Za-z0-9]+")
#: A word, some as one, a number as a year or a port has it, or too short to say anything.
_PLAIN = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]+|[a-z]+(?:[A-Z][a-z]{2,})+|(?:[A-Z][a-z]{2,})+|[0-9]{1,5}|[A-Za-z0-9]{1,3}"
)
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w.@+ -]+(?:/[\w.@+ -]*)*|(?:~|\.{1,2})?/")
_HOST = re.compile(
    r"(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24}(?::\d+)?|(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?|localhost:\d+"
)
_EMAIL = re.compile(r"[\w.+-]+@(?:[\w-]+\.)+[A-Za-z]{2,24}")
_NUMBER = re.compile(r"[+-]?[\d.,:_-]+|\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-][\d:]+)?")
_RANDOM = re.compile(r"(?=[^/]*[a-z])(?=[^/]*[A-Z])(?=[^/]*\d)[^/]{16,}|[0-9a-f]{24,}|[^/ ]{40,}")


class Held(NamedTuple):
    """One value that a definition holds, as a match value."""

    server: str
    name: str
    """Its variable or header."""
    value: str


def of_definition(
    server: str, env: Mapping[str, str], headers: Mapping[str, str], url: str
) -> Iterator[Held]:
    """The match values of everything that a definition gives its server."""
    for name, value in env.items():
        yield from matched(server, name, value, header=False)
    for name, value in headers.items():
        yield from matched(server, name, value, header=True)
    if url:
        yield from matched(server, "url", url, header=False)


def matched(server: str, name: str, value: str, *, header: bool) -> Iterator[Held]:
    """The match values of one configured value; none where it is no secret that could be told apart."""
    for part, judged in dict(_parts(name, value, header=header)).items():
        if not unfit(judged, part):
            yield Held(server, name, part)


def unmatched(env: Mapping[str, str], headers: Mapping[str, str]) -> Iterator[str]:
    """What a definition seems to hold as a secret and cannot be told apart in what passes, in words."""
    for name, value in (*env.items(), *headers.items()):
        if value and _TELLING.search(name) and not _NAMED_OTHERWISE.search(name):
            why = unfit(name, value)
            if why and not why.endswith(("a path", "an address", "a switch")):
                yield f'"{cleaned(name)}" is not looked for in what servers and agents say: {why}'


def _parts(name: str, value: str, *, header: bool) -> Iterator[tuple[str, str]]:
    """The value, and what stands in it that is secret by itself; each with the name that says what it is."""
    value = value.strip()
    yield value, name
    credentials = value
    if header and (split := _SCHEME.fullmatch(value)):
        credentials = split[2]
        yield credentials, name
        if split[1].lower() == "basic":
            yield from _halves(credentials)
    if "://" in value:
        yield from _inside(value)
    if header and "=" in credentials and ";" in credentials:
        yield from ((pair.partition("=")[2].strip(), name) for pair in credentials.split(";"))


def _halves(credentials: str) -> Iterator[tuple[str, str]]:
    """User and password of Basic credentials (RFC 7617)."""
    try:
        user, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except ValueError:
        return
    if colon:
        yield user, "user"
        yield password, "password"


def _inside(url: str) -> Iterator[tuple[str, str]]:
    """What an address gives away: its password, and what looks random in its path and its query."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return
    if password:
        yield password, "password"
        yield unquote(password), "password"
    pairs = [pair.partition("=") for pair in parts.query.split("&")]
    pieces = [("", piece) for piece in parts.path.split("/")] + [(name, piece) for name, _, piece in pairs]
    for name, piece in pieces:
        if _RANDOM.fullmatch(piece) or _TELLING.search(name):
            yield piece, "token"
            yield unquote(piece), "token"


def unfit(name: str, value: str) -> str:
    """Why a value cannot be looked for, in words; empty for one that can."""
    if len(value.encode()) < LEAST:
        return f"it has fewer than {LEAST} bytes"
    if value.lower() in ("true", "false", "enabled", "disabled", "undefined"):
        return "it is a switch"
    if "://" in value:
        return "it is an address"
    if _WORD.fullmatch(value):
        return "it is a plain word"
    if _PATH.fullmatch(value) and not any(map(_RANDOM.fullmatch, value.split("/"))):
        return "it is a path"
    if len(set(value)) < 3:
        return "it is the same few characters again and again"
    if _TELLING.search(name) and not _NAMED_OTHERWISE.search(name):
        return ""
    for shape, words in ((_EMAIL, "an address"), (_HOST, "an address"), (_NUMBER, "a number")):
        if shape.fullmatch(value):
            return f"it is {words}"
    plain = all(_PLAIN.fullmatch(piece) for piece in _BETWEEN.split(value) if piece)
    return "it is made of plain words" if plain else ""
