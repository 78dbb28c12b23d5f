"""The forms of a value, against what others make of it."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.policy.leaks.engine import Engine
from mcpd.policy.leaks.finding import Finding
from mcpd.policy.leaks.forms import forms
from mcpd.policy.leaks.values import Held

VALUES = ["ghs8-Zq/4+1=&<x>", 'with "quotes" and \\', "tr0ub4dor&3", "naïve-väl-ue9", "a1b2c3d4"]


def found(value: str, text: bytes) -> list[Finding]:
    return Engine([Held("github", "TOKEN", value)]).find(text, 1)


def covered(value: str, text: str, secret: str) -> bool:
    """Whether what was found takes the secret's place in the text."""
    raw = text.encode()
    at = raw.index(secret.encode())
    end = at + len(secret.encode())
    return any(each.start <= at and end <= each.end for each in found(value, raw))


@pytest.mark.parametrize("value", VALUES)
def test_each_form_is_found(value: str) -> None:
    raw = value.encode()
    plain = quote(value, safe="")
    written = {
        "raw": value,
        "json": json.dumps(value)[1:-1],
        "json in json": json.dumps(json.dumps({"k": value}))[1:-1][10:-3],
        "php": json.dumps(value, ensure_ascii=False)[1:-1].replace("/", "\\/"),
        "go": json.dumps(value, ensure_ascii=False)[1:-1].replace("&", "\\u0026").replace("<", "\\u003c")
        .replace(">", "\\u003e"),
        "percent": plain,
        "hex": raw.hex(),
        "hex, large": raw.hex().upper(),
    }  # fmt: skip
    for name, secret in written.items():
        assert covered(value, f"before {secret} after", secret), name


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("before", [b"", b"u", b"u:", b"user:", b"three"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_base64_is_found_wherever_the_value_begins(value: str, before: bytes, encode: object) -> None:
    """n17: at each of the three places in a group of three bytes; what depends on the value alone counts."""
    assert callable(encode)
    raw = value.encode()
    text = encode(before + raw + b";more")
    first, last = -(-len(before) * 8 // 6), (len(before) + len(raw)) * 8 // 6
    spans = [(each.start, each.end) for each in found(value, text)]
    assert (first, last) in spans


@given(st.text(st.characters(codec="utf-8", min_codepoint=33), min_size=8, max_size=60))
def test_every_form_of_any_value_is_found_by_itself(value: str) -> None:
    for form in forms(value):
        assert any(each.end - each.start == len(form.pattern) for each in found(value, form.pattern)), form


BROKEN = [
    "tr0ub4\ndor&3-zz",
    "tr0ub4d\r\n    or&3-zz",
    "t\nr0ub4dor&3-zz",
    "tr0ub4dor&3-z\nz",
]


@pytest.mark.parametrize("text", BROKEN)
def test_a_value_broken_into_lines_is_found(text: str) -> None:
    [finding, *_] = found("tr0ub4dor&3-zz", f"x {text} y".encode())
    assert (finding.start, finding.end) == (2, 2 + len(text))


def test_base64_in_lines_is_found() -> None:
    value = "0123456789-abcdefghijkl-MNOPQRSTUV-wxyz-0123456789"
    lines = base64.encodebytes(b"user:name:" + value.encode() * 1)
    assert b"\n" in lines[:-1]
    assert found(value, lines)


def test_blanks_alone_break_nothing() -> None:
    assert not found("tr0ub4dor&3-zz", b"tr0ub4 dor&3-zz")


@pytest.mark.parametrize("at", range(14))
def test_one_other_character_is_another_value(at: int) -> None:
    value = "tr0ub4dor&3-zz"
    other = value[:at] + ("Q" if value[at] != "Q" else "Z") + value[at + 1 :]
    assert not found(value, f"ref {other} done".encode())
