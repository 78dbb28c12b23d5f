"""The commands, one module a noun. A command is: declare arguments, one request, print."""

from __future__ import annotations

import os
import time

from mcpctl import __version__, client, output, paths
from mcpctl.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    class Arguments(Protocol):
        """Where a command declares its arguments: argparse, or the completion's reader of them."""

        def add_argument(self, *names: str, **settings: Any) -> Any: ...


#: verb -> module, in the order of the help text. Only the module that is needed is imported.
MODULES = {
    "status": "daemon",
    "list": "servers",
    "add": "add",
    "remove": "servers",
    "enable": "servers",
    "disable": "servers",
    "reconnect": "servers",
    "test": "servers",
    "logs": "servers",
    "trust": "trust",
    "untrust": "trust",
    "accept": "trust",
    "pins": "pins",
    "tools": "tools",
    "describe": "tools",
    "call": "tools",
    "resources": "resources",
    "prompts": "prompts",
    "approvals": "approvals",
    "approve": "approvals",
    "deny": "approvals",
    "grants": "grants",
    "revoke": "grants",
    "explain": "explain",
    "agents": "agents",
    "policy": "policy",
    "bridge": "bridge",
    "passphrase": "passphrase",
    "journal": "journal",
    "endpoint": "endpoint",
    "reload": "daemon",
    "stop": "daemon",
    "events": "events",
    "rpc": "rpc",
    "socket-path": "daemon",
    "completion": "completion",
    "version": "daemon",
}

#: Seconds that a question which the daemon answers by itself may take.
QUICK = 30.0

#: Seconds for one that may start servers: the longest first start is 120 s (c12), and two lists may follow.
SLOW = 300.0


class Command:
    """One verb. `run` returns the exit code; the first line of its docstring is the verb's summary."""

    __slots__ = ("declare", "hint", "json", "name", "run", "spread", "usage")

    def __init__(
        self,
        name: str,
        run: Callable[[Namespace], int],
        declare: Callable[[Arguments], None] | None = None,
        *,
        usage: str = "",
        spread: bool = False,
        hint: str = "",
        json: bool = True,
    ) -> None:
        self.name = name
        self.run = run
        self.declare = declare
        self.usage = usage
        self.spread = spread
        """Options may stand between the words of a list; what follows `--` is in `options.tail`."""
        self.hint = hint
        """Added to usage errors."""
        self.json = json
        """Whether it has an answer, which could be JSON."""

    @property
    def summary(self) -> str:
        return (self.run.__doc__ or "").partition("\n")[0].rstrip(".")


def find(verb: str) -> Command:
    """The command of that name. Raises KeyError."""
    # importlib, which has a function for this, takes a millisecond more to import.
    module = __import__(f"mcpctl.commands.{MODULES[verb]}", fromlist=["COMMANDS"])
    commands: tuple[Command, ...] = module.COMMANDS
    return next(command for command in commands if command.name == verb)


def every_command() -> Iterator[Command]:
    return map(find, MODULES)


def common(arguments: Arguments, *, json: bool = True) -> None:
    """The arguments of every command; `json` is for those that have an answer."""
    if json:
        arguments.add_argument("--json", action="store_true", help="answer as JSON, in a stable shape")
    arguments.add_argument("--socket", metavar="PATH", help="the daemon's control socket")
    arguments.add_argument("--no-spawn", action="store_true", help="do not start the daemon")


def waiting(arguments: Arguments) -> None:
    arguments.add_argument(
        "--timeout", type=duration, metavar="TIME", help="how long to wait for the answer: 5, 500ms, 2m"
    )


#: unit -> seconds; "ms" before "s", which ends it
UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """A length of time as in the configuration: 60, 60s, 500ms, 15m, 2h, 1d. Raises ValueError."""
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    number = text.removesuffix(unit)
    if not number.replace(".", "", 1).isdecimal():
        raise ValueError(text)
    return float(number) * UNITS.get(unit, 1)


def duration(text: str) -> float:
    """`seconds` for an option. Raises ArgumentTypeError, which says what would do."""
    try:
        return seconds(text)
    except ValueError:
        raise unreadable(f'"{text}" is no length of time; say 5, 500ms, 30m, 8h or 7d') from None


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """What reads a whole number for an option. That raises ArgumentTypeError, which says what would do."""

    def read(text: str) -> int:
        if (
            text.isascii()
            and text.isdecimal()
            and least <= int(text) <= (int(text) if most is None else most)
        ):
            return int(text)
        raise unreadable(f'"{text}" is no number from {least} {"on" if most is None else f"to {most}"}')

    return read


def unreadable(why: str) -> Exception:
    """What argparse repeats as it is, where a ValueError becomes "invalid seconds value"."""
    from argparse import ArgumentTypeError

    return ArgumentTypeError(why)


def moment(text: str | None, now: float) -> float:
    """Seconds since the epoch of "30m" (so long ago) or "2026-11-30", "2026-11-30 14:00", "14:00" (today)
    in local time; 0 where nothing is said. Raises CallError `usage`."""
    if text is None:
        return 0
    try:
        return now - seconds(text)
    except ValueError:
        pass
    today = time.strftime("%Y-%m-%d ", time.localtime(now))
    words = text.replace("T", " ")
    for form, whole in (
        ("%Y-%m-%d", words),
        ("%Y-%m-%d %H:%M", words),
        ("%Y-%m-%d %H:%M:%S", words),
        ("%Y-%m-%d %H:%M", today + words),
        ("%Y-%m-%d %H:%M:%S", today + words),
    ):
        try:
            # The daylight saving of that day, not of today.
            return time.mktime((*time.strptime(whole, form)[:8], -1))
        except (ValueError, OverflowError):
            continue
    raise CallError("usage", f'cannot read the time "{text}"', "say 30m, 2h, 3d, 14:00, 2026-11-30 or both")


def place(options: Namespace) -> paths.Place:
    return paths.find(options.socket, os.environ, os.getuid())


def reach(options: Namespace, *, spawn: bool = True) -> client.Client:
    """The connection to use in a `with` statement; `--timeout` counts for the greeting too."""
    timeout = getattr(options, "timeout", None)
    mcpd = client.reach(place(options), spawn=spawn and not options.no_spawn, timeout=timeout)
    mcpd.prove = _prove
    theirs = mcpd.hello.get("version", "")
    if theirs != __version__:
        output.note(
            f"mcpd is version {theirs}, this mcpctl {__version__}: "
            "after `mcpctl stop` the next command starts the installed one"
        )
    return mcpd


def _prove(mcpd: client.Client, wanted: CallError) -> None:
    # Few commands get here.
    from mcpctl import factor

    factor.show(mcpd, wanted)


def clock(at: float) -> str:
    """A moment in local time; empty for 0, which means never."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) if at else ""
