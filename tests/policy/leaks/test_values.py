"""What of a definition is looked for."""

from __future__ import annotations

import base64

import pytest

from mcpd.policy.leaks.values import matched, of_definition, unfit, unmatched

PLAIN = [
    ("REGION", "production"),
    ("REGION", "eu-central-1"),
    ("LOG_LEVEL", "Information"),
    ("DEBUG", "disabled"),
    ("CACHE", "/var/lib/thing/cache"),
    ("CACHE", "~/notes and more/x"),
    ("ENDPOINT", "https://api.example.org/v1/items"),
    ("HOST", "db-1.internal.example.org:5432"),
    ("USER_EMAIL", "someone.else@example.org"),
    ("PORTS", "8080,8081"),
    ("SINCE", "2026-11-30"),
    ("GREETING", "good morning, everybody"),
    ("FILLER", "aaaaaaaaaaaa"),
    ("V", 'a=b "c" $d'),
    ("FLAGS", "--max-old-space-size=4096 --trace"),
    ("TIME", "2026-11-30T17:05:00Z"),
    ("SHORT", "a1b2c3d"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/keys/service.json"),
    ("API_KEY_FILE", "/run/secrets/api_key"),
    ("TOKEN_URL", "https://login.example.org/oauth/token"),
    ("PASSWORD", "password"),
    ("Accept", "application/json"),
]

SECRET = [
    ("GITHUB_TOKEN", "8f14e45fceea167a"),
    ("VALUE", "hunter2-sesame-42"),
    ("DB_PASSWORD", "correct-horse-battery"),
    ("PIN_SECRET", "493020174"),
    ("AWS_SECRET_ACCESS_KEY", "/bPxRfiCYEX7MDENG/wJalrXUtn8FEMI/K5qLm2"),
    ("SOMETHING", "Zq8rT1vX0pLm"),
    ("SOMETHING", "xKqWzRtYpLmNbVc"),
    ("SOMETHING", "4f2a9c1b77de"),
    ("SOMETHING", "c0ffee00-1234-4abc-9def-0123456789ab"),
    ("X-Api-Key", "k-4930-2017-4abc"),
]


@pytest.mark.parametrize(("name", "value"), PLAIN)
def test_what_every_second_text_holds_is_not_looked_for(name: str, value: str) -> None:
    assert unfit(name, value)
    assert not [*matched("s", name, value, header=False)]


@pytest.mark.parametrize(("name", "value"), SECRET)
def test_what_a_definition_gives_its_server_is(name: str, value: str) -> None:
    assert [held.value for held in matched("s", name, value, header=False)] == [value]


def header(value: str) -> set[str]:
    return {held.value for held in matched("s", "Authorization", value, header=True)}


def test_a_header_counts_with_and_without_its_scheme() -> None:
    assert header("Bearer k-4930-abcdef") == {"Bearer k-4930-abcdef", "k-4930-abcdef"}


def test_both_halves_of_basic_count() -> None:
    credentials = base64.b64encode(b"svc-a7x9q2:hunter2-sesame").decode()
    assert header(f"Basic {credentials}") == {
        f"Basic {credentials}",
        credentials,
        "svc-a7x9q2",
        "hunter2-sesame",
    }


def test_a_user_of_basic_who_is_an_address_does_not() -> None:
    credentials = base64.b64encode(b"someone@example.org:hunter2-sesame").decode()
    assert "someone@example.org" not in header(f"Basic {credentials}")


def test_the_cookies_of_a_header_count_each() -> None:
    held = {each.value for each in matched("s", "Cookie", "sid=a81bc81b0c; theme=dark", header=True)}
    assert "a81bc81b0c" in held
    assert "dark" not in held


def test_what_is_secret_in_an_address_counts() -> None:
    held = {each.value for each in matched("s", "DSN", "postgres://app:s3cr%2Fet-pw9@db/x", header=False)}
    assert held == {"s3cr%2Fet-pw9", "s3cr/et-pw9"}
    url = "https://mcp.example.org/v1?api_key=q1w2e3r4&lang=english12"
    assert {each.value for each in of_definition("s", {}, {}, url)} == {"q1w2e3r4"}


def test_what_seems_a_secret_and_cannot_be_told_apart_is_said() -> None:
    env = {"API_KEY": "abc123", "PASSWORD": "letmein", "TOKEN": "k-4930-2017", "REGION": "eu"}
    assert [*unmatched(env, {"X-Auth": "short"})] == [
        '"API_KEY" is not looked for in what servers and agents say: it has fewer than 8 bytes',
        '"PASSWORD" is not looked for in what servers and agents say: it has fewer than 8 bytes',
        '"X-Auth" is not looked for in what servers and agents say: it has fewer than 8 bytes',
    ]
