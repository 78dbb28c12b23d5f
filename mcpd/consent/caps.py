"""How much a person is asked: what keeps an agent from asking until somebody says yes (n07).

Pure but for its memory; the clock is the caller's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from math import inf
from typing import Final, NamedTuple

from mcpd.consent import verdicts

#: Seconds that the same call is refused after a no.
NO: Final = 900.0
#: Questions of one agent that are open at once, and those that it may ask in an hour.
OPEN: Final = 3
HOURLY: Final = 20
HOUR: Final = 3600.0


class Muted(NamedTuple):
    """An agent whose calls are not asked about."""

    agent: str
    until: float
    """Infinite where a person said so."""


class Caps:
    """The owner of what was answered with no, who has asked how often, and who is muted."""

    def __init__(self) -> None:
        self._no: dict[str, float] = {}
        """The digest of a call -> until when it is refused."""
        self._asked: dict[str, deque[float]] = {}
        """Agent -> when it has asked."""
        self._muted: dict[str, float] = {}

    def check(self, agent: str, digest: str, opened: int, now: float) -> None:
        """Raises Failure `denied`, `busy` for a call that nobody is to be asked about; `opened`: how many
        questions of the agent are open."""
        if left := self.refused(digest, now):
            raise verdicts.refused(agent, left)
        if agent in self._muted:
            raise verdicts.muted(agent)
        if opened >= OPEN:
            raise verdicts.too_many_open(agent, OPEN)

    def spend(self, agent: str, now: float) -> bool:
        """Count a question. False where the hour had its share: the agent is muted for an hour."""
        asked = self._asked.setdefault(agent, deque(maxlen=HOURLY))
        if len(asked) == HOURLY and now - asked[0] < HOUR:
            self._muted[agent] = now + HOUR
            return False
        asked.append(now)
        return True

    def refuse(self, digest: str, now: float) -> None:
        """A person has said no to this call."""
        self._no[digest] = now + NO

    def refused(self, digest: str, now: float) -> float:
        """Seconds for which this call is refused after a no; 0 where it is not."""
        return max(0.0, self._no.get(digest, now) - now)

    def mute(self, agent: str) -> None:
        self._muted[agent] = inf

    def unmute(self, agent: str) -> bool:
        """The agent has a new hour. Whether it was muted."""
        self._asked.pop(agent, None)
        return self._muted.pop(agent, None) is not None

    def muted(self) -> tuple[Muted, ...]:
        return tuple(Muted(*each) for each in self._muted.items())

    def sweep(self, now: float) -> None:
        """Forget what is over."""
        self._no = {digest: until for digest, until in self._no.items() if until > now}
        self._muted = {agent: until for agent, until in self._muted.items() if until > now}

    def deadlines(self) -> Iterator[float]:
        """When it has to be swept so that whoever looks sees it."""
        yield from self._muted.values()
