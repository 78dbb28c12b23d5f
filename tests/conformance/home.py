"""A private daemon for one run: temporary folders, one server, nothing left behind."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import Home
from tests.e2e.harness import OPEN, Daemon

SERVER = "under_test"


@contextlib.contextmanager
def private_daemon(**fields: Any) -> Iterator[Daemon]:
    """A daemon that knows the one server `under_test`, open to every call.

    Below /tmp: a Unix socket's path is at most 107 bytes. Raises AssertionError when the daemon, told to end,
    exits with another code than 0 or leaves a process behind.
    """
    root = Path(tempfile.mkdtemp(prefix="mcpd-", dir="/tmp"))
    home = Home(root, root / "config", root / "state", root / "cache", root / "run")
    try:
        for folder in home[1:]:
            folder.mkdir(mode=0o700)
        daemon = Daemon(home)
        daemon.server(SERVER, {"default_policy": OPEN, **fields})
        try:
            daemon.start()
            yield daemon
            code = daemon.end()
            assert code == 0, f"the daemon ended with {code}: {daemon.said()}"
        finally:
            daemon.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)
