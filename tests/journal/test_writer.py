"""The journal's owner: nothing recorded is lost without a mark, nothing grows without bound."""

from __future__ import annotations

import gc
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from msgspec.structs import asdict, replace

from mcpd.api.journal import QueryJournal, Recorded
from mcpd.errors import Failure
from mcpd.journal import Entry, Journal
from mcpd.journal import writer as module
from mcpd.journal.store import Keep
from mcpd.journal.writer import FULL, LIMIT, ROOM, WAIT
from tests.journal import flat


@asynccontextmanager
async def running(journal: Journal) -> AsyncIterator[Journal]:
    async with trio.open_nursery() as nursery:
        await nursery.start(journal.run)
        yield journal
        nursery.cancel_scope.cancel()


def stored(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("select server, tool, outcome from entries order by id").fetchall()
    finally:
        connection.close()


async def until(true: Callable[[], bool]) -> None:
    """Waits for what another thread does; fails with the test's own limit."""
    while not true():  # noqa: ASYNC110 - a thread and SQLite tell nobody
        await trio.sleep(0.01)


async def until_stored(path: Path, count: int) -> None:
    await until(lambda: len(stored(path)) >= count)


def entry(tool: str = "t", **more: Any) -> Entry:
    return flat.entry(server="s", tool=tool, outcome="ok", **more)


async def test_what_is_recorded_is_written_soon_and_in_order(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "state" / "journal.db"
    async with running(Journal(path)) as journal:
        for number in range(5):
            journal.record(entry(str(number)))
        await until_stored(path, 5)
        # The task waits again and is woken again.
        journal.record(entry("5"))
        await until_stored(path, 6)
    assert stored(path) == [("s", str(number), "ok") for number in range(6)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    # Closed in order: no companions are left.
    assert os.listdir(path.parent) == ["journal.db"]


async def test_what_waits_at_the_end_is_written(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        journal.record(entry("last"))
    assert stored(path) == [("s", "last", "ok")]


async def test_a_query_sees_what_was_just_recorded_and_wakes_nothing_up_wrongly(
    tmp_path: Path, real_clock: None
) -> None:
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        await trio.testing.wait_all_tasks_blocked()
        assert (await journal.query()).entries == []
        journal.record(entry("a"))
        assert [found.tool for found in (await journal.query()).entries] == ["a"]
        # The task that writes by itself must not have been left behind by the queries.
        journal.record(entry("b"))
        await until_stored(path, 2)


async def test_queries(tmp_path: Path, real_clock: None) -> None:
    everything = Recorded(
        id=4,
        at=30.5,
        kind="change",
        session="7",
        agent="coder",
        pid=42,
        exe="/usr/bin/x",
        server="b",
        tool="t",
        method="tools/call",
        decision="allow",
        because="a rule",
        outcome="ok",
        duration=0.25,
        request_bytes=10,
        result_bytes=20,
        destination="d1",
        risk="high",
        rule="always",
        approval="q1",
        grant="g1",
        pin="p1",
        findings="redacted 1",
        waited=0.125,
        proof="unverified",
        decided=3,
        shape='{"n":"number"}',
        arguments='{"n":1}',
    )
    beside = ("id", "digest", "shape", "arguments")
    last = flat.entry(**{name: value for name, value in asdict(everything).items() if name not in beside})
    keep = Keep(days=0, arguments=True)
    async with running(Journal(tmp_path / "journal.db", keep)) as journal:
        for number, (server, agent) in enumerate([("a", "x"), ("b", "x"), ("a", "y")]):
            journal.record(flat.entry(at=10.0 * number, server=server, agent=agent))
        journal.record(last, b'{"n":1}')

        async def times(**asked: object) -> list[float]:
            return [found.at for found in (await journal.query(QueryJournal(**asked))).entries]  # type: ignore[arg-type]

        assert await times() == [30.5, 20, 10, 0]
        assert await times(server="a") == [20, 0]
        assert await times(agent="x") == [10, 0]
        assert await times(server="a", agent="x") == [0]
        assert await times(since=20) == [30.5, 20]
        assert await times(limit=2) == [30.5, 20]
        assert await times(server="' or 1 --") == []
        [newest] = (await journal.query(QueryJournal(limit=1))).entries
        assert len(newest.digest) == 24
        assert replace(newest, digest="") == everything


async def test_a_decision_is_in_the_file_before_it_counts(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        await trio.testing.wait_all_tasks_blocked()
        assert await journal.decided(entry("first")) == 1
        assert stored(path) == [("s", "first", "ok")]
        # What waits goes with it, in its order, and the task that writes by itself is not left behind.
        journal.record(entry("waits"))
        assert await journal.decided(entry("second"), b'{"a":1}') == 3
        journal.record(entry("after"))
        await until_stored(path, 4)
    assert [tool for _, tool, _ in stored(path)] == ["first", "waits", "second", "after"]


async def test_a_decision_that_cannot_be_written_is_told_and_not_written_later(
    tmp_path: Path, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.database.BUSY", 0.01)
    monkeypatch.setattr(module, "AGAIN", 0.02)
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        before = journal.writable
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin immediate")
        journal.record(entry("waits"))
        assert await journal.decided(entry("refused")) == 0
        assert (before, journal.writable) == (True, False)
        other.execute("rollback")
        other.close()
        await until(lambda: journal.writable)
        assert await journal.decided(entry("next")) == 2
    assert [tool for _, tool, _ in stored(path)] == ["waits", "next"]


async def test_a_journal_whose_entries_get_lost_is_not_writable(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    for _ in range(LIMIT):
        assert journal.writable
        journal.record(entry())
    assert not journal.writable


async def test_a_query_can_wait_for_what_comes(tmp_path: Path, real_clock: None) -> None:
    async with running(Journal(tmp_path / "journal.db")) as journal:
        journal.record(entry("old"))
        assert len((await journal.query()).entries) == 1
        assert (await journal.query(QueryJournal(after=1, wait=0.01))) == ([], 1)
        found: list[str] = []

        async def follow() -> None:
            page = await journal.query(QueryJournal(after=1, wait=30, tool="new"))
            found.extend(one.tool for one in page.entries)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            journal.record(entry("other"))
            await until_stored(tmp_path / "journal.db", 2)
            assert found == []
            journal.record(entry("new"))
        assert found == ["new"]


async def test_arguments_that_wait_are_bounded(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    journal = Journal(path)
    large = b'{"a":"' + b"x" * (ROOM // 3) + b'"}'
    for _ in range(5):
        journal.record(entry(), large)
    async with running(journal):
        digests = [found.digest for found in (await journal.query()).entries]
        assert [bool(digest) for digest in digests] == [False, False, False, True, True]
        journal.record(entry(), large)
        [last] = (await journal.query(QueryJournal(limit=1))).entries
        assert last.digest == digests[-1]


#: Records an entry each millisecond or so, and says so.
KILLED = """
import sys, time, trio
from pathlib import Path
from mcpd.journal import About, Entry, Journal

async def main():
    async with trio.open_nursery() as nursery:
        journal = Journal(Path(sys.argv[1]))
        await nursery.start(journal.run)
        for number in range(1_000_000):
            journal.record(Entry(about=About(tool=str(number))))
            print(number, time.monotonic(), flush=True)
            await trio.sleep(0.001)

trio.run(main)
"""


def test_kill_9_loses_no_more_than_the_last_batch(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    command = [sys.executable, "-c", KILLED, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line.split())
            if len(said) > 700:
                break
        process.kill()
        said += [line.split() for line in process.stdout if line.endswith("\n")]
    killed = float(said[-1][1])
    tools = [tool for _, tool, _ in stored(path)]
    assert tools == [str(number) for number in range(len(tools))], "in order, without a hole"
    lost = said[len(tools) :]
    # A batch gathers for a quarter of a second, and the one before it may be on its way to the file.
    assert all(killed - float(at) < 2 * WAIT + 0.25 for _, at in lost)
    assert len(tools) > 100


async def test_waiting_entries_are_bounded_and_the_loss_is_marked(tmp_path: Path, real_clock: None) -> None:
    journal = Journal(tmp_path / "journal.db")
    for number in range(LIMIT + 7):
        journal.record(flat.entry(at=1e9 + number, tool=str(number)))
    async with running(journal):
        [newest] = (await journal.query(QueryJournal(limit=1))).entries
        assert newest.tool == str(LIMIT + 6)
        every = (await journal.query(QueryJournal(limit=LIMIT))).entries
    assert len(stored(tmp_path / "journal.db")) == LIMIT + 1
    assert every[-1].tool == "7"
    connection = sqlite3.connect(tmp_path / "journal.db")
    marks = connection.execute("select because from entries where kind = 'gap'").fetchall()
    connection.close()
    assert marks == [("7 entries before this one were not written",)]


async def test_a_full_batch_is_written_at_once(
    tmp_path: Path, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT", 3600)
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        for _ in range(FULL + 1):
            journal.record(entry())
        await until_stored(path, FULL + 1)


async def test_bytes_that_are_no_text_are_stored_in_some_form(tmp_path: Path, real_clock: None) -> None:
    async with running(Journal(tmp_path / "journal.db")) as journal:
        journal.record(entry("before"))
        journal.record(entry("odd", exe=os.fsdecode(b"/tmp/\xff")))
        odd, before = (await journal.query()).entries
    assert (before.tool, odd.exe) == ("before", "/tmp/?")


async def test_a_deleted_file_is_made_again(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        journal.record(entry("old"))
        await until_stored(path, 1)
        for file in tmp_path.iterdir():
            file.unlink()
        journal.record(entry("new"))
        assert [found.tool for found in (await journal.query()).entries] == ["new"]
    assert stored(path) == [("s", "new", "ok")]


async def test_a_file_damaged_before_the_start_is_set_aside(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"not a database " * 1000)
    async with running(Journal(path)) as journal:
        [problem] = journal.problems
        assert "damaged" in problem.message
        journal.record(entry())
    assert stored(path) == [("s", "t", "ok")]
    [aside] = [file for file in tmp_path.iterdir() if ".damaged-" in file.name]
    assert aside.read_bytes().startswith(b"not a database")


async def test_a_file_damaged_while_running_costs_no_entry_of_the_batch(
    tmp_path: Path, real_clock: None
) -> None:
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        journal.record(entry("old"))
        await until_stored(path, 1)
        connection = sqlite3.connect(path)
        connection.execute("drop table entry")
        connection.close()
        journal.record(entry("new"))
        assert [found.tool for found in (await journal.query()).entries] == ["new"]
        assert journal.problems


async def test_a_file_of_the_first_version_keeps_its_entries(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path)
    connection.executescript(
        "create table meta (version integer not null); insert into meta values (1);"
        "create table entries (id integer primary key, at real not null, kind text not null, "
        "session text not null, agent text not null, pid integer not null, exe text not null, "
        "server text not null, tool text not null, method text not null, decision text not null, "
        "because text not null, outcome text not null, duration real not null, "
        "request_bytes integer not null, result_bytes integer not null, digest text not null);"
        "insert into entries values (7, 1.5, 'request', 's', 'a', 3, '/x', 'srv', 't', 'tools/call', "
        "'allow', 'b', 'ok', 0.5, 1, 2, 'd');"
        # What its user has added to look at it with.
        "create index mine on entries (at); create view broken as select * from gone;"
        "create view tools as select tool from entries"
    )
    connection.close()
    async with running(Journal(path, Keep(days=0))) as journal:
        journal.record(entry("new"))
        new, old = (await journal.query()).entries
        assert journal.problems == ()
    assert (new.tool, old.tool, old.digest) == ("new", "t", "d")
    assert (old.grant, old.waited, old.decided) == ("", 0.0, 0)
    connection = sqlite3.connect(path)
    assert connection.execute("select tool from tools").fetchall() == [("t",), ("new",)]
    connection.close()


async def test_a_newer_version_is_refused(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    async with running(Journal(path)):
        pass
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update meta set version = 99")
    connection.close()
    with pytest.raises(Failure) as caught:
        await Journal(path).run()
    assert caught.value.kind == "refused"


async def test_a_file_that_cannot_be_had_at_the_start_is_shown_and_tried_again(
    tmp_path: Path, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk or a folder in the way: the daemon is needed all the same."""
    monkeypatch.setattr(module, "AGAIN", 0.02)
    path = tmp_path / "journal.db"
    path.mkdir()
    async with running(Journal(path)) as journal:
        [problem] = journal.problems
        assert problem.file == str(path)
        assert "cannot write the journal" in problem.message
        journal.record(entry("1"))
        path.rmdir()
        await until(lambda: journal.error == "")
        assert [found.tool for found in (await journal.query()).entries] == ["1"]
        assert journal.problems == ()


async def test_a_failed_write_is_tried_again_and_loses_nothing(
    tmp_path: Path, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.database.BUSY", 0.01)
    monkeypatch.setattr(module, "AGAIN", 0.02)
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin immediate")
        journal.record(entry("1"))
        await until(lambda: journal.error != "")
        journal.record(entry("2"))
        other.execute("rollback")
        other.close()
        await until_stored(path, 2)
        # What a query meets is a finished write.
        assert [found.tool for found in (await journal.query()).entries] == ["2", "1"]
        assert journal.error == ""


async def test_failed_writes_and_losses_add_up(
    tmp_path: Path, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.database.BUSY", 0.01)
    monkeypatch.setattr(module, "AGAIN", 0.02)
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin immediate")
        journal.record(entry())
        await until(lambda: journal.error != "")
        for number in range(2 * LIMIT):
            journal.record(entry(str(number)))
            if number % 1000 == 0:
                # Attempts in between put back what they took; one may be under way at any time.
                await trio.lowlevel.checkpoint()
        other.execute("rollback")
        other.close()
    connection = sqlite3.connect(path)
    rows = connection.execute("select kind, tool, because from entries order by id").fetchall()
    connection.close()
    lost = sum(int(because.split()[0]) for kind, _, because in rows if kind == "gap")
    tools = [tool for kind, tool, _ in rows if kind != "gap"]
    assert lost + len(tools) == 2 * LIMIT + 1
    assert tools[-1] == str(2 * LIMIT - 1)
    numbers = [int(tool) for tool in tools if tool != "t"]
    assert numbers == sorted(set(numbers))


async def test_entries_that_are_too_old_go(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    now = time.time()
    async with running(Journal(path)) as journal:
        for days in (100, 91, 89, 0):
            journal.record(entry(str(days), at=now - days * 86400))
    for keep, left in ((0, ["100", "91", "89", "0"]), (90, ["89", "0"])):
        async with running(Journal(path, Keep(days=keep))):
            pass
        assert [tool for _, tool, _ in stored(path)] == left


async def test_a_clock_that_jumps_forward_costs_nothing(
    tmp_path: Path, real_clock: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A year too late at the start, or while the daemon runs: age counts from what was stored last."""
    path = tmp_path / "journal.db"
    year = 365 * 86400
    now = time.time()
    async with running(Journal(path)) as journal:
        for days in (100, 50, 0):
            journal.record(entry(str(days), at=now - days * 86400))
        await journal.query()
        monkeypatch.setattr(time, "time", lambda: now + year)
        journal.record(entry("late", at=now + year))
        await journal.query()
        assert [tool for _, tool, _ in stored(path)] == ["50", "0", "late"]
        monkeypatch.undo()
    async with running(Journal(path)):
        pass
    assert [tool for _, tool, _ in stored(path)] == ["50", "0", "late"], "and the clock was put right"


async def test_a_journal_that_was_not_used_for_long_loses_nothing_at_the_start(
    tmp_path: Path, real_clock: None
) -> None:
    path = tmp_path / "journal.db"
    now = time.time()
    async with running(Journal(path)) as journal:
        for days in (500, 400):
            journal.record(entry(str(days), at=now - days * 86400))
    for left in (["500", "400"], ["400"]):
        async with running(Journal(path, Keep(days=90 if left == ["400"] else 200))):
            pass
        assert [tool for _, tool, _ in stored(path)] == left


async def test_the_oldest_go_when_the_file_is_too_large(tmp_path: Path, real_clock: None) -> None:
    path = tmp_path / "journal.db"
    async with running(Journal(path, Keep(bytes=0))) as journal:
        for number in range(3000):
            journal.record(entry(str(number), because="x" * 1000))
    before = path.stat().st_size
    assert before > 3_000_000
    limit = 1 << 20
    async with running(Journal(path, Keep(bytes=limit))):
        pass
    kept = [tool for _, tool, _ in stored(path)]
    assert path.stat().st_size <= limit
    # About nine tenths of the limit stay, and they are the newest.
    assert 600 < len(kept) < 1000
    assert kept == [str(number) for number in range(3000 - len(kept), 3000)]


def test_recording_costs_about_a_microsecond(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    one = entry()
    gc.disable()
    try:
        best = min(_seconds(journal, one, 1000) for _ in range(20))
    finally:
        gc.enable()
    # Ten times what it takes on a quiet machine: it guards against waiting, not against noise.
    assert best / 1000 < 10e-6


def _seconds(journal: Journal, one: Entry, times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        journal.record(one)
    return time.perf_counter() - began


async def test_a_batch_larger_than_one_statement_is_stored_whole_and_in_order(
    tmp_path: Path, real_clock: None
) -> None:
    path = tmp_path / "journal.db"
    async with running(Journal(path)) as journal:
        for number in range(1_003):
            journal.record(entry(str(number)))
        await until_stored(path, 1_003)
        stored = (await journal.query(QueryJournal(limit=2_000))).entries
    assert [one.tool for one in reversed(stored)] == [str(number) for number in range(1_003)]
