"""Grants in state.db: kept, counted, ended."""

from __future__ import annotations

import math
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.consent.grantbook import MOST, GrantBook
from mcpd.consent.store import Store
from mcpd.errors import Failure
from mcpd.policy.grants import Condition, Grant, Request


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class World:
    """Books on one file, the later of which know what the earlier wrote."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.db"
        self.clock = Clock()
        self.stores: list[Store] = []

    def book(self) -> GrantBook:
        self.stores.append(Store(self.path))
        return GrantBook(self.stores[-1], self.clock)

    def give(self, book: GrantBook, **fields: Any) -> Grant:
        usual: dict[str, Any] = {
            "id": book.new_id(),
            "agent": "coder",
            "server": "fs",
            "destination": "d1",
            "tool": "write",
            "exact": True,
            "lifespan": "forever",
            "made_at": self.clock.now,
        }
        given = Grant(**{**usual, **fields})
        book.add(given)
        return given


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(tmp_path)
    yield made
    for store in made.stores:
        store.close()


def asked(**fields: Any) -> Request:
    usual: dict[str, Any] = {
        "agent": "coder",
        "session": "s1",
        "server": "fs",
        "destination": "d1",
        "tool": "write",
        "risk": "high",
        "arguments": b"{}",
    }
    return Request(**{**usual, **fields})


def ids(book: GrantBook) -> list[str]:
    return [given.grant.id for given in book.all()]


def test_what_was_granted_is_known_after_a_restart(world: World) -> None:
    book = world.book()
    given = world.give(
        book,
        conditions=(Condition("path", "under", "/n"), Condition("mode", "equals", "1.0")),
        reason="notes only",
    )
    for each in (book, world.book()):
        assert [found.grant for found in each.all()] == [given]
        assert each.find(asked(arguments=b'{"path":"/n/a","mode":1.0}')) == given
        assert each.find(asked()) is None


def test_ids_are_random(world: World) -> None:
    book = world.book()
    assert len({book.new_id() for _ in range(50)}) == 50


def test_a_count_goes_down_over_restarts_and_ends(world: World) -> None:
    book = world.book()
    given = world.give(book, lifespan="count", count=3)
    for _ in range(2):
        found = book.find(asked())
        assert found == given
        book.use(found)
    book = world.book()
    assert [(each.grant, each.used) for each in book.all()] == [(given, 2)]
    book.use(given)
    assert book.find(asked()) is None
    assert book.all() == ()
    assert world.book().find(asked()) is None


def test_once_is_once_also_for_a_daemon_that_was_killed(world: World) -> None:
    book = world.book()
    book.use(world.give(book, lifespan="once"))
    assert book.find(asked()) is None
    assert world.book().find(asked()) is None


def test_a_use_that_was_for_nothing_is_given_back(world: World) -> None:
    book = world.book()
    given = world.give(book, lifespan="once")
    book.use(given)
    book.give_back(given.id)
    assert [each.find(asked()) for each in (book, world.book())] == [given, given]
    book.give_back(given.id)
    book.give_back("")
    assert [each.used for each in world.book().all()] == [0]
    book.use(given)
    assert book.find(asked()) is None


def test_a_use_does_not_come_back_to_a_grant_that_was_taken_back(world: World) -> None:
    """Its call waits for its server meanwhile, and nobody is shown a grant that has come to its end."""
    book = world.book()
    given = world.give(book, lifespan="once")
    book.use(given)
    with pytest.raises(Failure) as caught:
        book.revoke(given.id)
    assert caught.value.kind == "no_such_grant"
    assert not book.counts(given.id)
    book.give_back(given.id)
    assert [each.find(asked()) for each in (book, world.book())] == [None, None]


def test_a_grant_that_is_being_used_up_stays_when_another_is_given(world: World) -> None:
    """Its request may still wait for its server: it would be asked about, or its use would be lost."""
    book = world.book()
    given = world.give(book, lifespan="once")
    book.use(given)
    world.give(book, tool="other")
    assert book.counts(given.id)
    book.give_back(given.id)
    assert book.find(asked()) == given
    book.use(given)
    world.clock.now += 3600
    world.give(book, tool="third")
    assert not book.counts(given.id)


def test_a_request_that_is_decided_again_keeps_the_use_it_was_counted_for(world: World) -> None:
    book = world.book()
    given = world.give(book, lifespan="once")
    book.use(given)
    assert book.find(asked(), given.id) == given
    assert book.find(asked(), "other") is None
    assert book.find(asked(destination="d2"), given.id) is None


def test_no_count_is_spent_where_a_lasting_grant_does(world: World) -> None:
    book = world.book()
    world.give(book, lifespan="once")
    lasting = world.give(book)
    for each in (book, world.book()):
        assert each.find(asked()) == lasting


def test_a_count_that_cannot_be_written_does_not_count(world: World) -> None:
    book = world.book()
    given = world.give(book, lifespan="once")
    with sqlite3.connect(world.path) as other:
        other.execute("drop table grants")
    with pytest.raises(Failure) as failure:
        book.use(given)
    assert failure.value.kind == "not_writable"


def test_time_ends_one(world: World) -> None:
    book = world.book()
    world.give(book, lifespan="until", until=world.clock.now + 60)
    world.clock.now += 59
    assert book.find(asked())
    world.clock.now += 1
    assert book.find(asked()) is None
    world.clock.now -= 30
    assert book.find(asked()) is None, "the clock was set back"
    assert book.all() == ()
    # Its row goes with the next change.
    world.give(book)
    assert len(world.stores[0].rows("select id from grants")) == 1


def test_a_session_takes_its_grants_along_and_they_are_never_on_the_disk(world: World) -> None:
    book = world.book()
    world.give(book, lifespan="session", session="s1")
    other = world.give(book, lifespan="session", session="s2")
    assert book.find(asked())
    # Sessions are numbered anew by the next daemon.
    assert world.book().find(asked()) is None
    assert book.end_session("s1")
    assert not book.end_session("s1")
    assert book.find(asked()) is None
    assert ids(book) == [other.id]
    book.use(other)


def test_revoke(world: World) -> None:
    book = world.book()
    one, two = world.give(book), world.give(book, tool="read")
    assert book.revoke(one.id) == one
    assert ids(book) == ids(world.book()) == [two.id]
    with pytest.raises(Failure) as failure:
        book.revoke(one.id)
    assert failure.value.kind == "no_such_grant"


def test_a_revoked_grant_covers_nothing_although_the_disk_is_full(world: World) -> None:
    book = world.book()
    given = world.give(book)
    with sqlite3.connect(world.path) as other:
        other.execute("drop table grants")
    with pytest.raises(Failure) as failure:
        book.revoke(given.id)
    assert failure.value.kind == "not_writable"
    assert book.find(asked()) is None


def test_filed_under_the_server_and_its_destination_n24(world: World) -> None:
    book = world.book()
    world.give(book)
    assert book.find(asked(destination="d2")) is None
    assert book.filed("fs")
    assert not book.filed("git")
    assert not book.forget("git")
    assert book.forget("fs")
    assert not book.filed("fs")
    assert not world.book().filed("fs")


def test_there_is_a_most(world: World) -> None:
    book = world.book()
    for number in range(MOST):
        world.give(book, id=str(number), lifespan="session", session="s1")
    with pytest.raises(Failure) as failure:
        world.give(book)
    assert failure.value.kind == "refused"


@pytest.mark.parametrize("terms", ["", "{}", '{"id":"x"}', "[]", '{"tool":"*","exact":true}'])
def test_a_row_that_cannot_be_read_grants_nothing_and_is_told(world: World, terms: str) -> None:
    book = world.book()
    given = world.give(book)
    world.stores[0].write("test", ("insert into grants values ('odd', 'fs', 'd1', ?, 0)", (terms,)))
    book = world.book()
    assert ids(book) == [given.id]
    [problem] = book.problems
    assert (problem.file, problem.place) == (str(world.path), "grant odd")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["once", "count", "until", "forever", "session", "use", "revoke", "restart", "later"]
        ),
        st.integers(0, 5),
    ),
    max_size=12,
)


@hypothesis.settings(max_examples=40)
@given(STEPS)
def test_whatever_happens_a_grant_counts_as_often_and_as_long_as_was_said(
    steps: list[tuple[str, int]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        book = world.book()
        left: dict[str, float] = {}
        ends: dict[str, float] = {}
        for step, number in steps:
            alive = [each.grant for each in book.all()]
            match step:
                case "use" if alive:
                    grant = alive[number % len(alive)]
                    book.use(grant)
                    left[grant.id] -= 1
                case "revoke" if alive:
                    left[book.revoke(alive[number % len(alive)].id).id] = 0
                case "restart":
                    book = world.book()
                    left |= {key: 0 for key in left if key.startswith("session")}
                case "later":
                    world.clock.now += 10
                case "use" | "revoke":
                    pass
                case lifespan:
                    terms: dict[str, dict[str, Any]] = {
                        "count": {"count": number + 1},
                        "session": {"session": "s1"},
                    }
                    until = world.clock.now + 10 * number + 5
                    terms["until"] = {"until": until}
                    key = f"{lifespan}{len(left)}"
                    world.give(book, id=key, lifespan=lifespan, **terms.get(lifespan, {}))
                    left[key] = {"once": 1, "count": number + 1}.get(lifespan, math.inf)
                    ends[key] = until if lifespan == "until" else math.inf
            expected = {key for key, count in left.items() if count > 0 and world.clock.now < ends[key]}
            assert set(ids(book)) == expected
            found = book.find(asked())
            assert (found is None) == (not expected)
            lasting = {key for key in expected if left[key] == math.inf}
            assert found is None or found.id in (lasting or expected)
        for store in world.stores:
            store.close()
