"""Random texts that are assigned to a telling name, as in `DB_PASSWORD=...` or `"client_secret": "..."`.

Only ever warned of: page cursors and cache keys are named like secrets. The rules are our own, made against
the counter-examples that gitleaks (MIT) and noseyparker (Apache-2.0) ship.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mcpd.policy.leaks.genuine import Mix, entropy, genuine
from mcpd.policy.leaks.rule import Look, Rule, Span

Telling = Callable[[bytes], bool]

#: The rest of the name, what parts it from its value, and the value. No two neighbouring parts can take the
#: same character, so nothing is tried twice.
_REST = re.compile(
    rb"([A-Za-z0-9_-]{0,20})[\"'\\`]{0,3}(?:[ \t]{0,4}(?::=|=>|={1,3}|:)[ \t]{0,8}|[ \t]*>[ \t]*|\",[ \t]*\")"
    rb"(?:[brfuBRFU]?[\"'`\\]{0,3})([^\s\"'`,;<>\\()\[\]{}|]{8,200})([\"'`\\]?.?)",
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
#: What a key must be of to be a secret...
_KEYS = tuple(
    b"api access secret private auth license licence account encryption signing master service app"
    b" application consumer admin deploy project storage subscription hmac jwt ssh rsa pgp write ingest"
    b" session shared webhook function functions client root user server crypt cipher aes hash integration"
    b" developer dev prod live test bearer".split()
)
#: ...and of what a token or key is none: cursors, and what a page hands out to all.
_OPEN = tuple(
    b"page next prev previous sync continuation cursor csrf xsrf authenticity public pub cancel cancellation"
    b" list resume resumption change delta start end skip scroll position etag max total prompt completion"
    b" input output cached reasoning request progress design syntax parse lex idempotency publishable forgery"
    b" verification watch marker nonce pagination transaction stop special pad eos bos".split()
)
_BETWEEN = b"_. -"
#: Code and templates, which name a secret in place of having it.
_CODE = (
    *(
        b"$(",
        b"@(",
        b"#(",
        b"%(",
        b"${",
        b"{{",
        b"process.env",
        b"os.environ",
        b"getenv",
        b"::",
        b"()",
        b"=>",
    ),
    *(b"->", b"/*", b"&lt;", b"***"),
)
_VARIABLE = re.compile(rb"[^A-Za-z0-9_+/-]|\w{0,40}\$[A-Za-z_]|env\.")
_NAME = rb"(?:[A-Z]?[a-z]++|[A-Z]++)(?:[A-Z][a-z]{2,20}+)*+"
_NUMBERED = re.compile(rb"%s(?:[_.-]%s)*+[_.-]?\d{0,4}" % (_NAME, _NAME))
_ADDRESS = re.compile(rb"(?:https?|file|ftp|s3|gs|arn|urn|data):|[./~]")
_DOTTED = re.compile(rb"(?:[A-Za-z_][A-Za-z0-9_]*\.)+[A-Za-z_][A-Za-z0-9_]*|v?\d+(?:\.\d+)+.*")
_ID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)


def _assigned(telling: Telling, least: int) -> Look:
    """`telling`: whether what stands before the word makes it a secret's; `least`: bytes of a value."""

    def look(text: bytes, start: int, end: int) -> Span | None:
        if not telling(text[max(0, start - 24) : start]):
            return None
        rest = _REST.match(text, end)
        if rest is None or (rest[1] and _ABOUT.match(rest[1])):
            return None
        value = rest[2].rstrip(b".:!?&")
        if len(value) < least or not _random(value, rest[3]):
            return None
        return rest.start(2), rest.start(2) + len(value)

    return look


def _any(before: bytes) -> bool:
    return True


def _closed(before: bytes) -> bool:
    return not before.lower().rstrip(_BETWEEN).endswith(_OPEN)


def _keyed(before: bytes) -> bool:
    word = before.rstrip(_BETWEEN)
    if word.lower().endswith(_OPEN):
        return False
    # A variable: ACME_KEY.
    return word.lower().endswith(_KEYS) or (
        before.endswith(b"_") and word[-3:].isalpha() and word[-3:].isupper()
    )


def _random(value: bytes, after: bytes) -> bool:
    if after[:1] == b"(" or value.startswith((b"pk_", b"pub-", b"phc_")):
        return False
    mix = Mix(value)
    letters = mix.lower + mix.upper
    if not letters or (not mix.digits and mix.size < 16) or letters + mix.digits < mix.size * 0.7:
        return False
    if not mix.digits and not (mix.lower and mix.upper):
        return False
    if any(code in value for code in _CODE) or _VARIABLE.match(value) or _ADDRESS.match(value):
        return False
    if _DOTTED.fullmatch(value) or _NUMBERED.fullmatch(value):
        return False
    if _ID.fullmatch(value):
        return genuine(value.replace(b"-", b""))
    return genuine(value) and entropy(value) >= (3.0 if mix.size >= 16 else 2.7)


def _netrc(text: bytes, start: int, end: int) -> Span | None:
    """netrc(5): `login NAME password VALUE`."""
    if not _LOGIN.search(text, max(0, start - 100), start):
        return None
    match = _SPACED.match(text, end)
    return match.span(1) if match is not None and _random(match[1], b"") else None


def _cased(*words: bytes) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(case for word in words for case in (word, word.upper(), word.capitalize())))


RULES: Final[tuple[Rule, ...]] = (
    Rule("password", 3, _cased(b"passw", b"passphrase", b"pwd", b"_pass"), _assigned(_any, 8), "own"),
    Rule("password", 3, (b"password",), _netrc, "netrc(5)"),
    Rule("secret", 3, _cased(b"secret"), _assigned(_closed, 12), "own"),
    Rule("token", 3, _cased(b"token"), _assigned(_closed, 16), "own"),
    Rule("key", 3, _cased(b"key"), _assigned(_keyed, 16), "own"),
    Rule("credential", 3, _cased(b"credential"), _assigned(_any, 12), "own"),
)
