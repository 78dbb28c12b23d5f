"""The rest of the real servers, over each transport that they have; by hand: pytest -m more tests/real."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Daemon
from tests.real.compare import compare
from tests.real.more import MORE
from tests.real.plans import Plan, Way

WAYS = [(plan, way) for plan in MORE for way in (None, *plan.ways)]


@pytest.mark.more
@pytest.mark.parametrize(("plan", "way"), WAYS, ids=lambda part: part.name if part else "stdio")
def test_the_same_through_mcpd(daemon: Daemon, plan: Plan, way: Way | None) -> None:
    compare(daemon, plan, "python", way)
