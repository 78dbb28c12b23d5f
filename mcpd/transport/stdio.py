"""A server as a child process: spawned, read, written, and stopped with its whole tree (3.1, c04).

`run` owns the process from the first byte to the last: when the process ends, or `run` is
cancelled, it stops the tree in MCP's order before it returns.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import re
import resource
import signal
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from mcpd.processes import MARKER
from mcpd.protocol.framing import LineBuffer
from mcpd.protocol.revisions import Revision
from mcpd.transport import sweep
from mcpd.transport.base import ConnectFailed, Ending, Inherited, Launch, Receiver
from mcpd.transport.lines import LineWriter
from mcpd.transport.reader import Reader

log = logging.getLogger("mcpd.transport")

#: Pipes of 1 MiB save wake-ups for large messages (measured); unprivileged users share 64 MiB of it.
PIPE_SIZE = 1024 * 1024

#: How long a server may take to leave after its stdin is closed, and after SIGTERM (protocol reference 9).
CLOSE_WAIT = 2.0
TERM_WAIT = 3.0
KILL_WAIT = 2.0

#: What a process wrote just before it ended is still read for this long.
LAST_WORDS = 0.5

STDERR_LINES = 200
STDERR_LINE = 8192
#: Bytes of a line that are looked through, so that no half of a secret is left where the line is cut.
_READ = STDERR_LINE + 4096


#: How the line begins by which Node, Python and others say what has ended them.
_REASON = re.compile(r"(?:Uncaught )?[\w.]*(?:Error|Exception)(?: \[\w+\])?: ")


class StderrRing:
    """The last lines that a server wrote beside the protocol; survives its restarts (n16)."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        """`redact` takes out of a text what nobody is to read (n17)."""
        self._redact = redact
        self._lines: deque[tuple[float, str]] = deque(maxlen=STDERR_LINES)
        self._part = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._part = (self._part + chunk).split(b"\n")
        # Those before would be pushed out at once: a flood of empty lines is 65,536 of them a read.
        for line in lines[-STDERR_LINES:]:
            self.add(line[:_READ].decode("utf-8", "replace").rstrip("\r"))
        if len(self._part) > _READ:
            # Only the head of an endless line is kept.
            self._part = self._part[:_READ]

    def add(self, text: str) -> None:
        self._lines.append((time.time(), self.clean(text)[:STDERR_LINE]))

    def clean(self, text: str) -> str:
        """Words of the server's as one line, redacted."""
        return self._redact(text).replace("\n", " ").replace("\r", " ")

    def flush(self) -> None:
        """Keep an unfinished last line as well."""
        if self._part:
            self.feed(b"\n")

    def last(self, count: int) -> list[tuple[float, str]]:
        return list(self._lines)[-count:]

    def last_words(self) -> str:
        """What to repeat of it when the server has ended: its last lines, and before them the one that names
        an error, which in some languages has a dozen lines behind it."""
        lines = [text.strip() for _, text in self.last(20) if text.strip()]
        reason = next((line[:300] for line in reversed(lines) if _REASON.match(line)), "")
        others = dict.fromkeys(line for line in lines[-5:] if not reason or line[:300] != reason)
        return " / ".join(filter(None, (reason, " / ".join(others)[-300:])))


class Stdio:
    """One child process and its pipes."""

    def __init__(
        self,
        process: trio.Process,
        fds: tuple[int, int, int],
        marker: str,
        ring: StderrRing,
        nursery: trio.Nursery,
        reader: Reader,
    ) -> None:
        self._process = process
        self._stdin, self._stdout, self._stderr = fds
        self._marker = marker
        self._ring = ring
        self._over = trio.Event()
        """The process has ended, or one of its streams has: what remains is to say so and clean up."""
        self._writer = LineWriter(self._stdin, nursery, self._over.set, reader.turns)
        self.write = self._writer.write
        """Send one line; see there."""
        self._reader = reader
        self._buffer = LineBuffer()
        self._receiver: Receiver | None = None
        self._fault: Exception | None = None
        """What went wrong in here while a line was taken; raised by `run`, for this server's firewall."""
        self._end = trio.Event()
        """The output has ended."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    async def spawn(
        cls,
        launch: Launch,
        ring: StderrRing,
        nursery: trio.Nursery,
        reader: Reader,
        inherited: Inherited,
    ) -> Stdio:
        """Start the process; `run` must follow at once. Raises ConnectFailed."""
        ours, theirs = _pipes()
        try:
            process = await trio.lowlevel.open_process(
                list(launch.argv),
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                cwd=launch.cwd,
                env=launch.env,
                start_new_session=True,
                umask=inherited.umask,
            )
        except OSError as e:
            _close(ours)
            raise _spawn_failure(launch, e) from None
        except BaseException:
            _close(ours)
            raise
        finally:
            _close(theirs)
        if inherited.open_files is not None:
            _limit_files(process.pid, inherited.open_files)
        return cls(process, ours, launch.env[MARKER], ring, nursery, reader)

    @property
    def queued(self) -> int:
        """Bytes that the server has not taken yet."""
        return self._writer.queued

    def settle(self, revision: Revision) -> None:
        """Lines are framed alike in every revision (3.1)."""

    async def run(self, receiver: Receiver) -> None:
        """Hand every line to `receiver` until the process ends, then say how, then clean up."""
        self._receiver = receiver
        self._reader.add(self._stdout, self._received)
        self._reader.add(self._stderr, self._heard)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._await_exit)
                await self._over.wait()
                with trio.move_on_after(LAST_WORDS):
                    await (self._end.wait() if self._process.returncode is not None else self._process.wait())
                self._ring.flush()
                self._receiver = None
                receiver.lost(Ending("exited", self.ending()))
                nursery.cancel_scope.cancel()
        finally:
            self._receiver = None
            with trio.CancelScope(shield=True):
                await self._stop()
        if self._fault is not None:
            raise self._fault

    def ending(self) -> str:
        """How the process ended, in words."""
        code = self._process.returncode
        if code is None:
            return f"the server closed its {'input' if self._writer.broken else 'output'}"
        if code < 0:
            return f"the server was ended by {_signal_name(-code)}"
        return f"the server exited with code {code}"

    def _received(self, chunk: bytes | None) -> None:
        """Output of the server. It is read to the end, also while the server is being stopped."""
        if not chunk:
            self._end.set()
            self._over.set()
            return
        try:
            for line in self._buffer.feed(chunk):
                if self._receiver is not None:
                    self._receiver.receive(line)
            if self._buffer.ends:
                self._dropped()
        except Exception as e:
            self._fault = e
            self._receiver = None
            self._over.set()

    def _dropped(self) -> None:
        for head, tail in self._buffer.take_ends():
            if self._receiver is not None:
                self._receiver.dropped(head, tail)
        self._ring.add(f"[mcpd] dropped {self._buffer.dropped} messages over the limit of 16 MiB")

    def _heard(self, chunk: bytes | None) -> None:
        if chunk:
            self._ring.feed(chunk)

    async def _await_exit(self) -> None:
        await self._process.wait()
        self._over.set()

    async def _stop(self) -> None:
        """Close stdin, 2 s, SIGTERM, 3 s, SIGKILL, then everything that bears the marker (DESIGN 7)."""
        self._writer.close()
        _close((self._stdin,))
        try:
            for wait, act in ((CLOSE_WAIT, signal.SIGTERM), (TERM_WAIT, signal.SIGKILL), (KILL_WAIT, None)):
                with trio.move_on_after(wait):
                    await self._process.wait()
                if self._process.returncode is not None:
                    break
                if act is not None:
                    self._signal_group(act)
            await self._sweep()
        finally:
            for fd in (self._stdout, self._stderr):
                self._reader.remove(fd)
            _close((self._stdout, self._stderr))
            self._ring.flush()

    def _signal_group(self, number: signal.Signals) -> None:
        # The process is its group's leader (start_new_session) and not reaped yet. One that has become
        # another user's (setuid) cannot be signalled; the sweep says what is left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _sweep(self) -> None:
        """End what the server left behind: launchers' grandchildren, processes in sessions of their own.

        Terminal multiplexers and the user's own browsers, which detach themselves, are said and spared.
        """
        pid = self._process.pid
        clear = partial(sweep.clear, partial(sweep.find, self._marker, (pid,)), group=pid)
        try:
            _, spared = await trio.to_thread.run_sync(clear)
        except OSError as e:
            log.warning("cannot look for what process %d left behind: %s", pid, e.strerror)
            return
        for process in spared:
            self._ring.add(f"[mcpd] {process} detached itself and is left alone")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Most real-time signals have no name.
        return f"signal {number}"


def _pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Pipes for stdin, stdout and stderr: (our ends, the child's ends). Raises ConnectFailed."""
    fds: list[int] = []
    try:
        for _ in range(3):
            fds += os.pipe2(os.O_CLOEXEC)
    except OSError as e:
        _close(tuple(fds))
        raise ConnectFailed("failed", f"cannot make a pipe: {e.strerror}") from None
    in_read, in_write, out_read, out_write, err_read, err_write = fds
    for fd in (in_write, out_read, err_read):
        os.set_blocking(fd, False)
    for fd in (in_write, out_read):
        try:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        except OSError:
            # The user's share of large pipes is used up; the default size serves as well.
            break
    return (in_write, out_read, err_read), (in_read, out_write, err_write)


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        trio.lowlevel.notify_closing(fd)
        os.close(fd)


def _limit_files(pid: int, soft: int) -> None:
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    except OSError:
        # It has ended already.
        pass


def _spawn_failure(launch: Launch, e: OSError) -> ConnectFailed:
    command = launch.argv[0]
    if e.errno == errno.ENOENT:
        return ConnectFailed(
            "not_executable", f'cannot start "{command}": its interpreter was not found', lasting=True
        )
    if e.errno in (errno.EACCES, errno.ENOEXEC):
        return ConnectFailed("not_executable", f'cannot start "{command}": {e.strerror}', lasting=True)
    return ConnectFailed("failed", f'cannot start "{command}": {e.strerror}')
