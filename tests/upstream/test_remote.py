"""Remote servers over loopback: which transport is found, what a server becomes when it goes wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from mcpd.catalog.mirror import Mirror
from mcpd.catalog.tool import Catalog, Tool
from mcpd.config.spec import Server
from mcpd.errors import Failure, ServerError
from mcpd.policy.leaks.values import of_definition
from mcpd.secrets.held import HeldValues
from mcpd.transport.base import ConnectionLost
from mcpd.transport.pending import Slot
from mcpd.upstream.fleet import Fleet
from mcpd.upstream.remote import Mirrors, report
from mcpd.upstream.request import request
from mcpd.upstream.step import Sending
from mcpd.upstream.ticket import Superseded, Ticket
from mcpd.upstream.upstream import Upstream
from tests.servers.far import Far, bomb
from tests.upstream.test_upstream import fleet_of, is_state, until


def remote(far: Far, **fields: Any) -> Server:
    return Server(name="far", source="/etc/far.toml", url=far.url, **fields)


class World:
    def __init__(self, far: Far, fleet: Fleet) -> None:
        self.far = far
        self.fleet = fleet
        self.upstream: Upstream = fleet.find("far")

    async def becomes(self, *states: str) -> Any:
        return await until(self.upstream, self.fleet, is_state(*states))

    async def call(self, **arguments: Any) -> bytes:
        connection = await self.upstream.reach(20)
        return await connection.exchange("tools/call", b'"name":"echo","arguments":{}', b"", Slot(3, 0))


@asynccontextmanager
async def world(far: Far, cache: Path, **fields: Any) -> AsyncIterator[World]:
    server = remote(far, **fields)
    held_values = HeldValues()
    held_values.hold(of_definition(server.name, server.env, server.headers, server.url))
    async with fleet_of(server, cache=cache, held_values=held_values) as fleet:
        yield World(far, fleet)
        far.free()


# ------------------------------------------------------------------- which transport


@pytest.mark.parametrize(
    ("speaks", "revision", "era", "asked"),
    [
        ("modern", "2026-07-28", "modern", ["server/discover"]),
        ("both", "2026-07-28", "modern", ["server/discover"]),
        ("legacy", "2025-11-25", "legacy", ["server/discover", "initialize", "notifications/initialized"]),
        (
            "sse",
            "2025-11-25",
            "sse",
            ["server/discover", "initialize", "GET", "initialize", "notifications/initialized"],
        ),
    ],
)
async def test_the_transport_is_found_out_and_remembered(
    real_clock: None, tmp_path: Path, speaks: str, revision: str, era: str, asked: list[str]
) -> None:
    with Far(speaks) as far:
        async with world(far, tmp_path) as at:
            status = await at.becomes("connected", "failed")
            assert (status.state, status.error) == ("connected", "")
            assert (status.revision, status.tools, status.pid) == (revision, 2, 0)
            assert [what.what for what in far.asked if what.what in asked] == asked
            assert b"content" in await at.call()
            assert at.upstream._keeper.era == era
        far.asked.clear()
        async with world(far, tmp_path) as at:
            await at.call()
            first = next(what.what for what in far.asked)
            assert first == {"modern": "server/discover", "legacy": "initialize", "sse": "GET"}[era]


async def test_each_agent_can_have_a_session_of_its_own(real_clock: None, tmp_path: Path) -> None:
    """And what one has found out about the server the others know (n04)."""
    with Far("legacy") as far:
        async with world(far, tmp_path, instance="agent") as at:
            await at.becomes("connected")
            assert far.heard("server/discover") == 1
            for name in ("a", "b"):
                await at.fleet.at(at.upstream, name, "").reach(20)
            assert len(far.sessions) == 3
            assert far.heard("server/discover") == 1
            a, b = at.fleet.instances("far")
            a.stop()
            await until(a, at.fleet, is_state("idle"))
            assert b.connection is not None
            assert a.catalog == b.catalog == at.upstream.catalog


async def test_a_server_that_was_replaced_by_a_newer_one_is_found_again(
    real_clock: None, tmp_path: Path
) -> None:
    """Whatever is remembered of it (4.6)."""
    with Far("sse") as far:
        async with world(far, tmp_path) as at:
            await at.becomes("connected")
        for speaks, era in (("legacy", "legacy"), ("modern", "modern")):
            far.speaks = speaks
            # The definition is the same: what changed stands behind its URL.
            url = f"http://127.0.0.1:{far.port}/sse"
            async with fleet_of(Server(name="far", source="/etc/far.toml", url=url), cache=tmp_path) as fleet:
                await fleet.find("far").reach(20)
                assert fleet.find("far")._keeper.era == era


@pytest.mark.parametrize(
    ("protocol", "speaks", "state"),
    [
        ("legacy", "both", "connected"),
        ("legacy", "sse", "connected"),
        ("legacy", "modern", "failed"),
        ("2026-07-28", "both", "connected"),
        ("2026-07-28", "legacy", "failed"),
        ("2026-07-28", "sse", "failed"),
    ],
)
async def test_a_pinned_protocol_is_the_only_one(
    real_clock: None, tmp_path: Path, protocol: Any, speaks: str, state: str
) -> None:
    with Far(speaks) as far:
        async with world(far, tmp_path, protocol=protocol) as at:
            status = await at.becomes("connected", "failed")
            assert status.state == state
            modern = far.heard("server/discover")
            assert (modern > 0) is (protocol != "legacy")
            assert (far.heard("initialize") > 0) is (protocol == "legacy")


async def test_the_headers_of_the_definition_go_with_every_request(real_clock: None, tmp_path: Path) -> None:
    with Far(stream=True) as far:
        far.token = "Bearer t-1"
        async with world(far, tmp_path, headers={"Authorization": "Bearer t-1", "X-Team": "blue"}) as at:
            await at.call()
        assert {asked.what for asked in far.asked} >= {"initialize", "tools/list", "tools/call", "DELETE"}
        for asked in far.asked:
            assert asked.headers["x-team"] == "blue"


# ------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("mode", "state", "reason", "words"),
    [
        ("html", "failed", "bad_answer", "web page"),
        ("502", "failed", "failed", "502"),
        ("401", "needs_auth", "needs_auth", "401"),
        ("403", "failed", "access_denied", "403"),
        ("hang", "failed", "not_responding", "no answer within 1 s"),
        ("elsewhere", "failed", "failed", "another origin"),
        ("gzip", "failed", "failed", "coded as gzip, gzip"),
    ],
)
async def test_why_a_remote_failed(
    real_clock: None, tmp_path: Path, mode: str, state: str, reason: str, words: str
) -> None:
    if mode == "gzip":
        bomb(2)  # made once, which takes seconds
    with Far() as far:
        far.mode = mode
        async with world(far, tmp_path, connect_timeout=1.0) as at:
            with trio.fail_after(5):
                status = await at.becomes("failed", "needs_auth")
            assert (status.state, status.reason) == (state, reason)
            assert words in status.error
            with pytest.raises(Failure) as caught:
                await at.upstream.reach(5)
            assert caught.value.kind == ("needs_login" if state == "needs_auth" else "unavailable")
            assert words in caught.value.message
            assert caught.value.data["reason"] == reason
            if reason in ("needs_auth", "access_denied"):
                assert "/etc/far.toml" in caught.value.hint
                assert "Authorization" in caught.value.hint


async def test_nobody_there(real_clock: None, tmp_path: Path) -> None:
    with Far() as far:
        far.die()
        async with world(far, tmp_path) as at:
            status = await at.becomes("failed")
            assert status.reason == "unreachable"
            assert "refused" in status.error


async def test_every_answer_is_told_where_none_was_usable(real_clock: None, tmp_path: Path) -> None:
    """3.6: a wrong address is found by what all three were answered."""
    with Far("none") as far:
        async with world(far, tmp_path) as at:
            status = await at.becomes("failed")
            assert [asked.what for asked in far.asked] == ["server/discover", "initialize", "GET"]
            asked = [words.partition(":")[0] for words in status.error.split("; ")]
            assert asked == ["server/discover", "initialize", "GET"]
            assert "405" in status.error
            assert "404" in status.error


async def test_who_calls_a_dead_remote_is_told_at_once_and_it_is_tried_again_all_the_same(
    real_clock: None, tmp_path: Path
) -> None:
    """b26: nobody waits for the next attempt, which is due because a session wants the server (D8)."""
    with Far() as far:
        far.die()
        async with world(far, tmp_path) as at:
            at.upstream.users.add("session")
            status = await at.becomes("failed")
            assert status.retry_at > 0
            with trio.fail_after(1):
                with pytest.raises(Failure, match="refused") as caught:
                    await at.upstream.reach(60)
            assert 0 < caught.value.data["retry_after"] <= 15


async def test_a_lost_session_is_opened_again_without_anybody_noticing(
    real_clock: None, tmp_path: Path
) -> None:
    with Far() as far:
        async with world(far, tmp_path) as at:
            await at.becomes("connected")
            at.upstream.users.add("session")
            far.sessions.clear()
            with pytest.raises(ConnectionLost):
                await at.call()
            assert await at.call()
            assert at.upstream.status.state == "connected"
            assert far.heard("initialize") == 2
            [*_, last] = [asked for asked in far.asked if asked.what == "initialize"]
            assert "mcp-session-id" not in last.headers


async def test_sessions_that_are_lost_again_and_again_become_a_failure(
    real_clock: None, tmp_path: Path
) -> None:
    with Far() as far:
        async with world(far, tmp_path) as at:
            await at.becomes("connected")
            at.upstream.users.add("session")
            far.mode = "lost"
            with pytest.raises(ConnectionLost):
                await at.call()
            status = await at.becomes("failed")
            assert status.reason == "session_lost"
            assert status.retry_at > 0
            assert far.heard("initialize") == 2
            with pytest.raises(Failure, match="session_lost"):
                await at.call()


async def test_a_lost_session_that_nobody_uses_is_not_opened_again(real_clock: None, tmp_path: Path) -> None:
    with Far() as far:
        async with world(far, tmp_path) as at:
            await at.becomes("connected")
            far.sessions.clear()
            with pytest.raises(ConnectionLost):
                await at.call()
            await at.becomes("idle")
            assert await at.call()


@pytest.mark.parametrize(
    ("mode", "state", "reason", "kind"),
    [
        ("html", "failed", "bad_answer", "bad_answer"),
        ("401", "needs_auth", "needs_auth", "needs_login"),
        ("403", "failed", "access_denied", "unavailable"),
        ("die", "failed", "unreachable", "unavailable"),
        ("gzip", "failed", "failed", "outcome_unknown"),
    ],
)
async def test_a_remote_that_goes_wrong_says_so_at_once_and_recovers_on_demand(
    real_clock: None, tmp_path: Path, mode: str, state: str, reason: str, kind: str
) -> None:
    with Far() as far:
        async with world(far, tmp_path) as at:
            await at.becomes("connected")
            if mode == "die":
                far.die()
            far.mode = mode
            with pytest.raises(Failure) as caught:
                await at.call()
            assert caught.value.kind == kind
            with trio.fail_after(2):
                status = await at.becomes("failed", "needs_auth")
            assert (status.state, status.reason, status.retry_at) == (state, reason, 0)
            assert at.upstream.catalog is not None, "its tools stay listed (b26)"
            far.mode = ""
            if mode == "die":
                far.live()
            at.upstream.reconnect()
            await at.becomes("connected")
            assert await at.call()


async def test_one_bad_answer_costs_one_call(real_clock: None, tmp_path: Path) -> None:
    with Far() as far:
        async with world(far, tmp_path) as at:
            await at.becomes("connected")
            far.mode = "502"
            async with trio.open_nursery() as nursery:

                async def call() -> None:
                    with pytest.raises(Failure, match="502"):
                        await at.call()
                    far.mode = ""

                nursery.start_soon(call)
            assert await at.call()
            assert at.upstream.status.state == "connected"
            assert far.heard("ping") == 1


async def test_an_idle_remote_is_left_alone_and_comes_back(real_clock: None, tmp_path: Path) -> None:
    """n15; its session is ended, not left to rot."""
    with Far() as far:
        async with world(far, tmp_path) as at:
            at.upstream.idle_after = 0.2
            await at.becomes("connected")
            await at.becomes("idle")
            assert far.heard("DELETE") == 1
            assert await at.call()


# ------------------------------------------------------------------- one request


async def ask(at: World, arguments: bytes, holds: Callable[[], bool] = lambda: True) -> bytes:
    members = b'"name":"act","arguments":' + arguments
    with trio.fail_after(20):
        return await request(
            Sending(
                at.upstream,
                Ticket(),
                "tools/call",
                members,
                b"",
                5.0,
                0.0,
                None,
                lambda reached: False,
                holds,
            )
        )


async def test_headers_that_a_server_wants_anew_are_learnt_and_the_call_made_again(
    real_clock: None, tmp_path: Path
) -> None:
    """-32020: the tools are listed again, and the request is repeated once (3.3)."""
    with Far("modern") as far:
        async with world(far, tmp_path) as at:
            await ask(at, b'{"region":"eu"}')
            far.mirrors = True
            assert b"eu" in await ask(at, b'{"region":"eu"}')
            assert far.heard("tools/list") == 2
            assert far.heard("tools/call") == 3
            assert b"us" in await ask(at, b'{"region":"us"}')
            assert far.heard("tools/list") == 2


async def test_a_definition_that_changed_with_the_headers_is_decided_on_anew(
    real_clock: None, tmp_path: Path
) -> None:
    with Far("modern") as far:
        async with world(far, tmp_path) as at:
            await ask(at, b"{}")
            decided_on = at.upstream.catalog
            far.mirrors = True
            with pytest.raises(Superseded):
                await ask(at, b'{"region":"eu"}', lambda: at.upstream.catalog is decided_on)
            assert far.heard("tools/call") == 2


async def test_a_mismatch_that_stays_is_the_callers(real_clock: None, tmp_path: Path) -> None:
    with Far("modern") as far:
        async with world(far, tmp_path) as at:
            far.mirrors = True
            await at.becomes("connected")
            with pytest.raises(ServerError, match="Mcp-Param-Region"):
                # The listing wants a header only for a string.
                await ask(at, b'{"region":["eu"]}')
            assert far.heard("tools/call") == 2


@pytest.mark.parametrize(
    ("mode", "kind", "hint"),
    [
        ("502", "bad_answer", "mcpctl test far"),
        ("401", "needs_login", "/etc/far.toml"),
        ("403", "unavailable", "/etc/far.toml"),
        ("gzip", "outcome_unknown", "check before"),
    ],
)
async def test_what_the_caller_is_told(
    real_clock: None, tmp_path: Path, mode: str, kind: str, hint: str
) -> None:
    if mode == "gzip":
        bomb(2)
    with Far() as far:
        async with world(far, tmp_path) as at:
            await at.becomes("connected")
            far.mode = mode
            with pytest.raises(Failure) as caught:
                await ask(at, b"{}")
            assert caught.value.kind == kind
            assert caught.value.message.startswith('server "far" did not answer the request: ')
            assert hint in caught.value.hint
            assert caught.value.data["server"] == "far"


async def test_a_page_that_repeats_the_request_gives_no_secret_away(real_clock: None, tmp_path: Path) -> None:
    """Debugging pages show the headers they got."""
    with Far() as far:
        async with world(far, tmp_path, headers={"Authorization": "Bearer hunter2-hunter2"}) as at:
            await at.becomes("connected")
            far.mode = "echo"
            with pytest.raises(Failure, match=r"headers: .*\[redacted:Authorization\]") as caught:
                await ask(at, b"{}")
            assert "hunter2" not in caught.value.message
            status = await at.becomes("failed")
            assert "hunter2" not in status.error


def test_a_daemon_of_processes_alone_never_loads_what_speaks_http() -> None:
    """It costs 12 MiB, and a tenth of a second at the start."""
    script = "import sys, mcpd.daemon.app; sys.exit(' '.join({'httpx', 'h11', 'mcpd.http'} & {*sys.modules}))"
    done = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr.strip() == ""


# ------------------------------------------------------------------- words and headers


def test_every_answer_is_reported_once() -> None:
    discover, initialize = ("server/discover", "status 404"), ("initialize", "status 405")
    assert report([], "refused") == "refused"
    assert report([discover], "status 404") == "status 404"
    assert report([discover, ("initialize", "status 404")], "status 404") == "status 404"
    assert report([discover, initialize], "status 405") == (
        "server/discover: status 404; initialize: status 405"
    )
    assert report([discover], "no answer within 10 s") == (
        "server/discover: status 404; no answer within 10 s"
    )


def test_mirrored_arguments_follow_the_catalogue() -> None:
    region = (Mirror("Region", ("region",), "string"),)
    tools: list[Catalog | None] = [
        None,
        Catalog(tools=(Tool(name="query", rest=b"", mirrors=region), Tool(name="plain", rest=b""))),
        Catalog(),
    ]
    mirrors = Mirrors(lambda: tools[0])
    assert mirrors.of("query") == ()
    tools.pop(0)
    assert (mirrors.of("query"), mirrors.of("plain"), mirrors.of("other")) == (region, (), ())
    tools.pop(0)
    assert mirrors.of("query") == ()
