"""What people have switched, accepted and handed out: servers, definitions, the endpoint and its tokens
(b31, a03, n23).

Everything is read once, when the book is made; each change is written through before it counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from mcpd.api.endpoint import PORT
from mcpd.consent.store import Store
from mcpd.errors import Failure

_PUT = "insert or replace into servers values (?, ?, ?, ?)"


class _Row(NamedTuple):
    enabled: bool = True
    accepted: str | None = None


class Token(NamedTuple):
    """What is kept of an agent's token."""

    digest: bytes
    made_at: float
    """Seconds since the epoch."""


class EndpointSwitch(NamedTuple):
    """Whether the endpoint is to listen, and on which port; 0 is any free one."""

    enabled: bool = False
    port: int = PORT


class StateBook:
    """The only owner of these tables of state.db."""

    def __init__(self, store: Store) -> None:
        self._store = store
        rows = store.rows("select name, enabled, accepted_digest from servers")
        self._unwritten: set[str] = set()
        """Servers that are off here and, by the file, on."""
        self._rows = {name: _Row(bool(enabled), digest) for name, enabled, digest in rows}
        tokens = store.rows("select agent, digest, made_at from tokens")
        self._tokens = {agent: Token(bytes(digest), made_at) for agent, digest, made_at in tokens}
        switches = store.rows("select enabled, port from endpoint")
        self._endpoint = EndpointSwitch()
        for enabled, port in switches:
            self._endpoint = EndpointSwitch(bool(enabled), port)

    def switched_off(self) -> frozenset[str]:
        """The servers that `mcpctl disable` has switched off."""
        return frozenset(name for name, row in self._rows.items() if not row.enabled)

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Switch a server on or off. Raises Failure("not_writable"): on is as before then.

        Off counts all the same, as long as this process lives: a full disk must not keep a server running.
        """
        row = self._row(name)._replace(enabled=enabled)
        try:
            self._put(name, row)
        except Failure:
            if not enabled:
                self._rows[name] = row
                self._unwritten.add(name)
            raise

    def accepted(self, name: str) -> str | None:
        """The digest of the definition that was accepted last."""
        return self._row(name).accepted

    def accept(self, name: str, digest: str) -> None:
        """Remember a definition as accepted. Raises Failure("not_writable")."""
        self._put(name, self._row(name)._replace(accepted=digest))

    def accept_all(self, digests: Mapping[str, str]) -> None:
        """Remember definitions as accepted, all or none. Raises Failure("not_writable")."""
        rows = {name: self._row(name)._replace(accepted=digest) for name, digest in digests.items()}
        rows = {name: row for name, row in rows.items() if self._rows.get(name) != row}
        if not rows:
            return
        now = time.time()
        puts = [(_PUT, (name, row.enabled, row.accepted, now)) for name, row in rows.items()]
        self._store.write("keep what was accepted", *puts)
        self._rows.update(rows)
        self._unwritten -= rows.keys()

    def forget(self, name: str) -> None:
        """Drop all that is known of a server. Raises Failure("not_writable")."""
        if name in self._rows:
            self._store.write(
                f'forget the server "{name}"', ("delete from servers where name = ?", (name,))
            )
            del self._rows[name]
            self._unwritten.discard(name)

    @property
    def tokens(self) -> Mapping[str, Token]:
        """Agent -> its token; also of agents that the configuration does not know any more."""
        return self._tokens

    def put_token(self, agent: str, digest: bytes) -> None:
        """Remember the agent's token in place of an older one. Raises Failure("not_writable")."""
        token = Token(digest, time.time())
        what = f'keep the token of agent "{agent}"'
        self._store.write(what, ("insert or replace into tokens values (?, ?, ?)", (agent, *token)))
        self._tokens[agent] = token

    def forget_token(self, agent: str) -> None:
        """Raises Failure("not_writable"); as with `set_enabled`, less counts all the same."""
        self._tokens.pop(agent, None)
        what = f'forget the token of agent "{agent}"'
        self._store.write(what, ("delete from tokens where agent = ?", (agent,)))

    @property
    def endpoint(self) -> EndpointSwitch:
        return self._endpoint

    def set_endpoint(self, enabled: bool, port: int) -> None:
        """Switch the endpoint. Raises Failure("not_writable"): off counts all the same, on does not."""
        switch = EndpointSwitch(enabled, port)
        if not enabled:
            self._endpoint = switch
        what = "keep whether the endpoint is enabled"
        self._store.write(what, ("insert or replace into endpoint values (1, ?, ?)", switch))
        self._endpoint = switch

    def _row(self, name: str) -> _Row:
        return self._rows.get(name, _Row())

    def _put(self, name: str, row: _Row) -> None:
        if self._rows.get(name) == row and name not in self._unwritten:
            return
        self._store.write(
            f'keep the state of the server "{name}"',
            (_PUT, (name, row.enabled, row.accepted, time.time())),
        )
        self._rows[name] = row
        self._unwritten.discard(name)
