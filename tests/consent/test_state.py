"""state.db: what it keeps, and what happens to one that cannot be used."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from pathlib import Path

import pytest

from mcpd.api.endpoint import PORT
from mcpd.consent import tokens
from mcpd.consent.schema import SCHEMA
from mcpd.consent.state import StateBook
from mcpd.consent.store import Store
from mcpd.errors import Failure


class Book(StateBook):
    """With a file of its own."""

    def __init__(self, path: Path) -> None:
        store = Store(path)
        self.problems, self.close = store.problems, store.close
        super().__init__(store)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "mcpd" / "state.db"


def damaged(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path.parent) if ".damaged-" in name)


def test_what_is_kept_is_there_after_a_restart(path: Path) -> None:
    book = Book(path)
    assert (book.switched_off(), book.problems) == (frozenset(), ())
    book.set_enabled("a", False)
    book.set_enabled("b", False)
    book.set_enabled("b", True)
    # No close: a killed daemon does not close either.
    again = Book(path)
    for each in (book, again):
        assert each.switched_off() == {"a"}
        each.close()


def test_off_counts_where_it_cannot_be_written_and_is_written_when_asked_again(path: Path) -> None:
    book = Book(path)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("create trigger no before insert on servers begin select raise(abort, 'no'); end")
    with pytest.raises(Failure, match="cannot keep the state"):
        book.set_enabled("a", False)
    assert book.switched_off() == {"a"}
    writer.execute("drop trigger no")
    writer.close()
    book.set_enabled("a", False)
    again = Book(path)
    assert again.switched_off() == {"a"}
    again.close()
    book.close()


def test_a_forgotten_server_is_on(path: Path) -> None:
    book = Book(path)
    book.set_enabled("a", False)
    book.forget("a")
    book.forget("never-seen")
    again = Book(path)
    for each in (book, again):
        assert each.switched_off() == frozenset()
        each.close()


def test_the_file_is_private_and_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        book = Book(path)
        book.set_enabled("a", False)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert os.listdir(path.parent) == ["state.db"]
    book.close()


def test_a_newer_version_is_refused_and_left_as_it_is(path: Path) -> None:
    Book(path).close()
    with sqlite3.connect(path) as other:
        other.execute(f"update meta set version = {SCHEMA.version + 1}")
    other.close()
    before = path.read_bytes()
    with pytest.raises(Failure) as caught:
        Book(path)
    assert caught.value.kind == "refused"
    assert f"version {SCHEMA.version + 1}" in caught.value.message
    assert path.read_bytes() == before
    assert damaged(path) == []


#: What the first version of mcpd made.
FIRST = """
    create table meta (version integer not null);
    create table servers (name text primary key, enabled integer not null, accepted_digest text,
                          changed_at real not null);
    insert into meta values (1);
    insert into servers values ('a', 0, 'digest', 1.0);
"""


def test_a_file_of_the_first_version_is_taken_along(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as old:
        old.executescript(FIRST)
    old.close()
    for _ in range(2):
        book = Book(path)
        assert book.switched_off() == {"a"}
        assert book.problems == ()
        assert (book.endpoint, dict(book.tokens)) == ((False, PORT), {})
        book.close()
    assert damaged(path) == []


def test_a_step_that_fails_leaves_no_half_of_it(path: Path) -> None:
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as old:
        old.executescript(FIRST + "create table endpoint (other integer);")
    old.close()
    book = Book(path)
    assert book.switched_off() == set()
    assert len(book.problems) == 1
    book.close()
    [aside] = damaged(path)
    with sqlite3.connect(path.parent / aside) as old:
        assert old.execute("select version from meta").fetchall() == [(1,)]
        names = {name for (name,) in old.execute("select name from sqlite_master where type = 'table'")}
    old.close()
    assert "tokens" not in names


def test_tokens_are_kept_as_digests(path: Path) -> None:
    book = Book(path)
    token = tokens.new_token()
    book.put_token("coder", tokens.digest("an older one"))
    book.put_token("coder", tokens.digest(token))
    book.put_token("other", tokens.digest(tokens.new_token()))
    book.forget_token("other")
    book.forget_token("never had one")
    again = Book(path)
    for each in (book, again):
        assert each.tokens.keys() == {"coder"}
        assert each.tokens["coder"].digest == tokens.digest(token)
        assert each.tokens["coder"].made_at == pytest.approx(time.time(), abs=60)
        each.close()
    assert token.encode() not in path.read_bytes()


def test_the_endpoint_is_off_until_it_is_switched_on(path: Path) -> None:
    book = Book(path)
    assert book.endpoint == (False, PORT)
    book.set_endpoint(True, 4711)
    book.close()
    book = Book(path)
    assert book.endpoint == (True, 4711)
    book.set_endpoint(False, 4711)
    book.close()
    book = Book(path)
    assert book.endpoint == (False, 4711)
    book.close()


def test_of_the_endpoint_only_what_narrows_counts_where_it_cannot_be_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.database.BUSY", 0.05)
    book = Book(path)
    book.put_token("coder", b"1")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(Failure, match="cannot keep"):
        book.set_endpoint(True, 1)
    with pytest.raises(Failure, match="cannot keep"):
        book.put_token("other", b"2")
    assert book.endpoint == (False, PORT)
    assert book.tokens.keys() == {"coder"}
    with pytest.raises(Failure, match="cannot forget the token"):
        book.forget_token("coder")
    assert book.tokens == {}
    other.execute("rollback")
    book.set_endpoint(True, 1)
    other.execute("begin immediate")
    with pytest.raises(Failure):
        book.set_endpoint(False, 1)
    assert book.endpoint == (False, 1)
    other.close()
    book.close()


@pytest.mark.parametrize(
    "how", ["garbage", "cut", "scribbled", "no version", "other tables", "missing column"]
)
def test_a_damaged_file_is_set_aside_and_nothing_in_it_counts(path: Path, how: str) -> None:
    book = Book(path)
    book.set_enabled("a", False)
    book.close()
    data = path.read_bytes()
    if how == "garbage":
        path.write_bytes(b"not a database " * 100)
    elif how == "cut":
        path.write_bytes(data[:5000])
    elif how == "scribbled":
        path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    else:
        statement = {
            "no version": "delete from meta",
            "other tables": "drop table servers",
            "missing column": "alter table trust drop column trusted_at",
        }[how]
        with sqlite3.connect(path) as other:
            other.execute(statement)
        other.close()
    fresh = Book(path)
    assert fresh.switched_off() == frozenset()
    [problem] = fresh.problems
    [aside] = damaged(path)
    assert problem.file == str(path)
    assert aside in problem.message
    fresh.set_enabled("b", False)
    fresh.close()
    again = Book(path)
    assert again.switched_off() == {"b"}
    assert again.problems == ()
    again.close()


def test_an_earlier_damaged_file_is_not_replaced(path: Path) -> None:
    for content in (b"first " * 50, b"second " * 50):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        Book(path).close()
    kept = {(path.parent / name).read_bytes() for name in damaged(path)}
    assert kept == {b"first " * 50, b"second " * 50}


def test_a_locked_file_is_not_taken_for_a_damaged_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpd.database.BUSY", 0.05)
    Book(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin exclusive")
    with pytest.raises(Failure) as caught:
        Book(path)
    assert caught.value.kind == "not_writable"
    other.close()
    assert damaged(path) == []


def test_what_widens_and_cannot_be_written_does_not_count(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpd.database.BUSY", 0.05)
    book = Book(path)
    book.set_enabled("a", False)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    with pytest.raises(Failure) as caught:
        book.set_enabled("a", True)
    assert caught.value.kind == "not_writable"
    assert book.switched_off() == {"a"}
    other.close()
    book.set_enabled("a", True)
    assert book.switched_off() == set()
    book.close()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Failure) as caught:
        Book(tmp_path / "file" / "state.db")
    assert caught.value.kind == "not_writable"
