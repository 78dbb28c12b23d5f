"""The table of exit codes is the contract of DESIGN 9."""

from __future__ import annotations

import pytest

from mcpctl.errors import CODES, CallError
from mcpd.errors import KINDS


def test_every_kind_of_the_daemon_has_a_code() -> None:
    assert set(KINDS) <= set(CODES)


def test_no_code_that_is_not_documented() -> None:
    assert set(CODES.values()) <= {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 130}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("usage", 2),
        ("invalid_params", 2),
        ("not_running", 3),
        ("refused", 4),
        ("denied", 5),
        ("pending", 5),
        ("no_such_server", 6),
        ("no_such_tool", 6),
        ("no_such_agent", 6),
        ("timed_out", 7),
        ("api_mismatch", 8),
        ("busy", 10),
        ("stopping", 10),
        ("needs_login", 11),
        ("unavailable", 12),
        ("server_error", 1),
        ("a_kind_of_a_later_daemon", 1),
    ],
)
def test_exit_code(kind: str, code: int) -> None:
    assert CallError(kind, "text").exit_code == code


def test_the_daemons_answers_and_transport_faults_share_no_code() -> None:
    own = {CODES[kind] for kind in ("not_running", "connection_lost")}
    assert not own & {CODES[kind] for kind in KINDS}
