"""Resources and resource templates as servers list them, kept as JSON text (protocol reference 5.3)."""

from __future__ import annotations

import msgspec


class Resource(msgspec.Struct, frozen=True):
    """One resource of one server."""

    uri: str
    """The server's own URI, exactly."""
    rest: bytes
    """The members of the entry other than `uri`, as JSON text without the braces."""

    def entry(self, uri: str) -> bytes:
        """The entry as JSON text under the given URI; the same for agents of every revision."""
        return b'{"uri":' + msgspec.json.encode(uri) + b"," + self.rest + b"}"


class Template(msgspec.Struct, frozen=True):
    """One resource template of one server."""

    uri_template: str
    """The server's own URI template (RFC 6570), exactly."""
    rest: bytes
    """The members of the entry other than `uriTemplate`, as JSON text without the braces."""

    def entry(self, uri_template: str) -> bytes:
        """The entry as JSON text under the given template; the same for agents of every revision."""
        return b'{"uriTemplate":' + msgspec.json.encode(uri_template) + b"," + self.rest + b"}"
