"""The definitions that people have seen, in state.db, filed under server and destination (n09, n24)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from mcpd.catalog.tool import Catalog
from mcpd.config.spec import Server
from mcpd.consent.store import Statement, Store
from mcpd.policy import pins
from mcpd.policy.review import Pin, Pins, Place, Review, review

_PUT: Final = "insert or replace into pins values (?, ?, ?, ?, ?, ?, ?)"
_DROP: Final = "delete from pins where server = ?"

#: Reviews kept of a server and destination: instances of one server may differ in what they offer.
_KEPT: Final = 4

_NONE: Final[Pins] = {}


class Filed(NamedTuple):
    """Where a server's pins are filed."""

    server: str
    destination: str


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
        self._reviews: dict[Filed, list[tuple[bool, Review]]] = {}
        """The newest last; each was made with the pins that count now."""

    def of(self, server: Server) -> Pins:
        """The pins that count for a server as it is defined now."""
        return self._pins.get(_filed(server), _NONE)

    def review(self, server: Server, catalog: Catalog, *, trusted: bool) -> Review:
        """The catalogue beside its pins; made once for each, and then only looked up."""
        filed = _filed(server)
        kept = self._reviews.setdefault(filed, [])
        for was_trusted, made in kept:
            if made.live is catalog and was_trusted == trusted:
                return made
        made = review(catalog, self._pins.get(filed, _NONE), trusted=trusted)
        kept.append((trusted, made))
        del kept[:-_KEPT]
        return made

    def put(self, server: Server, seen: Iterable[tuple[Place, bytes]]) -> Mapping[Place, Pin]:
        """Pin definitions as they are, all or none, in place of what was pinned; returns those that were not
        pinned so before. Raises Failure("not_writable")."""
        filed = _filed(server)
        had = self._pins.get(filed, _NONE)
        now = self._now()
        new = {
            place: Pin(pins.digest(place.kind, definition), definition, now)
            for place, definition in seen
            if (pin := had.get(place)) is None or pin.definition != definition
        }
        if new:
            statements: list[Statement] = [
                (_PUT, (*filed, *place, pin.digest, pin.definition.decode("utf-8", "replace"), now))
                for place, pin in new.items()
            ]
            self._store.write(f'pin definitions of server "{server.name}"', *statements)
            self._pins.setdefault(filed, {}).update(new)
            self._reviews.pop(filed, None)
        return new

    def filed(self, name: str) -> bool:
        """Whether anything is pinned for a server of this name, wherever it was then."""
        return any(filed.server == name for filed in self._pins)

    def forget(self, name: str) -> None:
        """Drop what is pinned for a server of this name. Raises Failure("not_writable"); less counts all the
        same: what is unknown is asked for."""
        self._pins = {filed: each for filed, each in self._pins.items() if filed.server != name}
        self._reviews = {filed: each for filed, each in self._reviews.items() if filed.server != name}
        self._store.write(f'forget what is pinned for "{name}"', (_DROP, (name,)))


def _filed(server: Server) -> Filed:
    return Filed(server.name, server.destination)
