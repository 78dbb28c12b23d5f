"""The headers of Streamable HTTP: their names, and the values that repeat parts of a message (3.2, 3.3)."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

SESSION: Final = "Mcp-Session-Id"
REVISION: Final = "MCP-Protocol-Version"
METHOD: Final = "Mcp-Method"
NAME: Final = "Mcp-Name"
LAST_EVENT: Final = "Last-Event-ID"
#: The header of a mirrored argument begins so.
PARAM: Final = "Mcp-Param-"

#: The member of a request's params that `Mcp-Name` repeats, by method (3.3).
NAMED_BY: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_PLAIN = re.compile(r"[\x20-\x7e]*")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_BEGINNING, _END = "=?base64?", "?="

#: What belongs to the transport: nobody's own header may stand in its place (3.3).
_PROTOCOL = frozenset({"accept", "accept-encoding", "content-type", "content-length", "last-event-id"})
#: What belongs to one connection (RFC 9110 7.6.1) and to how it is made.
_CONNECTION = frozenset({"connection", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"})


def is_token(text: str) -> bool:
    """Whether a header may be named so (RFC 9110 5.6.2)."""
    return _TOKEN.fullmatch(text) is not None


def is_visible(text: str) -> bool:
    """Whether the text is what a session's id must be: visible ASCII, and some of it (3.2)."""
    return _VISIBLE.fullmatch(text) is not None


def is_own(name: str) -> bool:
    """Whether the header belongs to the transport, so that a definition may not set it (3.3)."""
    name = name.lower()
    return name in _PROTOCOL or name in _CONNECTION or name.startswith("mcp-")


def encode(value: str) -> str:
    """A value as it stands in `Mcp-Name` and `Mcp-Param-*`: as is where every hop leaves it so (3.3).

    Lone surrogates, which no message of ours holds, become question marks.
    """
    if _PLAIN.fullmatch(value) and value == value.strip(" ") and not _is_encoded(value):
        return value
    return _BEGINNING + base64.b64encode(value.encode("utf-8", "replace")).decode() + _END


def decode(value: str) -> str | None:
    """The value that such a header stands for; None where it looks encoded and is not."""
    if not _is_encoded(value):
        return value
    coded = value[len(_BEGINNING) : -len(_END)]
    try:
        plain = base64.b64decode(coded, validate=True)
        # A second spelling of the same value would pass a comparison that somebody else makes by letter.
        return plain.decode() if base64.b64encode(plain).decode() == coded else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _is_encoded(value: str) -> bool:
    long_enough = len(value) >= len(_BEGINNING) + len(_END)
    return long_enough and value.startswith(_BEGINNING) and value.endswith(_END)
