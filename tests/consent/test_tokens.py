"""Tokens of agents: what they look like, and whose one is."""

from __future__ import annotations

import hashlib
import re

from hypothesis import given
from hypothesis import strategies as st

from mcpd.consent import tokens


def test_a_token_is_new_each_time_and_fits_into_a_header() -> None:
    made = {tokens.new_token() for _ in range(100)}
    assert len(made) == 100
    for token in made:
        assert re.fullmatch(r"mcpd_[A-Za-z0-9_-]{43}", token)  # 43 x 6 bits hold 256


def test_the_digest_is_sha256() -> None:
    assert tokens.digest("mcpd_x") == hashlib.sha256(b"mcpd_x").digest()


@given(st.lists(st.text(), unique=True, max_size=5), st.text())
def test_only_the_very_token_has_an_owner(known: list[str], other: str) -> None:
    digests = {f"agent-{number}": tokens.digest(token) for number, token in enumerate(known)}
    for number, token in enumerate(known):
        assert tokens.owner(token, digests) == f"agent-{number}"
    if other not in known:
        assert tokens.owner(other, digests) == ""
