"""The second factor as data: `passphrase.*` (n06)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from mcpd.api import Params


class Passphrase(Params, frozen=True):
    passphrase: Annotated[str, Meta(min_length=1, max_length=1024)]


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    is_set: bool
    set_at: float
    """Seconds since the epoch; 0 where none is set."""
