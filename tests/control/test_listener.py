from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.control import listener
from mcpd.control.listener import IN_FLIGHT
from mcpd.protocol.framing import LINE_LIMIT
from tests.conftest import Home
from tests.control.world import Client, running, tiny, write_server

STATUS = b'{"jsonrpc":"2.0","id":"still here","method":"daemon.status"}\n'


async def answers_still(client: Client) -> None:
    await client.stream.send_all(STATUS)
    assert (await client.read())["id"] == "still here"


@pytest.mark.parametrize(
    ("line", "kind", "answered_id"),
    [
        (b"garbage", "parse_error", None),
        (b"{", "parse_error", None),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', "parse_error", 1),
        (b"null", "invalid_request", None),
        (b"7", "invalid_request", None),
        (b'"text"', "invalid_request", None),
        (b"[]", "invalid_request", None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"daemon.status"}]', "invalid_request", None),
        (b"{}", "invalid_request", None),
        (b'{"jsonrpc":"2.0"}', "invalid_request", None),
        (b'{"id":1,"method":"daemon.status"}', "invalid_request", 1),
        (b'{"jsonrpc":"1.0","id":1,"method":"daemon.status"}', "invalid_request", 1),
        (b'{"id":[1],"method":"daemon.status"}', "invalid_request", None),
        (b'{"id":1,"result":{}}', "invalid_request", None),
        (b'{"jsonrpc":2.0,"id":1,"method":"daemon.status"}', "invalid_request", 1),
        (b'{"jsonrpc":"2.0","id":1,"method":null}', "invalid_request", 1),
        (b'{"jsonrpc":"2.0","id":{},"method":"daemon.status"}', "invalid_request", None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"daemon.status"}', "invalid_request", None),
        (b'{"jsonrpc":"2.0","id":true,"method":"daemon.status"}', "invalid_request", None),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', "invalid_request", 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"no.such"}', "unknown_method", 1),
        (b'{"jsonrpc":"2.0","id":1,"method":""}', "invalid_request", 1),
        (b'{"jsonrpc":"2.0","id":"a","method":"daemon.status","params":[]}', "invalid_params", "a"),
        (b'{"jsonrpc":"2.0","id":-1,"method":"daemon.status","params":null}', "invalid_params", -1),
        (b'{"jsonrpc":"2.0","id":1,"method":"daemon.status","params":{"x":1}}', "invalid_params", 1),
        (b'{"jsonrpc":"2.0","id":1,"method":"servers.get","params":{}}', "invalid_params", 1),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"daemon.status","params":' + b"[" * 5000 + b"]" * 5000 + b"}",
            None,
            None,
        ),
        (b"[" * 100_000, None, None),
    ],
)
async def test_garbage_gets_its_error_and_the_connection_lives(
    home: Home, real_clock: None, line: bytes, kind: str | None, answered_id: Any
) -> None:
    async with running(home) as world:
        client = await world.operator()
        await client.stream.send_all(line + b"\n")
        answer = await client.read()
        if kind is not None:
            assert answer["error"]["data"]["kind"] == kind
            assert answer["id"] == answered_id
        assert "error" in answer
        await answers_still(client)


async def test_blank_lines_and_notifications_are_not_answered(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        await client.stream.send_all(b'\n \r\n{"jsonrpc":"2.0","method":"daemon.stop"}\n')
        await answers_still(client)
        assert not world.broker.stop.is_set()


async def test_bytes_may_come_one_by_one(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        for byte in STATUS:
            await client.stream.send_all(bytes([byte]))
        assert (await client.read())["id"] == "still here"


async def test_a_line_over_the_limit_is_refused_and_skipped(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.stream.send_all, b"x" * (LINE_LIMIT + 10) + b"\n")
            answer = await client.read()
        assert answer["id"] is None
        assert answer["error"]["data"]["kind"] == "too_large"
        await answers_still(client)


async def test_half_a_line_then_close_is_nothing(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        client = await world.operator()
        await client.stream.send_all(STATUS[:20])
        await client.stream.aclose()
        await answers_still(await world.operator())


async def test_one_that_only_stops_writing_still_gets_its_answers(home: Home, real_clock: None) -> None:
    write_server(home, "slow", **tiny())
    async with running(home) as world:
        client = await world.operator()
        await client.send("servers.test", server="slow")
        await client.stream.send_eof()
        assert (await client.read())["result"]["ok"] is True
        with pytest.raises(EOFError):
            await client.read()


async def test_one_that_is_gone_takes_its_requests_with_it(home: Home, real_clock: None) -> None:
    write_server(home, "mute", **tiny("--silent"))
    async with running(home) as world:
        server, peer = trio.socket.socketpair()
        client = Client(trio.SocketStream(peer))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listener.serve, world.broker, trio.SocketStream(server))
            await client.send("servers.test", server="mute")
            await client.stream.send_eof()  # the request still runs
            await trio.testing.wait_all_tasks_blocked(0.05)
            await client.stream.aclose()
        # The nursery has ended although the server never answers.


async def test_requests_run_side_by_side_and_answer_when_ready(home: Home, real_clock: None) -> None:
    write_server(home, "mute", **tiny("--silent"))
    async with running(home) as world:
        client = await world.operator()
        await client.send("servers.test", server="mute")
        await answers_still(client)


async def test_a_connection_has_a_bounded_number_of_requests(home: Home, real_clock: None) -> None:
    write_server(home, "mute", **tiny("--silent"))
    async with running(home) as world:
        client = await world.operator()
        for _ in range(IN_FLIGHT):
            await client.send("servers.test", server="mute")
        await client.stream.send_all(STATUS)
        with trio.move_on_after(0.3) as scope:
            await client.read()
        assert scope.cancelled_caught
        await answers_still(await world.operator())


async def test_one_that_does_not_read_stalls_nobody_else(home: Home, real_clock: None) -> None:
    async with running(home) as world:
        lazy, other = await world.operator(), await world.operator()
        flood = b'{"jsonrpc":"2.0","id":1,"method":"daemon.describe"}\n' * 300
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lazy.stream.send_all, flood)
            await trio.testing.wait_all_tasks_blocked(0.05)
            with trio.fail_after(5):
                await answers_still(other)
            for _ in range(300):
                assert "result" in await lazy.read()


async def test_an_internal_failure_is_an_answer_and_is_logged(
    home: Home, real_clock: None, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(home) as world:
        client = await world.operator()
        del world.broker.config  # what no method expects
        refused = await client.refusal("daemon.status")
        assert (refused.kind, refused.code) == ("internal", -32603)
        assert "AttributeError" in caplog.text
        assert "AttributeError" not in json.dumps(refused.data) + refused.message
        assert (await client.call("hello"))["role"] == "control"
