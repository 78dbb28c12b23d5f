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


def test_what_the_adaptor_is_warned_of_counts_by_the_suites_own_rule() -> None:
    assert judged(0, [[INFO, WARNING]], by_suite=True) == []
    assert judged(1, [[GOOD, FAILURE]], by_suite=True) == ["e: must have", "exit code 1"]
