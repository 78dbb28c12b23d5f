"""`mcpctl bridge`: MCP on stdin and stdout, pumped to and from an agent socket of the daemon (n01).

It starts with every host, so it imports nothing beyond sys, os and _socket while the daemon runs.
Two blocking copies, one a direction: a slow reader holds up its own direction only, and never more than
one chunk is held. Standard input is not made non-blocking: others may share its file description.

The end of the input alone lets the answers come: `printf ... | mcpctl bridge`. When there is nobody any more
to read them either, the host has died, and the bridge ends, so that the daemon cancels its calls.
"""

from __future__ import annotations

import _socket
import _thread
import os
from time import monotonic

from mcpctl import paths
from mcpctl.connect import connect
from mcpctl.errors import DONE, FAILED, CallError

CHUNK = 65536

#: Seconds that a host may be kept waiting for a word to the person.
PATIENCE = 1.0

#: Options with a value: name -> help.
OPTIONS = {
    "agent": "the agent that this is; its own socket is used where there is one",
    "server": "show one server alone, with its own names",
    "without": "leave this server out; may be given several times",
    "root": "the project's folder",
    "socket": "the agent socket, or the control socket beside it",
}


def main(words: list[str]) -> int:
    """Parse, connect, pump. Returns the exit code."""
    try:
        options, spawn = parse(words)
        return run(options, spawn=spawn)
    except CallError as error:
        _complain(error.message)
        if error.hint:
            _complain(error.hint)
        return error.exit_code


def parse(words: list[str]) -> tuple[dict[str, str], bool]:
    """Values of OPTIONS that were given, and whether the daemon may be started."""
    options: dict[str, str] = {}
    spawn = True
    rest = iter(words)
    for word in rest:
        name, has_value, value = word.partition("=")
        if word == "--no-spawn":
            spawn = False
        elif word[:2] == "--" and name[2:] in OPTIONS:
            given = value if has_value else next(rest, None)
            if not given:
                raise CallError("usage", f'no value for "{name}"')
            # Of a server to leave out there may be several; their names have no comma.
            before = options.get("without") if name == "--without" else None
            options[name[2:]] = f"{before},{given}" if before else given
        else:
            raise CallError("usage", f'unknown argument "{word}"', "see: mcpctl bridge --help")
    return options, spawn


def run(options: dict[str, str], *, spawn: bool) -> int:
    """One attached host, from the first byte to the last."""
    fill_standard()
    place = paths.find(options.get("socket"), os.environ, os.getuid())
    agent = options.get("agent", "")
    attached = attach(place, agent)
    if attached is None:
        from mcpctl import start

        attached = start.ensure(place, lambda: attach(place, agent), spawn=spawn and not sandboxed(place))
    sock, own = attached
    names = ("agent", "server", "without", "root")
    told: dict[str, str] = {name: options[name] for name in names if name in options}
    if own:
        told.pop("agent", None)
    if "root" in told:
        told["root"] = os.path.abspath(told["root"])
    sock.settimeout(None)
    try:
        if told:
            sock.sendall(attach_line(told))
        if "without" in told:
            complain_of_unknown(place, told["without"].split(","))
        return Pump(sock).run()
    except (BrokenPipeError, ConnectionResetError):
        _complain("mcpd closed the connection")
        return FAILED


def fill_standard() -> None:
    """Make what is closed of the standard three /dev/null: the socket would become one of them else."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)  # as the standard ones are
    os.close(fd)


def sandboxed(place: paths.Place) -> bool:
    """Whether only agents' folders can be seen: a daemon of the sandbox's own would take their sockets.

    Every daemon leaves its lock file in the folder; what is mounted into a sandbox is below it.
    """
    return os.path.isdir(f"{place.folder}/agents") and not os.path.exists(f"{place.folder}/lock")


def attach(place: paths.Place, agent: str) -> tuple[_socket.socket, bool] | None:
    """A connection, and whether its socket alone says which agent this is."""
    default = place.agent("default")
    path = place.agent(agent) if agent else default
    sock = connect(path)
    if sock is not None:
        return sock, path != default or agent == "default"
    # A socket file that nobody serves means a daemon that is away, not an agent without a socket.
    if path != default and not os.path.exists(path):
        sock = connect(default)
        if sock is not None:
            return sock, False
    return None


def attach_line(told: dict[str, str]) -> bytes:
    """The line with which a connection says who it is (DESIGN 3)."""
    members = ",".join(f"{quoted(name)}:{told_value(name, value)}" for name, value in told.items())
    line = f'{{"jsonrpc":"2.0","method":"notifications/dev.mcpd/attach","params":{{{members}}}}}\n'
    return line.encode()


def told_value(name: str, value: str) -> str:
    return f"[{','.join(map(quoted, value.split(',')))}]" if name == "without" else quoted(value)


def complain_of_unknown(place: paths.Place, names: list[str]) -> None:
    """Say which servers to leave out there are not. One may get the name later, so it counts all the same.

    In a sandbox, or by an agent's socket that was named, nobody can be asked, and a host is not kept waiting:
    then nothing is said.
    """
    if os.path.basename(place.control) != paths.CONTROL:
        return
    try:
        sock = connect(place.control, PATIENCE)
        if sock is None:
            return
        try:
            deadline = monotonic() + PATIENCE
            unknown = [f'"{name}"' for name in dict.fromkeys(names) if is_unknown(sock, name, deadline)]
        finally:
            sock.close()
    except (CallError, OSError):
        return
    if unknown:
        _complain(f"nothing to leave out now: no server is named {' or '.join(unknown)}")


def is_unknown(sock: _socket.socket, server: str, deadline: float) -> bool:
    """Whether no server has that name, by the word of the daemon's control socket. Raises OSError."""
    sock.settimeout(max(0.01, deadline - monotonic()))
    line = f'{{"jsonrpc":"2.0","id":1,"method":"servers.get","params":{{"server":{quoted(server)}}}}}\n'
    sock.sendall(line.encode())
    answer = b""
    while not answer.endswith(b"\n") and (chunk := sock.recv(CHUNK)):
        answer += chunk
    # To read JSON would cost more than the rest of the bridge; a server's own words are in results alone.
    return b'"error"' in answer[:48] and b'"no_such_server"' in answer


def quoted(text: str) -> str:
    """A JSON string, in ASCII. The `json` package would cost more than the rest of the bridge."""
    try:
        from _json import encode_basestring_ascii
    except ImportError:  # an interpreter without the C accelerator
        from json.encoder import encode_basestring_ascii
    return encode_basestring_ascii(text)


class Pump:
    """Copies stdin to the socket in a thread, the socket to stdout in the calling one."""

    def __init__(self, sock: _socket.socket) -> None:
        self.sock = sock
        self.input_ended = False
        self.host_gone = False

    def run(self) -> int:
        """Returns when the daemon has closed its side: 0 when our input had ended before, else 1.

        Also 1 when the host is gone, silently: nobody is left to be told.
        """
        _thread.start_new_thread(self.upward, ())
        while chunk := self.received():
            if not write_all(1, chunk):
                return FAILED
        if self.host_gone:
            return FAILED
        if self.input_ended:
            return DONE
        _complain("mcpd closed the connection")
        return FAILED

    def received(self) -> bytes:
        try:
            return self.sock.recv(CHUNK)
        except ConnectionResetError:
            return b""

    def upward(self) -> None:
        try:
            while chunk := read_some(0):
                self.sock.sendall(chunk)
            self.input_ended = True
            self.sock.shutdown(_socket.SHUT_WR)
            wait_unread(1)
            self.host_gone = True
            self.sock.shutdown(_socket.SHUT_RDWR)  # wakes the other direction
        except OSError:
            pass  # the daemon closed; the other direction sees that and says so


def read_some(fd: int) -> bytes:
    """The next bytes of `fd`; b"" at its end, also where it was never open."""
    while True:
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:
            _wait(fd, writing=False)
        except OSError:
            return b""


def write_all(fd: int, chunk: bytes) -> bool:
    """Write everything; False when the reader is gone."""
    left = memoryview(chunk)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            _wait(fd, writing=True)
        except OSError:
            return False
    return True


def wait_unread(fd: int) -> None:
    """Return when nobody can read what is written to `fd` any more; never for a file.

    A pipe without readers shows POLLERR, a socket or terminal that is closed at its other end POLLHUP; a
    socket whose other end is only done with writing shows neither.
    """
    import select

    poll = select.poll()
    poll.register(fd, 0)  # POLLERR and POLLHUP are always reported
    while not poll.poll():
        pass


def _wait(fd: int, *, writing: bool) -> None:
    """Wait for a descriptor that the host made non-blocking."""
    import select

    poll = select.poll()
    poll.register(fd, select.POLLOUT if writing else select.POLLIN)
    poll.poll()


def _complain(text: str) -> None:
    from mcpctl.output import note

    note(f"bridge: {text}")
