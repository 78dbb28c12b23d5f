"""A launcher that starts something else than before, under a server that a person has agreed to (n09)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpd import admin
from tests.agents.world import staged
from tests.conftest import Home
from tests.control.world import TINY, running, tiny, write_server
from tests.upstream.packages import npx_cache

WAITS = '"files 1.0.0" became "files 2.0.0", waits for mcpctl accept tiny'


@pytest.fixture
def package(tmp_path: Path) -> dict[str, Any]:
    """The definition of a server that `npx` starts. Where there is a file `next` beside it, this npx finds a
    new version in its registry and takes that first."""
    folder = npx_cache(tmp_path, "1.0.0")
    script = folder / "node_modules" / ".bin" / "files"
    shutil.copy(TINY, script)
    npx = tmp_path / "bin" / "npx"
    npx.parent.mkdir()
    npx.write_text(
        f'#!/bin/sh\necho started >>"{tmp_path}/starts"\n'
        f'[ -e "{tmp_path}/next" ] && mv "{tmp_path}/next" "{folder}/package-lock.json"\n'
        f'exec "{sys.executable}" -I "{script}" "$@"\n'
    )
    npx.chmod(0o755)
    return {**tiny(), "command": "npx", "args": [], "path": str(npx.parent)}


def release(tmp_path: Path, version: str, *, taken: bool) -> None:
    """A new version comes out; `taken`: it is in the cache; else npx fetches it at its next start."""
    lock = npx_cache(tmp_path, "1.0.0") / "package-lock.json"
    before = lock.read_bytes()
    npx_cache(tmp_path, version)
    if not taken:
        lock.rename(tmp_path / "next")
        lock.write_bytes(before)


def starts(tmp_path: Path) -> int:
    return (tmp_path / "starts").read_text().count("\n")


@pytest.mark.parametrize("taken", [True, False])
async def test_a_new_version_waits_where_the_server_is_trusted(
    home: Home, tmp_path: Path, package: dict[str, Any], real_clock: None, taken: bool
) -> None:
    write_server(home, "tiny", **package)
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.trust", server="tiny")
        assert starts(tmp_path) == 1
    release(tmp_path, "2.0.0", taken=taken)
    async with running(home) as world:
        client = await world.operator()
        told = await admin.test_server(world.broker, "tiny")
        # What is in the cache is seen without a start; what npx fetches only after one, before any call.
        assert starts(tmp_path) == (1 if taken else 2)
        assert (told.ok, told.status.state, told.hint) == (False, "held", "mcpctl accept tiny")
        refused = await client.refusal("tools.call", server="tiny", tool="echo", arguments={"text": "x"})
        assert refused.kind == "unavailable"
        assert WAITS in refused.message
        assert (await client.refusal("servers.trust", server="tiny")).kind == "refused"
        await client.call("daemon.reload")
        assert (await client.call("servers.get", server="tiny"))["held"] == WAITS
    started = starts(tmp_path)
    async with running(home) as world:
        client = await world.operator()
        assert (await client.call("servers.get", server="tiny"))["status"]["state"] == "held"
        await client.refusal("servers.reconnect", server="tiny")
        assert starts(tmp_path) == started, "also the next daemon does not start it"
        review = await client.call("servers.review", server="tiny")
        assert (review["was"], review["becomes"]) == ("files 1.0.0", "files 2.0.0")
        assert (review["changed"], review["loses"]) == ([], [])
        info = await client.call("servers.accept", server="tiny", shown=review["shown"])
        assert (info["held"], info["trusted"]) == ("", True)
        assert (await admin.test_server(world.broker, "tiny")).ok
        assert (await client.call("servers.review", server="tiny"))["becomes"] == ""


async def test_a_new_version_of_a_server_that_nobody_agreed_to_is_taken(
    home: Home, tmp_path: Path, package: dict[str, Any], real_clock: None
) -> None:
    """Each of its calls is asked for anyway."""
    write_server(home, "tiny", **package)
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        release(tmp_path, version, taken=True)
        async with running(home) as world:
            assert (await admin.test_server(world.broker, "tiny")).ok
            known = world.broker.launches.known(world.broker.config.servers["tiny"])
            assert known is not None
            assert known.words == f"files {version}"


async def test_the_same_version_again_needs_no_word(
    home: Home, tmp_path: Path, package: dict[str, Any], real_clock: None
) -> None:
    write_server(home, "tiny", **package)
    async with running(home) as world:
        await (await world.operator()).call("servers.trust", server="tiny")
    # The cache was emptied, and filled again by a start; a dependency is a newer one.
    folder = npx_cache(tmp_path, "1.0.0")
    lock = folder / "package-lock.json"
    npx_cache(tmp_path, "1.0.0", left_pad="2.0.0")
    lock.rename(tmp_path / "next")
    async with running(home) as world:
        assert (await admin.test_server(world.broker, "tiny")).ok


async def test_a_version_that_was_put_back_waits_for_nobody(
    home: Home, tmp_path: Path, package: dict[str, Any], real_clock: None
) -> None:
    write_server(home, "tiny", **package)
    async with running(home) as world:
        client = await world.operator()
        await client.call("servers.trust", server="tiny")
        release(tmp_path, "2.0.0", taken=True)
        await client.call("servers.reconnect", server="tiny")
        assert not (await admin.test_server(world.broker, "tiny")).ok
        release(tmp_path, "3.0.0", taken=True)
        review = await client.call("servers.review", server="tiny")
        assert (review["was"], review["becomes"]) == ("files 1.0.0", "files 3.0.0")
        release(tmp_path, "1.0.0", taken=True)
        review = await client.call("servers.review", server="tiny")
        assert (review["waits"], review["becomes"]) == ("", "")
        assert (await admin.test_server(world.broker, "tiny")).ok


async def test_a_version_that_comes_while_agents_use_it_ends_no_call(
    home: Home, tmp_path: Path, package: dict[str, Any], real_clock: None
) -> None:
    """What runs was accepted; only the next start is another one."""
    write_server(home, "tiny", **package)
    async with staged(home) as stage:
        client = await stage.operator()
        await client.call("servers.trust", server="tiny")
        agent = await stage.attach()
        release(tmp_path, "2.0.0", taken=True)
        for _ in range(2):
            result = await agent.call("tiny__echo", text="on")
            assert not result.get("isError")
        await client.call("servers.reconnect", server="tiny")
        result = await agent.call("tiny__echo", text="on")
        assert result["isError"] is True
        assert (await client.call("servers.get", server="tiny"))["held"] == WAITS
        told = await stage.journal(kind="change", method="launch")
        assert [(entry.server, entry.outcome, entry.because) for entry in told] == [("tiny", "held", WAITS)]
