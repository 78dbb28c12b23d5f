"""The file of the journal: what of arguments gets into it, and how large it gets."""

from __future__ import annotations

import hashlib
import itertools
import json
import sqlite3
import stat
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from mcpd.api.journal import QueryJournal, Recorded
from mcpd.config.spec import Settings
from mcpd.journal import Entry
from mcpd.journal import store as module
from mcpd.journal.rows import CHAIN, KEPT
from mcpd.journal.shape import LARGEST
from mcpd.journal.store import Keep, Store, kept
from tests.journal.flat import entry

SECRET = "hunter2-hunter2"

numbers = itertools.count()


class Redactor:
    """One that knows a single value, also with an escape in it, once that is held."""

    times_held = 1

    def __init__(self) -> None:
        self.held = SECRET

    def hold(self, value: str) -> None:
        self.held = value
        self.times_held += 1

    def text(self, text: str) -> str:
        return text.replace(self.held, "[SECRET]")

    def stored(self, text: bytes) -> bytes:
        return text.replace(self.held.encode(), b"[SECRET]").replace(
            b"\\u0068" + SECRET[1:].encode(), b"[SECRET]"
        )


def unlike() -> str:
    """Words that no other entry has; equal ones would be stored once."""
    return f"{next(numbers)} " + "x" * 1000


def only(store: Store) -> Recorded:
    [entry] = store.read(QueryJournal(limit=1)).entries
    return entry


def stored(store: Store, new: Entry, arguments: bytes = b"") -> Recorded:
    store.write([(new, arguments)])
    return only(store)


def test_equal_arguments_have_equal_digests_which_say_nothing_without_the_file(tmp_path: Path) -> None:
    one, other = Store(tmp_path / "1.db", Keep()), Store(tmp_path / "2.db", Keep())
    first, again = (
        stored(one, entry(), b'{"pin":"0000"}').digest,
        stored(one, entry(), b'{"pin":"0000"}').digest,
    )
    assert first == again
    assert len(first) == 24
    assert stored(one, entry(), b'{"pin":"0001"}').digest != first
    assert stored(other, entry(), b'{"pin":"0000"}').digest != first
    plain = (hashlib.blake2b(b'{"pin":"0000"}', digest_size=12), hashlib.sha256(b'{"pin":"0000"}'))
    assert first not in [made.hexdigest()[:24] for made in plain]
    one.close()
    # The key stays with the file.
    opened = Store(tmp_path / "1.db", Keep())
    assert stored(opened, entry(), b'{"pin":"0000"}').digest == first
    opened.close()
    other.close()
    assert stat.S_IMODE((tmp_path / "1.db").stat().st_mode) == 0o600


def test_of_arguments_the_shape_is_kept_and_no_value(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep())
    found = stored(store, entry(), b'{"path":"/home/me/diary","deep":{"n":1}}')
    assert (found.shape, found.arguments) == ('{"path":"string","deep":{"n":"number"}}', "")
    store.close()
    assert b"diary" not in (tmp_path / "j.db").read_bytes()


def test_arguments_are_kept_where_that_is_asked_for_and_redacted_before_they_are_cut(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", kept(Settings(journal_arguments=True)), Redactor())
    text = json.dumps({"a": SECRET, "b": "plain"})
    assert stored(store, entry(server="fs"), text.encode()).arguments == text.replace(SECRET, "[SECRET]")
    escaped = b'{"a":"\\u0068' + SECRET[1:].encode() + b'"}'
    assert stored(store, entry(), escaped).arguments == '{"a":"[SECRET]"}'
    # The limit falls into the middle of the value.
    text = json.dumps({"a": "x" * (KEPT - 12) + SECRET})
    cut = stored(store, entry(server="fs"), text.encode()).arguments
    assert len(cut) < KEPT + 40
    assert cut.endswith(f"… ({len(text) - len(SECRET) + 8} characters)")
    assert SECRET[:4] not in cut
    large = b'{"a":"' + b"x" * LARGEST + b'"}'
    assert stored(store, entry(server="fs"), large).arguments == f"({len(large)} bytes)"
    store.close()


def test_foreign_texts_pass_the_redactor(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep(), Redactor())
    texts: dict[str, Any] = {"tool": f"t {SECRET}", "because": f"b {SECRET}", "findings": SECRET}
    found = stored(store, entry(server="fs", **texts), json.dumps({SECRET: 1}).encode())
    assert (found.tool, found.because, found.findings) == ("t [SECRET]", "b [SECRET]", "[SECRET]")
    assert found.shape == '{"[SECRET]":"number"}'
    assert stored(store, entry(server="fs", tool="odd \ud800")).tool == "odd ?"
    store.close()


def test_what_comes_to_be_held_is_redacted_from_then_on_in_what_repeats_too(tmp_path: Path) -> None:
    redactor = Redactor()
    store = Store(tmp_path / "j.db", Keep(), redactor)
    store.open()
    again = entry(tool="t later", because="b later"), b'{"later":1}'
    assert stored(store, *again).tool == "t later"
    redactor.hold("later")
    found = stored(store, *again)
    assert (found.tool, found.because, found.shape) == ("t [SECRET]", "b [SECRET]", '{"[SECRET]":"number"}')
    store.close()


@pytest.mark.parametrize("redactor", [None, Redactor()])
def test_no_text_keeps_an_entry_out_of_the_file(tmp_path: Path, redactor: Redactor | None) -> None:
    """A path may hold bytes that are no text, and Python has surrogates for them."""
    store = Store(tmp_path / "j.db", Keep(), redactor)
    texts = [name for name, kind in Recorded.__annotations__.items() if kind == "str"]
    said = {name: f"{name} \udcff\0" for name in texts if name not in ("digest", "shape", "arguments")}
    found = stored(store, entry(**said))
    assert {name: getattr(found, name) for name in said} == {name: f"{name} ?\0" for name in said}
    store.close()


def test_a_long_chain_is_cut_after_it_was_redacted(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep(), Redactor())
    because = "x" * (CHAIN - 2) + SECRET
    assert stored(store, entry(server="fs", because=because)).because == "x" * (CHAIN - 2) + "[S"
    store.close()


def test_the_file_stays_within_its_limit_while_it_is_written(tmp_path: Path) -> None:
    """Not only once a day: at full load a day is many times the limit."""
    path, limit = tmp_path / "j.db", 1 << 20
    store = Store(path, Keep(bytes=limit))
    largest = 0
    for batch in range(20):
        store.write([(entry(tool=f"{batch}", because=unlike()), b"") for _ in range(300)])
        largest = max(largest, path.stat().st_size)
    newest = only(store)
    assert newest.tool == "19"
    assert newest.id == 6000
    store.close()
    # A batch comes on top before it is looked at.
    assert largest < limit + 2 * 300 * 1100
    assert path.stat().st_size <= limit


def test_a_flood_of_requests_does_not_wash_away_what_was_decided(tmp_path: Path) -> None:
    path, limit = tmp_path / "j.db", 1 << 20
    store = Store(path, Keep(bytes=limit))
    lasting = [
        entry(kind="approval", outcome="approved"),
        entry(kind="change", method="servers.trust"),
        entry(kind="decision", risk="high"),
        entry(kind="request", risk="high", outcome="ok"),
    ]
    store.write([(entry, b"") for entry in lasting])
    for _ in range(10):
        store.write([(entry(risk="low", because=unlike()), b"") for _ in range(400)])
        store.write([(entry(outcome="no_such_tool", tool=unlike()[:200]), b"") for _ in range(400)])
    left = store.read(QueryJournal(after=0, limit=10_000)).entries
    assert [entry.id for entry in left[:4]] == [1, 2, 3, 4]
    assert left[4].id > 100
    assert 100 < len(left) < 3000
    # By themselves they are no more than the limit allows.
    for _ in range(10):
        store.write([(entry(kind="change", because=unlike()), b"") for _ in range(400)])
    left = store.read(QueryJournal(after=0, limit=10_000)).entries
    assert {entry.kind for entry in left} == {"change"}
    assert len(left) < 1000
    store.close()
    assert path.stat().st_size <= limit


def test_what_is_kept_can_change_at_any_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep(bytes=0))
    store.write([(entry(because=unlike()), b"") for _ in range(3000)])
    store.keep = kept(Settings(journal_keep_bytes=1 << 20))
    store.write([(entry(tool="last"), b"")])
    assert len(store.read(QueryJournal(limit=5000)).entries) < 1000
    assert only(store).tool == "last"
    store.close()


@pytest.mark.parametrize("count", [1, 400, 801])
def test_a_write_tells_the_number_of_its_last_entry(tmp_path: Path, count: int) -> None:
    store = Store(tmp_path / "j.db", Keep())
    assert store.write([(entry(at=time.time()), b"")] * count) == count
    assert store.write([(entry(at=time.time()), b"")]) == count + 1
    store.close()


def test_a_journal_that_was_deleted_is_an_empty_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.db", Keep())
    stored(store, entry(tool="a"))
    for file in tmp_path.iterdir():
        file.unlink()
    for wanted in (QueryJournal(limit=1), QueryJournal(after=1, limit=1)):
        assert store.read(wanted) == ([], 0)
    assert stored(store, entry(tool="b")).tool == "b"
    store.close()


def contexts(path: Path) -> int:
    connection = sqlite3.connect(path)
    [(count,)] = connection.execute("select count(*) from context")
    connection.close()
    return int(count)


def test_what_repeats_is_stored_once_and_goes_with_its_last_entry(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    store = Store(path, Keep(days=0))
    store.write([(entry(at=1.0, tool="old", request_bytes=n), b'{"a":1}') for n in range(300)])
    now = time.time()
    store.write([(entry(at=now, tool="new", request_bytes=n), b'{"a":2}') for n in range(300)])
    store.write([(entry(at=now, tool="new"), b'{"a":3}'), (entry(at=now, tool="new"), b'{"b":3}')])
    assert contexts(path) == 3
    sizes = [each.request_bytes for each in store.read(QueryJournal(tool="new", after=0, limit=500)).entries]
    assert sizes == [*range(300), 0, 0]
    store.close()
    # Opened again it deletes what is too old; what is written then is whole all the same.
    again = Store(path, Keep(days=1))
    again.open()
    assert contexts(path) == 2
    assert stored(again, entry(tool="old"), b'{"a":1}').shape == '{"a":"number"}'
    again.close()


def test_what_is_deleted_between_two_batches_is_not_referred_to(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    store = Store(path, Keep(bytes=1 << 19))
    for _ in range(4):
        store.write([(entry(tool="same"), b"")])
        store.write([(entry(because=unlike()), b"") for _ in range(1000)])
    assert stored(store, entry(tool="same")).tool == "same"
    connection = sqlite3.connect(path)
    missing = "select count(*) from entry where context not in (select id from context)"
    assert connection.execute(missing).fetchone() == (0,)
    connection.close()
    store.close()


def test_what_somebody_else_deletes_by_hand_is_not_referred_to(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    store = Store(path, Keep())
    store.open()
    store.write([(entry(tool="same"), b""), (entry(tool="other"), b"")])
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("delete from entry")
        connection.execute("delete from context")
    connection.close()
    assert stored(store, entry(tool="other")).tool == "other"
    assert stored(store, entry(tool="same")).tool == "same"
    store.close()


def test_a_context_of_a_batch_that_was_not_written_is_written_with_the_next(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep())
    store.write([(entry(tool="before"), b"")])
    broken = entry(tool="t", waited=None)
    with pytest.raises(sqlite3.IntegrityError):
        store.write([(entry(tool="t"), b""), (broken, b"")])
    assert only(store).tool == "before"
    assert stored(store, entry(tool="t")).tool == "t"
    store.close()


def test_names_of_arguments_however_many_are_not_held_in_memory(tmp_path: Path) -> None:
    """They are an agent's own, up to 50 KB a call."""
    store = Store(tmp_path / "j.db", Keep(bytes=0))
    inner = {f"{n:038}": n for n in range(32)}
    store.write([(entry(), b"{}")])
    tracemalloc.start()
    for call in range(200):
        arguments = {f"{call:04}{n:034}": inner for n in range(32)}
        store.write([(entry(), json.dumps(arguments).encode())])
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1 << 20
    assert len(only(store).shape) > 50_000
    store.close()


def referred(path: Path) -> tuple[set[int], set[int]]:
    """The contexts that there are, and those that entries refer to."""
    connection = sqlite3.connect(path)
    there, meant = (
        {number for (number,) in connection.execute(query)}
        for query in ("select id from context", "select context from entry")
    )
    connection.close()
    return there, meant


def test_whatever_is_deleted_each_entry_has_its_context_and_no_other_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NEAR", 300)
    monkeypatch.setattr(module, "_CHUNK", 70)
    path = tmp_path / "j.db"
    store = Store(path, Keep(days=0, bytes=1 << 18))
    for batch in range(60):
        risks = ("high" if (batch + n) % 11 == 0 else "low" for n in range(100))
        store.write(
            [
                (
                    entry(
                        at=batch * 86400,
                        tool=f"{n % 7}",
                        risk=risk,
                        because="x" * (n % 5) * (batch % 3) * 100,
                    ),
                    b"",
                )
                for n, risk in enumerate(risks)
            ]
        )
        there, meant = referred(path)
        assert there == meant
    left = store.read(QueryJournal(after=0, limit=500)).entries
    assert {each.risk for each in left[:10]} == {"high"}
    store.close()
    days = Store(path, Keep(days=30, bytes=0))
    days.open()
    days.close()
    there, meant = referred(path)
    assert there == meant
    assert min(each.at for each in days.read(QueryJournal(after=0, limit=500)).entries) == 29 * 86400


def test_what_is_too_much_goes_in_small_steps_so_that_no_entry_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full file has millions of entries, and what is of high risk waits until the next one is written."""
    monkeypatch.setattr(module, "_CHUNK", 500)
    path = tmp_path / "j.db"
    store = Store(path, Keep(bytes=0))
    store.write([(entry(risk="high"), b"") for _ in range(10_000)])
    store.write([(entry(risk="low"), b"") for _ in range(10_000)])
    store.close()

    def left() -> dict[str, int]:
        connection = sqlite3.connect(path)
        counts = dict(connection.execute("select risk, count(*) from entries group by risk").fetchall())
        connection.close()
        return counts

    clock = itertools.count(step=0.4 * module.PATIENCE)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    store.keep = Keep(bytes=int(path.stat().st_size * 0.8))
    for written in range(1, 11):
        assert store.write([(entry(risk="low"), b"")]) == 20_000 + written
        assert left() == {"high": 10_000, "low": 10_000 + written}
    store.write([(entry(risk="low"), b"")])
    assert left() == {"high": 10_000, "low": 10_011 - 1000}
    for _ in range(10):
        store.write([(entry(risk="low"), b"")])
    store.close()
    assert path.stat().st_size <= store.keep.bytes
    assert left()["high"] == 10_000
