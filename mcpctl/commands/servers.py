"""Servers: what there is, how it does, switching them."""

from __future__ import annotations

from mcpctl import output
from mcpctl.commands import QUICK, SLOW, Command, clock, reach, waiting, whole
from mcpctl.errors import DONE, FAILED, LOGIN_NEEDED, UNAVAILABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any

    from mcpctl.commands import Arguments

#: What a test counts.
OFFERS = ("tools", "resources", "templates", "prompts")

#: States in which a server needs a person.
BROKEN = ("failed", "crashed", "needs_auth", "waiting_secrets", "held")


def list_servers(options: Namespace) -> int:
    """List the servers, or show everything about one."""
    if options.server:
        return show(options)
    limit = options.timeout or SLOW
    with reach(options) as mcpd:
        tools = None
        if options.tools:
            from mcpctl.commands.tools import every_tool

            tools = every_tool(mcpd, {}, limit)  # connects them, so that the states below are of now
        found, text = mcpd.request("servers.list", timeout=limit)
    if options.json:
        output.say_json(text if tools is None else with_tools(text, tools.text()))
        return DONE
    if found["servers"]:
        head = ("NAME", "STATE", "TOOLS", "COMMAND", "DETAIL")
        output.say(output.table(head, map(row, found["servers"]), spill=True))
    else:
        output.note("no servers; add one: mcpctl add NAME -- COMMAND ARGS...")
    if tools is not None:
        tools.say()
    return DONE


def with_tools(servers: str, tools: str) -> str:
    """Two JSON objects as one."""
    return f"{servers.rstrip()[:-1]},{tools[1:]}"


def row(info: Any) -> tuple[object, ...]:
    state = info["status"]["state"]
    count = info["status"]["tools"]
    return (info["name"], state, count or "-", command_line(info), trouble(info) or company(info))


def command_line(info: Any) -> str:
    if info["url"]:
        return str(info["url"])
    line = " ".join([info["command"], *info["args"]])
    return line if len(line) <= 60 else line[:59] + "…"


def trouble(info: Any) -> str:
    """Why a server is not usable, in one line; empty when nothing is wrong."""
    status = info["status"]
    if info["held"]:
        return str(info["held"])
    if status["state"] in BROKEN or status["state"] in ("restarting", "connecting"):
        # The state is told beside it, and failures without a better word have "failed" as their reason.
        error = str(status["error"]).removeprefix(f"{status['state']}: ")
        reason = str(status["reason"])
        return ": ".join(filter(None, (reason, error))) if reason != status["state"] else error or reason
    return ""


def company(info: Any) -> str:
    """How many instances run of a server that has several; empty for one that is shared."""
    if info["instance"] == "shared":
        return ""
    return f"one per {info['instance']}: {sum(is_up(each) for each in info['instances'])}"


def is_up(instance: Any) -> bool:
    return instance["status"]["state"] not in ("idle", *BROKEN)


def instance_line(instance: Any) -> str:
    """Whose instance it is and how it does."""
    status = instance["status"]
    whose = (
        f"{instance['kind']} {instance['of'] or '(none)'}" if instance["kind"] != "operator" else "operator"
    )
    pid = f", pid {status['pid']}" if status["pid"] else ""
    error = f": {status['error']}" if status["error"] and status["state"] in BROKEN else ""
    return f"{whose}: {status['state']}{pid}{error}"


def may_ask(info: Any) -> str:
    """What of agents a server may ask for because its definition says so."""
    roots = {"none": "", "fixed": "its own folder", "agent": "agents' folders"}[info["roots"]]
    return ", ".join(filter(None, ("agents' models" if info["sampling"] else "", roots)))


def show(options: Namespace) -> int:
    with reach(options) as mcpd:
        info, text = mcpd.request("servers.get", {"server": options.server}, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
        return DONE
    status = info["status"]
    policy = pinned(info["default_policy"])
    output.say(
        output.fields(
            [
                ("name", info["name"]),
                ("source", info["source"]),
                ("state", status["state"]),
                ("detail", trouble(info)),
                ("command", " ".join([info["command"], *info["args"]]).strip()),
                ("url", info["url"]),
                ("env", "\n".join(f"{name}={value}" for name, value in info["env"].items())),
                ("headers", "\n".join(f"{name}: {value}" for name, value in info["headers"].items())),
                ("cwd", info["cwd"]),
                ("path", info["path"]),
                ("starts", info.get("executable") if info.get("executable") != info["command"] else ""),
                ("start", info["start"]),
                ("instance", f"one per {info['instance']}" if info["instance"] != "shared" else ""),
                ("because", f"it keeps a state of its caller's ({info['keeps']})" if info["keeps"] else ""),
                ("instances", "\n".join(map(instance_line, info["instances"]))),
                ("enabled", "" if info["enabled"] else f"no {info['disabled_by']}"),
                ("trusted", "yes: what it says of its tools is believed" if info.get("trusted") else ""),
                ("policy", policy),
                ("may ask for", may_ask(info)),
                ("can be asked", ", ".join(info["told"])),
                (
                    "turns",
                    "one client at a time: it does not say about whose request it asks" * info["takes_turns"],
                ),
                ("tools", status["tools"] or ""),
                ("revision", status["revision"]),
                ("pid", status["pid"] or ""),
                ("last attempt", clock(status["last_attempt"])),
                ("last success", clock(status["last_success"])),
                ("last failure", clock(status["last_failure"])),
                ("latency", output.duration(status["latency"]) if status["latency"] else ""),
                ("last error", status["error"]),
                ("next attempt", clock(status["retry_at"])),
                ("warnings", "\n".join(info["warnings"])),
            ]
        )
    )
    return DONE


def pinned(policy: Any) -> str:
    """What a person has pinned for all tools of a server, in one line."""
    leaks = {f"secrets in {name}": value for name, value in (policy.get("leaks") or {}).items()}
    plain = {name: value for name, value in policy.items() if name != "leaks"}
    if (limit := plain.get("timeout")) is not None:
        plain["timeout"] = output.duration(limit) if limit else "none"
    return ", ".join(f"{name} {value}" for name, value in {**plain, **leaks}.items() if value is not None)


def test(options: Namespace) -> int:
    """Connect one server and report what it offers; exit code 12 when it cannot be reached."""
    with reach(options) as mcpd:
        found, text = mcpd.request("servers.test", {"server": options.server}, options.timeout or SLOW)
    if options.json:
        output.say_json(text)
    else:
        output.say(report(found))
    return verdict(found)


def report(found: Any) -> str:
    """A test's result for people."""
    status = found["status"]
    # These two are the server's own words and can be of any shape.
    info = found["server_info"] if isinstance(found["server_info"], dict) else {}
    capabilities = found["capabilities"] if isinstance(found["capabilities"], dict) else {}
    timings = found["timings"]
    return output.fields(
        [
            ("server", found["server"]),
            ("state", status["state"]),
            ("reason", "" if found["ok"] else status["reason"]),
            ("error", "" if found["ok"] else status["error"]),
            ("is", " ".join(str(info[key]) for key in ("name", "version") if info.get(key))),
            ("revision", found["revision"]),
            ("capabilities", ", ".join(capabilities)),
            *((noun, str(found[noun]) if counted(found, noun) else "") for noun in OFFERS),
            (
                "timings",
                ", ".join(f"{name} {output.duration(took)}" for name, took in timings.items() if took),
            ),
            ("warnings", "\n".join(found["warnings"])),
            ("instructions", found["instructions"]),
        ]
    )


def counted(found: Any, noun: str) -> bool:
    """Tools are always counted; of the others only what there is."""
    return bool(found["ok"] and (noun == "tools" or found[noun]))


def verdict(found: Any) -> int:
    """The exit code of a test; says the next step when it failed."""
    if found["ok"]:
        return DONE
    step = found["hint"] or f"mcpctl logs {found['server']}"
    output.note(output.visible(f'cannot use "{found["server"]}"; next: {step}'))
    return LOGIN_NEEDED if found["status"]["state"] == "needs_auth" else UNAVAILABLE


def logs(options: Namespace) -> int:
    """Print the last lines that a server wrote to its stderr, and what mcpd noted about it."""
    params = {"server": options.server, "lines": options.lines}
    with reach(options) as mcpd:
        found, text = mcpd.request("servers.logs", params, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
        return DONE
    for line in found["lines"]:
        whose = f"[{line['instance']}] " if line["instance"] else ""
        output.say(f"{clock(line['at'])}  {output.visible(whose + line['text'], keep=chr(9))}")
    return DONE


def remove(options: Namespace) -> int:
    """Remove a server and its file."""
    with reach(options) as mcpd:
        found, text = mcpd.request("servers.remove", {"server": options.server}, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
    else:
        output.say(output.visible(f'removed "{options.server}" ({found["removed_file"]})'))
    return DONE


def switch(method: str) -> Callable[[Namespace], int]:
    """The command for a method that takes a server's name and answers with its new state."""

    def run(options: Namespace) -> int:
        with reach(options) as mcpd:
            info, text = mcpd.request(method, {"server": options.server}, options.timeout or QUICK)
        if options.json:
            output.say_json(text)
        else:
            say_state(info)
        if method == "servers.enable" and not info["enabled"]:
            file = info["disabled_by"] or info["source"]
            output.note(f'"{info["name"]}" stays disabled: {file} says enabled = false')
            return FAILED
        return DONE

    run.__doc__ = SWITCHES[method]
    return run


def say_state(info: Any) -> None:
    detail = trouble(info)
    state = info["status"]["state"]
    output.say(output.visible(f'"{info["name"]}" is {state}' + (f": {detail}" if detail else "")))


#: method -> summary of its command
SWITCHES = {
    "servers.enable": "Switch a server on again; names the file that still says no.",
    "servers.disable": "Switch a server off for every agent; its definition stays.",
}


def reconnect(options: Namespace) -> int:
    """Connect a server anew, now, and wait for the outcome; exit code 12 when it cannot be reached."""
    with reach(options) as mcpd:
        info, text = mcpd.request("servers.reconnect", {"server": options.server}, options.timeout or QUICK)
        found, tested = None, "null"
        if not options.no_wait:
            found, tested = mcpd.request("servers.test", {"server": options.server}, options.timeout or SLOW)
    if options.json:
        output.say_json(f'{{"server":{text},"test":{tested}}}')
    else:
        say_state({**info, "status": found["status"]} if found else info)
    return verdict(found) if found else DONE


def _one(arguments: Arguments) -> None:
    arguments.add_argument("server", metavar="SERVER", help="the server's name")
    waiting(arguments)


def _reconnect(arguments: Arguments) -> None:
    _one(arguments)
    arguments.add_argument("--no-wait", action="store_true", help="do not wait for the connection")


def _list(arguments: Arguments) -> None:
    arguments.add_argument("server", metavar="SERVER", nargs="?", help="show this one in full")
    arguments.add_argument("--tools", action="store_true", help="connect the servers and list their tools")
    waiting(arguments)


def _logs(arguments: Arguments) -> None:
    arguments.add_argument("-n", "--lines", type=whole(1, 200), default=50, help="how many, at most 200")
    _one(arguments)


COMMANDS = (
    Command("list", list_servers, _list),
    Command("remove", remove, _one),
    Command("enable", switch("servers.enable"), _one),
    Command("disable", switch("servers.disable"), _one),
    Command("reconnect", reconnect, _reconnect),
    Command("test", test, _one),
    Command("logs", logs, _logs),
)
