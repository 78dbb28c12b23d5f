"""What people have switched, accepted and handed out: servers, definitions, the endpoint and its tokens
(b31, a03, n23).

The file is state.db. Everything is read once, when it is opened; each change is written
through to the disk before it counts and before the method returns: a few milliseconds
that may be spent in the trio thread, because people cause them, not calls.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from mcpd.api.endpoint import PORT
from mcpd.config.spec import Problem
from mcpd.database import Schema, open_database, reason
from mcpd.errors import Failure

_SERVERS = """
    create table servers (
        name text primary key,
        enabled integer not null,
        accepted_digest text,
        changed_at real not null
    )
"""
#: Of the endpoint there is one row at most.
_ENDPOINT = """
    create table tokens (
        agent text primary key,
        digest blob not null,
        made_at real not null
    );
    create table endpoint (
        number integer primary key check (number = 1),
        enabled integer not null,
        port integer not null
    )
"""

SCHEMA = Schema(
    version=2,
    script=f"{_SERVERS}; {_ENDPOINT}",
    probe="""
    select servers.name, servers.enabled, accepted_digest, changed_at, agent, digest, made_at, number, port
    from servers, tokens, endpoint limit 1
    """,
    steps={1: _ENDPOINT},
)
#: With the rollback journal a commit is on the disk, and the database is one file.
_PRAGMAS = ("journal_mode = delete", "synchronous = full")


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
    """The only owner of state.db. Not for use by several threads at once.

    Raises Failure when it is made: "refused" for a file of a newer version,
    "not_writable". A damaged file is set aside, nothing in it counts, and `problems`
    says so.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection, aside = open_database(path, SCHEMA, _PRAGMAS)
        self.problems: tuple[Problem, ...] = ()
        if aside is not None:
            what = "damaged: what was switched off or accepted in it is forgotten"
            self.problems = (Problem(str(path), "", f"{what}; it is now {aside}"),)
        rows = self._connection.execute("select name, enabled, accepted_digest from servers")
        self._unwritten: set[str] = set()
        """Servers that are off here and, by the file, on."""
        self._rows = {name: _Row(bool(enabled), digest) for name, enabled, digest in rows}
        tokens = self._connection.execute("select agent, digest, made_at from tokens")
        self._tokens = {agent: Token(bytes(digest), made_at) for agent, digest, made_at in tokens}
        switch = self._connection.execute("select enabled, port from endpoint").fetchone()
        self._endpoint = EndpointSwitch(bool(switch[0]), switch[1]) if switch else EndpointSwitch()

    def close(self) -> None:
        self._connection.close()

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
        what = "keep what was accepted"
        self._write(what, "begin immediate", ())
        try:
            for name, row in rows.items():
                self._write(what, _PUT, (name, row.enabled, row.accepted, now))
            self._write(what, "commit", ())
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise
        self._rows.update(rows)
        self._unwritten -= rows.keys()

    def forget(self, name: str) -> None:
        """Drop all that is known of a server. Raises Failure("not_writable")."""
        if name in self._rows:
            self._write(f'forget the server "{name}"', "delete from servers where name = ?", (name,))
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
        self._write(what, "insert or replace into tokens values (?, ?, ?)", (agent, *token))
        self._tokens[agent] = token

    def forget_token(self, agent: str) -> None:
        """Raises Failure("not_writable"); as with `set_enabled`, less counts all the same."""
        self._tokens.pop(agent, None)
        what = f'forget the token of agent "{agent}"'
        self._write(what, "delete from tokens where agent = ?", (agent,))

    @property
    def endpoint(self) -> EndpointSwitch:
        return self._endpoint

    def set_endpoint(self, enabled: bool, port: int) -> None:
        """Switch the endpoint. Raises Failure("not_writable"): off counts all the same, on does not."""
        switch = EndpointSwitch(enabled, port)
        if not enabled:
            self._endpoint = switch
        what = "keep whether the endpoint is enabled"
        self._write(what, "insert or replace into endpoint values (1, ?, ?)", switch)
        self._endpoint = switch

    def _row(self, name: str) -> _Row:
        return self._rows.get(name, _Row())

    def _put(self, name: str, row: _Row) -> None:
        if self._rows.get(name) == row and name not in self._unwritten:
            return
        self._write(
            f'keep the state of the server "{name}"',
            _PUT,
            (name, row.enabled, row.accepted, time.time()),
        )
        self._rows[name] = row
        self._unwritten.discard(name)

    def _write(self, what: str, statement: str, values: Sequence[object]) -> None:
        try:
            self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise Failure("not_writable", f"cannot {what}: {self._path}: {reason(error)}") from error
