"""Moments as options name them (`mcpctl.commands.moment`)."""

from __future__ import annotations

import time

import pytest

from mcpctl.commands import moment
from mcpctl.errors import CallError


@pytest.mark.parametrize(("text", "ago"), [("30m", 1800.0), ("2h", 7200.0), ("3d", 259200.0), ("45s", 45.0)])
def test_a_time_ago(text: str, ago: float) -> None:
    assert moment(text, 1e9) == 1e9 - ago


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("2026-11-30", (2026, 11, 30, 0, 0, 0)),
        ("2026-11-30 14:05", (2026, 11, 30, 14, 5, 0)),
        ("2026-11-30T14:05:09", (2026, 11, 30, 14, 5, 9)),
        ("14:05", (2026, 7, 1, 14, 5, 0)),
        ("14:05:09", (2026, 7, 1, 14, 5, 9)),
    ],
)
def test_a_moment_of_local_time(text: str, parts: tuple[int, ...]) -> None:
    now = time.mktime((2026, 7, 1, 20, 0, 0, 0, 0, -1))
    assert moment(text, now) == time.mktime(time.struct_time((*parts, 0, 0, -1)))


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "25:00", "-5m", "2026-11-30 14"])
def test_no_time(text: str) -> None:
    with pytest.raises(CallError) as caught:
        moment(text, 1e9)
    assert caught.value.kind == "usage"


def test_nothing_said() -> None:
    assert moment(None, 1e9) == 0
