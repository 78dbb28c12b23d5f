"""URIs of one server among those of many: `mcpd://SERVER/URI`, and back without loss.

Exactly one qualifier is added, also to what looks qualified already: a server may itself be an mcpd.
A URI template is qualified in the same way, and what is made of it maps back like any URI.
"""

from __future__ import annotations

from typing import Final

SCHEME: Final = "mcpd://"


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
