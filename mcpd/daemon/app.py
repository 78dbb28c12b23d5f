"""The daemon from its lock to its last line: what is opened in which order, and how it ends.

What must stop last is opened first: journal, sockets with their sessions, servers, watchers. A stop closes
the sockets, then the servers (open calls get their error), then the sessions, then the journal.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from mcpd import __version__, applying, listing, memory, pinning, reasking
from mcpd.agents import serve as agents
from mcpd.broker import Broker
from mcpd.changes import Changes
from mcpd.config.spec import AGENTS_DIR, Config, Problem
from mcpd.config.watch import Watch
from mcpd.consent.store import Store
from mcpd.control import listener
from mcpd.daemon import announce, logs, orphans, process, systemd
from mcpd.daemon.endpoint import Endpoint
from mcpd.daemon.guard import Guard
from mcpd.daemon.lock import Lock
from mcpd.daemon.paths import Paths
from mcpd.daemon.sockets import Doors
from mcpd.errors import Failure
from mcpd.journal import Journal
from mcpd.secrets.held import HeldValues
from mcpd.transport import sweep
from mcpd.transport.base import Inherited
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.fleet import Fleet

log = logging.getLogger(__name__)

#: Seconds that a stop may take; then SIGALRM ends the process and the guard does the rest. Each step has a
#: limit of its own (servers: 2 s, SIGTERM, 3 s, SIGKILL); systemd waits 20 s (TimeoutStopSec).
STOP_LIMIT = 15
#: Seconds in which sessions write their last answers.
LAST_WORDS = 0.2
#: Seconds between two changes of what `systemctl status` shows.
STATUS_PAUSE = 1.0
#: Seconds between two starts of a guard, when somebody goes on ending it or none can be started.
GUARD_PAUSE = 5.0
#: Seconds until the kernel is asked again for a watch on the user's files.
BLIND = 30.0
#: Objects after which the collector looks for cycles. A call leaves hardly any, and with 700 it looked
#: every ten calls: a twentieth of the processor's time at full load (measured).
YOUNG = 10_000


def run(paths: Paths, lock: Lock, guard: Guard, umask: int, *, on_demand: bool) -> None:
    """Be the daemon until somebody stops it. Raises Failure when it cannot start.

    `umask`: the former one, for its children.
    """
    held_values = HeldValues()
    logs.set_up(paths.log_file, on_demand=on_demand).redact = held_values.text
    memory.settle()
    process.switch_soon()
    inherited = Inherited(process.raise_file_limit(), umask)
    orphans.adopt()
    instance = secrets.token_hex(6)
    ours = f"{paths.runtime_id}.{instance}"
    guard.watch(ours)
    _end_leftovers(partial(sweep.clear_others, paths.runtime_id, instance, guard.pid))
    try:
        trio.run(partial(serve, paths, lock, guard, instance, inherited, held_values, on_demand=on_demand))
    except Failure:
        raise
    except BaseException:
        log.critical("mcpd %s ends by an error of its own", __version__, exc_info=True)
        raise
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)  # the rest takes a moment and has STOP_LIMIT
    _end_leftovers(partial(sweep.clear, lambda: sweep.find(ours, guard.servers)))
    guard.dismiss()
    log.info("mcpd has stopped")


def _end_leftovers(clear: Callable[[], tuple[list[sweep.Process], list[sweep.Process]]]) -> None:
    ended, spared = clear()
    for left in ended:
        log.warning("ended %s, which a server had left behind", left)
    for left in spared:
        log.warning("%s was started by a server and detached itself; it is left alone", left)


async def serve(
    paths: Paths,
    lock: Lock,
    guard: Guard,
    instance: str,
    inherited: Inherited,
    held_values: HeldValues,
    *,
    on_demand: bool,
) -> None:
    """Everything between lock and guard. Raises Failure when a socket or a database cannot be had."""
    # Armed before the files are read, so that no change in between is missed.
    watch = _watch(paths.config, paths.servers_dir)
    broker = _open(paths, guard, instance, inherited, held_values)
    doors = Doors(
        paths,
        lock,
        broker.stop,
        control=partial(listener.serve, broker),
        agent=lambda name: lambda stream: agents.serve_connection(broker, stream, name),
    )
    broker.endpoint = endpoint = Endpoint(broker)
    doors.open(systemd.take_sockets())
    doors.apply(broker.config.agents)
    async with (
        _running(broker.journal.run),
        _running(orphans.bury),
        _running(partial(_heed_signals, broker)),
        _running(partial(_let_in, doors, endpoint), linger=LAST_WORDS),
        _running(broker.fleet.run),
        _running(partial(_look_after, broker, doors, endpoint, watch, inherited)),
        _running(partial(_replace_guard, broker, guard)),
    ):
        _report(broker.config.problems + broker.store.problems + broker.journal.problems)
        _ready(broker, on_demand=on_demand)
        await broker.stop.wait()
        signal.alarm(STOP_LIMIT)
        log.info("stopping")
        systemd.notify("STOPPING=1", f"EXTEND_TIMEOUT_USEC={STOP_LIMIT}000000", "STATUS=stopping the servers")
        doors.close()
        endpoint.shut()
    broker.store.close()


def _open(paths: Paths, guard: Guard, instance: str, inherited: Inherited, held_values: HeldValues) -> Broker:
    """All owners, with what the files say. A broken configuration is something to show, not to stop for.

    Raises Failure when state.db cannot be had.
    """
    environ = dict(os.environ)
    changes = Changes()
    store = Store(Path(paths.state_db))
    cache = CatalogCache(Path(paths.cache))
    marker = f"{paths.runtime_id}.{instance}."
    fleet = Fleet(changes, cache, environ, marker, inherited, guard.add, guard.remove, held_values)
    broker = Broker(
        config=Config(),
        fleet=fleet,
        journal=Journal(Path(paths.journal_db), redactor=held_values),
        store=store,
        changes=changes,
        config_dir=paths.config,
        control_socket=paths.control_socket,
        agents_dir=paths.agents,
        environ=environ,
        instance=instance,
        started=time.time(),
        secret=secrets.token_bytes(32),
        held_values=held_values,
    )
    # A lazy server starts when somebody wants it, not because the daemon did (D5, b01).
    applying.start(broker)
    fleet.sole = partial(listing.sole, broker)
    fleet.available = partial(listing.available, broker)
    return broker


def _report(problems: tuple[Problem, ...]) -> None:
    for problem in problems:
        place = f"{problem.file}: {problem.place}" if problem.place else problem.file
        log.warning("%s: %s", place, problem.message)


Service = Callable[..., Awaitable[object]]
"""An async function with a `task_status`, as `trio.Nursery.start` wants it; runs until cancelled."""


@asynccontextmanager
async def _running(service: Service, *, linger: float = 0.0) -> AsyncIterator[None]:
    """The service is up inside the block; on leaving it gets `linger` seconds, and has ended after that.

    A Failure to start comes out as it is, unless this runs inside another nursery.
    """
    refused: Failure | None = None
    async with trio.open_nursery() as nursery:
        try:
            await nursery.start(service)
        except Failure as failure:
            refused = failure
        else:
            yield
            if linger:
                await trio.sleep(linger)
            nursery.cancel_scope.cancel()
    if refused is not None:
        raise refused


def _ready(broker: Broker, *, on_demand: bool) -> None:
    """The sockets are served and the configuration is loaded; servers may still be connecting."""
    systemd.notify("READY=1", f"STATUS={_status(broker)}")
    log.info("mcpd %s serves %s, %s", __version__, broker.control_socket, _status(broker))
    if on_demand and not systemd.stderr_is_journal(os.environ):
        # Whoever started us may wait for the end of our output.
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
    gc.freeze()  # what is there now stays: no need to look through it again and again
    gc.set_threshold(YOUNG)
    gc.enable()


async def _let_in(
    doors: Doors, endpoint: Endpoint, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Everything by which operators and agents come in, with their sessions."""
    async with trio.open_nursery() as nursery:
        await nursery.start(doors.run)
        await nursery.start(endpoint.run)
        task_status.started()


async def _heed_signals(
    broker: Broker, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """SIGTERM and SIGINT stop, SIGHUP reads the files again. In force until everything has ended.

    Nobody can tell who has sent a signal: an agent, or the terminal whose window was closed. So SIGHUP
    applies what narrows alone, as the watcher does (a03, n06).
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        task_status.started()
        async for signum in received:
            if signum == signal.SIGHUP:
                log.info("read the files again for a SIGHUP; what gives more waits for: mcpctl reload")
                await applying.watched(broker)
            else:
                broker.stop.set()


async def _look_after(
    broker: Broker,
    doors: Doors,
    endpoint: Endpoint,
    watch: Watch | None,
    inherited: Inherited,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """What goes on beside sessions and servers."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agents.announce, broker)
        nursery.start_soon(announce.announce, broker, inherited)
        nursery.start_soon(broker.approvals.run)
        nursery.start_soon(reasking.follow, broker)
        nursery.start_soon(pinning.keep, broker)
        nursery.start_soon(_follow_agents, broker, doors, endpoint)
        nursery.start_soon(_follow_files, broker, watch)
        if os.environ.get("NOTIFY_SOCKET"):
            nursery.start_soon(_show_status, broker)
        interval = systemd.watchdog_interval(os.environ, os.getpid())
        if interval is not None:
            nursery.start_soon(_show_life, interval)
        task_status.started()


async def _replace_guard(
    broker: Broker, guard: Guard, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Start another guard when somebody has ended the one there is; the status says so from then on."""
    task_status.started()
    while True:
        what = f"the guard, process {guard.pid}, was ended from outside"
        await _end_of(guard.pid)
        guard.reap()
        while not guard.pid:
            try:
                guard.replace()
            except OSError as e:
                trouble = f"{what}, and none can be started: {str(e.strerror).lower()}"
            else:
                trouble = f"{what}; process {guard.pid} has taken its place"
            problem = Problem("", "", trouble)
            if broker.troubles != (problem,):
                log.error("%s", trouble)
            broker.troubles = (problem,)
            await trio.sleep(GUARD_PAUSE)


async def _end_of(pid: int) -> None:
    """Return when that process, a child of ours, has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        await trio.lowlevel.wait_readable(pidfd)
    finally:
        os.close(pidfd)


async def _follow_agents(broker: Broker, doors: Doors, endpoint: Endpoint) -> None:
    """A socket for every agent of the configuration, and no session of one that was removed."""
    with broker.changes.subscribe() as changes:
        async for change in changes:
            if change.topic == "servers":
                doors.apply(broker.config.agents)
                endpoint.apply(broker.config.agents)


async def _follow_files(broker: Broker, watch: Watch | None) -> None:
    """Apply by itself what narrows when the user's files change (a03).

    `watch` was armed before the files were read: for the usual folder of servers, which may not be theirs.
    """
    watched = f"{broker.config_dir}/servers.d"
    while True:
        if watch is None:
            await trio.sleep(BLIND)
        else:
            with watch:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_until_moved, broker, watched, nursery.cancel_scope)
                    with contextlib.suppress(OSError):  # the kernel took it back: ask anew
                        await watch.changed()
                    nursery.cancel_scope.cancel()
        watched = broker.config.settings.servers_dir
        watch = _watch(broker.config_dir, watched, told=watch is None)
        if watch is not None:
            await applying.watched(broker)


async def _until_moved(broker: Broker, watched: str, scope: trio.CancelScope) -> None:
    """Cancel once `servers_dir` is another folder than the one that is watched."""
    with broker.changes.subscribe() as changes:
        while broker.config.settings.servers_dir == watched:
            await anext(changes)
        scope.cancel()


def _watch(config: str, servers_dir: str, *, told: bool = False) -> Watch | None:
    """On the folders of the user's files; None when the kernel has no watch left."""
    try:
        return Watch([Path(config), Path(servers_dir), Path(config, AGENTS_DIR)])
    except OSError as e:
        if not told:
            log.warning("changed files are not noticed, use `mcpctl reload`: %s", e.strerror)
        return None


async def _show_status(broker: Broker) -> None:
    """One line for `systemctl status`, at most one a second."""
    with broker.changes.subscribe(limit=1) as changes:
        async for _ in changes:
            systemd.notify(f"STATUS={_status(broker)}")
            await trio.sleep(STATUS_PAUSE)


def _status(broker: Broker) -> str:
    states = Counter(broker.fleet.status(name).state for name in broker.fleet.names())
    total = f"{states.total()} servers"
    return f"{total}: {', '.join(f'{n} {state}' for state, n in sorted(states.items()))}" if states else total


async def _show_life(interval: float) -> None:
    """The watchdog of systemd: silence means that this loop stands still."""
    while True:
        systemd.notify("WATCHDOG=1")
        await trio.sleep(interval)
