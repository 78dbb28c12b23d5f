"""Finding and ending what a daemon that is gone left behind.

Every child carries the variable `processes.MARKER` in its environment and hands it down to whatever it
starts, so the value names a process tree without systemd and without cgroups:
`<runtime>.<instance>.<spawn number>`.
Standard library only, and light: the guard process holds this module in memory for the daemon's life.
Everything here blocks (1 ms in 100 processes); the daemon calls it in a thread.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Container, Iterable

from mcpd.processes import Stat, argv_in, belongs, marker_in, open_folder, read

#: Seconds between the polite request and SIGKILL.
GRACE = 1.0
#: Rounds of SIGKILL for trees that fork while they are being ended.
ROUNDS = 5

#: What a person works in, and which detaches itself so as to outlive whoever started it.
MULTIPLEXERS = frozenset({"tmux", "screen", "zellij", "dtach", "abduco"})
BROWSERS = frozenset(
    {
        *("brave", "brave-browser", "chrome", "chromium", "chromium-browser", "chromium-browse", "epiphany"),
        *(
            "firefox",
            "firefox-bin",
            "firefox-esr",
            "google-chrome",
            "librewolf",
            "msedge",
            "opera",
            "vivaldi-bin",
        ),
    }
)
#: A browser started with one of these is a tool that a server drives, not a window of the user's.
DRIVEN = (
    *("--headless", "--remote-debugging-pipe", "--remote-debugging-port", "--enable-automation"),
    *("-headless", "-juggler", "-juggler-pipe", "--marionette", "-marionette"),
)


class Process:
    """One live process that carries the marker. Never changed after it is made.

    No NamedTuple or Struct: `typing` and msgspec would be a fifth of the guard's memory.
    """

    __slots__ = ("argv", "group", "marker", "name", "parent", "pid", "session", "started")

    def __init__(
        self,
        pid: int,
        started: int,
        marker: str,
        *,
        parent: int = 1,
        group: int = 0,
        session: int = 0,
        name: str = "",
        argv: tuple[str, ...] = (),
    ) -> None:
        self.pid = pid
        self.started = started
        """Start time in clock ticks since boot: with the pid it names one process for ever."""
        self.marker = marker
        self.parent = parent
        self.group = group
        self.session = session
        self.name = name
        self.argv = argv

    def __repr__(self) -> str:
        return f"{self.name or 'process'}[{self.pid}]"


def judge(found: Iterable[Process], group: int = 0) -> tuple[list[Process], list[Process]]:
    """(to end, to spare): spared are multiplexers and the user's browsers that detached themselves, with
    all below them.

    `group` is the process group of the server itself, where it is known: nothing in it is spared.
    """
    by_pid = {process.pid: process for process in found}
    roots = {pid for pid, process in by_pid.items() if process.group != group and _detached(process, by_pid)}

    def spared(process: Process) -> bool:
        above: set[int] = set()
        pid = process.pid
        while pid in by_pid and pid not in above:
            if pid in roots:
                return True
            above.add(pid)
            pid = by_pid[pid].parent
        return False

    to_end: list[Process] = []
    to_spare: list[Process] = []
    for process in by_pid.values():
        (to_spare if spared(process) else to_end).append(process)
    return to_end, to_spare


def _detached(process: Process, by_pid: dict[int, Process]) -> bool:
    names = {process.name.partition(":")[0].lower()}
    if process.argv:
        names.add(process.argv[0].rpartition("/")[2].partition(":")[0].lower())
    leader = process.session == process.pid
    if names & MULTIPLEXERS:
        # zellij forks once more after setsid: its session has no leader any more.
        return leader or process.session not in by_pid
    if names & BROWSERS:
        return leader and not any(argument.partition("=")[0] in DRIVEN for argument in process.argv)
    return False


def find(owner: str, sessions: Container[int] = ()) -> list[Process]:
    """Every process but this one that belongs to a runtime (`<runtime>`), an instance of it
    (`<runtime>.<instance>`) or one spawn (the whole marker).

    `sessions`: pids of servers that led a session of their own. Whoever is still in their session or
    group belongs as well, also without the variable, which a program need not hand down. The kernel
    gives no number anew that a session or a group still has.
    """
    own = os.getpid()
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
    seen = [process for pid in pids if pid != own and (process := _look(pid, sessions)) is not None]
    # A leader without the variable has got a number whose session had died out: a stranger's.
    strangers = {process.pid for process in seen if not process.marker and process.pid in sessions}
    return [process for process in seen if _is_of(process, owner, sessions, strangers)]


def _is_of(process: Process, owner: str, sessions: Container[int], strangers: set[int]) -> bool:
    if belongs(process.marker, owner):
        return True
    if process.marker:
        return False
    led = process.session if process.session in sessions else process.group
    return led in sessions and led not in strangers


def _look(pid: int, sessions: Container[int]) -> Process | None:
    """The process, if it is alive, carries a marker or is in one of the sessions, and may be looked into."""
    try:
        folder = open_folder(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None
    try:
        stat = Stat(read(folder, "stat"))
        if stat.state in (b"Z", b"X"):
            return None
        marker = marker_in(folder)
        if not marker and stat.session not in sessions and stat.group not in sessions:
            return None
        argv = argv_in(folder)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    finally:
        os.close(folder)
    return Process(
        pid,
        stat.started,
        marker,
        parent=stat.parent,
        group=stat.group,
        session=stat.session,
        name=stat.name,
        argv=argv,
    )


def _hold(process: Process) -> int | None:
    """A pidfd of exactly this process; None when it is gone, whoever has its pid now."""
    try:
        fd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    try:
        with open(f"/proc/{process.pid}/stat", "rb") as file:
            if Stat(file.read()).started == process.started:
                return fd
    except (FileNotFoundError, ProcessLookupError):
        pass
    os.close(fd)
    return None


def end(processes: Iterable[Process], signum: int) -> None:
    """Send a signal to exactly these processes; those that are gone or beyond our rights are passed over."""
    for process in processes:
        fd = _hold(process)
        if fd is None:
            continue
        try:
            signal.pidfd_send_signal(fd, signum)
        except (ProcessLookupError, PermissionError):
            pass
        finally:
            os.close(fd)


def wait_gone(processes: Iterable[Process], seconds: float) -> bool:
    """Wait until all of them have exited, `seconds` at most; whether they have."""
    waiting = {fd for process in processes if (fd := _hold(process)) is not None}
    deadline = time.monotonic() + seconds
    poll = select.poll()
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    try:
        while waiting and (left := deadline - time.monotonic()) > 0:
            for fd, _ in poll.poll(left * 1000 + 1):
                poll.unregister(fd)
                waiting.discard(fd)
                os.close(fd)
        return not waiting
    finally:
        for fd in waiting:
            os.close(fd)


def clear(
    look: Callable[[], list[Process]], *, patience: float = 0.0, group: int = 0
) -> tuple[list[Process], list[Process]]:
    """End what `look` finds: `patience` seconds to leave by itself, SIGTERM, a second, SIGKILL.

    `look` is asked again before each signal, so that what was forked meanwhile is met as well. Returns
    what had to be ended and what was spared (see `judge`); at once when nothing is there.
    """
    to_end, spared = judge(look(), group)
    if patience and to_end:
        wait_gone(to_end, patience)
        to_end, spared = judge(look(), group)
    ended = {process.pid: process for process in to_end}
    for signum in (signal.SIGTERM, *[signal.SIGKILL] * ROUNDS):
        if not to_end:
            break
        end(to_end, signum)
        wait_gone(to_end, GRACE)
        to_end, spared = judge(look(), group)
        ended.update((process.pid, process) for process in to_end)
    return list(ended.values()), spared


def clear_others(runtime: str, instance: str, guard: int = 0) -> tuple[list[Process], list[Process]]:
    """`clear` for the children of every instance of a runtime folder but one.

    Only for the holder of the folder's lock: then all the others are dead. `guard` is the pid of its guard,
    which carries an old marker where mcpd was started by a server of the one before it.
    """
    own = f"{runtime}.{instance}"
    return clear(lambda: [one for one in find(runtime) if not belongs(one.marker, own) and one.pid != guard])
