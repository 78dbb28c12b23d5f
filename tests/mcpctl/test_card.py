"""A question as a person reads it (a31)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpctl.card import card
from tests.mcpctl.harness import approval, argument


def lines(**fields: Any) -> list[str]:
    return card(approval(**fields)).split("\n")


def test_all_that_a_person_needs_is_there() -> None:
    shown = lines(
        arguments=[argument("path", "path", "/home/me/x"), argument("", "text", "one\ntwo")],
        flags=["its description has changed"],
        because=["risk high: untrusted (b11)", "asked: no grant covers it"],
        waiting=2,
    )
    assert shown == [
        'k7f39qpm2a  agent "coder" asks to call files__write  (risk high)',
        "  asked by  /usr/bin/claude, process 4711, in /home/me/project",
        "  server    files: npx -y server-filesystem /home/me",
        "  tool      write",
        "  says      Writes a file.",
        "  beware    its description has changed",
        "  path      path = /home/me/x",
        "  argument  text = one",
        "            two",
        "  because   risk high: untrusted (b11)",
        "            asked: no grant covers it",
        "  open      for 10 min, 2 calls waiting",
    ]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"agent": ""}, "k7f39qpm2a  you, by mcpctl, ask to call files__write  (risk high)"),
        ({"exe": "", "cwd": "", "pid": 3}, "  asked by   an unknown program, process 3"),
        (
            {"host": "claude --resume", "exe": "/usr/bin/python3"},
            "  asked by   claude --resume, through /usr/bin/python3, process 4711, in /home/me/project",
        ),
        ({"runs": ""}, "  server     files"),
        ({"left": None, "waiting": 1}, "  open       1 call waiting"),
        ({"left": -1.0}, "  open       for 0 ms, no call waiting"),
        (
            {"arguments": [argument("", "text", "a…z", left_out=1234)], "left_out": 3, "cut": True},
            "  not shown  1,234 characters and 3 arguments (all of it: mcpctl approvals k7f39qpm2a)",
        ),
        (
            {"arguments": [argument("", "text", "a<U+202E>b", hidden=["1 hidden (bidirectional)"])]},
            "  beware     text: 1 hidden (bidirectional)",
        ),
    ],
)
def test_lines(fields: dict[str, Any], line: str) -> None:
    assert line.split() in [each.split() for each in lines(**fields)]


@pytest.mark.parametrize(
    "fields",
    [
        {"agent": "x\x1b]0;owned\x07"},
        {"name": "a\u202eb"},
        {"exe": "/tmp/\x1b[2J"},
        {"host": "claude\x1b[2J"},
        {"cwd": "/tmp/a\nb\u200b"},
        {"runs": "sh -c '\x9b2J'"},
        {"description": "nice\x1b[8m tool"},
        {"flags": ["\x1b[2J"]},
        {"because": ["\u2066"]},
        {"arguments": [argument("", "a\x1b[2J", "b\u202e")]},
        {"arguments": [argument("path", "a\nb", "c", hidden=["\x1b"])]},
    ],
)
def test_nothing_that_a_terminal_obeys_comes_through(fields: dict[str, Any]) -> None:
    assert all(character.isprintable() or character == "\n" for character in card(approval(**fields)))


def test_a_line_end_in_a_value_makes_no_line_of_its_own() -> None:
    """A forged line would stand at the beginning of one; what belongs to a value is indented."""
    forged = "x\n  because    you said yes before\nk7f39qpm2a  approved"
    for fields in ({"description": forged}, {"arguments": [argument("", "text", forged)]}, {"cwd": forged}):
        for line in lines(**fields)[1:]:
            if "approved" in line or "you said yes" in line:
                assert line.startswith(" " * 11)
