"""The endpoint's sockets: both addresses or none, ports that are taken, and life without hypercorn."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
from contextlib import AsyncExitStack

import pytest
import trio

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


async def status(stream: trio.SocketStream) -> bytes:
    """The beginning of the answer to a request; empty where nobody is."""
    with contextlib.suppress(trio.BrokenResourceError):
        await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return bytes((await stream.receive_some())[:12])
    return b""


async def test_so_many_connections_and_no_more(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS", 2)
    async with running(home) as world, AsyncExitStack() as stack:
        endpoint = await opened(world)
        await endpoint.open(0)

        async def come() -> trio.SocketStream:
            return await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", endpoint.port))

        with trio.fail_after(10):
            first, second = await come(), await come()
            assert [await status(stream) for stream in (first, second)] == [b"HTTP/1.1 404"] * 2
            assert await status(await come()) == b""
            await first.aclose()
            while await status(await come()) == b"":
                await trio.lowlevel.checkpoint()
            assert await status(second) != b"", "who is in stays"


async def test_a_stopped_endpoint_opens_no_more(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        endpoint = Endpoint(world.broker)
        with pytest.raises(Failure, match="stopping"):
            await endpoint.open(0)
        await endpoint.close()
        endpoint.end_sessions("default")
        endpoint.apply([])
