"""A person hears of a question (a31): text alone on the desktop, JSON to a program of their own."""

from __future__ import annotations

import json
import logging
import os
import stat
from math import inf
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from mcpd.consent.approvals import Open
from mcpd.daemon import announce
from mcpd.daemon.announce import facts, find_desktop, notice
from mcpd.policy.card import lay_out
from mcpd.transport.base import Inherited
from tests.conftest import Home
from tests.consent.asked import question
from tests.control.world import World, running, write_config

ARGUMENTS = {"path": "/secret/plan"}


def opened(**fields: Any) -> Open:
    asked = question(ARGUMENTS, **fields)
    return Open("abc", asked, lay_out(asked.bound.arguments), 0.0, inf, inf)


async def test_a_notice_is_text_and_says_where_to_answer() -> None:
    options, end, title, body = notice(opened())
    assert (options, end) == ("--app-name=mcpd", "--")
    assert title == "mcpd: a call waits for you"
    assert 'agent "coder" asks to call files__write (risk high)' in body
    assert "mcpctl approve abc" in body


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<b>x</b>&", "&lt;b&gt;x&lt;/b&gt;&amp;"),
        ("a\nb", "a b"),
        ("a\u202eb", "a&lt;U+202E&gt;b"),
        ("-x", "-x"),
    ],
)
async def test_what_a_server_writes_is_no_markup(name: str, shown: str) -> None:
    body = notice(opened(name=name))[-1]
    assert f"asks to call {shown} (risk high)" in body
    assert len(body.split("\n")) == 2


async def test_a_program_gets_one_line_without_the_arguments() -> None:
    line = facts(opened())
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert b"/secret/plan" not in line
    said = json.loads(line)
    assert (said["id"], said["agent"], said["server"], said["tool"]) == ("abc", "coder", "files", "write")
    assert (said["name"], said["risk"]) == ("files__write", "high")


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_the_desktop_is_there_where_a_bus_and_the_program_are(tmp_path: Path) -> None:
    program = str(script(tmp_path / "notify-send", "exit 0"))
    runtime = tmp_path / "run"
    runtime.mkdir()
    path = {"PATH": str(tmp_path)}
    assert find_desktop(path) == ""
    assert find_desktop({**path, "XDG_RUNTIME_DIR": str(runtime)}) == ""
    assert find_desktop({**path, "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}) == program
    (runtime / "bus").touch()
    assert find_desktop({**path, "XDG_RUNTIME_DIR": str(runtime)}) == program
    assert find_desktop({"PATH": "/nowhere", "XDG_RUNTIME_DIR": str(runtime)}) == ""


async def ask(world: World, **fields: Any) -> None:
    """Open a question; nobody waits for it."""
    asked = question(ARGUMENTS, **fields)
    laid = lay_out(asked.bound.arguments)
    world.broker.approvals._join(asked, laid, inf)


class Pipe:
    """What programs write into it, by lines; it has a name and never ends."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        self.path = path
        self._stream = trio.lowlevel.FdStream(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        self._buffer = b""

    async def line(self) -> str:
        with trio.fail_after(20):
            while b"\n" not in self._buffer:
                self._buffer += await self._stream.receive_some()
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line.decode()

    async def __aenter__(self) -> Pipe:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stream.aclose()


async def test_both_are_told_of_each_question_once(home: Home, real_clock: None, tmp_path: Path) -> None:
    async with Pipe(tmp_path / "told") as told, Pipe(tmp_path / "desktop") as desktop:
        program = script(tmp_path / "mine", f'(echo "$@"; cat) > {told.path}')
        script(tmp_path / "notify-send", f'(printf "%s|" "$@"; echo) > {desktop.path}')
        write_config(home, f'[defaults]\nnotify = ["{program}", "a b", "$HOME;"]\n')
        environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}
        async with running(home) as world:
            world.broker.environ = {**environ, "HOME": str(home.root)}
            world.nursery.start_soon(announce.announce, world.broker)
            await trio.testing.wait_all_tasks_blocked()
            await ask(world)
            # No shell: its arguments are what stands in the file.
            assert await told.line() == "a b $HOME;"
            assert json.loads(await told.line())["agent"] == "coder"
            assert await desktop.line() == "--app-name=mcpd|--|mcpd: a call waits for you|" + (
                'agent "coder" asks to call files__write (risk high)'
            )
            assert "mcpctl approve" in await desktop.line()
            # A change of something else is no new question.
            world.broker.changes.publish("approvals", "")
            await ask(world, agent="other")
            assert await told.line() == "a b $HOME;"
            assert json.loads(await told.line())["agent"] == "other"


async def test_a_program_gets_the_users_umask(home: Home, real_clock: None, tmp_path: Path) -> None:
    async with Pipe(tmp_path / "told") as told:
        program = script(tmp_path / "mine", f"umask > {told.path}")
        write_config(home, f'[defaults]\nnotify = ["{program}"]\n')
        async with running(home) as world:
            world.nursery.start_soon(announce.announce, world.broker, Inherited(umask=0o027))
            await trio.testing.wait_all_tasks_blocked()
            await ask(world)
            assert await told.line() == "0027"


class Told(logging.Handler):
    """The first line of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.event = trio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()
        self.event.set()


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["/nowhere/program"], 'cannot start "/nowhere/program": no such file or directory'),
        (["/bin/sh", "-c", "exit 3"], '"/bin/sh" ended with exit code 3'),
    ],
)
async def test_a_program_that_fails_is_logged(
    home: Home, real_clock: None, argv: list[str], said: str
) -> None:
    write_config(home, f"[defaults]\nnotify = {json.dumps(argv)}\n")
    told = Told()
    announce.log.addHandler(told)
    try:
        async with running(home) as world:
            world.nursery.start_soon(announce.announce, world.broker)
            await trio.testing.wait_all_tasks_blocked()
            await ask(world)
            with trio.fail_after(20):
                await told.event.wait()
    finally:
        announce.log.removeHandler(told)
    assert told.text == said
