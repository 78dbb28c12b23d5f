"""What launchers were found to start (n09), by name and destination of their server (n24)."""

from __future__ import annotations

import json
import time
from typing import NamedTuple

from mcpd.config.accepted import Launched
from mcpd.config.spec import Hold, Server
from mcpd.consent.store import Store

_PUT = "insert or replace into launched values (?, ?, ?, ?, ?, ?, ?)"


class _Row(NamedTuple):
    accepted: Launched
    found: Launched | None
    """What has taken its place and is not accepted."""


class LaunchBook:
    """The only owner of the table."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[tuple[str, str], _Row] = {}
        query = "select server, destination, place, digest, words, found from launched"
        for server, destination, place, digest, words, found in store.rows(query):
            self._rows[server, destination] = _Row(Launched(_place(place), digest, words), _launch(found))

    def known(self, server: Server) -> Launched | None:
        """What was accepted last."""
        row = self._rows.get((server.name, server.destination))
        return row.accepted if row is not None else None

    def news(self, server: Server) -> Launched | None:
        """What has taken its place and waits for a person."""
        row = self._rows.get((server.name, server.destination))
        return row.found if row is not None else None

    def held(self, server: Server) -> Hold | None:
        """Why the server must not run; None when it may."""
        row = self._rows.get((server.name, server.destination))
        if row is None or row.found is None:
            return None
        return Hold(server.name, f'"{row.accepted.words}" became "{row.found.words}"', "accept")

    def note(self, server: Server, found: Launched, *, filed: bool) -> None:
        """What its command starts now. Where a person has agreed to anything about the server (`filed`),
        something else than before waits for them; otherwise it is taken. Raises Failure("not_writable"):
        what waits does so all the same."""
        key = (server.name, server.destination)
        row = self._rows.get(key)
        if row is None or not filed or row.accepted.digest == found.digest:
            self._put(key, _Row(found, None))
        else:
            self._put(key, row._replace(found=found))

    def accept(self, server: Server) -> None:
        """Raises Failure("not_writable"): it goes on waiting then."""
        key = (server.name, server.destination)
        row = self._rows.get(key)
        if row is not None and row.found is not None:
            self._write(key, _Row(row.found, None))
            self._rows[key] = _Row(row.found, None)

    def forget(self, name: str) -> None:
        """Raises Failure("not_writable"); it is forgotten all the same."""
        known = [key for key in self._rows if key[0] == name]
        for key in known:
            del self._rows[key]
        if known:
            self._store.write(
                f'forget what "{name}" was found to start',
                ("delete from launched where server = ?", (name,)),
            )

    def _put(self, key: tuple[str, str], row: _Row) -> None:
        if self._rows.get(key) != row:
            self._rows[key] = row
            self._write(key, row)

    def _write(self, key: tuple[str, str], row: _Row) -> None:
        place, digest, words = row.accepted
        found = json.dumps(row.found) if row.found is not None else ""
        self._store.write(
            f'keep what "{key[0]}" was found to start',
            (_PUT, (*key, json.dumps(place), digest, words, found, time.time())),
        )


def _place(text: str) -> tuple[str, ...]:
    try:
        return tuple(map(str, json.loads(text)))
    except (ValueError, TypeError, RecursionError):
        return ()


def _launch(text: str) -> Launched | None:
    """Empty for none; what cannot be read is something that is not known, and waits."""
    if not text:
        return None
    try:
        place, digest, words = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return Launched((), "", "something unreadable")
    return Launched(tuple(map(str, place)), str(digest), str(words))
