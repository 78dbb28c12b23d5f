"""What passes, against what mcpd holds and what looks like a secret."""

from __future__ import annotations

import copy
import json
import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.consent.tokens import new_token
from mcpd.policy.leaks.values import Held
from mcpd.secrets.held import CEILING, HeldValues
from tests.policy.leaks.tokens import TOKENS, Source

OURS = "hunter2-sesame-42"
THEIRS = "Zq8rT1vX0pLm-77"
SHARED = "k-4930-2017-shared"
TOKEN = TOKENS["github-token"](Source(8))
AGENT_TOKEN = new_token()


@pytest.fixture
def held() -> HeldValues:
    values = HeldValues()
    values.hold(
        [
            Held("ours", "OUR_KEY", OURS),
            Held("theirs", "THEIR_KEY", THEIRS),
            Held("ours", "SHARED", SHARED),
            Held("theirs", "SHARED", SHARED),
        ]
    )
    return values


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


ARGUMENTS = [
    ({"a": "nothing to see"}, ""),
    ({"a": OURS}, ""),
    ({"a": SHARED}, ""),
    ({"a": THEIRS}, "block"),
    ({"a": [{"b": f"x {THEIRS} y"}]}, "block"),
    ({THEIRS: 1}, "block"),
    ({"a": THEIRS[:7] + "\n" + THEIRS[7:]}, "block"),
    ({"a": THEIRS.encode().hex()}, "block"),
    ({"a": json.dumps({"inner": THEIRS})}, "block"),
    ({"a": f"{OURS} {THEIRS}"}, "block"),
    ({"a": f"use {TOKEN}"}, "ask"),
    ({"a": f"Authorization: Bearer {AGENT_TOKEN}"}, "block"),
    ({"a": f"use {TOKEN} {THEIRS}"}, "block"),
    ({"a": "DB_PASSWORD=kT9vR2mW7q"}, "warn"),
]


@pytest.mark.parametrize(("arguments", "action"), ARGUMENTS)
async def test_what_may_go_to_a_server(held: HeldValues, arguments: Any, action: str) -> None:
    leak = await held.arguments("ours", text(arguments))
    assert (leak.action if leak else "") == action
    if leak is not None:
        assert THEIRS not in leak.words
        assert TOKEN not in leak.words


async def test_no_escape_hides_a_value(held: HeldValues) -> None:
    for spelled in ('"\\u005aq8rT1vX0pLm-77"', "".join(f"\\u{ord(c):04X}" for c in THEIRS).join('""')):
        leak = await held.arguments("ours", b'{"a":' + spelled.encode() + b"}")
        assert leak is not None
        assert leak.action == "block"


async def test_whose_a_value_is_is_said(held: HeldValues) -> None:
    leak = await held.arguments("ours", text({"a": THEIRS}))
    assert leak is not None
    assert leak.words == 'the arguments hold "THEIR_KEY" of server "theirs", which "ours" must not get'


async def test_a_tool_that_takes_secrets_is_not_asked_about(held: HeldValues) -> None:
    assert await held.arguments("ours", text({"a": TOKEN}), takes_secrets=True) is None
    leak = await held.arguments("ours", text({"a": THEIRS}), takes_secrets=True)
    assert leak is not None
    assert leak.action == "block"


async def test_a_server_s_own_token_is_no_question(held: HeldValues) -> None:
    held.hold([Held("ours", "GITHUB_TOKEN", TOKEN)])
    assert await held.arguments("ours", text({"a": TOKEN})) is None


async def test_what_comes_back_is_redacted(held: HeldValues) -> None:
    """Whoever's it is: also the server's own does not pass (2.3)."""
    raw = text({"content": [{"type": "text", "text": f"{OURS}\n{THEIRS} and {TOKEN}"}], "n": 1})
    scanned = await held.result(raw)
    assert json.loads(scanned.text) == {
        "content": [
            {
                "type": "text",
                "text": "[redacted:OUR_KEY]\n[redacted:THEIR_KEY] and [redacted:github-token]",
            }
        ],
        "n": 1,
    }
    assert {each.type for each in scanned.found} == {"OUR_KEY", "THEIR_KEY", "github-token"}


async def test_structured_content_and_its_twin_are_redacted_alike(held: HeldValues) -> None:
    inner = {"key": THEIRS, "n": 5}
    raw = text({"content": [{"type": "text", "text": json.dumps(inner)}], "structuredContent": inner})
    result = json.loads((await held.result(raw)).text)
    assert result["structuredContent"] == {"key": "[redacted:THEIR_KEY]", "n": 5}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


async def test_a_tool_that_gives_secrets_gives_none_that_mcpd_holds(held: HeldValues) -> None:
    scanned = await held.result(text([TOKEN, OURS]), gives_secrets=True)
    assert json.loads(scanned.text) == [TOKEN, "[redacted:OUR_KEY]"]


async def test_what_is_only_noticed_stays(held: HeldValues) -> None:
    raw = text(["DB_PASSWORD=kT9vR2mW7q"])
    scanned = await held.result(raw)
    assert scanned.text is raw
    assert [each.layer for each in scanned.found] == [3]


async def test_what_holds_nothing_is_the_very_same_object(held: HeldValues) -> None:
    raw = '{"content":[{"type":"text","text":"Grüße \\n 中 👩‍💻"}]}'.encode()
    assert (await held.result(raw)).text is raw


async def test_hidden_characters_get_a_mark(held: HeldValues) -> None:
    scanned = await held.result(text([f"a\u202eb {OURS}"]))
    assert json.loads(scanned.text) == ["a[hidden bidirectional: U+202E]b [redacted:OUR_KEY]"]
    assert scanned.hidden == 1


async def test_bytes_that_are_no_text_hide_nothing(held: HeldValues) -> None:
    scanned = await held.result(b'{"a":"\xff\xfe\\" ' + OURS.encode() + b' \\\\"}')
    assert json.loads(scanned.text) == {"a": '\ufffd\ufffd" [redacted:OUR_KEY] \\'}


@pytest.mark.parametrize("size", [100, 32_700, 131_000, 131_072, 400_000])
async def test_a_large_answer_is_looked_through_as_a_whole(
    held: HeldValues, size: int, real_clock: None
) -> None:
    """Also where a value lies across two pieces."""
    for shift in (0, 5, 11, 17):
        words = f"{'x' * (size - shift)}{THEIRS}\n{'y ' * 50_000}{OURS}"
        for raw in (text({"a": words}), json.dumps({"a": words + " é"}, ensure_ascii=False).encode()):
            result = json.loads((await held.result(raw)).text)["a"]
            assert THEIRS not in result
            assert OURS not in result
            assert "[redacted:THEIR_KEY]\ny" in result
            leak = await held.arguments("ours", raw)
            assert leak is not None


async def test_past_the_ceiling_only_held_values_are_looked_for(held: HeldValues, real_clock: None) -> None:
    raw = text({"a": f"{TOKEN} {OURS} " + "x" * CEILING})
    scanned = await held.result(raw)
    assert not scanned.whole
    result = json.loads(scanned.text)["a"]
    assert result.startswith(f"{TOKEN} [redacted:OUR_KEY] x")


async def test_a_value_that_is_held_no_more_stays_hidden(held: HeldValues) -> None:
    """Its server may still say it, and it may still open something."""
    held.hold([Held("ours", "OUR_KEY", "another-value-9")])
    assert json.loads((await held.result(text([OURS, "another-value-9"]))).text) == ["[redacted:OUR_KEY]"] * 2


def test_lines_for_people_are_redacted(held: HeldValues) -> None:
    assert held.text(f"login with {OURS} failed") == "login with [redacted:OUR_KEY] failed"
    line = "nothing in here"
    assert held.text(line) is line
    assert held.text("\udcff odd") == "\udcff odd"


def test_what_is_held_shows_nowhere(held: HeldValues) -> None:
    assert OURS not in repr(held)
    for take in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError):
            take(held)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([OURS, THEIRS, TOKEN, "\u202e"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=10,
)


@given(JSON, st.booleans())
def test_whatever_an_answer_is_it_stays_json_and_holds_nothing(value: Any, ascii_only: bool) -> None:
    held = HeldValues()
    held.hold([Held("ours", "OUR_KEY", OURS), Held("theirs", "THEIR_KEY", THEIRS)])
    cleaned = held.json(json.dumps(value, ensure_ascii=ascii_only).encode())
    again = json.dumps(json.loads(cleaned), ensure_ascii=False)
    for secret in (OURS, THEIRS, TOKEN, "\u202e"):
        assert secret not in again


def test_what_is_stored_holds_nothing_that_is_called_a_secret(held: HeldValues) -> None:
    arguments = text({"user": "anna", "password": "Xq7-hunter-2931-zz", "token": TOKEN, "of": THEIRS})
    kept = json.loads(held.stored(arguments))
    assert kept["user"] == "anna"
    for value in ("Xq7-hunter-2931-zz", TOKEN, THEIRS):
        assert value not in held.stored(arguments).decode()
    assert b"Xq7-hunter-2931-zz" in held.json(arguments), "what passes is only warned of"


async def test_what_is_made_to_take_long_does_not(held: HeldValues, real_clock: None) -> None:
    """Each of these took from a second to hours."""
    own = {"a": f"{OURS} " * 4_000 + f"ghp_{'x' * 3} DB_PASSWORD=kT9vR2mW7q " * 4_000}
    empty = b"[" + b'"",' * 300_000 + text(OURS) + b"]"
    bidi = json.dumps({"a": "a\u200e" * 20_000}, ensure_ascii=False).encode()
    dense = json.dumps({"a": "a\u200b" * 20_000}, ensure_ascii=False).encode()
    began = time.process_time()
    assert await held.arguments("ours", text(own)) is not None
    assert (await held.result(empty)).text == empty.replace(text(OURS), b'"[redacted:OUR_KEY]"')
    assert (await held.result(bidi)).hidden == 20_000
    assert (await held.result(dense)).hidden == 20_000
    assert time.process_time() - began < 3
