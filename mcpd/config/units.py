"""Durations and sizes as people write them.

Pure. A duration is "60s", "15m", "2h", "500ms", "1d" or a plain number of seconds; a
size is "100 KB" (1 KB = 1,024 bytes, as in D9's 102,400) or a plain number of bytes.
0 switches a limit off (D9).
"""

from __future__ import annotations

import math
import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
#: At most 15 digits and 6 decimals: no input is slow or overflows.
_AMOUNT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]{0,3})", re.ASCII)

MAX_SECONDS = 3650 * 86400.0
"""Ten years: more is a slip of the pen, and timers cannot hold any number."""
MAX_BYTES = 1 << 50
DAY = 86400.0


def seconds(value: object) -> float:
    """A duration in seconds. Raises ValueError with what was expected."""
    amount = _amount(value, _SECONDS, "s")
    if amount is None:
        raise ValueError('expected a duration like "60s"')
    if amount > MAX_SECONDS:
        raise ValueError('expected a duration of at most ten years ("3650d"; 0 for no limit)')
    return amount


def size(value: object) -> int:
    """A number of bytes. Raises ValueError with what was expected."""
    amount = _amount(value, _BYTES, "b")
    if amount is None:
        raise ValueError('expected a size like "100 KB"')
    if amount > MAX_BYTES:
        raise ValueError("expected a smaller size (0 for no limit)")
    return round(amount)


def retention(value: object) -> tuple[int | None, int | None]:
    """Whole days and bytes of "90d, 500 MB", None for the part not given; 0 is no limit.

    Raises ValueError with what was expected.
    """
    days: int | None = None
    held: int | None = None
    for part in value.split(",") if isinstance(value, str) else ():
        if days is None and (number := _amount(part.strip(), _SECONDS, "s")) is not None:
            days = math.ceil(number / DAY)
        elif held is None:
            held = size(part.strip())
        else:
            days = held = None
            break
    if days is None and held is None:
        raise ValueError('expected a duration and a size like "90d, 500 MB"')
    return days, held


def _amount(value: object, units: dict[str, float] | dict[str, int], plain: str) -> float | None:
    if isinstance(value, str):
        match = _AMOUNT.fullmatch(value)
        factor = units.get((match[2] or plain).lower()) if match else None
        return float(match[1]) * factor if match and factor is not None else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # Also false for nan; a huge int must not reach float().
    return float(value) if 0 <= value <= 1e18 else None
