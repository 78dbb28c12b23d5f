"""`mcpd run` without the policy step, the leak scans and the journal: what these cost is the difference.

    BENCH_ADAPTER=tests/bench/mcpd_adapter.py .venv/bin/python ../shared/bench/peers.py latency --pin 1 \\
        --targets direct,relay,mcpd,seam

Only for this comparison: nothing decides here, nothing is redacted, nothing is kept.
"""

from __future__ import annotations

import sys
from typing import Any

from mcpd import __main__, calls
from mcpd.journal import Journal
from mcpd.secrets.held import HeldValues, Scanned


async def _obtain(*args: Any) -> None:
    pass


async def _nothing(*args: Any, **names: Any) -> None:
    return None


async def _as_it_is(self: HeldValues, text: bytes, **names: Any) -> Scanned:
    return Scanned(text)


def main() -> int:
    for owner, name, other in (
        (calls, "obtain", _obtain),
        (calls, "Entry", lambda **fields: None),
        (Journal, "record", lambda *args: None),
        (HeldValues, "arguments", _nothing),
        (HeldValues, "result", _as_it_is),
    ):
        assert hasattr(owner, name)
        setattr(owner, name, other)
    return __main__.main()


if __name__ == "__main__":
    sys.exit(main())
