"""Edits of a TOML text that leave the rest alone."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from mcpd.config.edit import Uneditable, put


@pytest.mark.parametrize(
    ("text", "key", "value", "expected"),
    [
        ("", "max_risk", "low", 'max_risk = "low"\n'),
        ("schema = 1", "denied", ["a", "b"], 'schema = 1\ndenied = ["a", "b"]\n'),
        ("# mine\r\nx = 1\r\n", "k", [], "# mine\r\nx = 1\r\nk = []\r\n"),
        ('k="low" # why\nx = 1\n', "k", "high", 'k="high" # why\nx = 1\n'),
        ('k = ["a"] # why\n', "k", ["a", "c"], 'k = ["a", "c"] # why\n'),
        (
            'k = [\n  "a", # about a\n  # about b\n  "b" # b, too\n]\n',
            "k",
            ["a", "b", "c"],
            'k = [\n  "a", # about a\n  # about b\n  "b", # b, too\n  "c",\n]\n',
        ),
        ('k = [\n  "a", # about a\n  "b", # about b\n]\n', "k", ["b"], 'k = [\n  "b", # about b\n]\n'),
        ('k = [\n  "a", # about a\n  "b"\n]\n', "k", ["a"], 'k = [\n  "a", # about a\n]\n'),
        ('k = [\n  "a",\n]\n', "k", ["b"], 'k = [\n    "b",\n]\n'),
        ('k = ["a",\n     "b"]\n', "k", ["a", "b", "c"], 'k = ["a",\n     "b",\n     "c",]\n'),
        ('k = ["a",\n     "b", "c"]\n', "k", ["b"], 'k = [\n     "b", ]\n'),
        ("k = [\n  # none yet\n]\n", "k", ["a"], 'k = [\n    "a",\n  # none yet\n]\n'),
        ('k = [\n  "a",\n  "a",\n]\n', "k", ["a"], 'k = [\n  "a",\n]\n'),
    ],
)
def test_an_edit_touches_what_it_is_about(text: str, key: str, value: Any, expected: str) -> None:
    assert put(text, key, value) == expected


def test_what_cannot_be_edited_alone_is_refused() -> None:
    # Behind a table's header a key would be that table's.
    with pytest.raises(Uneditable):
        put("[table]\nx = 1\n", "k", "v")
    with pytest.raises(Uneditable):
        put("[k]\nx = 1\n", "k", "v")


WORDS = st.lists(st.text("ab#,]\"'\\\n\x7f", max_size=3), max_size=4, unique=True)
BETWEEN = st.sampled_from(["", " ", "\n", "\n  ", " # c, ]\n", "\n# d\n"])


@given(WORDS, WORDS, st.lists(BETWEEN, min_size=12, max_size=12), st.booleans())
def test_a_list_holds_what_it_was_told_and_keeps_its_order(
    before: list[str], after: list[str], between: list[str], trailing: bool
) -> None:
    gaps = iter(between)
    members = f"{next(gaps)},{next(gaps)}".join(
        tomli_w.dumps({"k": word}).removeprefix("k = ").rstrip("\n") for word in before[:4]
    )
    text = f"x = 1\nk = [{next(gaps)}{members}{next(gaps)}{',' if trailing and before else ''}{next(gaps)}]\n"
    edited = tomllib.loads(put(text, "k", after))
    assert edited["x"] == 1
    kept = [word for word in before if word in after]
    assert edited["k"] == kept + [word for word in after if word not in kept]
