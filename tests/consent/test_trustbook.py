"""Who is trusted, and for which destination (b12, b14, n24)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from mcpd.config.spec import Server
from mcpd.consent.store import Store
from mcpd.consent.trustbook import TrustBook
from mcpd.errors import Failure

SERVER = Server(name="s", source="test", command="prog")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "state.db")) as store:
        yield store


def test_trust_is_for_one_name_and_one_destination(store: Store) -> None:
    book = TrustBook(store)
    assert not book.trusted(SERVER)
    book.trust(SERVER)
    for each in (book, TrustBook(store)):
        assert each.trusted(SERVER)
        assert each.trusted(replace(SERVER, env={"A": "b"}, source="elsewhere"))
        assert not each.trusted(replace(SERVER, name="t"))
        assert not each.trusted(replace(SERVER, args=("x",)))
        assert not each.trusted(replace(SERVER, executable="/tmp/prog"))
        assert (each.filed("s"), each.filed("t")) == (True, False)
    book.trust(replace(SERVER, args=("x",)))
    book.untrust("s")
    book.untrust("never")
    for each in (book, TrustBook(store)):
        assert not each.trusted(SERVER)
        assert not each.filed("s")


def test_the_users_own_file_comes_first_b30(store: Store) -> None:
    book = TrustBook(store)
    assert book.trusted(replace(SERVER, trusted=True))
    book.trust(SERVER)
    assert not book.trusted(replace(SERVER, trusted=False))


def test_only_less_counts_where_it_cannot_be_written(tmp_path: Path, store: Store) -> None:
    book = TrustBook(store)
    book.trust(SERVER)
    other = replace(SERVER, name="t")
    with sqlite3.connect(tmp_path / "state.db") as writer:
        for what in ("insert", "delete"):
            writer.execute(
                f"create trigger no_{what} before {what} on trust begin select raise(abort, ''); end"
            )
    writer.close()
    with pytest.raises(Failure) as caught:
        book.trust(other)
    assert caught.value.kind == "not_writable"
    assert not book.trusted(other)
    with pytest.raises(Failure):
        book.untrust("s")
    assert not book.trusted(SERVER)
