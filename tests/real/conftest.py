from __future__ import annotations

from tests.e2e.conftest import daemon as daemon
