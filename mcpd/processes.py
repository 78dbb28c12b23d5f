"""What /proc says of processes: who started whom, and which carry the marker of a server (n06, c04).

Two numbers name one process for ever: its pid and the moment it was started. A chain of parents is what
tells an agent's own programs from a person's, as far as that can be told at all.

Standard library only, and light: the guard process holds this module in memory for the daemon's life, so
there is no NamedTuple and no Struct here. Everything blocks for some microseconds a process.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

#: The variable that every server is started with and hands down: `<runtime>.<instance>.<spawn number>`.
MARKER = "MCPD_CHILD_OF"
_KEY = b"\0" + MARKER.encode() + b"="

#: Bytes of a command line that are looked at in a chain: a process can have put there two megabytes.
ARGV = 4096
#: Bytes of an environment that are looked at in a chain, for the same reason; reading all of 64 such takes
#: 0.2 s. Who wants to be without the marker can leave it out anyway: who started whom is what counts.
ENVIRON = 128 * 1024
#: Parents that are looked at; a chain that is longer counts as broken off.
DEEPEST = 64

Ident = tuple[int, int]
"""pid and start time: one process, whoever gets its number later."""


class Stat:
    """What `/proc/PID/stat` says, as far as it is needed here."""

    __slots__ = ("group", "name", "parent", "session", "started", "state", "terminal")

    def __init__(self, text: bytes) -> None:
        # The name is in parentheses and may hold any byte, parentheses and spaces included.
        head, _, tail = text.rpartition(b")")
        fields = tail.split()
        self.name = head.partition(b"(")[2].decode(errors="replace")
        self.state = fields[0]
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.terminal = int(fields[4])
        """Number of its controlling terminal; 0 for none."""
        self.started = int(fields[19])
        """In clock ticks since boot."""


class Link:
    """One process of a chain. Never changed after it is made."""

    __slots__ = ("argv", "marker", "name", "parent", "pid", "session", "started", "terminal", "uid")

    def __init__(
        self,
        pid: int,
        started: int,
        *,
        parent: int = 1,
        session: int = 0,
        terminal: int = 0,
        uid: int = 0,
        name: str = "",
        argv: Sequence[str] = (),
        marker: str = "",
    ) -> None:
        self.pid = pid
        self.started = started
        self.parent = parent
        self.session = session
        self.terminal = terminal
        self.uid = uid
        self.name = name
        self.argv = tuple(argv)
        self.marker = marker

    @property
    def ident(self) -> Ident:
        return self.pid, self.started

    def __repr__(self) -> str:
        return f"{self.name or 'process'}[{self.pid}]"


def marker_of(environ: bytes) -> str:
    """The marker in a `/proc/PID/environ`; empty when there is none."""
    _, found, rest = (b"\0" + environ).partition(_KEY)
    return rest.partition(b"\0")[0].decode(errors="replace") if found else ""


def belongs(marker: str, owner: str) -> bool:
    """Whether the marker is `owner` or lies below it: spawn 1 does not own spawn 12."""
    return marker == owner or marker.startswith(owner + ".")


def chain(pid: int) -> tuple[Link, ...]:
    """The process and its parents, as far as there are any: without init, and without those that are gone.

    Empty for a process that is gone, and for one of another pid namespace, which has the number 0 here.
    """
    links: list[Link] = []
    while pid > 1 and len(links) < DEEPEST:
        link = look(pid)
        if link is None or (links and link.started > links[-1].started):
            break  # a parent is older than its child: the number is another's by now
        links.append(link)
        pid = link.parent
    return tuple(links)


def look(pid: int) -> Link | None:
    """The process, if it is alive and may be looked at. What else may not be read of it is empty."""
    try:
        folder = open_folder(pid)
    except OSError:
        return None
    try:
        stat = Stat(read(folder, "stat"))
        if stat.state in (b"Z", b"X"):
            return None
        return Link(
            pid,
            stat.started,
            parent=stat.parent,
            session=stat.session,
            terminal=stat.terminal,
            uid=_uid_in(folder),
            name=stat.name,
            argv=argv_in(folder, ARGV),
            marker=marker_in(folder, ENVIRON),
        )
    except (OSError, ValueError, IndexError):
        return None  # it has ended meanwhile
    finally:
        os.close(folder)


def stat_of(pid: int) -> Stat:
    """Raises FileNotFoundError, ProcessLookupError."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return Stat(file.read())


def alive(ident: Ident) -> bool:
    """Whether exactly this process has not ended."""
    try:
        stat = stat_of(ident[0])
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.started == ident[1] and stat.state not in (b"Z", b"X")


def below(chain: Sequence[Link], daemon: int, runtime: str) -> Link | None:
    """The process by which this chain belongs to a server of the daemon's: below the daemon itself, which is
    the parent of all that its servers leave behind (`daemon.orphans`), or with a marker of its runtime
    folder, which another daemon of it may have given. None for everybody else. Pure."""
    for at, link in enumerate(chain):
        if belongs(link.marker, runtime):
            return link
        if at and link.pid == daemon:
            return chain[at - 1]
    return None


def open_folder(pid: int) -> int:
    """A descriptor of /proc/PID, which stays that of one process: what is read below it cannot mix two that
    had the same pid. Raises FileNotFoundError, ProcessLookupError."""
    return os.open(f"/proc/{pid}", os.O_PATH | os.O_DIRECTORY)


def argv_in(folder: int, limit: int = -1) -> tuple[str, ...]:
    """The words that a process was started with, or that it has put there since."""
    return tuple(read(folder, "cmdline", limit).decode(errors="replace").removesuffix("\0").split("\0"))


def _uid_in(folder: int) -> int:
    """The real user. Who owns the folder does not tell: a process can make it root's (prctl(2), dumpable)."""
    _, _, rest = read(folder, "status").partition(b"\nUid:")
    return int(rest.split(maxsplit=1)[0])


def marker_in(folder: int, limit: int = -1) -> str:
    """The marker of a process; empty where there is none or it may not be read."""
    try:
        return marker_of(read(folder, "environ", limit))
    except PermissionError:
        return ""


def read(folder: int, name: str, limit: int = -1) -> bytes:
    """A file of a folder in /proc, or the first `limit` bytes of it. Raises OSError."""
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb", buffering=0) as file:
        return (file.readall() if limit < 0 else file.read(limit)) or b""


def linked(pid: int, name: str) -> str:
    """Where /proc/PID/`exe` or /proc/PID/`cwd` leads; empty where that cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""
