"""How the tests run: `async def test_*` under trio, on a clock that jumps.

Rules: one trio run a test; its clock is a MockClock that jumps to the next deadline when every task
waits, so that timeouts cost nothing and a deadlock ends at once with TooSlowError. A test with real
processes, threads or sockets asks for the fixture `real_clock`. Fixtures are plain functions; what is
async is opened in the test by `async with`.

pytest-trio would do the same and more, but its last release is of 2022 and it hooks deeply into pytest;
the forty lines here are all that is needed.
"""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
import trio
import trio.testing

VIRTUAL_LIMIT = 30 * 86400
"""Seconds of the jumping clock a test may use: above any deadline of mcpd, so only a deadlock gets there."""
REAL_LIMIT = 120
"""Seconds a test on the real clock may take: the slowest start of a server on a busy machine, twice."""

# Two shared cores make single examples slow at random; a failure in CI must be the same one at home.
hypothesis.settings.register_profile("mcpd", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("mcpd")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "more: by hand alone, with -m more; needs an install.sh below tests/servers"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for the hand, unless it is asked for."""
    if "more" in config.option.markexpr:
        return
    by_hand = [item for item in items if item.get_closest_marker("more")]
    if by_hand:
        config.hook.pytest_deselected(items=by_hand)
        items[:] = [item for item in items if item not in by_hand]


def run_async(
    test: Callable[..., Awaitable[None]], arguments: dict[str, object], *, real_clock: bool
) -> None:
    """Run one async test to its end; TooSlowError when it waits for what cannot come."""

    async def main() -> None:
        with trio.fail_after(REAL_LIMIT if real_clock else VIRTUAL_LIMIT):
            await test(**arguments)

    trio.run(main, clock=None if real_clock else trio.testing.MockClock(autojump_threshold=0))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run coroutine functions here; leave everything else to pytest (None)."""
    test = pyfuncitem.obj
    real = "real_clock" in pyfuncitem.fixturenames
    inner = getattr(getattr(test, "hypothesis", None), "inner_test", None)
    if inner is not None and inspect.iscoroutinefunction(inner):
        # Hypothesis calls the inner test once an example: each gets a run of its own.
        @functools.wraps(inner)
        def example(**arguments: Any) -> None:
            run_async(inner, arguments, real_clock=real)

        test.hypothesis.inner_test = example
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    run_async(test, arguments, real_clock=real)
    return True


@pytest.fixture
def real_clock() -> None:
    """Asked for by async tests whose time passes outside trio: processes, threads, sockets."""


class Home(NamedTuple):
    """Private folders of one user, with the environment that points to them."""

    root: Path
    config: Path
    state: Path
    cache: Path
    runtime: Path

    @property
    def environ(self) -> dict[str, str]:
        """The variables that make a program started with them live here and nowhere else."""
        return {
            "HOME": str(self.root),
            "XDG_CONFIG_HOME": str(self.config),
            "XDG_STATE_HOME": str(self.state),
            "XDG_CACHE_HOME": str(self.cache),
            "XDG_RUNTIME_DIR": str(self.runtime),
        }


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A fresh user; the test's own environment points to it as well.

    Not below tmp_path: a Unix socket's path is at most 107 bytes, and pytest's folders use most of them.
    """
    short = min((tempfile.gettempdir(), "/tmp"), key=len)
    root = Path(tempfile.mkdtemp(prefix="mcpd-", dir=short))
    home = Home(root, root / "config", root / "state", root / "cache", root / "run")
    for folder in home[1:]:
        folder.mkdir(mode=0o700)
    for name in [name for name in os.environ if name.startswith(("MCPD_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name, value in home.environ.items():
        monkeypatch.setenv(name, value)
    yield home
    shutil.rmtree(root, ignore_errors=True)
