"""What can be said about one server's live side (c10, c11, c14)."""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal[
    "disabled",
    "idle",
    "connecting",
    "connected",
    "restarting",
    "failed",
    "crashed",
    "needs_auth",
    "waiting_secrets",
    "held",
]

Reason = Literal[
    "",
    "unreachable",
    "access_denied",
    "needs_auth",
    "session_lost",
    "too_many_instances",
    "not_responding",
    "failed",
    "bad_definition",
    "unset_variable",
    "command_not_found",
    "not_executable",
    "exited",
    "no_common_revision",
    "bad_answer",
]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot; the owner replaces it whole. Times are seconds since the epoch, 0 = never."""

    state: State = "idle"
    reason: Reason = ""
    error: str = ""
    """Why the last attempt failed; it stays while a new attempt runs (c14)."""
    tools: int = 0
    revision: str = ""
    pid: int = 0
    last_attempt: float = 0.0
    last_success: float = 0.0
    last_failure: float = 0.0
    latency: float = 0.0
    """Seconds that the last successful attempt took, from the start to the catalogue."""
    attempts: int = 0
    """Failed attempts in a row."""
    retry_at: float = 0.0
    """When the next attempt is due by itself."""
