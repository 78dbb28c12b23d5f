"""The calling program as the one who asks the person: an elicitation of mcpd's own (a31).

Off unless an agent's definition says `approver = "host"`, and only up to medium risk: nobody can know
whether a person has seen it. It is asked beside the queue, where a person can still answer first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mcpd.consent.questions import Question
from mcpd.policy.card import Card
from mcpd.policy.terms import risk_rank
from mcpd.protocol import input as asked
from mcpd.protocol.abilities import Ability

#: Characters of the whole message: an elicitation's limit (`policy.asks.MESSAGE`) with room for what is put
#: before it.
LONGEST: Final = 7000
#: A choice that has to be made: a program that accepts whatever comes has not answered by that.
YES: Final = "yes, this once"
NO: Final = "no"
_FORM: Final = {
    "type": "object",
    "properties": {"answer": {"type": "string", "title": "May it run?", "enum": [YES, NO]}},
    "required": ["answer"],
}


def can_be_asked(question: Question, card: Card, abilities: Ability) -> bool:
    """Whether the calling program may answer for its person, and can: not to what only a person answers
    (D10), nor where a form has no room for all that a person must see (n07)."""
    if question.approver != "host" or question.once_only or not abilities & Ability.FORM:
        return False
    mild = risk_rank(question.risk) <= risk_rank("medium")
    return mild and not card.cut and len(_message(question, card)) <= LONGEST


class HostQuestion:
    """A question of mcpd's own on its way through the agent's session (`transport.pending.Ask`)."""

    def __init__(
        self, question: Question, card: Card, can: Ability, answered: Callable[[bool], None]
    ) -> None:
        self.server = ""
        self.question = asked.Question(asked.ELICIT, _params(question, card))
        self.can = can
        self.closed: Callable[[], None] = _nothing
        self.hurried: Callable[[], None] = _nothing
        self._answered = answered
        self._over = False

    def answer(self, result: bytes) -> None:
        """A choice is an answer and a decline is a no; whoever closes the question has not answered."""
        self._over = True
        said = msgspec.json.decode(result, type=asked.Elicited)
        if said.action == "accept":
            self._answered((said.content or {}).get("answer") == YES)
        elif said.action == "decline":
            self._answered(False)

    def refuse(self, code: int, message: str) -> None:
        """It cannot be asked: the queue is left."""
        self._over = True

    def spend(self) -> None:
        """The caps of approvals count already."""

    def visit(self, name: str, completed: Callable[[], None]) -> None:
        """It sends nobody anywhere."""

    def withdraw(self) -> None:
        """Nobody waits for the answer any more."""
        if not self._over:
            self._over = True
            self.closed()


def _nothing() -> None:
    pass


def _params(question: Question, card: Card) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({"message": _message(question, card), "requestedSchema": _FORM}))


def _message(question: Question, card: Card) -> str:
    bound = question.bound
    lines = [
        f'May this call run? Tool "{bound.tool}" of server "{bound.server}", risk {question.risk}.',
        question.question,
        *question.flags,
        # Further lines of a value stand further in, so that none looks like another argument.
        *(f"{each.name}: {each.value}".replace("\n", "\n    ") for each in card.arguments),
    ]
    return "\n".join(lines)
