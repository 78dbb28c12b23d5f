"""The configuration before it counts: `config.check`."""

from __future__ import annotations

from typing import Annotated

import msgspec

from mcpd.api import Params


class CheckText(Params, frozen=True, kw_only=True):
    file: Annotated[str, msgspec.Meta(max_length=4096)]
    """Its absolute path, which tells what it is: a file in `agents.d` is an agent's, one in `servers.d` a
    server's, any other one config.toml. It is not read."""
    text: Annotated[str, msgspec.Meta(max_length=1 << 20)]
    """What stands in it."""


class Finding(msgspec.Struct, frozen=True):
    file: str
    """The checked one as it was named, or another one that does not go with it."""
    line: int
    """From 1; 0 where it has none."""
    place: str
    """Dotted, as TOML writes keys; empty for the whole file."""
    message: str
    certain: bool
    """It is wrong, and what is wrong does not count or closes what it is about; else it may be meant so."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    taken_for: str
    """The file whose place the text was checked in."""
    findings: tuple[Finding, ...]
