"""Random texts that are assigned to a telling name, as in `DB_PASSWORD=...` or `"client_secret": "..."`.

Only ever warned of: page cursors and cache keys are named like secrets. The rules are our own, made against
the counter-examples that gitleaks (MIT) and noseyparker (Apache-2.0) ship.
"""

from __future__ import annotations

import re
from typing import Final

from mcpd.policy.leaks.genuine import entropy, genuine
from mcpd.policy.leaks.rule import Look, Rule, Span

#: The rest of the name, what parts it from its value, and the value. No two neighbouring parts can take the
#: same character, so nothing is tried twice.
_REST = re.compile(
    rb"([A-Za-z0-9_-]{0,20})[\"'\\`]{0,3}(?:[ \t]{0,4}(?::=|=>|={1,3}|:)[ \t]{0,8}|[ \t]*>[ \t]*|\",[ \t]*\")"
    rb"(?:[brfuBRFU]?[\"'`\\]{0,3})([^\s\"'`,;<>\\()\[\]{}|]{8,400})([\"'`\\]?.?)",
    re.S,
)
_LOGIN = re.compile(rb"login[ \t]+\S{1,80}\s+\Z")
_SPACED = re.compile(rb"[ \t]+([^\s\"'`,;<>\\()\[\]{}|]{8,200})")
#: How a name goes on that says something about a secret and is none.
_ABOUT = re.compile(
    rb"(?:[_-]?(?:ids?|names?|length|len|size|count|type|url|uri|urls|path|file|dir|format|field|limit|label"
    rb"|version|hash|algorithm|alg|expires?|expiry|expiration|expires_in|usage|policy|prefix|store|ring|pair|code"
    rb"|tab|board|word|words|arn|vault|alias|index|map|column|ref|hint|env|var|length|ttl|age|budget|ize[rd]?"
    rb"|identifier|provider|manager|service|class|s|less)[a-z0-9_-]*|[A-Z][a-zA-Z]*(?:Id|Name|Url|Path|Size)|Id|ID|Name)\Z",
    re.I,
)
_KEYS = re.compile(
    rb"(?:api|access|secret|private|auth|licen[sc]e|account|encryption|signing|master|service|app|application|"
    rb"consumer|admin|deploy|project|storage|subscription|hmac|jwt|ssh|rsa|pgp|write|ingest|session|shared|webhook"
    rb"|functions?|client|root|user|server|crypt|cipher|aes|hash|integration|developer|dev|prod|live|test|bearer)"
    rb"[_. -]?\Z|(?-i:[A-Z]{3,}[_-])\Z",
    re.I,
)
#: What a name of a token begins with that is no secret: cursors, and what a page hands out to all.
_OPEN = re.compile(
    rb"(?:page|next|prev|previous|sync|continuation|cursor|csrf|xsrf|authenticity|public|pub|cancel|cancellation|list"
    rb"|resume|resumption|change|delta|start|end|skip|scroll|position|etag|max|total|prompt|completion|input|output"
    rb"|cached|reasoning|request|progress|design|syntax|parse|lex|idempotency|publishable|anti[_-]?forgery"
    rb"|forgery|verification|watch|marker|nonce|pagination|transaction|stop|special|pad|eos|bos)[_-]?\Z",
    re.I,
)
#: Code and templates, which name a secret in place of having it.
_CODE = re.compile(
    rb"[$@#%]\(|\$\{|\{\{|\$[A-Za-z_]|process\.env|os\.environ|getenv|^env\.|::|\(\)|=>|->|^\W|/\*|&lt;|\*\*\*"
)
_NUMBERED = re.compile(rb"[A-Za-z]+(?:[_.-][A-Za-z]+)*[_.-]?\d{0,4}")
_ADDRESS = re.compile(rb"(?:https?|file|ftp|s3|gs|arn|urn|data):|[./~]")
_DOTTED = re.compile(rb"(?:[A-Za-z_][A-Za-z0-9_]*\.)+[A-Za-z_][A-Za-z0-9_]*|v?\d+(?:\.\d+)+.*")
_ID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)


def _assigned(telling: re.Pattern[bytes] | None, open_: re.Pattern[bytes] | None, least: int) -> Look:
    """`telling`: what must stand before the word, `open_`: what must not; `least`: bytes of a value."""

    def look(text: bytes, start: int, end: int) -> Span | None:
        rest = _REST.match(text, end)
        if rest is None or (rest[1] and _ABOUT.match(rest[1])):
            return None
        before = text[max(0, start - 24) : start]
        if telling is not None and not telling.search(before):
            return None
        if open_ is not None and open_.search(before):
            return None
        value = rest[2].rstrip(b".:!?&")
        if len(value) < least or not _random(value, rest[3]):
            return None
        return rest.start(2), rest.start(2) + len(value)

    return look


def _random(value: bytes, after: bytes) -> bool:
    if after[:1] == b"(" or value.startswith((b"pk_", b"pub-", b"phc_")):
        return False
    if _CODE.search(value) or _ADDRESS.match(value) or _DOTTED.fullmatch(value) or _NUMBERED.fullmatch(value):
        return False
    if _ID.fullmatch(value):
        return genuine(value.replace(b"-", b""))
    digits = sum(48 <= char <= 57 for char in value)
    letters = sum(65 <= char <= 90 or 97 <= char <= 122 for char in value)
    if not letters or (not digits and len(value) < 16) or letters + digits < len(value) * 0.7:
        return False
    if not digits and not (value.lower() != value and value.upper() != value):
        return False
    return genuine(value) and entropy(value) >= (3.0 if len(value) >= 16 else 2.7)


def _netrc(text: bytes, start: int, end: int) -> Span | None:
    """netrc(5): `login NAME password VALUE`."""
    if not _LOGIN.search(text, max(0, start - 100), start):
        return None
    match = _SPACED.match(text, end)
    return match.span(1) if match is not None and _random(match[1], b"") else None


def _cased(*words: bytes) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(case for word in words for case in (word, word.upper(), word.capitalize())))


RULES: Final[tuple[Rule, ...]] = (
    Rule("password", 3, _cased(b"passw", b"passphrase", b"pwd", b"_pass"), _assigned(None, None, 8), "own"),
    Rule("password", 3, (b"password",), _netrc, "netrc(5)"),
    Rule("secret", 3, _cased(b"secret"), _assigned(None, _OPEN, 12), "own"),
    Rule("token", 3, _cased(b"token"), _assigned(None, _OPEN, 16), "own"),
    Rule("key", 3, _cased(b"key"), _assigned(_KEYS, _OPEN, 16), "own"),
    Rule("credential", 3, _cased(b"credential"), _assigned(None, None, 12), "own"),
)
