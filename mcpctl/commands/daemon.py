"""The daemon itself: status, reload, stop, and where it is."""

from __future__ import annotations

import json
import os
import time

from mcpctl import __version__, client, output
from mcpctl.commands import QUICK, Command, place, reach, waiting
from mcpctl.commands.servers import trouble
from mcpctl.connect import connect
from mcpctl.errors import CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.commands import Arguments
    from mcpctl.paths import Place

#: Servers that are named where a few lines should say how things are.
FEW = 5

#: The longest that a daemon may take to close its servers (the unit's TimeoutStopSec), and a bit.
STOP_LIMIT = 25.0


def overview(options: Namespace) -> int:
    """The state and the next step, in a few lines."""
    try:
        mcpd = reach(options, spawn=False)
    except CallError as error:
        if error.kind != "not_running":
            raise
        if options.json:
            output.say_json('{"running":false}')
            return 0
        output.say("mcpd is not running; the next command that needs it starts it")
        output.say("next: mcpctl add NAME -- COMMAND ARGS...   or: mcpctl list")
        return 0
    with mcpd:
        status, text = mcpd.request("daemon.status", timeout=QUICK)
        found, listed = mcpd.request("servers.list", timeout=QUICK)
    if options.json:
        output.say_json(f'{{"running":true,"status":{text},{listed.strip()[1:]}')
        return 0
    servers = found["servers"]
    where = place(options)
    if where.moved_by:
        output.note(f"using the daemon at {where.control}, as {where.moved_by} says")
    output.say(
        output.visible(
            f"mcpd {status['version']} runs since {output.duration(status['uptime'])} (pid {status['pid']}): "
            f"{output.plural(len(servers), 'server')}, {output.plural(status['sessions'], 'session')}"
        )
    )
    wrong = [info for info in servers if trouble(info)]
    for line in told(wrong):
        output.say(f"  {line}")
    for problem in status["problems"]:
        output.say(output.visible(f"  {problem_text(problem)}"))
    output.say(f"next: {next_step(servers, wrong, status)}")
    return 0


def told(wrong: list[Any]) -> list[str]:
    """A line for each server that is not in order, fit for a terminal; of many only of the first ones."""
    lines = [
        output.visible(f"{info['name']}: {info['status']['state']}: {trouble(info)}") for info in wrong[:FEW]
    ]
    more = len(wrong) - FEW
    return [*lines, f"and {more} more: mcpctl list"] if more > 0 else lines


def next_step(servers: list[Any], wrong: list[Any], status: Any) -> str:
    if status.get("approvals"):
        return waiting_text(status["approvals"])
    if wrong:
        return output.visible(wrong[0].get("step") or f"mcpctl logs {wrong[0]['name']}")
    if status["problems"]:
        return "mend the file, then: mcpctl reload"
    return "mcpctl tools" if servers else "mcpctl add NAME -- COMMAND ARGS..."


def problem_text(problem: Any) -> str:
    return ": ".join(part for part in (problem["file"], problem["place"], problem["message"]) if part)


def status(options: Namespace) -> int:
    """Show what the daemon is, serves and misses; exit code 3 when it does not run."""
    where = place(options)
    try:
        mcpd = reach(options, spawn=False)
    except CallError as error:
        from mcpctl.start import forbidden

        if error.kind == "not_running" and not (where.explicit or options.no_spawn or forbidden(os.environ)):
            error.hint = "the next command that needs it starts it: mcpctl list"
        raise
    limit = options.timeout or QUICK
    servers: list[Any] = []
    with mcpd:
        found, text = mcpd.request("daemon.status", timeout=limit)
        if not options.json:
            servers = mcpd.call("servers.list", timeout=limit)["servers"]
    if options.json:
        output.say_json(text)
        return 0
    states = ", ".join(f"{count} {state}" for state, count in found["servers"].items() if count)
    output.say(
        output.fields(
            [
                ("version", found["version"]),
                ("pid", found["pid"]),
                ("uptime", output.duration(found["uptime"])),
                ("servers", states or "none"),
                ("not in order", "\n".join(told([info for info in servers if trouble(info)]))),
                ("sessions", str(found["sessions"])),
                ("approvals", waiting_text(found.get("approvals", 0))),
                ("agents", ", ".join(found["agents"])),
                ("socket", moved(where)),
                ("config", found["config_file"]),
                ("servers in", found["servers_dir"]),
                ("problems", "\n".join(problem_text(problem) for problem in found["problems"])),
            ]
        )
    )
    return 0


def waiting_text(count: int) -> str:
    """How many calls wait for a person; empty for none."""
    verb = "waits" if count == 1 else "wait"
    return f"mcpctl approvals ({output.plural(count, 'call')} {verb} for you)" if count else ""


def moved(where: Place) -> str:
    """The control socket's path, and what made it differ from the usual one."""
    return f"{where.control} (set by {where.moved_by})" if where.moved_by else where.control


def reload(options: Namespace) -> int:
    """Read the configuration again and apply what changed, also while mcpd did not run."""
    with reach(options) as mcpd:
        found, text = mcpd.request("daemon.reload", timeout=options.timeout or QUICK)
    if options.json:
        output.say_json(text)
        return 0
    changes = [(word, ", ".join(found[word])) for word in ("added", "changed", "removed")]
    output.say(output.fields([*changes, ("unchanged", output.plural(len(found["unchanged"]), "server"))]))
    for change in found.get("applied", ()):
        output.say(output.visible(f"  {change['place']}: {change['what']}"))
    for name, why in sorted(found.get("held", {}).items()):
        output.note(f'"{name}" is held: {why}')
    for problem in found["problems"]:
        output.note(problem_text(problem))
    return 0


def stop(options: Namespace) -> int:
    """Stop the daemon and every server it runs; no error when it does not run."""
    mcpd = reach_to_stop(options)
    if mcpd is None:
        output.note("mcpd is not running")
        return say_stopped(options, was_running=False)
    with mcpd:
        process = watched(mcpd)
        limit = options.timeout or STOP_LIMIT
        deadline = time.monotonic() + limit
        try:
            mcpd.call("daemon.stop", timeout=limit)
        except CallError as error:
            if error.kind not in ("stopping", "connection_lost"):
                raise
        if not (mcpd.wait_closed(left(deadline)) and ended(process, left(deadline))):
            raise CallError("timed_out", f"mcpd still closes its servers after {limit:g} s")
    return say_stopped(options, was_running=True)


def left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)


def reach_to_stop(options: Namespace) -> client.Client | None:
    """A connection to a daemon of any API: stopping is how a mismatch ends. None when none runs."""
    try:
        return reach(options, spawn=False)
    except CallError as error:
        if error.kind == "not_running":
            return None
        if error.kind != "api_mismatch":
            raise
    sock = connect(place(options).control)
    return None if sock is None else client.Client(sock)


def say_stopped(options: Namespace, *, was_running: bool) -> int:
    if options.json:
        output.say_json(json.dumps({"was_running": was_running}))
    return 0


def watched(mcpd: client.Client) -> int | None:
    """A pidfd of the daemon, taken while it surely lives; None where its number is not of our namespace."""
    try:
        return os.pidfd_open(int(mcpd.hello["pid"]))
    except (OSError, KeyError, ValueError, TypeError):
        return None


def ended(process: int | None, timeout: float) -> bool:
    if process is None:
        return True
    import select

    poll = select.poll()
    poll.register(process, select.POLLIN)
    try:
        return bool(poll.poll(int(timeout * 1000)))
    finally:
        os.close(process)


def version(options: Namespace) -> int:
    """Show the versions of mcpctl and, where it runs, mcpd."""
    found = {"mcpctl": __version__}
    mcpd = client.try_open(place(options))
    if mcpd is not None:
        with mcpd:
            found["mcpd"] = str(mcpd.hello.get("version", ""))
    if options.json:
        output.say_json(json.dumps(found))
    else:
        output.say(output.fields(found.items()))
    return 0


def socket_path(options: Namespace) -> int:
    """Print the socket that would be used; exit code 6 for an agent that the daemon does not know."""
    where = place(options)
    path = where.agent(options.agent) if options.agent else where.control
    if options.agent and not os.path.exists(path):
        refuse_unknown(options.agent, where)
    if options.json:
        output.say_json(json.dumps({"socket": path, "set_by": where.moved_by}))
    else:
        output.say(output.visible(path))
    return 0


def refuse_unknown(agent: str, where: Place) -> None:
    """Raises CallError `no_such_agent`; without a daemon nobody can tell."""
    mcpd = client.try_open(where)
    if mcpd is None:
        return
    with mcpd:
        known = mcpd.call("daemon.status", timeout=QUICK)["agents"]
    if agent not in known:
        raise CallError("no_such_agent", f'no agent is named "{agent}"', f"there are: {', '.join(known)}")


def _socket_path(arguments: Arguments) -> None:
    arguments.add_argument("--agent", metavar="AGENT", help="an agent's socket instead of the control socket")


COMMANDS = (
    Command("status", status, waiting),
    Command("reload", reload, waiting),
    Command("stop", stop, waiting),
    Command("version", version),
    Command("socket-path", socket_path, _socket_path),
)
