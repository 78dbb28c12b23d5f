"""`mcpctl endpoint`: agents over HTTP on this machine, and the tokens that let them in (n23)."""

from __future__ import annotations

from mcpctl import output
from mcpctl.commands import QUICK, Command, clock, reach, waiting, whole
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.commands import Arguments

ACTIONS = ("status", "enable", "disable", "token")


def endpoint(options: Namespace) -> int:
    """Serve agents over HTTP too, on 127.0.0.1 and ::1, each with a token of its own"""
    method, params = wanted(options)
    with reach(options) as mcpd:
        found, text = mcpd.request(method, params, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
    elif method == "endpoint.token":
        say_token(found)
    else:
        say_status(found)
        if options.port == 0 and found["urls"]:
            # One that it had already serves as well: hosts that know it need not be told of another.
            output.note(f"port {found['port']} until mcpd ends; any free one at each start from then on")
    return DONE


def wanted(options: Namespace) -> tuple[str, dict[str, Any]]:
    """Method and params. Raises CallError for words that do not go together."""
    action, agent = options.action, options.agent
    if (action == "token") != bool(agent):
        raise CallError(
            "usage", f'"{action}" takes no agent' if agent else '"token" needs the name of an agent'
        )
    if options.port is not None and action != "enable":
        raise CallError("usage", "--port belongs to enable")
    if (options.rotate or options.revoke) and action != "token":
        raise CallError("usage", "--rotate and --revoke belong to token")
    if options.rotate and options.revoke:
        raise CallError("usage", "cannot both rotate and revoke a token")
    if action == "enable":
        return "endpoint.enable", {} if options.port is None else {"port": options.port}
    if action != "token":
        return f"endpoint.{action}", {}
    if options.revoke:
        return "endpoint.revoke", {"agent": agent}
    return "endpoint.token", {"agent": agent, "rotate": options.rotate}


def say_status(found: Any) -> None:
    state = "listens" if found["urls"] else "enabled, does not listen" if found["enabled"] else "disabled"
    output.say(
        output.fields(
            [
                ("endpoint", state),
                ("problem", found["problem"]),
                ("urls", "\n".join(found["urls"])),
                ("port", "" if found["urls"] else found["port"] or "any free one"),
                ("sessions", str(found["sessions"])),
                ("tokens", "\n".join(map(token_line, found["tokens"])) or "none"),
            ]
        )
    )
    if found["enabled"] and not found["tokens"]:
        output.note("nobody can come in yet; next: mcpctl endpoint token AGENT")
    if not found["enabled"]:
        output.note("next: mcpctl endpoint enable")


def token_line(token: Any) -> str:
    of_no_use = "" if token["usable"] else ", of no use: no such agent is configured"
    return f"{token['agent']}, made {clock(token['made'])}{of_no_use}"


def say_token(found: Any) -> None:
    """The token alone goes to stdout, for scripts; how to use it is told beside it."""
    output.say(output.visible(found["token"]))
    output.note(f"the token of agent {found['agent']}; it is not shown again")
    if found["replaced"]:
        output.note("the one before is of no use any more")
    if found["urls"]:
        output.note(f"the host needs: {found['urls'][0]} with the header  Authorization: Bearer TOKEN")
    else:
        output.note("the endpoint does not listen; next: mcpctl endpoint enable")


def _endpoint(arguments: Arguments) -> None:
    arguments.add_argument(
        "action", nargs="?", choices=ACTIONS, default="status", help="what to do; without one, show the state"
    )
    arguments.add_argument("agent", metavar="AGENT", nargs="?", help="whose token, after `token`")
    arguments.add_argument(
        "--port", type=whole(0, 65535), metavar="N", help="listen there (6273); 0: any free one"
    )
    arguments.add_argument("--rotate", action="store_true", help="make another token in place of the old one")
    arguments.add_argument("--revoke", action="store_true", help="forget the agent's token")
    waiting(arguments)


COMMANDS = (Command("endpoint", endpoint, _endpoint),)
