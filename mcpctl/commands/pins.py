"""Pins: the definitions that a person has seen; what has changed in them since waits here."""

from __future__ import annotations

from mcpctl import output
from mcpctl.commands import QUICK, Command, clock, reach, waiting
from mcpctl.errors import DENIED, DONE, FAILED, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

    from mcpctl.client import Client
    from mcpctl.commands import Arguments

HEAD = ("SERVER", "KIND", "NAME", "STATE", "SINCE", "WHY")

ACTIONS = ("diff", "accept", "flags")

#: Characters of what has not changed that stand on each side of what has.
AROUND = 80


def pins(options: Namespace) -> int:
    """List definitions that were seen, show what waits, or accept it: mcpctl pins diff SERVER."""
    action, names = "", list(options.words)
    if names and names[0] in ACTIONS:
        action = names.pop(0)
        if not names:
            raise CallError("usage", "the server is missing", f"mcpctl pins {action} SERVER [NAME...]")
    elif len(names) > 1:
        raise CallError("usage", "the list is of one server, or of all", "mcpctl pins diff SERVER [NAME...]")
    with reach(options) as mcpd:
        if not action:
            return listed(mcpd, names[0] if names else "", options)
        if action == "flags":
            return flags(mcpd, names, options)
        found, text = mcpd.request(
            "pins.diff", {"server": names[0], "names": names[1:]}, options.timeout or QUICK
        )
        if action == "diff":
            return shown(found, text, names[0], options)
        return accept(mcpd, found, names, options)


def listed(mcpd: Client, server: str, options: Namespace) -> int:
    found, text = mcpd.request("pins.list", {"server": server}, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
    elif found["pins"]:
        output.say(output.table(HEAD, map(row, found["pins"]), spill=True))
        if found["more"]:
            output.note(f"{found['more']} more are left out")
    else:
        output.note("nothing is pinned yet: that is done at the first yes, grant or trust")
    return DONE


def row(pin: Any) -> tuple[object, ...]:
    why = pin["why"]
    if why and pin["usable"]:
        why = f"{why}; used as it was approved"
    since = clock(pin["pinned_at"]) if pin["pinned_at"] else "-"
    return (pin["server"], pin["kind"], pin["name"], pin["state"], since, why or ", ".join(pin["classes"]))


def flags(mcpd: Client, names: list[str], options: Namespace) -> int:
    """What in a server's definitions a person should know of."""
    if len(names) > 1:
        raise CallError("usage", "flags are of one server", "mcpctl pins flags SERVER")
    found, text = mcpd.request("pins.flags", {"server": names[0]}, options.timeout or QUICK)
    if options.json:
        output.say_json(text)
        return DONE
    for definition in found["definitions"]:
        output.say(output.visible(called(definition)))
        for each in definition["flags"]:
            output.say(flag(each))
    if found["more"]:
        output.note(f"{output.plural(found['more'], 'more definition')} with flags")
    if not found["definitions"]:
        output.note(f'nothing in the definitions of "{names[0]}" is known to speak against them')
    return DONE


def called(definition: Any) -> str:
    name = definition["name"]
    return f'{definition["kind"]} "{name}"' if name else str(definition["kind"])


def flag(found: Any) -> str:
    """A line about something in a definition; two marks for what holds it."""
    mark = "!!" if found["hard"] else "!"
    return output.visible(
        f'  {mark} {found["code"].replace("_", " ")} in {found["where"]}: "{found["words"]}"'
    )


def shown(found: Any, text: str, server: str, options: Namespace) -> int:
    if options.json:
        output.say_json(text)
        return DONE
    say_all(found, server)
    waits = sum(1 for diff in found["diffs"] if diff["pin"]["state"] == "held")
    if waits:
        output.note(f"{output.plural(waits, 'definition')} to be accepted: mcpctl pins accept {server}")
    return DONE


def say_all(found: Any, server: str) -> None:
    if not found["diffs"]:
        output.note(f'nothing of "{server}" waits')
    for diff in found["diffs"]:
        output.say("\n".join(report(diff)) + "\n")
    if found["more"]:
        output.note(f"{found['more']} more wait")


def accept(mcpd: Client, found: Any, names: list[str], options: Namespace) -> int:
    """Show it all, then accept what was shown: by a person's yes here, or by the digest of it."""
    from mcpctl.commands import person

    server = names[0]
    if not found["diffs"]:
        say_all(found, server)
        return DONE
    if options.shown != digest(found):
        if options.shown:
            raise CallError(
                "refused",
                f'cannot accept that of "{server}": it is not what was shown',
                f"mcpctl pins diff {server}",
            )
        say_all(found, server)
        if options.json or not person.is_there():
            step = f"mcpctl pins accept {' '.join(names)} --shown {digest(found)}"
            output.note(f"nothing is accepted yet; next: {step}")
            return DENIED
        if not person.agrees("Accept it? [y/N] "):
            output.note("nothing is accepted")
            return FAILED
    definitions = [
        {"kind": diff["pin"]["kind"], "name": diff["pin"]["name"], "seen": diff["seen"]}
        for diff in found["diffs"]
    ]
    accepted, text = mcpd.request(
        "pins.accept", {"server": server, "definitions": definitions}, options.timeout or QUICK
    )
    if options.json:
        output.say_json(text)
    else:
        count = len(accepted["pins"])
        output.say(output.visible(f'{output.plural(count, "definition")} of "{server}" accepted'))
    return DONE


def digest(found: Any) -> str:
    """Of all that was shown."""
    import hashlib

    return hashlib.sha256(" ".join(diff["seen"] for diff in found["diffs"]).encode()).hexdigest()[:32]


def report(diff: Any) -> Iterator[str]:
    """A definition's differences, in lines fit for a terminal."""
    pin = diff["pin"]
    state = f"waits: {pin['why']}" if pin["why"] else f"is {pin['state']}"
    yield output.visible(f'{called(pin)} of server "{pin["server"]}" {state}')
    yield from map(flag, (*pin["flags"], *diff["phrases"]))
    for change in diff["changes"]:
        yield output.visible(f"  {change['kind']}: {change['where'] or 'spelling'}")
        yield from ("    " + line for line in words(change["pieces"]).splitlines())
    if not diff["changes"]:
        yield "    " + output.visible(diff["definition"])


def words(pieces: Any) -> str:
    """What has gone as [-this-], what is new as {+this+}; of what stays the ends."""
    marks = {"gone": "[-{}-]", "new": "{{+{}+}}"}
    return output.visible_block(
        "".join(
            marks[each["sign"]].format(_unmarked(each["text"]))
            if each["sign"] in marks
            else ends(_unmarked(each["text"]))
            for each in pieces
        )
    )


def _unmarked(text: str) -> str:
    """Text in which nothing looks like a mark of ours: a server must not draw what it has added as gone."""
    for mark in ("[-", "-]", "{+", "+}", "[..."):
        text = text.replace(mark, f"{mark[0]}\\{mark[1:]}")
    return text


def ends(text: str) -> str:
    return text if len(text) <= 3 * AROUND else f"{text[:AROUND]} [...] {text[-AROUND:]}"


def _pins(arguments: Arguments) -> None:
    arguments.add_argument(
        "words",
        nargs="*",
        metavar="SERVER",
        help="a server; or diff, accept or flags, a server, and names of its tools",
    )
    arguments.add_argument(
        "--shown", metavar="DIGEST", help="accept what was shown under this, without asking"
    )
    waiting(arguments)


COMMANDS = (
    Command(
        "pins",
        pins,
        _pins,
        usage="mcpctl pins [SERVER | diff SERVER [NAME ...] | accept SERVER [NAME ...] | flags SERVER]",
    ),
)
