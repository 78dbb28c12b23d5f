"""What must travel upward: a bounded broadcast of numbered changes.

An owner publishes, sessions and the feed wait. Publishing never blocks and never fails: a reader
that falls behind loses its oldest changes and finds `lagged` set, nobody else notices.
"""

from __future__ import annotations

from collections import defaultdict, deque
from types import TracebackType
from typing import NamedTuple

import trio

#: Recent changes kept for a reader that comes back (the figure of dockerd).
RECENT = 256


class Change(NamedTuple):
    """One thing that happened. Numbers rise by one, topic and data are the publisher's."""

    seq: int
    topic: str
    data: object


class Subscription:
    """One reader's queue: `with changes.subscribe() as subscription: async for change in subscription`.

    It fills from its making on and belongs to one task. Leaving the context ends it, also when
    cancelled; a wait that is cancelled loses no change.
    """

    def __init__(self, owner: Changes, limit: int) -> None:
        self._owner = owner
        self._queue: deque[Change] = deque(maxlen=limit)
        self._waiting = trio.lowlevel.ParkingLot()
        self.lagged = False
        """Changes were lost since the reader last set this to False."""
        owner.readers.add(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._owner.readers.discard(self)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Change:
        # The checkpoint comes first: what has left the queue must reach the reader.
        await trio.lowlevel.checkpoint()
        while not self._queue:
            await self._waiting.park()
        return self._queue.popleft()

    def _put(self, change: Change) -> None:
        if len(self._queue) == self._queue.maxlen:
            self.lagged = True
        self._queue.append(change)
        self._waiting.unpark_all()


class Changes:
    """The broadcast of one owner."""

    def __init__(self) -> None:
        self.seq = 0
        """The number given last; 0 before the first change."""
        self._recent: deque[Change] = deque(maxlen=RECENT)
        self.readers: set[Subscription] = set()
        self.last: defaultdict[str, int] = defaultdict(int)
        """The number of each topic's last change, 0 before the first: a stamp for what is made of it."""

    def publish(self, topic: str, data: object = None) -> None:
        """Number a change and hand it to every reader. Never blocks; to be called in the trio thread."""
        self.seq += 1
        self.last[topic] = self.seq
        change = Change(self.seq, topic, data)
        self._recent.append(change)
        for reader in self.readers:
            reader._put(change)

    def subscribe(self, limit: int = 128) -> Subscription:
        """A queue of at most `limit` changes, filled from now on; to be entered as a context at once."""
        return Subscription(self, limit)

    def since(self, seq: int) -> tuple[Change, ...] | None:
        """The changes after number `seq`, oldest first; None when they are no longer (or not yet) known."""
        if not self.seq - len(self._recent) <= seq <= self.seq:
            return None
        return tuple(change for change in self._recent if change.seq > seq)
