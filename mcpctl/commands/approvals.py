"""Approvals: what waits for a person, and the answers (a31, n05, n07)."""

from __future__ import annotations

import sys

from mcpctl import output
from mcpctl.card import card
from mcpctl.commands import QUICK, Command, person, reach, waiting
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.client import Client
    from mcpctl.commands import Arguments


def approvals(options: Namespace) -> int:
    """Show the calls that wait for your yes; --watch asks you as they come."""
    if options.id == "list":  # as it is said of grants and agents; ids are longer
        options.id = None
    chosen = [options.id is not None, options.watch, options.mute is not None, options.unmute is not None]
    if sum(chosen) > 1:
        raise CallError("usage", "ID, --watch, --mute and --unmute do not go together")
    with reach(options) as mcpd:
        limit = options.timeout or QUICK
        if options.watch:
            return watch(mcpd)
        if options.mute is not None:
            return mute(mcpd, options, limit)
        if options.unmute is not None:
            return unmute(mcpd, options, limit)
        if options.id is not None:
            return one(mcpd, options, limit)
        found, text = mcpd.request("approvals.list", {}, limit)
    if options.json:
        output.say_json(text)
        return DONE
    for approval in found["approvals"]:
        output.say(card(approval) + "\n")
    for yes in found["unused"]:
        back = f"mcpctl deny {yes['id']} takes it back"
        output.say(
            output.visible(f"{yes['id']}  approved, to be called again: {yes['name']}, {left(yes)}; {back}")
        )
    for muted in found["muted"]:
        output.say(output.visible(f"muted: {who(muted['agent'])}, {left(muted)}"))
    if found["approvals"]:
        output.note("answer: mcpctl approve ID, mcpctl deny ID, or mcpctl approvals --watch")
    elif not found["unused"] and not found["muted"]:
        output.note("nothing waits for you")
    return DONE


def one(mcpd: Client, options: Namespace, limit: float) -> int:
    """The whole of one question, and at its end what a yes to a long one needs."""
    approval, text = mcpd.request("approvals.get", {"id": options.id}, limit)
    if options.json:
        output.say_json(text)
        return DONE
    output.say(card(approval))
    seen = f" --seen {approval['seen']}" if approval["long"] else ""
    output.note(f"answer: mcpctl approve {approval['id']}{seen}, or mcpctl deny {approval['id']}")
    return DONE


def left(entry: Any) -> str:
    return "until you say else" if entry["left"] is None else f"{output.duration(entry['left'])} left"


def who(agent: str) -> str:
    return f"agent {agent}" if agent else "calls by mcpctl"


def mute(mcpd: Client, options: Namespace, limit: float) -> int:
    _, text = mcpd.request("approvals.mute", {"agent": options.mute}, limit)
    if options.json:
        output.say_json(text)
    else:
        output.note(f"nobody is asked about {who(options.mute)}; --unmute undoes that")
    return DONE


def unmute(mcpd: Client, options: Namespace, limit: float) -> int:
    found, text = mcpd.request("approvals.unmute", {"agent": options.unmute}, limit)
    if options.json:
        output.say_json(text)
    else:
        output.note(
            f"{who(options.unmute)}: {'asked about again' if found['was_muted'] else 'was not muted'}"
        )
    return DONE


def watch(mcpd: Client) -> int:
    """Put every question to the person as it comes, until they have enough."""
    if not person.is_there():
        raise CallError("usage", "--watch needs a terminal", "mcpctl approvals, mcpctl approve ID")
    mcpd.call("events.subscribe", {"topics": ["approvals"]}, QUICK)
    passed: set[str] = set()
    output.note("waiting for questions; Ctrl-C ends it")
    while True:
        if not put_next(mcpd, passed):
            return DONE
        if all(each["id"] in passed for each in mcpd.call("approvals.list", {}, QUICK)["approvals"]):
            wait_for_news(mcpd)


def put_next(mcpd: Client, passed: set[str]) -> bool:
    """Put the oldest question to the person that they have not passed over. False when they want no more."""
    waiting = mcpd.call("approvals.list", {}, QUICK)["approvals"]
    name = next((each["id"] for each in waiting if each["id"] not in passed), None)
    if name is None:
        return True
    passed.add(name)
    try:
        person.settle(mcpd, person.fetch(mcpd, name))
    except person.Quit:
        return False
    except CallError as error:
        if error.kind == "connection_lost":
            raise
        output.note(error.message if not error.hint else f"{error.message}; {error.hint}")
    return True


def wait_for_news(mcpd: Client) -> None:
    """Raises CallError `connection_lost`."""
    for method, _, _ in mcpd.events():
        if method == "events.lagged":
            mcpd.call("events.subscribe", {"topics": ["approvals"]}, QUICK)
        return
    raise CallError("connection_lost", "mcpd closed the connection")


def approve(options: Namespace) -> int:
    """Say yes, once, to a call that waits."""
    with reach(options) as mcpd:
        limit = options.timeout or QUICK
        approval = person.fetch(mcpd, options.id)
        seen = options.seen or ("" if approval["long"] else approval["seen"])
        if not seen and person.is_there():
            if not is_sure(approval):
                raise CallError("cancelled", "nothing is approved")
            seen = approval["seen"]
        found, text = mcpd.request("approvals.approve", {"id": options.id, "seen": seen}, limit)
    return answered(options, approval, found, text)


def is_sure(approval: Any) -> bool:
    """Show all of it, and ask once more."""
    try:
        return person.show(approval) and person.ask("approve this call, once? [y/n] ") == "y"
    except person.Quit:
        return False


def deny(options: Namespace) -> int:
    """Say no to a call that waits, or take an unused yes back; it is refused for 15 minutes."""
    with reach(options) as mcpd:
        try:
            approval = person.fetch(mcpd, options.id)
        except CallError as error:
            if error.kind != "no_such_approval":
                raise
            approval = None  # the daemon knows whether it is a yes that no call has used
        found, text = mcpd.request("approvals.deny", {"id": options.id}, options.timeout or QUICK)
    return answered(options, approval, found, text)


def answered(options: Namespace, approval: Any, found: Any, text: str) -> int:
    """Say what was answered, so that a slip in the id is noticed."""
    if options.json:
        output.say_json(text)
        return DONE
    if approval is not None and not approval["long"]:
        sys.stderr.write(card(approval) + "\n")
    then = ""
    if found["outcome"] == "approved" and not found["waiting"]:
        then = "; nobody waits for it now, so it counts for the same call within an hour"
    output.say(output.visible(f"{found['outcome']}: {found['name']} for {who(found['agent'])}{then}"))
    return DONE


def _approvals(arguments: Arguments) -> None:
    arguments.add_argument("id", metavar="ID", nargs="?", help="show this question alone, and all of it")
    arguments.add_argument("--watch", action="store_true", help="ask me about each, as it comes")
    arguments.add_argument("--mute", metavar="AGENT", help="ask nobody about the calls of this agent")
    arguments.add_argument("--unmute", metavar="AGENT", help="ask about them again")
    waiting(arguments)


def _approve(arguments: Arguments) -> None:
    arguments.add_argument("id", metavar="ID", help="as `mcpctl approvals` shows it")
    arguments.add_argument(
        "--seen", metavar="CODE", help="of a long question: the code at the end of `mcpctl approvals ID`"
    )
    waiting(arguments)


def _deny(arguments: Arguments) -> None:
    arguments.add_argument("id", metavar="ID", help="as `mcpctl approvals` shows it")
    waiting(arguments)


COMMANDS = (
    Command("approvals", approvals, _approvals),
    Command("approve", approve, _approve),
    Command("deny", deny, _deny),
)
