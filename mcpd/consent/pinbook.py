"""The definitions that people have seen, in state.db, filed under server and destination (n09, n24)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import trio

from mcpd.catalog.tool import Catalog
from mcpd.config.spec import Server
from mcpd.consent.store import Statement, Store
from mcpd.policy import pins
from mcpd.policy.review import Pin, Pins, Place, Review, is_small, review

_PUT: Final = "insert or replace into pins values "
_ROW: Final = "(?, ?, ?, ?, ?, ?, ?)"
#: Pins of one statement: SQLite gives the interpreter's lock up with each, and beside a thread that writes
#: the journal the loop would have to wait for it each time. Older ones know no more than 999 values.
_ROWS: Final = 100
_DROP: Final = "delete from pins where server = ?"

#: Reviews kept of a server and destination: instances of one server may differ in what they offer.
_KEPT: Final = 4
#: Bytes of definitions that differ from their pins, in all reviews of one server: each is there with what was
#: seen and what has changed besides, and a server may send others every second.
_BYTES: Final = 8 * 2**20

#: Definitions that are pinned before others have a turn.
_AT_ONCE: Final = 250
#: Bytes of what is pinned of one server without a person: twice what a catalogue may have. Names that are
#: others in every listing would fill the disk.
_ROOM: Final = 32 * 2**20
#: What a pin takes besides its definition.
_EACH: Final = 600

_NONE: Final[Pins] = {}


class Filed(NamedTuple):
    """Where a server's pins are filed."""

    server: str
    destination: str


@dataclass(slots=True)
class _Made:
    trusted: bool
    review: Review
    counts: bool = True
    """It was made with the pins that count now; else only what was compared for it is of use."""


class PinBook:
    """The only owner of the pins. Not for use by several threads at once."""

    def __init__(self, store: Store, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self._pins: dict[Filed, dict[Place, Pin]] = {}
        for server, destination, kind, name, digest, definition, pinned_at in store.rows(
            "select server, destination, kind, name, digest, definition, pinned_at from pins"
        ):
            filed = self._pins.setdefault(Filed(server, destination), {})
            filed[Place(kind, name)] = Pin(digest, bytes(definition, "utf-8"), pinned_at)
        self._reviews: dict[Filed, list[_Made]] = {}
        """The newest last."""
        self._stamp = 0
        """How often pins have changed."""

    def of(self, server: Server) -> Pins:
        """The pins that count for a server as it is defined now."""
        return self._pins.get(_filed(server), _NONE)

    def review(self, server: Server, catalog: Catalog, *, trusted: bool) -> Review:
        """The catalogue beside its pins; made once for each, and then only looked up."""
        filed = _filed(server)
        if (known := self._made(filed, catalog, trusted=trusted)) is not None:
            return known
        past = self._past(filed)
        made = _Made(trusted, review(catalog, self.of(server), trusted=trusted, past=past))
        return self._keep(filed, made).review

    def _made(self, filed: Filed, catalog: Catalog, *, trusted: bool) -> Review | None:
        """Trust decides about what had to be compared alone."""
        for made in self._reviews.get(filed, ()):
            same = made.trusted == trusted or not made.review.compared
            if made.counts and same and made.review.live is catalog:
                return made.review
        return None

    async def examine(self, server: Server, catalog: Catalog, *, trusted: bool) -> None:
        """Make the review of a catalogue that is to be published, or to be trusted, in a thread where that
        takes long: nobody has to wait for it then. To be called in the trio thread."""
        filed, seen, past = _filed(server), self.of(server), self._past(_filed(server))
        if self._made(filed, catalog, trusted=trusted) is not None or is_small(catalog, seen, past):
            return
        work = partial(review, catalog, dict(seen), trusted=trusted, past=past)
        stamp = self._stamp
        made = await trio.to_thread.run_sync(work)
        # What was pinned or forgotten meanwhile is seen by the next review, which has little left to do.
        self._keep(filed, _Made(trusted, made, counts=stamp == self._stamp))

    def _past(self, filed: Filed) -> tuple[Review, ...]:
        return tuple(made.review for made in reversed(self._reviews.get(filed, ())))

    def _keep(self, filed: Filed, made: _Made) -> _Made:
        kept = self._reviews.setdefault(filed, [])
        kept.append(made)
        del kept[:-_KEPT]
        while len(kept) > 1 and sum(each.review.size for each in kept) > _BYTES:
            del kept[0]
        return made

    def put(self, server: Server, seen: Iterable[tuple[Place, bytes]]) -> Mapping[Place, Pin]:
        """Pin definitions as they are, all or none, in place of what was pinned; returns those that were not
        pinned so before. Raises Failure("not_writable")."""
        new = _pinned(self._now(), self._other(server, seen))
        self._put(server, new)
        return new

    async def follow(self, server: Server, seen: Iterable[tuple[Place, bytes]]) -> Mapping[Place, Pin]:
        """The same for what a server tells and nobody looks at, some at a time, and no more than fits: those
        that a person has seen stay, however many others come. Raises Failure("not_writable")."""
        had = dict(self.of(server))
        other = self._other(server, seen)
        room = _ROOM - sum(len(pin.definition) + _EACH for pin in had.values()) if other else 0
        new: dict[Place, Pin] = {}
        for at in range(0, len(other), _AT_ONCE):
            part = []
            for place, definition in other[at : at + _AT_ONCE]:
                before = had.get(place)
                takes = len(definition) - (-_EACH if before is None else len(before.definition))
                # What somebody has pinned meanwhile stays.
                if takes <= room and self.of(server).get(place) is before:
                    room -= takes
                    part.append((place, definition))
            pinned = _pinned(self._now(), part)
            self._put(server, pinned)
            new |= pinned
            await trio.lowlevel.checkpoint()
        return new

    def _other(self, server: Server, seen: Iterable[tuple[Place, bytes]]) -> list[tuple[Place, bytes]]:
        """Those that are not pinned like that."""
        had = self.of(server)
        return [
            (place, definition)
            for place, definition in seen
            if (pin := had.get(place)) is None or pin.definition != definition
        ]

    def _put(self, server: Server, new: Mapping[Place, Pin]) -> None:
        filed = _filed(server)
        if new:
            rows = [
                (*filed, *place, pin.digest, pin.definition.decode("utf-8", "replace"), pin.pinned_at)
                for place, pin in new.items()
            ]
            statements = [_inserted(rows[at : at + _ROWS]) for at in range(0, len(rows), _ROWS)]
            self._store.write(f'pin definitions of server "{server.name}"', *statements)
            self._pins.setdefault(filed, {}).update(new)
            self._stamp += 1
            for made in self._reviews.get(filed, ()):
                made.counts = False

    def filed(self, name: str) -> bool:
        """Whether anything is pinned for a server of this name, wherever it was then."""
        return any(filed.server == name for filed in self._pins)

    def forget(self, name: str) -> None:
        """Drop what is pinned for a server of this name. Raises Failure("not_writable"); less counts all the
        same: what is unknown is asked for."""
        self._stamp += 1
        self._pins = {filed: each for filed, each in self._pins.items() if filed.server != name}
        self._reviews = {filed: each for filed, each in self._reviews.items() if filed.server != name}
        self._store.write(f'forget what is pinned for "{name}"', (_DROP, (name,)))


def _inserted(rows: Sequence[tuple[object, ...]]) -> Statement:
    return _PUT + ", ".join([_ROW] * len(rows)), [value for row in rows for value in row]


def _pinned(now: float, seen: Iterable[tuple[Place, bytes]]) -> dict[Place, Pin]:
    return {place: Pin(pins.digest(place.kind, definition), definition, now) for place, definition in seen}


def _filed(server: Server) -> Filed:
    return Filed(server.name, server.destination)
