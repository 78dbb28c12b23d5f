"""The rule by which a run of the suite counts as a pass, which is stricter than the suite's own."""

from __future__ import annotations

import pytest

from tests.conformance.run import judged

GOOD = {"id": "a", "status": "SUCCESS"}
INFO = {"id": "b", "status": "INFO"}
SKIPPED = {"id": "c", "status": "SKIPPED", "errorMessage": "not exercised"}
WARNING = {"id": "d", "status": "WARNING", "errorMessage": "should have"}
FAILURE = {"id": "e", "status": "FAILURE", "errorMessage": "must have"}


@pytest.mark.parametrize("checks", [[GOOD], [INFO, GOOD], [GOOD, SKIPPED]])
def test_a_pass(checks: list[dict[str, str]]) -> None:
    assert judged(0, [checks]) == []


@pytest.mark.parametrize(
    ("code", "files", "why"),
    [
        (0, [[]], "no check succeeded"),
        (0, [[INFO, SKIPPED]], "no check succeeded"),
        (0, [[GOOD, WARNING]], "d: should have"),
        (0, [[GOOD, FAILURE]], "e: must have"),
        (1, [[GOOD]], "exit code 1"),
        (1, [], "0 files of checks, exit code 1"),
        (0, [[GOOD], [GOOD]], "2 files of checks, exit code 0"),
    ],
)
def test_no_pass(code: int, files: list[list[dict[str, str]]], why: str) -> None:
    assert judged(code, files) == [why]


def test_a_warning_that_is_the_adaptors_own() -> None:
    assert judged(0, [[GOOD, WARNING]], may_warn=True) == []
    assert judged(0, [[GOOD, FAILURE]], may_warn=True) == ["e: must have"]
