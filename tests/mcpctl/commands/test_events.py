"""Following events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcpd.api.events import TOPICS
from tests.mcpctl.harness import Control, run


def event(seq: int, data: object = "fs") -> dict[str, Any]:
    return {"method": "event", "params": {"seq": seq, "topic": "status", "data": data}}


SUBSCRIBED = {"seq": 4, "gap": False, "snapshot": {"servers": []}}


def test_events(daemon: Control, folder: Path) -> None:
    daemon.answers["events.subscribe"] = SUBSCRIBED
    daemon.after["events.subscribe"] = [
        event(5),
        {"method": "of_a_later_daemon"},
        event(6, {"x": "\x1b"}),
        event(7),
    ]
    done = run(folder, "events", "--topic", "status", "-n", "2")
    assert (done.returncode, done.stdout) == (0, '5  status  "fs"\n6  status  {"x": "\\u001b"}\n')
    assert daemon.params("events.subscribe") == {"topics": ["status"]}
    done = run(folder, "events", "--json", "-n", "1")
    assert json.loads(done.stdout) == event(5)["params"]


def test_the_topics_are_those_of_the_daemon(folder: Path) -> None:
    done = run(folder, "events", "--help")
    assert "{" + ",".join(TOPICS) + "}" in "".join(done.stdout.split())


def test_after_a_lag_it_goes_on_where_it_was(daemon: Control, folder: Path) -> None:
    def subscribe(params: dict[str, Any]) -> dict[str, Any]:
        lagged = "since" not in params
        daemon.after["events.subscribe"] = [event(5), {"method": "events.lagged"}] if lagged else [event(9)]
        return {**SUBSCRIBED, "gap": not lagged}

    daemon.answers["events.subscribe"] = subscribe
    done = run(folder, "events", "-n", "2")
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["5", "9"]
    assert daemon.params("events.subscribe") == {"since": 5}
    assert "lost" in done.stderr


def test_the_daemon_ends(daemon: Control, folder: Path) -> None:
    daemon.answers["events.subscribe"] = SUBSCRIBED
    daemon.after["events.subscribe"] = [event(5)]
    daemon.hang_up_after.add("events.subscribe")
    done = run(folder, "events")
    assert (done.returncode, done.stdout) == (3, '5  status  "fs"\n')
