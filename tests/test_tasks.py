"""The tasks that agents follow: whose an id is, how many there are, and for how long (n03)."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from mcpd import tasks
from mcpd.caller import Caller
from mcpd.catalog.tasks import DETAIL, LONGEST_LIFE, Task
from mcpd.tasks import Held, Tasks
from mcpd.upstream.upstream import Upstream


class Server:
    """An upstream, as far as tasks look at it."""

    connection: object = None

    def remembers(self, connection: object) -> bool:
        return connection is self.connection


UPSTREAM = cast("Upstream", Server())


class Book(Tasks):
    """Remembers which have ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[str] = []

    def make(self, owner: str, own: str = "t-1", life: float = 600.0, status: str = "working") -> Held:
        def end() -> None:
            self.ended.append(own)

        task = Task(own, status, life, 1.0)
        return self.keep(owner, UPSTREAM, ("do", "s__do"), task, b"{}", end, stateless=True)


async def test_an_id_is_its_owner_s_alone() -> None:
    book = Book()
    held = book.make("a")
    assert book.find(held.id, "a", stateless=True) is held
    assert book.find(held.id, "b", stateless=True) is None
    assert book.find(held.id, "a", stateless=False) is None, "of the other form"
    assert book.find("t-1", "a", stateless=True) is None, "the server's own id"
    assert book.of("a") == [held]
    assert book.of("b") == []


async def test_a_task_ends_with_the_process_that_runs_it() -> None:
    """The next one may give its id to another's (n03)."""
    book = Book()
    server = Server()
    held, other = (
        book.keep(
            "a",
            cast("Upstream", server),
            ("do", "do"),
            Task(own, "working", 600, 1),
            b"",
            end,
            stateless=True,
        )
        for own, end in (("1", lambda: book.ended.append("1")), ("2", lambda: book.ended.append("2")))
    )
    server.connection = object()
    assert book.of("a") == []
    assert book.find(held.id, "a", stateless=True) is None
    assert book.ended == ["1"]
    book.make("b")
    assert book.ended == ["1", "2"]
    assert other.gone


async def test_what_is_very_long_is_not_kept() -> None:
    held = Book().make("a")
    held.heard(Task("t-1", "completed", 600, 1), b"x" * (DETAIL + 1))
    assert (held.text, held.status) == (b"{}", "completed")


@pytest.mark.parametrize(("life", "lasts"), [(10.0, 70.0), (0.0, 60.0), (LONGEST_LIFE, LONGEST_LIFE)])
async def test_an_id_lasts_as_long_as_its_server_keeps_the_task(life: float, lasts: float) -> None:
    book = Book()
    held = book.make("a", life=life)
    await trio.sleep(lasts - 0.5)
    assert book.find(held.id, "a", stateless=True) is held
    held.heard(Task("t-1", "working", life, 1.0), b"{}")
    await trio.sleep(lasts - 0.5)
    assert book.find(held.id, "a", stateless=True) is held, "news prolong it"
    await trio.sleep(1.0)
    assert book.find(held.id, "a", stateless=True) is None
    assert (len(book), book.ended) == (0, ["t-1"])


async def test_an_owner_has_so_many_and_the_ended_ones_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "OWN", 3)
    book = Book()
    other = book.make("b", "other")
    book.make("a", "1")
    book.make("a", "2", status="completed")
    book.make("a", "3")
    book.make("a", "4")
    assert [held.own for held in book.of("a")] == ["1", "3", "4"]
    book.make("a", "5")
    assert [held.own for held in book.of("a")] == ["3", "4", "5"]
    assert book.of("b") == [other]


async def test_there_are_so_many_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "ALL", 5)
    book = Book()
    for number in range(50):
        book.make(f"a{number}", str(number))
        assert len(book) <= 5
    assert book.ended == [str(number) for number in range(45)]


async def test_what_is_over_is_followed_no_more() -> None:
    book = Book()
    held = book.make("a")
    held.heard(Task("t-1", "completed", 600.0, 1.0), b"{}")
    assert book.ended == ["t-1"]
    assert book.find(held.id, "a", stateless=True) is held, "its result can still be asked for"


async def test_a_session_that_ends_takes_its_own_along() -> None:
    book = Book()
    book.make("s1", "1")
    kept = book.make("s2", "2")
    book.forget("s1")
    assert (len(book), book.ended, book.of("s2")) == (1, ["1"], [kept])


@pytest.mark.parametrize(
    ("agent", "proven", "owner"),
    [
        ("default", False, "s1"),
        ("default", True, "agent default"),
        ("claude", False, "agent claude"),
        ("claude", True, "agent claude"),
        ("s2", False, "agent s2"),
        ("", False, "s1"),
    ],
)
def test_whose_a_task_is(agent: str, proven: bool, owner: str) -> None:
    """On its socket the default agent is whoever comes, so that one of its sessions is not another."""
    assert Caller("s1", agent, 1, "", proven).owner == owner


names = st.sampled_from(["a", "b", "c"])
steps = st.lists(
    st.tuples(st.sampled_from(["make", "find", "drop", "forget", "wait", "end"]), names, st.integers(0, 9)),
    max_size=40,
)


@given(steps)
async def test_whatever_happens_nobody_finds_what_is_another_s(history: list[Any]) -> None:
    book = Book()
    made: list[Held] = []
    gone: set[str] = set()
    for what, owner, number in history:
        gone |= {held.id for held in made if held.expires <= trio.current_time()}
        chosen = made[number % len(made)] if made else None
        if what == "make":
            made.append(book.make(owner, str(len(made)), life=number * 10.0))
        elif what == "wait":
            await trio.sleep(number * 20)
        elif what == "forget":
            gone |= {held.id for held in made if held.owner == owner}
            book.forget(owner)
        elif chosen is not None and what == "drop":
            gone.add(chosen.id)
            book.drop(chosen)
        elif chosen is not None and what == "end" and chosen.id not in gone:
            chosen.heard(Task(chosen.own, "completed", 10.0, 1.0), b"{}")
        elif chosen is not None:
            for who in "abc":
                found = book.find(chosen.id, who, stateless=True)
                assert (found is chosen) == (who == chosen.owner and chosen.id not in gone)
    assert len({held.id for held in made}) == len(made)
    assert not {held.own for held in made} & {held.id for held in made}
