"""The person at this terminal: a question is put to them, and their answer to the daemon (a31).

All of it goes to stderr, so that what a command answers can still be piped.
"""

from __future__ import annotations

import json
import os
import sys

from mcpctl import client, output
from mcpctl.card import card
from mcpctl.commands import QUICK, SLOW
from mcpctl.errors import CallError
from mcpctl.verdict import verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcpctl.client import Client

#: What can be answered, and when that counts.
KEYS = (
    ("a", "yes to this tool, until the agent's session ends"),
    ("y", "yes, once"),
    ("n", "no"),
    ("g", "give a grant"),
    ("t", "trust the server's labels"),
    ("?", "explain"),
    ("s", "skip"),
    ("q", "quit"),
)

#: The ends of a grant that are offered.
LASTING: tuple[tuple[str, dict[str, object]], ...] = (
    ("an hour", {"lifespan": "until", "seconds": 3600.0}),
    ("a day", {"lifespan": "until", "seconds": 86400.0}),
    ("for ever", {"lifespan": "forever"}),
)


class Quit(Exception):
    """The person wants to see no more questions."""


def is_there() -> bool:
    """Whether there is a terminal to ask at."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def request(
    mcpd: Client, method: str, params: str, limit: float | None, *, wait: float | None
) -> tuple[Any, str]:
    """A request that may have to be approved: at a terminal the person is asked here and now.

    `params`: the members of a JSON object, without braces; `wait`: seconds to wait for somebody else's answer
    instead. Raises CallError, `denied` for a no.
    """
    whole = f'{{{params},"patience":{wait or 0}}}'
    while True:
        try:
            return mcpd.request(method, whole, limit)
        except CallError as error:
            name = error.data.get("approval")
            if error.kind != "pending" or wait or not isinstance(name, str) or not is_there():
                raise
            pending = error
        try:
            answered = settle(mcpd, fetch(mcpd, name))
        except Quit:
            raise pending from None
        if answered is None:
            raise pending
        if not answered:
            raise CallError("denied", "not called: you said no", "", {"approval": name})
        # A server that is trusted now may still have to be asked about, as something else.


def fetch(mcpd: Client, name: str) -> Any:
    """A question with everything shown; `text` in it is the text of the arguments as they are (b29)."""
    approval, text = mcpd.request("approvals.get", {"id": name}, QUICK)
    return {**approval, "text": client.members(text)["text"][1]}


def settle(mcpd: Client, approval: Any) -> bool | None:
    """Show a question, as `fetch` gives it, until it is answered: True for any yes, None for no answer.

    Raises Quit, and CallError where the daemon refuses the answer.
    """
    if not show(approval):
        return None
    keys = offered(approval)
    while True:
        key = ask("   ".join(f"{key} {what}" for key, what in KEYS if key in keys) + "\n> ")
        match key if key in keys else "":
            case "y":
                mcpd.call("approvals.approve", {"id": approval["id"], "seen": approval["seen"]}, QUICK)
                return True
            case "n":
                mcpd.call("approvals.deny", {"id": approval["id"]}, QUICK)
                return False
            case "a":
                if grant(mcpd, approval, {"lifespan": "session", "session": approval["session"]}):
                    return True
            case "g":
                if offer(mcpd, approval):
                    return True
            case "t":
                mcpd.call("servers.trust", {"server": approval["server"]}, QUICK)
                output.note(f"server {approval['server']} is trusted; what waits is decided anew")
                return True
            case "?":
                explain(mcpd, approval)
            case "s":
                return None
            case "q":
                raise Quit


def offered(approval: Any) -> set[str]:
    """The keys that this question can be answered by."""
    keys = {key for key, _ in KEYS}
    if approval["once_only"] or not approval["agent"]:
        keys.discard("a")
    if not approval["trustable"]:
        keys.discard("t")
    return keys


def ask(prompt: str) -> str:
    """A line of the person's, without blanks around it. Raises Quit at the end of the input."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
        raise Quit
    return line.strip().casefold()


def agrees(question: str) -> bool:
    """Whether the person says yes to it; the end of the input is a no."""
    try:
        return ask(question) in ("y", "yes")
    except Quit:
        return False


def show(approval: Any) -> bool:
    """The whole question, a screen at a time where it is long; whether its end was reached."""
    text = card(approval)
    size = os.get_terminal_size(sys.stderr.fileno())
    rows = [row for line in text.split("\n") for row in folded(line, max(size.columns, 20))]
    height = max(size.lines - 1, 5)
    for at in range(0, len(rows), height):
        sys.stderr.write("\n".join(rows[at : at + height]) + "\n")
        left = len(rows) - at - height
        if left > 0 and ask(f"[{left:,} more lines: Enter goes on, s skips] ") in ("s", "q"):
            return False
    return True


#: What a row begins with that goes on with the line above: no line of a card begins so, and thus no value can
#: fill a row and go on as what looks like the next line.
GOES_ON = " " * 8


def folded(line: str, columns: int) -> list[str]:
    """The rows of a terminal that a line takes; wide characters are counted twice."""
    rows = [""]
    used = 0
    for character in line:
        width = output.width(character)
        if used + width > columns:
            rows.append(GOES_ON)
            used = len(GOES_ON)
        rows[-1] += character
        used += width
    return rows


def offer(mcpd: Client, approval: Any) -> bool:
    """Let the person choose a grant for this tool. Whether one was given."""
    if approval["once_only"]:
        output.note("no grant counts here: only a yes to this very call does")
        return False
    wheres = conditions(approval)
    where = choose("for which arguments?", [words for words, _ in wheres])
    if where is None:
        return False
    lasting = choose("how long?", [words for words, _ in LASTING])
    if lasting is None:
        return False
    return grant(mcpd, approval, {**LASTING[lasting][1], **wheres[where][1]})


def conditions(approval: Any) -> list[tuple[str, dict[str, object]]]:
    """What a grant could want of the arguments: nothing, a path in the same folder, these very values."""
    found: list[tuple[str, dict[str, object]]] = [("any arguments", {})]
    members = client.members(approval["text"])
    for shown in approval["arguments"]:
        value = members.get(shown["name"], (None, ""))[0]
        if shown["kind"] == "path" and isinstance(value, str) and value.startswith("/"):
            folder = os.path.dirname(os.path.normpath(value))
            where = {"argument": shown["name"], "test": "under", "value": folder}
            found.append((f"{shown['name']} is under {folder}", {"where": [where]}))
    if 0 < len(members) <= 16:
        equal = [{"argument": name, "test": "equals", "value": text} for name, (_, text) in members.items()]
        found.append(("exactly these values", {"where": equal, "only": True}))
    return found


def choose(question: str, choices: list[str]) -> int | None:
    """The number of a choice; None for anything else."""
    lines = [f"  {number} {output.visible(words)}" for number, words in enumerate(choices, 1)]
    answer = ask("\n".join([question, *lines, "> "]))
    return int(answer) - 1 if answer.isdecimal() and 0 < int(answer) <= len(choices) else None


def grant(mcpd: Client, approval: Any, terms: dict[str, object]) -> bool:
    """Give a grant for this tool to the agent that asks. Whether it has answered the question too."""
    params = {"agent": approval["agent"], "server": approval["server"], "tool": approval["tool"]}
    given = mcpd.call("grants.add", {**params, **terms}, QUICK)
    output.note(f"grant {given['grant']['id']} given; mcpctl revoke {given['grant']['id']} takes it back")
    for words in given["beyond"]:
        output.note(words)
    return bool(given["answered"])


def explain(mcpd: Client, approval: Any) -> None:
    """What decides about this call, and what would change that (n10)."""
    named = {key: approval[key] for key in ("agent", "server", "tool", "session")}
    params = f'{json.dumps(named)[:-1]},"arguments":{approval["text"]}}}'
    found = mcpd.call("policy.explain", params, SLOW)
    sys.stderr.write("\n".join([verdict(found), *map(output.visible, found["notes"])]) + "\n")
