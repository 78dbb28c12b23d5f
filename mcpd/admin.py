"""What the operator changes and asks: the verbs behind the control socket.

Verbs that change what runs hold `broker.editing`; see `applying`.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import msgspec
import trio
from msgspec.structs import replace

from mcpd import applying
from mcpd.api.masks import mask_env, mask_headers, mask_url
from mcpd.api.servers import (
    AddServer,
    InstanceInfo,
    LogLine,
    Logs,
    ServerDetails,
    ServerInfo,
    ServerTest,
    Timings,
)
from mcpd.api.status import Status
from mcpd.broker import Broker
from mcpd.catalog.names import server_name_problem
from mcpd.catalog.tool import Catalog
from mcpd.config import fields, save
from mcpd.config.executable import located
from mcpd.config.spec import Config, Faulty, Server
from mcpd.errors import Failure
from mcpd.policy.leaks.values import unmatched
from mcpd.upstream.upstream import Upstream

log = logging.getLogger(__name__)

# Looking


def list_servers(broker: Broker) -> tuple[ServerInfo, ...]:
    """Every server, in the order of the configuration."""
    off = broker.state.switched_off()
    return tuple(ServerInfo(**_info(broker, upstream, off)) for upstream in broker.fleet.all())


def get_server(broker: Broker, name: str) -> ServerDetails:
    """Raises Failure `no_such_server`."""
    upstream = broker.fleet.find(name)
    definition = upstream.definition
    server = definition if isinstance(definition, Server) else _blank(definition)
    relays = [each.relay for each in (upstream, *broker.fleet.instances(name))]
    return ServerDetails(
        **_info(broker, upstream, broker.state.switched_off()),
        env=mask_env(server.env),
        headers=mask_headers(server.headers),
        cwd=server.cwd,
        path=server.path,
        executable=server.executable,
        keeps=server.keeps,
        default_policy=applying.pins_of(server.policy),
        sampling=server.sampling,
        roots=server.roots,
        told=tuple(dict.fromkeys(word for relay in relays for word in relay.known)),
        takes_turns=any(relay.turns is not None for relay in relays),
        warnings=_warnings(broker.config, upstream),
    )


def server_logs(broker: Broker, name: str, lines: int) -> Logs:
    """Raises Failure `no_such_server`."""
    found = broker.fleet.logs(name, lines)
    return Logs(name, tuple(LogLine(at, text, str(scope)) for at, text, scope in found))


def status_of(broker: Broker, name: str) -> Status | None:
    """None when there is no such server any more."""
    return broker.fleet.status(name) if name in broker.fleet.names() else None


async def test_server(broker: Broker, name: str) -> ServerTest:
    """Connect on demand, wait for the outcome and tell it; a server that cannot be reached is an outcome.

    The wait has no limit of its own: every attempt has one (c12), and the asker can leave.
    Raises Failure `no_such_server`.
    """
    upstream = broker.fleet.find(name)
    error = hint = ""
    told: dict[str, Any] = {"revision": "", "server_info": {}, "capabilities": {}, "instructions": ""}
    try:
        settled = (await upstream.reach(math.inf)).settled
    except Failure as failure:
        error, hint = failure.message, failure.hint
    else:
        said = (settled.server_info, settled.capabilities, settled.instructions)
        server_info, capabilities, instructions = msgspec.json.decode(
            broker.held_values.json(msgspec.json.encode(said))
        )
        told = {
            "revision": settled.revision.name,
            "server_info": server_info,
            "capabilities": capabilities,
            "instructions": instructions,
        }
    status, catalog = upstream.status, upstream.catalog or Catalog()
    return ServerTest(
        server=name,
        ok=not error,
        error=error,
        hint=hint,
        status=status,
        tools=len(catalog.tools),
        resources=len(catalog.resources),
        templates=len(catalog.templates),
        prompts=len(catalog.prompts),
        warnings=_warnings(broker.config, upstream),
        timings=Timings() if error else _timings(upstream),
        **told,
    )


def _timings(upstream: Upstream) -> Timings:
    opening, total = upstream.opened_in, upstream.status.latency
    return Timings(open=opening, catalogue=max(0.0, total - opening), total=total)


def _info(broker: Broker, upstream: Upstream, off: frozenset[str]) -> dict[str, Any]:
    definition = upstream.definition
    server = definition if isinstance(definition, Server) else _blank(definition)
    return {
        "name": server.name,
        "source": server.source,
        "transport": "http" if server.url else "stdio" if server.command else "",
        "command": server.command,
        "args": server.args,
        "url": mask_url(server.url),
        "enabled": server.enabled and server.name not in off,
        "disabled_by": "" if server.enabled else server.disabled_by or server.source,
        "start": server.start,
        "instance": server.instance,
        "status": broker.fleet.status(server.name),
        "instances": () if server.instance == "shared" else _instances(broker, upstream),
        "held": upstream.held.words if upstream.held is not None else "",
        "step": upstream.held.command if upstream.held is not None else "",
        "trusted": isinstance(definition, Server) and broker.trust.trusted(definition),
    }


def _instances(broker: Broker, main: Upstream) -> tuple[InstanceInfo, ...]:
    own = () if main.resting else (main,)
    return tuple(
        InstanceInfo(
            kind="operator" if upstream.scope.kind == "shared" else upstream.scope.kind,
            of=upstream.scope.of,
            status=upstream.status,
        )
        for upstream in (*own, *broker.fleet.instances(main.name))
    )


def _blank(faulty: Faulty) -> Server:
    """All that can be shown of a definition that cannot be used."""
    return Server(name=faulty.name, source=faulty.source)


def _warnings(config: Config, upstream: Upstream) -> tuple[str, ...]:
    """What is wrong with its entry in the files, and with its catalogue."""
    source = upstream.definition.source
    own_file = Path(source).parent == Path(config.settings.servers_dir)
    entry = config.problems_of(source, "" if own_file else fields.join("servers", upstream.name))
    server = upstream.definition
    plain = tuple(unmatched(server.env, server.headers)) if isinstance(server, Server) else ()
    return entry + plain + (upstream.catalog.warnings if upstream.catalog else ())


# Changing one server


async def add_server(broker: Broker, wanted: AddServer) -> ServerInfo:
    """Write the definition, take it into the running set and connect once in the background (c07).

    Whatever else changed in the files keeps waiting for `reload`. Raises Failure `invalid_params`,
    `bad_definition`, `config_invalid`, `name_taken`, `not_writable`; no file is left behind then.
    """
    name = wanted.name
    async with broker.editing:
        servers_dir = Path(broker.config.settings.servers_dir)
        _check_wanted(broker, wanted, servers_dir)
        path = await trio.to_thread.run_sync(save.add_server, servers_dir, name, _file_fields(wanted))
        # The file is there: from here on the verb goes through, or takes it away again.
        with trio.CancelScope(shield=True):
            try:
                server = await _read_back(broker, wanted, path)
                _forget(broker, name)
                broker.accepted.put_server(server)
            except Failure:
                save.remove_server(servers_dir, name)
                raise
        running = broker.config
        applying.install(
            broker,
            replace(running, servers={**running.servers, name: server}),
            broker.held,
            broker.waiting,
        )
    return one(broker, name)


async def _read_back(broker: Broker, wanted: AddServer, path: Path) -> Server:
    """What the files now say about a server just written: what was asked for is accepted, no more."""
    found = await applying.read_files(broker)
    server = found.servers.get(wanted.name)
    asked = Server(
        name=wanted.name,
        source=str(path),
        command=wanted.command,
        args=wanted.args,
        cwd=wanted.cwd,
        path=wanted.path,
        url=wanted.url,
    )
    asked = located(asked, broker.environ)
    if server is None or server.source != str(path) or server.digest != asked.digest:
        raise Failure("bad_definition", f'cannot add "{wanted.name}": "{path}" does not read back as written')
    return server


def _check_wanted(broker: Broker, wanted: AddServer, servers_dir: Path) -> None:
    name = wanted.name
    problem = server_name_problem(name)
    if problem:
        raise Failure("invalid_params", f'cannot add "{name}": {problem}')
    if wanted.command and wanted.url:
        raise Failure("invalid_params", f'cannot add "{name}": it has both a command and a url')
    if not wanted.command and not wanted.url:
        raise Failure("invalid_params", f'cannot add "{name}": it has neither a command nor a url')
    for field, values in (("env", wanted.env), ("headers", wanted.headers)):
        if values:
            file = servers_dir / f"{name}.toml"
            raise Failure(
                "invalid_params",
                f'cannot add "{name}": there is no secret store for values of "{field}" yet',
                hint=f'add it without them, write them into "{file}" and run mcpctl reload',
                file=str(file),
            )
    # A dot becomes "_" in tool names, so "a.b" and "a_b" would be one server there (c05).
    flat = name.replace(".", "_")
    for upstream in broker.fleet.all():
        if upstream.name.lower().replace(".", "_") == flat:
            raise Failure(
                "name_taken",
                f'cannot add "{name}": "{upstream.name}" is defined in "{upstream.definition.source}"',
                hint="choose another name, or edit the file and run mcpctl reload,"
                f" or mcpctl remove {upstream.name}",
                server=upstream.name,
                file=upstream.definition.source,
            )


def _file_fields(wanted: AddServer) -> dict[str, Any]:
    """The fields of the file, without what only repeats a default."""
    table: dict[str, Any] = {"url": wanted.url} if wanted.url else {"command": wanted.command}
    if wanted.args:
        table["args"] = list(wanted.args)
    if wanted.cwd:
        table["cwd"] = wanted.cwd
    if wanted.path:
        table["path"] = wanted.path
    if wanted.start != "lazy":
        table["start"] = wanted.start
    if not wanted.enabled:
        table["enabled"] = False
    pins = wanted.default_policy
    policy: dict[str, Any] = {"risk": pins.risk, "approval": pins.approval, "timeout": pins.timeout}
    if pins.leaks is not None:
        policy["leaks"] = _given(arguments=pins.leaks.arguments, results=pins.leaks.results) or None
    policy = _given(**policy)
    if policy:
        table["default_policy"] = policy
    return table


def _given(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


async def remove_server(broker: Broker, name: str) -> str:
    """Stop the server and delete its file; the path of the file.

    Raises Failure `no_such_server`, and `not_writable` for a definition in a file that is the user's alone.
    """
    async with broker.editing:
        source = Path(broker.fleet.find(name).definition.source)
        servers_dir = Path(broker.config.settings.servers_dir)
        if source != servers_dir / f"{name}.toml":
            raise Failure(
                "not_writable",
                f'cannot remove "{name}": it is defined in "{source}", which only you write',
                hint="delete its entry there and run mcpctl reload, or run mcpctl disable",
                server=name,
                file=str(source),
            )
        removed = await trio.to_thread.run_sync(save.remove_server, servers_dir, name)
        running = broker.config
        applying.install(
            broker,
            replace(
                running,
                servers=applying.without(running.servers, name),
                faulty=applying.without(running.faulty, name),
            ),
            applying.without(broker.held, name),
            applying.without(broker.waiting, name),
        )
        try:
            _forget(broker, name)
        except Failure as failure:  # what counted is done, and what stays is of no use to another server
            log.warning("%s", failure.message)
    return str(removed)


def _forget(broker: Broker, name: str) -> None:
    """Whoever gets this name next begins anew. Raises Failure `not_writable`, once all that does not need the
    disk is forgotten."""
    broker.approvals.supersede(name)
    failed: list[Failure] = []
    for forget in (
        broker.accepted.forget,
        broker.trust.untrust,
        broker.launches.forget,
        broker.grants.forget,
        broker.pins.forget,
        broker.state.forget,
    ):
        try:
            forget(name)
        except Failure as failure:
            failed.append(failure)
    if failed:
        raise failed[0]


async def enable(broker: Broker, name: str) -> ServerInfo:
    """Undo `disable`. Where a file still says no, `disabled_by` of the answer names it (b31).

    Raises Failure `no_such_server`, and `refused` for a new definition that waits for `reload`.
    """
    async with broker.editing:
        broker.fleet.find(name)
        if name in broker.waiting:
            raise Failure(
                "refused",
                f'cannot enable "{name}": {broker.held[name].words}',
                hint=broker.held[name].command,
                server=name,
            )
        broker.state.set_enabled(name, True)
        applying.install(broker, broker.config, broker.held, broker.waiting)
    return one(broker, name)


async def disable(broker: Broker, name: str) -> ServerInfo:
    """Disconnect everywhere and stay off, over restarts too (c08).

    Raises Failure `no_such_server`, and `not_writable` when it is off only until the daemon ends.
    """
    async with broker.editing:
        broker.fleet.find(name)
        try:
            broker.state.set_enabled(name, False)
        finally:
            applying.install(broker, broker.config, broker.held, broker.waiting)
    return one(broker, name)


def reconnect(broker: Broker, name: str) -> ServerInfo:
    """End the connection and open a new one now (c15), of every instance that does not rest.

    Raises Failure `no_such_server`, `disabled`, `refused`.
    """
    upstream = broker.fleet.find(name)
    if upstream.status.state == "disabled":
        raise Failure(
            "disabled",
            f'cannot reconnect "{name}": it is disabled',
            hint=f"mcpctl enable {name}",
            server=name,
        )
    if name in broker.waiting:
        raise Failure(
            "refused",
            f'cannot reconnect "{name}": {broker.held[name].words}',
            hint=broker.held[name].command,
            server=name,
        )
    upstream.reconnect()
    for other in broker.fleet.instances(name):
        if other.status.state != "idle":
            other.reconnect()
    return one(broker, name)


def one(broker: Broker, name: str) -> ServerInfo:
    """Raises Failure `no_such_server`."""
    return ServerInfo(**_info(broker, broker.fleet.find(name), broker.state.switched_off()))
