"""Calls that wait for a person, and the answers (n05, n07).

`Approvals` owns the open questions and the one-time yeses, in memory alone: what is not answered when
the daemon ends is denied. Identical questions are one. A yes lets exactly one call through, that of a
caller who waits or, within the hour, the next one that is the same; a no refuses the same call for a
quarter of an hour. What a lasting yes covers is the grant book's business, not of this one.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain
from math import inf
from typing import Final, NamedTuple, Protocol

import trio

from mcpd.changes import Changes
from mcpd.consent import verdicts
from mcpd.consent.caps import HOURLY, NO, Caps, Muted
from mcpd.consent.elicit import HostQuestion, can_be_asked
from mcpd.consent.questions import By, Event, Outcome, Question
from mcpd.errors import Failure
from mcpd.policy import card
from mcpd.policy.binding import LARGEST
from mcpd.policy.card import Card
from mcpd.transport.pending import Asker

#: Seconds that a yes which nobody has used counts (n05).
YES: Final = 3600.0
#: From here on they are read in a thread.
LONG: Final = 32 * 1024
#: Seconds between two notices of progress to whoever waits; hosts give up after 60 s without any.
PROGRESS: Final = 10.0
#: Settled questions that are remembered for whoever answers too late.
PAST: Final = 64
#: Yeses that calls have used and that could be given back.
SPENT: Final = 64
#: What ids and codes are written with: none of these can be taken for another.
_ALPHABET: Final = "abcdefghjkmnpqrstuvwxyz23456789"

Record = Callable[[Event], None]


class Patient(Protocol):
    """A caller's request, as far as it waits (`upstream.ticket.Ticket`)."""

    def stoppable(self) -> AbstractContextManager[object]:
        """Around a wait; leaves by an exception when the caller takes the request back."""
        ...


class Open:
    """A question without an answer."""

    def __init__(
        self, name: str, question: Question, laid: Card, now: float, deadline: float, ends: float
    ) -> None:
        self.id = name
        self.question = question
        self.sessions = {question.session}
        """Whose calls have asked it."""
        self.asked_at = time.time()
        self.since = now
        self.deadline = deadline
        """Trio clock; infinite for none..."""
        self.ends = ends
        """...and by the clock that goes on in suspend, whichever comes first."""
        self.card = laid
        self.code = _random(6)
        """Told to whoever has been shown everything, and wanted with a yes where the card is cut."""
        self.waiting = 0
        """Calls that wait for the answer."""
        self.outcome: Outcome | None = None
        self.settled = trio.Event()


class Yes(NamedTuple):
    """A yes that no call has used yet."""

    id: str
    question: Question
    sessions: frozenset[str]
    """Whose calls have asked for it."""
    until: float
    """Trio clock..."""
    ends: float
    """...and the one that goes on in suspend, whichever comes first."""


def since_boot() -> float:
    """Seconds, those of suspend included, which trio's clock leaves out."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Approvals:
    """The owner of what is asked and answered. Its clock is trio's; what would let a call through ends by
    `boot` as well, so that no lid that was closed makes a yes last longer."""

    def __init__(self, changes: Changes, record: Record, boot: Callable[[], float] = since_boot) -> None:
        self._changes = changes
        self._record = record
        self._since_boot = boot
        self._open: dict[str, Open] = {}
        """By the digest of what is asked about, in the order of asking."""
        self._yes: dict[str, Yes] = {}
        self._spent: dict[str, Yes] = {}
        """By their ids, the oldest first."""
        self._caps = Caps()
        self._past: deque[tuple[str, Outcome]] = deque(maxlen=PAST)
        self._stirred = trio.Event()

    # ---------------------------------------------------------------- those who call

    def take(self, digest: str) -> str:
        """The id of a yes to this call, which is used up by that; empty where there is none."""
        self._sweep()
        yes = self._yes.pop(digest, None)
        if yes is None:
            return ""
        while len(self._spent) >= SPENT:
            del self._spent[next(iter(self._spent))]
        self._spent[yes.id] = yes
        self._changes.publish("approvals", yes.id)
        return yes.id

    def give_back(self, name: str) -> None:
        """The call that has used this yes was not sent: the next that is the same may go by it. Not where
        something was asked or answered about such a call meanwhile."""
        yes = self._spent.pop(name, None)
        if yes is None:
            return
        digest = yes.question.digest
        if digest in self._open or digest in self._yes or self.refused(digest):
            return
        self._yes[digest] = yes
        self._sweep()
        self._stir(name)

    def refused(self, digest: str) -> float:
        """Seconds for which this call is refused after a no; 0 where it is not."""
        return self._caps.refused(digest, trio.current_time())

    async def ask(
        self, question: Question, ticket: Patient, asker: Asker | None, *, wait: float, deadline: float
    ) -> str:
        """Wait for a person's yes to this call; its id, used up for it. Empty where it is to be
        decided anew: a new grant covers it, or what it was asked under has changed.

        `wait`: seconds until the call is answered as pending, `deadline`: until no answer is a no; infinite
        for no such limit. Raises Failure `pending`, `denied`, `busy`, `stopping`, and what `ticket` raises.
        """
        began = trio.current_time()
        if len(question.bound.arguments) > LARGEST:
            raise verdicts.too_large(len(question.bound.arguments), LARGEST)
        laid = await _lay_out(question.bound.arguments)
        while True:
            opened = self._join(question, laid, deadline)
            with ticket.stoppable():
                await self._wait(opened, asker, began + wait)
            if opened.outcome is None:
                raise verdicts.pending(opened.id, question.name, opened.deadline - trio.current_time())
            if opened.outcome in ("granted", "superseded"):
                return ""
            if opened.outcome != "approved":
                raise verdicts.refusal(opened.id, question, opened.outcome, NO)
            if name := self.take(question.digest):
                return name
            # It was another's who waited as well: this call has its own question.

    def _join(self, question: Question, laid: Card, deadline: float) -> Open:
        """The open question that is the same, else a new one. Raises Failure `denied`, `busy`."""
        self._sweep()
        now = trio.current_time()
        opened = self._open.get(question.digest)
        if opened is not None:
            opened.sessions.add(question.session)
            return opened
        agent = question.bound.agent
        theirs = sum(each.question.bound.agent == agent for each in self._open.values())
        self._caps.check(agent, question.digest, theirs, now)
        if not self._caps.spend(agent, now):
            self._record(Event("", question, "muted"))
            self._stir("")
            raise verdicts.muted(agent, HOURLY)
        ends = self._since_boot() + deadline
        opened = self._open[question.digest] = Open(_random(10), question, laid, now, now + deadline, ends)
        self._tell(opened, "asked")
        return opened

    async def _wait(self, opened: Open, asker: Asker | None, until: float) -> None:
        """Return when the question is settled, or at that moment (trio clock)."""
        until = min(until, opened.deadline)
        host = self._ask_host(opened, asker)
        opened.waiting += 1
        try:
            for number in itertools.count(1):
                if asker is not None:
                    asker.progressed(verdicts.progress(opened.id, number))
                with trio.move_on_at(min(until, trio.current_time() + PROGRESS)):
                    await opened.settled.wait()
                self._sweep()
                if opened.outcome is not None or trio.current_time() >= until:
                    return
        finally:
            opened.waiting -= 1
            if host is not None:
                host.withdraw()

    def _ask_host(self, opened: Open, asker: Asker | None) -> HostQuestion | None:
        """Put the question to the calling program as well, where its agent's definition lets that answer."""
        if asker is None or not can_be_asked(opened.question, opened.card, asker.abilities):
            return None

        def answered(yes: bool) -> None:
            by = By(opened.question.pid, opened.question.exe, "host")
            self._sweep()
            if opened.outcome is None:
                self._approve(opened, by) if yes else self._deny(opened, by)

        host = HostQuestion(opened.question, opened.card, asker.abilities, answered)
        asker.asked(host)
        return host

    # -------------------------------------------------------------- those who answer

    def open(self) -> tuple[Open, ...]:
        """The questions without an answer, the oldest first."""
        self._sweep()
        return tuple(self._open.values())

    def unused(self) -> tuple[Yes, ...]:
        """The yeses that no call has used yet."""
        self._sweep()
        return tuple(self._yes.values())

    def muted(self) -> tuple[Muted, ...]:
        self._sweep()
        return self._caps.muted()

    def find(self, name: str) -> Open:
        """The open question of this id. Raises Failure `no_such_approval`."""
        self._sweep()
        for opened in self._open.values():
            if opened.id == name:
                return opened
        before = next((outcome for past, outcome in reversed(self._past) if past == name), None)
        message = f'question "{name[:40]}" is open no more: {before}' if before else ""
        raise Failure(
            "no_such_approval",
            message or f'no question is called "{name[:40]}"',
            hint="mcpctl approvals lists those that are open",
        )

    def approve(self, name: str, by: By, code: str = "") -> Open:
        """Say yes, once. `code`: that of the question, from whoever was shown all of it.

        Raises Failure `no_such_approval`, and `refused` where something was cut and nobody has opened it.
        """
        opened = self.find(name)
        if opened.card.cut and code != opened.code:
            message = f'cannot approve "{opened.id}": its arguments are too long for one look'
            raise Failure("refused", message, hint=f"see them all first: mcpctl approvals {opened.id}")
        self._approve(opened, by)
        return opened

    def deny(self, name: str, by: By) -> Open:
        """Say no, also to the same call for a while. Raises Failure `no_such_approval`."""
        opened = self.find(name)
        self._deny(opened, by)
        return opened

    def take_back(self, name: str, by: By) -> Question | None:
        """Make a yes that no call has used yet a no; what it was about, None where there is no such yes. One
        that a call has used does not come back."""
        self._spent.pop(name, None)
        for yes in self.unused():
            if yes.id == name:
                del self._yes[yes.question.digest]
                self._caps.refuse(yes.question.digest, trio.current_time())
                self._past.append((name, "denied"))
                self._record(Event(name, yes.question, "denied", by, 0.0))
                self._stir(name)
                return yes.question
        return None

    def settle(self, covers: Callable[[Question], bool]) -> int:
        """Close the questions that a new grant covers; their calls are decided anew. How many there were."""
        found = [each for each in self.open() if not each.question.once_only and covers(each.question)]
        for opened in found:
            self._close(opened, "granted")
        return len(found)

    def supersede(self, server: str) -> int:
        """Close the questions about a server of which something was decided on has changed, such as trust;
        their calls are decided anew, and yeses that no call has used are none. How many questions there
        were."""
        return self._end(lambda question: question.bound.server == server)

    def reconsider(self, stands: Callable[[Question], bool]) -> int:
        """The same of questions that would not be asked so any more."""
        return self._end(lambda question: not stands(question))

    def forget(self, agent: str) -> int:
        """The same of an agent that is removed: the next of its name begins anew."""
        return self._end(lambda question: question.bound.agent == agent)

    def _end(self, meant: Callable[[Question], bool]) -> int:
        found = [each for each in self.open() if meant(each.question)]
        for opened in found:
            self._close(opened, "superseded")
        for digest in [digest for digest, yes in self._yes.items() if meant(yes.question)]:
            self._changes.publish("approvals", self._yes.pop(digest).id)
        for name in [name for name, yes in self._spent.items() if meant(yes.question)]:
            del self._spent[name]
        return len(found)

    def mute(self, agent: str, by: By) -> None:
        """Ask nobody about the calls of an agent, until `unmute`; its open questions are withdrawn."""
        self._caps.mute(agent)
        for opened in self.open():
            if opened.question.bound.agent == agent:
                self._close(opened, "muted", by)
        self._stir("")

    def unmute(self, agent: str) -> bool:
        """Ask again about its calls, with a new hour. Whether it was muted."""
        was = self._caps.unmute(agent)
        self._stir("")
        return was

    # --------------------------------------------------- those who guard the answers

    def lives(self, session: str) -> bool:
        """Whether a question of that session is open, or a yes to it unused (n06)."""
        asked = (opened.sessions for opened in self.open())
        usable = (yes.sessions for yes in self.unused())
        return any(session in sessions for sessions in chain(asked, usable))

    # ------------------------------------------------------------------------- time

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the deadlines until cancelled; what is open then has been denied."""
        task_status.started()
        try:
            while True:
                self._sweep()
                self._stirred = trio.Event()
                with trio.move_on_at(min(self._deadlines(), default=inf)):
                    await self._stirred.wait()
        finally:
            for opened in tuple(self._open.values()):
                self._close(opened, "withdrawn")

    def _deadlines(self) -> Iterator[float]:
        yield from (opened.deadline for opened in self._open.values())
        yield from (yes.until for yes in self._yes.values())
        yield from self._caps.deadlines()

    def _sweep(self) -> None:
        """Settle what is over by now; everything that reads the clock begins with this."""
        now, boot = trio.current_time(), self._since_boot()
        for opened in [each for each in self._open.values() if each.deadline <= now or each.ends <= boot]:
            self._close(opened, "expired")
        for digest, yes in list(self._yes.items()):
            if yes.until <= now or yes.ends <= boot:
                del self._yes[digest]
                self._changes.publish("approvals", yes.id)
        self._caps.sweep(now)

    # ----------------------------------------------------------------------- settling

    def _approve(self, opened: Open, by: By) -> None:
        digest = opened.question.digest
        self._yes[digest] = Yes(
            opened.id,
            opened.question,
            frozenset(opened.sessions),
            trio.current_time() + YES,
            self._since_boot() + YES,
        )
        self._close(opened, "approved", by)

    def _deny(self, opened: Open, by: By) -> None:
        self._caps.refuse(opened.question.digest, trio.current_time())
        self._close(opened, "denied", by)

    def _close(self, opened: Open, outcome: Outcome, by: By | None = None) -> None:
        del self._open[opened.question.digest]
        self._past.append((opened.id, outcome))
        opened.outcome = outcome
        opened.settled.set()
        self._tell(opened, outcome, by)

    def _tell(self, opened: Open, outcome: Outcome, by: By | None = None) -> None:
        waited = trio.current_time() - opened.since
        self._record(Event(opened.id, opened.question, outcome, by, waited))
        self._stir(opened.id)

    def _stir(self, name: str) -> None:
        self._stirred.set()
        self._changes.publish("approvals", name)


async def _lay_out(arguments: bytes) -> Card:
    """What is long is read beside the loop: it can take a second."""
    if len(arguments) <= LONG:
        return card.lay_out(arguments)
    return await trio.to_thread.run_sync(card.lay_out, arguments)


def _random(length: int) -> str:
    """Ten characters are 49 bits: none comes twice."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
