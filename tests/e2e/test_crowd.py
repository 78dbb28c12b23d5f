"""Many agents on one server process: every answer goes where it belongs, whatever the others do."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from tests.e2e.harness import (
    LIMIT,
    Agent,
    Daemon,
    attached,
    heard,
    lively,
    text_of,
    until,
)

AGENTS, CALLS, KILLED = 50, 20, 10

VICTIM = """
import json, socket, sys
path, name = sys.argv[1:]
line = socket.socket(socket.AF_UNIX)
line.connect(path)
def send(message):
    line.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\\n")
info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
send({"id": 0, "method": "initialize", "params": info})
line.recv(65536)
send({"method": "notifications/initialized"})
for number in range(1, 21):
    arguments = {"seconds": 60, "text": f"{name}-{number}"}
    send({"id": number, "method": "tools/call", "params": {"name": "lively__nap", "arguments": arguments}})
print("waiting", flush=True)
while line.recv(65536):
    pass
"""
"""An agent process of its own that waits for calls which take a minute."""


@pytest.fixture
def log(daemon: Daemon) -> Path:
    """A running daemon with the server `lively`; the server's log."""
    log = daemon.home.root / "lively.log"
    daemon.server("lively", lively(log))
    daemon.start()
    return log


async def test_fifty_agents_ten_of_them_killed(daemon: Daemon, log: Path, real_clock: None) -> None:
    rng = random.Random(20)
    names = [f"agent{number}" for number in range(AGENTS)]
    killed = rng.sample(names, KILLED)
    as_process, as_socket = killed[: KILLED // 2], killed[KILLED // 2 :]
    victims = [start_victim(daemon, name) for name in as_process]

    async def survivor(name: str) -> None:
        async with attached(daemon) as agent:
            waits = {f"{name}-{number}": rng.random() * 0.3 for number in range(CALLS)}
            ids = {
                text: await agent.begin_call("lively__nap", seconds=wait, text=text)
                for text, wait in waits.items()
            }
            for text, request_id in ids.items():
                assert text_of(await agent.answer(request_id, within=60)) == text
            assert not agent.answers, "an answer that nobody asked for"

    async def socket_victim(name: str) -> None:
        async with attached(daemon) as agent:
            for number in range(CALLS):
                await agent.begin_call("lively__nap", seconds=60, text=f"{name}-{number}")
            await trio.to_thread.run_sync(until, lambda: naps(log, name))
            agent.stream.socket.close()

    async def kill(victim: subprocess.Popen[bytes], name: str) -> None:
        await trio.to_thread.run_sync(until, lambda: naps(log, name))
        victim.kill()

    try:
        async with trio.open_nursery() as nursery:
            for victim, name in zip(victims, as_process, strict=True):
                nursery.start_soon(kill, victim, name)
            for name in as_socket:
                nursery.start_soon(socket_victim, name)
            for name in names:
                if name not in killed:
                    nursery.start_soon(survivor, name)
    finally:
        for victim in victims:
            victim.kill()
            victim.wait()
            assert victim.stdout is not None
            victim.stdout.close()

    assert len(heard(log, "start")) == 1, "one process serves them all"
    open_calls = [row for name in killed for row in naps(log, name)]
    until(lambda: len(heard(log, "cancelled")) == len(open_calls))
    assert until(lambda: daemon.ask("daemon.status")["sessions"] == 0)


def start_victim(daemon: Daemon, name: str) -> subprocess.Popen[bytes]:
    path = daemon.sockets / "agents" / "default" / "mcp.sock"
    return subprocess.Popen(
        [sys.executable, "-I", "-c", VICTIM, str(path), name],
        stdout=subprocess.PIPE,
        env=daemon.environ,
    )


def naps(log: Path, name: str) -> list[dict[str, object]]:
    rows = heard(log, "heard", method="tools/call")
    return [row for row in rows if row["params"]["arguments"]["text"].rpartition("-")[0] == name]


async def test_two_agents_with_the_same_ids(daemon: Daemon, log: Path, real_clock: None) -> None:
    async with attached(daemon) as one, attached(daemon) as two:
        for request_id, seconds in ((7, 0.6), ("7", 0.4), (8, 0.1)):
            for agent, name in ((one, "one"), (two, "two")):
                arguments = {"seconds": seconds, "text": f"{name} {request_id!r}"}
                params = {"name": "lively__nap", "arguments": arguments}
                await agent.begin("tools/call", params, request_id)
        for agent, name in ((one, "one"), (two, "two")):
            for request_id in (8, "7", 7):
                assert text_of(await agent.answer(request_id)) == f"{name} {request_id!r}"


async def test_one_cancel_touches_nobody_else(daemon: Daemon, log: Path, real_clock: None) -> None:
    async with attached(daemon) as one, attached(daemon) as two:
        for agent, name in ((one, "one"), (two, "two")):
            arguments = {"seconds": 2, "text": name}
            await agent.begin("tools/call", {"name": "lively__nap", "arguments": arguments}, 5)
        await trio.to_thread.run_sync(until, lambda: len(heard(log, "heard", name="nap")) == 2)
        await one.send("notifications/cancelled", {"requestId": 5})
        assert text_of(await two.answer(5)) == "two"
        assert 5 not in one.answers, "a cancelled request has no answer"
        assert text_of(await one.call("lively__echo", text="lives")) == "lives"
    [cancelled] = heard(log, "heard", method="notifications/cancelled")
    [mine] = [row["id"] for row in heard(log, "cancelled")]
    assert cancelled["params"]["requestId"] == mine


async def test_a_slow_reader_stalls_nobody(daemon: Daemon, log: Path, real_clock: None) -> None:
    count, size = 200, 90_000
    async with attached(daemon) as slow, attached(daemon) as other:
        before = resident(daemon)
        slow.reading = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_for_much, slow, count, size)
            for number in range(50):
                with trio.fail_after(2):
                    assert text_of(await other.call("lively__echo", text=str(number))) == str(number)
            assert resident(daemon) - before < 48 * 2**20
            slow.reading.set()
        for request_id in range(1, count + 1):
            assert len(text_of(await slow.answer(f"big {request_id}", within=60))) == size


async def ask_for_much(agent: Agent, count: int, size: int) -> None:
    """Ask for far more than the socket holds, without reading; the daemon may stop listening meanwhile."""
    for number in range(1, count + 1):
        params = {"name": "lively__text", "arguments": {"size": size}}
        await agent.begin("tools/call", params, f"big {number}")


def resident(daemon: Daemon) -> int:
    assert daemon.proc is not None
    pages = Path(f"/proc/{daemon.proc.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


@pytest.mark.parametrize("size", [70_000, 15 * 2**20])
async def test_a_long_line_arrives_whole(daemon: Daemon, log: Path, real_clock: None, size: int) -> None:
    async with attached(daemon) as agent:
        request_id = await agent.begin_call("lively__length", text="x" * size)
        assert text_of(await agent.answer(request_id, within=60)) == str(size)


async def test_a_line_over_the_limit_hurts_only_its_sender(
    daemon: Daemon, log: Path, real_clock: None
) -> None:
    async with attached(daemon) as other:
        async with attached(daemon) as rude:
            line = json.dumps({"jsonrpc": "2.0", "id": 99, "method": "ping", "x": "x" * (17 * 2**20)})
            await rude.line(line.encode())
            # Its id can be seen at the beginning of the line, so the error comes under it.
            await rude.wait_for(lambda: 99 in rude.answers)
            assert "16 MiB" in rude.answers[99]["error"]["message"]
        with trio.fail_after(LIMIT):
            assert text_of(await other.call("lively__echo", text="fine")) == "fine"


async def test_a_result_over_the_limit_fails_one_call(daemon: Daemon, log: Path, real_clock: None) -> None:
    async with attached(daemon) as agent, attached(daemon) as other:
        request_id = await agent.begin_call("lively__text", size=17 * 2**20)
        assert text_of(await other.call("lively__echo", text="fine")) == "fine"
        await agent.send("notifications/cancelled", {"requestId": request_id})
        assert text_of(await agent.call("lively__echo", text="fine")) == "fine"
    assert len(heard(log, "start")) == 1, "the server lives on"


async def test_garbage_is_answered_and_forgotten(daemon: Daemon, log: Path, real_clock: None) -> None:
    async with attached(daemon) as agent:
        for garbage in (
            b"GET / HTTP/1.1",
            b'{"jsonrpc":"2.0","id":1,"meth',
            b"\xff\xfe",
            b"\0",
            b"[[[[",
            b"{}",
        ):
            await agent.line(garbage)
            await agent.wait_for(lambda: None in agent.answers)
            code = agent.answers.pop(None)["error"]["code"]
            # What begins as a batch may be refused as one before it is read to its end.
            assert code == -32700 or (code == -32600 and garbage in (b"[[[[", b"{}"))
        deep = (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
        )
        await agent.line(deep)
        await agent.wait_for(lambda: bool(agent.answers))
        agent.answers.clear()
        assert text_of(await agent.call("lively__echo", text="fine")) == "fine"
