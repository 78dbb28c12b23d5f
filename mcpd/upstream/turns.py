"""Whose requests a server gets that asks its clients without saying about which request (DESIGN 7).

Such questions can be attributed only while one party alone has requests under way. So parties take
turns, in the order in which they came; who waits meanwhile waits for a person, at worst, and that does
not count as the time of its request (D9). A party of which nobody knows whether it is still there is told
that others wait.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

#: Seconds that somebody waits before those who are asked hear of it, again and again. Most programs give a
#: call 60: it can still be served then.
PATIENCE = 30.0


class Turns:
    """Who may send next. `parties` says who has requests under way now, `asked` who of them is being asked
    something: whoever waits its turn waits for that answer, and the answer may take another request. `hurry`
    tells those who are asked that others wait."""

    def __init__(
        self, parties: Callable[[], set[str]], asked: Callable[[], set[str]], hurry: Callable[[], None]
    ) -> None:
        self._parties = parties
        self._asked = asked
        self._hurry = hurry
        self._waiting: list[tuple[str, trio.Event]] = []
        self._let: dict[str, int] = {}
        """Who has been let in and has not left, and how often."""

    async def enter(self, party: str) -> None:
        """Wait until `party` alone has requests under way. Then `leave` must follow, after its request."""
        if self._has_way(party) and (not self._waiting or party in self._asked()):
            self._admit(party)
            return
        entry = (party, trio.Event())
        self._waiting.append(entry)
        try:
            await self._let_in(entry[1])
        except trio.Cancelled:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self.moved()
            else:
                self.leave(party)
            raise

    async def _let_in(self, let: trio.Event) -> None:
        while not let.is_set():
            with trio.move_on_after(PATIENCE) as patience:
                await let.wait()
            if patience.cancelled_caught:
                self._hurry()

    def leave(self, party: str) -> None:
        self._let[party] -= 1
        if not self._let[party]:
            del self._let[party]
        self.moved()

    def moved(self) -> None:
        """Some request has ended: the next may go, with all that its party waits for."""
        while self._waiting and self._has_way(self._waiting[0][0]):
            party = self._waiting[0][0]
            for entry in [entry for entry in self._waiting if entry[0] == party]:
                self._waiting.remove(entry)
                self._admit(party)
                entry[1].set()

    def _admit(self, party: str) -> None:
        self._let[party] = self._let.get(party, 0) + 1

    def _has_way(self, party: str) -> bool:
        return not (self._parties() | self._let.keys()) - {party}
