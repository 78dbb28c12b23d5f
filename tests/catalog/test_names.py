"""Names of servers and tools: c05, a09, a12, D2, protocol reference 7.1."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.names import Spelling, assign, clean_server_name, export, prefix, server_name_problem

SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

servers = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,31}", fullmatch=True).filter(
    lambda name: server_name_problem(name) is None
)
tools = st.text(min_size=1, max_size=256)
spellings = st.sampled_from(["server__tool", "mcp_server_tool"])
pairs = st.lists(
    st.tuples(
        st.sampled_from(["a", "a_b", "a.b", "a-b", "b", "7z"]), st.text("abc_.-1é", min_size=1, max_size=8)
    ),
    unique=True,
)


@pytest.mark.parametrize("name", ["fs", "0", "my-server", "a.b", "a_b", "7zip", "x" * 32, "a-", "a_-b"])
def test_a_server_may_be_called(name: str) -> None:
    assert server_name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "empty"),
        ("x" * 33, "longer"),
        ("Fs", "characters"),
        ("-a", "begins"),
        ("_a", "begins"),
        (".a", "begins"),
        ("a b", "characters"),
        ("a/b", "characters"),
        ("../up", "characters"),
        ("ü", "characters"),
        ("a\n", "characters"),
        ("a__b", "in a row"),
        ("a._b", "in a row"),
        ("a..b", "in a row"),
        ("a_", "ends"),
        ("a.", "ends"),
    ],
)
def test_a_server_may_not_be_called(name: str, word: str) -> None:
    problem = server_name_problem(name)
    assert problem is not None
    assert word in problem


@pytest.mark.parametrize(
    ("foreign", "clean"),
    [
        ("fs", "fs"),
        ("My Server", "my-server"),
        ("GitHub (work)", "github-work"),
        ("x__y", "x_y"),
        ("../up", "up"),
        ("a/b", "a-b"),
    ],
)
def test_a_foreign_server_name_is_converted(foreign: str, clean: str) -> None:
    assert clean_server_name(foreign) == clean


@given(st.text(max_size=100))
def test_a_converted_name_is_always_allowed_and_stays(foreign: str) -> None:
    clean = clean_server_name(foreign)
    assert server_name_problem(clean) is None
    assert clean_server_name(foreign) == clean


@given(servers)
def test_an_allowed_name_is_not_converted(name: str) -> None:
    assert clean_server_name(name) in (name, name.strip("-"))


def test_long_foreign_names_stay_apart() -> None:
    assert clean_server_name("a" * 80) != clean_server_name("a" * 81)


@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("fs", "read", "fs__read"),
        ("fs", "UPPER-case_9", "fs__UPPER-case_9"),
        ("fs", "a.b", "fs__a_b"),
        ("fs", "admin/tools/list", "fs__admin_tools_list"),
        ("fs", "with space", "fs__with_space"),
        ("fs", "日本", "fs____"),
        ("fs", "x__y", "fs__x__y"),
        ("fs", "_x", "fs___x"),
        ("a.b", "c", "a_b__c"),
        ("7zip", "list", "_7zip__list"),
        ("fs", "t" * 60, "fs__" + "t" * 60),
    ],
)
def test_exported_name(server: str, tool: str, name: str) -> None:
    assert export(server, tool) == name


def test_exported_name_of_the_second_spelling() -> None:
    assert export("a.b", "c/d", "mcp_server_tool") == "mcp_a_b_c_d"


def test_a_long_name_is_shortened_with_a_stable_suffix() -> None:
    # sha256 of "fs", a zero byte and 61 times "t", worked out with another program.
    # The suffix was worked out with sha256sum: "fs", a zero byte, 61 times "t".
    assert export("fs", "t" * 61) == "fs__" + "t" * 51 + "_2bbec673"
    assert export("fs", "t" * 61) != export("fs", "t" * 62)


def test_a_suffix_depends_on_the_exact_pair() -> None:
    assert export("fs", "é" * 80) != export("fs", "è" * 80)


@given(servers, tools, spellings)
def test_every_exported_name_suits_every_vendor(server: str, tool: str, spelling: Spelling) -> None:
    name = export(server, tool, spelling)
    assert SAFE.fullmatch(name)
    assert name.startswith(prefix(server, spelling))


@given(servers, tools)
def test_the_first_double_underscore_splits_right(server: str, tool: str) -> None:
    head, _, tail = export(server, tool).partition("__")
    assert head + "__" == prefix(server)
    assert head.lstrip("_") == server.replace(".", "_")
    assert re.fullmatch(r"[A-Za-z0-9_-]+", tail)


def test_the_later_of_two_with_one_name_is_left_out() -> None:
    found = assign([("fs", "a.b"), ("fs", "x"), ("fs", "a_b")])
    assert found.names == {"fs__a_b": ("fs", "a.b"), "fs__x": ("fs", "x")}
    assert len(found.warnings) == 1
    assert '"a_b"' in found.warnings[0]
    assert '"a.b"' in found.warnings[0]
    [warning] = assign([("fs", "a.b"), ("fs", "a_b")], noun="prompt").warnings
    assert warning.startswith('prompt "a_b" of server "fs"')


def test_servers_that_differ_by_a_dot_collide() -> None:
    found = assign([("a.b", "t"), ("a_b", "t")])
    assert found.names == {"a_b__t": ("a.b", "t")}
    assert 'server "a_b"' in found.warnings[0]
    assert 'server "a.b"' in found.warnings[0]


def test_of_ambiguous_pairs_none_wins_in_the_second_spelling() -> None:
    found = assign([("a", "b_c"), ("a_b", "c"), ("a", "d")], "mcp_server_tool")
    assert not found.warnings
    assert list(found.names.values()) == [("a", "b_c"), ("a_b", "c"), ("a", "d")]
    first, second, third = found.names
    assert re.fullmatch(r"mcp_a_b_c_[0-9a-f]{8}", first)
    assert re.fullmatch(r"mcp_a_b_c_[0-9a-f]{8}", second)
    assert first != second
    assert third == "mcp_a_d"


def test_a_tool_cannot_take_another_ones_suffixed_name() -> None:
    first, *_ = assign([("a", "b_c"), ("a_b", "c")], "mcp_server_tool").names
    squatter = ("a", first.removeprefix("mcp_a_"))
    for order in ([squatter, ("a", "b_c"), ("a_b", "c")], [("a", "b_c"), ("a_b", "c"), squatter]):
        found = assign(order, "mcp_server_tool")
        assert not found.warnings
        assert found.names[first] == ("a", "b_c")
        assert set(found.names.values()) == set(order)


@given(pairs, spellings)
def test_every_pair_is_named_once_or_warned_about(
    given_pairs: list[tuple[str, str]], spelling: Spelling
) -> None:
    found = assign(given_pairs, spelling)
    assert len(found.names) + len(found.warnings) == len(given_pairs)
    assert len(set(found.names.values())) == len(found.names)
    assert all(SAFE.fullmatch(name) for name in found.names)


@given(pairs)
def test_the_second_spelling_does_not_depend_on_order(given_pairs: list[tuple[str, str]]) -> None:
    there = assign(given_pairs, "mcp_server_tool").names
    back = assign(reversed(given_pairs), "mcp_server_tool").names
    assert there == back
