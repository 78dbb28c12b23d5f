"""`mcpctl events`: what happens, as it happens."""

from __future__ import annotations

import json

from mcpctl import output
from mcpctl.commands import QUICK, Command, reach, whole
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from mcpctl.client import Client
    from mcpctl.commands import Arguments


def events(options: Namespace) -> int:
    """Follow what happens: states, catalogues, servers, sessions."""
    params: dict[str, object] = {"topics": options.topic} if options.topic else {}
    with reach(options) as mcpd:
        seen = subscribe(mcpd, params)
        left = options.count or -1
        while left != 0:
            for method, event, text in mcpd.events():
                if method == "events.lagged":
                    output.note("some events are lost: they came faster than they were read")
                    seen = subscribe(mcpd, {**params, "since": seen})
                    break
                if method != "event":
                    continue
                seen = event["seq"]
                if options.json:
                    output.say_json(text)
                else:
                    data = json.dumps(event["data"], ensure_ascii=False)
                    output.say(output.visible(f"{event['seq']}  {event['topic']}  {data}"))
                output.flush()
                left -= 1
                if left == 0:
                    break
            else:
                raise CallError("connection_lost", "mcpd closed the connection")
    return DONE


def subscribe(mcpd: Client, params: dict[str, object]) -> int:
    """The number of the last event that is not going to come."""
    answer = mcpd.call("events.subscribe", params, QUICK)
    if answer["gap"]:
        output.note("some events are lost")
    return int(answer["seq"])


def _events(arguments: Arguments) -> None:
    arguments.add_argument(
        "--topic",
        action="append",
        choices=("status", "catalog", "servers", "sessions", "grants", "approvals", "leaks"),
        help="only this topic; may be given several times",
    )
    arguments.add_argument("-n", "--count", type=whole(1), metavar="N", help="end after so many")


COMMANDS = (Command("events", events, _events),)
