"""Which servers' labels a person believes (b11-b13): trust, filed under name and destination (n24)."""

from __future__ import annotations

import time

from mcpd.config.spec import Server
from mcpd.consent.store import Store

_PUT = "insert or replace into trust values (?, ?, ?)"
_DROP = "delete from trust where server = ?"


class TrustBook:
    """The only owner of the table."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._trusted: set[tuple[str, str]] = set(store.rows("select server, destination from trust"))

    def trusted(self, server: Server) -> bool:
        """Whether what the server says of its tools may lower a risk. What config.toml says of it comes
        first (b30); `mcpctl trust` is for the destination that it was said about."""
        if server.trusted is not None:
            return server.trusted
        return bool(self._trusted) and (server.name, server.destination) in self._trusted

    def filed(self, name: str) -> bool:
        """Whether a server of this name was trusted, wherever it was then."""
        return any(server == name for server, _ in self._trusted)

    def trust(self, server: Server) -> None:
        """Raises Failure("not_writable"): it is not trusted then."""
        place = (server.name, server.destination)
        self._store.write(f'keep that "{server.name}" is trusted', (_PUT, (*place, time.time())))
        self._trusted.add(place)

    def untrust(self, name: str) -> None:
        """Of every destination. Raises Failure("not_writable"); less counts all the same."""
        self._trusted = {place for place in self._trusted if place[0] != name}
        self._store.write(f'forget that "{name}" is trusted', (_DROP, (name,)))
