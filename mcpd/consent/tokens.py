"""Bearer tokens of agents for the loopback endpoint (n23): made here, shown once, kept only as hashes.

A token is 256 random bits, so a plain SHA-256 of it can neither be guessed nor be reversed by trying.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

#: By it a person and a scanner for leaked secrets know what this is.
PREFIX = "mcpd_"


def new_token() -> str:
    """A token of 48 characters, fit for a header and for a shell word."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> bytes:
    """What is kept of a token: 32 bytes."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def owner(token: str, digests: Mapping[str, bytes]) -> str:
    """The agent of this token, empty for none; takes as long for a wrong token as for a right one."""
    asked = digest(token)
    found = ""
    for agent, kept in digests.items():
        if hmac.compare_digest(asked, kept):
            found = agent
    return found
