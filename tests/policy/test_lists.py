"""What a person gives an agent and takes away from it (b20, D11)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.policy.lists import Blocked, Lists, allow, deny
from mcpd.policy.terms import glob_match


@pytest.mark.parametrize(
    ("before", "pattern", "after"),
    [
        (Lists((), ()), "notes__*", Lists(("notes__*",), ())),
        (Lists(("a__x",), ()), "a__y", Lists(("a__x", "a__y"), ())),
        # Without an allowlist everything is allowed: one would take the rest away.
        (Lists(None, ()), "notes__*", Lists(None, ())),
        (Lists(None, ("notes__*",)), "notes__*", Lists(None, ())),
        (Lists((), ("notes__*", "b__*")), "notes__*", Lists(("notes__*",), ("b__*",))),
        (Lists(("notes__*",), ()), "notes__read", Lists(("notes__*",), ())),
        (Lists(("notes__read", "b__*"), ()), "notes__*", Lists(("b__*", "notes__*"), ())),
        # A narrower denial stays.
        (Lists((), ("notes__write_*",)), "notes__*", Lists(("notes__*",), ("notes__write_*",))),
    ],
    ids=str,
)
def test_allow(before: Lists, pattern: str, after: Lists) -> None:
    assert allow(before, [pattern]) == after


def test_one_tool_does_not_undo_a_wider_denial() -> None:
    with pytest.raises(Blocked) as blocked:
        allow(Lists(None, ("notes__*",)), ["b__*", "notes__read"])
    assert (blocked.value.pattern, blocked.value.by) == ("notes__read", "notes__*")


@pytest.mark.parametrize(
    ("before", "pattern", "after"),
    [
        (Lists(None, ()), "notes__*", Lists(None, ("notes__*",))),
        (Lists(("notes__*", "notes__read", "b__*"), ()), "notes__*", Lists(("b__*",), ("notes__*",))),
        (Lists(("*",), ()), "notes__*", Lists(("*",), ("notes__*",))),
        (Lists(None, ("notes__read",)), "notes__*", Lists(None, ("notes__read", "notes__*"))),
        (Lists(None, ("notes__*",)), "notes__read", Lists(None, ("notes__*", "notes__read"))),
        (Lists(None, ("notes__*",)), "notes__*", Lists(None, ("notes__*",))),
        # The last server goes: nothing is left, which is not everything.
        (Lists(("notes__*",), ()), "notes__*", Lists((), ("notes__*",))),
    ],
    ids=str,
)
def test_deny(before: Lists, pattern: str, after: Lists) -> None:
    assert deny(before, [pattern]) == after


@pytest.mark.parametrize("denials", [("notes__write_*", "notes__*"), ("notes__*", "notes__write_*")], ids=str)
def test_a_denial_outlives_a_wider_one_that_is_taken_back(denials: tuple[str, str]) -> None:
    assert allow(deny(Lists(None, ()), denials), ["notes__*"]) == Lists(None, ("notes__write_*",))


def may(lists: Lists, name: str) -> bool:
    """D11, worked out the long way."""
    allowed = lists.allowed is None or any(glob_match(item, name) for item in lists.allowed)
    return allowed and not any(glob_match(item, name) for item in lists.denied)


PATTERN = st.text("ab*?", min_size=1, max_size=3)
LISTS = st.builds(
    Lists,
    st.none() | st.lists(PATTERN, max_size=3, unique=True).map(tuple),
    st.lists(PATTERN, max_size=3, unique=True).map(tuple),
)


@given(LISTS, PATTERN, st.text("ab", max_size=4))
def test_what_is_denied_is_denied_and_nothing_else_changes(lists: Lists, pattern: str, name: str) -> None:
    after = deny(lists, [pattern])
    assert may(after, name) == (may(lists, name) and not glob_match(pattern, name))


@given(LISTS, PATTERN, st.text("ab", max_size=4))
def test_what_is_allowed_is_allowed_and_nothing_else_changes(lists: Lists, pattern: str, name: str) -> None:
    try:
        after = allow(lists, [pattern])
    except Blocked:
        return  # a wider denial, as above
    others = Lists(None, tuple(item for item in lists.denied if item != pattern))
    if glob_match(pattern, name):
        assert may(after, name) == may(others, name), "only other denials keep it away"
    else:
        assert may(after, name) == may(lists, name)
