"""`mcpctl rpc`: any method of the control socket, as it is."""

from __future__ import annotations

from mcpctl import output
from mcpctl.arguments import json_object
from mcpctl.commands import QUICK, Command, reach, waiting
from mcpctl.errors import DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from mcpctl.commands import Arguments


def rpc(options: Namespace) -> int:
    """Call a method of the control socket and print its result as JSON; without one, list them."""
    with reach(options) as mcpd:
        if options.method:
            params = params_text(options.params)
            output.say_json(mcpd.call_text(options.method, params, options.timeout))
            return DONE
        found, text = mcpd.request("daemon.describe", timeout=QUICK)
    if options.json:
        output.say_json(text)
    else:
        rows = ((method["name"], method["access"], method["doc"]) for method in found["methods"])
        output.say(output.table(("METHOD", "ACCESS", "DOES"), rows))
    return DONE


def params_text(word: str | None) -> str:
    if word == "-":
        import sys

        return json_object(sys.stdin.buffer.read())
    return json_object(word.encode("utf-8", "surrogateescape")) if word else "{}"


def _rpc(arguments: Arguments) -> None:
    arguments.add_argument("method", metavar="METHOD", nargs="?", help="such as servers.list")
    arguments.add_argument(
        "params", metavar="JSON", nargs="?", help="a JSON object, or - to read it from stdin"
    )
    waiting(arguments)


COMMANDS = (Command("rpc", rpc, _rpc),)
