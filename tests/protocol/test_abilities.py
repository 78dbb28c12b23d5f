"""What clients can be asked: read from their capabilities, and told to servers (5.1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol import abilities
from mcpd.protocol.abilities import NONE, Ability

A = Ability


@pytest.mark.parametrize(
    ("capabilities", "found"),
    [
        ({}, NONE),
        ({"elicitation": {}}, A.FORM),
        ({"elicitation": {"form": {}}}, A.FORM),
        ({"elicitation": {"url": {}}}, A.URL),
        ({"elicitation": {"form": {}, "url": {}}}, A.FORM | A.URL),
        ({"elicitation": None}, NONE),
        ({"elicitation": True}, NONE),
        ({"sampling": {}}, A.SAMPLING),
        ({"sampling": {"tools": {}, "context": {}}}, A.SAMPLING | A.SAMPLING_TOOLS | A.SAMPLING_CONTEXT),
        ({"sampling": []}, NONE),
        ({"roots": {"listChanged": True}}, A.ROOTS),
        ({"roots": {}, "experimental": {"elicitation": {}}}, A.ROOTS),
        ({"tasks": {"requests": {"elicitation": {"create": {}}}}}, NONE),
    ],
)
def test_only_objects_declare(capabilities: dict[str, Any], found: Ability) -> None:
    assert abilities.read(capabilities) == found


def test_a_client_without_abilities_declares_nothing() -> None:
    assert abilities.declare(NONE, stateless=True) == abilities.declare(NONE, stateless=False) == {}


def test_form_and_url_are_both_named() -> None:
    assert abilities.declare(A.FORM, stateless=False) == {"elicitation": {"form": {}}}
    assert abilities.declare(A.FORM | A.URL, stateless=True) == {"elicitation": {"form": {}, "url": {}}}


def test_changed_roots_are_told_only_in_the_handshake_era() -> None:
    assert abilities.declare(A.ROOTS, stateless=False) == {"roots": {"listChanged": True}}
    assert abilities.declare(A.ROOTS, stateless=True) == {"roots": {}}


possible = st.builds(
    lambda bits, sampling: Ability(bits) | (A.SAMPLING if sampling else NONE),
    st.integers(0, 63).filter(lambda bits: not bits & (A.SAMPLING_TOOLS | A.SAMPLING_CONTEXT)),
    st.booleans(),
) | st.integers(0, 63).map(lambda bits: Ability(bits) | A.SAMPLING)


@given(possible, st.booleans())
def test_what_is_declared_reads_as_the_same(given_: Ability, stateless: bool) -> None:
    assert abilities.read(abilities.declare(given_, stateless=stateless)) == given_
    assert len(abilities.words(given_)) == given_.bit_count()


@given(
    st.dictionaries(st.sampled_from(["elicitation", "sampling", "roots"]), st.from_type(object) | st.none())
)
def test_anything_is_read(capabilities: dict[str, Any]) -> None:
    abilities.read(capabilities)
