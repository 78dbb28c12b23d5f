"""What a person says of a server: whether its labels are believed, and that a new destination is meant."""

from __future__ import annotations

from mcpctl import output
from mcpctl.commands import QUICK, SLOW, Command, reach, waiting
from mcpctl.commands.servers import pinned, say_state
from mcpctl.commands.tools import every_tool
from mcpctl.errors import DENIED, DONE, FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.commands import Arguments


def trust(options: Namespace) -> int:
    """Believe what a server says of its tools: what it calls read-only needs no question then."""
    with reach(options) as mcpd:
        _, text = mcpd.request("servers.trust", {"server": options.server}, options.timeout or SLOW)
        found = every_tool(mcpd, {"server": options.server}, options.timeout or SLOW).entries
        flagged, _ = mcpd.request("pins.flags", {"server": options.server}, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
        return DONE
    free = [tool["tool"] for tool in found if tool["approval"] == "never"]
    output.say(output.visible(f'"{options.server}" is trusted, where it is now'))
    if free:
        names = ", ".join(map(str, free[:12])) + (" ..." if len(free) > 12 else "")
        output.say(output.visible(f"  no question for {len(free)} of {len(found)} tools: {names}"))
    if flagged["definitions"]:
        count = output.plural(len(flagged["definitions"]) + flagged["more"], "definition")
        output.note(f"read what is said in {count}: mcpctl pins flags {options.server}")
    return DONE


def untrust(options: Namespace) -> int:
    """Believe a server's labels no more: its tools are of high risk again."""
    with reach(options) as mcpd:
        _, text = mcpd.request("servers.untrust", {"server": options.server}, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
    else:
        output.say(output.visible(f'"{options.server}" is not trusted'))
    return DONE


def accept(options: Namespace) -> int:
    """Show what waits of a server, old and new, and let it count; without a terminal, by --shown."""
    from mcpctl.commands import person

    server = {"server": options.server}
    with reach(options) as mcpd:
        shown = options.shown
        if not shown:
            review, text = mcpd.request("servers.review", server, options.timeout or QUICK)
            if options.json:
                output.say_json(text)
                return DONE if not is_new(review) else DENIED
            if not is_new(review):
                output.note(output.visible(f'nothing of "{options.server}" waits'))
                return DONE
            output.say(report(review))
            if not person.is_there():
                step = f"mcpctl accept {options.server} --shown {review['shown']}"
                output.note(output.visible(f"nothing is accepted yet; next: {step}"))
                return DENIED
            if not person.agrees("Accept it? [y/N] "):
                output.note("nothing is accepted")
                return FAILED
            shown = review["shown"]
        info, text = mcpd.request("servers.accept", {**server, "shown": shown}, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
    else:
        say_state(info)
    return DONE


def is_new(review: Any) -> bool:
    return bool(review["waits"] or review["changed"] or review.get("becomes") or review["old"] is None)


def report(review: Any) -> str:
    """Old and new, one below the other, and what hangs on it."""
    return output.fields(
        [
            ("server", review["server"]),
            ("waits", review["waits"]),
            ("changed", ", ".join(review["changed"])),
            ("old", destination(review["old"]) if review["old"] else "(never accepted)"),
            ("new", destination(review["new"])),
            ("starts", f"{review['becomes']} (was {review['was']})" if review.get("becomes") else ""),
            ("policy", pinned(review["default_policy"]) if "policy" in review["changed"] else ""),
            ("gets", ", ".join(review["gets"])),
            ("loses", ", ".join(review["loses"])),
            ("trusted", "yes, also there" if review["trusted"] and review["loses"] else ""),
        ]
    )


def destination(found: Any) -> str:
    """What is started or contacted, each argument on a line of its own: a blank in one is no boundary."""
    if found["url"]:
        return str(found["url"])
    lines = [str(found["command"]), *(f"  {argument}" for argument in found["args"])]
    return "\n".join([*lines, f"in {found['cwd']}"] if found["cwd"] else lines)


def _one(arguments: Arguments) -> None:
    arguments.add_argument("server", metavar="SERVER", help="the server's name")
    waiting(arguments)


def _accept(arguments: Arguments) -> None:
    _one(arguments)
    arguments.add_argument(
        "--shown", metavar="DIGEST", help="accept what was shown under this, without asking"
    )


COMMANDS = (
    Command("trust", trust, _one),
    Command("untrust", untrust, _one),
    Command("accept", accept, _accept),
)
