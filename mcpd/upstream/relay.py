"""What one server asks its clients: whom a question is for, and what becomes of it (DESIGN 7, n03).

A question reaches the one party whose request it belongs to, or nobody. Whether and how the agent
hears of it is its asker's business; here are attribution, the clocks of the requests concerned, and
the answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Protocol

import msgspec
import trio

from mcpd.catalog import tasks
from mcpd.config.spec import Server
from mcpd.policy import asks
from mcpd.policy.asks import Budget, Refused
from mcpd.protocol import abilities, jsonrpc
from mcpd.protocol.abilities import NONE, Ability
from mcpd.protocol.input import QUESTIONS, ROOTS, Question
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.shapes import Completed, read_result
from mcpd.transport.pending import Asker, Slot
from mcpd.upstream.opening import Settled, refusal
from mcpd.upstream.turns import Turns

#: Questions of one server that are open at once.
OPEN = 64

_INTERNAL = -32603


class Wire(Protocol):
    """The connection, as far as questions need it."""

    settled: Settled

    def slots(self, on: bytes) -> list[Slot]:
        """The requests of agents under way; with `on`, that one alone."""
        ...

    def of_task(self, task: str) -> list[Slot]:
        """The requests of whoever made the server's task of this id; none where nobody did."""
        ...

    def answer(self, line: bytes) -> None: ...
    def notify(self, method: str, params: bytes) -> None: ...


class OpenAsk:
    """One question that waits for its agent (`transport.pending.Ask`)."""

    def __init__(
        self, relay: Relay, wire: Wire, key: bytes, question: Question, asker: Asker, slots: list[Slot]
    ) -> None:
        """`key`: the JSON text of its id, which is the server's."""
        self.server = relay.server
        self.question = question
        self.asker = asker
        self.can = asker.abilities & relay.told
        self.closed: Callable[[], None] = _nobody
        self.hurried: Callable[[], None] = _nobody
        self._relay = relay
        self._wire = wire
        self._key = key
        self._slots = slots
        now = trio.current_time()
        for slot in slots:
            slot.hold(self, now)

    def answer(self, result: bytes) -> None:
        self._settle(jsonrpc.result_line(self._key, result))

    def refuse(self, code: int, message: str) -> None:
        self._settle(jsonrpc.error_line(self._key, jsonrpc.error_text(code, message)))

    def spend(self) -> None:
        self._relay.spend()

    def visit(self, name: str, completed: Callable[[], None]) -> None:
        self._relay.visit(name, completed)

    def ended(self) -> None:
        """A request that it may belong to is over. Where that was the last, so is the question."""
        self._slots = [slot for slot in self._slots if slot.held is not None]
        if not self._slots:
            line = jsonrpc.error_text(_INTERNAL, "the request that this belonged to has ended")
            self.withdraw(jsonrpc.error_line(self._key, line))

    def withdraw(self, line: bytes = b"") -> None:
        """Nobody waits for an answer any more; `line` is what the server gets all the same."""
        closed = self.closed
        if self._settle(line):
            closed()

    def _settle(self, line: bytes) -> bool:
        if not self._relay.close(self._key, self):
            return False
        self.closed = _nobody
        now = trio.current_time()
        for slot in self._slots:
            slot.release(self, now)
        if line:
            self._wire.answer(line)
        return True


class Relay:
    """The owner of one server's questions."""

    def __init__(
        self, server: str, available: Callable[[], Ability], home: str, remark: Callable[[str], None]
    ) -> None:
        """`available` says what the attached sessions that may use it can be asked; `home`: where a server
        without a folder of its own runs; `remark` gets notes for the server's log."""
        self.server = server
        self.wire: Wire | None = None
        """The connection, from its opening on."""
        self.sole: Callable[[], Asker | None] = lambda: None
        """The one attached session that may use it, as far as it can be asked out of a request."""
        self.budget = Budget()
        self.told = NONE
        """What a server with a handshake was told when it was opened; a stateless one is told with each
        request what its caller can be asked (5.1)."""
        self.turns: Turns | None = None
        """Set once the server has asked without saying about which of several parties' requests."""
        self._available = available
        self._home = home
        self._remark = remark
        self._allowed = NONE
        self.fixed = b""
        """The answer to `roots/list` where the definition says it."""
        self._open: dict[bytes, OpenAsk] = {}
        self._visits: dict[str, Callable[[], None]] = {}
        """By the server's ids of visits to addresses: who hears that they are completed."""
        self._waiting: list[Asker] = []
        """Callers whose requests wait for the server to come up."""
        self._met: set[str] = set()
        """Sessions with abilities that have used this connection."""
        self._rooted: set[str] = set()
        """Sessions whose folders the server has asked for."""

    # ------------------------------------------------------------ one connection

    def begin(self, server: Server) -> dict[str, object]:
        """A new connection is opened: the capabilities that its handshake declares."""
        self._allowed = asks.allowed(sampling=server.sampling, roots=server.roots)
        self.fixed = fixed_roots(server, self._home) if server.roots == "fixed" else b""
        self.end()
        available = self._available()
        if self.fixed:
            available |= Ability.ROOTS
        self.told = available & self._allowed
        return abilities.declare(self.told, stateless=False)

    def end(self) -> None:
        """The connection is gone."""
        self.wire = None
        for ask in list(self._open.values()):
            ask.withdraw()
        self._visits.clear()
        self._met.clear()
        self._rooted.clear()
        if self.turns is not None:
            self.turns.moved()

    def mask(self, declared: Ability) -> Ability:
        """What the server may know of a caller's abilities."""
        return (declared | Ability.ROOTS if self.fixed else declared) & self._allowed

    def wants_more(self, asker: Asker) -> bool:
        """Whether a caller that is new here has abilities that the server was not told of."""
        if asker.session in self._met:
            return False
        self._met.add(asker.session)
        return bool(asker.abilities & self._allowed & ~self.told)

    def has_met(self, asker: Asker) -> bool:
        """Whether `wants_more` has been asked about its session."""
        return asker.session in self._met

    @contextmanager
    def waits(self, asker: Asker | None) -> Iterator[None]:
        """Inside, this caller waits for the server to come up; one that gives up is asked nothing more."""
        if asker is None:
            yield
            return
        self._waiting.append(asker)
        try:
            yield
        except BaseException:
            for ask in [ask for ask in self._open.values() if ask.asker is asker]:
                ask.withdraw()
            raise
        finally:
            self._waiting.remove(asker)

    @property
    def known(self) -> tuple[str, ...]:
        """What the server was told once for all of this connection, in words."""
        stands = self.wire is not None and not self.wire.settled.revision.stateless
        return abilities.words(self.told) if stands else ()

    # --------------------------------------------------------- from the server

    def asked(self, wire: Wire, message: Message, on: bytes) -> None:
        """A request of the server. Whatever it is, it is answered.

        `on`: the request on whose own stream it came; empty where there is one stream for everything.
        """
        key = message.key
        if message.method not in QUESTIONS:
            wire.answer(refusal(message))
            return
        question = Question(message.method, message.params)
        try:
            if question.method == ROOTS and self.fixed:
                wire.answer(jsonrpc.result_line(key, self.fixed))
                return
            if key in self._open or len(self._open) >= OPEN:
                raise Refused(_INTERNAL, "too many questions are open, or one of this id is")
            asker, slots = self._concerned(wire, question, on)
        except Refused as e:
            self._remark(f"{question.method} refused: {e.message}")
            wire.answer(jsonrpc.error_line(key, jsonrpc.error_text(e.code, e.message)))
            return
        if question.method == ROOTS:
            self._rooted.add(asker.session)
        self._open[key] = ask = OpenAsk(self, wire, key, question, asker, slots)
        asker.asked(ask)

    def _concerned(self, wire: Wire, question: Question, on: bytes) -> tuple[Asker, list[Slot]]:
        """Whom a question is for, and the requests that it may belong to, all of that party.

        While it is opened, that is whoever alone waits for it: some servers ask for folders before they
        serve anything. Raises Refused for nobody.
        """
        task = tasks.related_to(question.text)
        # Whoever else has requests under way: it is said whose it is (5.15).
        related = wire.of_task(task) if task else []
        slots = related or wire.slots(on)
        askers = [slot.asker for slot in slots if slot.asker is not None]
        if not askers and not on:
            askers = self._waiting
            if not askers and question.method == ROOTS and (sole := self.sole()) is not None:
                # Folders are asked for whenever it suits the server, and only one can be meant (8.2).
                askers = [sole]
        parties = {asker.party for asker in askers}
        if len(parties) == 1 or related:
            return askers[0], slots
        asks.check_declared(question, self.told)
        if len(parties) > 1 and self.turns is None:
            self.turns = Turns(self._parties, self._asked, self._hurry)
        raise Refused(_INTERNAL, "cannot tell which client this belongs to")

    def _parties(self) -> set[str]:
        slots = self.wire.slots(b"") if self.wire is not None else []
        return {slot.asker.party for slot in slots if slot.asker is not None}

    def _asked(self) -> set[str]:
        return {ask.asker.party for ask in self._open.values()}

    def _hurry(self) -> None:
        for ask in list(self._open.values()):
            ask.hurried()

    def cancelled(self, key: bytes) -> None:
        """The server takes a question back (5.9)."""
        ask = self._open.get(key)
        if ask is not None:
            ask.withdraw()

    def close(self, key: bytes, ask: OpenAsk) -> bool:
        """Whether the question was still open; it is not from here on."""
        if self._open.get(key) is not ask:
            return False
        del self._open[key]
        return True

    def completed(self, params: bytes) -> None:
        """The server says that a visit is done; whoever was sent there hears of it, and nobody else (n03)."""
        said = read_result(params or b"{}", Completed)
        done = self._visits.pop(said.elicitation_id, None) if said is not None else None
        if done is not None:
            done()

    # --------------------------------------------------------- from the agents

    def visit(self, name: str, completed: Callable[[], None]) -> None:
        """Somebody has been sent to an address; of very many the oldest are forgotten."""
        self._visits.pop(name, None)
        while len(self._visits) >= OPEN:
            del self._visits[next(iter(self._visits))]
        self._visits[name] = completed

    def spend(self) -> None:
        """Count a question that reaches an agent. Raises Refused when there were too many."""
        self.budget.spend(trio.current_time())

    def knows_roots(self, session: str) -> bool:
        """Whether the server has asked for this session's folders, so that it hears when they change."""
        return session in self._rooted

    def forget(self, session: str) -> None:
        """The session has ended."""
        for key, ask in list(self._open.items()):
            if ask.asker.session == session:
                error = jsonrpc.error_text(_INTERNAL, "the client has left")
                ask.withdraw(jsonrpc.error_line(key, error))
        self._met.discard(session)
        if session in self._rooted:
            self._rooted.discard(session)
            if self.wire is not None:
                # What the server was told of folders is this session's, and no longer true.
                self.wire.notify("notifications/roots/list_changed", b"{}")


def fixed_roots(server: Server, home: str) -> bytes:
    """The answer to `roots/list` of a server that is told its own folder, if it has one (DESIGN 7)."""
    folder = server.cwd or (home if server.command else "")
    roots = [{"uri": PurePath(folder).as_uri()}] if folder.startswith("/") else []
    return msgspec.json.encode({"roots": roots})


def _nobody() -> None:
    """Nobody has asked to be told."""
