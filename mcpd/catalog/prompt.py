"""Prompts as servers list them, kept as JSON text (protocol reference 5.4)."""

from __future__ import annotations

import msgspec


class Argument(msgspec.Struct, frozen=True):
    """One argument that a prompt takes."""

    name: str
    required: bool = False


class Prompt(msgspec.Struct, frozen=True):
    """One prompt of one server."""

    name: str
    """The server's own name, exactly."""
    rest: bytes
    """The members of the entry other than `name`, as JSON text without the braces; may be empty."""
    arguments: tuple[Argument, ...] = ()
    """As `rest` has them, too."""

    def entry(self, name: str) -> bytes:
        """The entry as JSON text under the given name; the same for agents of every revision."""
        text = b'{"name":' + msgspec.json.encode(name)
        return text + b"," + self.rest + b"}" if self.rest else text + b"}"
