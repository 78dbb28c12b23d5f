"""The official SDKs see the same through mcpd as on a direct connection."""

from __future__ import annotations

import pytest

from tests.e2e.harness import Daemon
from tests.real.compare import compare
from tests.real.plans import ASKING, PLANS, Plan, Way

WAYS = [(plan, way) for plan in PLANS for way in plan.ways]


@pytest.mark.npm
@pytest.mark.parametrize("client", ["python", "typescript", "typescript-auto"])
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_the_same_through_mcpd(daemon: Daemon, plan: Plan, client: str) -> None:
    compare(daemon, plan, client)


@pytest.mark.npm
@pytest.mark.parametrize(("plan", "way"), WAYS, ids=lambda part: part.name)
def test_the_same_by_http(daemon: Daemon, plan: Plan, way: Way) -> None:
    compare(daemon, plan, "python", way)


@pytest.mark.npm
@pytest.mark.parametrize("way", [None, *ASKING.ways], ids=lambda way: way.name if way else "stdio")
def test_what_servers_ask_back_is_the_same(daemon: Daemon, way: Way | None) -> None:
    # This server offers more tools to whom it can ask, and learns of that in a handshake alone.
    compare(daemon, ASKING, "python-legacy", way)
