"""Pages of lists: what stands beside the entries, whatever those are (5.10, 5.18)."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.protocol.pages import List, Page, read_page

KEYS: dict[List, str] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


@pytest.mark.parametrize("method", get_args(List))
def test_each_list_has_its_own_member(method: List) -> None:
    others = {key: [9] for key in KEYS.values()}
    text = json.dumps(others | {KEYS[method]: [1, 2], "nextCursor": "", "ttlMs": 1500}).encode()
    page = read_page(method, text)
    assert page == Page(b"[1, 2]", "", 1.5)
    assert page.first(5) == ([b"1", b"2"], False)
    assert page.first(1) == ([b"1"], True)
    assert read_page(method, b"{}") == Page(b"[]", None, 0.0)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        (0, 0.0),
        (1, 0.001),
        (86_400_000, 86_400.0),
        (10**14, 86_400.0),
        (10**30, 0.0),
        (-5, 0.0),
        (5.5, 0.0),
        ("5", 0.0),
        (None, 0.0),
        (True, 0.0),
        ([], 0.0),
    ],
)
def test_how_long_a_page_is_fresh(said: Any, seconds: float) -> None:
    page = read_page("tools/list", json.dumps({"tools": [], "ttlMs": said}).encode())
    assert page is not None
    assert page.ttl == seconds


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"7", b'{"nextCursor":5}', b"{", b'{"tools":}'])
def test_what_is_no_page_is_none(text: bytes) -> None:
    assert read_page("tools/list", text) is None


@pytest.mark.parametrize("found", [b"7", b"{}", b"null", b'"x"'])
def test_entries_that_are_no_list_are_none(found: bytes) -> None:
    page = read_page("prompts/list", b'{"prompts":' + found + b"}")
    assert page is not None
    assert page.first(5) is None


@given(st.binary(max_size=60))
def test_any_bytes_are_a_page_or_none(junk: bytes) -> None:
    for text in (junk, b'{"tools":' + junk + b"}", b'{"ttlMs":' + junk + b"}"):
        page = read_page("tools/list", text)
        if page is not None:
            page.first(10)
            assert 0 <= page.ttl <= 86_400
