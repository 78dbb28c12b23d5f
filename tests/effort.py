"""What work costs, as far as a test can tell: whether it grows as it must not."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable


def effort(work: Callable[[], object], runs: int = 3) -> float:
    """CPU seconds of this thread, the least of some runs.

    The collector is off meanwhile: it would go through all that other tests have left, in somebody's work.
    """
    gc.disable()
    try:
        return min(_run(work) for _ in range(runs))
    finally:
        gc.enable()


def _run(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
