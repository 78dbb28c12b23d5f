"""Random texts assigned to a telling name."""

from __future__ import annotations

import pytest

from mcpd.policy.leaks.engine import Engine
from tests.policy.leaks.tokens import ALNUM, BASE64, HEX, URL, Source

ENGINE = Engine()
S = Source(5)

ASSIGNED = [
    ("{}_API_KEY={}", "ACME", S.of(ALNUM, 32)),
    ('"{}": "{}"', "client_secret", S.of(URL, 40)),
    ('{{\\"{}\\": \\"{}\\"}}', "clientSecret", S.of(ALNUM, 40)),
    ("{}: {}", "db_password", S.of(ALNUM, 20)),
    ("{} = '{}'", "aws_secret_access_key", S.of(BASE64, 40)),
    ("{}: {}", "x-api-key", S.of(ALNUM, 40)),
    ("{} := `{}`", "accessToken", S.of(HEX, 40)),
    ("export {}={}", "ACME_AUTH_TOKEN", S.of(ALNUM, 24)),
    ("{}={}", "HEROKU_API_KEY", S.uuid()),
    ("machine api.example login me {} {}", "password", S.of(ALNUM, 22)),
    ("<{}>{}</x>", "ApiKey", S.of(ALNUM, 24)),
    ("{}: {}", "passphrase", "Kx9-vR2m-Tq7w"),
]


@pytest.mark.parametrize(("form", "name", "value"), ASSIGNED)
def test_what_is_assigned_is_noticed(form: str, name: str, value: str) -> None:
    text = form.format(name, value).encode()
    at = text.index(value.encode())
    found = ENGINE.find(text)
    assert any(each.start <= at and at + len(value) <= each.end for each in found), found
    assert {each.layer for each in found} == {3}
    assert not ENGINE.find(text, 2)


CLEAN = [
    '{"nextPageToken": "' + S.of(URL, 60) + '", "syncToken": "' + S.of(URL, 44) + '"}',
    '{"csrf_token":"' + S.of(URL, 44) + '"}',
    "max_tokens: 4096, prompt_tokens=1532, token_type=Bearer, tokenizer: cl100k_base_v2_2024",
    "api_key: YOUR_API_KEY\nclient_secret: REPLACE_ME\npassword: changeme\ntoken: ${GITHUB_TOKEN}",
    "password = os.environ['DB_PASSWORD']; secret := os.Getenv(\"CLIENT_SECRET\")",
    "token = await get_token_for_user(session, user_id=42)",
    'credentialsId: "29f63271-dc2f-4734-8221-5b31b5169bac"',
    'kms_key_id = "555ea4a3-d53a-4412-9c66-3a7cb667b0d6"',
    'public_key = "' + S.of(ALNUM, 43) + '"',
    'NEXT_PUBLIC_KEY="pk_live_' + S.of(ALNUM, 24) + '"',
    "cache key: npm-Linux-" + S.of(HEX, 64),
    'type: string, description: "API key used for authentication", keyword: "Something_else_2"',
    "secret_name=prod/db/password-2024, secretKeyRef: my-secret-name-1",
    "password_url: https://example.org/reset/9f86d081884c7d65",
    "primary_key: 9f86d081884c7d659a2feaa0c55ad015",
    "Password: ********",
]


@pytest.mark.parametrize("text", CLEAN)
def test_what_is_named_like_one_and_is_none_is_not(text: str) -> None:
    assert not ENGINE.find(text.encode())
