"""Starting the daemon on demand (DESIGN 9, n21).

The user manager starts it where there is one: the installed socket unit, else a transient unit. Only
without one is it spawned from here, cut loose from the caller in every way: own session, folder `/`, no
descriptor of the caller's, and an environment without its keys and proxies. A lock in the sockets' folder
lets one caller at a time start something; which daemon wins is decided by the daemon's own lock.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

from mcpctl.errors import CallError
from mcpctl.paths import config_folder, home, state_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from mcpctl.paths import Place

    T = TypeVar("T")

SOCKET_UNIT = "mcpd.socket"

#: The folders of a user's files, where they are not in the home folder.
FOLDERS = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")

#: Seconds until a daemon that was started must answer: imports take 0.3 s on a quiet machine.
LIMIT = 15.0

#: Seconds for the user manager's answer to one command.
MANAGER_LIMIT = 5.0

#: What a spawned daemon gets of the caller's environment, beside names that begin with PREFIXES.
ALLOWED = frozenset(
    {
        *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR"),
        *("LANG", "LANGUAGE", "TZ"),
        *("DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
PREFIXES = ("LC_", "XDG_")


def ensure(place: Place, attempt: Callable[[], T | None], *, spawn: bool = True) -> T:
    """What `attempt` returns once the daemon is there; it is started if need be and `spawn` allows it.

    Raises CallError `not_running`.
    """
    deadline = time.monotonic() + LIMIT
    allowed = spawn and not forbidden(os.environ)
    if place.explicit or not allowed:
        found = wait_while_starting(place, attempt, deadline)
        if found is None:
            raise not_running(place, "" if place.explicit else f"start it with: {by_hand(place)}")
        return found
    make_folder(place.folder)
    log = log_file(os.environ)
    lock = take_lock(place, deadline)
    try:
        found = wait_while_starting(place, attempt, deadline)
        if found is None and lock_held(f"{place.folder}/lock"):
            raise not_running(place, "a daemon owns this folder and does not answer")
        if found is None:
            say_whose_home(os.environ)
            written = size(log)
            found = wait_for(attempt, deadline, launch(place))
    finally:
        os.close(lock)
    if found is None:
        where = f"its log: {log}" if os.path.isfile(log) else "to see why: mcpd run"
        why = last_words(log, written)
        raise not_running(place, f"it was started and {f'said: {why}' if why else 'did not answer'}; {where}")
    return found


def size(file: str) -> int:
    """0 where there is none."""
    try:
        return os.path.getsize(file)
    except OSError:
        return 0


def last_words(log: str, since: int) -> str:
    """Why a daemon ended at once, as it wrote it to its log after so many bytes; empty where it did not."""
    try:
        with open(log, "rb") as file:
            file.seek(since)
            lines = file.read(65536).decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("mcpd: ") for line in reversed(lines) if line.startswith("mcpd: ")), "")


def by_hand(place: Place) -> str:
    """The command by which a person starts it."""
    own = os.path.dirname(config_folder(os.environ))
    folders = (f"{own}/systemd/user", "/etc/systemd/user", "/usr/lib/systemd/user")
    if manager_serves(place, os.environ) and any(os.path.exists(f"{each}/{SOCKET_UNIT}") for each in folders):
        return f"systemctl --user start {SOCKET_UNIT}"
    return "mcpd run"


def say_whose_home(environ: Mapping[str, str]) -> None:
    """Where nothing says whose files a new daemon takes, they are the account's: that is said."""
    if not environ.get("HOME") and not all(map(environ.get, FOLDERS)):
        from mcpctl import output

        output.note(
            f"HOME is not set: mcpd starts with the files in {home(environ)}, the home of this account"
        )


def forbidden(environ: Mapping[str, str]) -> bool:
    return environ.get("MCPD_NO_SPAWN", "") not in ("", "0")


def not_running(place: Place, hint: str) -> CallError:
    where = f'at "{place.control}"' if place.explicit else f'in "{place.folder}"'
    return CallError("not_running", f"mcpd is not running: nobody answers {where}", hint)


def make_folder(folder: str) -> None:
    """Make the sockets' folder, private. Raises CallError where that is impossible or it is another's."""
    try:
        make_private(folder)
        owner = os.stat(folder).st_uid
    except OSError as error:
        raise CallError(
            "not_running", f'cannot start mcpd: cannot make "{folder}": {error.strerror}'
        ) from None
    if owner != os.getuid():
        raise CallError(
            "foreign_socket", f'cannot start mcpd: "{folder}" belongs to the user with uid {owner}'
        )


def make_private(folder: str) -> None:
    """Make the folder and what is missing above it, all 0700: the daemon refuses what others can enter."""
    if not os.path.isdir(folder):
        make_private(os.path.dirname(folder))
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            return  # another caller was faster


def take_lock(place: Place, deadline: float) -> int:
    """The start lock's descriptor; closing it releases. Raises CallError when others hold it too long."""
    try:
        fd = os.open(f"{place.folder}/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CallError(
            "not_running", f'cannot start mcpd: cannot write to "{place.folder}": {error.strerror}'
        ) from None
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(fd)
                raise not_running(place, "another process has been starting it for too long") from None
            time.sleep(0.02)


def wait_while_starting(place: Place, attempt: Callable[[], T | None], deadline: float) -> T | None:
    """Try once, and go on while a daemon holds its lock: it is about to listen, or about to end."""
    while True:
        found = attempt()
        if found is not None or time.monotonic() > deadline or not lock_held(f"{place.folder}/lock"):
            return found
        time.sleep(0.02)


def lock_held(path: str) -> bool:
    """Whether a process holds a flock on `path`. Only read: trying the lock could make a daemon lose it."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            owner = file.read(32).strip().decode("ascii", "replace")
        with open("/proc/locks", encoding="ascii") as file:
            locks = [line.split() for line in file]
    except OSError:
        return False
    return any(is_lock_of(fields, found, owner) for fields in locks)


def owner(place: Place) -> int | None:
    """The number of the process that is the daemon of this place, as it wrote it into its lock."""
    path = f"{place.folder}/lock"
    try:
        with open(path, "rb") as file:
            number = file.read(32).strip()
    except OSError:
        return None
    return int(number) if number.isdigit() and lock_held(path) else None


def is_lock_of(fields: list[str], found: os.stat_result, owner: str) -> bool:
    """Whether a line of /proc/locks tells of a flock on this file, whose first line names its owner.

    "1: FLOCK  ADVISORY  WRITE 4711 00:2d:1234 0 EOF"; waiters have "->" in the second field. Two files of
    different file systems may have one number; some file systems show stat another device than the kernel's.
    """
    if len(fields) < 6 or fields[1] != "FLOCK":
        return False
    device, _, inode = fields[5].rpartition(":")
    own = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    return inode == str(found.st_ino) and (device == own or fields[4] == owner)


def wait_for(attempt: Callable[[], T | None], deadline: float, process: int | None) -> T | None:
    """Try until it works, the deadline passes, or the started process has ended (a pidfd; it is closed)."""
    pause = 0.005
    ended = False
    try:
        while True:
            found = attempt()
            if found is not None or time.monotonic() > deadline or ended:
                return found
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
            # One more attempt after the end: a daemon that lost the race ends because another is there.
            ended = process is not None and _readable(process)
    finally:
        if process is not None:
            os.close(process)


def launch(place: Place) -> int | None:
    """Start the daemon by the best way there is. Returns a pidfd where it is a process of our making."""
    environment = daemon_environment(os.environ, place)
    if manager_serves(place, os.environ):
        if run(["systemctl", "--user", "start", SOCKET_UNIT]):
            return None
        settings = [f"--setenv={name}={value}" for name, value in environment.items()]
        if run([*TRANSIENT, *settings, *daemon_command()]):
            return None
    return spawn_daemon(daemon_command(), environment, log_file(os.environ))


#: The stop order of the shipped unit (systemd/mcpd.service), for a daemon without one.
TRANSIENT = [
    "systemd-run",
    "--user",
    "--unit=mcpd",
    "--quiet",
    "--collect",
    "--working-directory=/",
    "--property=Type=exec",
    "--property=KillMode=mixed",
    "--property=TimeoutStopSec=20s",
    "--property=Delegate=yes",
]


def daemon_command() -> list[str]:
    # -I: neither PYTHON* variables nor the folder of the caller may choose what is imported.
    # --on-demand: when it finds that another daemon was faster it ends quietly.
    return [sys.executable, "-I", "-m", "mcpd", "run", "--on-demand"]


def manager_serves(place: Place, environ: Mapping[str, str]) -> bool:
    """Whether the user manager's mcpd would be the one that is wanted, and it seems to be there.

    With private folders (tests, a second daemon) it would not: its units know only the usual ones.
    """
    import pwd

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return False
    usual = {
        "HOME": home,
        "XDG_CONFIG_HOME": f"{home}/.config",
        "XDG_STATE_HOME": f"{home}/.local/state",
        "XDG_CACHE_HOME": f"{home}/.cache",
    }
    if place.moved_by or any(environ.get(name) not in (None, "", value) for name, value in usual.items()):
        return False
    return os.path.exists(f"{os.path.dirname(place.folder)}/systemd/private")


def daemon_environment(environ: Mapping[str, str], place: Place) -> dict[str, str]:
    """The part of the caller's environment that a daemon may inherit, and where its sockets go."""
    kept = {name: value for name, value in environ.items() if name in ALLOWED or name.startswith(PREFIXES)}
    return {**kept, "HOME": home(environ), "MCPD_RUNTIME_DIR": place.folder}


def log_file(environ: Mapping[str, str]) -> str:
    return f"{state_folder(environ)}/mcpd.log"


def run(command: list[str]) -> bool:
    """Run a command of the user manager silently; False when it is missing, fails or takes too long."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        silent = [(os.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
        pid = os.posix_spawnp(command[0], command, os.environ, file_actions=silent)
    except OSError:
        return False
    finally:
        os.close(null)
    process = os.pidfd_open(pid)
    try:
        if not _readable(process, MANAGER_LIMIT):
            os.kill(pid, 9)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        os.close(process)


def spawn_daemon(command: list[str], environment: dict[str, str], log: str) -> int | None:
    """Start `command` as nobody's child; its output goes to `log`. Returns a pidfd of it, if it still lives.

    Raises CallError `not_running` when it cannot be started.
    """
    output = _open_log(log)
    reader, writer = os.pipe()
    middle = os.fork()
    if middle == 0:
        _become_daemon(command, environment, output, writer)
    os.close(output)
    os.close(writer)
    os.waitpid(middle, 0)
    with open(reader, "rb") as file:
        pid, _, trouble = file.read().decode().partition(" ")
    if trouble or not pid:
        raise CallError("not_running", f'cannot start "{command[0]}": {trouble or "cannot fork"}')
    try:
        return os.pidfd_open(int(pid))
    except ProcessLookupError:
        return None


def _become_daemon(command: list[str], environment: dict[str, str], output: int, writer: int) -> None:
    """In the child; never returns. `writer` reports the pid and why exec failed; exec closes it."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)  # the daemon is left to init, so that no caller has to wait for it
        os.write(writer, str(os.getpid()).encode())
        os.chdir("/")
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        _close_others(writer)
        os.execve(command[0], command, environment)
    except OSError as error:
        os.write(writer, f" {error.strerror}".encode())
    finally:
        os._exit(127)


def _close_others(kept: int) -> None:
    """Close everything but the standard three and `kept`: whoever waits for the end of a pipe must get it."""
    last = max(map(int, os.listdir("/proc/self/fd")))
    os.closerange(3, kept)
    os.closerange(kept + 1, last + 1)


def _open_log(path: str) -> int:
    try:
        make_private(os.path.dirname(path))
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        # A daemon without a log is better than none: it reports what is wrong on its socket.
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _readable(fd: int, timeout: float = 0.0) -> bool:
    import select

    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(int(timeout * 1000)))
