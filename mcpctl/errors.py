"""What can go wrong, and the exit code that says it. The one place where kinds become codes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DONE = 0
FAILED = 1
USAGE = 2
NOT_RUNNING = 3
REFUSED = 4
DENIED = 5
NOT_FOUND = 6
TIMED_OUT = 7
API_MISMATCH = 8
TOOL_ERROR = 9
TRY_AGAIN = 10
LOGIN_NEEDED = 11
UNAVAILABLE = 12
INTERRUPTED = 130

#: kind -> exit code; a kind that is not here means FAILED. The first block is mcpctl's own,
#: the second the daemon's (its catalogue of kinds is mcpd/errors.py).
CODES = {
    "usage": USAGE,
    "not_running": NOT_RUNNING,
    "connection_lost": NOT_RUNNING,
    "foreign_socket": REFUSED,
    # ----
    "api_mismatch": API_MISMATCH,
    "bad_answer": FAILED,
    "bad_definition": FAILED,
    "busy": TRY_AGAIN,
    "cancelled": FAILED,
    "config_invalid": FAILED,
    "denied": DENIED,
    "disabled": UNAVAILABLE,
    "factor_needed": REFUSED,
    "header_mismatch": FAILED,
    "internal": FAILED,
    "invalid_params": USAGE,
    "invalid_request": FAILED,
    "missing_capability": FAILED,
    "name_taken": FAILED,
    "needs_login": LOGIN_NEEDED,
    "no_such_agent": NOT_FOUND,
    "no_such_grant": NOT_FOUND,
    "no_such_approval": NOT_FOUND,
    "no_such_prompt": NOT_FOUND,
    "no_such_resource": NOT_FOUND,
    "no_such_server": NOT_FOUND,
    "no_such_session": NOT_FOUND,
    "no_such_tool": NOT_FOUND,
    "not_writable": FAILED,
    "outcome_unknown": FAILED,
    "parse_error": FAILED,
    "pending": DENIED,
    "refused": REFUSED,
    "server_error": FAILED,
    "stopping": TRY_AGAIN,
    "timed_out": TIMED_OUT,
    "too_large": FAILED,
    "unavailable": UNAVAILABLE,
    "unknown_method": FAILED,
    "unsupported_revision": FAILED,
}


class CallError(Exception):
    """A request that was not served: the daemon's own error, or that it could not be asked.

    `kind` is a stable word (`CODES` lists them); `data` has the other members of the error's data.
    """

    def __init__(
        self, kind: str, message: str, hint: str = "", data: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.data = dict(data or {})

    @property
    def exit_code(self) -> int:
        return CODES.get(self.kind, FAILED)
