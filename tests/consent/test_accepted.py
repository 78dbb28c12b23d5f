"""What was accepted last, over restarts (a03, n24)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mcpd.config.accepted import has_changed, has_moved, moved, of, remembered, with_destination_of
from mcpd.config.narrow import narrows
from mcpd.config.spec import Agent, Config, Faulty, Policy, Server, Settings
from mcpd.consent.accepted import AcceptedBook
from mcpd.consent.store import Store
from mcpd.errors import Failure


def server(name: str = "s", **fields: Any) -> Server:
    return Server(**{"name": name, "source": "test", "command": "prog", **fields})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(Store(path)) as store:
        yield store


SECRET = server(env={"TOKEN": "hunter2-hunter2"}, url="", policy=Policy(risk="low"))
REMOTE = server(
    "far", command="", url="https://a.example/mcp?key=hunter2-hunter2", headers={"X": "hunter2-hunter2"}
)
CONFIG = Config(
    settings=Settings(servers_dir="/here", approval="always"),
    servers={"s": SECRET, "far": REMOTE},
    agents={"coder": Agent(name="coder", allowed_tools=("s__*",))},
    tool_policies=(("*__delete_*", Policy(approval="deny")), ("a__*", Policy(timeout=5.0))),
)


def test_a_configuration_comes_back_as_it_was_accepted(path: Path, store: Store) -> None:
    assert AcceptedBook(store).empty
    AcceptedBook(store).put(CONFIG, ())
    again = AcceptedBook(store)
    assert not again.empty
    assert again.servers_dir == "/here"
    assert again.config(CONFIG) == CONFIG
    assert b"hunter2" not in path.read_bytes(), "values that may be secret are not kept"


def test_a_server_that_is_not_what_it_was_is_not_accepted(store: Store) -> None:
    book = AcceptedBook(store)
    book.put(CONFIG, ())
    for changed in (
        replace(SECRET, command="env"),
        replace(SECRET, env={"TOKEN": "another value"}),
        replace(SECRET, args=("-x",)),
        replace(SECRET, executable="/tmp/prog"),
    ):
        assert book.config(replace(CONFIG, servers={"s": changed})).servers == {}
    # What decides nothing about what runs comes as it was accepted.
    wider = replace(SECRET, policy=Policy(approval="never"), start="eager")
    assert book.config(replace(CONFIG, servers={"s": wider})).servers == {"s": SECRET}


def test_what_waits_stays_known_and_what_has_gone_does_not(store: Store) -> None:
    book = AcceptedBook(store)
    book.put(replace(CONFIG, servers={name: server(name) for name in ("waits", "broken", "gone")}), ())
    faulty = {"broken": Faulty("broken", "test", "bad_definition", "odd")}
    book.put(Config(settings=CONFIG.settings, servers={"new": server("new")}, faulty=faulty), {"waits"})
    for each in (book, AcceptedBook(store)):
        assert sorted(each.servers) == ["broken", "new", "waits"]
        assert each.config(Config()).agents == {}
    book.put_server(server("new", args=("x",)))
    book.forget("waits")
    for each in (book, AcceptedBook(store)):
        assert sorted(each.servers) == ["broken", "new"]
        known = each.server("new")
        assert known is not None
        assert known.server.args == ("x",)


def test_all_is_accepted_or_nothing(path: Path, store: Store) -> None:
    book = AcceptedBook(store)
    book.put(Config(servers={"a": server("a")}), ())
    with sqlite3.connect(path) as writer:
        writer.execute(
            "create trigger no before insert on accepted when new.name = 'c' "
            "begin select raise(abort, 'no'); end"
        )
    writer.close()
    with pytest.raises(Failure, match="cannot keep what was accepted"):
        book.put(Config(servers={name: server(name) for name in "bc"}), ())
    for each in (book, AcceptedBook(store)):
        assert sorted(each.servers) == ["a"]


def test_a_row_that_cannot_be_read_is_none(store: Store) -> None:
    AcceptedBook(store).put(CONFIG, ())
    store.write("t", ("update accepted set value = '{]' where name in ('s', 'coder', '')", ()))
    store.write("t", ("insert into accepted values ('odd', 'x', '', '', '{}', 0.0)", ()))
    book = AcceptedBook(store)
    assert not book.empty, "whoever can damage a row does not thereby make this a first start"
    read = book.config(CONFIG)
    assert (list(read.servers), read.agents, read.tool_policies) == (["far"], {}, ())
    assert read.settings == Settings()


NOTHING, SOMETHING = False, True


@pytest.mark.parametrize(
    ("before", "now", "filed", "held"),
    [
        # Values that it got, in env or headers, must not reach another destination.
        (SECRET, replace(SECRET, command="env"), NOTHING, True),
        (SECRET, replace(SECRET, args=("-x",)), NOTHING, True),
        (REMOTE, replace(REMOTE, url="https://b.example/mcp"), NOTHING, True),
        (REMOTE, server("far"), NOTHING, True),
        # A query is where many a key stands.
        (
            server(command="", url="https://a.example/mcp?key=${K}"),
            server(command="", url="https://b.example/mcp?key=${K}"),
            NOTHING,
            True,
        ),
        # Nor must trust, grants and pins be believed there.
        (server(), server(args=("-x",)), SOMETHING, True),
        (server(trusted=True), server(args=("-x",), trusted=True), NOTHING, True),
        # With nothing filed a reload is enough; so it is where the destination is the same.
        (server(), server(args=("-x",)), NOTHING, False),
        (SECRET, replace(SECRET, env={"TOKEN": "another"}), SOMETHING, False),
        (REMOTE, replace(REMOTE, url="https://a.example/mcp?key=another"), SOMETHING, False),
        (SECRET, replace(SECRET, policy=Policy(), enabled=False), SOMETHING, False),
        # An empty value is none.
        (server(env={"TOKEN": ""}), server(args=("-x",), env={"TOKEN": ""}), NOTHING, False),
        # A command that was never found got nothing.
        (SECRET, replace(SECRET, executable="/bin/prog"), SOMETHING, False),
        (replace(SECRET, executable="/bin/prog"), replace(SECRET, executable="/x/prog"), NOTHING, True),
    ],
)
def test_what_may_not_go_elsewhere_without_a_word_n24(
    before: Server, now: Server, filed: bool, held: bool
) -> None:
    assert moved(of(before), now, filed=filed) is held


def test_a_new_server_has_no_destination_to_leave() -> None:
    assert not moved(None, SECRET, filed=True)


def test_a_command_that_is_not_found_at_the_moment_is_no_new_destination() -> None:
    was = server(executable="/bin/prog")
    read = Config(servers={"s": server()})
    assert remembered(read, {"s": was}).servers == {"s": was}
    for other in (server(path="/y"), server(command="other"), server(executable="/y/prog")):
        read = Config(servers={"s": other})
        assert remembered(read, {"s": was}) == read


def test_what_is_said_about_a_server_that_waits() -> None:
    known = of(SECRET)
    told = {
        "args and cwd changed while mcpd did not run, waits for mcpctl reload": replace(
            SECRET, args=("x",), cwd="/"
        ),
        "env changed while mcpd did not run, waits for mcpctl reload": replace(SECRET, env={"MORE": "x"}),
        "a value of env, headers or url changed while mcpd did not run, waits for mcpctl reload": replace(
            SECRET, env={"TOKEN": "another"}
        ),
        "sampling changed while mcpd did not run, waits for mcpctl reload": replace(SECRET, sampling=True),
    }
    for words, changed in told.items():
        hold = has_changed(known, changed)
        assert (hold.words, hold.command) == (words, "mcpctl reload")
    assert has_changed(None, SECRET).words == "new, waits for mcpctl reload"
    assert has_moved("s").words == "its destination changed, waits for mcpctl accept s"
    assert has_moved("s").command == "mcpctl accept s"


def test_while_a_destination_waits_the_rest_of_the_definition_counts() -> None:
    new = replace(SECRET, command="env", args=("x",), env={}, policy=Policy(approval="deny"), start="eager")
    shown = with_destination_of(SECRET, new)
    assert (shown.command, shown.args, shown.env) == (SECRET.command, SECRET.args, SECRET.env)
    assert (shown.policy, shown.start) == (Policy(approval="deny"), "eager")
    assert (shown.digest, shown.destination) == (SECRET.digest, SECRET.destination)


NAMES = st.text("ab_.-1\u00e9\u202e", min_size=1, max_size=6)
VALUES = st.dictionaries(NAMES, st.text("xy", max_size=3), max_size=2)
SERVERS = st.builds(
    Server,
    name=st.just("s"),
    source=NAMES,
    command=st.sampled_from(("a", "b")),
    args=st.lists(NAMES, max_size=2).map(tuple),
    env=VALUES,
    cwd=st.sampled_from(("", "/x")),
    executable=st.sampled_from(("", "/bin/a")),
    policy=st.builds(Policy, st.sampled_from((None, "low")), st.sampled_from((None, "never", "deny"))),
    trusted=st.sampled_from((None, True, False)),
    enabled=st.booleans(),
    start=st.sampled_from(("lazy", "eager")),
    sampling=st.booleans(),
    idle_timeout=st.none() | st.floats(0, 1000),
)
BOOKS = st.lists(st.tuples(SERVERS, SERVERS), min_size=1, max_size=5)


@given(BOOKS)
def test_what_a_start_finds_runs_as_it_was_accepted_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[Server, Server]]
) -> None:
    file = tmp_path_factory.getbasetemp() / "accepted" / "state.db"
    with closing(Store(file)) as store:
        for before, now in pairs:
            AcceptedBook(store).put(Config(servers={"s": before}), ())
            book = AcceptedBook(store)
            assert book.config(Config(servers={"s": before})).servers == {"s": before}
            running = book.config(Config(servers={"s": now})).servers
            if before.digest != now.digest or before.destination != now.destination:
                assert running == {}
                narrowed, held = narrows(Config(), Config(servers={"s": now}))
                assert (narrowed.servers, list(held)) == ({}, ["s"])
            else:
                # All that decides what runs is what is read, everything else what was accepted.
                assert running == {"s": replace(before, env=now.env, headers=now.headers)}
