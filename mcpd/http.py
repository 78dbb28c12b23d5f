"""HTTP towards servers: the only module that knows httpx, and no object of httpx leaves it.

Rules. A `Client` talks to one origin, and what it is told goes there and nowhere else. It follows no
redirect, keeps no cookie, reads no netrc and adds no credentials; proxies are read from the variables it is
given. Nothing here waits for a body for a stated time: whoever reads has a deadline of his own. What a
server sends is bounded: headers by h11 (100 KiB), pieces of a body by CHUNK, a whole body by its reader.
Messages name scheme, host and port, never a path, a query or the value of a header.

httpx's transports are used without its client, which would keep cookies, parse redirects of strangers and
log every URL with its query. Names of httpx that are not documented are not touched.
"""

from __future__ import annotations

import functools
import os
import re
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import httpx
import trio

from mcpd import __version__
from mcpd.api.status import Reason
from mcpd.inflate import Gzip, Plain
from mcpd.origins import Origin, address_of, default_port, proxy_for

Headers: TypeAlias = Mapping[str, str]
"""Name -> value. Names of an answer are in lower case; one that came several times has its values joined by a
comma (RFC 9110 5.3)."""

#: Bytes by which a body may be longer before it is inflated than `read` allows after: gzip lengthens what it
#: cannot shorten by a few in a thousand, and members without content must not go on for ever.
_OVERHEAD: Final = 1024 * 1024

#: Seconds. Reading has no limit: a call may take half an hour, a stream of notices for ever.
_CONNECT, _WRITE, _POOL = 10, 30, 10
_TIMEOUT: Final = httpx.Timeout(connect=_CONNECT, write=_WRITE, pool=_POOL, read=None).as_dict()
#: Seconds that an idle connection is kept: a second less than uvicorn, hypercorn, Node and Apache keep it, so
#: that a request seldom meets a connection in the moment of its closing.
_KEPT: Final = 4
#: Requests under way to one server, long-lived streams not counted; and idle connections of them.
_MOST, _MOST_KEPT = 100, 20
#: A peer that has gone without a word (sleep, another network) is noticed after 60 s.
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)

#: Methods that may be made again though the first attempt may have been heard (RFC 9110 9.2.2).
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS", "PUT"})
#: What this module decides itself whatever it is told: how bytes are coded and connections kept.
_OWN: Final = frozenset({"accept-encoding", "connection", "keep-alive", "proxy-connection"})
#: What would make the request another one than its body says (RFC 9112 6).
_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "te", "trailer", "upgrade", "expect"})
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 5.6.2
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")  # RFC 9110 5.5
#: Names that resolvers take (RFC 1035 2.3.4); the underscore is found in real ones.
_HOST: Final = re.compile(r"(?=.{1,254}\Z)([a-z0-9_-]{1,63}\.)*[a-z0-9_-]{1,63}\.?")

#: Where systems keep their certificates, for a Python whose OpenSSL looks elsewhere (those that uv installs).
_STORES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class HttpFailed(Exception):
    """No usable answer came.

    `reason`: "unreachable" (no connection), "not_responding" (a time limit) or "failed". `message`: words for
    a status line. `sent`: False when the server provably has not got the request whole, so that it cannot
    have acted on it.
    """

    def __init__(self, reason: Reason, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.sent = sent


class TooLarge(Exception):
    """A body is longer than its reader allows; the connection is not usable any more."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is larger than {limit} bytes")
        self.limit = limit


def origin(url: str) -> Origin:
    """Where a URL leads. Raises HttpFailed, in words without any part of it, when mcpd would not go there.

    User name and password in a URL are refused, not turned into credentials: a redirect or a server's
    `endpoint` could bring them (RFC 9110 4.2.4). So are zone ids, which mean nothing in `Host` (RFC 6874).
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        raise _refused("the URL is not valid") from None
    if parsed.scheme not in ("http", "https"):
        raise _refused("the URL begins with neither http:// nor https://")
    if parsed.userinfo:
        raise _refused("the URL holds a user name or password; set the header Authorization instead")
    host = parsed.raw_host.decode("ascii").lower()
    if "%" in host:
        raise _refused("the URL's host holds a zone id or an escaped character")
    address = address_of(host)
    if address is None and not _is_name(parsed):
        raise _refused("the URL's host is not valid")
    port = parsed.port if parsed.port is not None else default_port(parsed.scheme)
    if not 0 < port < 65536:
        raise _refused("the URL's port is not valid")
    return Origin(parsed.scheme, host if address is None else str(address), port)


def _is_name(url: httpx.URL) -> bool:
    """Whether a URL's host can be looked up. What no resolver takes would be an error of another kind."""
    try:
        # Decoding shows what only looks like IDNA.
        return bool(url.host) and _HOST.fullmatch(url.raw_host.decode("ascii").lower()) is not None
    except ValueError:
        return False


def _refused(message: str) -> HttpFailed:
    return HttpFailed("failed", message, sent=False)


def same_origin(a: str, b: str) -> bool:
    """Whether two URLs have scheme, host and port in common; False when one of them leads nowhere."""
    try:
        return origin(a) == origin(b)
    except HttpFailed:
        return False


def _proxy(
    target: Origin, environ: Mapping[str, str], trust: ssl.SSLContext
) -> tuple[httpx.Proxy | None, str]:
    """The proxy for a target, and its name for messages. Raises HttpFailed when what is set is not usable."""
    variable, value = proxy_for(target, environ)
    if not value:
        return None, ""
    try:
        url = httpx.URL(value if "://" in value else f"http://{value}")
        proxy = httpx.Proxy(url, ssl_context=trust if url.scheme == "https" else None)
    except (httpx.InvalidURL, ValueError):
        raise _refused(f"{variable} holds no URL of a proxy") from None
    named = _is_name(url) or address_of(url.raw_host.decode("ascii")) is not None
    if not named or (url.port is not None and not 0 < url.port < 65536):
        raise _refused(f"{variable} holds no URL of a proxy")
    host = f"[{url.host}]" if ":" in url.host else url.host
    return proxy, f"{url.scheme}://{host}" + (f":{url.port}" if url.port else "")


def _trust(environ: Mapping[str, str]) -> ssl.SSLContext:
    """What certificates are checked against; SSL_CERT_FILE and SSL_CERT_DIR say where, as for OpenSSL.

    Raises HttpFailed when what they name cannot be read.
    """
    file, folder = environ.get("SSL_CERT_FILE", ""), environ.get("SSL_CERT_DIR", "")
    try:
        return _context(file, folder)
    except OSError as error:  # SSLError is one of them
        named = " and ".join(f"{n}={v}" for n, v in (("SSL_CERT_FILE", file), ("SSL_CERT_DIR", folder)) if v)
        why = "no certificates in it" if isinstance(error, ssl.SSLError) else error.strerror
        raise _refused(f"cannot load the certificates of {named or 'the system'}: {why}") from None


@functools.cache
def _context(file: str, folder: str) -> ssl.SSLContext:
    """One context for all clients: each costs 55 ms and 1.5 MiB.

    The standard library's own, not truststore's, which on Linux parses the whole store again for every
    connection (55 ms of the loop, measured) and finds the same certificates.
    """
    places = ssl.get_default_verify_paths()
    stored = file or next(filter(os.path.isfile, (places.openssl_cafile, *_STORES)), "")
    hashed = folder or (places.openssl_capath if os.path.isdir(places.openssl_capath) else "")
    if not stored and not hashed:
        return httpx.create_ssl_context(trust_env=False)  # those that come with httpx
    if folder and not os.path.isdir(folder):
        raise NotADirectoryError(0, "there is no such folder")
    return ssl.create_default_context(cafile=stored or None, capath=hashed or None)


class _Body:
    """The pieces of one answer's body, in order; iterating again goes on where reading has got to."""

    def __init__(self, response: httpx.Response, coding: str, where: str) -> None:
        self._raw = response.aiter_raw()
        self._coding = coding
        self._where = where
        self._decoder: Plain | Gzip = Gzip() if coding in ("gzip", "x-gzip") else Plain()
        self._cut = False
        """Reading was broken off; httpx would call what follows a regular end."""
        self._received = 0
        self.limit = 0
        """Bytes that its reader wants at most, inflated; 0: however many come."""

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        # The checkpoint comes first: one chunk from the network can become a thousand pieces.
        await trio.lowlevel.checkpoint()
        while not (piece := self._next()):
            await self._receive()
        return piece

    def _next(self) -> bytes:
        try:
            return self._decoder.next()
        except zlib.error:
            raise self._broken("sent a body whose gzip coding is damaged") from None

    async def _receive(self) -> None:
        if self._cut:
            raise self._broken("was not read to its end")
        self._cut = True
        try:
            data = await anext(self._raw)
        except StopAsyncIteration:
            self._cut = False
            if not self._decoder.whole:
                raise self._broken("sent a body whose gzip coding is cut off") from None
            raise
        except httpx.HTTPError as error:
            raise self._broken(f"broke off its answer{_because(error)}") from None
        self._cut = False
        # Only here: an answer without a body may say what it likes about its coding.
        if data and self._coding not in ("", "identity", "gzip", "x-gzip"):
            raise self._broken(f"sent a body coded as {_shown(self._coding)}, which mcpd did not ask for")
        self._received += len(data)
        if self.limit and self._received > self.limit + _OVERHEAD:
            raise TooLarge(self.limit)
        self._decoder.feed(data)

    def _broken(self, what: str) -> HttpFailed:
        return HttpFailed("failed", f"{self._where} {what}", sent=True)


class Answer:
    """One answer, while its context is open.

    A body that is not read to its end costs the connection, which is closed with the context.
    """

    def __init__(self, response: httpx.Response, where: str) -> None:
        self.status = response.status_code
        self.headers: Headers = _joined(response.headers.multi_items())
        coding = self.headers.get("content-encoding", "").strip().lower()
        self._body = _Body(response, coding, where)

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, inflated, in pieces of at most CHUNK bytes as they come.

        Raises HttpFailed when it breaks off or its coding is not exactly one gzip or none.
        """
        return self._body

    async def read(self, limit: int, paced: Callable[[int], Awaitable[None]] | None = None) -> bytes:
        """The whole body. `paced` is told, and waited for, how many bytes of it are there.

        Raises TooLarge over `limit` bytes, and what `chunks` raises.
        """
        pieces: list[bytes] = []
        size = 0
        self._body.limit = limit
        async for piece in self._body:
            size += len(piece)
            if size > limit:
                raise TooLarge(limit)
            pieces.append(piece)
            if paced is not None:
                await paced(size)
        return b"".join(pieces)

    async def _finish(self) -> None:
        """Take in an end that is there without waiting, so that the connection can be used again."""
        if self.status in (204, 304) or self.headers.get("content-length") == "0":
            await self.read(0)


def _joined(items: list[tuple[str, str]]) -> Headers:
    joined: dict[str, str] = {}
    for name, value in items:
        name = name.lower()
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


class _Sending:
    """How far one request got, from httpx's `trace` extension.

    Names of events may change with versions of httpx, so only an event that came proves anything.
    """

    def __init__(self) -> None:
        self.fresh = False
        """A connection was opened for it."""
        self.unsent = False
        """Writing failed before the last byte was taken."""
        self._tunnel = False

    async def notice(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.fresh = True
        elif event == "http11.send_request_headers.started":
            # The CONNECT to a proxy is told of as well; it is not the request.
            self._tunnel = info["request"].method == b"CONNECT"
        elif event in ("http11.send_request_headers.failed", "http11.send_request_body.failed"):
            self.unsent = not self._tunnel


class Client:
    """All requests to one server.

    Two pools: a stream that stays open for hours must not take a place that a call waits for. `environ`:
    HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR are read, nothing else.
    """

    def __init__(self, url: str, environ: Mapping[str, str]) -> None:
        """`url`: any of the server's. Raises HttpFailed when it, a proxy or the trust store is not usable."""
        self.origin = origin(url)
        trust = _trust(environ)
        proxy, proxy_name = _proxy(self.origin, environ, trust)
        self._where = f"{self.origin} by the proxy {proxy_name}" if proxy else str(self.origin)
        self._last = ("", httpx.URL(""))
        """Where the last request went: parsing a URL twice is a tenth of what a request costs."""
        self._closed = False

        def pool(most: int | None, kept: int) -> httpx.AsyncHTTPTransport:
            limits = httpx.Limits(
                max_connections=most, max_keepalive_connections=kept, keepalive_expiry=_KEPT
            )
            return httpx.AsyncHTTPTransport(
                verify=trust, trust_env=False, limits=limits, proxy=proxy, socket_options=_KEEPALIVE
            )

        try:
            self._calls, self._streams = pool(_MOST, _MOST_KEPT), pool(None, 0)
        except ImportError:
            raise _refused(
                f"the proxy {proxy_name} speaks SOCKS, for which the package socksio is not installed"
            ) from None

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, headers: Headers, body: bytes = b"", *, long_lived: bool = False
    ) -> AsyncIterator[Answer]:
        """Make one request; the context holds its answer, whatever the status, from its headers on.

        Raises HttpFailed when there is none. `long_lived`: for a stream that is not the answer to a call; it
        waits for no place and its connection is not used again. Leaving the context before the end of the
        body, or being cancelled, closes the connection; neither waits for the server.
        """
        if self._closed:
            raise _refused(f"{self._where} is not talked to any more")
        target, fields = self._target(url), _fields(headers)
        pool = self._streams if long_lived else self._calls
        response = await self._send(pool, method, target, fields, body)
        try:
            answer = Answer(response, self._where)
            yield answer
            await answer._finish()
        finally:
            await response.aclose()

    def _target(self, url: str) -> httpx.URL:
        """The URL, if it is on the origin. Raises HttpFailed."""
        last, target = self._last
        if url == last:
            return target
        if origin(url) != self.origin:
            raise _refused(f"the URL leads away from {self.origin}")
        target = httpx.URL(url)
        self._last = (url, target)
        return target

    async def _send(
        self,
        pool: httpx.AsyncHTTPTransport,
        method: str,
        url: httpx.URL,
        fields: list[tuple[bytes, bytes]],
        body: bytes,
    ) -> httpx.Response:
        """One request, and a second time where an idle connection turned out to be closed.

        That is the end of a connection which lay idle, met by a request that the server cannot have got
        whole, or one that may be repeated anyway (RFC 9110 9.2.2, RFC 9112 9.3.1, a21). Where the whole
        request was written, the server may have acted before it closed: that is the caller's to know.
        """
        repeated = False
        while True:
            sending = _Sending()
            extensions = {"timeout": _TIMEOUT, "trace": sending.notice}
            request = httpx.Request(method, url, headers=fields, content=body, extensions=extensions)
            try:
                return await pool.handle_async_request(request)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
                again = not sending.fresh and (sending.unsent or method in _IDEMPOTENT)
                if repeated or not again:
                    raise _failure(error, self._where, sending.unsent) from None
                repeated = True
            except httpx.HTTPError as error:
                raise _failure(error, self._where, sending.unsent) from None

    async def aclose(self) -> None:
        """Close every connection. Whoever still reads an answer gets HttpFailed."""
        self._closed = True
        await self._calls.aclose()
        await self._streams.aclose()


def _fields(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Header fields as they are sent. Raises HttpFailed, naming the header, for one that cannot be."""
    fields = {"user-agent": ("User-Agent", f"mcpd/{__version__}")}
    seen: set[str] = set()
    for name, value in headers.items():
        lower, value = name.lower(), value.strip(" \t")
        if not _NAME.fullmatch(name):
            raise _refused(f"{_shown(name)} is not the name of a header")
        if lower in _FRAMING or lower in seen:
            raise _refused(f"the header {name} cannot be set" + (" twice" if lower in seen else ""))
        if not _VALUE.fullmatch(value):
            raise _refused(f"the value of the header {name} holds a control character")
        seen.add(lower)
        if lower not in _OWN:
            fields[lower] = (name, value)
    fields["accept-encoding"] = ("Accept-Encoding", "gzip")
    return [(name.encode(), value.encode(errors="replace")) for name, value in fields.values()]


def _failure(error: httpx.HTTPError, where: str, unsent: bool) -> HttpFailed:
    """What ended a request before its answer."""
    match error:
        case httpx.ConnectTimeout():
            return HttpFailed("unreachable", f"{where} took no connection within {_CONNECT} s", sent=False)
        case httpx.PoolTimeout():
            busy = f"{_MOST} requests to {where} are under way and none ended within {_POOL} s"
            return HttpFailed("not_responding", busy, sent=False)
        case httpx.WriteTimeout():
            late = f"{where} did not take the request within {_WRITE} s"
            return HttpFailed("not_responding", late, sent=not unsent)
        case httpx.ConnectError():
            reason, words = _unconnected(error, where)
            return HttpFailed(reason, words, sent=False)
        case httpx.ProxyError():
            # The proxy's answer to CONNECT; nothing was asked of the server yet.
            return HttpFailed("unreachable", f"cannot reach {where}: {_shown(str(error))}", sent=False)
        case httpx.RemoteProtocolError() | httpx.ReadError() | httpx.WriteError():
            words = f"{where} gave no answer{_because(error)}"
            return HttpFailed("failed", words, sent=not unsent)
        case _:
            return HttpFailed("failed", f"the request to {where} failed{_because(error)}", sent=not unsent)


def _unconnected(error: httpx.ConnectError, where: str) -> tuple[Reason, str]:
    """Why there is no connection: TLS before addresses, as an SSLError is an OSError as well."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "failed", f"the certificate of {where} is not valid: {_shown(cause.verify_message)}"
    for cause in causes:
        if isinstance(cause, ssl.SSLError):
            return "failed", f"cannot speak TLS with {where}: {_shown(cause.reason or 'no words for it')}"
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return "unreachable", f"cannot find the host of {where}: {cause.strerror}"
    for cause in causes:
        if isinstance(cause, OSError) and cause.errno:
            return "unreachable", f"cannot connect to {where}: {os.strerror(cause.errno).lower()}"
    return "unreachable", f"cannot connect to {where}: it closed the connection while it was made"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and what led to it, members of groups included; httpcore cuts `__cause__` off."""
    found: list[BaseException] = [error]
    for each in found:
        yield each
        members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        for cause in (each.__cause__, each.__context__, *members):
            if cause is not None and cause not in found:
                found.append(cause)


def _because(error: httpx.HTTPError) -> str:
    """The reason as h11 or the system says it; it may quote what the server sent."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.errno:
            return f": {os.strerror(cause.errno).lower()}"
    return f": {_shown(str(error))}" if str(error) else ""


def _shown(text: str) -> str:
    """A stranger's text for a message: one line, printable, not long."""
    return "".join(c if c.isprintable() else "?" for c in text[:120])
