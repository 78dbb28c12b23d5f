"""Values of headers, by the rules of 3.3."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol import headers


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        ("query", "query"),
        ("", ""),
        ("two words", "two words"),
        ('a:b;c,"d"=?', 'a:b;c,"d"=?'),
        ("note:///a%20b?id=1#x", "note:///a%20b?id=1#x"),
        ("Grüße", "=?base64?R3LDvMOfZQ==?="),
        (" a", "=?base64?IGE=?="),
        ("a ", "=?base64?YSA=?="),
        (" ", "=?base64?IA==?="),
        ("a\tb", "=?base64?YQli?="),
        ("a\r\nX-Evil: 1", "=?base64?YQ0KWC1FdmlsOiAx?="),
        ("\x7f", "=?base64?fw==?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
        ("=?BASE64?YQ==?=", "=?BASE64?YQ==?="),
        ("=?base64?=", "=?base64?="),
    ],
)
def test_encoding(value: str, encoded: str) -> None:
    assert headers.encode(value) == encoded
    assert headers.decode(encoded) == value


@given(st.text())
def test_every_value_comes_back(value: str) -> None:
    encoded = headers.encode(value)
    assert headers.decode(encoded) == value
    assert encoded.isascii()
    assert encoded.isprintable()
    assert encoded == encoded.strip()


@pytest.mark.parametrize(
    "value",
    ["=?base64?YQ?=", "=?base64?YR==?=", "=?base64?Y Q==?=", "=?base64?_w==?=", "=?base64?/w==?="],
)
def test_what_is_badly_encoded_has_no_value(value: str) -> None:
    """Padding, other spellings of the same bytes, other alphabets, no UTF-8."""
    assert headers.decode(value) is None


@pytest.mark.parametrize(
    ("name", "token"),
    [
        ("Region", True),
        ("x-y_z.1", True),
        ("", False),
        ("a b", False),
        ("a:b", False),
        ("é", False),
        ("a\n", False),
    ],
)
def test_tokens(name: str, token: bool) -> None:
    assert headers.is_token(name) is token


@pytest.mark.parametrize(
    "name",
    [
        "Content-Type",
        "ACCEPT",
        "Mcp-Session-Id",
        "mcp-protocol-version",
        "MCP-Param-X",
        "Last-Event-ID",
        "Host",
    ],
)
def test_headers_of_the_transport(name: str) -> None:
    assert headers.is_own(name)


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "User-Agent", "Cookie", "Mcpx"])
def test_headers_that_a_definition_may_set(name: str) -> None:
    assert not headers.is_own(name)


@pytest.mark.parametrize(
    ("text", "visible"),
    [("s-41", True), ("!~", True), ("", False), ("a b", False), ("é", False), ("a\n", False)],
)
def test_session_ids_are_visible_ascii(text: str, visible: bool) -> None:
    assert headers.is_visible(text) is visible
