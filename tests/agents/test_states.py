"""Sealed values open only with the secret and for what they were made (n03)."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mcpd.agents import states

SECRET = b"a secret of this run"
ASCII = st.text(st.characters(max_codepoint=127))


@given(ASCII, st.lists(st.text() | st.integers(-9, 9)))
def test_what_was_sealed_opens(text: str, bound: list[str | int]) -> None:
    assert states.unseal(SECRET, states.seal(SECRET, text, *bound), *bound) == text


@given(st.lists(st.text() | st.integers(-9, 9)), st.lists(st.text() | st.integers(-9, 9)))
@example(["a", "b"], ["ab"])
@example([1, 17], [11, 7])
@example(["1"], [1])
def test_it_is_of_no_use_for_anything_else(bound: list[str | int], other: list[str | int]) -> None:
    opened = states.unseal(SECRET, states.seal(SECRET, "text", *bound), *other)
    assert opened == ("text" if bound == other else None)


def test_nor_in_another_run() -> None:
    assert states.unseal(b"another", states.seal(SECRET, "text", "s1"), "s1") is None


@given(st.text())
@example("")
@example(".")
@example("x.\udc80")
@example("\udc80.x")
def test_any_other_text_is_none(value: str) -> None:
    assert states.unseal(SECRET, value, "s1") is None
