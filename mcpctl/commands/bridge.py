"""`mcpctl bridge` as the parser knows it: for help, completion and options before the verb."""

from __future__ import annotations

from mcpctl import bridge
from mcpctl.commands import Command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from mcpctl.commands import Arguments


def run(options: Namespace) -> int:
    """Attach the host that runs this: MCP on stdin and stdout."""
    options.without = ",".join(options.without)
    given = {name: value for name in bridge.OPTIONS if (value := getattr(options, name))}
    return bridge.run(given, spawn=not options.no_spawn)


def _bridge(arguments: Arguments) -> None:
    for name, text in bridge.OPTIONS.items():
        if name == "without":
            arguments.add_argument("--without", action="append", default=[], metavar="SERVER", help=text)
        elif name != "socket":
            arguments.add_argument(f"--{name}", metavar=METAVARS[name], help=text)


METAVARS = {"agent": "AGENT", "server": "SERVER", "root": "DIR"}

COMMANDS = (Command("bridge", run, _bridge, json=False),)
