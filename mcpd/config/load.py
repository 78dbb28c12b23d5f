"""Reading the user's files: config.toml, one server per file, one agent per file (a07).

Loading returns what it could read and a list of problems; one bad entry never hides the
good ones. Only a config.toml that cannot be read at all is different: it holds limits
(policies, allowlists), so nothing is used without it. Order: the inline servers first,
then `servers_dir` by file name; the first definition of a server's name counts. An agent
that is defined twice may use nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mcpd.caller import DEFAULT_AGENT
from mcpd.catalog.names import prefix
from mcpd.config import fields
from mcpd.config.definition import read_server
from mcpd.config.entry import closed_agent, read_agent, read_override, read_policies, read_settings
from mcpd.config.executable import located
from mcpd.config.expand import BadReference, UnsetVariable, expand, variables
from mcpd.config.fields import Fault
from mcpd.config.spec import (
    AGENTS_DIR,
    MAIN,
    SERVERS_DIR,
    Agent,
    Config,
    Faulty,
    Policy,
    Problem,
    Server,
    Settings,
)
from mcpd.config.toml import Draft, Unreadable, read_toml
from mcpd.errors import Failure

MAX_FILES = 1000
"""Files read from one folder."""

_TABLES = ("schema", "servers_dir", "defaults", "servers", "tool_policies", "agents", "overrides")
_LATER = frozenset({"tool_profiles", "secrets"})


def load(config_dir: Path, environ: Mapping[str, str], servers_dir: str = "") -> Config:
    """What the files say at the start of the daemon; never fails. `servers_dir`: see `reload`.

    With a broken config.toml nothing may be used, for what it denies is not known: the servers of
    the usual folder are listed as faulty, so that the daemon can say why it does nothing else.
    """
    try:
        return reload(config_dir, environ, Path(servers_dir) if servers_dir else None)
    except Failure as failure:
        problem = Problem(failure.data["file"], failure.data["place"], failure.data["reason"])
        folder = config_dir / SERVERS_DIR
        found = _Found(str(config_dir / MAIN), environ)
        for file in found.folder(folder):
            found.server_file(file)
        why = "it is not used while config.toml cannot be read; mend that, then run mcpctl reload"
        closed = {s.name: Faulty(s.name, s.source, "bad_definition", why) for s in found.servers.values()}
        return Config(
            settings=Settings(servers_dir=str(folder)),
            faulty={**closed, **found.faulty},
            problems=(problem, *found.problems),
            whole=False,
        )


def reload(
    config_dir: Path,
    environ: Mapping[str, str],
    servers_dir: Path | None = None,
    draft: Draft | None = None,
) -> Config:
    """What the files say now. `servers_dir`: read the servers' files there, whatever the setting says.

    `draft`: what they would say if one of them, or a new one, were that. Raises
    Failure("config_invalid") with `file`, `place` and `reason` when config.toml cannot be read:
    the caller keeps what it has.
    """
    main = read_main(config_dir, draft)
    found = _Found(str(config_dir / MAIN), environ, draft)
    settings = found.settings(main, config_dir)
    policies = found.policies(main)
    found.inline(main)
    for file in found.folder(servers_dir or Path(settings.servers_dir)):
        found.server_file(file)
    for file in found.folder(config_dir / AGENTS_DIR):
        found.agent_file(file)
    found.override(main.get("overrides", {}))
    return Config(
        settings=settings,
        servers=found.servers,
        faulty=found.faulty,
        agents=found.agents,
        tool_policies=policies,
        problems=tuple(found.problems),
    )


def read_main(config_dir: Path, draft: Draft | None = None) -> dict[str, Any]:
    """config.toml as TOML; without one, an empty table. Raises Failure("config_invalid")."""
    path = config_dir / MAIN
    try:
        main = read_toml(path, draft)
        if "schema" in main:
            try:
                fields.schema(main["schema"], "schema")
            except fields.Misfit as misfit:
                raise Unreadable("schema", misfit.faults[0].message) from None
    except FileNotFoundError:
        return {}
    except Unreadable as error:
        where = f"{error.place}: " if error.place else ""
        raise Failure(
            "config_invalid",
            f'cannot read "{path}": {where}{error.message}',
            hint="mend the file, then run mcpctl reload",
            file=str(path),
            place=error.place,
            reason=error.message,
        ) from None
    return main


class _Found:
    """What one loading has found so far. Only `reload` uses it."""

    def __init__(self, main_file: str, environ: Mapping[str, str], draft: Draft | None = None) -> None:
        self.main_file = main_file
        self.draft = draft
        self.environ = environ
        self.values = variables(environ)
        self.servers: dict[str, Server] = {}
        self.faulty: dict[str, Faulty] = {}
        self.heads: dict[str, str] = {}
        """What the names of a server's tools begin with -> the server."""
        self.agents: dict[str, Agent] = {}
        self.problems: list[Problem] = []

    def note(self, file: str, *faults: Fault) -> None:
        self.problems.extend(Problem(file, fault.place, fault.message) for fault in faults)

    # config.toml

    def settings(self, main: dict[str, Any], config_dir: Path) -> Settings:
        known = dict.fromkeys(_TABLES, lambda value, place: value)
        self.note(self.main_file, *fields.read_table(main, "", known, _LATER).faults)
        settings, faults = read_settings(main.get("defaults", {}), "defaults")
        self.note(self.main_file, *faults)
        return replace(settings, servers_dir=str(self._servers_dir(main, config_dir)))

    def _servers_dir(self, main: dict[str, Any], config_dir: Path) -> Path:
        """The folder of drop-in files; one that cannot be read as a setting holds no servers."""
        written = main.get("servers_dir", SERVERS_DIR)
        try:
            return config_dir / expand(fields.text(written, "servers_dir"), self.values)
        except fields.Misfit as misfit:
            self.note(self.main_file, *misfit.faults)
        except UnsetVariable as missing:
            self.note(self.main_file, Fault("servers_dir", f'the variable "{missing}" is not set'))
        except BadReference as error:
            self.note(self.main_file, Fault("servers_dir", str(error)))
        return Path(os.devnull)

    def policies(self, main: dict[str, Any]) -> tuple[tuple[str, Policy], ...]:
        policies, faults = read_policies(main.get("tool_policies", {}), "tool_policies")
        self.note(self.main_file, *faults)
        return policies

    def inline(self, main: dict[str, Any]) -> None:
        for name, table, place in self._entries(main, "servers"):
            self.server(name, self.main_file, table, place)
        if not isinstance(main.get("agents", {}), dict):
            self._add_agent(closed_agent(DEFAULT_AGENT, self.main_file))
        for name, table, place in self._entries(main, "agents"):
            self.agent(name, self.main_file, table, place)

    def _entries(self, main: dict[str, Any], key: str) -> Iterator[tuple[str, object, str]]:
        value = main.get(key, {})
        if not isinstance(value, dict):
            self.note(self.main_file, Fault(key, f"expected a table, found {fields.kind(value)}"))
            return
        for name, table in value.items():
            yield name, table, fields.join(key, name)

    def override(self, overrides: object) -> None:
        """`[overrides.NAME]` can switch off what another file leaves on, and say who is trusted (b30)."""
        for name, table, place in self._entries({"overrides": overrides}, "overrides"):
            said, faults = read_override(table, place)
            self.note(self.main_file, *faults)
            server, faulty = self.servers.get(name), self.faulty.get(name)
            if server is not None:
                server = replace(server, trusted=said.trusted)
                if server.enabled and not said.enabled:
                    server = replace(server, enabled=False, disabled_by=self.main_file)
                self.servers[name] = server
            elif faulty is None:
                self.note(self.main_file, Fault(place, "there is no server of this name"))
            elif not said.enabled:
                self.faulty[name] = replace(faulty, disabled_by=self.main_file)

    # Folders

    def folder(self, path: Path) -> Iterator[Path]:
        """The TOML files of a folder by name; hidden ones are somebody's unfinished work."""
        new = {self.draft.file.name} if self.draft and self.draft.file.parent == path else set()
        try:
            names = sorted(
                name
                for name in {*os.listdir(path), *new}
                if name.endswith(".toml") and not name.startswith(".")
            )
        except (FileNotFoundError, NotADirectoryError):
            names = sorted(new)
        except OSError as error:
            self.note(str(path), Fault("", f"cannot read the folder: {error.strerror or error}".lower()))
            return
        if len(names) > MAX_FILES:
            self.note(str(path), Fault("", f"only the first {MAX_FILES} of {len(names)} files are read"))
        for name in names[:MAX_FILES]:
            if _is_text(name):
                yield path / name
            else:
                shown = os.fsencode(name).decode("utf-8", "backslashreplace")
                self.note(str(path), Fault("", f'cannot use the file "{shown}": its name is not UTF-8 text'))

    def server_file(self, file: Path) -> None:
        table = self._read(file, lambda fault: self._add_server(_broken(file, fault)))
        if table is not None:
            self.server(file.stem, str(file), table, "")

    def agent_file(self, file: Path) -> None:
        table = self._read(file, lambda fault: self._add_agent(closed_agent(file.stem, str(file))))
        if table is not None:
            self.agent(file.stem, str(file), table, "")

    def _read(self, file: Path, broken: Callable[[Fault], object]) -> dict[str, Any] | None:
        try:
            return read_toml(file, self.draft)
        except FileNotFoundError:
            # Removed since the folder was read, or a link that leads nowhere.
            if not file.is_symlink():
                return None
            fault = Fault("", "it is a link to a file that does not exist")
        except Unreadable as error:
            fault = Fault(error.place, error.message)
        self.note(str(file), fault)
        broken(fault)
        return None

    # Entries

    def server(self, name: str, source: str, table: object, place: str) -> None:
        checked = read_server(name, source, table, place, self.values)
        server = checked.server
        if self._add_server(located(server, self.environ) if isinstance(server, Server) else server):
            self.note(source, *checked.faults)

    def _add_server(self, server: Server | Faulty) -> bool:
        first = self.servers.get(server.name) or self.faulty.get(server.name)
        if first is not None:
            self.note(
                server.source, Fault("", f'the server "{server.name}" is already defined in {first.source}')
            )
            return False
        server = self._own_names(server)
        if isinstance(server, Server):
            self.servers[server.name] = server
        else:
            self.faulty[server.name] = server
        return True

    def _own_names(self, server: Server | Faulty) -> Server | Faulty:
        """The server, unless its tools' names could mean another's as well: a dot becomes "_" there (c05)."""
        first = self.heads.setdefault(prefix(server.name), server.name)
        if first == server.name or isinstance(server, Faulty):
            return server
        message = f'its tools would have the same names as those of the server "{first}"'
        self.note(server.source, Fault(fields.join("servers", server.name), message))
        return Faulty(server.name, server.source, "bad_definition", message)

    def agent(self, name: str, source: str, table: object, place: str) -> None:
        agent, faults = read_agent(name, source, table, place)
        self.note(
            source,
            *(replace(fault, message=f"{fault.message}; the agent may use nothing") for fault in faults),
        )
        self._add_agent(agent)

    def _add_agent(self, agent: Agent | None) -> None:
        """Defined twice, an agent may use nothing: which entry holds its limits is not for mcpd to guess."""
        if agent is None:
            return
        first = self.agents.get(agent.name)
        if first is None:
            self.agents[agent.name] = agent
            return
        twice = f'the agent "{agent.name}" is defined twice, in {first.source} and in {agent.source}'
        for entry in (first, agent):
            place = fields.join("agents", agent.name) if Path(entry.source).name == MAIN else ""
            self.note(entry.source, Fault(place, f"{twice}; it may use nothing"))
        self.agents[agent.name] = Agent(name=agent.name, source=first.source, allowed_tools=())


def _is_text(name: str) -> bool:
    """Whether the name of a file can be shown and sent: the file system takes any bytes."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _broken(file: Path, fault: Fault) -> Faulty:
    return Faulty(file.stem, str(file), "bad_definition", str(fault))
