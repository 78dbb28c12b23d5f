"""Remote servers that go wrong under an attached agent: what is said, in what time, at what cost in memory,
and how each comes back (D8, c10-c14, b26, a21)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from tests.e2e.harness import OPEN, Agent, Daemon, Refused, attached, kind_of, text_of, until
from tests.servers.far import Far, bomb

CHECKED = 12.0
"""Seconds from the failure of a call to the state: a check of 10 s, on a busy machine."""
RETRIED = 22.0
"""Seconds until a wanted server is tried again: 15 s, one attempt, on a busy machine."""
MOST = 64 * 1024
"""KiB by which the daemon may grow: an answer is at most 16 MiB, and is copied."""


class Fault(NamedTuple):
    mode: str
    state: str
    reason: str
    words: str
    kind: str
    """What the call that meets it is told (D13)."""


FAULTS = {
    "dies": Fault("die", "failed", "unreachable", "refused", "unavailable"),
    "hangs": Fault("hang", "failed", "not_responding", "no answer", "timed_out"),
    "html": Fault("html", "failed", "bad_answer", "web page", "bad_answer"),
    "loses": Fault("lost", "failed", "session_lost", "404", "unavailable"),
    "elsewhere": Fault("elsewhere", "failed", "failed", "another origin", "bad_answer"),
    "forbids": Fault("401", "needs_auth", "needs_auth", "401", "needs_login"),
    "doubled": Fault("gzip", "failed", "failed", "gzip, gzip", "outcome_unknown"),
}


class Place:
    """A daemon with one remote for each fault, and another origin that nobody may reach."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.stranger = Far()
        self.fars = {name: Far(stream=name == "dies") for name in FAULTS}

    def states(self) -> dict[str, dict[str, Any]]:
        """As `mcpctl list --json` tells them."""
        shown = json.loads(self.daemon.ctl("list", "--json").stdout)
        return {server["name"]: server["status"] for server in shown["servers"]}

    def all_are(self, *states: str) -> dict[str, dict[str, Any]]:
        """The states, where every server is in one of these; else nothing."""
        shown = self.states()
        return shown if all(status["state"] in states for status in shown.values()) else {}

    def grown(self) -> int:
        """The daemon's highest resident size so far, in KiB."""
        assert self.daemon.proc is not None
        rows = Path(f"/proc/{self.daemon.proc.pid}/status").read_text().splitlines()
        return int(next(row for row in rows if row.startswith("VmHWM:")).split()[1])


@contextmanager
def place(daemon: Daemon) -> Iterator[Place]:
    """Everything is up; the headers are there to be leaked."""
    for layers in (1, 2):
        bomb(layers)
    here = Place(daemon)
    with ExitStack() as up:
        up.enter_context(here.stranger)
        for name, far in here.fars.items():
            up.enter_context(far)
            far.elsewhere = here.stranger.url
            headers = {"Authorization": "Bearer t-1", "X-Key": "k-1"}
            policy = {**OPEN, "timeout": "2s"}
            daemon.server(name, {"url": far.url, "headers": headers, "default_policy": policy})
        daemon.start()
        yield here
        for far in here.fars.values():
            far.free()


async def call(agent: Agent, name: str) -> dict[str, Any]:
    return await agent.call(f"{name}__act", of=name)


async def test_remotes_that_go_wrong_say_so_and_come_back(daemon: Daemon, real_clock: None) -> None:
    with place(daemon) as here:
        async with attached(daemon) as agent:
            for name in FAULTS:
                assert json.loads(text_of(await call(agent, name))) == {"of": name}
            assert here.all_are("connected")
            before = here.grown()
            began = time.monotonic()
            for name, far in here.fars.items():
                far.mode = FAULTS[name].mode
            here.fars["dies"].die()
            told = {name: await agent.begin_call(f"{name}__act", of=name) for name in FAULTS}
            for name, request in told.items():
                answer = await agent.answer(request)
                assert kind_of(answer) == FAULTS[name].kind, (name, text_of(answer))
                assert name in text_of(answer)
            shown = until(lambda: here.all_are("failed", "needs_auth"), CHECKED)
            assert time.monotonic() - began < CHECKED + 5
            for name, status in shown.items():
                fault = FAULTS[name]
                assert (status["state"], status["reason"]) == (fault.state, fault.reason), (name, status)
                assert fault.words in status["error"]
                assert status["last_failure"] > status["last_success"] > 0
            # Its tools stay listed, and whoever calls one now is told why (b26).
            assert {f"{name}__act" for name in FAULTS} <= set(await agent.tools())
            told = {name: await agent.begin_call(f"{name}__act", of=name) for name in FAULTS}
            for name, request in told.items():
                answer = await agent.answer(request)
                expected = "needs_login" if name == "forbids" else "unavailable"
                assert kind_of(answer) == expected, (name, text_of(answer))
                assert FAULTS[name].reason in text_of(answer)
            assert here.grown() - before < MOST
            assert here.stranger.asked == []
            table = daemon.ctl("list").stdout
            assert "unreachable" in table
            assert "t-1" not in table + daemon.ctl("logs", "forbids").stdout + daemon.said()

            # The remotes are well again; nobody tells the daemon.
            for name, far in here.fars.items():
                far.mode = ""
                far.free()
                if name == "dies":
                    far.live()
            well = [name for name in FAULTS if name != "forbids"]
            until(lambda: all(here.states()[name]["state"] == "connected" for name in well), RETRIED)
            # A refused login waits for a person, or for somebody who wants it (D8).
            answer = await call(agent, "forbids")
            with trio.fail_after(RETRIED):
                while answer.get("isError"):
                    await trio.sleep(1)
                    answer = await call(agent, "forbids")
            for name in FAULTS:
                assert json.loads(text_of(await call(agent, name))) == {"of": name}
            assert here.all_are("connected")


async def test_an_answer_that_unfolds_without_end_is_cut_off(daemon: Daemon, real_clock: None) -> None:
    with place(daemon) as here:
        far = here.fars["doubled"]
        async with attached(daemon) as agent:
            await call(agent, "doubled")
            before = here.grown()
            far.mode = "bomb"
            for _ in range(3):
                with pytest.raises(Refused) as caught:
                    await call(agent, "doubled")
                assert caught.value.kind == "too_large"
            assert here.grown() - before < MOST
            far.mode = ""
            assert await call(agent, "doubled")


async def test_a_lost_session_costs_nobody_anything(daemon: Daemon, real_clock: None) -> None:
    """3.2: a new one, without the old id, and the call is made again, which provably did not run (a21)."""
    with Far() as far:
        daemon.server("far", {"url": far.url, "default_policy": OPEN})
        daemon.start()
        async with attached(daemon) as agent:
            await call(agent, "far")
            for _ in range(3):
                far.sessions.clear()
                assert json.loads(text_of(await call(agent, "far"))) == {"of": "far"}
            assert far.heard("initialize") == 4
            assert daemon.status("far")["state"] == "connected"


async def test_a_remote_that_dies_unwatched_is_noticed_by_its_stream(
    daemon: Daemon, real_clock: None
) -> None:
    with Far(stream=True) as far:
        daemon.server("far", {"url": far.url, "default_policy": OPEN})
        daemon.start()
        assert daemon.ask("servers.test", server="far")["ok"]
        until(lambda: far.heard("GET"))
        far.die()
        status = until(lambda: (s := daemon.status("far"))["state"] == "failed" and s, 10)
        assert status["reason"] == "unreachable"
        assert status["retry_at"] == 0, "nobody wants it"


def test_a_remote_is_added_and_tested_by_its_url(daemon: Daemon) -> None:
    with Far("modern") as far:
        daemon.start()
        added = daemon.ctl("add", "far", far.url + "?key=hush", "--risk", "low", "--approval", "never")
        assert "2026-07-28" in added.stdout
        assert "far__echo" in added.stdout
        assert far.url + "?[SECRET]" in daemon.ctl("list").stdout
        assert json.loads(daemon.ctl("test", "far", "--json").stdout)["ok"] is True
        assert "hello" in daemon.ctl("call", "far__echo", "text=hello").stdout
        far.token = "Bearer t-1"
        refused = daemon.ctl("reconnect", "far", check=False)
        assert refused.returncode == 11
        assert f"{daemon.folder}/servers.d/far.toml" in refused.stderr, "the next step (b27)"
        assert "needs_auth" in daemon.ctl("logs", "far").stdout
        far.die()
        gone = daemon.ctl("reconnect", "far", check=False)
        assert gone.returncode == 12
        assert "refused" in gone.stdout
        assert "hush" not in gone.stdout + gone.stderr + daemon.said()
