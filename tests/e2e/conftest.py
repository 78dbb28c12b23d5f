from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import Home
from tests.e2e.harness import Daemon


@pytest.fixture
def daemon(home: Home) -> Iterator[Daemon]:
    """A daemon that the test starts; afterwards nothing of it may be left."""
    daemon = Daemon(home)
    yield daemon
    daemon.close()
