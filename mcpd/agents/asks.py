"""Questions of servers to one agent: which it gets, under ids of mcpd's own, and what its answers become.

The one place where a question passes policy, in both eras: who asks is said, secrets are not asked for,
an answer that does not fit goes no further, and all of it is recorded (n03).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec
import trio

from mcpd.broker import Broker
from mcpd.caller import Caller
from mcpd.journal import About as What
from mcpd.journal import Entry
from mcpd.policy import asks
from mcpd.policy.asks import BadAnswer, Refused, Settled
from mcpd.protocol import dialect, jsonrpc
from mcpd.protocol.abilities import Ability
from mcpd.protocol.input import ELICIT, ROOTS, Question
from mcpd.protocol.jsonrpc import Message
from mcpd.secrets.held import HeldValues
from mcpd.transport.pending import Ask
from mcpd.upstream.turns import PATIENCE

#: Seconds until a question that nobody answers counts as cancelled.
LIFE = 600.0

#: Questions of one session that are open at once.
OPEN = 64

_INTERNAL = -32603

#: No two questions of one daemon have the same id, so that none can be taken for another's.
_numbers = itertools.count(1)

Done = Callable[[Settled | Refused], None]


Visit = Callable[[str, Callable[[], None]], None]
"""Told a server's own id of a visit, and what to call when the server says that it is completed."""


class Asked(Protocol):
    """The session, as far as it is asked something."""

    id: str
    broker: Broker
    caller: Caller

    def say(self, line: bytes, on: bytes) -> bool:
        """Send a request or a notification; False when nobody will read it. `on`: the agent's own request
        that it belongs to."""
        ...

    def attended(self, on: bytes) -> bool:
        """Whether somebody reads now what belongs to that request."""
        ...


class About(Protocol):
    """The agent's request that a question belongs to."""

    on: bytes

    @property
    def stateless(self) -> bool: ...

    @property
    def tool(self) -> str:
        """What it asks of the server, as it is recorded."""
        ...

    @property
    def takes_secrets(self) -> bool:
        """Whether what looks like a secret may go there unasked (n17)."""
        ...


class Shown(msgspec.Struct, frozen=True):
    """A question as the agent has it, and when that was (trio clock)."""

    server: str
    question: Question
    since: float


class _Open(msgspec.Struct, frozen=True):
    request: About
    shown: Shown
    done: Done
    scope: trio.CancelScope
    """Of the task that waits for the end of its life."""


class Standing:
    """A session with a handshake, as one who is asked out of a request (`transport.pending.Asker`)."""

    on = b""
    stateless = False
    tool = ""
    takes_secrets = False
    level: int | None = None
    extensions = b""
    makes_tasks = False

    def __init__(self, asks: Asks, session: str, can: Ability) -> None:
        self.session = self.party = session
        self.abilities = can
        self._asks = asks

    def progressed(self, raw: bytes) -> None:
        pass

    def logged(self, raw: bytes) -> None:
        pass

    def asked(self, ask: Ask) -> None:
        self._asks.put(self, ask)


class Asks:
    """The owner of what one agent is being asked."""

    def __init__(self, session: Asked, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self._open: dict[bytes, _Open] = {}
        self._roots: bytes | None = None
        """What the agent has said of its folders, until it says that they have changed."""

    def __len__(self) -> int:
        return len(self._open)

    # ---------------------------------------------------------------- policy

    def show(
        self,
        request: About,
        server: str,
        question: Question,
        can: Ability,
        spend: Callable[[], None],
        visit: Visit | None = None,
    ) -> Shown:
        """The question as the agent gets it. `can`: what it can be asked, as far as the server may know;
        `spend` counts it among the server's, `visit` is told whom to tell when a visit has been completed.

        Raises Refused, which is recorded.
        """
        name = "" if request.stateless else f"mcpd-visit-{next(_numbers)}"
        try:
            asks.check_declared(question, can)
            shown = self._redacted(asks.shown(server, question, name))
            if len(self._open) >= OPEN:
                raise Refused(_INTERNAL, "the client is being asked too much at once")
            if not self._knows(request, question):
                spend()
            theirs = asks.visit_of(question) if visit is not None and name else ""
            if theirs and visit is not None:
                visit(theirs, partial(self._visited, name))
        except Refused as e:
            shown_now = Shown(server, question, trio.current_time())
            self.record(request, shown_now, "refused", because=e.message, decision="deny")
            raise
        return Shown(server, shown, trio.current_time())

    def _knows(self, request: About, question: Question) -> bool:
        """Whether the answer is what the agent has said before: then the question does not reach it."""
        return question.method == ROOTS and self._roots is not None and not request.stateless

    def _redacted(self, question: Question) -> Question:
        """The question without what mcpd holds and what looks like a secret (n17). An address to go to keeps
        the latter: it is made for one visit."""
        text = bytes(question.text)
        away = question.method == ELICIT and b'"mode":"url"' in text
        return Question(question.method, msgspec.Raw(self._held_values.json(text, given=away)))

    @property
    def _held_values(self) -> HeldValues:
        return self._session.broker.held_values

    def _visited(self, name: str) -> None:
        """A server says that what the agent was sent to an address for is done (5.12)."""
        params = b'{"elicitationId":' + jsonrpc.quoted(name) + b"}"
        self._session.say(jsonrpc.notification_line("notifications/elicitation/complete", params), b"")

    def settle(self, request: About, shown: Shown, result: bytes) -> Settled:
        """The agent's answer, as the server gets it. Raises BadAnswer, which is recorded."""
        try:
            settled = asks.settle(shown.question, result)
        except BadAnswer as e:
            self.record(request, shown, "bad_answer", because=str(e), size=len(result))
            raise
        leak = self._held_values.leak(shown.server, settled.result, takes_secrets=request.takes_secrets)
        if leak is not None and leak.action != "warn":
            self.record(request, shown, "bad_answer", because=leak.words, decision="deny", size=len(result))
            # Its server learns nothing of what else there is.
            raise BadAnswer("it holds something that this server must not get")
        self.record(request, shown, settled.outcome, size=len(settled.result))
        return settled

    def record(
        self,
        request: About,
        shown: Shown,
        outcome: str,
        *,
        because: str = "",
        decision: str = "allow",
        size: int = 0,
    ) -> None:
        self._session.broker.journal.record(
            Entry(
                kind="ask",
                caller=self._session.caller,
                about=What(server=shown.server, tool=request.tool, method=shown.question.method),
                decision=decision,
                because=because[:500],
                outcome=outcome,
                duration=trio.current_time() - shown.since,
                request_bytes=len(shown.question.text),
                result_bytes=size,
            )
        )

    # -------------------------------------------- agents with a handshake (5.11, 5.12)

    def put(self, request: About, ask: Ask) -> None:
        """Pass on a question of a server with a handshake; its answer goes there."""
        try:
            shown = self.show(request, ask.server, ask.question, ask.can, ask.spend, ask.visit)
        except Refused as e:
            ask.refuse(e.code, e.message)
            return
        if self._roots is not None and self._knows(request, ask.question):
            self.record(request, shown, "ok", because="as the agent has said before")
            ask.answer(self._roots)
            return

        def done(answer: Settled | Refused) -> None:
            if isinstance(answer, Refused):
                ask.refuse(answer.code, answer.message)
            else:
                ask.answer(answer.result)

        key = self._send(request, shown, done)
        ask.closed = partial(self._withdraw, key)
        ask.hurried = partial(self._hurried, key)

    async def ask(self, request: About, shown: Shown) -> Settled:
        """Ask the agent and wait. Raises Refused where it answers with an error, or not at all."""
        if self._roots is not None and self._knows(request, shown.question):
            self.record(request, shown, "ok", because="as the agent has said before")
            return Settled(self._roots, "ok")
        answers: list[Settled | Refused] = []
        answered = trio.Event()

        def done(answer: Settled | Refused) -> None:
            answers.append(answer)
            answered.set()

        key = self._send(request, shown, done)
        try:
            await answered.wait()
        finally:
            self._withdraw(key)
        if isinstance(answers[0], Refused):
            raise answers[0]
        return answers[0]

    def _send(self, request: About, shown: Shown, done: Done) -> bytes:
        """Ask. `done` is called once, unless the question is withdrawn; returns the id's JSON text."""
        key = b'"mcpd-ask-%d"' % next(_numbers)
        scope = trio.CancelScope()
        self._open[key] = _Open(request, shown, done, scope)
        question = shown.question
        if self._session.say(jsonrpc.request_line(key, question.method, question.text), request.on):
            self._nursery.start_soon(self._expire, key, scope)
        else:
            # Over HTTP the client reads nothing but the answer to its own request.
            del self._open[key]
            self.record(request, shown, "unread")
            done(self._none(shown, "the client cannot be asked now"))
        return key

    def answered(self, message: Message) -> None:
        """The agent's answer to some question; any other is ignored (2)."""
        opened = self._take(message.key)
        if opened is None:
            return
        request, shown = opened.request, opened.shown
        if message.error:
            error = jsonrpc.read_error(bytes(message.error))
            self.record(request, shown, "error", because=error.words)
            opened.done(Refused(int(error.code), error.words))
            return
        try:
            settled = self.settle(request, shown, bytes(message.result))
        except BadAnswer as e:
            opened.done(self._none(shown, f"the client's answer cannot be used: {e}"))
            return
        if shown.question.method == ROOTS:
            self._roots = settled.result
        opened.done(settled)

    def roots_changed(self) -> None:
        """The agent says that its folders have changed: servers that have asked for them hear of it."""
        self._roots = None
        for upstream in self._session.broker.fleet.all():
            if upstream.connection is not None and upstream.relay.knows_roots(self._session.id):
                upstream.connection.notify("notifications/roots/list_changed", b"{}")

    async def _expire(self, key: bytes, scope: trio.CancelScope) -> None:
        with scope:
            await trio.sleep(LIFE)
            self._give_up(key)

    def _hurried(self, key: bytes) -> None:
        """Others wait for the server. A client that went away in the middle of its response may never know
        what it was asked."""
        opened = self._open.get(key)
        if opened is None or opened.shown.since + PATIENCE > trio.current_time():
            return
        if not self._session.attended(opened.request.on):
            self._give_up(key)

    def _give_up(self, key: bytes) -> None:
        opened = self._take(key)
        if opened is not None:
            self._tell_withdrawn(key, opened)
            self.record(opened.request, opened.shown, "timed_out")
            opened.done(self._none(opened.shown, "the client did not answer"))

    def _none(self, shown: Shown, why: str) -> Settled | Refused:
        """What the server hears where there is no usable answer."""
        if shown.question.method == ELICIT:
            return Settled(asks.CANCELLED, "cancel")
        return Refused(_INTERNAL, why)

    def _withdraw(self, key: bytes) -> None:
        """Nobody waits for the answer any more; the agent is told, so that it stops asking (5.9)."""
        opened = self._take(key)
        if opened is not None:
            self._tell_withdrawn(key, opened)
            self.record(opened.request, opened.shown, "withdrawn")

    def _tell_withdrawn(self, key: bytes, opened: _Open) -> None:
        params = dialect.params(b'"requestId":' + key + b',"reason":"no longer asked"')
        line = jsonrpc.notification_line("notifications/cancelled", params)
        self._session.say(line, opened.request.on)

    def _take(self, key: bytes) -> _Open | None:
        opened = self._open.pop(key, None)
        if opened is not None:
            opened.scope.cancel()
        return opened
