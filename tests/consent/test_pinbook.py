"""Pins in state.db: kept under server and destination, reviewed once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mcpd.catalog.tool import Catalog, read_tools
from mcpd.config.spec import Server
from mcpd.consent.pinbook import PinBook
from mcpd.consent.store import Store
from mcpd.errors import Failure
from mcpd.policy.review import Place, definitions

SERVER = Server(name="calc", source="test", command="calc", executable="/usr/bin/calc")
MOVED = replace(SERVER, executable="/tmp/calc")


def catalog(text: str = "Adds.", *more: str) -> Catalog:
    tools = [{"name": name, "description": text} for name in ("add", *more)]
    return Catalog(tools=read_tools([json.dumps(tools).encode()])[0], instructions="Be kind.")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = Store(path)
    yield store
    store.close()


def test_pins_outlive_the_daemon(store: Store, path: Path) -> None:
    book = PinBook(store, lambda: 7.0)
    new = book.put(SERVER, definitions(catalog()))
    assert set(new) == {Place("tool", "add"), Place("instructions", "")}
    again = PinBook(Store(path))
    assert again.of(SERVER) == book.of(SERVER) == new
    assert again.of(SERVER)[Place("tool", "add")].pinned_at == 7.0
    assert again.review(SERVER, catalog(), trusted=True).pinned == {"add"}


def test_only_what_is_new_or_different_is_written(store: Store) -> None:
    times = iter([1.0, 2.0, 3.0])
    book = PinBook(store, lambda: next(times))
    book.put(SERVER, definitions(catalog()))
    assert book.put(SERVER, definitions(catalog())) == {}
    assert list(book.put(SERVER, definitions(catalog("Subtracts.")))) == [Place("tool", "add")]
    assert book.of(SERVER)[Place("tool", "add")].pinned_at == 3.0
    assert book.of(SERVER)[Place("instructions", "")].pinned_at == 1.0


def test_another_destination_has_none_n24(store: Store) -> None:
    book = PinBook(store)
    book.put(SERVER, definitions(catalog()))
    assert book.of(MOVED) == {}
    assert book.review(MOVED, catalog("Subtracts."), trusted=True).findings == {}
    assert book.filed("calc")
    assert not book.filed("other")


def test_a_server_that_is_removed_leaves_none(store: Store, path: Path) -> None:
    book = PinBook(store)
    book.put(SERVER, definitions(catalog()))
    book.put(MOVED, definitions(catalog()))
    book.put(replace(SERVER, name="other"), definitions(catalog()))
    book.forget("calc")
    for one in (book, PinBook(Store(path))):
        assert one.of(SERVER) == one.of(MOVED) == {}
        assert one.filed("other")


def test_a_catalogue_is_reviewed_once_and_anew_when_pins_change(store: Store) -> None:
    book = PinBook(store)
    live = catalog("Subtracts.")
    book.put(SERVER, definitions(catalog()))
    first = book.review(SERVER, live, trusted=True)
    assert book.review(SERVER, live, trusted=True) is first
    assert book.review(SERVER, live, trusted=False) is not first
    assert first.findings[Place("tool", "add")].held
    book.put(SERVER, definitions(live))
    assert book.review(SERVER, live, trusted=True).findings == {}
    for number in range(10):
        book.review(SERVER, catalog(str(number)), trusted=True)
    assert book.review(SERVER, live, trusted=True).findings == {}


def test_what_cannot_be_written_is_not_pinned(store: Store, path: Path) -> None:
    book = PinBook(store)
    other = sqlite3.connect(path)
    other.execute("create trigger full before insert on pins begin select raise(abort, 'disk full'); end")
    other.commit()
    with pytest.raises(Failure) as failed:
        book.put(SERVER, definitions(catalog()))
    assert failed.value.kind == "not_writable"
    assert "disk full" in failed.value.message
    assert book.of(SERVER) == {}
