"""What people have switched and handed out: servers, the endpoint and its tokens (b31, n23).

Everything is read once, when the book is made; each change is written through before it counts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from mcpd.api.endpoint import PORT
from mcpd.consent.store import Store
from mcpd.errors import Failure

_PUT = "insert or replace into servers values (?, ?, ?)"


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
        rows = store.rows("select name, enabled from servers")
        self._unwritten: set[str] = set()
        """Servers that are off here and, by the file, on."""
        self._enabled = {name: bool(enabled) for name, enabled in rows}
        tokens = store.rows("select agent, digest, made_at from tokens")
        self._tokens = {agent: Token(bytes(digest), made_at) for agent, digest, made_at in tokens}
        switches = store.rows("select enabled, port from endpoint")
        self._endpoint = EndpointSwitch()
        for enabled, port in switches:
            self._endpoint = EndpointSwitch(bool(enabled), port)

    def switched_off(self) -> frozenset[str]:
        """The servers that `mcpctl disable` has switched off."""
        return frozenset(name for name, enabled in self._enabled.items() if not enabled)

    def set_enabled(self, name: str, enabled: bool) -> None:
        """Switch a server on or off. Raises Failure("not_writable"): on is as before then.

        Off counts all the same, as long as this process lives: a full disk must not keep a server running.
        """
        if self._enabled.get(name) == enabled and name not in self._unwritten:
            return
        what = f'keep the state of the server "{name}"'
        try:
            self._store.write(what, (_PUT, (name, enabled, time.time())))
        except Failure:
            if not enabled:
                self._enabled[name] = False
                self._unwritten.add(name)
            raise
        self._enabled[name] = enabled
        self._unwritten.discard(name)

    def forget(self, name: str) -> None:
        """Drop all that is known of a server. Raises Failure("not_writable")."""
        if name in self._enabled:
            self._store.write(f'forget the server "{name}"', ("delete from servers where name = ?", (name,)))
            del self._enabled[name]
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
