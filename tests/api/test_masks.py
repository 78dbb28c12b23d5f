from __future__ import annotations

import pytest

from mcpd.api.masks import mask_env, mask_headers, mask_url


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("Authorization", "Bearer abc.def", "Bearer [SECRET]"),
        ("authorization", "Basic dXNlcjpwdw==", "Basic [SECRET]"),
        ("AUTHORIZATION", "Digest username=x, response=y", "Digest [SECRET]"),
        ("Authorization", "justatoken", "[SECRET]"),
        ("Authorization", "", "[SECRET]"),
        ("Authorization", " Bearer abc", "[SECRET]"),
        ("Authorization", '"quoted thing" rest', "[SECRET]"),
        ("Authorization", "x" * 33 + " rest", "[SECRET]"),
        ("X-Api-Key", "Bearer abc", "[SECRET]"),
        ("Accept-Language", "en", "[SECRET]"),
    ],
)
def test_header_values_are_masked_always_d12(name: str, value: str, shown: str) -> None:
    assert mask_headers({name: value}) == {name: shown}


def test_env_values_are_masked_typed_or_empty_d12() -> None:
    assert mask_env({"TOKEN": "abc", "LANG": "C", "STORED": ""}) == dict.fromkeys(
        ("TOKEN", "LANG", "STORED"), "[SECRET]"
    )


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:hush@example.com/mcp?x=1", "https://[SECRET]@example.com/mcp?[SECRET]"),
        ("https://hush@[::1]:8443", "https://[SECRET]@[::1]:8443"),
        ("https://user:hu@sh@example.com#f", "https://[SECRET]@example.com"),
        ("https://https@example.com/mcp", "https://[SECRET]@example.com/mcp"),
        ("https://example.com/a@b?c=d@e", "https://example.com/a@b?[SECRET]"),
        ("https://example.com?to=a@b/", "https://example.com?[SECRET]"),
        ("https://example.com/mcp#a?b", "https://example.com/mcp"),
        ("", ""),
    ],
)
def test_credentials_in_a_url_are_masked(url: str, shown: str) -> None:
    assert mask_url(url) == shown
