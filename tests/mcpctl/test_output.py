"""Nothing from elsewhere may act on a terminal (b25)."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpctl import output
from mcpctl.commands import person


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("größe 大きさ 🎉", "größe 大きさ 🎉"),
        ("ideographic\u3000space", "ideographic\u3000space"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("\x9b31m", "\\u009b31m"),
        ("bell\x07", "bell\\u0007"),
        ("\x00\x7f", "\\u0000\\u007f"),
        ("line\nend\ttab\rback", "line\\u000aend\\u0009tab\\u000dback"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("zero\u200bwidth\u200d\ufeff", "zero\\u200bwidth\\u200d\\ufeff"),
        ("soft\u00adhyphen", "soft\\u00adhyphen"),
        ("separator\u2028\u2029", "separator\\u2028\\u2029"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("selector\ufe01\U000e0100", "selector\\ufe01\\U000e0100"),
        ("filler\u3164\u115f", "filler\\u3164\\u115f"),
        ("private\ue000", "private\\ue000"),
        ("half\ud800", "half\\ud800"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert output.visible(text) == shown


def test_blocks_keep_their_lines() -> None:
    assert output.visible_block("a\r\nb\tc\n\rd\x1b") == "a\nb\tc\n\\u000dd\\u001b"


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    for shown in (output.visible(text), output.visible_block(text).replace("\n", "").replace("\t", "")):
        assert not {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_json_keeps_its_meaning(value: object) -> None:
    shown = output.visible_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert json.loads(shown) == value
    assert not output.hidden(shown) - {"\n"}


def test_table() -> None:
    shown = output.table(("NAME", "STATE", "TEXT"), [("a", "ok", "x\ny"), ("longer", 3, "\x1b")])
    assert shown.splitlines() == [
        "NAME    STATE  TEXT",
        "a       ok     x\\u000ay",
        "longer  3      \\u001b",
    ]


def test_wide_and_combining_characters_keep_the_columns() -> None:
    shown = output.table(("NAME", "TEXT"), [("日本", "x"), ("abc", "y"), ("e\u0301t", "z")])
    # Two columns for each of the first, none for the accent: four, three and two of them.
    assert shown.splitlines() == ["NAME  TEXT", "日本  x", "abc   y", "e\u0301t    z"]


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        ("日本語", 6, "日本語"),
        ("日本語x", 6, "日本…"),
        ("日本語x", 5, "日本…"),
        ("a日本語", 5, "a日…"),
    ],
)
def test_cut(text: str, limit: int, shown: str) -> None:
    assert output.cut(text, limit) == shown


def test_fields_leave_out_what_is_empty() -> None:
    assert output.fields([("a", "1"), ("long", "x\ny"), ("none", ""), ("null", None)]) == (
        "a     1\nlong  x\n      y"
    )


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0004, "0 ms"),
        (0.85, "850 ms"),
        (12.54, "12.5 s"),
        (60, "60 s"),
        (600, "10 min"),
        (18000, "5 h"),
        (200000, "2 d"),
    ],
)
def test_duration(seconds: float, shown: str) -> None:
    assert output.duration(seconds) == shown


def test_no_cell_draws_a_column() -> None:
    rows = [("t", "a    ok  #1", "why  not"), ("  indented", "b", "")]
    assert output.table(("NAME", "WHAT", "WHY"), rows).split("\n") == [
        "NAME        WHAT     WHY",
        "t           a ok #1  why  not",
        "  indented  b",
    ]


def test_no_row_that_goes_on_looks_like_a_line_of_its_own() -> None:
    line = "  path  a = x" + " " * 27 + "  because  rule never"
    first, second = person.folded(line, 40)
    assert first == "  path  a = x" + " " * 27
    assert second == " " * 8 + "  because  rule never"
    assert all(output.width(row) <= 20 for row in person.folded("\u6f22" * 50, 20))
    assert "".join(row.strip() for row in person.folded("\u6f22" * 50, 20)) == "\u6f22" * 50
