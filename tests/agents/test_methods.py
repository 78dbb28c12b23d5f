"""What agents of every revision may ask, and what they are told (protocol reference 4, 5, 8.1)."""

from __future__ import annotations

import json
import logging
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing

from mcpd.agents.methods import serve, table
from mcpd.agents.methods.request import Method, Request
from mcpd.agents.session import Session
from mcpd.errors import Failure
from mcpd.protocol.dialect import IMPLEMENTATION
from mcpd.protocol.jsonrpc import read
from mcpd.secrets.held import HeldValues
from mcpd.upstream.ticket import Ticket
from tests.agents.world import CLIENT, META, MODERN, Agent, Ear, check, kind_of, meta, staged, text_of
from tests.conftest import Home
from tests.control.world import tiny, write_config, write_server
from tests.servers.lively import ODD_RESULT

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
REVISIONS = (*HANDSHAKE, MODERN)
CHANGED = "notifications/tools/list_changed"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def offered(revision: str) -> dict[str, Any]:
    """What is declared of many servers: all that one of them could have, for they come and go (5.1). Log
    messages are deprecated without a handshake, so there a server has to have them (5.6)."""
    changes = {"listChanged": True}
    completions: dict[str, Any] = {} if revision == "2024-11-05" else {"completions": {}}
    resources = {"subscribe": True, **changes}
    more: dict[str, Any] = {}
    if revision == "2025-11-25":
        more["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    if revision == MODERN:
        more["extensions"] = {"io.modelcontextprotocol/tasks": {}}
    else:
        more["logging"] = {}
    usual = {"tools": changes, "resources": resources, "prompts": changes}
    return {**usual, **completions, **more}


# ------------------------------------------------------------------- handshake


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_a_known_revision_is_what_initialize_agrees_on(
    home: Home, real_clock: None, revision: str
) -> None:
    async with staged(home) as stage:
        agent = stage.connect(revision=revision)
        assert await agent.initialize() == {
            "protocolVersion": revision,
            "capabilities": offered(revision),
            "serverInfo": IMPLEMENTATION,
        }
        assert await agent.ask("ping") == {}
        assert await agent.ask("tools/list") == {"tools": []}


@pytest.mark.parametrize("asked", ["2099-01-01", MODERN, "", "1", "DRAFT-2025-v1"])
async def test_any_other_revision_is_countered_with_the_newest_that_has_a_handshake(
    home: Home, real_clock: None, asked: str
) -> None:
    async with staged(home) as stage:
        agent = stage.connect()
        params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": CLIENT}
        assert (await agent.ask("initialize", params))["protocolVersion"] == "2025-11-25"
        assert await agent.ask("tools/list") == {"tools": []}


@pytest.mark.parametrize(
    "params",
    [{}, {"protocolVersion": 1}, {"protocolVersion": None}, {"protocolVersion": "x", "capabilities": 1}],
)
async def test_a_bad_initialize_is_refused_and_a_good_one_may_follow(
    home: Home, real_clock: None, params: dict[str, Any]
) -> None:
    async with staged(home) as stage:
        agent = stage.connect()
        assert (await agent.refusal("initialize", params)).code == -32602
        assert (await agent.refusal("tools/list")).code == -32602
        await agent.initialize()
        assert await agent.ask("tools/list") == {"tools": []}


async def test_requests_before_initialize_are_refused_and_the_session_lives(
    home: Home, real_clock: None
) -> None:
    async with staged(home) as stage:
        agent = stage.connect()
        for method in ("tools/list", "tools/call", "no/such", "server/discover"):
            refused = await agent.refusal(method)
            assert refused.code == -32602
            assert "initialize" in refused.message
        assert await agent.ask("ping") == {}, "ping may come first (4.1)"
        await agent.initialize()
        assert await agent.ask("tools/list") == {"tools": []}


async def test_requests_may_follow_initialize_without_waiting_for_its_answer(
    home: Home, real_clock: None
) -> None:
    """`printf '...' | mcpctl bridge`: what was sent first decides what comes later."""
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        for number in range(10):
            agent = stage.connect(revision=HANDSHAKE[number % 4])
            hello = {"protocolVersion": agent.revision, "capabilities": {}, "clientInfo": CLIENT}
            call = {"name": "tiny__echo", "arguments": {"text": "x"}}
            await agent.line(
                json.dumps(agent.message("initialize", hello, 1)),
                json.dumps(agent.message("notifications/initialized")),
                json.dumps(agent.message("tools/list", {}, 2)),
                json.dumps(agent.message("tools/call", call, 3)),
            )
            assert (await agent.answer(1))["result"]["protocolVersion"] == agent.revision
            assert len((await agent.answer(2))["result"]["tools"]) == 7
            assert text_of((await agent.answer(3))["result"]) == "x"


# ------------------------------------------------------------------- stateless


async def test_discover_lists_only_what_is_served_statelessly(home: Home, real_clock: None) -> None:
    async with staged(home) as stage:
        agent = stage.connect(revision=MODERN)
        assert await agent.ask("server/discover") == {
            "supportedVersions": [MODERN],
            "capabilities": offered(MODERN),
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {META + "serverInfo": IMPLEMENTATION},
        }


async def test_any_stateless_request_may_be_the_first(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agent = stage.connect(revision=MODERN)
        result = await agent.call("tiny__echo", text="hi")
        assert (text_of(result), result["resultType"]) == ("hi", "complete")
        listed = await stage.connect(revision=MODERN).ask("tools/list")
        assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 0, "private")


@pytest.mark.parametrize(
    "method", ["server/discover", "tools/list", "tools/call", "subscriptions/listen", "x"]
)
@pytest.mark.parametrize(
    "sent",
    [
        None,
        {},
        {META + "protocolVersion": MODERN},
        {META + "clientCapabilities": {}},
        {META + "protocolVersion": 20260728, META + "clientCapabilities": {}},
        {META + "protocolVersion": MODERN, META + "clientCapabilities": []},
        {META + "protocolVersion": None, META + "clientCapabilities": None},
        "text",
    ],
)
async def test_a_stateless_request_must_carry_its_revision_and_capabilities(
    home: Home, real_clock: None, method: str, sent: Any
) -> None:
    async with staged(home) as stage:
        agent = stage.connect()
        params: dict[str, Any] = {} if sent is None else {"_meta": sent}
        assert (await agent.refusal(method, params)).code == -32602


@pytest.mark.parametrize("asked", ["2099-01-01", "2025-11-25", "", "x" * 1000])
async def test_an_unknown_revision_is_refused_with_the_known_ones(
    home: Home, real_clock: None, asked: str
) -> None:
    async with staged(home) as stage:
        agent = stage.connect()
        params = {"_meta": meta(asked)}
        await agent.send("tools/list", params, 1)
        error = (await agent.answer(1))["error"]
        assert error["code"] == -32022
        assert error["data"]["supported"] == [MODERN]
        assert asked.startswith(error["data"]["requested"])
        assert len(error["data"]["requested"]) >= min(len(asked), 20)
        check(MODERN, "UnsupportedProtocolVersionError", {"jsonrpc": "2.0", "id": 1, "error": error})


# --------------------------------------------------------------- both eras


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
@pytest.mark.parametrize(
    "method", ["resources/lists", "tasks/lists", "sampling/createMessage", "no", "\u00e9" * 500]
)
async def test_an_unknown_method_is_said_to_be_unknown(
    home: Home, real_clock: None, revision: str, method: str
) -> None:
    async with staged(home) as stage:
        agent = await stage.attach(revision=revision)
        refused = await agent.refusal(method)
        assert (refused.code, refused.kind) == (-32601, "unknown_method")
        assert len(refused.message) < 200


@pytest.mark.parametrize(
    ("revision", "method"),
    [
        ("2025-11-25", "server/discover"),
        ("2025-11-25", "subscriptions/listen"),
        (MODERN, "logging/setLevel"),
        (MODERN, "resources/subscribe"),
        (MODERN, "resources/unsubscribe"),
    ],
)
async def test_methods_of_one_era_are_unknown_in_the_other(
    home: Home, real_clock: None, revision: str, method: str
) -> None:
    async with staged(home) as stage:
        agent = await stage.attach(revision=revision)
        assert (await agent.refusal(method)).code == -32601


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_an_unknown_tool_is_an_error_and_no_result(home: Home, real_clock: None, revision: str) -> None:
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach(revision=revision)
        for name in ("nope", "tiny__nope", "tiny", "echo", "tiny__", "__echo", "", "x" * 100_000):
            refused = await agent.refusal("tools/call", {"name": name})
            assert (refused.code, refused.kind) == (-32602, "no_such_tool")
            assert len(refused.message) < 300


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 1}, {"name": None}, {"arguments": {}}, {"name": "tiny__echo", "_meta": 1}, [1], "x", 3],
)
async def test_malformed_params_are_an_error(home: Home, real_clock: None, params: Any) -> None:
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach()
        await agent.line(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
        assert (await agent.answer(1))["error"]["code"] == -32602
        assert text_of(await agent.call("tiny__echo", text="fine")) == "fine"


@pytest.mark.parametrize("upstream", ["--handshake", "--modern"])
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
async def test_a_result_passes_untouched(home: Home, real_clock: None, revision: str, upstream: str) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server(upstream))
        async with staged(home) as stage:
            alone = await stage.attach(revision=revision, server="lively")
            result = await alone.ask("tools/call", {"name": "odd", "arguments": {}}, odd=True)
            assert result.pop("resultType", None) == ("complete" if revision == MODERN else None)
            assert result == ODD_RESULT
            agent = await stage.attach(revision=revision)
            result = await agent.ask("tools/call", {"name": "lively__odd", "arguments": {}}, odd=True)
            content = result["content"]
            assert content[3].pop("uri") == "mcpd://lively/file:///x", (
                "to be read beside other servers' (a13)"
            )
            assert content[4]["resource"].pop("uri") == "mcpd://lively/file:///y"
            untouched = json.loads(json.dumps(ODD_RESULT["content"]))
            del untouched[3]["uri"], untouched[4]["resource"]["uri"]
            assert content == untouched


async def test_a_servers_own_error_passes_byte_for_byte(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            await agent.begin("lively__refuse", 1)
            line = await agent.read_line()
            sent = b'{"code": -32099, "message": "not today", "data": {"why": ["tired"]}}'
            assert line == b'{"jsonrpc":"2.0","id":1,"error":' + sent + b"}"


async def test_one_failing_request_ends_neither_its_session_nor_the_daemon(
    home: Home, real_clock: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Hazard: an exception that nobody translated."""
    bugs: list[BaseException] = [
        KeyError("secret detail"),
        RecursionError(),
        ExceptionGroup("two", [ValueError("a"), OSError("b")]),
        trio.ClosedResourceError(),
    ]

    async def fail(session: Session, request: Request) -> bytes:
        await trio.lowlevel.checkpoint()
        raise bugs.pop()

    monkeypatch.setitem(table.METHODS, "test/fail", Method(fail))
    async with staged(home) as stage:
        agent, other = await stage.attach(), await stage.attach()
        with caplog.at_level(logging.ERROR):
            while bugs:
                refused = await agent.refusal("test/fail")
                assert (refused.code, refused.kind) == (-32603, "internal")
                assert "secret" not in refused.message
        assert len([record for record in caplog.records if record.exc_info]) == 4
        assert await agent.ask("ping") == {}
        assert await other.ask("ping") == {}


def test_every_verdict_is_a_result_of_a_call_and_an_error_of_anything_else() -> None:
    """D13: denied, pending, unavailable, needs_login, timed_out, outcome_unknown, busy."""
    call = read(b'{"jsonrpc":"2.0","id":"i","method":"tools/call"}')
    listing = read(b'{"jsonrpc":"2.0","id":"i","method":"tools/list"}')
    for kind in ("denied", "pending", "unavailable", "needs_login", "timed_out", "outcome_unknown", "busy"):
        failure = Failure(kind, "why it is so", hint="what to do", server="s", retry_after=1.5)
        for stateless, revision in ((False, "2025-11-25"), (True, MODERN)):
            answer = json.loads(serve.refused(call, failure, stateless))
            result = answer["result"]
            assert answer["id"] == "i"
            assert kind_of(result) == kind
            assert result["_meta"]["dev.mcpd/retry_after"] == 1.5
            assert text_of(result) == "why it is so\nwhat to do"
            check(revision, "CallToolResult", result)
            error = json.loads(serve.refused(listing, failure, stateless))["error"]
            assert error["data"] == {"kind": kind, "hint": "what to do", "server": "s", "retry_after": 1.5}
            assert not -32768 <= error["code"] <= -32000, "not to be taken for a server's own"


# ---------------------------------------------------------------------- pages


async def pages_of(agent: Agent) -> list[Any]:
    pages = [await agent.ask("tools/list")]
    while "nextCursor" in pages[-1]:
        pages.append(await agent.ask("tools/list", {"cursor": pages[-1]["nextCursor"]}))
    return pages


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_a_listing_has_500_entries_an_answer(home: Home, real_clock: None, revision: str) -> None:
    write_server(home, "tiny", **tiny("--tools", "1200"))
    async with staged(home) as stage:
        agent = await stage.attach(revision=revision)
        pages = await pages_of(agent)
        assert [len(page["tools"]) for page in pages] == [500, 500, 207]
        names = [tool["name"] for page in pages for tool in page["tools"]]
        assert len(set(names)) == 1207
        assert names[-1] == "tiny__extra_1199"


async def test_a_cursor_is_good_for_its_session_and_its_listing_alone(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        write_server(home, "tiny", **tiny("--tools", "600"))
        async with staged(home) as stage:
            agent, other = await stage.attach(), await stage.attach()
            cursor = (await agent.ask("tools/list"))["nextCursor"]
            theirs = (await other.ask("tools/list"))["nextCursor"]
            assert cursor != theirs
            start, _, mac = cursor.partition(".")
            for bad in (
                theirs,
                f"0.{mac}",
                f"{int(start) + 1}.{mac}",
                "",
                "0",
                cursor + "x",
                "\u00e9",
                "9" * 99,
            ):
                refused = await agent.refusal("tools/list", {"cursor": bad})
                assert refused.code == -32602
            assert (await agent.refusal("tools/list", {"cursor": 5})).code == -32602
            assert len((await agent.ask("tools/list", {"cursor": cursor}))["tools"]) == 119

            await other.call("lively__grow", name="fresh")
            await agent.notice(CHANGED)
            refused = await agent.refusal("tools/list", {"cursor": cursor})
            assert (refused.code, refused.data["hint"]) == (-32602, "list from the start again")
            assert "lively__fresh" in await agent.tools()


async def test_a_cursor_out_of_nowhere_is_refused_also_before_any_listing(
    home: Home, real_clock: None
) -> None:
    async with staged(home) as stage:
        agent = await stage.attach()
        assert (await agent.refusal("tools/list", {"cursor": "500.abc"})).code == -32602


# --------------------------------------------------------------- list_changed


async def test_only_agents_whose_listing_changed_are_told(home: Home, real_clock: None) -> None:
    write_config(
        home,
        "[agents.narrow]\nallowed_tools = ['lively__echo']\n[agents.deny]\ndenied_tools = ['*__fresh*']\n",
    )
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            wide, unlisted = await stage.attach(), await stage.attach()
            others = [
                await stage.attach("narrow"),
                await stage.attach("deny"),
                await stage.attach(without=["lively"]),
                await stage.attach(revision=MODERN),
            ]
            for agent in (wide, *others):
                await agent.tools()
            await wide.call("lively__grow", name="fresh")
            assert await wide.notice(CHANGED) == {}
            for agent in others:
                await agent.nothing_more()
            await unlisted.nothing_more()
            assert "lively__fresh" in await wide.tools()


async def test_those_that_leave_while_others_are_told_are_passed_over(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agents = [await stage.attach() for _ in range(4)]
        for agent in agents:
            await agent.tools()
        stage.broker.fleet.apply(stage.broker.config, frozenset({"tiny"}), {})
        for agent in agents[1:3]:
            await agent.stream.aclose()
        for agent in (agents[0], agents[3]):
            await agent.notice(CHANGED)
            assert await agent.tools() == []


async def test_a_change_among_very_many_is_still_told(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach()
        await agent.tools()
        stage.broker.fleet.apply(stage.broker.config, frozenset({"tiny"}), {})
        for _ in range(1000):
            stage.broker.changes.publish("calls")
        await agent.notice(CHANGED)
        assert await agent.tools() == []


async def test_a_listing_that_is_the_same_again_is_no_change(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach()
            before = await agent.ask("tools/list")
            operator = await stage.operator()
            await operator.call("servers.reconnect", server="lively")
            await stage.until("status", lambda: stage.broker.fleet.find("lively").connection is not None)
            await operator.call("daemon.reload")
            assert await agent.ask("tools/list") == before
            await agent.nothing_more()


# ---------------------------------------------------------------------- listen


async def listening(agent: Agent, ident: Any, **wanted: Any) -> None:
    await agent.send("subscriptions/listen", {"notifications": wanted}, ident)
    message = await agent.read()
    assert message == {
        "jsonrpc": "2.0",
        "method": ACKNOWLEDGED,
        "params": {
            "_meta": {META + "subscriptionId": ident},
            "notifications": {wish: value for wish, value in wanted.items() if value},
        },
    }
    assert type(message["params"]["_meta"][META + "subscriptionId"]) is type(ident)
    check(MODERN, "SubscriptionsAcknowledgedNotification", message)


async def test_a_subscription_from_acknowledgement_to_graceful_end(home: Home, real_clock: None) -> None:
    async with Ear(home.root / "ear") as ear:
        write_server(home, "lively", **ear.server())
        async with staged(home) as stage:
            agent = await stage.attach(revision=MODERN)
            await agent.tools()
            await listening(agent, 20, toolsListChanged=True, promptsListChanged=True)
            await listening(agent, "others", resourcesListChanged=True, promptsListChanged=True)
            await listening(agent, "20", toolsListChanged=True)
            await listening(agent, "unmoved", toolsListChanged=False)
            await listening(agent, "empty")

            await agent.call("lively__grow", name="fresh")
            told = [(await agent.notice(CHANGED))["_meta"][META + "subscriptionId"] for _ in range(2)]
            assert told == [20, "20"]
            assert agent.kept == []

            await agent.send("notifications/cancelled", {"requestId": 20})
            await agent.call("lively__grow", name="fresher")
            assert (await agent.notice(CHANGED))["_meta"] == {META + "subscriptionId": "20"}
            await agent.nothing_more()

            stage.broker.stop.set()
            for ident in ("20", "others", "unmoved", "empty"):
                result = (await agent.answer(ident))["result"]
                check(MODERN, "SubscriptionsListenResult", result)
                assert result["resultType"] == "complete"
            assert agent.kept == [], "nothing for the one that was cancelled"


async def test_subscriptions_take_no_place_from_calls_and_are_bounded(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    async with staged(home) as stage:
        agent = await stage.attach(revision=MODERN)
        await agent.tools()
        for number in range(16):
            await listening(agent, number, toolsListChanged=True)
        assert text_of(await agent.call("tiny__echo", text="still served")) == "still served"
        await agent.send("subscriptions/listen", {"notifications": {}}, "one more")
        error = (await agent.answer("one more"))["error"]
        assert error["data"]["kind"] == "busy"
        await agent.send("notifications/cancelled", {"requestId": 3})
        await agent.ask("tools/list")
        await listening(agent, 3, toolsListChanged=True)


@pytest.mark.parametrize("params", [{"notifications": 1}, {"notifications": {"toolsListChanged": "yes"}}])
async def test_a_malformed_subscription_is_refused(home: Home, real_clock: None, params: Any) -> None:
    async with staged(home) as stage:
        agent = await stage.attach(revision=MODERN)
        assert (await agent.refusal("subscriptions/listen", params)).code == -32602


async def test_one_server_alone_passes_its_instructions_on(home: Home, real_clock: None) -> None:
    write_server(home, "tiny", **tiny())
    write_server(home, "other", **tiny())
    async with staged(home) as stage:
        everything = await stage.attach()
        assert len(await everything.tools()) == 14
        alone = stage.connect()
        await alone.send("notifications/dev.mcpd/attach", {"server": "tiny"})
        assert (await alone.initialize())["instructions"] == "be kind"
        assert "instructions" not in await stage.connect().initialize()
        modern = await stage.attach(revision=MODERN, server="tiny")
        assert (await modern.ask("server/discover"))["instructions"] == "be kind"
        assert re.fullmatch("[a-z]+", (await alone.tools())[0])


class Told:
    """Stands where a session hears of notices."""

    def __init__(self) -> None:
        self.heard: list[tuple[bytes, float]] = []
        self.broker = SimpleNamespace(held_values=HeldValues())

    def notice(self, method: str, params: bytes, on: bytes) -> None:
        assert method == "notifications/progress"
        told = json.loads(params)
        assert told["progressToken"] == "mine"
        self.heard.append((on, told["progress"]))

    def request(self, on: bytes, meta: str = '{"progressToken":"mine"}') -> Request:
        message = read(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":%b}}' % meta.encode()
        )
        params = bytes(message.params)
        return Request(cast("Session", self), message, b"1", on, Ticket(), params)


async def test_a_flood_of_progress_becomes_twenty_notices_a_second() -> None:
    told = Told()
    one, another = told.request(b"1"), told.request(b"2")
    for step in range(1000):
        one.progressed(b'{"progress":%d}' % step)
    assert told.heard == [(b"1", step) for step in range(10)], "a few at once"
    another.progressed(b'{"progress":-1}')
    assert told.heard[10:] == [(b"2", -1)], "each request for itself"
    for step in range(1000, 1100):
        await trio.sleep(0.01)
        one.progressed(b'{"progress":%d}' % step)
    assert 18 <= len(told.heard) - 11 <= 20
    assert told.heard[11:] == sorted(told.heard[11:])


@pytest.mark.parametrize("meta", ["{}", '{"progressToken":null}'])
async def test_without_a_token_progress_is_not_passed_on(meta: str) -> None:
    told = Told()
    told.request(b"1", meta).progressed(b'{"progress":1}')
    assert told.heard == []
