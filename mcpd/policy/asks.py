"""What a server may ask an agent, in which words the agent hears it, and which answers go back (n03).

Pure. Questions that no agent is shown raise Refused, with the error that their server gets.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import deque
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from mcpd.protocol import dialect, forms
from mcpd.protocol.abilities import ALL_SAMPLING, ELICITATION, Ability
from mcpd.protocol.input import ELICIT, ROOTS, SAMPLE, Elicited, Question, Rooted, Sampled
from mcpd.protocol.jsonrpc import VALUES, holds_many

Roots = Literal["none", "fixed", "agent"]

#: Questions of one server that reach agents within an hour (n03).
HOURLY = 20
HOUR = 3600.0

#: Bytes of a question's params.
ELICITATION_MAX = 64 * 1024
SAMPLING_MAX = 4 * 1024 * 1024
#: Characters of a message to a person, and of an address.
MESSAGE = 8000
ADDRESS = 4000
#: Characters of a server's id of a visit.
VISIT = 200
#: Bytes of an agent's answer, and roots in one.
ANSWER_MAX = 4 * 1024 * 1024
ROOTS_MAX = 100

#: The code for what a client has not declared.
UNDECLARED = -32601
_INVALID_PARAMS = -32602
_INTERNAL = -32603


class Refused(Exception):
    """The agent does not hear of a question; its server gets this error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class BadAnswer(Exception):
    """An agent's answer that its server must not get, in words without its values."""


class Budget:
    """How many questions of one server may still reach agents. The clock is the caller's."""

    def __init__(self, hourly: int = HOURLY) -> None:
        """`hourly`: 0 for no limit."""
        self._hourly = hourly
        self._spent: deque[float] = deque(maxlen=hourly or 1)

    def spend(self, now: float) -> None:
        """Count one question. Raises Refused when the hour before `now` had its share."""
        if not self._hourly:
            return
        if len(self._spent) == self._hourly and now - self._spent[0] < HOUR:
            raise Refused(_INTERNAL, f"a server may ask {self._hourly} questions an hour")
        self._spent.append(now)


def allowed(*, sampling: bool, roots: Roots) -> Ability:
    """What a server may be told that clients can do: elicitation always, the others where its definition
    says so (DESIGN 7)."""
    found = ELICITATION
    if sampling:
        found |= ALL_SAMPLING
    if roots != "none":
        found |= Ability.ROOTS
    return found


def needed(question: Question) -> Ability:
    """What a client must have declared to be asked this. Raises Refused for what has no proper shape."""
    if question.method == ROOTS:
        return Ability.ROOTS
    members = _members(question)
    if question.method == ELICIT:
        match members.get("mode", "form"):
            case "form":
                return Ability.FORM
            case "url":
                return Ability.URL
        raise Refused(_INVALID_PARAMS, "the mode of an elicitation is form or url")
    need = Ability.SAMPLING
    if members.get("tools") is not None or members.get("toolChoice") is not None:
        need |= Ability.SAMPLING_TOOLS
    if members.get("includeContext", "none") != "none":
        need |= Ability.SAMPLING_CONTEXT
    return need


def check_declared(question: Question, abilities: Ability) -> None:
    """Raises Refused where the caller has not declared what the question needs (5.12, 8.2)."""
    need = needed(question)
    if need & abilities == need:
        return
    kind = {ELICIT: ELICITATION, SAMPLE: Ability.SAMPLING, ROOTS: Ability.ROOTS}[question.method]
    if not abilities & kind:
        raise Refused(UNDECLARED, f"the client does not serve {question.method}")
    raise Refused(_INVALID_PARAMS, f"the client does not serve {question.method} in this form")


def shown(server: str, question: Question, name: str = "") -> Question:
    """The question as an agent gets it: who asks is said, and what must not be asked is refused.

    `name`: mcpd's own id of a visit to an address, for agents of the era that has such ids (5.12).
    """
    if question.method == ROOTS:
        return Question(ROOTS, msgspec.Raw(b"{}"))
    members = _members(question)
    members.pop("task", None)
    meta = members.pop("_meta", None)
    kept = dialect.forwarded_meta(msgspec.json.encode(meta)) if isinstance(meta, dict) else b""
    if question.method == ELICIT:
        _check_elicitation(server, members)
        members.pop("elicitationId", None)
        if name and members.get("mode") == "url":
            members["elicitationId"] = name
    elif not isinstance(members.get("messages"), list):
        raise Refused(_INVALID_PARAMS, "sampling needs messages")
    text = dialect.params(msgspec.json.encode(members)[1:-1], kept)
    return Question(question.method, msgspec.Raw(text))


def visit_of(question: Question) -> str:
    """The server's own id of the visit that it asks for; empty where it has none."""
    if question.method != ELICIT:
        return ""
    members = _members(question)
    name = members.get("elicitationId") if members.get("mode") == "url" else None
    return name if isinstance(name, str) and len(name) <= VISIT else ""


def _members(question: Question) -> dict[str, Any]:
    limit = SAMPLING_MAX if question.method == SAMPLE else ELICITATION_MAX
    if len(question.text) > limit:
        raise Refused(_INVALID_PARAMS, f"a question has at most {limit:,} bytes")
    if len(question.text) > VALUES and holds_many(question.text):
        raise Refused(_INVALID_PARAMS, f"a question holds at most {VALUES:,} values")
    try:
        members = msgspec.json.decode(question.text)
    except (msgspec.DecodeError, RecursionError) as e:
        raise Refused(_INVALID_PARAMS, f"invalid params: {e}") from None
    if not isinstance(members, dict):
        raise Refused(_INVALID_PARAMS, "invalid params: they are no object")
    return members


# ------------------------------------------------------------------- elicitation


def _check_elicitation(server: str, members: dict[str, Any]) -> None:
    message = members.get("message")
    if not isinstance(message, str) or len(message) > MESSAGE:
        raise Refused(_INVALID_PARAMS, f"an elicitation needs a message of at most {MESSAGE:,} characters")
    # A question without a server is mcpd's own.
    said = f"[{server}, untrusted] " if server else "[mcpd] "
    if members.get("mode", "form") == "url":
        members["url"], host = _address(members.get("url"))
        # The host is what a person must look at; in the address alone it is easily overlooked (5.12).
        said += f"(leads to {host}) "
    else:
        _check_form(members.get("requestedSchema"))
    members["message"] = said + message


def _address(url: object) -> tuple[str, str]:
    """The address with its host in ASCII, and that host."""
    if not isinstance(url, str) or len(url) > ADDRESS:
        raise Refused(_INVALID_PARAMS, f"this elicitation needs a url of at most {ADDRESS:,} characters")
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna").decode() if ":" not in (parts.hostname or "") else ""
        host = host or f"[{parts.hostname}]"
        port = f":{parts.port}" if parts.port is not None else ""
    except (ValueError, UnicodeError):
        raise Refused(_INVALID_PARAMS, "the url cannot be read") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Refused(_INVALID_PARAMS, "the url must be an http or https address")
    if "@" in parts.netloc or "\\" in url or not url.isprintable() or " " in url:
        raise Refused(_INVALID_PARAMS, "the url must have neither a user name nor blanks in it")
    return parts._replace(netloc=host + port).geturl(), host


def _check_form(schema: object) -> None:
    try:
        form = forms.read(schema)
    except ValueError as e:
        raise Refused(_INVALID_PARAMS, str(e)) from None
    for name, field in form.fields.items():
        if _asks_secret(name, field):
            raise Refused(
                _INVALID_PARAMS,
                f"a form must not ask for secrets, as the field {name[:60]!r} seems to",
            )


#: Such words of which a number is one, too.
_DIGITS = frozenset({"pin", "cvv", "cvc", "otp", "totp", "passcode", "ssn"})
#: Words that name what must not be typed into a form, and pairs of words.
_SECRETS = _DIGITS | {"password", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "apikey"}
_SECRETS |= {"credential", "credentials", "mnemonic", "bearer", "jwt"}
_PAIRS = frozenset(
    {"api key", "private key", "access key", "secret key", "ssh key", "seed phrase", "security code"}
    | {"recovery code", "recovery phrase", "verification code", "card number", "pass phrase", "pass word"}
)
#: What such a word may end with where several are written as one.
_ENDS = ("password", "passwd", "passphrase", "passcode", "secret", "token", "apikey")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")


def _asks_secret(name: str, field: forms.Field) -> bool:
    """Whether a field looks like one for a password or the like. Choices and yes-or-no hold no secret."""
    if field.kind in ("boolean", "choice", "choices"):
        return False
    if field.schema.get("format") == "password" or field.schema.get("writeOnly") is True:
        return True
    listed = _DIGITS if field.kind in ("number", "integer") else _SECRETS
    for text in (name, field.title):
        plain = unicodedata.normalize("NFKC", text[:500])
        words = [word.casefold() for word in _WORD.findall(_CAMEL.sub(" ", plain))]
        stems = {word.rstrip("0123456789") for word in words}
        if listed & stems or (listed is _SECRETS and any(stem.endswith(_ENDS) for stem in stems)):
            return True
        if any(" ".join(pair) in _PAIRS for pair in itertools.pairwise(words)):
            return True
    return False


# ----------------------------------------------------------------------- answers


class Settled(msgspec.Struct, frozen=True):
    """An agent's answer as its server gets it."""

    result: bytes
    outcome: str
    """"accept", "decline", "cancel", or "ok" where there are no such words."""


def settle(question: Question, result: bytes) -> Settled:
    """An agent's answer to a question that it was shown; defaults are filled in (SEP-1034).

    Raises BadAnswer for what the question's server must not get.
    """
    if len(result) > ANSWER_MAX:
        raise BadAnswer(f"an answer has at most {ANSWER_MAX:,} bytes")
    if len(result) > VALUES and holds_many(result):
        raise BadAnswer(f"an answer holds at most {VALUES:,} values")
    try:
        match question.method:
            case "elicitation/create":
                return _elicited(question, msgspec.json.decode(result, type=Elicited))
            case "sampling/createMessage":
                sampled = msgspec.json.decode(result, type=Sampled)
                if bytes(sampled.content)[:1] not in (b"{", b"["):
                    raise BadAnswer("the answer's content is no block")
            case _:
                _check_roots(msgspec.json.decode(result, type=Rooted))
    except (msgspec.DecodeError, RecursionError) as e:
        raise BadAnswer(f"the answer does not have the form for {question.method}: {e}") from None
    return Settled(result, "ok")


def _check_roots(rooted: Rooted) -> None:
    if len(rooted.roots) > ROOTS_MAX:
        raise BadAnswer(f"there are at most {ROOTS_MAX} roots")
    if not all(root.uri.startswith("file://") for root in rooted.roots):
        raise BadAnswer("a root is a file:// URI")


def _elicited(question: Question, elicited: Elicited) -> Settled:
    if elicited.action != "accept":
        return Settled(msgspec.json.encode({"action": elicited.action}), elicited.action)
    members = msgspec.json.decode(question.text)
    if members.get("mode", "form") == "url":
        return Settled(b'{"action":"accept"}', "accept")
    form = forms.read(members.get("requestedSchema"))
    content = form.filled(elicited.content or {})
    if said := form.problem(content):
        raise BadAnswer(said)
    return Settled(msgspec.json.encode({"action": "accept", "content": content}), "accept")


#: What a server hears of a form or address when the agent's answer was none.
CANCELLED = b'{"action":"cancel"}'
DECLINED = b'{"action":"decline"}'
