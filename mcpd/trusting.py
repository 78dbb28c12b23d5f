"""What a person says of a server: that its labels may be believed (b11-b13), that a new destination is meant
(n24)."""

from __future__ import annotations

import hashlib
from functools import partial

import trio
from msgspec.structs import replace

from mcpd import applying, pinning
from mcpd.api.masks import mask_url
from mcpd.api.servers import Destination, Review
from mcpd.broker import Broker
from mcpd.catalog.tool import Catalog
from mcpd.config import accepted as terms
from mcpd.config.spec import Server
from mcpd.errors import Failure
from mcpd.upstream import launched
from mcpd.upstream.launch import environment
from mcpd.upstream.upstream import REACH


async def trust(broker: Broker, name: str) -> None:
    """Believe what the server says of its tools, at its present destination. It is asked for them first: what
    is trusted is what it says itself, not what a cache does.

    Raises Failure `no_such_server`, `refused`, `disabled`, `unavailable`, `needs_login`, `not_writable`.
    """
    upstream = broker.fleet.find(name)
    destination = _trustable(broker, name).destination
    await upstream.reach(REACH)
    async with broker.editing:
        server = _trustable(broker, name)
        if server.destination != destination:
            raise Failure("refused", f'cannot trust "{name}": it was changed meanwhile', server=name)
        # First, since what a trusted server says that is not pinned yet counts as new.
        await pinning.pin_all(broker, server, upstream.catalog or Catalog(), "the server is trusted")
        _trustable(broker, name)  # its launcher may have been found to start something else meanwhile
        broker.trust.trust(server)
        _decided_anew(broker, name)


def _trustable(broker: Broker, name: str) -> Server:
    hold, server = broker.held.get(name), broker.fleet.find(name).definition
    if not isinstance(server, Server):
        raise Failure("refused", f'cannot trust "{name}": its definition cannot be used', server=name)
    if hold is not None and (name in broker.waiting or hold.step == "accept"):
        raise Failure("refused", f'cannot trust "{name}": {hold.words}', hint=hold.command, server=name)
    if server.trusted is False:
        raise Failure(
            "refused",
            f'cannot trust "{name}": config.toml says trusted = false of it',
            hint=f"take that out of [overrides.{name}] and run mcpctl reload",
            server=name,
        )
    return server


def can_be_trusted(broker: Broker, name: str) -> bool:
    """Whether `trust` would change anything: the server is not trusted, and may be."""
    try:
        return not broker.trust.trusted(_trustable(broker, name))
    except Failure:
        return False


async def untrust(broker: Broker, name: str) -> None:
    """Believe it no more, wherever it leads. Raises Failure `no_such_server`, `refused`, `not_writable`."""
    async with broker.editing:
        server = broker.fleet.find(name).definition
        try:
            broker.trust.untrust(name)
        finally:
            _decided_anew(broker, name)
        if isinstance(server, Server) and server.trusted:
            raise Failure(
                "refused",
                f'"{name}" stays trusted: config.toml says trusted = true of it',
                hint=f"take that out of [overrides.{name}]; what narrows counts at once",
                server=name,
            )


def _decided_anew(broker: Broker, name: str) -> None:
    """What waits for a person was asked under other rules."""
    broker.changes.publish("servers", None)
    broker.changes.publish("trust", name)
    broker.approvals.supersede(name)


async def review(broker: Broker, name: str) -> Review:
    """What `accept` would do, by the files as they are now.

    Raises Failure `no_such_server`, `bad_definition`, `config_invalid`.
    """
    server = await _read(broker, name)
    await _look_again(broker, server)
    return _review(broker, server)


async def accept(broker: Broker, name: str, shown: str) -> None:
    """Make the definition that was shown what runs. What was filed under another destination does not count
    for it (n24).

    Raises Failure `no_such_server`, `bad_definition`, `config_invalid`, `not_writable`, and `refused` where
    it is not what was shown.
    """
    async with broker.editing:
        server = await _read(broker, name)
        if _review(broker, server).shown != shown:
            raise Failure(
                "refused",
                f'cannot accept "{name}": it is not what was shown',
                hint=f"mcpctl accept {name}",
                server=name,
            )
        running = broker.config
        broker.launches.accept(server)
        broker.accepted.put_server(server)
        applying.install(
            broker,
            replace(
                running,
                servers={**running.servers, name: server},
                faulty=applying.without(running.faulty, name),
            ),
            applying.without(broker.held, name),
            applying.without(broker.waiting, name),
        )
        _decided_anew(broker, name)


async def _look_again(broker: Broker, server: Server) -> None:
    """What its launcher would start now: a new version that was put back waits for nobody (n09)."""
    waits = broker.launches.news(server)
    if waits is not None:
        look = partial(launched.again, server, waits.place, environment(server, broker.environ, ""))
        found = await trio.to_thread.run_sync(look)
        if found is not None:
            applying.launched(broker, server, found)


async def _read(broker: Broker, name: str) -> Server:
    read = await applying.read_files(broker)
    if name in read.faulty:
        faulty = read.faulty[name]
        raise Failure(
            "bad_definition",
            f'cannot accept "{name}": {faulty.message}',
            hint=f"mend {faulty.source}",
            server=name,
        )
    if name not in read.servers:
        broker.fleet.find(name)
        raise Failure("no_such_server", f'no file defines "{name}" any more', server=name)
    return read.servers[name]


def _review(broker: Broker, server: Server) -> Review:
    name = server.name
    known = broker.accepted.server(name)
    moved = known is not None and known.destination != server.destination
    before, now = broker.launches.known(server), broker.launches.news(server)
    return Review(
        server=name,
        waits=broker.held[name].words if name in broker.held else "",
        old=_destination(known.server) if known is not None else None,
        new=_destination(server),
        changed=tuple(terms.differing(known, server)) if known is not None else (),
        was=before.words if before is not None else "",
        becomes=now.words if now is not None else "",
        gets=tuple(
            f"{field}.{key}"
            for field in ("env", "headers")
            for key, value in getattr(server, field).items()
            if value
        ),
        default_policy=applying.pins_of(server.policy),
        trusted=broker.trust.trusted(server),
        loses=applying.filed(broker, name) if moved else (),
        shown=hashlib.sha256(
            f"{server.digest} {server.destination} {now.digest if now is not None else ''}".encode()
        ).hexdigest()[:32],
    )


def _destination(server: Server) -> Destination:
    return Destination(
        command=server.executable or server.command,
        args=server.args,
        cwd=server.cwd,
        url=mask_url(server.url),
    )
