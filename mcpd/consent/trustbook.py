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
        self._trusted: dict[str, set[str]] = {}
        """Destinations, by the server's name."""
        for name, destination in store.rows("select server, destination from trust"):
            self._trusted.setdefault(name, set()).add(destination)

    def trusted(self, server: Server) -> bool:
        """Whether what the server says of its tools may lower a risk. What config.toml says of it comes
        first (b30); `mcpctl trust` is for the destination that it was said about."""
        if server.trusted is not None:
            return server.trusted
        return server.name in self._trusted and server.destination in self._trusted[server.name]

    def filed(self, name: str) -> bool:
        """Whether a server of this name was trusted, wherever it was then."""
        return name in self._trusted

    def trust(self, server: Server) -> None:
        """Raises Failure("not_writable"): it is not trusted then."""
        row = (server.name, server.destination, time.time())
        self._store.write(f'keep that "{server.name}" is trusted', (_PUT, row))
        self._trusted.setdefault(server.name, set()).add(server.destination)

    def untrust(self, name: str) -> None:
        """Of every destination. Raises Failure("not_writable"); less counts all the same."""
        self._trusted.pop(name, None)
        self._store.write(f'forget that "{name}" is trusted', (_DROP, (name,)))
