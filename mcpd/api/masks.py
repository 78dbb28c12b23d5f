"""How values that may be secret are shown: never (D12)."""

from __future__ import annotations

import re
from collections.abc import Mapping

SECRET = "[SECRET]"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,31}(?= )")
"""The authentication scheme in front of credentials (RFC 9110, 11.4)."""


def mask_env(env: Mapping[str, str]) -> dict[str, str]:
    return dict.fromkeys(env, SECRET)


def mask_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The scheme of `Authorization` stays readable, nothing else does."""
    return {name: _mask_header(name, value) for name, value in headers.items()}


def mask_url(url: str) -> str:
    """The address alone: name and password in front of the host are credentials, and so is many a query."""
    address, query, _ = url.partition("#")[0].partition("?")
    scheme, mark, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    _, at, host = authority.rpartition("@")
    address = f"{scheme}{mark}{SECRET}@{host}{slash}{path}" if mark and at else address
    return f"{address}?{SECRET}" if query else address


def _mask_header(name: str, value: str) -> str:
    scheme = _SCHEME.match(value) if name.lower() == "authorization" else None
    return f"{scheme[0]} {SECRET}" if scheme else SECRET
