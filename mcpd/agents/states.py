"""Values of mcpd's own that an agent keeps and hands back: cursors and request states (n03).

Each is a text and its authentication code, which binds it to what it was made for. They are good for
this run of the daemon alone, whose secret they are made with.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

import msgspec

from mcpd.errors import Failure


def seal(secret: bytes, text: str, *bound: str | int) -> str:
    """`text` may be read by who holds the value, and is of use only together with the same `bound`."""
    return f"{text}.{_code(secret, text, bound)}"


def unseal(secret: bytes, value: str, *bound: str | int) -> str | None:
    """The text; None for whatever was not sealed with this secret for just this."""
    text, dot, code = value.rpartition(".")
    # As bytes: for text, compare_digest takes nothing but ASCII.
    given = code.encode("utf-8", "surrogatepass")
    if dot and text.isascii() and hmac.compare_digest(given, _code(secret, text, bound).encode()):
        return text
    return None


def _code(secret: bytes, text: str, bound: tuple[str | int, ...]) -> str:
    whole = msgspec.json.encode((text, *bound))
    return hashlib.blake2b(whole, key=secret, digest_size=16).hexdigest()


def seal_round(secret: bytes, text: str, session: str, request: tuple[str, str]) -> str:
    """A request state: good for the same session and the same request alone (8.2).

    `request`: its method and a digest of all that it asks for.
    """
    coded = base64.urlsafe_b64encode(text.encode()).decode()
    return seal(secret, coded, "round", session, *request)


def read_round(secret: bytes, state: str, session: str, request: tuple[str, str]) -> str:
    """Raises Failure `invalid_params` for a state that was not made for just this request."""
    coded = unseal(secret, state, "round", session, *request)
    if coded is None:
        raise unknown()
    return base64.urlsafe_b64decode(coded).decode()


def unknown() -> Failure:
    return Failure(
        "invalid_params",
        "unknown, altered or outdated requestState",
        hint="send the request without it again",
    )
