"""The client against real servers on the loopback, written byte by byte."""

from __future__ import annotations

import contextlib
import datetime
import functools
import gzip
import importlib.util
import ipaddress
import logging
import random
import socket
import ssl
import struct
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from mcpd.http import Client, HttpFailed, TooLarge, origin, same_origin
from mcpd.inflate import CHUNK

LIMIT = 1 << 20
SECRET = "s3cr3t"
JSON = {"Content-Type": "application/json"}


class Asked(NamedTuple):
    """One request as it came; names of headers in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Peer:
    """The server's end of one connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.buffer = b""

    async def head(self) -> tuple[str, str, dict[str, str]] | None:
        while b"\r\n\r\n" not in self.buffer:
            data = await self.stream.receive_some()
            if not data:
                return None
            self.buffer += data
        text, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = text.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        pairs = [line.split(": ", 1) for line in lines]
        assert len({name.lower() for name, _ in pairs}) == len(pairs), "a header came twice"
        return method, target, {name.lower(): value for name, value in pairs}

    async def asked(self) -> Asked | None:
        """The next request; None when the client closed the connection before one."""
        head = await self.head()
        if head is None:
            return None
        length = int(head[2].get("content-length", "0"))
        while len(self.buffer) < length:
            data = await self.stream.receive_some(1 << 20)
            if not data:
                return None
            self.buffer += data
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return Asked(*head, body)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, body: bytes = b"", status: int = 200, **headers: str) -> None:
        fields = {"Content_Length": str(len(body))} | headers
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        await self.send(f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode("latin-1") + body)

    async def closed(self) -> None:
        """Return once the client has closed the connection; what it sends before is not looked at."""
        with contextlib.suppress(trio.BrokenResourceError):
            while await self.stream.receive_some():
                pass

    def reset(self) -> None:
        """Close without a word: the other end gets RST."""
        assert isinstance(self.stream, trio.SocketStream)
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.socket.close()


Serve = Callable[[Peer], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(
    serve: Serve, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[int]:
    """A server whose connections are each served by a call of `serve`; its port."""

    async def connection(stream: trio.SocketStream) -> None:
        peer = Peer(stream)
        try:
            if tls is not None:
                peer.stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
                await peer.stream.do_handshake()
            await serve(peer)
        except trio.BrokenResourceError:
            pass  # the client went away, which some tests are about
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(peer.stream)

    async with trio.open_nursery() as nursery:
        listeners: list[trio.SocketListener] = await nursery.start(
            functools.partial(trio.serve_tcp, connection, 0, host=host)
        )
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def talking(
    serve: Serve, environ: dict[str, str] | None = None, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Client, str]]:
    """A server, a client of it, and its URL."""
    async with serving(serve, tls=tls) as port:
        url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/endpoint?key={SECRET}"
        client = Client(url, environ or {})
        try:
            yield client, url
        finally:
            await client.aclose()


def always(body: bytes = b"", status: int = 200, **headers: str) -> Serve:
    """Serve every request with the same answer."""

    async def serve(peer: Peer) -> None:
        while await peer.asked():
            await peer.answer(body, status, **headers)

    return serve


async def fetch(client: Client, url: str, method: str = "POST", body: bytes = b"{}") -> bytes:
    async with client.stream(method, url, JSON, body) as answer:
        return await answer.read(LIMIT)


async def failure(client: Client, url: str, method: str = "POST", body: bytes = b"{}") -> HttpFailed:
    with pytest.raises(HttpFailed) as caught:
        await fetch(client, url, method, body)
    assert SECRET not in caught.value.message
    assert "/endpoint" not in caught.value.message
    return caught.value


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.x", ".a", "xn--a"])
@pytest.mark.parametrize("proxied", [True, False])
def test_a_host_that_no_resolver_takes_is_refused_at_once(host: str, proxied: bool) -> None:
    """The resolver's complaint was no error of httpx's, and became an internal one of mcpd's."""
    environ = {"http_proxy": f"http://{host}"} if proxied else {}
    with pytest.raises(HttpFailed, match="http_proxy" if proxied else "host") as caught:
        Client(f"http://{'a.test' if proxied else host}/endpoint", environ)
    assert (caught.value.reason, caught.value.sent) == ("failed", False)


# One request and its answer


async def test_request_and_answer_pass_as_they_are(real_clock: None) -> None:
    got: list[Asked | None] = []

    async def serve(peer: Peer) -> None:
        got.append(await peer.asked())
        await peer.answer(
            b'{"a":1}', 201, X_One="1", x_one="2", Content_Type="application/json; charset=utf-8"
        )

    async with talking(serve) as (client, url):
        fields = {"Content-Type": "application/json", "Authorization": "Bearer ü ", "X-Empty": ""}
        async with client.stream("POST", url, fields, b"body") as answer:
            assert answer.status == 201
            assert answer.headers["content-type"] == "application/json; charset=utf-8"
            assert answer.headers["x-one"] == "1, 2"
            assert answer.headers.get("absent", "") == ""
            assert await answer.read(7) == b'{"a":1}'
    asked = got[0]
    assert asked is not None
    assert asked[:2] == ("POST", f"/endpoint?key={SECRET}")
    assert asked.body == b"body"
    agent = asked.headers.pop("user-agent")
    assert agent.startswith("mcpd/")
    assert asked.headers == {
        "host": f"127.0.0.1:{client.origin.port}",
        "content-type": "application/json",
        "authorization": "Bearer ü".encode().decode("latin-1"),
        "x-empty": "",
        "accept-encoding": "gzip",
        "content-length": "4",
    }


async def test_nothing_of_an_answer_is_remembered_or_followed(
    real_clock: None, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[Asked] = []

    async def serve(peer: Peer) -> None:
        while asked := await peer.asked():
            seen.append(asked)
            await peer.answer(b"", 307, Location="http://127.0.0.1:1/\x80[", Set_Cookie="a=b; Path=/")

    caplog.set_level(logging.INFO)
    async with talking(serve) as (client, url):
        for _ in range(2):
            async with client.stream("GET", url, {}) as answer:
                assert answer.status == 307
                assert answer.headers["set-cookie"] == "a=b; Path=/"
    assert len(seen) == 2
    assert not any("cookie" in asked.headers for asked in seen)
    assert caplog.text == ""


async def test_words_that_frame_the_request_cannot_be_set(real_clock: None) -> None:
    async with talking(always()) as (client, url):
        for headers, words in (
            ({"Content-Length": "1"}, "header Content-Length"),
            ({"transfer-encoding": "chunked"}, "header transfer-encoding"),
            ({"A": "1", "a": "2"}, "twice"),
            ({"X-Key": f"{SECRET}\r\nX: y"}, "header X-Key"),
            ({"X Key": SECRET}, "name of a header"),
            ({"": SECRET}, "name of a header"),
        ):
            with pytest.raises(HttpFailed, match=words) as caught:
                async with client.stream("POST", url, headers):
                    pass
            assert SECRET not in caught.value.message
            assert not caught.value.sent


async def test_what_is_interim_is_passed_over(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        await peer.asked()
        await peer.send(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")
        await peer.answer(b"done")

    async with talking(serve) as (client, url):
        assert await fetch(client, url) == b"done"


async def test_a_server_on_ipv6(real_clock: None) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    async with serving(always(b"six"), host="::1") as port:
        url = f"http://[::1]:{port}/endpoint"
        client = Client(url, {"ALL_PROXY": "http://127.0.0.1:1"})
        assert await fetch(client, url) == b"six"
        await client.aclose()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h", "http://h"),
        ("HTTP://H:80/a?b#c", "http://h"),
        ("https://h:443", "https://h"),
        ("https://h:80", "https://h:80"),
        ("http://[0:0::1]:8080/", "http://[::1]:8080"),
        ("http://[::ffff:10.0.0.1]/", "http://10.0.0.1"),
        ("http://müller.example/", "http://xn--mller-kva.example"),
        ("http://my_host.local./", "http://my_host.local."),
    ],
)
def test_where_a_url_leads(url: str, expected: str) -> None:
    assert str(origin(url)) == expected
    assert same_origin(url, expected)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "neither http"),
        ("/endpoint", "neither http"),
        ("ftp://h", "neither http"),
        ("http://", "host is not valid"),
        ("http:///endpoint", "host is not valid"),
        ("http://a b/", "escaped"),
        ("http://a%2eb/", "escaped"),
        ("http://[fe80::1%25eth0]/", "zone id"),
        ("http://[fe80::1%eth0]/", "zone id"),
        ("http://::1/", "not valid"),
        ("http://[::g]/", "not valid"),
        ("http://1.2.3.400/", "not valid"),
        (f"http://user:{SECRET}@h/", "Authorization"),
        (f"http://{SECRET}@h/", "Authorization"),
        ("http://good.example\\@h/", "Authorization"),
        ("http://h:0/", "port"),
        ("http://h:65536/", "port"),
        ("http://h:x/", "not valid"),
        ("http://h/\n", "not valid"),
        ("http://h/\udc80", "not valid"),
        ("http://h/" + "a" * 70000, "not valid"),
    ],
)
def test_urls_that_lead_nowhere(url: str, words: str) -> None:
    with pytest.raises(HttpFailed, match=words) as caught:
        Client(url, {})
    assert SECRET not in caught.value.message
    assert not caught.value.sent
    assert not same_origin(url, url)


@pytest.mark.parametrize("other", ["https://h", "http://h:81", "http://h.h", "http://sub.h", "x"])
def test_other_origins(other: str) -> None:
    assert not same_origin("http://h/a", other)


@given(st.text())
def test_no_text_is_more_than_a_url_that_is_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"https://h/{text}"):
        with contextlib.suppress(HttpFailed):
            assert same_origin(str(origin(url)), url)


async def test_a_client_goes_nowhere_else(real_clock: None) -> None:
    async with talking(always()) as (client, _):
        for url in ("http://127.0.0.1:1/", "https://127.0.0.1/", "//127.0.0.1"):
            with pytest.raises(HttpFailed) as caught:
                await fetch(client, url)
            assert not caught.value.sent


async def test_a_closed_client_says_so(real_clock: None) -> None:
    async with talking(always()) as (client, url):
        await fetch(client, url)
        await client.aclose()
        assert not (await failure(client, url)).sent


# Bodies


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", " GZIP "])
async def test_gzip_is_inflated(real_clock: None, coding: str) -> None:
    body = random.Random(2).randbytes(1000) * 300
    async with talking(always(gzip.compress(body), Content_Encoding=coding)) as (client, url):
        assert await fetch(client, url) == body
        assert await fetch(client, url) == body


@pytest.mark.parametrize("coding", ["identity", ""])
async def test_what_says_that_nothing_was_coded(real_clock: None, coding: str) -> None:
    async with talking(always(b"plain", Content_Encoding=coding)) as (client, url):
        assert await fetch(client, url) == b"plain"


@pytest.mark.parametrize("coding", ["gzip, gzip", "identity, gzip", "deflate", "br", "zstd", "\x80" * 4000])
async def test_any_other_coding_is_refused_with_the_body_only(real_clock: None, coding: str) -> None:
    body = gzip.compress(gzip.compress(b"x"))
    async with talking(always(body, 401, Content_Encoding=coding, WWW_Authenticate="Bearer")) as (
        client,
        url,
    ):
        async with client.stream("POST", url, JSON) as answer:
            assert answer.status == 401
            assert answer.headers["www-authenticate"] == "Bearer"
            with pytest.raises(HttpFailed, match="did not ask for") as caught:
                await answer.read(LIMIT)
        assert caught.value.reason == "failed"
        assert caught.value.sent
        assert len(caught.value.message) < 300
    async with talking(always(b"", 202, Content_Encoding=coding)) as (client, url):
        assert await fetch(client, url) == b""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (gzip.compress(b"abc")[:-1], "cut off"),
        (gzip.compress(b"abc")[:5], "cut off"),
        (gzip.compress(b"abc") + b"more", "damaged"),
        (b"not gzip at all", "damaged"),
    ],
)
async def test_bad_gzip_is_a_failure(real_clock: None, body: bytes, words: str) -> None:
    async with talking(always(body, Content_Encoding="gzip")) as (client, url):
        failed = await failure(client, url)
        assert words in failed.message
        assert failed.sent


async def test_a_bomb_is_stopped_at_the_readers_limit(real_clock: None) -> None:
    bomb = gzip.compress(bytes(64 << 20))
    async with talking(always(bomb, Content_Encoding="gzip")) as (client, url):
        tracemalloc.start()
        try:
            async with client.stream("POST", url, JSON) as answer:
                with pytest.raises(TooLarge) as caught:
                    await answer.read(LIMIT)
            assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
        finally:
            tracemalloc.stop()
        assert caught.value.limit == LIMIT


async def test_members_without_content_do_not_go_on_for_ever(real_clock: None) -> None:
    empty = gzip.compress(b"") * 2000

    async def serve(peer: Peer) -> None:
        await peer.asked()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        while True:
            await peer.send(empty)

    async with talking(serve) as (client, url), client.stream("POST", url, JSON) as answer:
        with pytest.raises(TooLarge):
            await answer.read(100)


async def test_pieces_are_small_and_others_run_between_them(real_clock: None) -> None:
    body = gzip.compress(bytes(4 << 20))
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with (
        talking(always(body, Content_Encoding="gzip")) as (client, url),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(turn)
        async with client.stream("POST", url, JSON) as answer:
            before, pieces = turns, 0
            async for piece in answer.chunks():
                assert 0 < len(piece) <= CHUNK
                pieces += 1
            assert turns - before >= pieces >= 64
        nursery.cancel_scope.cancel()


async def test_coded_events_come_as_they_are_flushed(real_clock: None) -> None:
    send, receive = trio.open_memory_channel[bytes](0)

    async def serve(peer: Peer) -> None:
        await peer.asked()
        coder = zlib.compressobj(wbits=31)
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n")
        async for event in receive:
            data = coder.compress(event) + coder.flush(zlib.Z_SYNC_FLUSH)
            await peer.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        data = coder.flush()
        await peer.send(f"{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n")

    async with talking(serve) as (client, url), client.stream("GET", url, {}, long_lived=True) as answer:
        body = answer.chunks()
        for event in (b"data: 1\n\n", b"data: 2\n\n"):
            await send.send(event)
            assert await anext(body) == event
        send.close()
        assert [piece async for piece in body] == []


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 300_000])
async def test_a_body_may_be_as_long_as_the_limit_and_no_longer(real_clock: None, size: int) -> None:
    async with talking(always(b"x" * size)) as (client, url):
        async with client.stream("POST", url, JSON) as answer:
            assert await answer.read(size) == b"x" * size
        if size:
            async with client.stream("POST", url, JSON) as answer:
                with pytest.raises(TooLarge):
                    await answer.read(size - 1)


async def test_a_body_that_breaks_off_is_a_failure(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        await peer.asked()
        await peer.answer(b"half", Content_Length="8")

    async with talking(serve) as (client, url):
        failed = await failure(client, url)
        assert failed.reason == "failed"
        assert failed.sent
        assert "broke off its answer" in failed.message


async def test_reading_on_after_a_cancel_is_a_failure_not_an_end(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        await peer.asked()
        await peer.answer(b"half", Content_Length="8")
        await peer.closed()

    async with talking(serve) as (client, url), client.stream("POST", url, JSON) as answer:
        with trio.move_on_after(0.05) as scope:
            await answer.read(LIMIT)
        assert scope.cancelled_caught
        with pytest.raises(HttpFailed, match="was not read to its end"):
            await answer.read(LIMIT)


# Connections


class Counted:
    """Answers every request; with `leave`, a connection is left by that after its first answer."""

    def __init__(self, leave: Callable[[Peer], None] | None = None) -> None:
        self.connections = 0
        self.bodies: list[bytes] = []
        self.left = trio.Event()
        self._leave = leave

    async def __call__(self, peer: Peer) -> None:
        self.connections += 1
        while asked := await peer.asked():
            self.bodies.append(asked.body)
            await peer.answer(b"", 202)
            if self._leave is not None:
                self._leave(peer)
                self.left.set()
                return


async def test_a_connection_is_used_again_also_where_no_body_came(real_clock: None) -> None:
    serve = Counted()
    async with talking(serve) as (client, url):
        for _ in range(5):
            await fetch(client, url)
            async with client.stream("POST", url, JSON):
                pass
        assert serve.connections == 1


async def test_long_lived_streams_leave_calls_their_places(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        while asked := await peer.asked():
            if asked.method == "POST":
                await peer.answer(b"ok")
            else:
                await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: open\n\n")

    async with talking(serve) as (client, url):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(120):
                answer = await stack.enter_async_context(client.stream("GET", url, {}, long_lived=True))
                assert await anext(answer.chunks()) == b": open\n\n"
            assert await fetch(client, url) == b"ok"
        assert await fetch(client, url) == b"ok"


def close(peer: Peer) -> None:
    assert isinstance(peer.stream, trio.SocketStream)
    peer.stream.socket.close()


@pytest.mark.parametrize("leave", [close, Peer.reset])
async def test_an_idle_connection_found_closed_is_not_used(
    real_clock: None, leave: Callable[[Peer], None]
) -> None:
    serve = Counted(leave)
    async with talking(serve) as (client, url):
        for number in range(20):
            serve.left = trio.Event()
            await fetch(client, url, body=b"%d" % number)
            await serve.left.wait()
    assert serve.connections == 20
    assert serve.bodies == [b"%d" % number for number in range(20)]


class Stale:
    """Answers the first request; at the second, on the same connection, `leave` decides. New ones work."""

    def __init__(self, leave: Callable[[Peer], Awaitable[None]]) -> None:
        self.connections = 0
        self.bodies: list[int] = []
        self._leave = leave

    async def __call__(self, peer: Peer) -> None:
        self.connections += 1
        stale = self.connections == 1
        while asked := await peer.asked():
            self.bodies.append(len(asked.body))
            await peer.answer(b"ok")
            if stale:
                await self._leave(peer)
                return


async def reset_in_the_request(peer: Peer) -> None:
    await peer.head()
    peer.reset()


async def close_after_the_request(peer: Peer) -> None:
    await peer.asked()


async def reset_after_the_request(peer: Peer) -> None:
    await peer.asked()
    peer.reset()


async def test_a_request_that_cannot_have_arrived_whole_is_made_again(real_clock: None) -> None:
    # Larger than all buffers on the way: the rest of it cannot be written any more.
    large = bytes(16 << 20)
    serve = Stale(reset_in_the_request)
    async with talking(serve) as (client, url):
        await fetch(client, url)
        assert await fetch(client, url, body=large) == b"ok"
    assert serve.connections == 2
    assert serve.bodies == [2, len(large)]


async def test_it_is_made_again_once(real_clock: None) -> None:
    connections = 0

    async def serve(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        if connections == 1:
            await peer.asked()
            await peer.answer(b"ok")
        await reset_in_the_request(peer)

    async with talking(serve) as (client, url):
        await fetch(client, url)
        failed = await failure(client, url, body=bytes(16 << 20))
        assert not failed.sent
        assert failed.reason == "failed"
    assert connections == 2


@pytest.mark.parametrize("leave", [close_after_the_request, reset_after_the_request])
async def test_a_request_that_may_have_been_heard_is_not_made_again(
    real_clock: None, leave: Callable[[Peer], Awaitable[None]]
) -> None:
    serve = Stale(leave)
    async with talking(serve) as (client, url):
        await fetch(client, url)
        failed = await failure(client, url)
        assert failed.sent
        assert failed.reason == "failed"
        assert "gave no answer" in failed.message
        assert serve.connections == 1
        assert await fetch(client, url) == b"ok"


@pytest.mark.parametrize("leave", [close_after_the_request, reset_after_the_request])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_what_may_be_repeated_is_made_again(
    real_clock: None, method: str, leave: Callable[[Peer], Awaitable[None]]
) -> None:
    serve = Stale(leave)
    async with talking(serve) as (client, url):
        await fetch(client, url)
        assert await fetch(client, url, method, b"") == b"ok"
    assert serve.connections == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_fresh_connection_that_closes_is_a_failure(real_clock: None, method: str) -> None:
    connections = 0

    async def serve(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        await peer.asked()

    async with talking(serve) as (client, url):
        assert (await failure(client, url, method, b"")).sent
    assert connections == 1


async def test_an_answer_that_comes_before_the_request_is_read(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        await peer.head()
        await peer.answer(b"no", 413, Connection="close")
        await peer.closed()

    async with talking(serve) as (client, url):
        body = bytes(1 << 20)
        async with client.stream("POST", url, JSON, body) as answer:
            assert answer.status == 413
            assert await answer.read(LIMIT) == b"no"


@pytest.mark.parametrize(
    "noise",
    [b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 200_000, b"HTTP/1.1 200 OK\r\nA" * 9999],
)
async def test_what_is_not_http_is_a_failure(real_clock: None, noise: bytes) -> None:
    async def serve(peer: Peer) -> None:
        await peer.asked()
        await peer.send(noise)

    async with talking(serve) as (client, url):
        failed = await failure(client, url)
        assert failed.reason == "failed"
        assert failed.sent
        assert failed.message.isprintable()
        assert len(failed.message) < 300


async def test_nobody_listens(real_clock: None) -> None:
    async with serving(always()) as port:
        pass
    url = f"http://127.0.0.1:{port}/endpoint?key={SECRET}"
    client = Client(url, {})
    failed = await failure(client, url)
    assert (failed.reason, failed.sent) == ("unreachable", False)
    assert failed.message == f"cannot connect to http://127.0.0.1:{port}: connection refused"
    await client.aclose()


class Names(trio.abc.HostnameResolver):
    """Knows what it is told; nothing leaves the machine."""

    def __init__(self, **known: str) -> None:
        self.known = known

    async def getaddrinfo(self, host: Any, port: Any, *_: Any, **__: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name in self.known:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.known[name], port))]
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise NotImplementedError


async def test_a_name_that_nobody_knows(real_clock: None) -> None:
    trio.socket.set_custom_hostname_resolver(Names())
    url = "https://mcp.example/endpoint"
    client = Client(url, {})
    failed = await failure(client, url)
    assert (failed.reason, failed.sent) == ("unreachable", False)
    assert failed.message == "cannot find the host of https://mcp.example: Name or service not known"
    await client.aclose()


# Cancelling


async def test_leaving_early_closes_the_connection(real_clock: None) -> None:
    gone = trio.Event()

    async def serve(peer: Peer) -> None:
        asked = await peer.asked()
        if asked is not None and asked.method == "GET":
            await peer.send(b"HTTP/1.1 200 OK\r\n\r\ndata: 1\n\n")
            await peer.closed()
            gone.set()
        else:
            await peer.answer(b"ok")

    async with talking(serve) as (client, url):
        async with client.stream("GET", url, {}) as answer:
            assert await anext(answer.chunks()) == b"data: 1\n\n"
        await gone.wait()
        assert await fetch(client, url) == b"ok"


async def test_sixty_cancels_at_random_points_leave_the_pool_usable(real_clock: None) -> None:
    open_now = 0

    async def serve(peer: Peer) -> None:
        nonlocal open_now
        open_now += 1
        try:
            while await peer.asked():
                await peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                for _ in range(5):
                    await trio.lowlevel.checkpoint()
                    await peer.send(b"2\r\nok\r\n")
                await peer.send(b"0\r\n\r\n")
        finally:
            open_now -= 1

    chance = random.Random(3)

    async with talking(serve) as (client, url):

        async def one(turns: int) -> None:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:

                    @nursery.start_soon
                    async def stop() -> None:
                        for _ in range(turns):
                            await trio.lowlevel.checkpoint()
                        scope.cancel()

                    assert await fetch(client, url) == b"ok" * 5
                    nursery.cancel_scope.cancel()

        for _ in range(60):
            await one(chance.randrange(60))
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(one, chance.randrange(400))
        # More than the pool has places: none of them may have been kept by what was cancelled.
        async with trio.open_nursery() as nursery:
            for _ in range(150):
                nursery.start_soon(fetch, client, url)
        await client.aclose()
        while open_now:
            await trio.lowlevel.checkpoint()


async def test_a_hundred_streams_cancelled_at_once(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        while asked := await peer.asked():
            if asked.method == "POST":
                await peer.answer(b"ok")
            else:
                await peer.send(b"HTTP/1.1 200 OK\r\n\r\n: open\n\n")

    async with talking(serve) as (client, url):
        opened = 0

        async def listen() -> None:
            nonlocal opened
            async with client.stream("GET", url, {}) as answer:
                async for _ in answer.chunks():
                    opened += 1

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(listen)
            while opened < 100:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        assert await fetch(client, url) == b"ok"


async def test_closing_the_client_ends_who_reads(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        await peer.asked()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\n: open\n\n")
        await peer.closed()

    async with talking(serve) as (client, url):
        async with client.stream("GET", url, {}, long_lived=True) as answer:
            body = answer.chunks()
            await anext(body)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.aclose)
                with pytest.raises(HttpFailed) as caught:
                    await anext(body)
        assert caught.value.sent


# TLS


def certificate(folder: Path, *names: str, days: int = 1) -> tuple[ssl.SSLContext, Path]:
    """A server's context with a certificate of its own making, and the file of that certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives: list[x509.GeneralName] = []
    for text in names:
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(text)))
        except ValueError:
            alternatives.append(x509.DNSName(text))
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=5))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret = folder / "key.pem"
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, secret)
    return context, file


async def test_a_trusted_certificate(real_clock: None, tmp_path: Path) -> None:
    tls, file = certificate(tmp_path, "127.0.0.1")
    async with talking(always(b"ok"), {"SSL_CERT_FILE": str(file)}, tls=tls) as (client, url):
        assert await fetch(client, url) == b"ok"
        assert await fetch(client, url) == b"ok"


@pytest.mark.parametrize(
    ("name", "days", "trusted", "words"),
    [
        ("127.0.0.1", 1, False, "self-signed certificate"),
        ("other.example", 1, True, "certificate is not valid for '127.0.0.1'"),
        ("127.0.0.1", -1, True, "certificate has expired"),
    ],
)
async def test_certificates_that_are_not_valid(
    real_clock: None, tmp_path: Path, name: str, days: int, trusted: bool, words: str
) -> None:
    tls, file = certificate(tmp_path, name, days=days)
    environ = {"SSL_CERT_FILE": str(file)} if trusted else {}
    async with talking(always(b"ok"), environ, tls=tls) as (client, url):
        failed = await failure(client, url)
        assert (failed.reason, failed.sent) == ("failed", False)
        assert f"the certificate of {client.origin} is not valid" in failed.message
        assert words in failed.message


async def test_a_server_without_tls(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        await peer.stream.receive_some()
        await peer.answer(b"this is http", 400)

    async with serving(serve) as port:
        url = f"https://127.0.0.1:{port}/endpoint"
        client = Client(url, {})
        failed = await failure(client, url)
        assert (failed.reason, failed.sent) == ("failed", False)
        assert "cannot speak TLS" in failed.message
        await client.aclose()


async def test_a_server_that_hangs_up_in_the_handshake(real_clock: None) -> None:
    async def serve(peer: Peer) -> None:
        await peer.stream.receive_some()

    async with serving(serve) as port:
        url = f"https://127.0.0.1:{port}/endpoint"
        client = Client(url, {})
        failed = await failure(client, url)
        assert not failed.sent
        assert "127.0.0.1" in failed.message
        await client.aclose()


def test_a_trust_store_that_cannot_be_read(tmp_path: Path) -> None:
    missing, junk = tmp_path / "none.pem", tmp_path / "junk.pem"
    junk.write_text("nothing")
    for environ, words in (
        ({"SSL_CERT_FILE": str(missing)}, "No such file"),
        ({"SSL_CERT_FILE": str(junk)}, "no certificates in it"),
        ({"SSL_CERT_DIR": str(missing)}, "no such folder"),
    ):
        with pytest.raises(HttpFailed, match=words) as caught:
            Client("https://h", environ)
        assert not caught.value.sent


# Proxies


class Proxy:
    """Forwards every request, or tunnels it, to one port."""

    def __init__(self, port: int, status: int = 200) -> None:
        self.port = port
        self.status = status
        self.seen: list[tuple[str, str, dict[str, str]]] = []

    async def __call__(self, peer: Peer) -> None:
        head = await peer.head()
        if head is None:
            return
        self.seen.append(head)
        method, target, headers = head
        if self.status != 200:
            await peer.answer(b"no", self.status)
            return
        async with await trio.open_tcp_stream("127.0.0.1", self.port) as server:
            if method == "CONNECT":
                await peer.send(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
                await server.send_all(f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + peer.buffer)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.copy, peer.stream, server, nursery)
                nursery.start_soon(self.copy, server, peer.stream, nursery)

    async def copy(self, source: trio.abc.Stream, target: trio.abc.Stream, nursery: trio.Nursery) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            while data := await source.receive_some():
                await target.send_all(data)
        nursery.cancel_scope.cancel()


async def test_a_request_forwarded_by_a_proxy(real_clock: None) -> None:
    async with serving(always(b"ok")) as port:
        proxy = Proxy(port)
        async with serving(proxy) as proxy_port:
            url = "http://mcp.example/endpoint"
            client = Client(url, {"HTTP_PROXY": f"user:p%40{SECRET}@127.0.0.1:{proxy_port}"})
            assert await fetch(client, url) == b"ok"
            await client.aclose()
    method, target, headers = proxy.seen[0]
    assert (method, target) == ("POST", url)
    # user:p@s3cr3t
    assert headers["proxy-authorization"] == "Basic dXNlcjpwQHMzY3IzdA=="


async def test_a_tunnel_through_a_proxy(real_clock: None, tmp_path: Path) -> None:
    tls, file = certificate(tmp_path, "mcp.example")
    async with serving(always(b"ok"), tls=tls) as port:
        proxy = Proxy(port)
        async with serving(proxy) as proxy_port:
            url = f"https://mcp.example/endpoint?key={SECRET}"
            environ = {"all_proxy": f"http://127.0.0.1:{proxy_port}", "SSL_CERT_FILE": str(file)}
            client = Client(url, environ)
            assert await fetch(client, url) == b"ok"
            assert await fetch(client, url) == b"ok"
            await client.aclose()
    assert [seen[:2] for seen in proxy.seen] == [("CONNECT", "mcp.example:443")]
    assert "content-type" not in proxy.seen[0][2]


@pytest.mark.parametrize(("scheme", "reason"), [("http", None), ("https", "unreachable")])
async def test_a_proxy_that_wants_a_password(real_clock: None, scheme: str, reason: str | None) -> None:
    async with serving(Proxy(1, status=407)) as proxy_port:
        url = f"{scheme}://mcp.example/endpoint?key={SECRET}"
        client = Client(url, {"ALL_PROXY": f"http://user:{SECRET}@127.0.0.1:{proxy_port}"})
        if reason is None:
            # A forwarding proxy's answer is like any other.
            async with client.stream("POST", url, JSON) as answer:
                assert answer.status == 407
        else:
            failed = await failure(client, url)
            assert (failed.reason, failed.sent) == (reason, False)
            assert failed.message == (
                f"cannot reach https://mcp.example by the proxy http://127.0.0.1:{proxy_port}: 407 Whatever"
            )
        await client.aclose()


async def test_a_server_lost_behind_a_tunnel_may_have_heard(real_clock: None, tmp_path: Path) -> None:
    tls, file = certificate(tmp_path, "mcp.example")

    async def serve(peer: Peer) -> None:
        await peer.asked()

    async with serving(serve, tls=tls) as port, serving(Proxy(port)) as proxy_port:
        url = "https://mcp.example/endpoint"
        client = Client(url, {"ALL_PROXY": f"http://127.0.0.1:{proxy_port}", "SSL_CERT_FILE": str(file)})
        failed = await failure(client, url)
        assert (failed.reason, failed.sent) == ("failed", True)
        await client.aclose()


async def test_a_server_that_needs_no_proxy(real_clock: None) -> None:
    trio.socket.set_custom_hostname_resolver(Names(**{"mcp.corp.example": "127.0.0.1"}))
    async with serving(always(b"direct")) as port:
        url = f"http://mcp.corp.example:{port}/endpoint"
        environ = {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": f"[::1],127.0.0.0/8,*.corp.example:{port}"}
        client = Client(url, environ)
        assert await fetch(client, url) == b"direct"
        await client.aclose()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (f"ftp://user:{SECRET}@h", "ALL_PROXY holds no URL of a proxy"),
        (f"http://user:{SECRET}@", "ALL_PROXY holds no URL of a proxy"),
        (f"http://user:{SECRET}@h:x", "ALL_PROXY holds no URL of a proxy"),
        (f"http://user:{SECRET}@h:99999", "ALL_PROXY holds no URL of a proxy"),
        (f"http://user:{SECRET}@h:0", "ALL_PROXY holds no URL of a proxy"),
    ],
)
def test_proxies_that_are_not_usable(value: str, words: str) -> None:
    with pytest.raises(HttpFailed, match=words) as caught:
        Client("https://mcp.example", {"ALL_PROXY": value})
    assert SECRET not in caught.value.message
    assert not caught.value.sent


def test_a_socks_proxy_needs_a_package() -> None:
    if importlib.util.find_spec("socksio"):
        pytest.skip("it is installed")
    with pytest.raises(HttpFailed, match="socksio is not installed") as caught:
        Client("https://mcp.example", {"ALL_PROXY": f"socks5://user:{SECRET}@h:1080"})
    assert SECRET not in caught.value.message


def test_only_the_variables_given_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "ftp://nothing")
    monkeypatch.setenv("HTTPS_PROXY", "ftp://nothing")
    assert Client("https://mcp.example", {}).origin.host == "mcp.example"
