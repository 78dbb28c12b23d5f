"""The loop of one server against real processes: what it becomes when things go wrong."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from mcpd import processes
from mcpd.api.status import Status
from mcpd.changes import Changes
from mcpd.config.spec import Config, Faulty, Hold, Server
from mcpd.errors import Failure
from mcpd.policy.leaks.values import of_definition
from mcpd.secrets.held import HeldValues
from mcpd.transport import sweep
from mcpd.upstream.cache import CatalogCache
from mcpd.upstream.fleet import Fleet
from mcpd.upstream.upstream import Upstream

TINY = str(Path(__file__).parent.parent / "servers" / "tiny.py")
MARKER = f"test{os.getpid()}.x."


def tiny(*args: str, **fields: Any) -> Server:
    return Server(
        name=fields.pop("name", "tiny"), source="test", command=sys.executable, args=(TINY, *args), **fields
    )


@asynccontextmanager
async def fleet_of(
    *servers: Server | Faulty, cache: Path, connect: bool = True, held_values: HeldValues | None = None
) -> AsyncIterator[Fleet]:
    """A running fleet; when it is over, none of its processes may be left."""
    environ = {"PATH": os.environ["PATH"], "HOME": "/"}
    fleet = Fleet(Changes(), CatalogCache(cache), environ, MARKER, held_values=held_values)
    fleet.apply(config_of(*servers), frozenset(), {}, connect=connect)
    async with trio.open_nursery() as nursery:
        await nursery.start(fleet.run)
        yield fleet
        nursery.cancel_scope.cancel()
    assert sweep.find(MARKER) == []


def config_of(*servers: Server | Faulty) -> Config:
    return Config(
        servers={s.name: s for s in servers if isinstance(s, Server)},
        faulty={s.name: s for s in servers if isinstance(s, Faulty)},
    )


async def until(upstream: Upstream, fleet: Fleet, wanted: Callable[[Status], bool]) -> Status:
    """Wait for a status, by its announcements."""
    with fleet.changes.subscribe() as changes:
        with trio.fail_after(30):
            while not wanted(upstream.status):
                await changes.__anext__()
    return upstream.status


def is_alive(pid: int) -> bool:
    """Whether there is such a process that nobody but its parent's reaping could end."""
    try:
        return processes.Stat(Path(f"/proc/{pid}/stat").read_bytes()).state != b"Z"
    except FileNotFoundError:
        return False


def is_state(*states: str) -> Callable[[Status], bool]:
    return lambda status: status.state in states


async def test_a_new_server_connects_once_and_says_what_it_is(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        status = await until(upstream, fleet, is_state("connected"))
        assert status.revision == "2025-11-25"
        assert status.tools == 7
        assert status.pid > 0
        assert status.last_success >= status.last_attempt > 0
        assert upstream.catalog is not None
        assert upstream.catalog.instructions == "be kind"


async def test_a_lazy_server_rests_until_it_is_wanted_and_is_listed_from_the_cache(
    real_clock: None, tmp_path: Path
) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        await until(fleet.find("tiny"), fleet, is_state("connected"))
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        await trio.testing.wait_all_tasks_blocked()
        assert is_state("idle")(upstream.status)
        assert upstream.catalog is not None
        assert len(upstream.catalog.tools) == 7
        await upstream.reach(10)
        assert is_state("connected")(upstream.status)


async def test_an_eager_server_is_connected_at_the_start(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(start="eager"), cache=tmp_path, connect=False) as fleet:
        await until(fleet.find("tiny"), fleet, is_state("connected"))


async def test_a_crash_is_noticed_without_a_call_and_the_server_restarted(
    real_clock: None, tmp_path: Path
) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        first = await until(upstream, fleet, is_state("connected"))
        os.kill(first.pid, signal.SIGKILL)
        status = await until(upstream, fleet, is_state("restarting"))
        assert upstream.connection is None
        assert (status.reason, status.retry_at > 0) == ("exited", True)
        assert "SIGKILL" in status.error
        second = await until(upstream, fleet, is_state("connected"))
        assert second.pid != first.pid


@pytest.mark.parametrize(
    ("server", "reason", "word"),
    [
        (tiny("--refuse"), "exited", "no wish to run"),
        (tiny("--silent", connect_timeout=1), "not_responding", "1 s"),
        (
            msgspec.structs.replace(tiny(), command="no-such-program-xyz"),
            "command_not_found",
            "no-such-program-xyz",
        ),
        (msgspec.structs.replace(tiny(), command=TINY), "not_executable", "not executable"),
        (msgspec.structs.replace(tiny(), cwd="/no/such/folder"), "failed", "/no/such/folder"),
    ],
)
async def test_why_a_server_failed(
    real_clock: None, tmp_path: Path, server: Server, reason: str, word: str
) -> None:
    neighbour = tiny(name="neighbour")
    async with fleet_of(server, neighbour, cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        status = await until(upstream, fleet, is_state("failed"))
        assert status.reason == reason
        assert word in status.error
        with pytest.raises(Failure) as caught:
            await upstream.reach(5)
        assert caught.value.kind == "unavailable"
        assert word in caught.value.message
        await fleet.find("neighbour").reach(10)


LISTS_NOTHING = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        hello = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": hello}), flush=True)
"""


async def test_a_server_that_never_lists_its_tools_does_not_respond(
    real_clock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a launcher has 120 s or the limit is switched off, the page's own is over before (c11)."""
    monkeypatch.setattr("mcpd.upstream.gather.PAGE_TIMEOUT", 0.2)
    server = msgspec.structs.replace(tiny(protocol="legacy", connect_timeout=0), args=("-c", LISTS_NOTHING))
    async with fleet_of(server, cache=tmp_path) as fleet:
        status = await until(fleet.find("tiny"), fleet, is_state("failed"))
        assert status.reason == "not_responding"
        assert status.error == "tools/list failed: no answer within the time limit"


async def test_blocked_servers_do_not_start(real_clock: None, tmp_path: Path) -> None:
    faulty = Faulty("odd", "file", "unset_variable", "variable X is not set")
    off = tiny(name="off", enabled=False)
    async with fleet_of(faulty, off, cache=tmp_path) as fleet:
        assert fleet.find("odd").status.state == "failed"
        assert fleet.find("odd").status.reason == "unset_variable"
        assert fleet.find("off").status.state == "disabled"
        for name, kind in (("odd", "unavailable"), ("off", "disabled")):
            with pytest.raises(Failure) as caught:
                await fleet.find(name).reach(5)
            assert caught.value.kind == kind


async def test_disabling_ends_the_process_and_enabling_brings_it_back(
    real_clock: None, tmp_path: Path
) -> None:
    server = tiny()
    async with fleet_of(server, cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        first = await until(upstream, fleet, is_state("connected"))
        fleet.apply(config_of(server), frozenset({"tiny"}), {})
        assert upstream.connection is None, "withdrawn before anything is closed"
        assert upstream.status.state == "disabled", "said at once, whatever the process still does"
        await until(upstream, fleet, lambda status: status.pid == 0)
        assert not Path(f"/proc/{first.pid}").exists()
        fleet.apply(config_of(server), frozenset(), {})
        second = await until(upstream, fleet, is_state("connected"))
        assert second.pid != first.pid


async def test_applying_what_did_not_change_touches_nothing(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        first = await until(upstream, fleet, is_state("connected"))
        fleet.apply(config_of(tiny(), tiny(name="more")), frozenset(), {})
        await until(fleet.find("more"), fleet, is_state("connected"))
        assert upstream.status.pid == first.pid
        assert upstream.connection is not None


async def test_a_removed_server_tells_who_waits_and_is_gone(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny("--silent"), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        caught: list[str] = []

        async def wait() -> None:
            try:
                await upstream.reach(20)
            except Failure as e:
                caught.append(e.kind)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await until(upstream, fleet, lambda status: status.pid > 0)
            fleet.apply(config_of(), frozenset(), {})
        assert caught == ["no_such_server"]
        with pytest.raises(Failure):
            fleet.find("tiny")


async def test_a_held_server_does_not_start_and_a_running_one_goes_on(
    real_clock: None, tmp_path: Path
) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        first = await until(fleet.find("tiny"), fleet, is_state("connected"))
        held = {"tiny": Hold("tiny", "command changed", "reload"), "fresh": Hold("fresh", "new", "reload")}
        fleet.apply(config_of(tiny(), tiny(name="fresh")), frozenset(), held, frozenset({"fresh"}))
        assert fleet.find("fresh").status.state == "held"
        assert fleet.find("tiny").held == held["tiny"]
        assert fleet.find("tiny").status.pid == first.pid
        fleet.apply(config_of(tiny(), tiny(name="fresh")), frozenset(), {})
        await until(fleet.find("fresh"), fleet, is_state("connected"))


async def test_a_child_sees_a_small_environment(real_clock: None, tmp_path: Path) -> None:
    server = tiny(env={"MINE": "v 1", "MCPD_SECRET": "no"})
    async with fleet_of(server, cache=tmp_path) as fleet:
        status = await until(fleet.find("tiny"), fleet, is_state("connected"))
        raw = Path(f"/proc/{status.pid}/environ").read_bytes().decode()
        env = dict(item.split("=", 1) for item in raw.split("\0") if item)
        assert env.pop("MCPD_CHILD_OF").startswith(MARKER)
        assert env.keys() == {"PATH", "HOME", "MINE"}


async def test_a_failure_within_a_cancelled_turn_is_this_servers_alone(
    real_clock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The firewall stands outside the scope of the turn: both may fail at once."""
    async with fleet_of(tiny(), tiny(name="neighbour"), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        await until(upstream, fleet, is_state("connected"))
        real = sweep.clear
        broken: list[bool] = []

        def clear(*args: Any, **kwargs: Any) -> Any:
            if not broken:
                broken.append(True)
                raise RuntimeError("no more descriptors")
            return real(*args, **kwargs)

        monkeypatch.setattr(sweep, "clear", clear)
        upstream.reconnect()
        await until(upstream, fleet, lambda status: bool(broken) and status.state in ("connected", "failed"))
        await fleet.find("neighbour").reach(10)


async def test_a_child_with_an_environment_of_its_own_is_ended_as_well(
    real_clock: None, tmp_path: Path
) -> None:
    """It has no marker, but it is still in its server's session (c04)."""
    script = (
        "import subprocess, sys, runpy; "
        "subprocess.Popen(['sleep', '7777'], env={'PATH': '/usr/bin:/bin'}, close_fds=True); "
        f"sys.argv = [{TINY!r}]; runpy.run_path({TINY!r}, run_name='__main__')"
    )
    server = msgspec.structs.replace(tiny(), args=("-c", script))
    async with fleet_of(server, cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        status = await until(upstream, fleet, is_state("connected"))
        children = Path(f"/proc/{status.pid}/task/{status.pid}/children").read_text().split()
        assert len(children) == 1
        fleet.apply(config_of(server), frozenset({"tiny"}), {})
        await until(upstream, fleet, lambda status: status.state == "disabled" and not status.pid)
        assert not is_alive(int(children[0]))


async def test_a_server_that_refuses_the_probe_and_leaves_is_asked_in_the_older_way(
    real_clock: None, tmp_path: Path
) -> None:
    script = (
        "import json, sys, runpy\n"
        "first = json.loads(sys.stdin.readline())\n"
        "if first['method'] == 'server/discover':\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': first['id'],"
        " 'error': {'code': -32000, 'message': 'initialize first'}}), flush=True)\n"
        "    sys.exit(1)\n"
        "import io\n"
        f"sys.argv = [{TINY!r}]\n"
        "sys.stdin = io.StringIO(json.dumps(first) + '\\n' + sys.stdin.readline())\n"
        f"runpy.run_path({TINY!r}, run_name='__main__')\n"
        "import time; time.sleep(60)\n"
    )
    server = msgspec.structs.replace(tiny(), args=("-c", script), connect_timeout=3)
    async with fleet_of(server, cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        status = await until(upstream, fleet, lambda status: status.last_failure > 0 or status.latency > 0)
        assert status.reason != "exited", "the fresh process answered initialize"


async def test_an_edit_of_start_counts_at_once(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        await until(fleet.find("tiny"), fleet, is_state("connected"))
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        fleet.apply(config_of(tiny(start="eager")), frozenset(), {})
        await until(fleet.find("tiny"), fleet, is_state("connected"))


async def test_an_edit_of_idle_timeout_counts_at_once(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        await until(upstream, fleet, is_state("connected"))
        fleet.apply(config_of(tiny(idle_timeout=0.2)), frozenset(), {})
        await until(upstream, fleet, is_state("idle"))


async def test_a_name_that_is_used_again_waits_for_the_old_process(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        first = await until(fleet.find("tiny"), fleet, is_state("connected"))
        fleet.apply(config_of(), frozenset(), {})
        fleet.apply(config_of(tiny()), frozenset(), {})
        await fleet.find("tiny").reach(10)
        assert fleet.find("tiny").status.pid != first.pid
        assert not is_alive(first.pid)


async def test_what_a_server_says_does_not_repeat_what_mcpd_holds_for_it(
    real_clock: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """n17: not in the status, the log or the kept lines; short values are words of their own."""
    script = (
        "import os, sys; sys.exit('cannot log in with ' + os.environ['KEY'] + ' as ' + os.environ['NAME'])"
    )
    server = msgspec.structs.replace(
        tiny(), args=("-c", script), env={"KEY": "sk-very-secret-value", "NAME": "alice"}
    )
    held_values = HeldValues()
    held_values.hold(of_definition("tiny", server.env, {}, ""))
    async with fleet_of(server, cache=tmp_path, held_values=held_values) as fleet:
        upstream = fleet.find("tiny")
        status = await until(upstream, fleet, is_state("failed"))
        kept = " ".join(text for _, text in upstream.ring.last(50))
        for words in (status.error, kept):
            assert "cannot log in with [redacted:KEY] as alice" in words
        assert "sk-very-secret-value" not in caplog.text


async def test_a_definition_that_became_faulty_says_so_at_once(real_clock: None, tmp_path: Path) -> None:
    async with fleet_of(tiny(), cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        await until(upstream, fleet, is_state("connected"))
        faulty = Faulty("tiny", "file", "bad_definition", "the file is not TOML")
        fleet.apply(config_of(faulty), frozenset(), {})
        with pytest.raises(Failure) as caught:
            await upstream.reach(5)
        assert "is failed (bad_definition): the file is not TOML" in caught.value.message


async def test_what_waits_for_reload_is_said_to_who_wants_the_server(
    real_clock: None, tmp_path: Path
) -> None:
    server = msgspec.structs.replace(tiny(), command="no-such-program-xyz")
    async with fleet_of(server, cache=tmp_path) as fleet:
        upstream = fleet.find("tiny")
        await until(upstream, fleet, is_state("failed"))
        fleet.apply(config_of(server), frozenset(), {"tiny": Hold("tiny", "command changed", "reload")})
        with pytest.raises(Failure) as caught:
            await upstream.reach(5)
        assert "command changed, waits for mcpctl reload" in caught.value.message
        assert caught.value.hint == "mcpctl reload"
