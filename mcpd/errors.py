"""Every failure a client of mcpd can see, each with a stable kind.

A kind may never change its meaning; texts may. `mcpctl` and other programs
switch on the kind, people read the message, and the hint says what to do next.
"""

from __future__ import annotations

from typing import Any

#: kind -> JSON-RPC code. Codes of mcpd's own lie outside -32768..-32000, so that
#: they cannot be taken for a server's (JSON-RPC 2.0, section 5.1).
KINDS: dict[str, int] = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "unknown_method": -32601,
    "invalid_params": -32602,
    "internal": -32603,
    "header_mismatch": -32020,
    "missing_capability": -32021,
    "unsupported_revision": -32022,
    "no_such_server": 1001,
    "no_such_tool": 1002,
    "no_such_agent": 1003,
    "name_taken": 1004,
    "bad_definition": 1005,
    "config_invalid": 1006,
    "not_writable": 1007,
    "disabled": 1008,
    "denied": 1010,
    "pending": 1011,
    "unavailable": 1012,
    "needs_login": 1013,
    "timed_out": 1014,
    "outcome_unknown": 1015,
    "busy": 1016,
    "server_error": 1017,
    "bad_answer": 1018,
    "cancelled": 1019,
    "too_large": 1020,
    "refused": 1021,
    "api_mismatch": 1022,
    "stopping": 1023,
    "no_such_resource": 1024,
    "no_such_prompt": 1025,
    "no_such_grant": 1026,
    "no_such_session": 1027,
    "no_such_approval": 1028,
    "factor_needed": 1029,
}

#: Verdicts that an agent sees as a result with isError, not as a JSON-RPC error (D13).
VERDICTS = frozenset(
    {
        "denied",
        "disabled",
        "pending",
        "unavailable",
        "needs_login",
        "timed_out",
        "outcome_unknown",
        "busy",
        "bad_answer",
        "stopping",
    }
)


class Failure(Exception):
    """A request that could not be served, in words for the client.

    `data` holds further members for the error's `data` object (server, tool, retry_after ...).
    """

    def __init__(self, kind: str, message: str, *, hint: str = "", **data: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.data = data

    @property
    def code(self) -> int:
        return KINDS[self.kind]

    def again(self) -> Failure:
        """The same failure as a new exception: one that is raised many times would keep every traceback."""
        return Failure(self.kind, self.message, hint=self.hint, **self.data)

    def details(self) -> dict[str, Any]:
        """The `data` member of the JSON-RPC error."""
        out: dict[str, Any] = {"kind": self.kind}
        if self.hint:
            out["hint"] = self.hint
        out.update(self.data)
        return out


class ServerError(Failure):
    """A server's own JSON-RPC error; it passes to the caller unchanged (D13).

    `raw` is the error object's JSON text as the server sent it.
    """

    def __init__(self, raw: bytes, code: int, message: str) -> None:
        super().__init__("server_error", message)
        self.raw = raw
        self.server_code = code
