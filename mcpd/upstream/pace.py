"""When lists are read again: notices are believed, merged and paced, whatever a server says (a22, b23)."""

from __future__ import annotations

import trio

#: Refetches are free up to this burst, then one a second, whatever a server sends.
REFETCH_BURST = 3
REFETCH_REFILL = 1.0

#: A server that announces changes where there are none is believed so many times in a row; after that
#: nobody waits for its refetches, and they get rarer, up to one a minute.
FRUITLESS = 2
FRUITLESS_FORGOTTEN = 10.0
REFETCH_REFILL_MAX = 60.0

#: A refetch that fails is tried again so many times; after that, when somebody looks or a notice comes.
RETRIES = 5


class Pace:
    """The pace of one primitive's refetches: one running, one waiting. Mutable: its state."""

    def __init__(self) -> None:
        self.stale = False
        """A notice came and the refetch is not through yet; listings and calls wait for that."""
        self.stale_since = 0.0
        """When it became stale (trio clock)."""
        self.notices = 0
        self._wanted = trio.Event()
        self._fruitless = 0
        self._failures = 0
        """Refetches in a row that failed."""
        self._uncovered = 0.0
        """When the first notice came that no fetch has been begun after; 0 for none."""
        self._noticed = 0.0
        """When the last notice came (trio clock)."""
        self._credit = float(REFETCH_BURST)
        self._credited = 0.0

    def notice(self) -> None:
        """The lists are not what they were, somebody says."""
        now = trio.current_time()
        if now - self._noticed > FRUITLESS_FORGOTTEN:
            self._fruitless = 0
        self._noticed = now
        if not self._uncovered:
            self._uncovered = now
        if not self.stale and self._fruitless < FRUITLESS:
            self.stale = True
            self.stale_since = now
        self._failures = 0
        self.notices += 1
        self._wanted.set()

    def begin(self) -> int:
        """A fetch begins; the number is for its end."""
        self._wanted = trio.Event()
        self._uncovered = 0.0
        return self.notices

    def end(self, begun: int, *, changed: bool) -> None:
        """The fetch is through. A notice that came meanwhile is answered by the next."""
        self._failures = 0
        self._fruitless = 0 if changed else self._fruitless + 1
        self.stale = begun != self.notices and self._fruitless < FRUITLESS
        self.stale_since = self._uncovered

    def fail(self, begun: int) -> None:
        """The fetch failed. Nobody waits for it any longer, unless there is a newer notice; but for a
        while it is tried again."""
        self.stale = self.stale and begun != self.notices
        self._fruitless += 1
        self._failures += 1
        if self._failures <= RETRIES:
            self._wanted.set()

    async def turn(self) -> None:
        """Wait until a refetch is wanted and due."""
        while True:
            await self._wanted.wait()
            now = trio.current_time()
            rarer = 2.0 ** min(max(0, self._fruitless - FRUITLESS), 10)
            refill = min(REFETCH_REFILL * rarer, REFETCH_REFILL_MAX)
            self._credit = min(REFETCH_BURST, self._credit + (now - self._credited) / refill)
            self._credited = now
            if self._credit >= 1:
                self._credit -= 1
                return
            await trio.sleep((1 - self._credit) * refill)
