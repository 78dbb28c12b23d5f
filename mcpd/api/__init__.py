"""The control API as data: one module of structs per noun, shared by daemon and documentation.

Within one API number only additions are made. Unknown members of params are refused by name;
a client ignores members of results that it does not know.
"""

from __future__ import annotations

import msgspec

API_MIN = 1
API_MAX = 1


class Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a method takes; params of methods without any are this."""


class Empty(msgspec.Struct, frozen=True):
    """The result of methods that only do something."""
