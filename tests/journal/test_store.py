"""The file of the journal: what of arguments gets into it, and how large it gets."""

from __future__ import annotations

import hashlib
import json
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from mcpd.api.journal import QueryJournal, Recorded
from mcpd.config.spec import Settings
from mcpd.journal import Entry
from mcpd.journal.rows import CHAIN, KEPT
from mcpd.journal.shape import LARGEST
from mcpd.journal.store import Keep, Store, kept

SECRET = "hunter2-hunter2"


class Redactor:
    """One that knows a single value, also with an escape in it."""

    def text(self, text: str) -> str:
        return text.replace(SECRET, "[SECRET]")

    def stored(self, text: bytes) -> bytes:
        return text.replace(SECRET.encode(), b"[SECRET]").replace(
            b"\\u0068" + SECRET[1:].encode(), b"[SECRET]"
        )


def only(store: Store) -> Recorded:
    [entry] = store.read(QueryJournal(limit=1)).entries
    return entry


def stored(store: Store, entry: Entry, arguments: bytes = b"") -> Recorded:
    store.write([(entry, arguments)])
    return only(store)


def test_equal_arguments_have_equal_digests_which_say_nothing_without_the_file(tmp_path: Path) -> None:
    one, other = Store(tmp_path / "1.db", Keep()), Store(tmp_path / "2.db", Keep())
    first, again = (
        stored(one, Entry(), b'{"pin":"0000"}').digest,
        stored(one, Entry(), b'{"pin":"0000"}').digest,
    )
    assert first == again
    assert len(first) == 24
    assert stored(one, Entry(), b'{"pin":"0001"}').digest != first
    assert stored(other, Entry(), b'{"pin":"0000"}').digest != first
    plain = (hashlib.blake2b(b'{"pin":"0000"}', digest_size=12), hashlib.sha256(b'{"pin":"0000"}'))
    assert first not in [made.hexdigest()[:24] for made in plain]
    one.close()
    # The key stays with the file.
    opened = Store(tmp_path / "1.db", Keep())
    assert stored(opened, Entry(), b'{"pin":"0000"}').digest == first
    opened.close()
    other.close()
    assert stat.S_IMODE((tmp_path / "1.db").stat().st_mode) == 0o600


def test_of_arguments_the_shape_is_kept_and_no_value(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep())
    entry = stored(store, Entry(), b'{"path":"/home/me/diary","deep":{"n":1}}')
    assert (entry.shape, entry.arguments) == ('{"path":"string","deep":{"n":"number"}}', "")
    store.close()
    assert b"diary" not in (tmp_path / "j.db").read_bytes()


def test_arguments_are_kept_where_that_is_asked_for_and_redacted_before_they_are_cut(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", kept(Settings(journal_arguments=True)), Redactor())
    text = json.dumps({"a": SECRET, "b": "plain"})
    assert stored(store, Entry(server="fs"), text.encode()).arguments == text.replace(SECRET, "[SECRET]")
    escaped = b'{"a":"\\u0068' + SECRET[1:].encode() + b'"}'
    assert stored(store, Entry(), escaped).arguments == '{"a":"[SECRET]"}'
    # The limit falls into the middle of the value.
    text = json.dumps({"a": "x" * (KEPT - 12) + SECRET})
    cut = stored(store, Entry(server="fs"), text.encode()).arguments
    assert len(cut) < KEPT + 40
    assert cut.endswith(f"… ({len(text) - len(SECRET) + 8} characters)")
    assert SECRET[:4] not in cut
    large = b'{"a":"' + b"x" * LARGEST + b'"}'
    assert stored(store, Entry(server="fs"), large).arguments == f"({len(large)} bytes)"
    store.close()


def test_foreign_texts_pass_the_redactor(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep(), Redactor())
    texts: dict[str, Any] = {"tool": f"t {SECRET}", "because": f"b {SECRET}", "findings": SECRET}
    entry = stored(store, Entry(server="fs", **texts), json.dumps({SECRET: 1}).encode())
    assert (entry.tool, entry.because, entry.findings) == ("t [SECRET]", "b [SECRET]", "[SECRET]")
    assert entry.shape == '{"[SECRET]":"number"}'
    assert stored(store, Entry(server="fs", tool="odd \ud800")).tool == "odd ?"
    store.close()


def test_a_long_chain_is_cut_after_it_was_redacted(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep(), Redactor())
    because = "x" * (CHAIN - 2) + SECRET
    assert stored(store, Entry(server="fs", because=because)).because == "x" * (CHAIN - 2) + "[S"
    store.close()


def test_the_file_stays_within_its_limit_while_it_is_written(tmp_path: Path) -> None:
    """Not only once a day: at full load a day is many times the limit."""
    path, limit = tmp_path / "j.db", 1 << 20
    store = Store(path, Keep(bytes=limit))
    largest = 0
    for batch in range(20):
        store.write([(Entry(tool=f"{batch}", because="x" * 1000), b"") for _ in range(300)])
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
        Entry(kind="approval", outcome="approved"),
        Entry(kind="change", method="servers.trust"),
        Entry(kind="decision", risk="high"),
        Entry(kind="request", risk="high", outcome="ok"),
    ]
    store.write([(entry, b"") for entry in lasting])
    for _ in range(10):
        store.write([(Entry(risk="low", because="x" * 1000), b"") for _ in range(400)])
        store.write([(Entry(outcome="no_such_tool", tool="y" * 200), b"") for _ in range(400)])
    left = store.read(QueryJournal(after=0, limit=10_000)).entries
    assert [entry.id for entry in left[:4]] == [1, 2, 3, 4]
    assert left[4].id > 100
    assert 100 < len(left) < 3000
    # By themselves they are no more than the limit allows.
    for _ in range(10):
        store.write([(Entry(kind="change", because="x" * 1000), b"") for _ in range(400)])
    left = store.read(QueryJournal(after=0, limit=10_000)).entries
    assert {entry.kind for entry in left} == {"change"}
    assert len(left) < 1000
    store.close()
    assert path.stat().st_size <= limit


def test_what_is_kept_can_change_at_any_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "j.db", Keep(bytes=0))
    store.write([(Entry(because="x" * 1000), b"") for _ in range(3000)])
    store.keep = kept(Settings(journal_keep_bytes=1 << 20))
    store.write([(Entry(tool="last"), b"")])
    assert len(store.read(QueryJournal(limit=5000)).entries) < 1000
    assert only(store).tool == "last"
    store.close()


@pytest.mark.parametrize("count", [1, 400, 801])
def test_a_write_tells_the_number_of_its_last_entry(tmp_path: Path, count: int) -> None:
    store = Store(tmp_path / "j.db", Keep())
    assert store.write([(Entry(at=time.time()), b"")] * count) == count
    assert store.write([(Entry(at=time.time()), b"")]) == count + 1
    store.close()


def test_a_journal_that_was_deleted_is_an_empty_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "journal.db", Keep())
    stored(store, Entry(tool="a"))
    for file in tmp_path.iterdir():
        file.unlink()
    for wanted in (QueryJournal(limit=1), QueryJournal(after=1, limit=1)):
        assert store.read(wanted) == ([], 0)
    assert stored(store, Entry(tool="b")).tool == "b"
    store.close()
