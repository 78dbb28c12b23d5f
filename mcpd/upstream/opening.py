"""How a stdio connection settles its revision, without I/O (protocol reference 4.1, 4.3, 4.4).

Messages go in, lines to send come out; `settled` or `failed` tells the end. The probe happens in
place: `server/discover` first, `initialize` on the same pipe after any other answer or after a
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
from mcpd.transport.base import ConnectFailed

#: Seconds of silence after the probe before `initialize` follows on the same pipe (4.4).
PROBE_SILENCE = 5.0

UNSUPPORTED_VERSION = -32022

#: Bytes of an answer that settles a revision, which is kept as long as the connection lasts.
LARGEST = 1024 * 1024
#: Characters of instructions, which are kept, cached and sent to every agent that sees the server alone.
INSTRUCTIONS = 64 * 1024

T = TypeVar("T")

_PROBE = b'"mcpd-probe-1"'
_PROBE_AGAIN = b'"mcpd-probe-2"'
_FIRST, _SECOND = b"1", b"2"


class Settled(msgspec.Struct, frozen=True):
    """What both sides agreed on."""

    revision: Revision
    capabilities: dict[str, Any]
    server_info: dict[str, Any]
    instructions: str


class Opening:
    """`era`: what is known of the server ("auto", "legacy", "modern"); `pinned` forbids falling back."""

    def __init__(self, era: str = "auto", *, pinned: bool = False) -> None:
        self._era = era
        self._pinned = pinned
        self._probed = 0
        self._initialized = 0
        self.settled: Settled | None = None
        self.failed: ConnectFailed | None = None
        self._handshaken = False
        """The server has answered `initialize`, so that an exit says nothing about its era."""

    @property
    def fresh_may_help(self) -> bool:
        """The process may have left because of the probe, so that a fresh one, asked in the older way
        at once, does better (4.4)."""
        return self._probed > 0 and not self._handshaken and not self._pinned

    def start(self) -> list[bytes]:
        return self._initialize() if self._era == "legacy" else self._discover()

    def silence(self) -> list[bytes]:
        """The server has kept silent since the probe."""
        if self._pinned or self._initialized or self.settled:
            return []
        return self._initialize()

    def receive(self, message: Message) -> list[bytes]:
        """Take one message; the lines to send in return."""
        if message.method:
            if message.id:
                return [refusal(message)]
            # A notice that the tools have changed comes early; the catalogue that follows covers it.
            return []
        key = message.key.strip(b'"')
        if key in (_PROBE.strip(b'"'), _PROBE_AGAIN.strip(b'"')):
            return self._probe_answered(message)
        if key in (_FIRST, _SECOND):
            self._handshaken = True
            return self._initialize_answered(message)
        return []

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
            return self._fall_back("the server speaks no revision that mcpd knows", bool(found))
        info = found.meta.get(META_SERVER)
        self._settle(revision, found.capabilities, info, found.instructions)
        return []

    def _probe_refused(self, message: Message) -> list[bytes]:
        error = jsonrpc.read_error(bytes(message.error))
        if error.code != UNSUPPORTED_VERSION:
            return self._fall_back(f"the server refused server/discover: {error.words}", False)
        supported = _supported(error)
        mutual = newest_mutual_stateless(supported)
        if mutual is not None and self._probed < 2:
            return self._discover(mutual.name)
        if supported and mutual is None and not any(name in HANDSHAKE for name in supported):
            self._fail(
                f"the server speaks only {', '.join(jsonrpc.words(name, 40) for name in supported[:5])}"
            )
            return []
        return self._fall_back("the server refused every revision it names", True)

    def _fall_back(self, why: str, lasting: bool) -> list[bytes]:
        if self._pinned:
            self._fail(f"the server does not speak {', '.join(STATELESS)}: {why}", lasting=lasting)
            return []
        return [] if self._initialized else self._initialize()

    # ------------------------------------------------------- the handshake

    def _initialize(self, revision: str = NEWEST_HANDSHAKE.name) -> list[bytes]:
        self._initialized += 1
        key = _FIRST if self._initialized == 1 else _SECOND
        return [jsonrpc.request_line(key, "initialize", dialect.initialize_params(revision))]

    def _initialize_answered(self, message: Message) -> list[bytes]:
        if message.error:
            return self._initialize_refused(message)
        found = _read(message, InitializeResult)
        if found is None:
            self._fail("the answer to initialize has no proper shape", lasting=False)
            return []
        name = found.protocol_version
        revision = REVISIONS.get(name) if isinstance(name, str) else None
        if revision is None or revision.stateless:
            self._fail(f"the server answered initialize with the unknown revision {name!r:.60}")
            return []
        self._settle(revision, found.capabilities, found.server_info, found.instructions)
        return [jsonrpc.notification_line("notifications/initialized")]

    def _initialize_refused(self, message: Message) -> list[bytes]:
        error = jsonrpc.read_error(bytes(message.error))
        if error.code == UNSUPPORTED_VERSION and self._probed < 2 and self._era != "legacy":
            # It was modern but slow: the pipe is locked to the stateless era (4.4).
            return self._discover()
        supported = _supported(error)
        mutual = newest_mutual_handshake(supported)
        if mutual is not None and self._initialized < 2:
            return self._initialize(mutual.name)
        if mutual is None and newest_mutual_stateless(supported) is not None and self._probed < 2:
            return self._discover()
        self._fail(f"the server refused initialize: {error.words}", lasting=bool(supported))
        return []

    # ---------------------------------------------------------- the outcome

    def _settle(self, revision: Revision, capabilities: dict[str, Any], info: Any, instructions: Any) -> None:
        if self.settled is None and self.failed is None:
            self.settled = Settled(
                revision,
                capabilities,
                info if isinstance(info, dict) else {},
                instructions[:INSTRUCTIONS] if isinstance(instructions, str) else "",
            )

    def _fail(self, message: str, *, lasting: bool = True) -> None:
        """`lasting`: the revisions do not meet, and trying again cannot change that (D8)."""
        if self.settled is None:
            reason: Reason = "no_common_revision" if lasting else "failed"
            self.failed = ConnectFailed(reason, message, lasting=lasting)


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
