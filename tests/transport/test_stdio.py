"""A child process as a transport: what it says, how it ends, and that nothing of it is left (3.1, c04)."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mcpd.processes import MARKER
from mcpd.transport import stdio, sweep
from mcpd.transport.base import AS_IT_IS, ConnectFailed, ConnectionLost, Ending, Inherited, Launch, Unanswered
from mcpd.transport.reader import Reader
from mcpd.transport.stdio import StderrRing, Stdio

OWNER = f"test{os.getpid()}.stdio."

ECHO = "import sys\nfor line in sys.stdin: print('got ' + line.strip(), flush=True)"


class Child:
    """A running script, its lines and how it was lost."""

    def __init__(self, process: Stdio, ring: StderrRing) -> None:
        self.process = process
        self.ring = ring
        self.ending = ""
        self.too_long: list[tuple[bytes, bytes]] = []
        self.over = trio.Event()
        self._send, self._receive = trio.open_memory_channel[bytes](10_000)

    def receive(self, line: bytes, on: bytes = b"") -> None:
        self._send.send_nowait(line)

    def failed(self, key: bytes, failure: Unanswered | ConnectionLost) -> None:
        raise AssertionError("a pipe knows nothing of requests")

    def dropped(self, head: bytes, tail: bytes) -> None:
        self.too_long.append((head, tail))

    def lost(self, ending: Ending) -> None:
        assert ending.reason == "exited"
        self.ending = ending.message
        self.over.set()

    async def line(self) -> bytes:
        with trio.fail_after(20):
            return await self._receive.receive()

    async def lines(self) -> list[bytes]:
        """What has come until the end."""
        with trio.fail_after(20):
            await self.over.wait()
        self._send.close()
        return [line async for line in self._receive]


@asynccontextmanager
async def running(script: str, *argv: str, inherited: Inherited = AS_IT_IS) -> AsyncIterator[Child]:
    """A Python script as the child; it is stopped at the end, and nothing may be left of it."""
    ring = StderrRing()
    env = {MARKER: f"{OWNER}{os.urandom(4).hex()}.", "PATH": os.environ["PATH"]}
    launch = Launch((sys.executable, "-I", "-c", script, *argv), env, "/")
    gc.collect()  # what an earlier test left open must not be counted
    before = open_files_now()
    reader = Reader()
    async with trio.open_nursery() as outer:
        outer.start_soon(reader.run)
        async with trio.open_nursery() as nursery:
            process = await Stdio.spawn(launch, ring, nursery, reader, inherited)
            child = Child(process, ring)
            nursery.start_soon(process.run, child)
            yield child
            nursery.cancel_scope.cancel()
        outer.cancel_scope.cancel()
    reader.close()
    assert not Path(f"/proc/{process.pid}").exists(), "ended and reaped"
    assert sweep.find(env[MARKER]) == []
    assert open_files_now() <= before


def open_files_now() -> Counter[str]:
    """What this process has open, by kind; pipes and sockets have no name of their own."""
    found: Counter[str] = Counter()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[os.readlink(f"/proc/self/fd/{fd}").partition(":[")[0]] += 1
    return found


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less patience with servers that do not leave by themselves."""
    monkeypatch.setattr(stdio, "CLOSE_WAIT", 0.2)
    monkeypatch.setattr(stdio, "TERM_WAIT", 0.2)


async def test_lines_go_both_ways(real_clock: None) -> None:
    async with running(ECHO) as child:
        for number in range(3):
            child.process.write(b"line %d\n" % number)
        assert [await child.line() for _ in range(3)] == [b"got line 0", b"got line 1", b"got line 2"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("raise SystemExit(3)", "the server exited with code 3"),
        ("pass", "the server exited with code 0"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "the server was ended by SIGKILL"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)", "the server was ended by signal 37"),
        ("import os, time; os.close(1); time.sleep(600)", "the server closed its output"),
    ],
)
async def test_how_a_server_ended_is_said(real_clock: None, brief: None, script: str, words: str) -> None:
    async with running(script) as child:
        assert await child.lines() == []
        assert child.ending == words


async def test_a_server_that_closed_its_input_is_lost_at_the_next_line(real_clock: None, brief: None) -> None:
    script = "import os, time; os.close(0); print('deaf', flush=True); time.sleep(600)"
    async with running(script) as child:
        assert await child.line() == b"deaf"
        assert not child.process.write(b"anybody there?\n")
        await child.lines()
        assert child.ending == "the server closed its input"


async def test_the_last_words_are_heard(real_clock: None) -> None:
    script = "import sys, os; [print('x' * 1000) for _ in range(500)]; print('bye', flush=True); os._exit(1)"
    async with running(script) as child:
        lines = await child.lines()
        assert (len(lines), lines[-1]) == (501, b"bye")


async def test_a_child_of_the_child_that_holds_the_pipe_does_not_hide_the_end(real_clock: None) -> None:
    script = "import os, time\nif os.fork(): os._exit(2)\ntime.sleep(600)"
    async with running(script) as child:
        await child.lines()
        assert child.ending == "the server exited with code 2"


@pytest.mark.parametrize(
    ("script", "stubbornness"),
    [
        (
            "print('up', flush=True)\nfor line in __import__('sys').stdin: pass",
            "leaves at the end of its input",
        ),
        ("import time; print('up', flush=True); time.sleep(600)", "ignores the end of its input"),
        (
            "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
            "print('up', flush=True); time.sleep(600)",
            "ignores SIGTERM as well",
        ),
        (
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork(): os._exit(0)\n"
            "    print('up', flush=True)\ntime.sleep(600)",
            "has a process in a session of its own",
        ),
        ("import sys\nwhile True: print('up', flush=True)", "never stops writing"),
    ],
)
async def test_whatever_it_does_nothing_is_left(
    real_clock: None, brief: None, script: str, stubbornness: str
) -> None:
    async with running(script) as child:
        assert await child.line() == b"up"


async def test_a_server_that_would_leave_by_itself_gets_no_signal(real_clock: None) -> None:
    """Stdin is closed first, and its reader may still write its last lines (3.1)."""
    script = (
        "import signal, sys\nsignal.signal(15, lambda *_: print('signal', file=sys.stderr, flush=True))\n"
        "print('up', flush=True)\nfor line in sys.stdin: pass\n"
        "print('x' * 3_000_000)\nprint('goodbye', file=sys.stderr, flush=True)"
    )
    async with running(script) as child:
        assert await child.line() == b"up"
    assert [text for _, text in child.ring.last(10)] == ["goodbye"]


async def test_a_healthy_child_outlives_the_thread_that_started_it(real_clock: None) -> None:
    """Hazard: a parent-death signal is sent when the *thread* of the parent ends, and trio's idle
    worker threads end after 10 s."""

    def workers() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name.startswith("Trio thread")]

    async with running(ECHO) as child:
        assert workers(), "the child was started in one of them"
        began = trio.current_time()
        while workers() or trio.current_time() - began < 12:
            assert trio.current_time() - began < 60
            await trio.sleep(0.25)
        child.process.write(b"still there?\n")
        assert await child.line() == b"got still there?"


async def test_a_line_over_the_limit_is_dropped_and_said_and_the_rest_arrives(real_clock: None) -> None:
    script = "print('x' * (17 << 20)); print('after', flush=True)"
    async with running(script) as child:
        assert await child.lines() == [b"after"]
        assert "dropped 1 messages" in child.ring.last(1)[0][1]


async def test_a_flood_on_stderr_blocks_nothing_and_its_end_is_kept(real_clock: None) -> None:
    script = (
        "import sys\nfor i in range(50_000): print(f'line {i}', file=sys.stderr)\nprint('done', flush=True)"
    )
    async with running(script) as child:
        assert await child.lines() == [b"done"]
        assert [text for _, text in child.ring.last(1000)] == [f"line {i}" for i in range(49_800, 50_000)]


async def test_a_child_gets_its_own_limit_of_open_files(real_clock: None) -> None:
    script = (
        "import resource, sys; sys.stdin.readline()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)"
    )
    async with running(script, inherited=Inherited(open_files=77)) as child:
        child.process.write(b"\n")
        assert await child.line() == b"77"


async def test_a_child_gets_its_own_umask(real_clock: None) -> None:
    script = "import os, sys; sys.stdin.readline(); print(oct(os.umask(0)), flush=True)"
    before = os.umask(0o077)
    try:
        async with running(script, inherited=Inherited(umask=0o027)) as child:
            child.process.write(b"\n")
            assert await child.line() == b"0o27"
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)


async def test_a_child_inherits_no_descriptors_and_leads_a_session_of_its_own(real_clock: None) -> None:
    script = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))), os.getsid(0) == os.getpid())"
    readable, writable = os.pipe()
    os.set_inheritable(writable, True)
    try:
        async with running(script) as child:
            # 3 is the folder that is being listed.
            assert await child.lines() == [b"[0, 1, 2, 3] True"]
    finally:
        os.close(readable)
        os.close(writable)


@pytest.mark.parametrize(
    ("content", "mode", "reason", "lasting"),
    [
        (b"#!/no/such/interpreter\n", 0o755, "not_executable", True),
        (b"\x7fELF garbage", 0o755, "not_executable", True),
        (b"#!/bin/sh\n", 0o644, "not_executable", True),
    ],
)
async def test_what_cannot_be_started_leaves_nothing_open(
    real_clock: None, tmp_path: Path, content: bytes, mode: int, reason: str, lasting: bool
) -> None:
    path = tmp_path / "prog"
    path.write_bytes(content)
    path.chmod(mode)
    await trio.to_thread.run_sync(lambda: None)
    reader = Reader()
    before = os.listdir("/proc/self/fd")
    async with trio.open_nursery() as nursery:
        launch = Launch((str(path),), {MARKER: OWNER}, "/")
        with pytest.raises(ConnectFailed) as caught:
            await Stdio.spawn(launch, StderrRing(), nursery, reader, AS_IT_IS)
    assert (caught.value.reason, caught.value.lasting) == (reason, lasting)
    assert str(path) in caught.value.message
    assert os.listdir("/proc/self/fd") == before
    reader.close()


# ------------------------------------------------------------------- the ring


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], ""),
        (["", "  ", "\tone"], "one"),
        ([str(number) for number in range(9)], "4 / 5 / 6 / 7 / 8"),
        (["usage: x", "usage: x"], "usage: x"),
        # As Node says it; the first start's lines are there as well.
        (
            2
            * [
                "throw err;",
                "",
                "Error: Cannot find module '/a.js'",
                *["    at f (b:1)"] * 6,
                "}",
                "",
                "Node.js v20",
            ],
            "Error: Cannot find module '/a.js' / at f (b:1) / } / Node.js v20",
        ),
        (
            ["Traceback:", "mod.SomeError: no", "ask the vendor"],
            "mod.SomeError: no / Traceback: / ask the vendor",
        ),
        (["x" * 400], "x" * 300),
        (["Error: " + "y" * 400, "z"], "Error: " + "y" * 293 + " / z"),
    ],
    ids=str,
)
def test_the_last_words_name_the_error(lines: list[str], words: str) -> None:
    ring = StderrRing()
    for line in lines:
        ring.feed(f"{line}\n".encode())
    assert ring.last_words() == words


def kept(*chunks: bytes) -> list[str]:
    ring = StderrRing()
    for chunk in chunks:
        ring.feed(chunk)
    return [text for _, text in ring.last(1000)]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc"], ["ab"]),
        ([b"a\r\n\r\n"], ["a", ""]),
        ([b"\xff\xe9\n"], ["\ufffd\ufffd"]),
        ([b"x" * 10_000 + b"\n"], ["x" * 8192]),
        ([b"x" * 5000, b"y" * 5000, b"z" * 50_000, b"\nnext\n"], ["x" * 5000 + "y" * 3192, "next"]),
    ],
)
def test_the_ring_keeps_lines_of_bounded_length(chunks: list[bytes], lines: list[str]) -> None:
    assert kept(*chunks) == lines


def test_an_unfinished_line_is_kept_at_the_end() -> None:
    ring = StderrRing()
    ring.feed(b"half a li")
    assert ring.last(5) == []
    ring.flush()
    ring.flush()
    assert [text for _, text in ring.last(5)] == ["half a li"]


def test_signals_have_names_where_they_have_one() -> None:
    assert stdio._signal_name(signal.SIGTERM) == "SIGTERM"


async def test_of_a_line_over_the_limit_both_ends_are_told(real_clock: None) -> None:
    script = (
        "import sys; sys.stdout.write('head' + 'x' * (17 << 20) + 'tail\\n' + 'next\\n'); sys.stdout.flush()"
    )
    async with running(script) as child:
        assert await child.lines() == [b"next"]
        [(head, tail)] = child.too_long
        assert head.startswith(b"headxx")
        assert tail.endswith(b"xxtail")
        assert "16 MiB" in child.ring.last(1)[0][1]


def test_a_flood_of_lines_beside_the_protocol_is_not_kept_line_by_line() -> None:
    cleaned: list[str] = []

    def redact(text: str) -> str:
        cleaned.append(text)
        return text

    ring = StderrRing(redact)
    ring.feed(b"old\n" + b"\n" * 65_530 + b"a\nb\nc")
    assert len(cleaned) == 200
    assert [text for _, text in ring.last(3)] == ["", "a", "b"]
    ring.flush()
    assert ring.last(1)[0][1] == "c"
