"""What is said of patterns that match nothing."""

from __future__ import annotations

import pytest

from mcpd.policy.patterns import Known, pattern_for, unmatched

FILES = frozenset({"read_file", "write_file", "ask.me"})
TOOLS = {
    "filesystem": FILES,
    "a.b": frozenset({"x"}),
    "1st": frozenset({"go"}),
    "idle": None,
}
KNOWN = Known(TOOLS)


@pytest.mark.parametrize(
    "pattern",
    [
        "filesystem__read_file",
        "filesystem__*",
        "*",
        "*__write_*",
        "filesystem__ask.me",
        "filesystem__ask_me",
        "mcp_filesystem_read_file",
        "a.b__x",
        "a_b__x",
        "_1st__go",
        "1st__*",
        # Whatever a server has whose catalogue is not known.
        "idle__anything",
        "*__anything",
    ],
)
def test_what_matches_needs_no_word(pattern: str) -> None:
    assert unmatched(pattern, KNOWN) == ""


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("filesytem__*", 'no server is named "filesytem", did you mean "filesystem"?'),
        ("nothing__like", 'no server is named "nothing"'),
        (
            "filesystem__raed_file",
            'server "filesystem" has no tool "raed_file" now, did you mean "read_file"?',
        ),
        ("filesystem__delete_*", 'server "filesystem" has no such tools now'),
        ("a_b__y*", 'server "a.b" has no such tools now'),
    ],
)
def test_what_matches_nothing_is_met_by_the_nearest_name(pattern: str, said: str) -> None:
    assert unmatched(pattern, KNOWN) == said


def test_without_any_unknown_catalogue_a_wild_pattern_can_match_nothing() -> None:
    known = Known({"filesystem": FILES})
    assert unmatched("*__delete_*", known) == "it matches no tool that is known now"
    assert unmatched("mcp_filesystem_delete", known) == "it matches no tool that is known now"
    assert unmatched("a__*", Known({})) == 'no server is named "a"'


def test_a_servers_name_stands_for_its_tools() -> None:
    assert [pattern_for(word, TOOLS) for word in ("filesystem", "filesystem__x", "other")] == [
        "filesystem__*",
        "filesystem__x",
        "other",
    ]
