"""Questions of one server: whose they are, what stops their clocks, and that each is answered (DESIGN 7)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import trio

from mcpd.config.spec import Server
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.revisions import REVISIONS
from mcpd.transport.pending import Deadlines, Slot
from mcpd.upstream.connection import Connection
from mcpd.upstream.opening import Settled
from mcpd.upstream.relay import OPEN, Relay, fixed_roots
from tests.upstream.test_connection import Ear, Wire

ALL = Ability(63)
SERVER = Server(name="s", source="", command="x", sampling=True, roots="agent")


class Bench:
    """A connection with requests under way, and what its server is answered."""

    def __init__(self, server: Server = SERVER, available: Ability = ALL) -> None:
        self.remarks: list[str] = []
        self.relay = Relay("s", lambda: available, "/home/me", self.remarks.append)
        self.declared = self.relay.begin(server)
        self.wire = Wire()
        settled = Settled(REVISIONS["2025-11-25"], {"tools": {}}, {}, "")
        self.connection = Connection(
            settled, self.wire, Deadlines(), lambda *_: None, self.remarks.append, self.relay
        )
        self.slots: list[Slot] = []

    def request(self, ear: Ear) -> bytes:
        self.slots.append(Slot(60, 100, ear))
        return self.connection.send("tools/call", b"", b"", self.slots[-1])

    def says(self, method: str, params: object = None, ident: Any = 7, on: bytes = b"") -> None:
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": params or {}}
        self.connection.receive(json.dumps(message).encode(), on)

    @property
    def answers(self) -> list[dict[str, Any]]:
        return [line for line in self.wire.lines if "method" not in line]

    @property
    def code(self) -> int:
        code = self.answers[-1]["error"]["code"]
        assert isinstance(code, int)
        return code


FORM = {"message": "x", "requestedSchema": {"type": "object", "properties": {}}}


async def test_a_question_is_for_the_only_party() -> None:
    bench = Bench()
    a = Ear("a", abilities=ALL)
    bench.request(a)
    bench.request(a)
    bench.says("elicitation/create", FORM)
    [ask] = a.asks
    assert (ask.server, ask.question.method, ask.can) == ("s", "elicitation/create", ALL)
    assert all(slot.held for slot in bench.slots)
    ask.answer(b'{"action":"cancel"}')
    assert bench.answers == [{"jsonrpc": "2.0", "id": 7, "result": {"action": "cancel"}}]
    assert not any(slot.held for slot in bench.slots)
    ask.answer(b"{}")
    ask.refuse(1, "twice")
    assert len(bench.answers) == 1


async def test_requests_of_one_session_may_be_of_several_parties() -> None:
    bench = Bench()
    one, two = Ear("a", abilities=ALL, party="a 1"), Ear("a", abilities=ALL, party="a 2")
    key = bench.request(one)
    bench.request(two)
    bench.says("elicitation/create", FORM)
    assert bench.code == -32603
    assert bench.relay.turns is not None
    bench.says("elicitation/create", FORM, 8, on=key)
    assert (len(one.asks), len(two.asks)) == (1, 0)
    bench.says("elicitation/create", FORM, 9, on=b"999")
    assert bench.code == -32603


@pytest.mark.parametrize(
    ("available", "method", "code"),
    [(NONE, "elicitation/create", -32601), (ALL, "elicitation/create", -32603), (ALL, "tools/call", -32601)],
)
async def test_nobody_to_ask(available: Ability, method: str, code: int) -> None:
    bench = Bench(available=available)
    bench.says(method, FORM)
    assert bench.code == code
    assert bench.relay.turns is None, "there is nobody who could take turns"


async def test_a_ping_is_mcpds_own() -> None:
    bench = Bench()
    bench.says("ping", ident="p")
    assert bench.answers == [{"jsonrpc": "2.0", "id": "p", "result": {}}]


async def test_what_the_definition_does_not_allow_counts_for_nothing() -> None:
    bench = Bench(Server(name="s", source="", command="x"))
    assert bench.declared == {"elicitation": {"form": {}, "url": {}}}
    a = Ear("a", abilities=ALL)
    bench.request(a)
    bench.says("sampling/createMessage", {"messages": []})
    assert a.asks[0].can == Ability.FORM | Ability.URL
    assert bench.relay.mask(ALL) == Ability.FORM | Ability.URL


async def test_the_end_of_a_request_ends_its_question() -> None:
    bench = Bench()
    a = Ear("a", abilities=ALL)
    closed: list[int] = []
    for number in (1, 2):
        bench.request(a)
        bench.says("elicitation/create", FORM, number)
        a.asks[-1].closed = lambda number=number: closed.append(number)  # type: ignore[misc]
    bench.slots[0].over()
    assert closed == [1]
    assert bench.code == -32603
    bench.slots[1].over()
    assert closed == [1, 2]
    a.asks[0].answer(b"{}")
    assert len(bench.answers) == 2


async def test_the_server_takes_a_question_back() -> None:
    bench = Bench()
    a = Ear("a", abilities=ALL)
    bench.request(a)
    bench.says("elicitation/create", FORM, "q")
    closed: list[None] = []
    a.asks[0].closed = lambda: closed.append(None)
    for name in ("other", "q", "q"):
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}}
        bench.connection.receive(json.dumps(note).encode())
    assert len(closed) == 1
    assert bench.answers == []
    assert not bench.slots[0].held


async def test_a_lost_connection_takes_its_questions_along() -> None:
    bench = Bench()
    a = Ear("a", abilities=ALL)
    bench.request(a)
    bench.says("elicitation/create", FORM)
    closed: list[None] = []
    a.asks[0].closed = lambda: closed.append(None)
    bench.relay.end()
    assert len(closed) == 1
    a.asks[0].answer(b"{}")
    assert bench.answers == []


async def test_open_questions_are_bounded_and_have_ids_of_their_own() -> None:
    bench = Bench()
    a = Ear("a", abilities=ALL)
    bench.request(a)
    bench.says("elicitation/create", FORM, 0)
    bench.says("elicitation/create", FORM, 0)
    assert bench.code == -32603
    for number in range(1, OPEN + 1):
        bench.says("elicitation/create", FORM, number)
    assert len(a.asks) == OPEN
    assert len(bench.answers) == 2


async def test_what_has_no_form_is_answered_too() -> None:
    bench = Bench()
    bench.request(Ear("a", abilities=ALL))
    bench.request(Ear("b", abilities=ALL))
    wrong: tuple[object, ...] = ({"mode": "voice"}, {"mode": 5}, [])
    for params in wrong:
        bench.says("elicitation/create", params)
        assert bench.code in (-32602, -32603)


@pytest.mark.parametrize(
    ("fields", "roots"),
    [
        ({"command": "x", "cwd": "/a b"}, ["file:///a%20b"]),
        ({"command": "x"}, ["file:///home/me"]),
        ({"url": "https://h/"}, []),
    ],
)
async def test_fixed_roots(fields: dict[str, Any], roots: list[str]) -> None:
    server = Server(name="s", source="", roots="fixed", **fields)
    said = msgspec.json.decode(fixed_roots(server, "/home/me"))
    assert [root["uri"] for root in said["roots"]] == roots
    bench = Bench(server, NONE)
    assert bench.declared == {"roots": {"listChanged": True}}
    bench.says("roots/list")
    assert bench.answers[-1]["result"] == said


async def test_who_is_new_may_bring_more() -> None:
    bench = Bench(available=NONE)
    assert bench.relay.wants_more(Ear("a", abilities=ALL))
    assert not bench.relay.wants_more(Ear("a", abilities=ALL)), "it is no longer new"
    assert not bench.relay.wants_more(Ear("b", abilities=NONE))
    bench.relay.begin(SERVER)
    assert bench.relay.wants_more(Ear("a", abilities=ALL))


async def test_its_time_stands_still() -> None:
    """D9: neither the idle time nor the time in all counts while a person is asked."""
    began = trio.current_time()
    deadlines = Deadlines()
    bench = Bench()
    bench.request(Ear("a", abilities=ALL))
    [slot] = bench.slots

    class By:
        def ended(self) -> None:
            raise AssertionError

    one, two = By(), By()
    slot.hold(one, began + 10)
    slot.hold(two, began + 20)
    slot.progressed(began + 25)
    slot.release(one, began + 500)
    assert slot.held
    assert slot.expires == 0
    slot.release(two, began + 510)
    slot.release(two, began + 600)
    assert slot.expires == pytest.approx(began + 510 + 60), "progress has come meanwhile"
    slot.progressed(began + 590)
    assert slot.expires == pytest.approx(began + 600), "100 s in all, and 500 of waiting"
    assert slot.used_up
    deadlines.discard(slot)
