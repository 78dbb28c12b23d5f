"""A cursor works for the session and the listing it was made for, and for nothing else (n03)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpd.agents import cursors
from mcpd.errors import Failure

SECRET = b"a secret of this run"


def refusal(cursor: str, secret: bytes = SECRET, session: str = "s1", number: int = 7) -> Failure:
    with pytest.raises(Failure) as caught:
        cursors.read(secret, session, number, cursor)
    return caught.value


@pytest.mark.parametrize("start", [0, 1, 500, 9_500, 999_999_999])
def test_a_cursor_says_where_to_go_on(start: int) -> None:
    assert cursors.read(SECRET, "s1", 7, cursors.make(SECRET, "s1", 7, start)) == start


def test_another_session_listing_or_run_cannot_use_it() -> None:
    cursor = cursors.make(SECRET, "s1", 7, 500)
    for failure in (
        refusal(cursor, session="s2"),
        refusal(cursor, number=8),
        refusal(cursor, secret=b"of another run"),
        # What is joined must not look alike: (s1, 17) and (s11, 7).
        refusal(cursors.make(SECRET, "s1", 17, 500), session="s11"),
    ):
        assert failure.kind == "invalid_params"
        assert failure.hint == "list from the start again"


def test_a_cursor_cannot_be_moved() -> None:
    mac = cursors.make(SECRET, "s1", 7, 500).partition(".")[2]
    for start in ("0", "501", "0500", "+500", " 500", "500 ", "5_00", "-500", "\u0665\u0660\u0660", ""):
        assert refusal(f"{start}.{mac}").kind == "invalid_params"


@given(st.text())
@example("")
@example(".")
@example("0.\u00e9")
@example("500.\udc80")
@example("9" * 5000 + ".0")
def test_any_other_text_is_refused_in_words(cursor: str) -> None:
    assert refusal(cursor).kind == "invalid_params"


@given(st.data())
def test_a_changed_character_is_noticed(data: st.DataObject) -> None:
    cursor = cursors.make(SECRET, "s1", 7, 500)
    place = data.draw(st.integers(0, len(cursor) - 1))
    other = data.draw(st.characters().filter(lambda character: character != cursor[place]))
    assert refusal(cursor[:place] + other + cursor[place + 1 :]).kind == "invalid_params"
