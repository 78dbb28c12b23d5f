"""A person hears of a new question: by a notice on the desktop, and by a program of their own (a31).

A notice is text alone. A button in it would let whatever draws over the screen, or a slip, approve; and
what is shown in two lines is not what a yes is bound to.
"""

from __future__ import annotations

import html
import logging
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from mcpd.broker import Broker
from mcpd.consent.approvals import Open
from mcpd.policy.card import visible
from mcpd.transport.base import AS_IT_IS, Inherited

log = logging.getLogger(__name__)

#: Seconds that a program which announces may run, and how many of them at once; the rest is left out: the
#: questions are in the queue all the same.
LIMIT: Final = 20.0
MOST: Final = 4
#: Characters of a line in a notice.
WIDTH: Final = 200


async def announce(broker: Broker, inherited: Inherited = AS_IT_IS) -> None:
    """Announce every question that is opened, until cancelled. `inherited`: what the programs get."""
    told: set[str] = set()
    places = trio.Semaphore(MOST)
    async with trio.open_nursery() as nursery:
        with broker.changes.subscribe() as changes:
            async for change in changes:
                if change.topic != "approvals":
                    continue
                opened = {each.id: each for each in broker.approvals.open()}
                for name in opened.keys() - told:
                    for argv, data in _programs(broker, opened[name]):
                        nursery.start_soon(_run, argv, data, broker.environ, places, inherited.umask)
                told = set(opened)


def _programs(broker: Broker, opened: Open) -> list[tuple[Sequence[str], bytes]]:
    found: list[tuple[Sequence[str], bytes]] = []
    desktop = find_desktop(broker.environ)
    if desktop:
        found.append(([desktop, *notice(opened)], b""))
    if broker.config.settings.notify:
        found.append((broker.config.settings.notify, facts(opened)))
    return found


def find_desktop(environ: Mapping[str, str]) -> str:
    """The program that shows notices, where there is one and a session bus; else empty."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if not environ.get("DBUS_SESSION_BUS_ADDRESS") and not (runtime and Path(runtime, "bus").exists()):
        return ""
    return shutil.which("notify-send", path=environ.get("PATH")) or ""


def notice(opened: Open) -> list[str]:
    """The arguments of notify-send. The body may be read as markup, and all of it is untrusted."""
    question = opened.question
    who = f'agent "{question.bound.agent}"' if question.bound.agent else "mcpctl"
    lines = (
        f"{who} asks to call {question.name} (risk {question.risk})",
        f"mcpctl approve {opened.id}, or first: mcpctl approvals",
    )
    body = "\n".join(html.escape(visible(line[:WIDTH]).replace("\n", " "), quote=False) for line in lines)
    return ["--app-name=mcpd", "--", "mcpd: a call waits for you", body]


def facts(opened: Open) -> bytes:
    """What the user's program gets on its stdin: one line of JSON. Arguments are not in it: they are for the
    eyes of whoever looks, not for wherever a message is sent."""
    question = opened.question
    said = {
        "id": opened.id,
        "agent": question.bound.agent,
        "exe": question.exe,
        "cwd": question.cwd,
        "host": question.host,
        "server": question.bound.server,
        "tool": question.bound.tool,
        "name": question.name,
        "risk": question.risk,
        "question": question.question,
        "asked_at": opened.asked_at,
    }
    return msgspec.json.encode(said) + b"\n"


async def _run(
    argv: Sequence[str], data: bytes, environ: Mapping[str, str], places: trio.Semaphore, umask: int
) -> None:
    try:
        places.acquire_nowait()
    except trio.WouldBlock:
        log.warning('"%s" is not started: %d of its kind run already', argv[0], MOST)
        return
    try:
        with trio.move_on_after(LIMIT) as limit:
            done = await trio.run_process(
                argv,
                stdin=data,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                cwd=environ.get("HOME", "/"),
                env=_environment(environ),
                umask=umask,
            )
            if done.returncode:
                log.warning('"%s" ended with exit code %d', argv[0], done.returncode)
        if limit.cancelled_caught:
            log.warning('"%s" was ended after %g s', argv[0], LIMIT)
    except OSError as e:
        log.warning('cannot start "%s": %s', argv[0], str(e.strerror or e).lower())
    finally:
        places.release()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The daemon's own, without what concerns it alone; the session bus where its address goes unsaid."""
    found = {name: value for name, value in environ.items() if not name.startswith("MCPD_")}
    if "XDG_RUNTIME_DIR" in found:
        bus = os.path.join(found["XDG_RUNTIME_DIR"], "bus")
        found.setdefault("DBUS_SESSION_BUS_ADDRESS", f"unix:path={bus}")
    return found
