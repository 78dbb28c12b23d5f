"""How what the files say becomes what runs: at the start, by the watcher, `reload` and `accept` (a03, n24).

Whoever changes what runs holds `broker.editing`, so two of them never interleave; what they put in place is
swapped in without a checkpoint, so nobody sees half of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import trio
from msgspec.structs import replace

from mcpd import pinning
from mcpd.api import daemon as api
from mcpd.api.servers import LeakPins, PolicyPins
from mcpd.broker import Broker
from mcpd.config import accepted as terms
from mcpd.config import load
from mcpd.config.change import Applied, applied, diff
from mcpd.config.narrow import Narrowed, keep, narrows
from mcpd.config.spec import MAIN, Config, Hold, Problem, Server
from mcpd.errors import Failure
from mcpd.journal import About, Entry
from mcpd.journal.store import kept
from mcpd.policy.leaks.values import Held, of_definition
from mcpd.policy.terms import Leaks, Policy

log = logging.getLogger(__name__)

V = TypeVar("V")


def start(broker: Broker) -> None:
    """Make what the files say now what runs, as far as it was accepted before; nothing connects by that.

    The very first start accepts what is there. With a state.db that was damaged nothing was accepted. Never
    fails.
    """
    broker.fleet.known_launch = broker.launches.known
    broker.fleet.launched = partial(launched, broker)
    broker.fleet.examine = partial(pinning.examine, broker)
    book = broker.accepted
    read = load.load(Path(broker.config_dir), broker.environ, book.servers_dir)
    if book.empty and not broker.store.problems:
        install(broker, read, {}, {}, connect=False)
        return
    read = _remembered(broker, read)
    running = book.config(read)
    if book.empty:
        running = replace(running, settings=replace(running.settings, servers_dir=read.settings.servers_dir))
    _narrow(broker, running, read, "start", connect=False)


async def reload(broker: Broker) -> api.Reloaded:
    """Read the files and make them what runs; what did not change is not touched (a03).

    A server whose definition cannot be used any more goes on with the one it has, and so does one with
    another destination under which something is filed, until `accept` (n24). Raises Failure
    `config_invalid` when config.toml cannot be read, `not_writable`; the running set stays then.
    """
    async with broker.editing:
        read = await read_files(broker, moved=True)
        found, held = keep(broker.config, read)
        found, moved = _without_moved(broker, found)
        waiting = {name: read.servers[name] for name in moved if name not in found.servers}
        held = {**held, **moved}
        difference, changes = diff(broker.config, found), applied(broker.config, found)
        broker.accepted.put(found, waiting)
        install(broker, found, held, waiting)
        record(broker, "reload", changes)
    log.info(
        "reloaded: %d servers added, %d changed, %d removed, %d problems",
        len(difference.added),
        len(difference.changed),
        len(difference.removed),
        len(found.problems),
    )
    return api.Reloaded(
        added=difference.added,
        changed=difference.changed,
        removed=difference.removed,
        unchanged=difference.unchanged,
        kept=tuple(sorted(held.keys() - moved.keys())),
        held={name: hold.words for name, hold in moved.items()},
        problems=shown(found.problems),
        applied=tuple(api.Applied(change.place, change.what) for change in changes),
    )


def shown(problems: Sequence[Problem]) -> tuple[api.Problem, ...]:
    """Problems as they are answered."""
    return tuple(api.Problem(problem.file, problem.place, problem.message) for problem in problems)


def pins_of(policy: Policy) -> PolicyPins:
    """A policy as it is answered."""
    leaks = LeakPins(policy.leaks.arguments, policy.leaks.results) if policy.leaks != Leaks() else None
    return PolicyPins(policy.risk, policy.approval, policy.timeout, leaks)


def _without_moved(broker: Broker, found: Config) -> tuple[Config, dict[str, Hold]]:
    """`found` with the running destination of each server whose new one waits, and which those are."""
    servers = dict(found.servers)
    moved = {}
    for name, server in found.servers.items():
        if is_moved(broker, server):
            moved[name] = terms.has_moved(name)
            running = broker.config.servers.get(name)
            if running is None:
                del servers[name]
            else:
                servers[name] = terms.with_destination_of(running, server)
    return replace(found, servers=servers), moved


def is_moved(broker: Broker, server: Server) -> bool:
    """Whether a definition leads elsewhere than the accepted one, and something is filed there (n24)."""
    known = broker.accepted.server(server.name)
    return terms.moved(known, server, filed=bool(filed(broker, server.name)))


def filed(broker: Broker, name: str) -> tuple[str, ...]:
    """What a person has agreed to about a server of this name, whatever it was then, in words."""
    found = {
        "trust": broker.trust.filed(name),
        "grants": broker.grants.filed(name),
        "pins": broker.pins.filed(name),
    }
    return tuple(word for word, there in found.items() if there)


async def watched(broker: Broker) -> None:
    """What the watcher may do by itself: apply what narrows, hold back the rest (a03).

    Never fails: files that cannot be read change nothing and become a problem of the status.
    """
    async with broker.editing:
        try:
            read = await read_files(broker)
        except Failure as failure:
            log.warning("the files changed, but nothing is applied: %s", failure.message)
            return
        _narrow(broker, broker.config, read, "watch")


def _narrow(broker: Broker, running: Config, read: Config, by: str, *, connect: bool = True) -> None:
    narrowed, held = _narrowed(broker, running, read)
    names = {*running.servers, *running.faulty}
    waiting = {name: read.servers[name] for name in held if name not in names and name in read.servers}
    _tell(broker, by, held)
    changes = applied(broker.config, narrowed) if by == "watch" else ()
    install(broker, narrowed, held, waiting, connect=connect)
    record(broker, by, changes)


def _narrowed(broker: Broker, running: Config, read: Config) -> Narrowed:
    """What `narrows` says, and of each server what it really waits for."""
    narrowed, held = narrows(running, read, f"{broker.config_dir}/{MAIN}")
    told = dict(held)
    for name in held:
        server = read.servers.get(name)
        if server is None:
            continue
        if is_moved(broker, server):
            told[name] = terms.has_moved(name)
        elif name not in running.servers and name not in running.faulty:
            told[name] = terms.has_changed(broker.accepted.server(name), server)
    return Narrowed(narrowed, told)


async def read_files(broker: Broker, *, moved: bool = False) -> Config:
    """The files as they are now; `moved`: with the servers' folder where the setting puts it now.

    A moved folder waits for `reload` like every other setting: until then the servers of the old one count.
    Raises Failure `config_invalid`, and leaves it among the problems that the status shows.
    """
    servers_dir = None if moved else Path(broker.config.settings.servers_dir)
    try:
        read = await trio.to_thread.run_sync(
            load.reload, Path(broker.config_dir), broker.environ, servers_dir
        )
    except Failure as failure:
        file = failure.data["file"]
        kept = tuple(problem for problem in broker.config.problems if problem.file != file)
        now = Problem(file, failure.data["place"], f"{failure.data['reason']}; what ran before goes on")
        broker.config = replace(broker.config, problems=(now, *kept))
        raise
    return _remembered(broker, read)


def _remembered(broker: Broker, read: Config) -> Config:
    """See there: commands are what they were for what runs, else for what was accepted."""
    accepted = {name: known.server for name, known in broker.accepted.servers.items()}
    return terms.remembered(read, {**accepted, **broker.config.servers})


def install(
    broker: Broker,
    config: Config,
    held: Mapping[str, Hold],
    waiting: Mapping[str, Server],
    *,
    connect: bool = True,
) -> None:
    """Make it what runs. `waiting`: servers among the held that are shown, and do not start; so do those
    whose launcher starts something else than before."""
    held, waiting = dict(held), dict(waiting)
    for name, server in config.servers.items():
        if hold := broker.launches.held(server):
            held[name], waiting[name] = hold, server
    broker.config, broker.held, broker.waiting = config, held, waiting
    every = replace(config, servers={**config.servers, **waiting})
    broker.journal.keep = kept(config.settings)
    broker.held_values.hold(_held(every))
    broker.fleet.apply(every, broker.state.switched_off(), held, frozenset(waiting), connect=connect)
    keep_accepted(broker)


def _held(config: Config) -> Iterator[Held]:
    """What mcpd holds for its servers, those that do not start included (n17)."""
    for server in config.servers.values():
        yield from of_definition(server.name, server.env, server.headers, server.url)


def launched(broker: Broker, server: Server, found: terms.Launched) -> str:
    """Note what the launcher of a server starts now; why the server must not run by that, which is ended then
    (n09). For `Fleet.launched`."""
    name, before = server.name, broker.launches.held(server)
    try:
        broker.launches.note(server, found, filed=bool(filed(broker, name)))
    except Failure as failure:
        log.warning("%s", failure.message)
    hold = broker.launches.held(server)
    if hold is not None:
        _tell(broker, "launch", {name: hold})
        install(broker, broker.config, broker.held, broker.waiting)
    elif before is not None:
        install(broker, broker.config, without(broker.held, name), without(broker.waiting, name))
    return hold.words if hold is not None else ""


def without(table: Mapping[str, V], name: str) -> dict[str, V]:
    return {key: value for key, value in table.items() if key != name}


def keep_accepted(broker: Broker) -> None:
    """What runs now is accepted, for later starts as well. Never fails."""
    if broker.config.whole:
        try:
            broker.accepted.put(broker.config, {*broker.waiting, *broker.held})
        except Failure as failure:
            log.warning("%s", failure.message)


def record(broker: Broker, by: str, changes: Sequence[Applied]) -> None:
    """What changed, for the journal (n12); who asked for it is an entry of its own."""
    for change in changes:
        what = f"{change.place}: {change.what}"
        broker.journal.record(Entry(about=About(method=by), kind="change", because=what))


def _tell(broker: Broker, by: str, held: Mapping[str, Hold]) -> None:
    """Say, once, what of a server waits, in the log and in the journal."""
    for name, hold in sorted(held.items()):
        if broker.held.get(name) != hold:
            why = hold.words
            log.warning("MCP '%s': held: %s", name, why)
            about = About(server=name, method=by)
            broker.journal.record(Entry(about=about, kind="change", outcome="held", because=why))
