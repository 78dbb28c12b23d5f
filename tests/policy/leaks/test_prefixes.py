"""Tokens that tell by how they begin whose they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.policy.leaks.engine import Engine
from mcpd.policy.leaks.prefixes import RULES, SHAPES
from tests.policy.leaks.tokens import TOKENS, Source

ENGINE = Engine()

AROUND = [
    "{}",
    "TOKEN={}\nNEXT=1",
    'client = Client("{}")',
    "see `{}` above",
    "https://host.example/x?key={}&y=1",
    "a=1\\n{}\\nb=2",
    "form=%3D{}%26",
    "| {} |",
    "<b>{}</b>",
    "用{}登录",
]


@pytest.mark.parametrize("type_", sorted(TOKENS))
def test_a_token_is_found_wherever_it_stands(type_: str) -> None:
    for seed, around in enumerate(AROUND):
        token = TOKENS[type_](Source(seed))
        text = around.format(token).encode()
        at = text.index(token.encode())
        found = ENGINE.find(text, 2)
        assert any(each.start <= at and at + len(token) <= each.end for each in found), (around, found)
        assert type_ in {each.type for each in found}


PLACEHOLDERS = [
    "ghp_" + "x" * 36,
    "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz",
    "sk-" + "X" * 48,
    "AKIAIOSFODNN7EXAMPLE",
    "glpat-XXXXXXXXXXX-XXXXXXXX",
    "xoxb-your-token-goes-here-please-put-it-in",
    "hvs.your_vault_token_goes_in_here_123",
    "npm_REPLACE_ME",
    "hf_****",
    "dapi00000000000000000000000000000000",
]


@pytest.mark.parametrize("text", PLACEHOLDERS)
def test_a_placeholder_is_no_token(text: str) -> None:
    assert not ENGINE.find(f"export TOKEN={text}\n".encode(), 2)


ORDINARY = [
    "Tokens begin with ghp_ or github_pat_ on GitHub, with xoxb- on Slack, with sk- on OpenAI.",
    "class sk-fading-circle sk-circle-bounce-delay-animation-item-number-twelve",
    "sha512-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "https://www.youtube.com/watch?v=dQw4w9WgXcQ&list=PLx0sYbCqOb8TBPRdmBHs5Iftvv9TPboYG",
    "550e8400-e29b-41d4-a716-446655440000",
    "arn:aws:iam::123456789012:role/thing-role-ASIA",
    "SKIPPING the SKU, SKIP_0123456789, TASK0123456789abcdef0123456789abcdef",
    "msg_01XFDUDYJgAACzvnptvVoYEL req_011CSHoEeqs5C35K2UUqR7Fy",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_people_write_is_no_token(text: str) -> None:
    assert not ENGINE.find(text.encode(), 2)


def test_shapes_that_come_about_in_a_picture_do_not_count() -> None:
    """Base64 has every shape somewhere; of binary data held values alone count (2.3)."""
    picture = Source(1).of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 3000)
    token = TOKENS["aws-key-id"](Source(2))
    assert ENGINE.find(f" {token} ".encode(), 2)
    assert not ENGINE.find(f"{picture}/{token}+{picture}".encode(), 2)


def test_every_rule_says_who_says_so() -> None:
    assert all(shape.source for shape in SHAPES)
    assert all(len(literal) > 1 for rule in RULES for literal in rule.literals)


@given(st.sampled_from([literal for rule in RULES for literal in rule.literals]), st.binary(), st.binary())
def test_whatever_stands_around_a_literal_is_looked_at_in_peace(
    literal: bytes, before: bytes, after: bytes
) -> None:
    text = before + literal + after
    for finding in ENGINE.find(text):
        assert 0 <= finding.start < finding.end <= len(text)
