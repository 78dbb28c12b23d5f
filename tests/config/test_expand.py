"""a05: variables in values; expected results are those of the contract and of a shell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.config.expand import BadReference, UnsetVariable, escape, expand, variables

VALUES = {"A": "va", "EMPTY": "", "HOME": "/home/u", "ODD": "${A}"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${A}", "va"),
        ("--a=${A}${A}/x", "--a=vava/x"),
        ("${B:-two words}", "two words"),
        ("${A:-other}", "va"),
        ("${EMPTY}", ""),
        ("${EMPTY:-fallback}", "fallback"),
        ("${B:-}", ""),
        ("${B:-a:-b}", "a:-b"),
        ("$HOME costs 5$", "$HOME costs 5$"),
        ("$$", "$$"),
        ("$${A}", "${A}"),
        ("$${", "${"),
        ("$$${A}", "$${A}"),
        ("$${${A}", "${va"),
        ("~/x", "~/x"),
        ("}", "}"),
        # What a variable holds is not expanded again.
        ("${ODD}", "${A}"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert expand(text, VALUES) == expected


def test_every_unset_variable_is_named_once() -> None:
    with pytest.raises(UnsetVariable) as caught:
        expand("${B}${A}${C}${B}${D:-x}", VALUES)
    assert caught.value.names == ("B", "C")


@pytest.mark.parametrize(
    "text", ["${", "${A", "x${}", "${1A}", "${A-B}", "${A B}", "${:-x}", "${Ä}", "${B:-${A}}"]
)
def test_what_cannot_be_read_is_refused_and_not_passed_on(text: str) -> None:
    with pytest.raises(BadReference):
        expand(text, VALUES)


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(BadReference) as caught:
        expand("hunter2 ${sk-live-123", {})
    assert "hunter2" not in str(caught.value)
    assert "sk-live" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(BadReference, match='"A"'):
        expand("${A}", {"A": b"\xff".decode("utf-8", "surrogateescape")})


def test_mcpds_own_variables_are_not_for_files() -> None:
    assert variables({"MCPD_SECRETS_KEY": "k", "MCPDX": "1", "A": "2"}) == {"MCPDX": "1", "A": "2"}


PIECES = st.lists(st.sampled_from(["$", "{", "}", "${", "$${", "A", ":-", "x"])).map("".join)


@given(PIECES | st.text())
def test_escaped_text_comes_back(text: str) -> None:
    assert expand(escape(text), VALUES) == text


@given(PIECES | st.text())
def test_any_text_is_expanded_or_refused_and_no_reference_stays(text: str) -> None:
    try:
        filled = expand(text, {"A": "va"})
    except (BadReference, UnsetVariable):
        return
    if "$${" not in text and ":-" not in text:
        assert "${" not in filled
