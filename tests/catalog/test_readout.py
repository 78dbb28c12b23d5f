"""Results of reads and prompts: bounded by a18, and read out as a tool's result (a17, a19)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.catalog.content import Bounded, dress
from mcpd.catalog.readout import bound_prompt, bound_read, render_prompt, render_read, render_text
from mcpd.errors import Failure

MIB = 1024 * 1024


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def read(*contents: Any, cap: int = 100, **more: Any) -> Any:
    return json.loads(bound_read(encoded({"contents": contents, **more}), cap, "a:asked").text)


def prompt(*messages: Any, cap: int = 100, **more: Any) -> Any:
    return json.loads(bound_prompt(encoded({"messages": messages, **more}), cap).text)


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def said(value: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text(value)}


def note(value: str) -> dict[str, Any]:
    return {"uri": "a:asked", "mimeType": "text/plain", "text": value}


def blob(size: int) -> str:
    return base64.b64encode(bytes(size)).decode()


READERS: dict[str, Callable[[bytes, int], Bounded]] = {
    "contents": lambda result, cap: bound_read(result, cap, "a:b"),
    "messages": bound_prompt,
    "text of contents": render_read,
    "text of messages": render_prompt,
}


def found_or_refused(reader: str, result: bytes, cap: int) -> Bounded | None:
    """None for a bad answer; any other failure is a fault."""
    try:
        return READERS[reader](result, cap)
    except Failure as failure:
        kind = failure.kind
    assert kind == "bad_answer"
    return None


# ------------------------------------------------------------------ as they are


@pytest.mark.parametrize("cap", [0, 102_400])
def test_small_results_keep_every_value_as_it_is_spelled(cap: int) -> None:
    result = rb'{"contents":[ {"uri":"a:b","text":"\u00e9 \/", "x":1.0e2} ,7],"x":[1.50]}'
    assert bound_read(result, cap, "a:b") == Bounded(result, caching=b'"ttlMs":0,"cacheScope":"private"')
    result = rb'{"description":"\/","messages":[ {"role":"user","content":{"type":"text","text":"\u0041"}} ]}'
    assert bound_prompt(result, cap) == Bounded(result)


@pytest.mark.parametrize(
    "result",
    [
        b"null",
        b"[]",
        b"7",
        b"",
        b"{",
        b"{}",
        b'{"contents":null,"messages":null}',
        b'{"contents":{},"messages":"x"}',
        b'{"contents":[],"messages":[],"resultType":"input_required","requestState":"x"}',
        b'{"contents":[],"messages":[],"resultType":7}',
        b'{"contents":' + b"[" * 3000 + b"]" * 3000 + b',"messages":' + b"[" * 3000 + b"]" * 3000 + b"}",
    ],
)
@pytest.mark.parametrize("cap", [0, 10])
def test_what_is_no_such_result_is_a_bad_answer(result: bytes, cap: int) -> None:
    for reader in READERS:
        assert found_or_refused(reader, result, cap) is None


def test_an_empty_read_stays_empty() -> None:
    """It is not the same as not found (5.3)."""
    assert read() == {"contents": []}


@pytest.mark.parametrize(
    ("said_", "passed"),
    [
        ({}, 0),
        ({"ttlMs": 5000, "cacheScope": "public"}, 5000),
        ({"ttlMs": 10**12}, 86_400_000),
        ({"ttlMs": -1}, 0),
        ({"ttlMs": "5"}, 0),
        ({"ttlMs": 1.5}, 0),
        ({"ttlMs": None}, 0),
    ],
)
def test_how_long_a_read_may_be_kept_is_said_in_the_new_era_alone(said_: Any, passed: int) -> None:
    result = bound_read(encoded({"resultType": "complete", **said_, "contents": []}), 0, "a:b")
    assert json.loads(dress(result, stateless=False)) == {"contents": []}
    assert json.loads(dress(result, stateless=True)) == {
        "resultType": "complete",
        "ttlMs": passed,
        "cacheScope": "private",
        "contents": [],
    }


def test_a_prompt_is_dressed_for_both_eras() -> None:
    result = bound_prompt(b'{"messages":[],"resultType":"complete"}', 0)
    assert dress(result, stateless=False) == b'{"messages":[]}'
    assert dress(result, stateless=True) == b'{"resultType":"complete","messages":[]}'


def test_a_server_cannot_speak_for_mcpd() -> None:
    meta: dict[str, Any] = {"_meta": {"dev.mcpd/kind": "x", "a/b": 1}}
    clean = {"_meta": {"a/b": 1}}
    assert read({"uri": "a:b", "text": "", **meta}, **meta) == {
        "contents": [{"uri": "a:b", "text": "", **clean}],
        **clean,
    }
    block = {"type": "resource", "resource": {"uri": "a:b", "text": "", **meta}, **meta}
    assert prompt({"role": "user", "content": block, **meta}, **meta) == {
        "messages": [
            {
                "role": "user",
                "content": {"type": "resource", "resource": {"uri": "a:b", "text": "", **clean}, **clean},
                **clean,
            }
        ],
        **clean,
    }


def test_text_of_a_read_is_cut_between_two_characters_and_it_is_said() -> None:
    found = read({"uri": "a:1", "text": "é" * 40}, {"uri": "a:2", "text": "é" * 40}, cap=101)
    assert found["contents"] == [
        {"uri": "a:1", "text": "é" * 40},
        {"uri": "a:2", "text": "é" * 10},
        note("[mcpd: 60 bytes of text left out, the limit is 101 bytes a result]"),
    ]


def test_a_large_blob_becomes_its_summary_under_its_uri() -> None:
    large = {"uri": "a:1", "mimeType": "image/png", "blob": blob(4 * MIB + 1), "x": 1}
    small = {"uri": "a:2", "mimeType": "image/png", "blob": blob(4 * MIB)}
    assert read(large, small)["contents"] == [
        {"uri": "a:1", "mimeType": "text/plain", "x": 1, "text": f"[binary image/png: ~{4 * MIB + 1} bytes]"},
        small,
    ]


def test_text_of_a_prompt_is_cut_and_it_is_said() -> None:
    found = prompt(said("x" * 60), said("y" * 60, "assistant"), said("z"), description="d")
    assert found == {
        "description": "d",
        "messages": [
            said("x" * 60),
            said("y" * 40, "assistant"),
            said("[mcpd: 21 bytes of text left out, the limit is 100 bytes a result]"),
        ],
    }


def test_a_large_image_in_a_prompt_becomes_its_summary() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": blob(5 * MIB)}
    assert prompt({"role": "user", "content": image})["messages"] == [
        said(f"[binary image/png: ~{5 * MIB} bytes]")
    ]


def test_elements_of_unknown_forms_count_as_text() -> None:
    odd = [7, {"uri": "a:1", "text": 5}, {"x": "y" * 90}, None]
    assert read(*odd, cap=60)["contents"] == [
        7,
        {"uri": "a:1", "text": 5},
        None,
        note("[mcpd: 1 more blocks left out]"),
    ]
    assert prompt(*odd, {"role": "user", "content": ["z" * 90]}, cap=60)["messages"] == [
        7,
        {"uri": "a:1", "text": 5},
        None,
        said("[mcpd: 2 more blocks left out]"),
    ]


def test_what_stands_beside_is_bounded_too() -> None:
    found = read({"uri": "a:1", "text": "t"}, x="y" * MIB)
    assert found["contents"][0] == {"uri": "a:1", "text": "t"}
    assert "further members" in found["contents"][1]["text"]
    assert list(found) == ["contents"]
    many = read(*[{"uri": "a:" + "u" * 1000, "text": "t"}] * 2000, cap=5000)
    assert len(json.dumps(many)) < 700_000
    assert "more blocks left out" in many["contents"][-1]["text"]
    many = prompt(*[{"role": "user", "content": text("t"), "x": "u" * 1000}] * 2000, cap=5000)
    assert len(json.dumps(many)) < 700_000
    assert len(read(*[0] * 20_000, cap=50_000)["contents"]) == 10_001


# -------------------------------------------------------------- as a tool's result


def rendered(result: Bounded) -> list[str]:
    shown = json.loads(dress(result, stateless=False))
    assert set(shown) == {"content"}
    assert all(block["type"] == "text" for block in shown["content"])
    return [block["text"] for block in shown["content"]]


def test_a_read_joins_its_text_and_sums_up_the_rest() -> None:
    contents = [
        {"uri": "a:1", "text": "one\n"},
        {"uri": "a:2", "mimeType": "image/png", "blob": blob(1000)},
        {"uri": "a:3", "text": "two"},
        {"uri": "a:4", "mimeType": "a b", "blob": "AA=="},
        {"uri": "a:5"},
        7,
    ]
    assert rendered(render_read(encoded({"contents": contents}), 0)) == [
        "one\n\n[binary image/png: ~1000 bytes]\ntwo\n[binary data: ~1 bytes]\n"
        "[content of an unknown form]\n[content of an unknown form]"
    ]


def test_one_text_alone_is_exactly_that_text() -> None:
    exact = "  tabs\tand\r\nlines é \n"
    assert rendered(render_read(encoded({"contents": [{"uri": "a:1", "text": exact}]}), 0)) == [exact]


def test_a_prompt_is_one_text_with_the_role_of_each_message() -> None:
    blocks = [
        text("hello\nthere"),
        {"type": "image", "mimeType": "image/png", "data": blob(10)},
        {"type": "audio", "mimeType": "audio/wav", "data": blob(11)},
        {"type": "resource", "resource": {"uri": "a:1", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "a:1", "blob": blob(12)}},
        {"type": "resource_link", "uri": "a:1", "name": "n"},
        {"type": "hologram"},
    ]
    messages: list[Any] = [{"role": "assistant", "content": block} for block in blocks]
    messages += [{"role": "system] x [user", "content": text("t")}, {"role": "user"}, 7]
    assert rendered(render_prompt(encoded({"description": "d", "messages": messages}), 0)) == [
        "[assistant] hello\nthere\n"
        "[assistant] [binary image/png: ~10 bytes]\n"
        "[assistant] [binary audio/wav: ~11 bytes]\n"
        "[assistant] inside\n"
        "[assistant] [binary data: ~12 bytes]\n"
        "[assistant] [resource a:1]\n"
        "[assistant] [content of an unknown form]\n"
        "[unknown] t\n"
        "[unknown] [content of an unknown form]\n"
        "[unknown] [content of an unknown form]"
    ]


def test_what_is_rendered_is_capped_and_it_is_said() -> None:
    found = render_read(encoded({"contents": [{"uri": "a:1", "text": "é" * 100}]}), 51)
    assert found.cut
    assert rendered(found) == [
        "é" * 25,
        "[mcpd: 150 bytes of text left out, the limit is 51 bytes a result]",
    ]
    assert not render_text("é", 2).cut
    assert render_text("é", 1).cut


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
contents = json_values | st.fixed_dictionaries(
    {"uri": st.text() | json_values},
    optional={"text": st.text() | json_values, "blob": st.text() | json_values, "mimeType": json_values},
)
blocks = json_values | st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link", "hologram"])},
    optional={"text": st.text() | json_values, "data": st.text(), "resource": contents, "uri": json_values},
)
messages = json_values | st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]) | json_values}, optional={"content": blocks}
)
results = st.fixed_dictionaries(
    {},
    optional={
        "contents": st.lists(contents, max_size=5) | json_values,
        "messages": st.lists(messages, max_size=5) | json_values,
        "_meta": json_values,
        "x": json_values,
    },
)


@pytest.mark.parametrize("reader", READERS)
@given(results | json_values, st.integers(0, 200))
def test_any_result_is_bounded_or_refused(reader: str, result: Any, cap: int) -> None:
    found = found_or_refused(reader, json.dumps(result).encode(), cap)
    if found is None:
        return
    shown = json.loads(found.text.decode())
    assert b"\n" not in found.text
    if reader.startswith("text"):
        assert not cap or len(shown["content"][0]["text"].encode()) <= cap
    elif not found.cut:
        assert shown[reader] == result[reader]


@pytest.mark.parametrize("reader", READERS)
@given(st.binary(max_size=40), st.integers(0, 30))
def test_any_bytes_give_a_result_or_a_bad_answer(reader: str, junk: bytes, cap: int) -> None:
    for result in (
        junk,
        b'{"contents":[{"uri":"a:b","text":"' + junk + b'"}],"messages":[]}',
        b'{"messages":[{"role":"user","content":{"type":"text","text":"' + junk + b'"}}],"contents":[]}',
        b'{"messages":[' + junk + b'],"contents":[' + junk + b"]}",
    ):
        if found := found_or_refused(reader, result, cap):
            json.loads(found.text.decode())
