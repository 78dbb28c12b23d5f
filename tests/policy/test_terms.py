"""Patterns and the order of tiers (a23, DESIGN 8)."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.policy.terms import (
    APPROVALS,
    RISKS,
    approval_rank,
    glob_match,
    risk_rank,
    specificity,
    timeout_rank,
)
from tests.effort import effort


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("", "", True),
        ("", "a", False),
        ("a", "a", True),
        ("a", "A", False),
        ("a", "ab", False),
        ("*", "", True),
        ("*", "anything", True),
        ("?", "a", True),
        ("?", "", False),
        ("?", "é", True),
        ("fs__*", "fs__read", True),
        ("fs__*", "fs__", True),
        ("fs__*", "fsx__read", False),
        ("*__read", "fs__read", True),
        ("*__read", "__read", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*a*b*", "xxaxxbxx", True),
        ("*a*b*", "xxbxxaxx", False),
        ("*ab", "aab", True),
        ("a*?", "a", False),
        ("a*?", "ab", True),
        ("*a?c*", "xxabcxx", True),
        ("*a?c*", "xxacxx", False),
        ("?*?", "a", False),
        ("?*?", "ab", True),
        # Nothing else means anything.
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a.c", "abc", False),
        (r"\*", "*", False),
        (r"\*", r"\x", True),
        ("a\n*", "a\nb", True),
    ],
)
def test_glob_match(pattern: str, text: str, fits: bool) -> None:
    assert glob_match(pattern, text) is fits


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_glob_match_agrees_with_the_shells_rules(pattern: str, text: str) -> None:
    assert glob_match(pattern, text) == fnmatch.fnmatchcase(text, pattern)


@pytest.mark.parametrize("pattern", ["*a" * 500 + "b", "*?" * 500 + "b", "a*" * 500 + "b", "*a?" * 500 + "b"])
def test_no_pattern_is_slow(pattern: str) -> None:
    assert not glob_match(pattern, "a" * 5000)
    assert effort(lambda: glob_match(pattern, "a" * 5000)) < 1


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("fs__read", "fs__read*"),
        ("a", "fs__read_file*"),
        ("fs__read_*", "fs__*"),
        ("fs__*", "*__read_file"),
        ("fs__?ead_file", "fs__?ead*"),
        ("*__read", "*__r*"),
    ],
)
def test_the_narrower_pattern_is_more_specific(narrow: str, wide: str) -> None:
    assert specificity(narrow) > specificity(wide)


def test_wildcards_of_either_kind_are_equal() -> None:
    assert specificity("a?b") == specificity("a*b")


def test_tiers_are_ordered() -> None:
    assert RISKS == ("low", "medium", "high")
    assert APPROVALS == ("never", "unless_auto_approved", "always", "deny")
    assert [risk_rank(risk) for risk in RISKS] == [0, 1, 2]
    assert [approval_rank(approval) for approval in APPROVALS] == [0, 1, 2, 3]


def test_a_shorter_timeout_is_stricter_and_none_the_mildest() -> None:
    assert timeout_rank(1) > timeout_rank(60) > timeout_rank(1e9) > timeout_rank(0)
