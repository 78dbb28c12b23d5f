"""A blocking client of the control socket: JSON-RPC 2.0, one object a line.

    from mcpctl import client, paths
    with client.reach(paths.find(None, os.environ, os.getuid())) as daemon:
        print(daemon.call("servers.list")["servers"])

Answers are kept as text as well as decoded: programs that ask for JSON get what the daemon wrote.
"""

from __future__ import annotations

import json
import time

from mcpctl import __version__
from mcpctl.connect import connect
from mcpctl.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from mcpctl.paths import Place

#: The API numbers this client speaks: lowest and highest.
API = (1, 1)

#: A line longer than this is not the daemon's: it caps messages at 16 MiB, a listing at a few of these.
LONGEST_LINE = 64 * 1024 * 1024

_decoder = json.JSONDecoder()


class Client:
    """One connection. Not for use by several threads."""

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._lines = Lines(sock)
        self._last_id = 0
        self._events: list[Any] = []
        self.hello: dict[str, Any] = {}
        self.prove: Callable[[Client, CallError], None] | None = None
        """How to show the daemon the second factor; None where nobody can be asked for it."""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def greet(self, timeout: float | None = None) -> None:
        """Say `hello`. Raises CallError, kind `api_mismatch` where there is no common API number."""
        self.hello = self.call("hello", {"client": "mcpctl", "version": __version__, "api": API}, timeout)

    def call(
        self, method: str, params: Mapping[str, object] | str | None = None, timeout: float | None = None
    ) -> Any:
        """The decoded result of one request; see `call_text`."""
        return self.request(method, params, timeout)[0]

    def call_text(
        self, method: str, params: Mapping[str, object] | str | None = None, timeout: float | None = None
    ) -> str:
        """The result as the daemon wrote it. `params` as a string is JSON text, sent as it is, on one line.

        Raises CallError: the daemon's error, `timed_out` after `timeout` seconds, `connection_lost`.
        """
        return self.request(method, params, timeout)[1]

    def request(
        self, method: str, params: Mapping[str, object] | str | None = None, timeout: float | None = None
    ) -> tuple[Any, str]:
        """Both. What needs the second factor is asked again once `prove` has shown it (n06)."""
        try:
            return self._request(method, params, timeout)
        except CallError as error:
            if error.kind != "factor_needed" or self.prove is None:
                raise
            wanted = error
        self.prove(self, wanted)
        return self._request(method, params, timeout)

    def _request(
        self, method: str, params: Mapping[str, object] | str | None, timeout: float | None
    ) -> tuple[Any, str]:
        self._last_id += 1
        text = params if isinstance(params, str) else json.dumps(params or {})
        line = f'{{"jsonrpc":"2.0","id":{self._last_id},"method":{json.dumps(method)},"params":{text}}}\n'
        self._sock.settimeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._send(line)
            while True:
                message = members(self._lines.next(deadline))
                if "method" in message:
                    self._events.append(message)
                elif message.get("id", (None,))[0] == self._last_id:
                    return answer(message)
                elif "error" in message and message.get("id", (None,))[0] is None:
                    answer(message)  # the daemon could not read the request; it has no id to say which
        except TimeoutError:
            raise CallError("timed_out", f'cannot wait longer than {timeout:g} s for "{method}"') from None
        except OSError as error:
            raise CallError("connection_lost", f"cannot reach mcpd any more: {error.strerror}") from None

    def _send(self, line: str) -> None:
        """Raises OSError; not where the daemon has hung up, for it may have said why."""
        try:
            self._sock.sendall(line.encode())
        except BrokenPipeError:
            return

    def events(self) -> Iterator[tuple[str, Any, str]]:
        """Notifications after `events.subscribe`, until the end: (method, params, params as text)."""
        while True:
            if not self._events:
                try:
                    self._sock.settimeout(None)
                    self._events.append(members(self._lines.next(None)))
                except (OSError, CallError):
                    return
            message = self._events.pop(0)
            if "method" in message:
                params, text = message.get("params", ({}, "{}"))
                yield message["method"][0], params, text

    def wait_closed(self, timeout: float) -> bool:
        """Wait until the daemon closes the connection; False when it did not in time."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                self._lines.next(deadline)
        except TimeoutError:
            return False
        except (OSError, CallError):
            return True


class Lines:
    """Lines of a socket, whole."""

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._buffer = bytearray()
        self._searched = 0

    def next(self, deadline: float | None) -> str:
        """The next line. Raises TimeoutError, OSError, CallError `connection_lost` or `bad_answer`."""
        while (end := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > LONGEST_LINE:
                raise CallError("bad_answer", f"cannot read an answer of more than {LONGEST_LINE} bytes")
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self._sock.settimeout(left)
            chunk = self._sock.recv(65536)
            if not chunk:
                raise CallError("connection_lost", "mcpd closed the connection before it answered")
            self._buffer += chunk
        line = self._buffer[:end].decode("utf-8", "replace")
        del self._buffer[: end + 1]
        self._searched = 0
        return line


def members(line: str) -> dict[str, tuple[Any, str]]:
    """The members of a JSON object: name -> (value, its text). Raises CallError `bad_answer`."""
    found: dict[str, tuple[Any, str]] = {}
    try:
        at = _expect(line, _skip(line, 0), "{")
        while line[at] != "}":
            if found:
                at = _expect(line, at, ",")
            name, at = _decoder.raw_decode(line, at)
            start = _expect(line, _skip(line, at), ":")
            value, at = _decoder.raw_decode(line, start)
            if not isinstance(name, str):
                raise ValueError
            found[name] = (value, line[start:at])
            at = _skip(line, at)
        if line[at + 1 :].strip():
            raise ValueError
    except (ValueError, IndexError, RecursionError):
        raise CallError("bad_answer", "cannot read the answer of mcpd: not a JSON object") from None
    return found


def _expect(line: str, at: int, mark: str) -> int:
    """The place of what follows `mark`. Raises ValueError when something else stands there."""
    if line[at] != mark:
        raise ValueError
    return _skip(line, at + 1)


def _skip(line: str, at: int) -> int:
    while line[at] in " \t\r\n":
        at += 1
    return at


def answer(message: Mapping[str, tuple[Any, str]]) -> tuple[Any, str]:
    """The result of a response with its text. Raises its error as CallError."""
    if "result" in message:
        return message["result"]
    error = message.get("error", (None, ""))[0]
    if not isinstance(error, dict):
        raise CallError("bad_answer", "cannot read the answer of mcpd: neither a result nor an error")
    data = error.get("data")
    data = dict(data) if isinstance(data, dict) else {}
    kind = data.pop("kind", None)
    hint = data.pop("hint", None)
    raise CallError(
        kind if isinstance(kind, str) else "internal",
        str(error.get("message", "unknown error")),
        hint if isinstance(hint, str) else "",
        data,
    )


#: Seconds that a daemon may take to greet: it does nothing else before.
PATIENCE = 15.0


def try_open(place: Place, timeout: float = PATIENCE) -> Client | None:
    """A greeted connection; None while nobody listens or the daemon hangs up before it answered.

    Nothing was asked for before the greeting is answered, so trying again is safe. Raises CallError
    `timed_out` after `timeout` seconds without a greeting, `api_mismatch`, and what `connect` raises.
    """
    sock = connect(place.control, timeout)
    if sock is None:
        return None
    client = Client(sock)
    try:
        client.greet(timeout)
        return client
    except CallError as error:
        client.close()
        if error.kind in ("connection_lost", "stopping"):
            return None
        if error.kind == "timed_out":
            raise stuck(place, timeout) from None
        raise
    except BaseException:
        client.close()
        raise


def stuck(place: Place, waited: float) -> CallError:
    """Nobody but a stopped or overloaded daemon takes so long; a person has to know which process it is."""
    from mcpctl import start

    pid = start.owner(place)
    return CallError(
        "timed_out",
        f"mcpd does not answer: {waited:g} s without a greeting",
        f"its process is {pid}; if it stays like this: kill -9 {pid}" if pid else "",
    )


def reach(place: Place, *, spawn: bool = True, timeout: float | None = None) -> Client:
    """A connection to the daemon, which is started where nobody listens and `spawn` allows it.

    One that is there has to greet within `timeout` seconds, at most PATIENCE. Raises CallError
    `not_running`, `foreign_socket`, `api_mismatch`, `timed_out`.
    """
    patience = min(timeout or PATIENCE, PATIENCE)
    client = try_open(place, patience)
    if client is None:
        from mcpctl import start

        client = start.ensure(place, lambda: try_open(place), spawn=spawn)
    return client
