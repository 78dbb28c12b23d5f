"""Grants: a lasting yes to calls, for an agent and a tool; list, give, take back."""

from __future__ import annotations

import os

from mcpctl import output
from mcpctl.arguments import json_value, readable
from mcpctl.commands import QUICK, SLOW, Command, clock, duration, reach, waiting, whole
from mcpctl.commands.tools import properties
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.client import Client
    from mcpctl.commands import Arguments

HEAD = ("ID", "AGENT", "TOOL", "LASTS", "USED", "WHERE")

#: test -> how it reads
TESTS = {"equals": "=", "prefix": "begins with", "glob": "fits", "under": "is under"}

#: Tools that are told as not covered.
FEW = 5

#: What says how long a grant lasts; exactly one of them.
LIFESPANS = ("once", "count", "lasts", "session", "forever")


def grants(options: Namespace) -> int:
    """List grants, or give one: mcpctl grants add TOOL --agent NAME --for 8h."""
    if options.action == "add":
        return add(options)
    if options.action == "revoke":
        if options.tool is None:
            raise CallError("usage", "no grant named", "mcpctl revoke ID; mcpctl grants lists them")
        options.id = [options.tool]
        return revoke(options)
    if options.tool is not None:
        raise CallError("usage", "the list takes no names", "mcpctl grants add TOOL --agent NAME")
    with reach(options) as mcpd:
        found, text = mcpd.request("grants.list", {}, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
    elif found["grants"]:
        output.say(output.table(HEAD, map(row, found["grants"]), spill=True))
    else:
        output.note("no grants")
    return DONE


def row(grant: Any) -> tuple[object, ...]:
    lasts = grant["idle"] and f"idle: {grant['idle']}"
    words = [where_words(grant), grant["reason"] and f"({grant['reason']})"]
    return (
        grant["id"],
        agent(grant["agent"]),
        f"{grant['server']}__{grant['tool']}",
        lasts or lasting(grant),
        grant["used"],
        " ".join(filter(None, words)),
    )


def agent(name: str) -> str:
    return {"": "(mcpctl)", "*": "(all)"}.get(name, name)


def condition(where: Any) -> str:
    value = where["value"] if where["test"] == "equals" else f'"{where["value"]}"'
    return f"{where['argument']} {TESTS.get(where['test'], where['test'])} {value}"


def where_words(grant: Any) -> str:
    other = ["no other arguments"] if grant["only"] else []
    return " and ".join([*map(condition, grant["where"]), *other])


def lasting(grant: Any) -> str:
    """How long it still counts."""
    match grant["lifespan"]:
        case "count":
            return f"{output.plural(grant['count'] - grant['used'], 'more call')}"
        case "until":
            return f"until {clock(grant['until'])}"
        case "session":
            return f"session {grant['session']}"
        case other:
            return str(other)


def add(options: Namespace) -> int:
    params = wanted(options)
    with reach(options) as mcpd:
        found, text = mcpd.request("grants.add", params, options.timeout or SLOW)
        strange = [] if options.json else unknown(mcpd, found["grant"])
    if options.json:
        output.say_json(text)
        return DONE
    say_granted(found)
    for name in strange:
        output.note(f'the tool knows no argument "{name}": look for a slip, or the grant will never count')
    return DONE


def unknown(mcpd: Client, grant: Any) -> list[str]:
    """Arguments of the conditions that the schema of the tool does not have, where it names any."""
    if not (grant["exact"] and grant["where"]):
        return []
    known = properties(mcpd, {"server": grant["server"], "tool": grant["tool"]}, SLOW)
    return [each["argument"] for each in grant["where"] if known and each["argument"] not in known]


def say_granted(found: Any) -> None:
    grant = found["grant"]
    output.say(
        output.fields(
            [
                ("grant", grant["id"]),
                ("agent", agent(grant["agent"])),
                ("tool" if grant["exact"] else "tools", f"{grant['server']}__{grant['tool']}"),
                ("where", where_words(grant)),
                ("lasts", lasting(grant)),
                ("reason", grant["reason"]),
            ]
        )
    )
    if found["answered"]:
        output.note(f"{output.plural(found['answered'], 'open question')} answered by it")
    for each in found["beyond"][:FEW]:
        output.note(f"not covered: {each}")
    if len(found["beyond"]) > FEW:
        output.note("nor are more of them")
    if not found["covered"]:
        output.note("no tool that is known now is covered by it")
        output.note(
            f"mcpctl explain AGENT TOOL says what would do; mcpctl revoke {grant['id']} takes this back"
        )


def wanted(options: Namespace) -> dict[str, Any]:
    """The params of `grants.add`. Raises CallError `usage` for words that do not go together."""
    if options.tool is None:
        raise CallError("usage", "no tool named", "mcpctl tools lists them")
    whom = [name for name, given in (("", options.operator), ("*", options.all)) if given]
    whom += [] if options.agent is None else [options.agent]
    if len(whom) != 1:
        raise CallError("usage", "say for whom: --agent NAME, or --all, or --operator")
    tool = readable(options.tool)
    params: dict[str, Any] = {"server": readable(options.server), "tool": tool} if options.server else {}
    params |= {"agent": readable(whom[0]), "where": conditions(options), **lifespan(options)}
    if not options.server:
        params["name"] = tool
    if options.only:
        params["only"] = True
    if options.reason:
        params["reason"] = readable(options.reason)
    return params


def lifespan(options: Namespace) -> dict[str, Any]:
    said = {name: getattr(options, name) for name in LIFESPANS}
    given = [name for name, value in said.items() if value is not None and value is not False]  # 0 is said
    if len(given) != 1:
        say = "say how long" if not given else "say only once how long"
        raise CallError("usage", f"{say}: --once, --count N, --for TIME, --session ID or --forever")
    if given[0] in ("count", "lasts") and said[given[0]] <= 0:
        raise CallError("usage", "a grant of no time and no call is none", "mcpctl revoke ID takes one back")
    match given[0]:
        case "count":
            return {"lifespan": "count", "count": options.count}
        case "lasts":
            return {"lifespan": "until", "seconds": options.lasts}
        case "session":
            return {"lifespan": "session", "session": options.session}
        case name:
            return {"lifespan": name}


def conditions(options: Namespace) -> list[dict[str, str]]:
    found = []
    for test in TESTS:
        for word in getattr(options, test):
            name, equals, value = readable(word).partition("=")
            if not (equals and name and value):
                raise CallError("usage", f'cannot read "{word}" behind --{test}: not ARGUMENT=VALUE')
            if test == "equals":
                value = json_value(value)
            elif test == "under":
                value = readable(os.path.abspath(os.path.expanduser(value)))
            found.append({"argument": name, "test": test, "value": value})
    return found


def revoke(options: Namespace) -> int:
    """Take grants back; what they let through goes on."""
    taken = []
    with reach(options) as mcpd:
        for key in options.id:
            grant, text = mcpd.request("grants.revoke", {"id": key}, options.timeout or QUICK)
            taken.append(text)
            if not options.json:
                subject = f"{grant['server']}__{grant['tool']}"
                output.say(output.visible(f"revoked {grant['id']}: {agent(grant['agent'])} {subject}"))
    if options.json:
        output.say_json(f'{{"revoked":[{",".join(taken)}]}}')
    return DONE


def _grants(arguments: Arguments) -> None:
    arguments.add_argument(
        "action",
        choices=("list", "add", "revoke"),
        nargs="?",
        default="list",
        help="what to do; list if not said; revoke is as `mcpctl revoke`, of one",
    )
    arguments.add_argument(
        "tool",
        metavar="TOOL",
        nargs="?",
        help="its name, as in `mcpctl tools`; with * or ? a pattern for tools of one server, "
        "which counts up to medium risk",
    )
    arguments.add_argument("--server", metavar="SERVER", help="TOOL is this server's own name for it")
    arguments.add_argument("--agent", metavar="AGENT", help="whose calls")
    arguments.add_argument("--all", action="store_true", help="calls of every agent and of mcpctl")
    arguments.add_argument("--operator", action="store_true", help="calls by `mcpctl call`")
    for test, text in CONDITIONS.items():
        arguments.add_argument(
            f"--{test}", metavar="ARGUMENT=VALUE", action="append", default=[], help=text + "; repeatable"
        )
    arguments.add_argument("--only", action="store_true", help="and there are no other arguments than these")
    arguments.add_argument("--once", action="store_true", help="for one call")
    arguments.add_argument("--count", type=whole(0), metavar="N", help="for N calls")
    arguments.add_argument(
        "--for", dest="lasts", type=duration, metavar="TIME", help="for that long: 30m, 8h, 7d"
    )
    arguments.add_argument("--session", metavar="ID", help="while that session is attached")
    arguments.add_argument("--forever", action="store_true", help="until it is revoked")
    arguments.add_argument("--reason", metavar="TEXT", help="why, for the list")
    waiting(arguments)


#: option -> help
CONDITIONS = {
    "equals": "the argument is exactly VALUE: JSON (2, true), anything else as text",
    "prefix": "the argument begins with VALUE",
    "glob": "the argument fits VALUE, with * and ?",
    "under": "the argument is a path in folder VALUE or below, `..` taken out",
}


def _revoke(arguments: Arguments) -> None:
    arguments.add_argument("id", metavar="ID", nargs="+", help="as `mcpctl grants` lists it")
    waiting(arguments)


COMMANDS = (
    Command("grants", grants, _grants, usage="mcpctl grants [list | add TOOL] [options]"),
    Command("revoke", revoke, _revoke),
)
