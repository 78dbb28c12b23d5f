"""The endpoint's sockets: both addresses or none, ports that are taken, and life without hypercorn."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import sys
from contextlib import AsyncExitStack

import pytest
import trio

from mcpd.agents import loopback
from mcpd.agents.loopback import Owner
from mcpd.consent import tokens
from mcpd.daemon import endpoint as module
from mcpd.daemon.endpoint import Endpoint
from mcpd.errors import Failure
from tests.conftest import Home
from tests.control.world import World, running


async def opened(world: World) -> Endpoint:
    endpoint = Endpoint(world.broker)
    await world.nursery.start(endpoint.run)
    return endpoint


async def test_any_port_is_the_same_one_at_both_addresses(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        endpoint = await opened(world)
        assert [endpoint.port, *endpoint.urls, endpoint.sessions] == [0, 0]
        await endpoint.open(0)
        port = endpoint.port
        urls = (f"http://127.0.0.1:{port}/mcp", f"http://[::1]:{port}/mcp")
        assert endpoint.urls in (urls, urls[:1])
        await endpoint.open(0)
        assert endpoint.port == port, "one that it has will do"
        await endpoint.close()
        assert [endpoint.port, *endpoint.urls] == [0]
        await endpoint.open(port)
        assert endpoint.port == port, "at once again"


@pytest.mark.parametrize(("family", "host"), module.ADDRESSES)
async def test_a_port_that_is_taken_at_one_address_is_taken(
    home: Home, real_clock: None, family: socket.AddressFamily, host: str
) -> None:
    with socket.socket(family) as other:
        try:
            other.bind((host, 0))
        except OSError:
            pytest.skip("needs IPv6")
        other.listen()
        port = other.getsockname()[1]
        async with running(home) as world:
            endpoint = await opened(world)
            await endpoint.open(0)
            before = endpoint.urls
            with pytest.raises(Failure) as caught:
                await endpoint.open(port)
            assert caught.value.kind == "refused"
            assert f"{host} port {port}: address already in use" in caught.value.message
            assert "--port" in caught.value.hint
            assert endpoint.urls == before, "it goes on where it was"


async def test_a_machine_without_ipv6_has_one_address(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.socket

    def refusing(family: socket.AddressFamily, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        return real(family, kind)

    async with running(home) as world:
        endpoint = await opened(world)
        monkeypatch.setattr(socket, "socket", refusing)
        await endpoint.open(0)
        assert endpoint.urls == (f"http://127.0.0.1:{endpoint.port}/mcp",)


async def test_without_hypercorn_the_line_for_pip_is_said(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mcpd.daemon.web", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "hypercorn"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "hypercorn", None)
    async with running(home) as world:
        endpoint = await opened(world)
        with pytest.raises(Failure) as caught:
            await endpoint.open(0)
        assert caught.value.kind == "refused"
        assert "hypercorn" in caught.value.message
        assert caught.value.hint == f'{sys.executable} -m pip install "mcpd-local[endpoint]"'
        assert endpoint.urls == ()


async def test_an_enabled_endpoint_that_cannot_listen_is_a_problem_and_no_reason_to_stop(
    home: Home, real_clock: None
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        async with running(home) as world:
            world.broker.state.set_endpoint(True, port)
            endpoint = await opened(world)
            assert str(port) in endpoint.problem
            assert endpoint.urls == ()
            await endpoint.open(0)
            assert endpoint.problem == ""


async def ask(
    stream: trio.SocketStream, method: str = "GET", path: str = "/", body: bytes = b"", **fields: str
) -> bytes:
    """The answer to one request; empty where nobody is."""
    own = {"Host": "localhost", "Content-Length": str(len(body)), **fields}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in own.items())
    answer = b""
    with contextlib.suppress(trio.BrokenResourceError):
        await stream.send_all(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        while b"}\n" not in answer and (piece := await stream.receive_some()):
            answer += piece
    return answer


async def test_whoever_was_idle_longest_makes_room(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 3)
    async with running(home) as world, AsyncExitStack() as stack:
        endpoint = await opened(world)
        await endpoint.open(0)

        async def come() -> trio.SocketStream:
            return await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", endpoint.port))

        with trio.fail_after(10):
            first, second, silent = await come(), await come(), await come()
            assert (await ask(first)).startswith(b"HTTP/1.1 404")
            assert (await ask(second)).startswith(b"HTTP/1.1 404")
            assert (await ask(first)).startswith(b"HTTP/1.1 404")
            assert (await ask(await come())).startswith(b"HTTP/1.1 404")
            assert await ask(silent) == b"", "it never said a word"
            assert (await ask(await come())).startswith(b"HTTP/1.1 404")
            assert await ask(second) == b""
            assert (await ask(first)).startswith(b"HTTP/1.1 404")


async def test_there_is_no_room_while_all_are_at_something(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 1)
    async with running(home) as world:
        endpoint = await opened(world)
        await endpoint.open(0)
        fields = {"Authorization": f"Bearer {token_of(world)}", "Content-Type": "application/json"}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        with trio.fail_after(10):
            async with await trio.open_tcp_stream("127.0.0.1", endpoint.port) as first:
                await first.send_all(
                    f"POST /mcp HTTP/1.1\r\nHost: localhost\r\n{head}Expect: 100-continue\r\n"
                    "Content-Length: 2\r\n\r\n".encode()
                )
                assert (await first.receive_some()).startswith(b"HTTP/1.1 100"), "it waits for the body"
                async with await trio.open_tcp_stream("127.0.0.1", endpoint.port) as second:
                    assert await ask(second) == b""
                await first.send_all(b"{}")
                assert (await first.receive_some()).startswith(b"HTTP/1.1 400")
                answer = b""
                while not answer:  # a moment passes until the first counts as idle
                    async with await trio.open_tcp_stream("127.0.0.1", endpoint.port) as second:
                        answer = await ask(second)
                assert answer.startswith(b"HTTP/1.1 404")


def token_of(world: World) -> str:
    token = tokens.new_token()
    world.broker.state.put_token("default", tokens.digest(token))
    return token


async def test_another_user_is_refused(home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(home) as world:
        endpoint = await opened(world)
        await endpoint.open(0)
        for owner, served in (
            (Owner(os.getuid() + 1, 7), False),
            (Owner(os.getuid(), 7), True),
            (Owner(0, 7), True),
            (None, True),
        ):
            monkeypatch.setattr(loopback, "owner_of", lambda sock, owner=owner: owner)
            async with await trio.open_tcp_stream("127.0.0.1", endpoint.port) as stream:
                with trio.fail_after(10):
                    assert bool(await ask(stream)) is served


async def test_a_session_knows_the_process_that_opened_it(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        endpoint = await opened(world)
        await endpoint.open(0)
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
        fields = {"Authorization": f"Bearer {token_of(world)}", "Content_Type": "application/json"}
        async with await trio.open_tcp_stream("127.0.0.1", endpoint.port) as stream:
            assert b"mcp-session-id" in await ask(stream, "POST", "/mcp", body, **fields)
            [session] = world.broker.sessions.values()
            if loopback.owner_of(stream.socket) is None:  # type: ignore[arg-type]
                pytest.skip("the kernel has no sock_diag here")
            assert (session.pid, session.exe) == (os.getpid(), os.path.realpath(sys.executable))


async def test_processes_that_share_a_session_are_all_known_as_agents_n06(
    home: Home, real_clock: None
) -> None:
    async with running(home) as world:
        endpoint = await opened(world)
        await endpoint.open(0)
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
        fields = {
            "Authorization": f"Bearer {token_of(world)}",
            "Content_Type": "application/json",
            "Mcp_Protocol_Version": "2026-07-28",
            "Mcp_Method": "tools/list",
        }
        changes = world.broker.changes.subscribe()
        async with await trio.open_tcp_stream("127.0.0.1", endpoint.port) as stream:
            assert b"200" in await ask(stream, "POST", "/mcp", json.dumps(request).encode(), **fields)
            if loopback.owner_of(stream.socket) is None:  # type: ignore[arg-type]
                pytest.skip("the kernel has no sock_diag here")
            with changes, trio.fail_after(20):
                while os.getpid() not in [pid for pid, _ in world.broker.hosts.present]:
                    await anext(changes)


async def test_a_stopped_endpoint_opens_no_more(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        endpoint = Endpoint(world.broker)
        with pytest.raises(Failure, match="stopping"):
            await endpoint.open(0)
        await endpoint.close()
        endpoint.end_sessions("default")
        endpoint.apply([])


async def test_a_body_with_two_ends_is_the_last_of_its_connection(home: Home, real_clock: None) -> None:
    """What one reader takes for a second request, another takes for the first one's body (RFC 9112 6.1)."""
    async with running(home) as world:
        endpoint = await opened(world)
        await endpoint.open(0)
        stream = await trio.open_tcp_stream("127.0.0.1", endpoint.port)
        async with stream:
            host = "/mcp HTTP/1.1\r\nHost: localhost\r\n"
            lengths = "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"
            await stream.send_all(f"POST {host}{lengths}\r\n0\r\n\r\nGET {host}\r\n".encode())
            got = b""
            with trio.fail_after(10):
                while chunk := await stream.receive_some():
                    got += chunk
        # Either the refusal comes out, or the connection has ended before it.
        assert got.startswith(b"HTTP/1.1 400") or got == b""
        assert got.count(b"HTTP/1.1 ") <= 1
