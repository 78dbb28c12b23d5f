"""HTTP answers: what their status, type and body mean for the message that was sent (3.2, 3.3)."""

from __future__ import annotations

import contextlib
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import urldefrag, urljoin

import trio

from mcpd.api.status import Reason
from mcpd.http import Answer, Headers, HttpFailed, TooLarge, origin, same_origin
from mcpd.protocol import jsonrpc
from mcpd.protocol.framing import BOM
from mcpd.protocol.jsonrpc import ErrorObject
from mcpd.transport.base import Unanswered

#: These keep method and body (RFC 9110 15.4.8, 15.4.9); after the others a POST may become a GET.
KEEPING = (307, 308)
#: The server asks to be left alone for a while (RFC 9110 10.2.3, RFC 6585 4).
BUSY = (429, 503)

#: Bytes and seconds for what a body says of a refusal.
REFUSAL_LIMIT, REFUSAL_WAIT = 1024 * 1024, 5.0
#: Bytes and seconds for what follows when all is said: enough for an end that is on its way.
DRAIN_LIMIT, DRAIN_WAIT = 64 * 1024, 0.25

_METHOD_NOT_FOUND = -32601


def is_success(status: int) -> bool:
    return 200 <= status < 300


def is_passing(status: int) -> bool:
    """Whether a stream that is refused so may well be given a moment later: an outage, too many requests, or
    the stream before it, of which the server does not know yet that it ended."""
    return status >= 500 or status in (409, 429)


def is_stream(answer: Answer) -> bool:
    """Whether a stream of events was opened; parameters of the type and its letter case do not matter."""
    return is_success(answer.status) and media_type(answer.headers) == "text/event-stream"


def media_type(headers: Headers) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def target(url: str, location: str) -> str:
    """Where a `Location` leads from a URL; empty when it is none."""
    try:
        return urldefrag(urljoin(url, location)).url if location else ""
    except ValueError:
        return ""


def followed(url: str, status: int, headers: Headers) -> str:
    """The URL that the same request goes to instead: on the same origin only; empty for none."""
    where = target(url, headers.get("location", "")) if status in KEEPING else ""
    return where if where and same_origin(where, url) else ""


def pause(status: int, headers: Headers, now: float) -> float | None:
    """Seconds after which the server wants to be asked again; None when it names no time.

    `now`: seconds since the epoch, for the form that is a date.
    """
    value = headers.get("retry-after", "").strip()
    if status not in BUSY or not value:
        return None
    if value.isascii() and value.isdigit():
        return float(value[:10])
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def session_gone(status: int, error: ErrorObject | None, *, own: bool) -> bool:
    """Whether a refusal of a message that named a session means that there is no such session any more.

    404 says so by the letter. Others answer 400, or 503 in so many words (section 11); an error under the
    message's own id is about the message, unless it speaks of sessions. `own`: whether it has that id.
    """
    speaks = error is not None and "session" in error.message.lower()
    if status == 404:
        return not (own and error is not None and error.code == _METHOD_NOT_FOUND)
    if status == 400:
        return speaks or not own
    return status == 503 and speaks


async def rest(answer: Answer) -> bytes:
    """What a refusal has for a body, as one line, if it can be had."""
    with trio.move_on_after(REFUSAL_WAIT), contextlib.suppress(TooLarge, HttpFailed):
        return one_line(await answer.read(REFUSAL_LIMIT))
    return b""


async def drain(answer: Answer) -> None:
    """Take in what follows when all is said: only a connection that was read to its end can be used again,
    and a new one costs several times the call."""
    with trio.move_on_after(DRAIN_WAIT), contextlib.suppress(TooLarge, HttpFailed):
        await answer.read(DRAIN_LIMIT)


def one_line(body: bytes) -> bytes:
    """JSON text without line ends, which may stand between its tokens: agents get it in lines."""
    return body.removeprefix(BOM).replace(b"\n", b" ").replace(b"\r", b" ").strip()


def error_of(line: bytes) -> ErrorObject | None:
    """The JSON-RPC error that a body is."""
    message = jsonrpc.read_lenient(line) if line[:1] == b"{" else None
    error = bytes(message.error) if message is not None and not message.method else b""
    return jsonrpc.read_error(error) if error[:1] == b"{" else None


def unsent(failure: HttpFailed) -> Unanswered:
    """A request to which no HTTP answer came, or only half of one."""
    kind = "outcome_unknown" if failure.sent else "unavailable"
    return Unanswered(kind, failure.message, reason=failure.reason, reached=failure.sent)


def unanswered(url: str, answer: Answer, body: bytes) -> Unanswered:
    """A request that was answered by something else. `body`: as much of it as was read."""
    status = answer.status
    kind, reason = _kind(status)
    return Unanswered(
        kind,
        f"the server answered with HTTP status {_named(status)}{_what_came(url, answer, body)}",
        reason=reason,
        status=status,
        reached=is_success(status) or (status >= 500 and status not in BUSY),
    )


def too_large() -> Unanswered:
    words = "the server's answer is larger than 16 MiB"
    return Unanswered("too_large", words, reason="bad_answer", status=200)


def _kind(status: int) -> tuple[str, Reason]:
    if status == 401:
        return "needs_login", "needs_auth"
    if status == 403:
        return "unavailable", "access_denied"
    if is_success(status):
        return "bad_answer", "bad_answer"
    return "unavailable" if status in BUSY else "bad_answer", "failed"


def _named(status: int) -> str:
    try:
        return f"{status} ({HTTPStatus(status).phrase})"
    except ValueError:
        return str(status)


def _what_came(url: str, answer: Answer, body: bytes) -> str:
    status, headers = answer.status, answer.headers
    if 300 <= status < 400:
        return f", {_redirect(url, status, headers)}"
    if status == 401:
        return ": it wants authorization"
    if media_type(headers).endswith("html") or body[:1] == b"<":
        return " and a web page"
    said = _shown(body)
    if is_success(status):
        return f" and a body that is no JSON-RPC answer: {said}" if said else " and no answer in it"
    later = _shown(headers.get("retry-after", "").encode()) if status in BUSY else ""
    return (f", to be asked again after {later}" if later else "") + (f": {said}" if said else "")


def _shown(text: bytes) -> str:
    """A stranger's text for a message: one line, printable, not long."""
    printable = "".join(c if c.isprintable() else " " for c in text[:1200].decode("utf-8", "replace"))
    return jsonrpc.words(printable)


def _redirect(url: str, status: int, headers: Headers) -> str:
    where = target(url, headers.get("location", ""))
    try:
        to, here = origin(where), origin(url)
    except HttpFailed:
        return "a redirect to nowhere"
    if to != here:
        # What stands behind the host may be secret, and a status is shown and logged.
        return f"a redirect to another origin, {to}, which is not followed"
    if status in KEEPING:
        return "a redirect that leads in a circle"
    return "a redirect that would make a GET of the request; set the url to where it leads"
