"""The client library against a real socket."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpctl import client, connect, paths
from mcpctl.errors import CallError
from tests.mcpctl.harness import Control, Hang, Hangup, Raw, Refusal, control, run

SERVE_AS_NOBODY = """
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
os.setuid(65534)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
connection, _ = listener.accept()
sys.exit(1 if connection.recv(1) else 0)
"""


def reach(daemon: Control) -> client.Client:
    return client.reach(paths.Place(str(daemon.path.parent)), spawn=False)


def test_a_call_keeps_the_text_of_the_answer(daemon: Control) -> None:
    daemon.answers["x"] = Raw('{ "n": 1.00, "big": 12345678901234567890.5 }')
    with reach(daemon) as mcpd:
        assert mcpd.hello["api"] == 1
        assert mcpd.call("x", {"a": "ü"}) == {"n": 1.0, "big": 12345678901234567890.5}
        assert mcpd.call_text("x", '{"a":1.00}') == '{ "n": 1.00, "big": 12345678901234567890.5 }'
    assert daemon.lines[-1] == b'{"jsonrpc":"2.0","id":3,"method":"x","params":{"a":1.00}}\n'
    assert daemon.params("hello")["api"] == [1, 1]


def test_an_error_carries_its_data(daemon: Control) -> None:
    daemon.answers["x"] = Refusal("no_such_server", 'no server "y"', hint="see: mcpctl list", server="y")
    with reach(daemon) as mcpd, pytest.raises(CallError) as caught:
        mcpd.call("x")
    error = caught.value
    assert (error.kind, error.message, error.hint) == ("no_such_server", 'no server "y"', "see: mcpctl list")
    assert error.data == {"server": "y"}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(Hang(), "timed_out"), (Hangup(), "connection_lost")],
)
def test_an_answer_that_does_not_come(daemon: Control, answer: Any, kind: str) -> None:
    daemon.answers["x"] = answer
    with reach(daemon) as mcpd, pytest.raises(CallError) as caught:
        mcpd.call("x", timeout=0.05)
    assert caught.value.kind == kind


def test_nobody_listens(folder: Path) -> None:
    with pytest.raises(CallError) as caught:
        client.reach(paths.Place(str(folder)), spawn=False)
    assert caught.value.kind == "not_running"
    with control(folder):
        pass
    assert (folder / "control.sock").exists()
    assert client.try_open(paths.Place(str(folder))) is None


def test_a_daemon_that_hangs_up_at_once_counts_as_not_there(daemon: Control) -> None:
    daemon.answers["hello"] = Hangup()
    assert client.try_open(paths.Place(str(daemon.path.parent))) is None


@pytest.mark.parametrize("verb", [["list"], ["call", "fs__read"], ["stop"], ["reload"], ["status"]])
def test_a_daemon_that_is_stuck_is_named_in_time(daemon: Control, folder: Path, verb: list[str]) -> None:
    """`kill -STOP`: connections are made by the kernel, nothing is answered; `--timeout` counts for that."""
    daemon.answers["hello"] = Hang()
    with open(folder / "lock", "w+b") as lock:
        lock.write(b"%d\n" % os.getpid())
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        began = time.monotonic()
        done = run(folder, *verb, "--timeout", "200ms")
        assert time.monotonic() - began < 10
    assert (done.returncode, done.stdout) == (7, "")
    assert "does not answer" in done.stderr
    assert f"kill -9 {os.getpid()}" in done.stderr


def test_no_common_api_number(daemon: Control) -> None:
    daemon.answers["hello"] = Refusal("api_mismatch", "too old")
    with pytest.raises(CallError) as caught:
        reach(daemon)
    assert caught.value.exit_code == 8


def test_events_between_answers_are_kept(daemon: Control) -> None:
    daemon.answers |= {"events.subscribe": {"seq": 1}, "x": 2}
    event = {"method": "event", "params": {"seq": 2, "topic": "status", "data": "fs"}}
    daemon.after["events.subscribe"] = [event]
    with reach(daemon) as mcpd:
        mcpd.call("events.subscribe")
        assert mcpd.call("x") == 2
        assert next(mcpd.events())[:2] == ("event", event["params"])


def test_a_path_that_is_too_long() -> None:
    with pytest.raises(CallError) as caught:
        connect.connect("/" + "x" * 107)
    assert "x" * 107 in caught.value.message
    assert connect.connect("/" + "x" * 106) is None


@pytest.mark.parametrize(
    ("peer", "own", "good"), [(1000, 1000, True), (0, 1000, True), (1001, 1000, False), (1, 0, False)]
)
def test_whose_process_may_be_the_daemon(peer: int, own: int, good: bool) -> None:
    if good:
        connect.check_peer(peer, own, "/s")
    else:
        with pytest.raises(CallError) as caught:
            connect.check_peer(peer, own, "/s")
        assert caught.value.exit_code == 4


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a process of another user")
def test_nothing_is_sent_to_another_users_process(folder: Path) -> None:
    folder.chmod(0o777)
    path = folder / "control.sock"
    server = subprocess.Popen(
        [sys.executable, "-I", "-c", SERVE_AS_NOBODY, str(path)], stdout=subprocess.PIPE, cwd="/"
    )
    with server:
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        with pytest.raises(CallError) as caught:
            connect.connect(str(path))
        assert caught.value.kind == "foreign_socket"
        assert server.wait(20) == 0, "it received something"


@pytest.mark.parametrize(
    "line", ["", "[]", "1", "{", '{"a"}', '{"a":}', '{"a":1,}x', "{1:2}", '{"a":1 "b":2}', "[" * 100_000]
)
def test_what_is_no_object_is_no_answer(line: str) -> None:
    with pytest.raises(CallError) as caught:
        client.members(line)
    assert caught.value.kind == "bad_answer"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON), st.sampled_from([(",", ":"), (" , ", "\t:\r\n ")]))
def test_members(value: dict[str, Any], separators: tuple[str, str]) -> None:
    import json

    found = client.members(json.dumps(value, separators=separators))
    assert {name: inner for name, (inner, _) in found.items()} == value
    assert {name: json.loads(text) for name, (_, text) in found.items()} == value
