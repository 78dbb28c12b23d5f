"""Secrets that what is around them gives away."""

from __future__ import annotations

import base64
import json
from functools import partial

import pytest

from mcpd.policy.leaks import assignments, prefixes, structures
from mcpd.policy.leaks.engine import UNFINISHED, Engine
from mcpd.policy.leaks.values import Held
from tests.effort import effort
from tests.policy.leaks.tokens import ALNUM, BASE64, HEX, UPPER, URL, Source

ENGINE = Engine()
S = Source(3)


def key(kind: str, size: int, newline: str = "\n") -> str:
    body = newline.join(S.of(BASE64, 64) for _ in range(size))
    return f"-----BEGIN {kind}-----{newline}{body}{newline}-----END {kind}-----"


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


JWT = f"{part({'alg': 'ES256', 'kid': '7'})}.{part({'sub': 'me', 'aud': 'it'})}.{S.of(URL, 86)}"
BASIC = base64.b64encode(b"service:hunter2-sesame").decode()

#: (type, what is before the secret, the secret, what is after it)
SECRETS = [
    ("private-key", "", key("RSA PRIVATE KEY", 20), ""),
    ("private-key", "", key("ENCRYPTED PRIVATE KEY", 20, "\r\n"), ""),
    ("private-key", "", key("OPENSSH PRIVATE KEY", 6, "\\n"), ""),
    ("private-key", "", key("EC PRIVATE KEY", 3, "\n      "), ""),
    ("private-key", "", key("PGP PRIVATE KEY BLOCK", 30), ""),
    ("private-key", "KEY_B64=", base64.b64encode(key("PRIVATE KEY", 20).encode()).decode(), ""),
    ("jwt", "", JWT, ""),
    ("url-password", "postgresql://app:", S.of(ALNUM, 16), "@db.internal:5432/x"),
    ("url-password", "https://oauth2:", S.of(ALNUM, 20), "@git.example/a/b.git"),
    ("url-password", "redis://:", S.of(URL, 24), "@cache:6379/0"),
    ("url-password", "amqps://svc:", "p%40ss-W0rd%21x", "@mq.example"),
    ("authorization", "Authorization: Bearer ", S.of(URL, 40), ""),
    ("authorization", 'headers={"authorization":"bearer ', S.of(ALNUM, 32), '"}'),
    ("bearer-token", "with BEARER ", S.of(ALNUM, 32), "."),
    ("authorization", "Authorization: Basic ", BASIC, ""),
    ("basic-credentials", "curl sends Basic ", base64.b64encode(b"me:hunter2-sesame").decode(), ""),
    ("authorization", "Authorization: Token token=", S.of(HEX, 40), ""),
    ("authorization", '{"Authorization": "', S.of(HEX, 48), '"}'),
    ("azure-key", "AccountName=x;AccountKey=", S.of(BASE64, 86) + "==", ";EndpointSuffix=core.windows.net"),
    ("azure-key", "Endpoint=sb://x/;SharedAccessKeyName=R;SharedAccessKey=", S.of(BASE64, 43) + "=", ""),
    ("azure-signature", "https://x.blob.core.windows.net/c?sv=2025&sr=b&sig=", S.of(ALNUM, 43) + "%3D", ""),
    (
        "slack-webhook",
        "",
        f"https://hooks.slack.com/services/T{S.of(UPPER, 10)}/B{S.of(UPPER, 10)}/{S.of(ALNUM, 24)}",
        "",
    ),
    ("discord-webhook", "", f"https://discord.com/api/webhooks/112233445566778899/{S.of(URL, 68)}", ""),
    (
        "teams-webhook",
        "",
        f"https://corp.webhook.office.com/webhookb2/{S.uuid()}@{S.uuid()}/IncomingWebhook/"
        f"{S.of(HEX, 32)}/{S.uuid()}",
        "",
    ),
    ("telegram-token", "", f"https://api.telegram.org/bot8412345678:{S.of(URL, 35)}", "/sendMessage"),
]


@pytest.mark.parametrize(("type_", "before", "secret", "after"), SECRETS)
@pytest.mark.parametrize("around", ["()", "x: ()\ny: 1", "see `()` there", '{"v": "()"}'])
def test_a_secret_is_found_by_its_structure(
    type_: str, before: str, secret: str, after: str, around: str
) -> None:
    head, _, tail = around.partition("()")
    at = len(head + before)
    found = ENGINE.find(f"{head}{before}{secret}{after}{tail}".encode(), 2)
    assert any(each.start <= at and at + len(secret) <= each.end for each in found), found
    assert type_ in {each.type for each in found}


CLEAN = [
    "-----BEGIN PUBLIC KEY-----\n" + S.of(BASE64, 64) + "\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + S.of(BASE64, 64) + "\n-----END CERTIFICATE-----",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    base64.b64encode(b"-----BEGIN CERTIFICATE-----\n" + b"MIIB" * 40).decode(),
    "openssl genrsa writes a file that begins with -----BEGIN RSA PRIVATE KEY-----",
    f"{part({'v': '1'})}.{S.of(URL, 40)}.{S.of(URL, 40)}",
    "postgres://user:password@localhost:5432/db",
    "postgres://postgres:postgres@localhost",
    "https://${USER}:${PASSWORD}@host/x and https://<user>:<password>@host and amqp://u:*****@h",
    "git clone https://someone@git.example/a/b.git; ssh://git@host:2222/x.git",
    "see http://localhost:8080/a@b and http://[::1]:9/x",
    "Authorization: Bearer <token> / Bearer $TOKEN / Bearer [REDACTED] / Bearer ...",
    "Authorization: Basic <base64(user:password)>",
    "the bearer of this letter, a basic understanding of authorization and permissions",
    "headers: {Authorization: 'Bearer ' + process.env.API_TOKEN}",
    "AccountName=<NAME>;AccountKey=<KEY>;",
    "?sig=short&x=1",
    "https://hooks.slack.com/services/T000/B000/XXXX",
]


@pytest.mark.parametrize("text", CLEAN)
def test_what_only_looks_like_one_is_left_alone(text: str) -> None:
    assert not ENGINE.find(text.encode(), 2)


def test_a_key_that_is_cut_off_goes_as_far_as_it_is_there() -> None:
    text = "x\n-----BEGIN PRIVATE KEY-----\n" + "\n".join(S.of(BASE64, 64) for _ in range(9))
    [finding] = ENGINE.find(text.encode(), 2)
    assert (finding.start, finding.end) == (2, len(text))


@pytest.mark.parametrize("filler", ["", "a:", "abc1:", " ", '="a1b2c3d4e5f6g7h8'])
def test_no_text_costs_more_than_so_much_for_each_beginning(filler: str) -> None:
    """Nothing runs to the end of a text from each place in it: that took half a second for 20 kB."""
    for rule in (*prefixes.RULES, *structures.RULES, *assignments.RULES):
        piece = rule.literals[0] + filler.encode()
        text = piece * (20_000 // len(piece))
        assert effort(partial(ENGINE.find, text)) < 0.25, piece


@pytest.mark.parametrize("piece", [b"---- BEGIN PRIVATE KEY", b"LS0tLS1CRUdJTi"])
def test_no_beginning_of_a_key_runs_to_the_end_of_the_text(piece: bytes) -> None:
    short, long = (piece * (size // len(piece)) for size in (16_000, 64_000))
    # It was sixteen times as much.
    assert effort(lambda: ENGINE.find(long)) < 8 * effort(lambda: ENGINE.find(short))


def test_past_so_many_looks_only_held_values_count() -> None:
    engine = Engine([Held("s", "KEY", "hunter2-sesame-42")])
    token = "ghu_" + S.of(ALNUM, 36)
    for found in (
        engine.find(("password=x " * 5000 + f"{token} hunter2-sesame-42").encode()),
        [each for step in engine.steps(("password=x " * 20000 + f"{token} hunter2-sesame-42").encode())
         for each in step],
    ):  # fmt: skip
        assert [each.type for each in found if each.layer < 3] == ["KEY"]
        assert UNFINISHED in {each.type for each in found}
