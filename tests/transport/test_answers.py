"""What statuses and headers mean, as tables."""

from __future__ import annotations

import pytest

from mcpd.protocol.jsonrpc import ErrorObject
from mcpd.transport import answers

URL = "http://127.0.0.1:8931/a/mcp"


@pytest.mark.parametrize(
    ("status", "location", "url"),
    [
        (307, "/mcp/", "http://127.0.0.1:8931/mcp/"),
        (308, "other?x=1#y", "http://127.0.0.1:8931/a/other?x=1"),
        (307, "http://127.0.0.1:8931/b", "http://127.0.0.1:8931/b"),
        (307, "//127.0.0.1:8931/b", "http://127.0.0.1:8931/b"),
        (307, "http://localhost:8931/b", ""),
        (307, "https://127.0.0.1:8931/b", ""),
        (307, "http://127.0.0.1/b", ""),
        (307, "http://me@127.0.0.1:8931/b", ""),
        (307, "", ""),
        (307, "http://[", ""),
        (301, "/mcp/", ""),
        (302, "/mcp/", ""),
        (303, "/mcp/", ""),
        (200, "/mcp/", ""),
    ],
)
def test_only_redirects_that_keep_the_request_and_the_origin_are_followed(
    status: int, location: str, url: str
) -> None:
    assert answers.followed(URL, status, {"location": location}) == url


@pytest.mark.parametrize(
    ("status", "value", "seconds"),
    [
        (429, "0", 0.0),
        (503, " 120 ", 120.0),
        (429, "Thu, 01 Jan 1970 00:20:00 GMT", 200.0),
        (429, "Thu, 01 Jan 1970 00:00:10 GMT", 0.0),
        (429, "", None),
        (429, "-1", None),
        (429, "1.5", None),
        (429, "soon", None),
        (429, "٣", None),
        (429, "9" * 5000, 9999999999.0),
        (429, "Thu, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        (500, "1", None),
        (200, "1", None),
    ],
)
def test_how_long_a_server_asks_to_be_left_alone(status: int, value: str, seconds: float | None) -> None:
    assert answers.pause(status, {"retry-after": value}, now=1000.0) == seconds


SESSION = ErrorObject(-32000, "No valid Session id")
OTHER = ErrorObject(-32602, "bad arguments")
UNKNOWN = ErrorObject(-32601, "Method not found")


@pytest.mark.parametrize(
    ("status", "error", "own", "gone"),
    [
        (404, None, False, True),
        (404, OTHER, True, True),
        (404, UNKNOWN, True, False),
        (404, UNKNOWN, False, True),
        (400, None, False, True),
        (400, OTHER, False, True),
        (400, OTHER, True, False),
        (400, SESSION, True, True),
        (503, SESSION, False, True),
        (503, OTHER, False, False),
        (503, None, False, False),
        (500, SESSION, True, False),
        (405, None, False, False),
    ],
)
def test_what_says_that_a_session_is_gone(
    status: int, error: ErrorObject | None, own: bool, gone: bool
) -> None:
    assert answers.session_gone(status, error, own=own) is gone


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b'{"a":1}\n', b'{"a":1}'),
        (b'\xef\xbb\xbf\r\n{\r\n  "a": 1\r\n}', b'{    "a": 1  }'),
        (b" \t", b""),
    ],
)
def test_bodies_become_one_line(body: bytes, line: bytes) -> None:
    assert answers.one_line(body) == line
