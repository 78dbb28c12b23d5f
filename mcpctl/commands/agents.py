"""Agents: which there are, what each may use, who is attached."""

from __future__ import annotations

from mcpctl import output
from mcpctl.arguments import readable
from mcpctl.commands import QUICK, Command, clock, reach, waiting
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.commands import Arguments

HEAD = ("AGENT", "MAY USE", "NOT", "UP TO", "SESSIONS", "DETAIL")
SESSIONS_HEAD = ("SESSION", "AGENT", "SINCE", "PID", "PROGRAM", "FOLDER", "WITHOUT")

RISKS = ("low", "medium", "high")

#: action -> how many words it takes besides its name, at least and at most.
ACTIONS = {
    "list": (0, 0),
    "show": (1, 1),
    "add": (1, 1),
    "remove": (1, 1),
    "allow": (2, 256),
    "deny": (2, 256),
    "max-risk": (2, 2),
    "session": (0, 1),
}

#: option -> the member of `agents.add` that it fills.
LISTS = {"allow": "allowed_tools", "deny": "denied_tools", "auto_approve": "auto_approve"}


def agents(options: Namespace) -> int:
    """Agents and what each may use: mcpctl agents allow NAME SERVER...; changes count at once.

    A server's name among the tools means all of them, now and later.
    """
    method, params = wanted(options)
    with reach(options) as mcpd:
        found, text = mcpd.request(method, params, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
    else:
        SAY[method](found)
    return DONE


def wanted(options: Namespace) -> tuple[str, dict[str, Any]]:
    """Method and params. Raises CallError `usage` for words that do not go together."""
    action, words = options.action, [readable(word) for word in options.words]
    least, most = ACTIONS[action]
    if not least <= len(words) <= most:
        raise CallError("usage", f"mcpctl agents {USAGE[action]}")
    check_options(options)
    match action:
        case "list":
            return "agents.list", {}
        case "show":
            return "agents.get", {"agent": words[0]}
        case "add":
            return "agents.add", added(options, words[0])
        case "remove":
            return "agents.remove", {"agent": words[0]}
        case "max-risk":
            if words[1] not in RISKS:
                raise CallError("usage", f'a risk is {", ".join(RISKS)}, not "{words[1]}"')
            return "agents.max_risk", {"agent": words[0], "max_risk": words[1]}
        case "session":
            return session(options, words)
    return f"agents.{action}", {"agent": words[0], "tools": words[1:]}


USAGE = {
    "list": "list",
    "show": "show AGENT",
    "add": "add AGENT [--allow TOOL]... [--deny TOOL]... [--max-risk RISK] ...",
    "remove": "remove AGENT",
    "allow": "allow AGENT SERVER|TOOL...",
    "deny": "deny AGENT SERVER|TOOL...",
    "max-risk": "max-risk AGENT low|medium|high",
    "session": "session [SESSION --off SERVER | --on SERVER]",
}


def check_options(options: Namespace) -> None:
    """Raises CallError `usage` for options that belong to another action."""
    of_add = (*LISTS, "nothing", "max_risk", "host", "open")
    for names, action in ((of_add, "add"), (("off", "on"), "session")):
        given = [name for name in names if getattr(options, name)]
        if given and options.action != action:
            raise CallError("usage", f"--{given[0].replace('_', '-')} belongs to: mcpctl agents {action}")


def added(options: Namespace, agent: str) -> dict[str, Any]:
    """The params of `agents.add`."""
    if options.allow and options.nothing:
        raise CallError("usage", "cannot both allow tools and nothing")
    params: dict[str, Any] = {"agent": agent}
    for option, member in LISTS.items():
        if given := getattr(options, option):
            params[member] = [readable(word) for word in given]
    if options.nothing:
        params["allowed_tools"] = []
    if options.max_risk:
        params["max_risk"] = options.max_risk
    if options.host:
        params["approver"] = "host"
    if options.open:
        params["open"] = True
    return params


def session(options: Namespace, words: list[str]) -> tuple[str, dict[str, Any]]:
    if not words:
        if options.off or options.on:
            raise CallError("usage", "no session named", "mcpctl agents session lists them")
        return "agents.sessions", {}
    if bool(options.off) == bool(options.on):
        raise CallError("usage", "say which server: --off SERVER, or --on SERVER")
    server = options.off or options.on
    return "sessions.switch", {"session": words[0], "server": server, "on": bool(options.on)}


# Answers -------------------------------------------------------------------------------


def say_agents(found: Any) -> None:
    output.say(output.table(HEAD, map(row, found["agents"]), spill=True))


def row(agent: Any) -> tuple[object, ...]:
    return (
        agent["name"],
        may_use(agent),
        ", ".join(agent["denied_tools"]) or "-",
        agent["max_risk"],
        agent["sessions"] or "-",
        "; ".join(agent["problems"]),
    )


def may_use(agent: Any) -> str:
    """D11 in words."""
    allowed = agent["allowed_tools"]
    return "every server" if allowed is None else ", ".join(allowed) or "nothing"


def say_agent(found: Any) -> None:
    more = [
        ("socket", found["socket"]),
        ("gets", "\n".join(map(share, found["servers"])) or "nothing"),
        ("sessions", "\n".join(map(session_line, found["attached"]))),
    ]
    output.say(output.fields([*entry(found), *more]))


def entry(agent: Any) -> list[tuple[str, str]]:
    """What its definition says."""
    return [
        ("agent", agent["name"]),
        ("source", agent["source"] or "no entry"),
        ("may use", may_use(agent)),
        ("not", ", ".join(agent["denied_tools"])),
        ("up to", f"{agent['max_risk']} risk"),
        ("unasked", ", ".join(agent["auto_approve"])),
        ("asks", "a person" if agent["approver"] == "person" else "its host, up to medium risk"),
        ("names", agent["spelling"]),
        ("open", "any process may say that it is this agent" * agent["open"]),
        ("problems", "\n".join(agent["problems"])),
    ]


def share(server: Any) -> str:
    if not server["known"]:
        return f"{server['server']}: its tools are not known yet"
    above = f", {server['above']} of them above its risk" if server["above"] else ""
    return f"{server['server']}: {server['tools']} of {output.plural(server['of'], 'tool')}{above}"


def session_line(session: Any) -> str:
    off = f", without {', '.join(left_out(session))}" if left_out(session) else ""
    return f"{session['id']} since {clock(session['began'])}, pid {session['pid']} {session['exe']}{off}"


def left_out(session: Any) -> list[str]:
    return [*session["without"], *(f"{name} (switched off)" for name in session["off"])]


def say_added(found: Any) -> None:
    say_agent(found)
    if found["allowed_tools"] is None and not found["denied_tools"]:
        output.note("it may use every server; keep one from it: mcpctl agents deny AGENT SERVER")
    output.note(f"attach it: mcpctl bridge --agent {found['name']}")


def say_changed(found: Any) -> None:
    output.say(output.fields(entry(found["agent"])))
    for note in found["notes"]:
        output.note(note)
    if not found["changed"]:
        output.note("nothing had to be changed")


def say_removed(found: Any) -> None:
    output.say(output.visible(f"removed {found['file']}"))


def say_sessions(found: Any) -> None:
    if found["sessions"]:
        output.say(output.table(SESSIONS_HEAD, map(session_row, found["sessions"])))
    else:
        output.note("nobody is attached")


def say_session(found: Any) -> None:
    output.say(output.table(SESSIONS_HEAD, [session_row(found)]))


def session_row(session: Any) -> tuple[object, ...]:
    return (
        session["id"],
        session["agent"],
        clock(session["began"]),
        session["pid"] or "several",
        session["exe"],
        session["root"] or session["cwd"],
        ", ".join(left_out(session)) + (f" (only {session['server']})" if session["server"] else ""),
    )


SAY = {
    "agents.list": say_agents,
    "agents.get": say_agent,
    "agents.add": say_added,
    "agents.remove": say_removed,
    "agents.allow": say_changed,
    "agents.deny": say_changed,
    "agents.max_risk": say_changed,
    "agents.sessions": say_sessions,
    "sessions.switch": say_session,
}


def _agents(arguments: Arguments) -> None:
    arguments.add_argument(
        "action", nargs="?", choices=tuple(ACTIONS), default="list", help="what to do; without one, the list"
    )
    arguments.add_argument("words", metavar="AGENT", nargs="*", help="the agent, then tools or a risk")
    for option, text in (
        ("allow", "add: it may use this server or tool, and nothing that is not named"),
        ("deny", "add: it may not use this server or tool"),
        ("auto-approve", "add: needs no question; a pattern up to medium risk, an exact name any"),
    ):
        arguments.add_argument(f"--{option}", action="append", default=[], metavar="TOOL", help=text)
    arguments.add_argument(
        "--nothing", action="store_true", help="add: it may use nothing until it is allowed"
    )
    arguments.add_argument("--max-risk", choices=RISKS, help="add: calls above it are denied (high)")
    arguments.add_argument(
        "--host", action="store_true", help="add: its host may answer questions up to medium risk"
    )
    arguments.add_argument(
        "--open", action="store_true", help="add: any process may say that it is this agent"
    )
    arguments.add_argument("--off", metavar="SERVER", help="session: show it this server no more")
    arguments.add_argument("--on", metavar="SERVER", help="session: show it this server again")
    waiting(arguments)


COMMANDS = (Command("agents", agents, _agents, spread=True),)
