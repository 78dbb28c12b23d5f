"""`mcpd run` with parts of the path left out: what these cost is the difference.

    BENCH_ADAPTER=tests/bench/mcpd_adapter.py .venv/bin/python ../shared/bench/peers.py latency --pin 1 \\
        --targets direct,relay,mcpd,spine,seam

`spine`: without leak scans, which is the first pipeline with its journal. `seam`: without the policy step and
the journal as well. Only for this comparison: nothing is redacted, nothing decides, nothing is kept.
"""

from __future__ import annotations

import sys
from typing import Any

from mcpd import __main__, calls
from mcpd.journal import Journal
from mcpd.secrets.held import HeldValues

LEFT_OUT: dict[str, list[tuple[Any, str, Any]]] = {
    "spine": [
        (HeldValues, "is_clean", lambda *args, **names: True),
        (HeldValues, "passes", lambda *args, **names: True),
    ],
    "seam": [
        (calls, "at_once", lambda *args: True),
        (calls, "is_free", lambda *args: True),
        (calls, "Entry", lambda **fields: None),
        (Journal, "record", lambda *args: None),
        (HeldValues, "passes", lambda *args, **names: True),
    ],
}


def main() -> int:
    for owner, name, other in LEFT_OUT[sys.argv.pop(1)]:
        assert hasattr(owner, name)
        setattr(owner, name, other)
    return __main__.main()


if __name__ == "__main__":
    sys.exit(main())
