"""The official SDKs see the same through mcpd as on a direct connection."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Daemon
from tests.real.compare import CLIENTS, compare
from tests.real.plans import PLANS, Plan, Way

WAYS = [(plan, way) for plan in PLANS for way in plan.ways]


@pytest.mark.npm
@pytest.mark.parametrize("client", list(CLIENTS))
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_the_same_through_mcpd(daemon: Daemon, plan: Plan, client: str) -> None:
    compare(daemon, plan, client)


@pytest.mark.npm
@pytest.mark.parametrize(("plan", "way"), WAYS, ids=lambda part: part.name)
def test_the_same_by_http(daemon: Daemon, plan: Plan, way: Way) -> None:
    compare(daemon, plan, "python", way)
