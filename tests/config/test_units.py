from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpd.config import units


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("60s", 60.0),
        ("15m", 900.0),
        ("2h", 7200.0),
        ("500ms", 0.5),
        ("1d", 86400.0),
        ("1.5h", 5400.0),
        ("1.5 h", 5400.0),
        ("30", 30.0),
        ("0", 0.0),
        (0, 0.0),
        (45, 45.0),
        (2.5, 2.5),
    ],
)
def test_durations(value: object, expected: float) -> None:
    assert units.seconds(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(
            "sixty",
            "",
            " ",
            "60 s ",
            "-1s",
            "+1s",
            "1e3s",
            "1_0s",
            "60x",
            "s",
            ".5s",
            "1.s",
            "9" * 16 + "s",
            "٣s",
        ),
        *(-1, -0.5, True, None, [], float("nan"), float("inf"), 10**400, "3651d", 1e17),
    ],
)
def test_what_is_no_duration(value: object) -> None:
    with pytest.raises(ValueError, match="expected a duration"):
        units.seconds(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        # D9: a result is at most 102,400 bytes, written "100 KB" in the built-in values.
        ("100 KB", 102_400),
        ("100kb", 102_400),
        ("16 MB", 16 * 1024 * 1024),
        ("1 GB", 1 << 30),
        ("1 KiB", 1024),
        ("1.5 KB", 1536),
        ("10 B", 10),
        ("10", 10),
        (0, 0),
        (102_400, 102_400),
    ],
)
def test_sizes(value: object, expected: int) -> None:
    assert units.size(value) == expected


@pytest.mark.parametrize("value", ["", "much", "1 TB", "-1 KB", "60s", True, None, {}, -5, "999999999999 GB"])
def test_what_is_no_size(value: object) -> None:
    with pytest.raises(ValueError, match="expected a"):
        units.size(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("90d, 500 MB", (90, 500 << 20)),
        ("500 MB, 90d", (90, 500 << 20)),
        ("30d", (30, None)),
        ("1 GB", (None, 1 << 30)),
        ("90d, 0", (90, 0)),
        ("0, 1 GB", (0, 1 << 30)),
        ("12h", (1, None)),
    ],
)
def test_retention(value: object, expected: tuple[int | None, int | None]) -> None:
    assert units.retention(value) == expected


@pytest.mark.parametrize("value", ["", "x", "90d,", "90d, 30d", "1 MB, 2 MB", "1d, 1 MB, 1d", 90, None])
def test_what_is_no_retention(value: object) -> None:
    with pytest.raises(ValueError, match="expected a"):
        units.retention(value)


@given(st.text() | st.integers() | st.floats() | st.from_regex(r"[0-9.]{0,20} ?[a-zA-Z]{0,4}"))
def test_any_value_is_a_sane_amount_or_refused(value: object) -> None:
    for read, most in ((units.seconds, units.MAX_SECONDS), (units.size, units.MAX_BYTES)):
        try:
            amount = read(value)
        except ValueError:
            continue
        assert 0 <= amount <= most
