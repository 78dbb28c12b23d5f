"""How a connection settles its revision, without I/O (protocol reference 3.6, 4.1, 4.3 to 4.5).

Messages go in, lines to send come out; `settled` or `failed` tells the end. The probe happens in
place: `server/discover` first, `initialize` on the same pipe or URL after any other answer or after a
silence, and the first usable answer decides.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mcpd.api.status import Reason
from mcpd.protocol import dialect, jsonrpc
from mcpd.protocol.jsonrpc import Message
from mcpd.protocol.revisions import (
    HANDSHAKE,
    NEWEST_HANDSHAKE,
    NEWEST_STATELESS,
    REVISIONS,
    STATELESS,
    Revision,
    newest_mutual_handshake,
    newest_mutual_stateless,
)
from mcpd.protocol.shapes import (
    META_SERVER,
    DiscoverResult,
    InitializeResult,
    UnsupportedVersion,
    read_result,
)
from mcpd.transport.base import ConnectFailed, ConnectionLost, Unanswered

#: Seconds of silence after the probe before `initialize` follows on the same pipe (4.4).
PROBE_SILENCE = 5.0

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)
"""Only a server of the stateless era answers so (4.5)."""

#: What ends an attempt over HTTP; it says nothing about the era (3.6).
FINAL: frozenset[Reason] = frozenset({"unreachable", "not_responding", "needs_auth", "access_denied"})

#: HTTP statuses of a server that has too much to do, which say nothing about the era either.
BUSY = (429, 503)

#: Bytes of an answer that settles a revision, which is kept as long as the connection lasts.
LARGEST = 1024 * 1024
#: Characters of instructions, which are kept, cached and sent to every agent that sees the server alone.
INSTRUCTIONS = 64 * 1024

T = TypeVar("T")

_PROBE = b'"mcpd-probe-1"'
_PROBE_AGAIN = b'"mcpd-probe-2"'
_FIRST, _SECOND = b"1", b"2"
_PROBES = (jsonrpc.bare(_PROBE), jsonrpc.bare(_PROBE_AGAIN))
_KEYS = (*_PROBES, _FIRST, _SECOND)


class Settled(msgspec.Struct, frozen=True):
    """What both sides agreed on."""

    revision: Revision
    capabilities: dict[str, Any]
    server_info: dict[str, Any]
    instructions: str


class Opening:
    """`era`: what is known of the server ("auto", "legacy", "modern"); `pinned`: no other one is tried;
    `capabilities`: what a handshake declares."""

    def __init__(
        self, era: str = "auto", *, pinned: bool = False, capabilities: dict[str, Any] | None = None
    ) -> None:
        self._era = era
        self._capabilities = capabilities or {}
        self._pinned = pinned
        self._probed = 0
        self._initialized = 0
        self._refused = False
        """The server has said no to `initialize`, in one way or another."""
        self._doubtful = False
        """The server may be of the stateless era all the same: something on the way spoilt the probe."""
        self.older_may_help = False
        """`initialize` was refused as servers of the old HTTP+SSE transport do (3.6)."""
        self.heard: list[tuple[str, str]] = []
        """Each method that was refused, and what came instead of its answer, in words."""
        self.settled: Settled | None = None
        self.failed: ConnectFailed | None = None
        self._handshaken = False
        """The server has answered `initialize`, so that an exit says nothing about its era."""

    @property
    def fresh_may_help(self) -> bool:
        """The process may have left because of the probe, so that a fresh one, asked in the older way
        at once, does better (4.4)."""
        return self._probed > 0 and not self._handshaken and not self._pinned

    @property
    def verdict(self) -> str:
        """The era to remember: "legacy", "modern", or "auto" where nothing is proved (4.5, 4.6)."""
        if self.settled is None:
            return "auto"
        if self.settled.revision.stateless:
            return "modern"
        return "auto" if self._doubtful else "legacy"

    def start(self) -> list[bytes]:
        return self._initialize() if self._era == "legacy" else self._discover()

    def silence(self) -> list[bytes]:
        """The server has kept silent since the probe."""
        if self._pinned or self._initialized or self.settled:
            return []
        return self._initialize()

    def receive(self, message: Message, on: bytes = b"") -> list[bytes]:
        """Take one message; the lines to send in return.

        `on`: the request on whose own stream it came; an error without a proper id belongs to it (2).
        """
        if message.method:
            if message.id:
                return [refusal(message)]
            # A notice that the tools have changed comes early; the catalogue that follows covers it.
            return []
        key = jsonrpc.bare(message.key)
        if message.error and key not in _KEYS:
            key = jsonrpc.bare(on)
        if key in _PROBES:
            return self._probe_answered(message)
        if key in (_FIRST, _SECOND):
            self._handshaken = True
            return self._initialize_answered(message)
        return []

    def unanswered(self, key: bytes, failure: Unanswered | ConnectionLost) -> list[bytes]:
        """The transport brings no answer to the request `key`; the lines that are sent then (3.6).

        An answer that is no JSON-RPC (a status, a redirect, a page) to the probe leads to `initialize`;
        connections that fail, timeouts and refused logins end the attempt.
        """
        key = jsonrpc.bare(key)
        if self.settled is not None or key not in _KEYS:
            return []
        if isinstance(failure, ConnectionLost):
            self._fail(failure.message or "the connection ended", "unreachable")
            return []
        if failure.reason in FINAL or (not failure.status and failure.reason != "bad_answer"):
            self.failed = ConnectFailed(
                failure.reason, failure.message, lasting=failure.reason in ("needs_auth", "access_denied")
            )
            return []
        if key in _PROBES:
            self._doubtful = failure.status in BUSY
            self.heard.append(("server/discover", failure.message))
            return self._fall_back(failure.message, failure.reason)
        if failure.status == 400 and self._initialized < 2:
            # Some refuse what is newer than they are by a page instead of an answer.
            named = [name for name in HANDSHAKE if name in failure.message]
            return self._initialize((named or HANDSHAKE[:-1])[-1])
        self.heard.append(("initialize", failure.message))
        self.older_may_help = 400 <= failure.status < 500
        return self._handshake_refused(failure.message, failure.reason)

    # ------------------------------------------------------------ the probe

    def _discover(self, revision: str = NEWEST_STATELESS.name) -> list[bytes]:
        self._probed += 1
        params = dialect.params(b"", dialect.standing_meta(REVISIONS[revision]))
        key = _PROBE if self._probed == 1 else _PROBE_AGAIN
        return [jsonrpc.request_line(key, "server/discover", params)]

    def _probe_answered(self, message: Message) -> list[bytes]:
        if message.error:
            return self._probe_refused(message)
        found = _read(message, DiscoverResult)
        revision = newest_mutual_stateless(found.supported_versions) if found else None
        if found is None or revision is None:
            reason: Reason = "no_common_revision" if found else "failed"
            return self._fall_back("the server speaks no revision that mcpd knows", reason)
        info = found.meta.get(META_SERVER)
        self._settle(revision, found.capabilities, info, found.instructions)
        return []

    def _probe_refused(self, message: Message) -> list[bytes]:
        error = jsonrpc.read_error(bytes(message.error))
        if error.code != UNSUPPORTED_VERSION:
            self._doubtful = error.code in MODERN_ERRORS
            self.heard.append(("server/discover", error.words))
            return self._fall_back(f"the server refused server/discover: {error.words}", "failed")
        supported = _supported(error)
        mutual = newest_mutual_stateless(supported)
        if mutual is not None and self._probed < 2:
            return self._discover(mutual.name)
        if supported and mutual is None and not any(name in HANDSHAKE for name in supported):
            names = ", ".join(jsonrpc.words(name, 40) for name in supported[:5])
            self._fail(f"the server speaks only {names}", "no_common_revision")
            return []
        return self._fall_back("the server refused every revision it names", "no_common_revision")

    def _fall_back(self, why: str, reason: Reason) -> list[bytes]:
        if self._pinned:
            self._fail(f"the server does not speak {', '.join(STATELESS)}: {why}", reason)
        elif not self._initialized:
            return self._initialize()
        elif self._refused:
            self._fail(why, reason)
        # Else the answer to `initialize` is still to come.
        return []

    # ------------------------------------------------------- the handshake

    def _initialize(self, revision: str = NEWEST_HANDSHAKE.name) -> list[bytes]:
        self._initialized += 1
        key = _FIRST if self._initialized == 1 else _SECOND
        return [
            jsonrpc.request_line(key, "initialize", dialect.initialize_params(revision, self._capabilities))
        ]

    def _initialize_answered(self, message: Message) -> list[bytes]:
        if message.error:
            return self._initialize_refused(message)
        found = _read(message, InitializeResult)
        if found is None:
            self._fail("the answer to initialize has no proper shape", "failed")
            return []
        name = found.protocol_version
        revision = REVISIONS.get(name) if isinstance(name, str) else None
        if revision is None or revision.stateless:
            what = f"the unknown revision {name!r:.60}" if name is not None else "no revision"
            self._fail(f"the server answered initialize with {what}", "no_common_revision")
            return []
        self._settle(revision, found.capabilities, found.server_info, found.instructions)
        return [jsonrpc.notification_line("notifications/initialized")]

    def _initialize_refused(self, message: Message) -> list[bytes]:
        error = jsonrpc.read_error(bytes(message.error))
        supported = _supported(error)
        mutual = newest_mutual_handshake(supported)
        modern = newest_mutual_stateless(supported) is not None and mutual is None
        slow = error.code == UNSUPPORTED_VERSION and self._era != "legacy"
        if (modern or slow) and self._may_probe(2):
            # It was modern but slow: the pipe is locked to the stateless era (4.4).
            self._refused = True
            return self._discover()
        if mutual is not None and self._initialized < 2:
            return self._initialize(mutual.name)
        self.heard.append(("initialize", error.words))
        self.older_may_help = not supported and error.code not in MODERN_ERRORS
        reason: Reason = "no_common_revision" if supported else "failed"
        return self._handshake_refused(f"the server refused initialize: {error.words}", reason)

    def _handshake_refused(self, why: str, reason: Reason) -> list[bytes]:
        self._refused = True
        if self._may_probe(1):
            # What was remembered of the server does not hold any more (4.6).
            return self._discover()
        self._fail(why, reason)
        return []

    def _may_probe(self, times: int) -> bool:
        return self._probed < times and not self._pinned

    # ---------------------------------------------------------- the outcome

    def _settle(self, revision: Revision, capabilities: dict[str, Any], info: Any, instructions: Any) -> None:
        if self.settled is None and self.failed is None:
            self.settled = Settled(
                revision,
                capabilities,
                info if isinstance(info, dict) else {},
                instructions[:INSTRUCTIONS] if isinstance(instructions, str) else "",
            )

    def _fail(self, message: str, reason: Reason) -> None:
        """Revisions that do not meet are lasting: trying again cannot change that (D8)."""
        if self.settled is None:
            self.failed = ConnectFailed(reason, message, lasting=reason == "no_common_revision")


def refusal(message: Message) -> bytes:
    """The answer to a server's request that mcpd serves itself: ping, else "method not found" (2, 5.7)."""
    if message.method == "ping":
        return jsonrpc.result_line(message.key, b"{}")
    error = jsonrpc.error_text(-32601, f"method not found: {message.method[:100]}")
    return jsonrpc.error_line(message.key, error)


def _read(message: Message, shape: type[T]) -> T | None:
    result = bytes(message.result)
    return read_result(result, shape) if 0 < len(result) <= LARGEST else None


def _supported(error: jsonrpc.ErrorObject) -> list[str]:
    data = read_result(bytes(error.data), UnsupportedVersion) if error.data else None
    return (data.supported if data else None) or []
