"""Secrets that give themselves away by what is around them: keys in armour, signed tokens, passwords in
addresses, webhooks, authorization headers, storage keys."""

from __future__ import annotations

import base64
import re
from typing import Final

from mcpd.policy.leaks.genuine import Mix, genuine
from mcpd.policy.leaks.rule import Lazy, Rule, Span, whole_run

#: Bytes of armour: an RSA key of 16384 bits has 12,500, with escapes and indents twice that.
_ARMOUR: Final = 32_000
#: Characters of a host, a user or a password in an address that are looked at.
_PART: Final = 400

_KEY_HEAD: Final = Lazy(rb"-{4,5} ?BEGIN[A-Z0-9 ]{0,30} ?\Z")
_KEY_TAIL: Final = Lazy(rb"-{4,5} ?END[A-Z0-9 ]{0,50}-{4,5}")
_KEY_TEXT: Final = Lazy(rb"(?: BLOCK)? ?-{4,5}[A-Za-z0-9+/=,:\s\\.>|\"'-]*")
_KEY_LINE: Final = Lazy(rb"[A-Za-z0-9+/]{20,64}")


def _private_key(text: bytes, start: int, end: int) -> Span | None:
    """RFC 7468, RFC 4880 (armour of PGP), OpenSSH's PROTOCOL.key."""
    head = _KEY_HEAD.compiled.search(text, max(0, start - 40), start)
    if head is None:
        return None
    # However the next one is dashed: each byte is looked at for one of them.
    limit = text.find(b"BEGIN", end, end + _ARMOUR)
    limit = min(len(text), end + _ARMOUR) if limit < 0 else limit
    last = text.find(b"END", end, limit)
    tail = _KEY_TAIL.compiled.match(text, max(end, last - 6)) if last >= 0 else None
    tail = tail or (_KEY_TAIL.compiled.match(text, max(end, last - 5)) if last >= 0 else None)
    if tail is None:
        # Cut off: what looks like its body goes with it.
        body = _KEY_TEXT.compiled.match(text, end, limit)
        stop = body.end() if body is not None else end
    else:
        stop = tail.end()
    line = _KEY_LINE.compiled.search(text, end, stop)
    return (head.start(), stop) if line is not None and genuine(line[0]) else None


_ENCODED_HEAD: Final = Lazy(rb"[A-Za-z0-9+/=_-]{60,80}")
_ENCODED: Final = Lazy(rb"[A-Za-z0-9+/=_-]{60,32000}+")


def _encoded_key(text: bytes, start: int, end: int) -> Span | None:
    """The same in base64, as Kubernetes and variables of CI have it."""
    head = _ENCODED_HEAD.compiled.match(text, start)
    if head is None or b"PRIVATE KEY" not in _decoded(head[0]):
        return None
    match = _ENCODED.compiled.match(text, start)
    return match.span() if match is not None else None


_PARTS: Final = rb"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+){0,2}"
_TOKEN: Final = Lazy(rb"(?<![A-Za-z0-9_-])" + _PARTS)
#: The last character of an escape belongs to no token.
_ESCAPED_TOKEN: Final = Lazy(_PARTS)
_AFTER_ESCAPE: Final = Lazy(rb"(?:\\[nrt]|%[0-9A-Fa-f]{2})\Z")


def _signed_token(text: bytes, start: int, end: int) -> Span | None:
    """RFC 7519 in the compact form of RFC 7515 and 7516: its header names the algorithm."""
    match = _TOKEN.compiled.match(text, start)
    if match is None and _AFTER_ESCAPE.compiled.search(text, max(0, start - 3), start):
        match = _ESCAPED_TOKEN.compiled.match(text, start)
    if match is None:
        return None
    header, _, *rest = match[0].split(b".")
    if b'"alg"' not in _decoded(header) or (len(rest) == 1 and not genuine(rest[0])):
        return None
    return match.span()


def _decoded(text: bytes) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:
        return b""


_USERINFO: Final = Lazy(rb"([^\s:/?#@\"'<>\\`|]{0,200}):([^\s/?#\"'<>\\`|]{1,200})@(?=[A-Za-z0-9\[_-])")
#: Passwords of manuals, and of databases on the developer's own machine.
_COMMON: Final = frozenset(
    b"password passwd pass pwd secret admin root guest test testing user username example changeme postgres"
    b" mysql mongo redis rabbitmq mypass mypassword mysecretpassword your_password yourpassword xxx xxxx foo"
    b" bar baz hunter2 token pw passw0rd letmein 123456 12345678 1234 12345".split()
)
_FILLED_IN: Final = Lazy(
    rb"[$%]?\{.*\}|\$\(?[A-Za-z_][A-Za-z0-9_]*\)?|%[A-Za-z_]+%|[*x.#]+|\[.*\]|<.*>", re.I
)


def _url_password(text: bytes, start: int, end: int) -> Span | None:
    """RFC 3986 3.2.1: what stands between user and host."""
    match = _USERINFO.compiled.match(text, end)
    if match is None or not _own_password(match[1], match[2]):
        return None
    return match.span(2)


def _own_password(user: bytes, password: bytes) -> bool:
    """Whether it is somebody's own, and not a manual's."""
    lower = password.lower()
    if len(password) < 5 or lower in _COMMON or lower == user.lower():
        return False
    if _FILLED_IN.compiled.fullmatch(password) or b"***" in password:
        return False
    return len(set(password)) > 3 and not any(
        word in lower for word in (b"password", b"placeholder", b"your_")
    )


_BEARER: Final = Lazy(rb"[ \t]{1,8}([A-Za-z0-9._~+/%=-]{20,1024})")
_BASIC: Final = Lazy(rb"[ \t]{0,8}([A-Za-z0-9+/_-]{8,1024}+={0,2})(?![A-Za-z0-9+/])")


def _bearer(text: bytes, start: int, end: int) -> Span | None:
    """RFC 6750 2.1."""
    match = _BEARER.compiled.match(text, end)
    if match is None or not _token_like(match[1]):
        return None
    return whole_run(text, *match.span(1))


def _basic(text: bytes, start: int, end: int) -> Span | None:
    """RFC 7617: base64 of user and password."""
    match = _BASIC.compiled.match(text, end)
    if match is None:
        return None
    user, colon, password = _decoded(match[1].replace(b"+", b"-").replace(b"/", b"_").rstrip(b"=")).partition(
        b":"
    )
    if not colon or not (user + password).strip() or not _own_password(user, password):
        return None
    try:
        readable = (user + password).decode().isprintable()
    except UnicodeDecodeError:
        return None
    return match.span(1) if readable else None


_AUTHORIZATION: Final = Lazy(
    rb"[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?(?:[A-Za-z][A-Za-z0-9_-]{1,20}[ \t]{1,8})?"
    rb"(?:[Tt]oken ?=? ?)?[\"']?([A-Za-z0-9._~+/%=@:-]{20,1024})"
)


def _authorization(text: bytes, start: int, end: int) -> Span | None:
    """RFC 9110 11.6.2: whatever the scheme is called."""
    match = _AUTHORIZATION.compiled.match(text, end)
    if match is None or not _token_like(match[1]):
        return None
    return whole_run(text, *match.span(1))


def _token_like(text: bytes) -> bool:
    """Letters and digits mixed, as nothing has that is read by people."""
    mix = Mix(text)
    mixed = mix.digits >= 2 and mix.lower + mix.upper > 0
    mixed = mixed or (mix.size >= 24 and mix.upper > 0 and mix.lower > 0 and b"." not in text)
    return mixed and genuine(text)


_STORAGE_KEY: Final = Lazy(rb"[A-Za-z0-9+/%]{40,200}+(?:=|%3[dD]){0,2}")


def _following_key(text: bytes, start: int, end: int) -> Span | None:
    """Connection strings of Azure: the rest of the segment, in base64."""
    match = _STORAGE_KEY.compiled.match(text, end)
    return match.span() if match is not None and genuine(match[0]) else None


_SIGNATURE: Final = Lazy(rb"[A-Za-z0-9%+/_-]{40,200}+(?:=|%3[dD]){0,2}")
_SIGNED: Final = re.compile(rb"[?&](?:sv|se|sp|sr|srt|st|sks|skoid|api-version)=")


def _shared_signature(text: bytes, start: int, end: int) -> Span | None:
    """Shared access signatures of Azure Storage and of Logic Apps: `sig` beside the other parts."""
    match = _SIGNATURE.compiled.match(text, end)
    if match is None or not genuine(match[0]):
        return None
    around = text[max(0, start - _PART) : start + 1] + text[match.end() : match.end() + _PART]
    return match.span() if _SIGNED.search(around) else None


_WEBHOOKS: Final[tuple[tuple[str, bytes, bytes, str], ...]] = (
    (
        "slack-webhook",
        b"hooks.slack.com/",
        rb"(?:services|workflows|triggers)/T?[A-Z0-9]{8,}/[A-Z0-9]{8,}/[A-Za-z0-9/]{16,}",
        "docs: Slack",
    ),
    ("discord-webhook", b"/api/webhooks/", rb"[0-9]{16,20}/[A-Za-z0-9_-]{60,}", "docs: Discord"),
    ("discord-webhook", b".com/webhooks/", rb"[0-9]{16,20}/[A-Za-z0-9_-]{60,}", "docs: Discord"),
    (
        "teams-webhook",
        b".webhook.office.com/",
        rb"webhook[a-z0-9]*/[0-9a-f-]{36}@[0-9a-f-]{36}/[A-Za-z]+/[A-Za-z0-9]{20,}/[0-9a-f-]{36}"
        rb"(?:/[A-Za-z0-9_-]+)?",
        "docs: Microsoft Teams",
    ),
    ("zapier-webhook", b"hooks.zapier.com/hooks/catch/", rb"[0-9]+/[A-Za-z0-9]+", "docs: Zapier"),
    (
        "google-chat-webhook",
        b"chat.googleapis.com/v1/spaces/",
        rb"[A-Za-z0-9_-]+/messages\?key=[A-Za-z0-9_-]+&token=[A-Za-z0-9%_-]+",
        "docs: Google Chat",
    ),
    ("telegram-token", b"api.telegram.org/bot", rb"[0-9]{8,10}:[A-Za-z0-9_-]{33,}", "docs: Telegram bots"),
    ("make-webhook", b".make.com/", rb"[a-z0-9]{30,34}(?![A-Za-z0-9])", "docs: Make"),
)

_ADDRESS: Final = Lazy(rb"https?://[A-Za-z0-9.-]{0,120}\Z")


def _webhook(type_: str, literal: bytes, follows: bytes, source: str) -> Rule:
    """An address that lets whoever knows it in; all of it counts."""
    pattern = Lazy(follows)

    def look(text: bytes, start: int, end: int) -> Span | None:
        match = pattern.compiled.match(text, end)
        if match is None or (match[0] and not genuine(match[0])):
            return None
        head = _ADDRESS.compiled.search(text, max(0, start - 140), start)
        return (head.start() if head is not None else start), match.end()

    return Rule(type_, 2, (literal,), look, source)


RULES: Final[tuple[Rule, ...]] = (
    Rule("private-key", 2, (b"PRIVATE KEY",), _private_key, "RFC 7468"),
    Rule("private-key", 2, (b"LS0tLS1CRUdJTi",), _encoded_key, "RFC 7468, RFC 4648"),
    Rule("jwt", 2, (b"eyJ",), _signed_token, "RFC 7519"),
    Rule("url-password", 2, (b"://",), _url_password, "RFC 3986 3.2.1"),
    Rule("bearer-token", 2, (b"earer", b"EARER"), _bearer, "RFC 6750"),
    Rule("basic-credentials", 2, (b"asic ", b"ASIC "), _basic, "RFC 7617"),
    Rule("authorization", 2, (b"uthorization", b"UTHORIZATION"), _authorization, "RFC 9110 11.6.2"),
    Rule(
        "azure-key",
        2,
        (
            b"AccountKey=",
            b"SharedAccessKey=",
            b"accountkey=",
            b"AccessKey=",
            b";Secret=",
            b"sharedaccesskey=",
        ),
        _following_key,
        "docs: Azure connection strings",
    ),
    Rule("azure-signature", 2, (b"sig=",), _shared_signature, "docs: Azure SAS"),
    *(_webhook(*row) for row in _WEBHOOKS),
)
