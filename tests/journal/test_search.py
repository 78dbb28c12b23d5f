"""Finding entries again."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from mcpd.api.journal import QueryJournal
from mcpd.journal import search
from mcpd.journal.store import Keep, Store
from tests.journal.flat import entry

#: Number -> what happened, in order.
ENTRIES = (
    entry(at=10, agent="coder", server="fs", tool="read_file", method="tools/call", outcome="ok", risk="low"),
    entry(
        at=20, agent="coder", server="fs", tool="write_file", outcome="denied", decision="deny", risk="high"
    ),
    entry(
        at=30, agent="reader", server="fs", tool="read_file", outcome="ok", because="100% [sure]", grant="g7"
    ),
    entry(
        at=40, kind="approval", agent="coder", server="fs", tool="write_file", approval="q1", outcome="asked"
    ),
    entry(at=50, kind="approval", agent="coder", approval="q1", outcome="approved", proof="unverified"),
    entry(at=60, kind="change", method="servers.trust", server="web", pid=7, outcome="ok", session="s9"),
    entry(at=70, agent="coder", server="web", tool="Fetch", outcome="tool_error", findings="1 redacted"),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("journal") / "journal.db", Keep(days=0))
    store.write([(entry, b'{"path":"x"}' if entry.at == 10 else b"") for entry in ENTRIES])
    store.close()
    return store


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [7, 6, 5, 4, 3, 2, 1]),
        ({"since": 30.0}, [7, 6, 5, 4, 3]),
        ({"until": 30.0}, [2, 1]),
        ({"since": 20.0, "until": 50.0}, [4, 3, 2]),
        ({"agent": "coder"}, [7, 5, 4, 2, 1]),
        ({"agent": "*er"}, [7, 5, 4, 3, 2, 1]),
        ({"agent": ""}, [6]),
        ({"server": "f?"}, [4, 3, 2, 1]),
        ({"server": "[fs]*"}, []),
        ({"tool": "read_file"}, [3, 1]),
        ({"tool": "*_file", "agent": "coder"}, [4, 2, 1]),
        ({"tool": "fetch"}, []),
        ({"kinds": ("approval", "change")}, [6, 5, 4]),
        ({"outcomes": ("denied", "tool_error")}, [7, 2]),
        ({"decision": "deny"}, [2]),
        ({"risk": "low"}, [1]),
        ({"id": "q1"}, [5, 4]),
        ({"id": "g7"}, [3]),
        ({"id": "s9"}, [6]),
        ({"id": "q%"}, []),
        ({"text": "FETCH"}, [7]),
        ({"text": "100%"}, [3]),
        ({"text": "[sure]"}, [3]),
        ({"text": "read_file"}, [3, 1]),
        ({"text": "readXfile"}, []),
        ({"text": '"path"'}, [1]),
        ({"text": "redacted"}, [7]),
        ({"text": "' or 1 --"}, []),
        ({"server": "' or 1 --"}, []),
        ({"limit": 2}, [7, 6]),
        ({"before": 3}, [2, 1]),
        ({"before": 1}, []),
        ({"before": 1000}, [7, 6, 5, 4, 3, 2, 1]),
        ({"after": 5}, [6, 7]),
        ({"after": 0, "limit": 2}, [1, 2]),
        ({"after": 2, "agent": "coder"}, [4, 5, 7]),
        ({"after": 7}, []),
        # A number that was never given is one of a file that is gone.
        ({"after": 1000}, [1, 2, 3, 4, 5, 6, 7]),
    ],
    ids=str,
)
def test_conditions(store: Store, wanted: dict[str, Any], found: list[int]) -> None:
    assert [each.id for each in store.read(QueryJournal(**wanted)).entries] == found


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_pages_make_up_the_whole(store: Store, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    monkeypatch.setattr(search, "STEP", step)
    every: list[dict[str, Any]] = [{}, {"agent": "coder"}, {"server": "nobody"}]
    for conditions in every:
        whole = [each.id for each in store.read(QueryJournal(**conditions)).entries]
        backward, before = [], 0
        while True:
            page = store.read(QueryJournal(before=before, limit=2, **conditions))
            backward += [each.id for each in page.entries]
            if not (before := page.next):
                break
        assert backward == whole
        onward, after = [], 0
        while True:
            page = store.read(QueryJournal(after=after, limit=2, **conditions))
            onward += [each.id for each in page.entries]
            if page.next == after:
                break
            after = page.next
        assert onward == whole[::-1]


def test_a_search_tells_what_it_has_when_it_takes_long(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STEP", 2)
    monkeypatch.setattr(search, "PATIENCE", -1.0)
    page = store.read(QueryJournal(agent="reader"))
    assert (page.entries, page.next) == ([], 6)
    page = store.read(QueryJournal(agent="reader", before=4))
    assert ([each.id for each in page.entries], page.next) == ([3], 2)


def test_a_search_since_lately_does_not_read_the_whole_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "STEP", 10)
    store = Store(tmp_path / "journal.db", Keep(days=0))
    now = time.time()
    # One entry of a clock that was wrong for a moment, and then a step of entries a day older than asked for.
    ages = [9e6] * 95 + [5.0, 2e6, 1.0] + [0.0] * 2
    store.write([(entry(at=now - age), b"") for age in ages])
    store.close()
    looked: list[str] = []
    connection = sqlite3.connect(tmp_path / "journal.db")
    connection.set_trace_callback(looked.append)
    found = search.find(connection, QueryJournal(since=now - 60))
    connection.close()
    assert [each.id for each in found.entries] == [100, 99, 98, 96]
    assert found.next == 0
    assert len([query for query in looked if "order by id desc" in query]) <= 3


def test_an_empty_journal_has_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.db", Keep())
    store.open()
    assert store.read(QueryJournal()) == ([], 0)
    assert store.read(QueryJournal(after=5)) == ([], 0)
    store.close()
