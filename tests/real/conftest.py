from __future__ import annotations

import pytest

from tests.e2e.conftest import daemon as daemon


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "more: needs tests/servers/more/install.sh; runs only with -m more")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for the hand, unless it is asked for."""
    if "more" in config.option.markexpr:
        return
    by_hand = [item for item in items if item.get_closest_marker("more")]
    if by_hand:
        config.hook.pytest_deselected(items=by_hand)
        items[:] = [item for item in items if item not in by_hand]
