"""The endpoint from request to response, in both eras, on a clock that jumps (3.2, 3.3, 8.1, n23)."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.agents.endpoint import exchange, rooms
from mcpd.agents.methods import serve as methods_of_mcpd
from mcpd.agents.session import Session
from mcpd.errors import Failure
from mcpd.protocol import jsonrpc
from mcpd.protocol.framing import LINE_LIMIT
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.revisions import NEWEST_HANDSHAKE, REVISIONS
from mcpd.upstream.ticket import Ticket, Withdrawn
from tests.agents.endpoint.world import BOTH, Client, Response, served
from tests.conftest import Home
from tests.control.world import tiny, write_config, write_server

Step = Callable[[Session, Message, bytes, Ticket], Awaitable[bytes]]


class Script:
    """A face whose methods are `name` -> what it does; an unknown one is an error, as in the real table."""

    def __init__(self) -> None:
        self.steps: dict[str, Step] = {}
        self.heard: list[tuple[str, bytes]] = []
        self.withdrawn: list[str] = []

    def begin(self, session: Session, message: Message, key: bytes, on: bytes, ticket: Ticket) -> bool:
        """Everything here is served by tasks."""
        return False

    async def serve(
        self,
        session: Session,
        message: Message,
        key: bytes,
        on: bytes,
        ticket: Ticket,
        rest: Awaitable[bytes] | None = None,
    ) -> bytes | None:
        self.heard.append((session.id, bytes(message.params)))
        if message.method == "initialize":
            asked = json.loads(bytes(message.params))["protocolVersion"]
            if not session.opens or asked == "wrong":
                return self.refused(message, Failure("unknown_method", "no"), True)
            session.revision = REVISIONS.get(asked, NEWEST_HANDSHAKE)
            return jsonrpc.result_line(key, b'{"protocolVersion":"%b"}' % session.revision.name.encode())
        step = self.steps.get(message.method)
        if step is None:
            return self.refused(message, Failure("unknown_method", "no"), True)
        try:
            return jsonrpc.result_line(key, await step(session, message, on, ticket))
        except Withdrawn:
            self.withdrawn.append(message.method)
            return None
        except Failure as e:
            return self.refused(message, e, True)

    def unserved(self, session: Session, message: Message, kind: str) -> None:
        """Nothing is recorded here."""

    def refused(self, message: Message, failure: Failure, stateless: bool) -> bytes:
        return jsonrpc.error_line(message.key, jsonrpc.error_text(failure.code, failure.message))


class Gate:
    """A method that goes on when the test says so."""

    def __init__(self) -> None:
        self.events: dict[bytes, trio.Event] = {}

    async def __call__(self, session: Session, message: Message, on: bytes, ticket: Ticket) -> bytes:
        event = self.events[message.key] = trio.Event()
        with ticket.stoppable():
            await event.wait()
        return b'{"done":%b}' % message.key

    async def open(self, key: bytes) -> None:
        while key not in self.events:
            await trio.testing.wait_all_tasks_blocked()
        self.events[key].set()


async def at_once(session: Session, message: Message, on: bytes, ticket: Ticket) -> bytes:
    return b'{"at":"once"}'


async def chatty(session: Session, message: Message, on: bytes, ticket: Ticket) -> bytes:
    """Two notices of its own, one that belongs to nobody, then the answer."""
    session.notice("notifications/progress", b'{"step":1}', on)
    session.notice("notifications/tools/list_changed", b"{}")
    session.notice("notifications/progress", b'{"step":2}', on)
    return b'{"chatty":true}'


def script(**steps: Step) -> Script:
    made = Script()
    made.steps = {name.replace("_", "/"): step for name, step in steps.items()}
    return made


def methods(response: Response) -> list[str]:
    return [message.get("method", "answer") for message in response.messages]


async def seconds_until(what: Callable[[], Awaitable[Any]]) -> float:
    began = trio.current_time()
    await what()
    return trio.current_time() - began


# ------------------------------------------------------------------ who comes in


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"Host": "evil.example.com"}, 421),
        ({"Host": None}, 421),
        ({"Origin": "http://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Authorization": None}, 401),
        ({"Authorization": "Bearer mcpd_wrong"}, 401),
        ({"Authorization": "Basic abc"}, 401),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Accept": "text/html"}, 406),
        ({"Content-Length": str(LINE_LIMIT + 1)}, 413),
    ],
)
async def test_who_does_not_come_in(home: Home, change: dict[str, str | None], status: int) -> None:
    async with served(home, script(ping=at_once)) as world:
        client = world.client()
        response = await client.ask("POST", client.message("ping"), change)
        assert response.status == status
        assert response.json["error"]["message"]
        assert not any(name.startswith("access-control-") for name in response.headers)
        assert (response.headers.get("www-authenticate", "")[:6] == "Bearer") is (status == 401)
        assert len(world.rooms) == 0


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "HEAD", "PATCH"])
async def test_other_methods_and_no_cors(home: Home, method: str) -> None:
    async with served(home, Script()) as world:
        response = await world.client().ask(
            method, None, {"Origin": "http://localhost:6273", "Access-Control-Request-Method": "POST"}
        )
        assert response.status == 405
        assert response.headers["allow"] == "GET, POST, DELETE"
        assert not any(name.startswith("access-control-") for name in response.headers)


async def test_a_path_that_leads_nowhere(home: Home) -> None:
    write_server(home, "tiny", **tiny())
    write_config(home, "[agents.other]\nallowed_tools = []\n")
    async with served(home, script()) as world:
        client, other = world.client(), world.client("other")
        for path in ("/", "/mcpd", "/server/unknown", "/.well-known/oauth-protected-resource"):
            assert (await client.ask("GET", path=path)).status == 404
        assert (await client.ask("GET", path="/server/tiny")).status == 400, (
            "known, only the session is missing"
        )
        assert (await other.ask("GET", path="/server/tiny")).status == 404, "as if it were not there"


async def test_a_token_is_of_no_use_without_its_agent(home: Home) -> None:
    async with served(home, script(ping=at_once)) as world:
        client = world.client("gone")
        response = await client.ask("POST", client.message("initialize"))
        assert response.status == 401


async def test_only_http_is_spoken(home: Home) -> None:
    async with served(home, Script()) as world:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await world.app({"type": "websocket"}, trio.sleep_forever, send)
        assert sent == [{"type": "websocket.close"}]


@pytest.mark.parametrize(
    ("body", "code", "ident"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"p\xffng"}', -32700, 1),
        (b'{"id":1,"method":"ping"}', -32600, 1),
        (b"\n{", -32700, None),
        (b"3", -32600, None),
        (b"{}", -32600, None),
        (b"\n" + b"[" * 50_000 + b"]" * 50_000, -32600, None),
    ],
)
async def test_what_is_no_message(home: Home, body: bytes, code: int, ident: Any) -> None:
    async with served(home, Script()) as world:
        response = await world.client().ask("POST", body)
        assert (response.status, response.json["error"]["code"], response.json["id"]) == (400, code, ident)


async def test_a_body_comes_in_pieces_and_in_time(home: Home) -> None:
    async with served(home, script(ping=at_once)) as world:
        client = world.client()
        response = await client.begin(
            "POST", client.message("initialize", {"protocolVersion": ""}), pieces=9
        ).whole()
        assert response.status == 200
        large = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * LINE_LIMIT + b'"}}'
        response = await client.ask("POST", large, pieces=50)
        assert response.status == 413


async def test_a_body_that_does_not_come(home: Home) -> None:
    async with served(home, Script()) as world:
        client = world.client()
        headers = [(name.lower().encode(), value.encode()) for name, value in client.headers.items()]
        scope: dict[str, Any] = {"type": "http", "method": "POST", "raw_path": b"/mcp", "state": {}}
        scope["headers"] = [*headers, (b"content-type", b"application/json")]
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        await world.app(scope, trio.sleep_forever, send)
        assert sent[0]["status"] == 408
        sent.clear()

        async def gone() -> Any:
            return {"type": "http.disconnect"}

        await world.app(scope, gone, send)
        assert sent == []


async def test_line_ends_between_values_do_not_reach_a_server(home: Home) -> None:
    face = script(tools_call=at_once)
    async with served(home, face) as world:
        client = world.client()
        await client.initialize()
        body = b'{"jsonrpc":"2.0",\r\n"id":7,"method":"tools/call",\n"params":{"a":\r"x\\n",\n"b":1.50}}\n'
        assert (await client.ask("POST", body)).messages[0]["id"] == 7
        assert face.heard[-1][1] == b'{"a":"x\\n","b":1.50}'


# ------------------------------------------------------- sessions with a handshake


async def test_a_session_from_initialize_to_delete(home: Home) -> None:
    async with served(home, script(ping=at_once)) as world:
        client = world.client()
        params = {"protocolVersion": "2025-06-18"}
        response = await client.ask("POST", client.message("initialize", params))
        ident = response.headers["mcp-session-id"]
        assert len(ident) >= 32
        assert ident.isprintable()
        assert response.json["result"] == params
        session = {"Mcp-Session-Id": ident, "MCP-Protocol-Version": "2025-06-18"}
        initialized = client.message("notifications/initialized", ident=None)
        assert (await client.ask("POST", initialized, session)).status == 202
        assert (await client.ask("POST", {"jsonrpc": "2.0", "id": 9, "result": {}}, session)).status == 202
        assert (await client.ask("POST", client.message("ping"), session)).json["result"] == {"at": "once"}
        assert len(world.broker.sessions) == 1
        assert (await client.ask("DELETE", None, session)).status == 204
        for method, body in (("POST", client.message("ping")), ("GET", None), ("DELETE", None)):
            assert (await client.ask(method, body, session)).status == 404
        await trio.testing.wait_all_tasks_blocked()
        assert world.broker.sessions == {}


async def test_an_initialize_that_fails_opens_nothing(home: Home) -> None:
    async with served(home, Script()) as world:
        client = world.client()
        response = await client.ask("POST", client.message("initialize", {"protocolVersion": "wrong"}))
        assert response.status == 200
        assert "error" in response.json
        assert "mcp-session-id" not in response.headers
        await trio.testing.wait_all_tasks_blocked()
        assert (len(world.rooms), world.broker.sessions) == (0, {})
        assert (await client.ask("POST", client.message("initialize", ident=None))).status == 400


async def test_the_session_of_another_is_as_unknown_as_none(home: Home) -> None:
    write_server(home, "tiny", **tiny())
    write_config(home, "[agents.coder]\n")
    async with served(home, script(ping=at_once)) as world:
        owner, other = world.client(), world.client("coder")
        await owner.initialize()
        stolen = {key: owner.headers[key] for key in ("Mcp-Session-Id", "MCP-Protocol-Version")}
        for method, body in (("POST", other.message("ping")), ("GET", None), ("DELETE", None)):
            theirs = await other.ask(method, body, stolen)
            unknown = await other.ask(method, body, {**stolen, "Mcp-Session-Id": "x"})
            assert (theirs.status, theirs.body) == (404, unknown.body)
            elsewhere = await owner.ask(method, body, path="/server/tiny")
            assert elsewhere.status == 404, "also by the owner, at another place"
        assert (await owner.post("ping").whole()).messages[0]["result"] == {"at": "once"}


@pytest.mark.parametrize("revision", ["v999.0.0", ""])
async def test_a_revision_that_no_session_has(home: Home, revision: str) -> None:
    async with served(home, script(ping=at_once)) as world:
        client = world.client()
        await client.initialize()
        response = await client.ask("POST", client.message("ping"), {"MCP-Protocol-Version": revision})
        assert response.status == 400
        assert (
            await client.ask("POST", client.message("ping"), {"MCP-Protocol-Version": None})
        ).status == 200


async def test_requests_outside_of_a_session(home: Home) -> None:
    async with served(home, script(ping=at_once)) as world:
        client = world.client()
        response = await client.ask("POST", client.message("ping", ident=5))
        assert (response.status, response.json["id"]) == (400, 5)
        for method in ("GET", "DELETE"):
            assert (await client.ask(method)).status == 400
            modern = await client.ask(method, None, {"MCP-Protocol-Version": "2026-07-28"})
            assert (modern.status, modern.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("revision", "kind", "events"),
    [
        ("2025-03-26", "application/json", 0),
        ("2025-06-18", "application/json", 0),
        ("2025-11-25", "text/event-stream", 1),
    ],
)
async def test_an_answer_that_comes_soon_goes_out_in_one_piece(
    home: Home, revision: str, kind: str, events: int
) -> None:
    async with served(home, script(tools_call=at_once)) as world:
        client = world.client()
        await client.initialize(revision)
        response = await client.post("tools/call").whole()
        assert response.kind == kind
        assert methods(response) == ["answer"]
        assert response.body.startswith(b"id: ") is bool(events), "an id comes first where clients know it"
        alone = await client.post("tools/call", Accept="application/json").whole()
        assert alone.kind == "application/json"
        stream = await client.post("tools/call", Accept="text/event-stream").whole()
        assert stream.kind == "text/event-stream"
        assert methods(stream) == ["answer"]


async def test_a_large_answer_is_json_where_it_can_be(home: Home) -> None:
    async def large(session: Session, message: Message, on: bytes, ticket: Ticket) -> bytes:
        return b'{"x":"' + b"x" * exchange.LARGE + b'"}'

    async with served(home, script(tools_call=large)) as world:
        client = world.client()
        await client.initialize()
        assert (await client.post("tools/call").whole()).kind == "application/json"
        events = await client.post("tools/call", Accept="text/event-stream").whole()
        assert len(events.messages[0]["result"]["x"]) == exchange.LARGE


async def test_what_belongs_to_a_request_comes_on_its_stream(home: Home) -> None:
    gate = Gate()
    async with served(home, script(tools_call=gate, tools_list=chatty)) as world:
        client = world.client()
        await client.initialize()
        general = client.begin("GET")
        waiting = client.post("tools/call", ident=50)
        chat = await client.post("tools/list", ident=51).whole()
        assert methods(chat) == ["notifications/progress", "notifications/progress", "answer"]
        assert [each["params"]["step"] for each in chat.messages[:2]] == [1, 2]
        assert (await general.message())["method"] == "notifications/tools/list_changed"
        await gate.open(b"50")
        assert methods(await waiting.whole()) == ["answer"]
        assert not general.over
        assert methods(general) == ["notifications/tools/list_changed"]


async def test_who_reads_no_events_hears_nothing_but_the_answer(home: Home) -> None:
    async with served(home, script(tools_list=chatty)) as world:
        client = world.client()
        await client.initialize()
        response = await client.post("tools/list", Accept="application/json").whole()
        assert (response.kind, methods(response)) == ("application/json", ["answer"])


async def test_a_slow_answer_has_a_stream_that_lives(home: Home) -> None:
    gate = Gate()
    async with served(home, script(tools_call=gate)) as world:
        client = world.client()
        await client.initialize()
        response = client.post("tools/call", ident=7)
        assert await seconds_until(response.begun) == pytest.approx(exchange.SOON)
        assert (response.kind, response.headers["x-accel-buffering"]) == ("text/event-stream", "no")
        await trio.sleep(4 * exchange.QUIET)
        assert response.body.count(b": keep-alive") in (3, 4)
        assert response.messages == []
        await gate.open(b"7")
        assert (await response.whole()).messages[0]["result"] == {"done": 7}


async def test_a_client_that_was_cut_off_gets_the_rest_and_the_answer(home: Home) -> None:
    gate = Gate()

    async def talking(session: Session, message: Message, on: bytes, ticket: Ticket) -> bytes:
        session.notice("notifications/progress", b'{"step":1}', on)
        await trio.sleep(5)
        session.notice("notifications/progress", b'{"step":2}', on)
        return await gate(session, message, on, ticket)

    async with served(home, script(tools_call=talking)) as world:
        client = world.client()
        await client.initialize()
        first = client.post("tools/call", ident=7)
        await first.message(1)
        first.leave()
        await trio.sleep(60)
        second = client.begin("GET", None, {"Last-Event-ID": first.last_id})
        assert (await second.message(1))["params"]["step"] == 2
        second.leave()
        await gate.open(b"7")
        await trio.sleep(60)
        third = await client.begin("GET", None, {"Last-Event-ID": first.last_id}).whole()
        assert methods(third) == ["notifications/progress", "answer"], (
            "what was on its way, and what came since"
        )
        assert third.messages[1]["result"] == {"done": 7}
        assert third.last_id.partition("-")[0] == first.last_id.partition("-")[0]
        again = await client.begin("GET", None, {"Last-Event-ID": third.last_id}).whole()
        assert again.messages == []
        for unknown in ("99-1", "nonsense", first.last_id.partition("-")[0] + "-9"):
            assert (await client.ask("GET", None, {"Last-Event-ID": unknown})).status == 410


async def test_leaving_before_an_id_was_told_cancels_nothing_and_keeps_nothing(home: Home) -> None:
    gate = Gate()
    async with served(home, script(tools_call=gate, ping=at_once)) as world:
        client = world.client()
        await client.initialize("2025-06-18")
        response = client.post("tools/call", ident=7)
        await trio.sleep(exchange.SOON / 2)
        response.leave()
        await trio.testing.wait_all_tasks_blocked()
        await gate.open(b"7")
        await trio.testing.wait_all_tasks_blocked()
        [room] = world.rooms._rooms.values()
        assert (room.streams._awaited, room.streams._streams) == (0, {})
        assert not room.session.busy


async def test_a_cancelled_request_gets_no_answer(home: Home) -> None:
    face = script(tools_call=Gate())
    async with served(home, face) as world:
        client = world.client()
        await client.initialize()
        response = client.post("tools/call", ident=7)
        await response.begun()
        await client.ask("POST", client.message("notifications/cancelled", {"requestId": 7}, None))
        assert (await response.whole()).messages == []
        alone = client.post("tools/call", ident=8, Accept="application/json")
        await trio.sleep(1)
        await client.ask("POST", client.message("notifications/cancelled", {"requestId": 8}, None))
        assert (await alone.whole()).status == 202
        assert face.withdrawn == ["tools/call"] * 2


async def test_an_id_in_use_does_not_take_over_the_other_s_stream(home: Home) -> None:
    gate = Gate()
    async with served(home, script(tools_call=gate)) as world:
        client = world.client()
        await client.initialize()
        first = client.post("tools/call", ident=7)
        await first.begun()
        second = await client.post("tools/call", ident=7).whole()
        assert second.status == 400
        await gate.open(b"7")
        assert (await first.whole()).messages[0]["result"] == {"done": 7}
        odd = await client.ask("POST", b'{"jsonrpc":"2.0","id":null,"method":"tools/call"}')
        assert odd.messages[0]["error"]["code"] == -32600


async def test_the_newest_get_carries_the_general_stream(home: Home) -> None:
    async with served(home, script(tools_list=chatty)) as world:
        client = world.client()
        await client.initialize()
        old = await client.begin("GET").begun()
        new = await client.begin("GET").begun()
        await old.whole()
        await client.post("tools/list").whole()
        assert (await new.message())["method"] == "notifications/tools/list_changed"
        assert old.messages == []
        assert (await client.ask("GET", None, {"Accept": "application/json"})).status == 406


async def test_the_end_of_a_session_ends_its_streams(home: Home) -> None:
    face = script(tools_call=Gate())
    async with served(home, face) as world:
        client = world.client()
        await client.initialize()
        general = await client.begin("GET").begun()
        call = await client.post("tools/call").begun()
        quiet = client.post("tools/call", Accept="application/json")
        await trio.testing.wait_all_tasks_blocked()
        await client.ask("DELETE")
        assert (await general.whole()).messages == []
        assert (await call.whole()).messages == []
        assert (await quiet.whole()).status == 404


async def test_arrays_where_the_revision_has_them(home: Home) -> None:
    async with served(home, script(ping=at_once)) as world:
        client = world.client()
        await client.initialize("2025-03-26")
        both = [client.message("ping", ident=1), client.message("ping", ident="x")]
        answers = (await client.ask("POST", both)).json
        assert sorted(str(each["id"]) for each in answers) == ["1", "x"]
        quiet = [client.message("notifications/initialized", ident=None)]
        assert (await client.ask("POST", quiet)).status == 202
        assert (await client.ask("POST", b"[]")).json["error"]["code"] == -32600
        other = world.client()
        await other.initialize("2025-06-18")
        assert (await other.ask("POST", both)).status == 400
        other.headers.pop("Mcp-Session-Id")
        assert (await other.ask("POST", both)).status == 400


async def test_so_many_sessions_and_who_makes_room(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rooms, "ROOMS_OF_ONE", 3)
    async with served(home, script(ping=at_once, tools_call=Gate())) as world:
        busy, idle, last = (Client(world, world.client().headers["Authorization"][7:]) for _ in range(3))
        token = last.headers["Authorization"]
        for number, client in enumerate((busy, idle, last)):
            client.headers["Authorization"] = token
            await client.initialize()
            await trio.sleep(1 + number)
        busy.post("tools/call")
        await trio.testing.wait_all_tasks_blocked()
        fourth = Client(world, token[7:])
        await fourth.initialize()
        assert (await idle.ask("POST", idle.message("ping"))).status == 404, "unused for the longest time"
        assert (await last.ask("POST", last.message("ping"))).status == 200
        for client in (last, fourth):
            await client.begin("GET").begun()
        refused = await idle.ask("POST", idle.message("initialize"), {"Mcp-Session-Id": None})
        assert refused.status == 503
        assert refused.json["error"]["data"]["kind"] == "busy"


async def test_a_session_that_nobody_uses_ends(home: Home) -> None:
    async with served(home, script(ping=at_once)) as world:
        left, listening = world.client(), world.client()
        left.headers["Authorization"] = listening.headers["Authorization"]
        await left.initialize()
        await listening.initialize()
        stream = await listening.begin("GET").begun()
        await trio.sleep(rooms.IDLE + 1)
        assert (await left.ask("POST", left.message("ping"))).status == 404
        assert (await listening.ask("POST", listening.message("ping"))).status == 200
        stream.leave()
        await trio.sleep(rooms.IDLE - 1)
        assert (await listening.ask("POST", listening.message("ping"))).status == 200


async def test_a_new_token_ends_what_the_old_one_opened(home: Home) -> None:
    async with served(home, script(ping=at_once)) as world:
        client = world.client()
        await client.initialize()
        stream = await client.begin("GET").begun()
        renewed = world.client()
        world.rooms.close_all("default")
        await stream.whole()
        assert (await client.ask("POST", client.message("ping"))).status == 401
        renewed.headers |= {key: client.headers[key] for key in ("Mcp-Session-Id", "MCP-Protocol-Version")}
        assert (await renewed.ask("POST", renewed.message("ping"))).status == 404


# ------------------------------------------------------------------- stateless


async def test_a_request_that_stands_for_itself(home: Home) -> None:
    async with served(home, script(tools_list=at_once)) as world:
        client = world.client()
        response = await client.stateless("tools/list").whole()
        assert (response.status, response.kind) == (200, "application/json")
        assert response.json["result"] == {"at": "once"}
        assert "mcp-session-id" not in response.headers
        events = await client.stateless("tools/list", headers={"Accept": "text/event-stream"}).whole()
        assert events.kind == "text/event-stream"
        assert b"id:" not in events.body, "nothing of it can be resumed"


@pytest.mark.parametrize(
    ("kind", "status"),
    [("unknown_method", 404), ("invalid_params", 400), ("unsupported_revision", 400), ("internal", 200)],
)
async def test_errors_have_a_status(home: Home, kind: str, status: int) -> None:
    async def fail(session: Session, message: Message, on: bytes, ticket: Ticket) -> bytes:
        await trio.sleep(exchange.SOON_STATELESS / 2)
        raise Failure(kind, "no")

    async with served(home, script(tools_list=fail)) as world:
        for accept in (BOTH, "application/json", "text/event-stream"):
            response = await world.client().stateless("tools/list", headers={"Accept": accept}).whole()
            assert response.status == status
            assert response.messages[0]["error"]["message"] == "no"


@pytest.mark.parametrize("method", ["initialize", "logging/setLevel"])
async def test_what_only_a_handshake_has_is_unknown(home: Home, method: str) -> None:
    async with served(home, Script()) as world:
        response = await world.client().stateless(method, {"protocolVersion": "2025-11-25"}, 500).whole()
        assert (response.status, response.json["error"]["code"], response.json["id"]) == (404, -32601, 500)


@pytest.mark.parametrize(
    "headers",
    [{"Mcp-Method": "TOOLS/LIST"}, {"Mcp-Method": None}, {"MCP-Protocol-Version": "2025-06-18"}],
)
async def test_headers_that_differ_from_the_body(home: Home, headers: dict[str, str | None]) -> None:
    face = script(tools_list=at_once)
    async with served(home, face) as world:
        response = await world.client().stateless("tools/list", ident="mine", headers=headers).whole()
        assert (response.status, response.json["error"]["code"], response.json["id"]) == (400, -32020, "mine")
        assert face.heard == []


async def test_clients_of_one_agent_share_a_session_and_no_ids(home: Home) -> None:
    gate = Gate()
    face = script(tools_call=gate, tools_list=at_once)
    async with served(home, face) as world:
        client = world.client()
        first = client.stateless("tools/call", {"name": "x"}, 1)
        await trio.testing.wait_all_tasks_blocked()
        second = client.stateless("tools/call", {"name": "x"}, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(world.broker.sessions) == 1
        assert [heard[0] for heard in face.heard] == [face.heard[0][0]] * 2
        second.leave()
        await trio.testing.wait_all_tasks_blocked()
        assert face.withdrawn == ["tools/call"], "its own alone"
        assert not first.over
        third = await client.stateless("tools/list", None, 1).whole()
        assert third.json["result"] == {"at": "once"}


async def test_all_who_come_at_once_get_the_same_session(home: Home) -> None:
    async with served(home, script(tools_list=at_once)) as world:
        client = world.client()
        responses = [client.stateless("tools/list") for _ in range(5)]
        for response in responses:
            assert (await response.whole()).status == 200
        assert (len(world.rooms), len(world.broker.sessions)) == (1, 1)


async def test_leaving_is_cancelling(home: Home) -> None:
    face = script(tools_call=Gate())
    async with served(home, face) as world:
        response = world.client().stateless("tools/call", {"name": "x"})
        await trio.sleep(exchange.SOON_STATELESS / 2)
        response.leave()
        await response.whole()
        await trio.testing.wait_all_tasks_blocked()
        assert (response.status, face.withdrawn) == (0, ["tools/call"])


async def test_what_belongs_to_a_stateless_request_comes_on_its_stream(home: Home) -> None:
    async with served(home, script(tools_list=chatty)) as world:
        response = await world.client().stateless("tools/list").whole()
        assert response.kind == "text/event-stream"
        assert methods(response) == ["notifications/progress", "notifications/progress", "answer"]


async def test_a_long_stateless_request_shows_that_it_lives(home: Home) -> None:
    gate = Gate()
    async with served(home, script(tools_call=gate)) as world:
        response = world.client().stateless("tools/call", {"name": "x"}, 3)
        assert await seconds_until(response.begun) == pytest.approx(exchange.SOON_STATELESS)
        await trio.sleep(exchange.QUIET * 1.5)
        assert response.body == b": keep-alive\n\n"
        await gate.open(b"3")
        assert (await response.whole()).messages[0]["result"] == {"done": 3}


async def test_notifications_and_answers_outside_of_sessions(home: Home) -> None:
    face = Script()
    async with served(home, face) as world:
        client = world.client()
        modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "notifications/cancelled"}
        cancelled = client.message("notifications/cancelled", {"requestId": 1}, None)
        assert (await client.ask("POST", cancelled, modern)).status == 202
        answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
        assert (await client.ask("POST", answer, modern)).status == 400
        assert face.heard == []


async def test_each_place_and_each_agent_has_a_session_of_its_own(home: Home) -> None:
    write_server(home, "tiny", **tiny())
    write_config(home, "[agents.coder]\n")

    async def place(session: Session, message: Message, on: bytes, ticket: Ticket) -> bytes:
        return json.dumps({"agent": session.agent, "server": session.key[1]}).encode()

    async with served(home, script(tools_list=place)) as world:
        client, coder = world.client(), world.client("coder")
        for _ in range(2):
            found = [
                (await each.stateless("tools/list", path=path).whole()).json["result"]
                for each in (client, coder)
                for path in ("/mcp", "/server/tiny")
            ]
            assert found == [
                {"agent": agent, "server": server}
                for agent in ("default", "coder")
                for server in ("", "tiny")
            ]
        assert len(world.rooms) == 4
        world.rooms.close_all("coder")
        assert len(world.rooms) == 2


# -------------------------------------------------------------------- anything

WORDS = ["initialize", "ping", "tools/call", "notifications/initialized", "notifications/dev.mcpd/attach", ""]
HEADERS: list[dict[str, str | None]] = [
    {},
    {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "ping"},
    {"MCP-Protocol-Version": "2025-11-25"},
    {"Mcp-Session-Id": "unknown"},
    {"Accept": "application/json"},
    {"Accept": "text/event-stream"},
    {"Last-Event-ID": "0-0"},
]


def anything(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(9 if depth < 3 else 6)
    if kind == 8:
        return [anything(dice, depth + 1) for _ in range(dice.randrange(4))]
    if kind >= 6:
        names = ["jsonrpc", "id", "method", "params", "result", "error", "_meta", "name", "protocolVersion"]
        return {name: anything(dice, depth + 1) for name in dice.sample(names, dice.randrange(6))}
    return dice.choice([None, True, 1, -7, 1.5, "2.0", "2025-11-25", 2**70, *WORDS, dice.random()])


async def test_whatever_comes_is_answered(home: Home) -> None:
    dice = random.Random(7)
    async with served(home, methods_of_mcpd) as world:
        client = world.client()
        await client.initialize("2025-03-26")
        for _ in range(500):
            method = dice.choice(["POST"] * 8 + ["GET", "DELETE"])
            body = {"jsonrpc": "2.0", "id": 1, "method": dice.choice(WORDS)}
            made = anything(dice)
            sent = {**body, **made} if isinstance(made, dict) else made
            headers = (
                {"Mcp-Session-Id": None, **dice.choice(HEADERS)} if method != "POST" else dice.choice(HEADERS)
            )
            response = client.begin(method, json.dumps(sent).encode(), headers)
            with trio.move_on_after(100):
                await response.whole()
            response.leave()
            assert response.status in (200, 202, 400, 404, 405, 406, 410), (sent, headers)
        await client.initialize()
        assert (await client.post("ping").whole()).messages[-1]["result"] == {}


async def test_what_fails_beside_its_requests_ends_one_session_alone(home: Home) -> None:
    """Over the endpoint it would have been the end of the daemon."""

    async def fails() -> None:
        raise RuntimeError("of mcpd's own")

    async with served(home, methods_of_mcpd) as world:
        one, other = world.client(), world.client("default")
        other.headers["Authorization"] = one.headers["Authorization"] = other.headers["Authorization"]
        await one.initialize()
        await other.initialize()
        room = world.rooms.find(one.headers["Mcp-Session-Id"], "default", "")
        room.session._nursery.start_soon(fails)
        await trio.testing.wait_all_tasks_blocked()
        assert (await one.post("ping").whole()).status == 404
        assert (await other.post("ping").whole()).messages[-1]["result"] == {}
        assert len(world.rooms) == len(world.broker.sessions) == 1
