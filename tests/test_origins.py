from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.origins import Origin, proxy_for

TARGET = Origin("https", "mcp.corp.example", 443)
PROXY = "http://proxy.example:3128"
NONE = ("", "")

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join).filter(lambda name: not name[-1].isdigit())
PORTS = st.integers(1, 65535)


def by_proxy(target: Origin, no_proxy: str) -> bool:
    found = proxy_for(target, {"https_proxy": PROXY, "http_proxy": PROXY, "NO_PROXY": no_proxy})
    assert found in (NONE, ("https_proxy", PROXY), ("http_proxy", PROXY))
    return found != NONE


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (TARGET, "https://mcp.corp.example"),
        (Origin("http", "a", 80), "http://a"),
        (Origin("http", "a", 443), "http://a:443"),
        (Origin("http", "::1", 80), "http://[::1]"),
        (Origin("https", "::1", 80), "https://[::1]:80"),
    ],
)
def test_an_origin_is_written_as_a_url_without_a_default_port(target: Origin, text: str) -> None:
    assert str(target) == text


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, NONE),
        ({"HTTPS_PROXY": "http://a"}, ("HTTPS_PROXY", "http://a")),
        ({"https_proxy": "http://a", "HTTPS_PROXY": "http://b"}, ("https_proxy", "http://a")),
        ({"https_proxy": "", "HTTPS_PROXY": "http://b"}, NONE),
        ({"http_proxy": "http://a", "HTTP_PROXY": "http://a"}, NONE),
        ({"all_proxy": "http://a"}, ("all_proxy", "http://a")),
        ({"ALL_PROXY": " http://a "}, ("ALL_PROXY", "http://a")),
        ({"ALL_PROXY": "http://a", "HTTPS_PROXY": "http://b"}, ("HTTPS_PROXY", "http://b")),
        ({"ALL_PROXY": "http://a", "NO_PROXY": "*"}, NONE),
        ({"ALL_PROXY": "http://a", "no_proxy": "", "NO_PROXY": "*"}, ("ALL_PROXY", "http://a")),
        ({"ALL_PROXY": "http://a", "no_proxy": "*", "NO_PROXY": "other"}, NONE),
    ],
)
def test_variables_in_both_cases_and_their_order(environ: dict[str, str], expected: tuple[str, str]) -> None:
    assert proxy_for(TARGET, environ) == expected


def test_each_scheme_has_its_variable() -> None:
    environ = {"HTTP_PROXY": "http://a", "HTTPS_PROXY": "http://b"}
    assert proxy_for(TARGET._replace(scheme="http"), environ) == ("HTTP_PROXY", "http://a")


@pytest.mark.parametrize(
    "host", ["localhost", "dev.localhost", "127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::ffff:127.0.0.1"]
)
def test_loopback_goes_through_no_proxy(host: str) -> None:
    assert not by_proxy(Origin("http", host, 8080), "")


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("mcp.corp.example", "mcp.corp.example", True),
        ("mcp.corp.example", "corp.example", True),
        ("mcp.corp.example", ".corp.example", True),
        ("mcp.corp.example", "*.corp.example", True),
        ("mcp.corp.example", "a, b ,*.Corp.Example", True),
        ("mcp.corp.example", "a b mcp.corp.example.", True),
        ("mcp.corp.example.", "corp.example", True),
        ("mcp.corp.example", "orp.example", False),
        ("mcp.corp.example", "x.mcp.corp.example", False),
        ("mcp.corp.example", "mcp.corp.example:443", True),
        ("mcp.corp.example", "mcp.corp.example:8443", False),
        ("mcp.corp.example", "*:443", True),
        ("mcp.corp.example", "*:80", False),
        ("mcp.corp.example", "", False),
        ("mcp.corp.example", ",, ,", False),
        ("mcp.corp.example", ".", False),
        ("mcp.corp.example", "*.", False),
        ("mcp.corp.example", "0.0.0.0/0,::/0", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.3:443", True),
        ("10.1.2.3", "10.1.2.3:80", False),
        ("10.1.2.3", "10.9.9.9/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "1.2.3", False),
        ("::ffff:10.1.2.3", "10.0.0.0/8", True),
        ("fd00::7", "fd00::7", True),
        ("fd00::7", "[fd00::7]", True),
        ("fd00::7", "[fd00::7]:443", True),
        ("fd00::7", "[fd00::7]:80", False),
        ("fd00::7", "fd00:0:0::7", True),
        ("fd00::7", "fd00::/8", True),
        ("fd00::7", "[::1]", False),
        ("fd00::7", "[fd00::7", False),
        ("fd00::7", "10.0.0.0/8", False),
    ],
)
def test_forms_of_no_proxy(host: str, no_proxy: str, direct: bool) -> None:
    assert by_proxy(Origin("https", host, 443), no_proxy) is not direct


@given(NAMES, PORTS, st.text())
def test_no_text_in_no_proxy_is_an_error(host: str, port: int, text: str) -> None:
    by_proxy(Origin("https", host, port), text)
    by_proxy(Origin("https", "fd00::7", port), text)


@given(NAMES, LABELS, PORTS, st.lists(NAMES, max_size=3))
def test_a_name_covers_itself_and_what_is_below_it(
    name: str, label: str, port: int, others: list[str]
) -> None:
    no_proxy = ",".join([*others, name.upper()])
    assert not by_proxy(Origin("https", name, port), no_proxy)
    assert not by_proxy(Origin("https", f"{label}.{name}", port), no_proxy)
    if not any(f".{label}{name}".endswith(f".{other}") for other in [*others, "localhost"]):
        assert by_proxy(Origin("https", f"{label}{name}", port), no_proxy)


@given(st.ip_addresses(), st.integers(0, 128), st.ip_addresses())
def test_a_block_covers_its_addresses(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
    length: int,
    other: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    block = ipaddress.ip_network((address, min(length, address.max_prefixlen)), strict=False)
    if getattr(address, "ipv4_mapped", None) is None:
        assert not by_proxy(Origin("https", str(address), 443), str(block))
    if getattr(other, "ipv4_mapped", None) is None and not other.is_loopback and not other.is_unspecified:
        assert by_proxy(Origin("https", str(other), 443), str(block)) is (other not in block)
