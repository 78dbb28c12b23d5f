"""JSON text, decoded in place and put together again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.policy.leaks import strings
from mcpd.policy.leaks.finding import Finding

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def leaves(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [leaf for each in value for leaf in leaves(each)]
        case dict():
            return [leaf for key, each in value.items() for leaf in (key, *leaves(each))]
    return []


@given(JSON, st.booleans())
def test_every_string_stands_in_the_flat_text_as_it_is_read(value: Any, ascii_only: bool) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    told = strings.flat(raw)
    assert len(told.text) == len(told.marked)
    at = 0
    for leaf in leaves(json.loads(raw)):
        at = told.text.index(leaf.encode(), at) + len(leaf.encode())


@given(JSON, st.booleans(), st.integers(1, 40))
def test_pieces_make_up_the_same_text(value: Any, ascii_only: bool, size: int) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode()
    pieces = [*strings.parts(raw, size)]
    assert b"".join(pieces) == raw
    told = strings.flat(raw)
    assert b"".join(strings.flat(piece).text for piece in pieces) == told.text
    assert b"".join(strings.flat(piece).marked for piece in pieces) == told.marked


def redacted(raw: bytes, *secrets: str) -> bytes:
    told = strings.flat(raw)
    found = []
    for secret in secrets:
        at = told.text.find(secret.encode())
        while at >= 0:
            found.append(Finding(at, at + len(secret.encode()), 1, "KEY"))
            at = told.text.find(secret.encode(), at + 1)
    return strings.redacted(raw, told, found)


REDACTED = [
    (b'{"a":"x SECRET y"}', {"a": "x [redacted:KEY] y"}),
    (b'{"a":"x \\u0053ECR\\u0045T\\n\\"y\\""}', {"a": 'x [redacted:KEY]\n"y"'}),
    (b'{"SECRET":["SECRET","other"]}', {"[redacted:KEY]": ["[redacted:KEY]", "other"]}),
    (b'{"a":"SECRET","b":"SECRETSECRET"}', {"a": "[redacted:KEY]", "b": "[redacted:KEY][redacted:KEY]"}),
    (b'["\xc3\xa9 SECRET \xe4\xb8\xad \\ud83d\\ude00"]', ["é [redacted:KEY] 中 😀"]),
]


@pytest.mark.parametrize(("raw", "expected"), REDACTED)
def test_what_was_found_is_replaced_and_the_rest_stays(raw: bytes, expected: Any) -> None:
    assert json.loads(redacted(raw, "SECRET")) == expected


def test_a_number_is_replaced_by_the_mark_as_a_string() -> None:
    assert json.loads(redacted(b'{"pin":12345678,"n":[1,12345678]}', "12345678")) == {
        "pin": "[redacted:KEY]",
        "n": [1, "[redacted:KEY]"],
    }


def test_what_reaches_over_several_strings_is_taken_out_of_each() -> None:
    raw = b'["-----BEGIN","MIIE","END-----",1]'
    found = [Finding(raw.index(b"BEGIN"), raw.index(b"END-----") + 3, 2, "private-key")]
    lines = json.loads(strings.redacted(raw, strings.flat(raw), found))
    assert lines == [
        "-----[redacted:private-key]",
        "[redacted:private-key]",
        "[redacted:private-key]-----",
        1,
    ]


@given(JSON, st.booleans(), st.data())
def test_whatever_is_taken_out_the_text_stays_json(value: Any, ascii_only: bool, data: st.DataObject) -> None:
    raw = json.dumps(value, ensure_ascii=ascii_only).encode()
    told = strings.flat(raw)
    places = st.integers(0, len(told.text))
    spans = data.draw(st.lists(st.tuples(places, places), max_size=4))
    found = [Finding(min(pair), max(pair), 1, "KEY") for pair in spans if pair[0] != pair[1]]
    after = json.loads(strings.redacted(raw, told, found))
    if not found:
        assert after == json.loads(raw)


SHOWN = [
    ("plain\ttext\n", "plain\ttext\n"),
    ("in\u200bside", "in[hidden zero-width: U+200B]side"),
    ("\u202egnp.exe", "[hidden bidirectional: U+202E]gnp.exe"),
    ("".join(chr(0xE0000 + ord(c)) for c in "do it"), "[hidden tag: 5 characters]"),
    ("👩\u200d💻", "👩\u200d💻"),
    ("שלום\u200f עולם", "שלום\u200f עולם"),
    ("क्\u200dष", "क्\u200dष"),
    ("soft\u00adhyphen", "soft\u00adhyphen"),
    ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    ("icon \ue0b0", "icon \ue0b0"),
]


@pytest.mark.parametrize(("text", "expected"), SHOWN)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_what_a_person_does_not_see_gets_a_mark(text: str, expected: str, ascii_only: bool) -> None:
    """b25: emoji, right-to-left and Indic text, and what terminals and pages are full of, stay."""
    raw = json.dumps({"a": [text]}, ensure_ascii=ascii_only).encode()
    shown, count = strings.shown(raw)
    assert json.loads(shown) == {"a": [expected]}
    assert bool(count) == (text != expected)
    assert strings.may_hide(strings.flat(raw)) or not count


def test_overlapping_findings_become_one_mark() -> None:
    found = [Finding(5, 9, 2, "github-token"), Finding(2, 7, 1, "KEY"), Finding(20, 22, 2, "jwt")]
    assert [tuple(span) for span in strings.merged(found)] == [
        (2, 9, "[redacted:KEY]"),
        (20, 22, "[redacted:jwt]"),
    ]
