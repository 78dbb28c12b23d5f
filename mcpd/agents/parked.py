"""Calls of stateless agents that wait at a server with a handshake for the agent's answer (8.2).

Such an agent cannot be asked; its request is answered with `input_required`, and its next one brings the
answers. The call goes on at the server meanwhile: its handler stays where it is, and what it returns is
for the request that has come last. The state that the agent holds only names call and round.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Protocol

import trio

from mcpd.agents import states
from mcpd.agents.asks import LIFE, About, Asks, Shown
from mcpd.broker import Broker
from mcpd.errors import Failure
from mcpd.policy.asks import BadAnswer, Refused
from mcpd.protocol import jsonrpc
from mcpd.protocol.input import ROUNDS, wanted_result
from mcpd.protocol.jsonrpc import Message
from mcpd.transport.pending import Ask
from mcpd.upstream.ticket import Ticket, Withdrawn
from mcpd.upstream.turns import PATIENCE

#: Calls of one session that are parked at once, for each process that shares it.
MOST = 16

#: Seconds in which questions that belong together come in.
GATHER = 0.02

#: Seconds for a better answer after one that does not fit: others may wait for the server meanwhile, and most
#: programs give up.
SECOND_CHANCE = 15.0

_METHOD_NOT_FOUND = -32601
_INTERNAL = -32603


class Host(Protocol):
    """The session, as far as calls are parked in it."""

    id: str
    broker: Broker
    asks: Asks

    def answer_now(self, on: bytes, line: bytes) -> None:
        """Answer a request whose handler goes on."""
        ...

    def attended(self, on: bytes) -> bool:
        """Whether somebody reads now what belongs to that request."""
        ...


class Parks(About, Protocol):
    """A request of a stateless agent that can be parked, or brings answers."""

    message: Message
    key: bytes
    ticket: Ticket
    parked: Call | None

    @property
    def identity(self) -> tuple[str, str]:
        """What is the same in its retries, and in no other request."""
        ...

    def progressed(self, raw: bytes) -> None: ...
    def logged(self, raw: bytes) -> None: ...


class Call:
    """One call and the questions that stand in its way."""

    def __init__(self, number: int, request: Parks) -> None:
        self.number = number
        self.request = request
        """The first one, whose handler goes on."""
        self.waiter: Parks | None = request
        """Whoever gets the next result: nobody, while the agent gathers answers."""
        self.last = b""
        """Which request has got the questions of this round."""
        self.since = 0.0
        """When that was (trio clock)."""
        self.round = 0
        self.questions: dict[str, tuple[Ask, Shown]] = {}
        self.gathering = False
        self.turned = trio.Event()
        self.result: bytes | None = None
        """What `waiter` is answered."""
        self.outcome: bytes | Failure | None = None
        """What came of the call, once it is over."""
        self.keys = itertools.count(1)

    def wait_for(self, request: Parks) -> None:
        """From here on this request is the one to be answered."""
        self.waiter = request
        self.result = None
        self.turned = trio.Event()

    @property
    def is_out(self) -> bool:
        """The agent has the questions of this round."""
        return self.waiter is None


class Parked:
    """The owner of one session's parked calls."""

    def __init__(self, session: Host, nursery: trio.Nursery, clients: int) -> None:
        self._session = session
        self._nursery = nursery
        self._most = MOST * clients
        self._calls: dict[int, Call] = {}
        self._numbers = itertools.count(1)

    def __len__(self) -> int:
        return len(self._calls)

    def put(self, request: Parks, ask: Ask) -> None:
        """The server asks something while it serves this request."""
        try:
            if request.message.method not in ROUNDS:
                raise Refused(_METHOD_NOT_FOUND, "nobody can be asked about this request")
            if request.parked is None and len(self._calls) >= self._most:
                raise Refused(_INTERNAL, "too many calls of this client wait for its answers")
            shown = self._session.asks.show(request, ask.server, ask.question, ask.can, ask.spend)
        except Refused as e:
            ask.refuse(e.code, e.message)
            return
        call = request.parked
        if call is None:
            call = request.parked = Call(next(self._numbers), request)
            self._calls[call.number] = call
        key = f"{ask.server}-{next(call.keys)}"
        call.questions[key] = (ask, shown)
        ask.closed = partial(self._closed, call, key)
        ask.hurried = partial(self._hurried, call)
        self._give_soon(call)

    def _closed(self, call: Call, key: str) -> None:
        """The server wants no answer any more."""
        _, shown = call.questions.pop(key)
        self._session.asks.record(call.request, shown, "withdrawn")

    def _hurried(self, call: Call) -> None:
        """Others wait for the server, and whether its agent will come again is not known: over HTTP it may be
        dead. One that comes later begins anew. A process at a socket is seen to be there, perhaps with a
        person who fills in a form."""
        there = self._session.attended(call.last)
        if call.is_out and not there and call.since + PATIENCE <= trio.current_time():
            self._drop(call)

    def _give_soon(self, call: Call) -> None:
        if not call.gathering and not call.is_out:
            call.gathering = True
            self._nursery.start_soon(self._give, call)

    async def _give(self, call: Call) -> None:
        """Answer whoever waits with the questions that are open."""
        await trio.sleep(GATHER)
        call.gathering = False
        waiter = call.waiter
        if waiter is None or not call.questions or call.outcome is not None:
            return
        call.round += 1
        text = f"parked {call.number} {call.round}"
        state = states.seal_round(self._session.broker.secret, text, self._session.id, call.request.identity)
        result = wanted_result({key: shown.question for key, (_, shown) in call.questions.items()}, state)
        call.waiter, call.last, call.since = None, waiter.on, trio.current_time()
        self._nursery.start_soon(self._expire, call, call.round, LIFE)
        if waiter is call.request:
            self._session.answer_now(waiter.on, jsonrpc.result_line(waiter.key, result))
        else:
            call.result = result
            call.turned.set()

    def withdraw(self, on: bytes) -> None:
        """The agent takes back a request that it has got questions for: it will not come again."""
        for call in list(self._calls.values()):
            if call.is_out and call.last == on:
                self._drop(call)

    def _drop(self, call: Call) -> None:
        call.request.ticket.withdraw()
        self._calls.pop(call.number, None)

    async def _expire(self, call: Call, number: int, life: float) -> None:
        """Without a next request the call ends at the server as well."""
        await trio.sleep(life)
        if call.round == number and call.is_out:
            self._drop(call)

    def find(self, name: str) -> Call:
        """The call that waits for answers; `name`: what a state said. Raises Failure `invalid_params` for one
        that is used up."""
        number, _, turn = name.partition(" ")
        call = self._calls.get(int(number))
        if call is None or not call.is_out or call.round != int(turn):
            raise states.unknown()
        return call

    async def resume(self, call: Call, request: Parks, responses: Mapping[str, bytes]) -> bytes:
        """The next result of a parked call for the request that brings answers.

        Raises Failure `invalid_params` for answers that do not fit, and what the call ends with.
        """
        try:
            settled = {
                key: self._session.asks.settle(call.request, shown, responses[key])
                for key, (_, shown) in call.questions.items()
                if key in responses
            }
        except BadAnswer as e:
            self._nursery.start_soon(self._expire, call, call.round, SECOND_CHANCE)
            raise Failure("invalid_params", f"cannot use inputResponses: {e}") from None
        call.wait_for(request)
        for key, answer in settled.items():
            ask, _ = call.questions.pop(key)
            ask.answer(answer.result)
        if call.questions:
            self._give_soon(call)
        if call.outcome is None:
            try:
                with request.ticket.stoppable():
                    await call.turned.wait()
            except Withdrawn:
                self._drop(call)
                raise
        if call.result is not None:
            return call.result
        self._calls.pop(call.number, None)
        outcome = call.outcome
        assert outcome is not None
        if isinstance(outcome, Failure):
            raise outcome
        return outcome

    def finish(self, call: Call, outcome: bytes | Failure) -> None:
        """The call is over; its result waits for the agent's next request if that is still to come."""
        call.outcome = outcome
        if call.waiter is call.request:
            # No round was given, so it is answered as any other.
            self._calls.pop(call.number, None)
        call.turned.set()
