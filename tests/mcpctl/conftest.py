"""A folder short enough for a socket, and a control socket in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcpctl.harness import Control, control


@pytest.fixture
def folder() -> Iterator[Path]:
    """Private and short: pytest's own folders can exceed the 107 bytes of a socket's path."""
    with tempfile.TemporaryDirectory(prefix="mcpctl-") as name:
        yield Path(name)


@pytest.fixture
def daemon(folder: Path) -> Iterator[Control]:
    with control(folder) as served:
        yield served
