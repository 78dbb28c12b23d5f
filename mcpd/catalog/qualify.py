"""URIs of one server among those of many: `mcpd://SERVER/URI`, and back without loss.

Exactly one qualifier is added, also to what looks qualified already: a server may itself be an mcpd.
A URI template is qualified in the same way, and what is made of it maps back like any URI.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from mcpd.catalog.blocks import BLOCKS, UNREADABLE, with_member
from mcpd.catalog.content import Bounded
from mcpd.catalog.members import split_members
from mcpd.catalog.tool import Tool
from mcpd.errors import Failure
from mcpd.protocol.arrays import elements

SCHEME: Final = "mcpd://"

#: An ASCII letter as an escape, with which "resource" could be written so that only a reader sees it.
_SPELLED = re.compile(rb"\\u00[4-7]")

_TEXT: Final = msgspec.json.Decoder(str)


def qualified(server: str, uri: str) -> str:
    """The URI, or URI template, of a server's own as agents see it beside those of other servers."""
    return f"{SCHEME}{server}/{uri}"


def split(uri: str) -> tuple[str, str] | None:
    """The server and its own URI or template; None for what `qualified` cannot have made.

    What a client's URL type does to a URI on the way (`mcp` 1.x escapes blanks) it does to what
    stands behind the qualifier as it would to the URI alone.
    """
    if not uri.startswith(SCHEME):
        return None
    server, slash, own = uri[len(SCHEME) :].partition("/")
    return (server, own) if server and slash else None


def unqualified(server: str, uri: str) -> str:
    """The server's own URI for one that may be qualified or not; only one qualifier is taken off."""
    found = split(uri)
    return found[1] if found is not None and found[0] == server else uri


def qualify_tool(tool: Tool, server: str) -> Tool:
    """A tool whose view (MCP Apps, 5.17) has a URI as agents see it: it is read as a resource.

    Both spellings are known: `_meta.ui.resourceUri`, and `_meta["ui/resourceUri"]` before it.
    """
    if b"esourceUri" not in tool.rest:
        return tool
    entry = b"{" + tool.rest + b"}"
    meta = split_members(entry).get("_meta", b"")
    changed = _with_uri(meta, "ui/resourceUri", server)
    view = split_members(changed).get("ui", b"") if changed[:1] == b"{" else b""
    inner = _with_uri(view, "resourceUri", server)
    if inner != view:
        changed = with_member(changed, "ui", inner)
    return tool if changed == meta else replace(tool, rest=with_member(entry, "_meta", changed)[1:-1])


def qualify_content(result: Bounded, server: str) -> Bounded:
    """A tools/call result whose links and embedded resources have URIs as agents see them.

    Raises Failure("bad_answer") for a result with more than BLOCKS blocks.
    """
    return _changed(result, "content", _block, server) if _may_link(result.text) else result


def qualify_contents(result: Bounded, server: str) -> Bounded:
    """The same of a resources/read result."""
    return _changed(result, "contents", _resource, server)


def qualify_messages(result: Bounded, server: str) -> Bounded:
    """The same of a prompts/get result."""
    return _changed(result, "messages", _message, server) if _may_link(result.text) else result


def _may_link(text: bytes) -> bool:
    """Whether there may be a block of type "resource" or "resource_link"."""
    return b'"resource' in text or (b"\\u00" in text and _SPELLED.search(text) is not None)


def _changed(result: Bounded, key: str, change: Callable[[bytes, str], bytes], server: str) -> Bounded:
    try:
        items = split_members(result.text).get(key, b"")
        if items[:1] != b"[":
            return result
        found, more = elements(items, BLOCKS)
        if more:
            raise Failure("bad_answer", f"cannot use the server's result: more than {BLOCKS:,} blocks")
        changed = [change(item, server) for item in found]
        if changed == found:
            return result
        text = with_member(result.text, key, b"[" + b",".join(changed) + b"]")
    except UNREADABLE as error:
        raise Failure("bad_answer", f"cannot read the server's result: {error}") from None
    return replace(result, text=text)


def _block(text: bytes, server: str) -> bytes:
    members = split_members(text) if text[:1] == b"{" else {}
    match _string(members.get("type", b"")):
        case "resource_link":
            return _resource(text, server)
        case "resource" if "resource" in members:
            inner = _resource(members["resource"], server)
            return text if inner == members["resource"] else with_member(text, "resource", inner)
    return text


def _resource(text: bytes, server: str) -> bytes:
    return _with_uri(text, "uri", server)


def _with_uri(text: bytes, key: str, server: str) -> bytes:
    """The object with its URI `key` qualified; the same text where it has none."""
    members = split_members(text) if text[:1] == b"{" else {}
    uri = _string(members.get(key, b""))
    if uri is None:
        return text
    return with_member(text, key, msgspec.json.encode(qualified(server, uri)))


def _message(text: bytes, server: str) -> bytes:
    members = split_members(text) if text[:1] == b"{" else {}
    block = members.get("content", b"")
    changed = _block(block, server)
    return text if changed == block else with_member(text, "content", changed)


def _string(text: bytes) -> str | None:
    return _TEXT.decode(text) if text[:1] == b'"' else None
