"""Pins in state.db: kept under server and destination, reviewed once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from mcpd.catalog.tool import Catalog, read_tools
from mcpd.config.spec import Server
from mcpd.consent import pinbook
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


def test_as_many_as_there_are_at_once(store: Store, path: Path) -> None:
    book = PinBook(store)
    new = book.put(SERVER, definitions(many("x", 250)))
    assert len(new) == 250
    assert PinBook(Store(path)).of(SERVER) == new


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


def many(word: str, number: int = 300) -> Catalog:
    tools = [{"name": f"t{each}", "description": f"{word} {'x' * 100}"} for each in range(number)]
    return Catalog(tools=read_tools([json.dumps(tools).encode()])[0])


async def test_what_takes_long_is_compared_before_anybody_asks(store: Store, real_clock: None) -> None:
    book = PinBook(store)
    book.put(SERVER, definitions(many("old")))
    live = many("new")
    await book.examine(SERVER, live, trusted=False)
    held = book.review(SERVER, live, trusted=False)
    assert len(held.findings) == 300
    # One of them is accepted, then the server is trusted: nothing is compared anew.
    place, definition = next(iter(definitions(live)))
    book.put(SERVER, [(place, definition)])
    for trusted in (False, True):
        after = book.review(SERVER, live, trusted=trusted)
        assert after.findings.keys() == held.findings.keys() - {place}
        assert all(after.compared[each] is held.compared[each] for each in after.compared)


async def test_what_was_pinned_while_others_compared_counts(store: Store, real_clock: None) -> None:
    book = PinBook(store)
    book.put(SERVER, definitions(many("old")))
    live = many("new")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(book.examine, SERVER, live, trusted=False))
        await trio.lowlevel.checkpoint()
        book.put(SERVER, definitions(live))
    assert book.review(SERVER, live, trusted=False).findings == {}


async def test_trust_decides_about_what_had_to_be_compared_alone(store: Store) -> None:
    """So of 10,000 tools that are as they were nothing is looked at again when their server is trusted."""
    book = PinBook(store)
    live = catalog()
    book.put(SERVER, definitions(live))
    assert book.review(SERVER, live, trusted=False) is book.review(SERVER, live, trusted=True)
    other = catalog("Subtracts.")
    reviews = [book.review(SERVER, other, trusted=trusted) for trusted in (False, True)]
    assert reviews[0] is not reviews[1]
    assert [review.live for review in reviews] == [other, other]


async def test_what_was_examined_is_not_examined_again(store: Store, real_clock: None) -> None:
    book = PinBook(store)
    live = many("same", 2000)
    book.put(SERVER, definitions(live))
    await book.examine(SERVER, live, trusted=False)
    made = book.review(SERVER, live, trusted=False)
    assert made.pinned == {tool.name for tool in live.tools}
    await book.examine(SERVER, live, trusted=True)
    assert book.review(SERVER, live, trusted=True) is made
    book.put(SERVER, definitions(catalog()))
    await book.examine(SERVER, live, trusted=False)
    assert book.review(SERVER, live, trusted=False) is not made, "something was pinned since"


async def test_a_server_that_always_says_something_else_fills_no_memory(
    store: Store, real_clock: None
) -> None:
    book = PinBook(store)
    book.put(SERVER, definitions(many("old", 2000)))
    for number in range(6):
        await book.examine(SERVER, many(str(number) * 1000, 2000), trusted=False)
    (kept,) = book._reviews.values()
    assert sum(made.review.size for made in kept) <= 8 * 2**20


async def test_what_nobody_looks_at_is_pinned_up_to_a_limit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinbook, "_ROOM", 200_000)
    book = PinBook(store)
    assert len(await book.follow(SERVER, definitions(many("old", 100)))) == 100
    names = [f"u{each}" for each in range(1000)]
    more = await book.follow(SERVER, definitions(catalog("New.", *names)))
    assert 0 < len(more) < 1000
    assert await book.follow(SERVER, definitions(catalog("New.", "one more"))) == {}
    # What is there already can still be brought up to date, and a person is not kept from anything.
    assert len(await book.follow(SERVER, definitions(many("new", 100)))) == 100
    assert len(book.put(SERVER, definitions(catalog("New.", "one more")))) >= 1


async def test_what_a_person_pins_meanwhile_is_not_overwritten(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pinbook, "_AT_ONCE", 1)
    theirs = definitions(many("theirs", 2))
    times = iter([1.0, 2.0, 3.0, 4.0])

    def now() -> float:
        time = next(times)
        if time == 1.0:
            book.put(SERVER, theirs)
        return time

    book = PinBook(store, now)
    await book.follow(SERVER, definitions(many("stale", 2)))
    assert (
        book.of(SERVER)[Place("tool", "t1")].definition
        == dict(definitions(many("theirs", 2)))[Place("tool", "t1")]
    )
