"""Whether a request may come in, and whether its headers say what its body says. Pure.

Loopback is no protection by itself: a web page can send requests to it, from any name that its owner lets
resolve to 127.0.0.1. So Host and Origin are checked before anything else, and no CORS header is ever sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from mcpd.catalog.mirror import Mirror, Unmirrorable, mirrored
from mcpd.errors import Failure
from mcpd.protocol import headers, jsonrpc
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.revisions import HANDSHAKE, STATELESS
from mcpd.protocol.shapes import Carrier, read_params

#: The names by which this machine reaches itself, without a port.
NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

#: The path of everything an agent may use, and what one server's begins with.
ALL = "/mcp"
ONE = "/server/"

JSON = "application/json"
EVENTS = "text/event-stream"

_HOST = re.compile(r"(\[[0-9a-fA-F:.]*\]|[^\[\]:]*)(?::([0-9]{1,5}))?")
_DECIMAL = re.compile(r"-?[0-9]+(\.0+)?")

#: JSON-RPC code -> HTTP status of an answer to a stateless request; 200 for others (3.3).
_STATUSES = {
    -32700: 400,
    -32600: 400,
    -32601: 404,
    -32602: 400,
    -32020: 400,
    -32021: 400,
    -32022: 400,
}

#: Bytes in which the second member after the longest id begins, as mcpd writes its lines.
_ENVELOPE = 400

Era = Literal["handshake", "stateless"]


class Refused(Exception):
    """A request that goes no further: an HTTP status, and the failure that its body tells."""

    def __init__(self, status: int, failure: Failure, *extra: tuple[bytes, bytes]) -> None:
        """`extra`: headers of the answer."""
        super().__init__(failure.message)
        self.status = status
        self.failure = failure
        self.extra = extra
        self.key = b"null"
        """The JSON text of the request's id, where it was read."""

    @property
    def body(self) -> bytes:
        """A JSON-RPC error."""
        failure = self.failure
        error = jsonrpc.error_text(failure.code, failure.message, failure.details())
        return jsonrpc.error_line(self.key, error)


class Head(msgspec.Struct, frozen=True):
    """The head of a request. Names of headers are lower-case; one that came twice has two values."""

    method: str
    path: str
    fields: dict[str, list[str]]

    def get(self, name: str) -> str:
        """The value of a header, several joined as RFC 9110 5.3 says; empty without one."""
        return ", ".join(self.fields.get(name.lower(), ()))

    def only(self, name: str) -> str | None:
        """The one value. Raises Refused for several: two readers would take different ones (8.1)."""
        values = self.fields.get(name.lower())
        if values is None:
            return None
        if len(values) > 1:
            raise Refused(400, Failure("header_mismatch", f"{name} stands there {len(values)} times"))
        return values[0]


def read_head(method: str, path: bytes, fields: Iterable[tuple[bytes, bytes]]) -> Head:
    """Bytes as they came; blanks around a value do not belong to it (RFC 9110 5.5)."""
    found: dict[str, list[str]] = {}
    for name, value in fields:
        found.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1").strip(" \t"))
    return Head(method, path.decode("latin-1"), found)


# ------------------------------------------------------------------ who asks


def check_framing(head: Head) -> None:
    """Raises Refused for a body that ends in one place for one reader and elsewhere for another; what follows
    on the connection is not read (RFC 9112 6.1)."""
    if head.get("Transfer-Encoding") and head.get("Content-Length"):
        words = "a body has either Content-Length or Transfer-Encoding"
        raise Refused(400, Failure("invalid_request", words), (b"connection", b"close"))


def check_host(head: Head) -> None:
    """Raises Refused unless the request was meant for this machine and comes from no other site's page."""
    host = head.only("Host") or ""
    found = _HOST.fullmatch(host)
    if found is None or found[1].lower() not in NAMES:
        words = f"this is no {host[:60]!r}; use localhost, 127.0.0.1 or [::1]"
        raise Refused(421, Failure("refused", words))
    origin = head.only("Origin")
    if origin is not None and origin.lower() != f"http://{host.lower()}":
        raise Refused(403, Failure("refused", f"pages of {origin[:60]!r} have no business here"))


def place(head: Head) -> str:
    """The server that the path names, empty for all of them. Raises Refused for no place at all."""
    path = head.path.removesuffix("/")
    if path == ALL:
        return ""
    name = path.removeprefix(ONE)
    if path.startswith(ONE) and name and "/" not in name:
        return name
    raise Refused(404, Failure("refused", f"there is nothing here; use {ALL} or {ONE}NAME"))


def bearer(head: Head) -> str:
    """The token of the Authorization header (RFC 6750 2.1); empty without one."""
    scheme, _, token = head.get("Authorization").partition(" ")
    return token.strip(" ") if scheme.lower() == "bearer" else ""


def not_authorized(token: str) -> Refused:
    """The answer to a missing or wrong token (RFC 6750 3)."""
    challenge = b'Bearer realm="mcpd"' + (b', error="invalid_token"' if token else b"")
    failure = Failure(
        "refused",
        "this needs the bearer token of an agent" if not token else "no agent has this token",
        hint="mcpctl endpoint token AGENT",
    )
    return Refused(401, failure, (b"www-authenticate", challenge))


# ------------------------------------------------------------- what is asked


def check_content(head: Head) -> None:
    """Raises Refused unless the body is plain JSON: no form of a web page can send that (8.1)."""
    kind = (head.only("Content-Type") or "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise Refused(415, Failure("invalid_request", f"the body must be {JSON}, not {kind[:60]!r}"))
    coding = (head.only("Content-Encoding") or "identity").lower()
    if coding != "identity":
        raise Refused(415, Failure("invalid_request", f"a body in coding {coding[:60]!r} is not read"))


class Accepts(NamedTuple):
    json: bool
    events: bool


def accepts(head: Head) -> Accepts:
    """What the client can read. Who says nothing takes all; clients often name one and mean both (11)."""
    kinds = [part.partition(";")[0].strip().lower() for part in head.get("Accept").split(",")]
    if kinds == [""] or "*/*" in kinds:
        return Accepts(True, True)
    found = Accepts(JSON in kinds or "application/*" in kinds, EVENTS in kinds or "text/*" in kinds)
    if not any(found):
        raise Refused(406, Failure("invalid_request", f"the answer is {JSON} or {EVENTS}"))
    return found


def is_stateless(head: Head) -> bool:
    return head.only(headers.REVISION) in STATELESS


def era(head: Head, message: Message) -> Era:
    """Which kind of revision the message belongs to, by header first and body second.

    A client of a revision with a handshake carries its session's id from `initialize` on. Raises Refused
    for what belongs to neither.
    """
    if is_stateless(head):
        return "stateless"
    if head.only(headers.SESSION) is not None or message.method == "initialize":
        return "handshake"
    said = head.only(headers.REVISION)
    revision = _carrier(message).meta.revision
    if revision is not None or (said is not None and said not in HANDSHAKE):
        return "stateless"
    raise Refused(
        400,
        Failure(
            "invalid_request",
            f"send initialize first and its {headers.SESSION} from then on, "
            f"or {headers.REVISION}: {STATELESS[-1]} with every request",
        ),
    )


def check_revision(head: Head) -> None:
    """Raises Refused for a revision that no session can have (3.2); without a header any is meant."""
    said = head.only(headers.REVISION)
    if said is not None and said not in HANDSHAKE:
        raise Refused(400, Failure("invalid_request", f"unsupported protocol version {said[:60]!r}"))


def _carrier(message: Message) -> Carrier:
    """What stands in `_meta`; nothing where params are not readable, which is said later."""
    try:
        return read_params(bytes(message.params), Carrier)
    except Failure:
        return Carrier()


# ------------------------------------------------ headers that repeat the body


def check_headers(head: Head, message: Message) -> None:
    """Raises Refused unless the routing headers of a stateless request repeat what its body says (3.3).

    A body without its `_meta` is left to the session, which says what is missing.
    """
    said, method, name = (head.only(each) for each in (headers.REVISION, headers.METHOD, headers.NAME))
    revision = _carrier(message).meta.revision
    if isinstance(revision, str):
        _check(headers.REVISION, said, revision)
    if revision is None and message.key:
        return
    _check(headers.METHOD, method, message.method)
    member = headers.NAMED_BY.get(message.method)
    value = _text(message, member) if member is not None else None
    if value is not None:
        _check(headers.NAME, name, value, coded=True)


def check_mirrors(head: Head, mirrors: tuple[Mirror, ...], arguments: bytes) -> None:
    """Raises Refused unless every `Mcp-Param-*` header of the tool equals its argument (3.3).

    `arguments`: JSON text. Headers that the tool does not ask for say nothing.
    """
    try:
        wanted = mirrored(mirrors, arguments)
    except Unmirrorable:
        return  # too long for a header: whether one was sent is nothing to go by
    for mirror in mirrors:
        name = headers.PARAM + mirror.header
        said, value = head.only(name), wanted.get(name)
        if value is None:
            if said is not None:
                raise _mismatch(name, "the body has no such argument")
            continue
        plain = headers.decode(value) or ""
        _check(name, said, plain, coded=True, number=mirror.kind == "integer")


def _check(name: str, said: str | None, meant: str, *, coded: bool = False, number: bool = False) -> None:
    if said is None:
        raise _mismatch(name, "it is missing")
    plain = headers.decode(said) if coded else said
    if plain is None:
        raise _mismatch(name, "it is no Base64")
    if plain != meant and not (number and _same_number(plain, meant)):
        raise _mismatch(name, "it differs from the body")


def _same_number(one: str, other: str) -> bool:
    """42 is 42.0; by digits, for no float holds every integer."""
    if not (_DECIMAL.fullmatch(one) and _DECIMAL.fullmatch(other)):
        return False
    return one.partition(".")[0] == other.partition(".")[0]


def _mismatch(name: str, why: str) -> Refused:
    return Refused(400, Failure("header_mismatch", f"{name}: {why}"))


def _text(message: Message, member: str) -> str | None:
    """A member of the params that is a string; None for everything else."""
    try:
        value = read_params(bytes(message.params), dict[str, msgspec.Raw]).get(member)
        return None if value is None else msgspec.json.decode(value, type=str)
    except (Failure, msgspec.DecodeError):
        return None


# ----------------------------------------------------------------- the answer


def status_of(answer: bytes) -> int:
    """The HTTP status of a line of JSON text that answers a stateless request (3.3)."""
    head = answer[:_ENVELOPE]
    at = head.find(b',"error":')
    if at < 0 or 0 <= head.find(b',"result":') < at:
        return 200
    try:
        code = jsonrpc.read_error(bytes(msgspec.json.decode(answer, type=Message).error)).code
    except (msgspec.DecodeError, RecursionError):
        return 200
    return _STATUSES.get(int(code), 200)
