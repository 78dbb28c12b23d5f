"""`mcpctl policy replay`: which recorded requests would be decided otherwise now (n10)."""

from __future__ import annotations

import time

from mcpctl import output
from mcpctl.commands import SLOW, clock, moment, reach
from mcpctl.errors import DONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

HEAD = ("COUNT", "AGENT", "TOOL", "WAS", "NOW", "LAST", "DECIDED BY")


def replay(options: Namespace) -> int:
    """Exit code 0 also where there are differences: they are what was asked for."""
    now = time.time()
    params: dict[str, object] = {
        "since": moment(options.since, now),
        "until": moment(options.until, now),
        "server": options.server or "",
    }
    if options.agent is not None:
        params["agent"] = "" if options.agent == "-" else options.agent
    with reach(options) as mcpd:
        found, text = mcpd.request("policy.replay", params, options.timeout or SLOW)
    if options.json:
        output.say_json(text)
        return DONE
    if found["differences"]:
        output.say(output.table(HEAD, map(row, found["differences"]), spill=True))
    elif found["examined"]:
        output.note("all of them would be decided as they were")
    requests = output.plural(found["examined"], "request")
    output.note(f"{requests} looked at" + ("" if found["complete"] else ", the newest; older ones were not"))
    if found["unknown"]:
        output.note(
            f"{found['unknown']} of them to servers whose tools are not known now: mcpctl test SERVER"
        )
    return DONE


def row(each: Any) -> tuple[object, ...]:
    return (
        each["count"],
        each["agent"] or "(mcpctl)",
        f"{each['server']}__{each['tool']}",
        each["was"],
        each["now"],
        clock(each["last_at"]),
        each["decided"],
    )
