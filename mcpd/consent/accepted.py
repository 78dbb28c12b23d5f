"""The configuration that was accepted last: by the first start, by `reload`, `add` and `accept`, and by the
watcher where it narrows (a03).

What a start finds in the files is compared with it, so that what was written while no daemon ran waits like
what is written under one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Mapping
from typing import Any, Final

import msgspec

from mcpd.config.accepted import Accepted, of, still_accepted
from mcpd.config.spec import Agent, Config, Server, Settings
from mcpd.consent.store import Statement, Store
from mcpd.policy.terms import Policy

log = logging.getLogger(__name__)

_Policies = tuple[tuple[str, Policy], ...]
_TYPES: Final[Mapping[str, Any]] = {
    "server": Server,
    "agent": Agent,
    "policies": _Policies,
    "settings": Settings,
}
_PUT = "insert or replace into accepted values (?, ?, ?, ?, ?, ?)"
_DROP = "delete from accepted where kind = ? and name = ?"

_Key = tuple[str, str]
"""Kind and name; what there is once has the name ""."""


class AcceptedBook:
    """The only owner of the table. A row that cannot be read is none: what it was about waits."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[_Key, tuple[str, str, str]] = {}
        """Digest, destination and JSON text, the first two of servers alone."""
        self._servers: dict[str, Accepted] = {}
        self._others: dict[_Key, Any] = {}
        for kind, name, *row in store.rows("select kind, name, digest, destination, value from accepted"):
            self._rows[kind, name] = (row[0], row[1], row[2])
            try:
                value = msgspec.json.decode(row[2], type=_TYPES[kind])
            except (KeyError, msgspec.MsgspecError, RecursionError) as error:
                log.warning("what was accepted of %s %s is not used: %s", kind, name, error)
                continue
            if kind == "server":
                self._servers[name] = Accepted(value, row[0], row[1])
            else:
                self._others[kind, name] = value

    @property
    def empty(self) -> bool:
        """Nothing was ever accepted."""
        return not self._rows

    @property
    def servers_dir(self) -> str:
        """The folder of servers' files that counts; empty where that was never settled."""
        return self._settings.servers_dir

    @property
    def _settings(self) -> Settings:
        found: Settings = self._others.get(("settings", ""), Settings())
        return found

    def server(self, name: str) -> Accepted | None:
        return self._servers.get(name)

    @property
    def servers(self) -> Mapping[str, Accepted]:
        return self._servers

    def config(self, read: Config) -> Config:
        """What was accepted; of the servers those that `read` has as they were."""
        found = {
            name: server
            for name, known in self._servers.items()
            if name in read.servers and (server := still_accepted(known, read.servers[name]))
        }
        agents = {name: agent for (kind, name), agent in self._others.items() if kind == "agent"}
        policies: _Policies = self._others.get(("policies", ""), ())
        return Config(settings=self._settings, servers=found, agents=agents, tool_policies=policies)

    def put(self, config: Config, waiting: Container[str]) -> None:
        """Accept it all or nothing. `waiting`: names of servers that are not in it, because what the files
        say of them is not accepted; what was accepted before stays known. Raises Failure("not_writable")."""
        servers = {name: of(server) for name, server in config.servers.items()}
        others: dict[_Key, Any] = {("agent", name): agent for name, agent in config.agents.items()}
        others["policies", ""] = config.tool_policies
        others["settings", ""] = config.settings
        rows = {key: ("", "", _text(value)) for key, value in others.items()}
        rows |= {("server", name): _row(known) for name, known in servers.items()}
        gone = [
            (kind, name)
            for kind, name in self._rows.keys() - rows.keys()
            if kind != "server" or not (name in config.faulty or name in waiting)
        ]
        self._write({key: row for key, row in rows.items() if self._rows.get(key) != row}, gone)
        self._rows = {key: row for key, row in self._rows.items() if key not in gone} | rows
        self._servers = {
            name: known for name, known in self._servers.items() if ("server", name) not in gone
        } | servers
        self._others = others

    def put_server(self, server: Server) -> None:
        """Accept one definition. Raises Failure("not_writable")."""
        known = of(server)
        self._write({("server", server.name): _row(known)}, [])
        self._rows["server", server.name] = _row(known)
        self._servers[server.name] = known

    def forget(self, name: str) -> None:
        """Drop what was accepted of a server. Raises Failure("not_writable"); it is dropped all the same."""
        self._servers.pop(name, None)
        if self._rows.pop(("server", name), None) is not None:
            self._write({}, [("server", name)])

    def _write(self, rows: Mapping[_Key, tuple[str, str, str]], gone: list[_Key]) -> None:
        now = time.time()
        statements: list[Statement] = [(_PUT, (*key, *row, now)) for key, row in rows.items()]
        statements += [(_DROP, key) for key in gone]
        if statements:
            self._store.write("keep what was accepted", *statements)


def _row(known: Accepted) -> tuple[str, str, str]:
    return known.digest, known.destination, _text(known.server)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
