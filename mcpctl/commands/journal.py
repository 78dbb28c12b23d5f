"""`mcpctl journal`: what was asked of servers, decided and changed."""

from __future__ import annotations

import json
import time

from mcpctl import output
from mcpctl.commands import QUICK, Command, clock, moment, reach, whole
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence
    from typing import Any

    from mcpctl.client import Client
    from mcpctl.commands import Arguments

KINDS = ("request", "decision", "approval", "ask", "grant", "pin", "login", "change", "status", "gap")

# fmt: off
OUTCOMES = (
    "ok", "tool_error", "parse_error", "invalid_request", "unknown_method", "invalid_params", "internal",
    "header_mismatch", "missing_capability", "unsupported_revision", "no_such_server", "no_such_tool",
    "no_such_agent", "name_taken", "bad_definition", "config_invalid", "not_writable", "disabled",
    "denied", "pending", "unavailable", "needs_login", "timed_out", "outcome_unknown", "busy",
    "server_error", "bad_answer", "cancelled", "too_large", "refused", "api_mismatch", "stopping",
    "no_such_resource", "no_such_prompt", "no_such_grant", "no_such_session", "no_such_approval",
    "factor_needed", "asked", "approved", "granted", "expired", "superseded", "muted", "withdrawn",
    "accept", "decline", "cancel", "error", "unread", "added", "revoked", "pinned", "changed", "held",
    "accepted",
)
# fmt: on

#: Entries asked for at once; the daemon gives no more.
PAGE = 500
#: Seconds that the daemon waits for news before it says that there are none.
WAIT = 30.0
#: Seconds until a daemon that follows its own clock is asked again after an answer without news.
PATIENCE = WAIT + QUICK

#: What stands for the operator, who has no agent's name: as elsewhere, and as the list shows it.
OPERATOR = ("-", "(operator)")

#: Options that say which entries are listed.
CHOOSING = (
    *("follow", "lines", "since", "until", "agent", "server", "tool", "kind", "outcome"),
    *("decision", "risk", "id", "text"),
)

#: Text of a chain of rules in a table.
BRIEF = 100
#: Columns of what an entry is about there.
WIDE = 60


def journal(options: Namespace) -> int:
    """Show what agents did and how it was decided, newest last."""
    params = conditions(options)
    if options.entry:
        refuse_beside_number(options)
    with reach(options) as mcpd:
        if options.entry:
            return show(entry(mcpd, options.entry), options)
        count = options.lines if options.lines is not None else 10 if options.follow else 50
        entries, after = newest(mcpd, params, count)
        print_entries(entries, options)
        while options.follow:
            output.flush()
            page = mcpd.call(
                "journal.query", {**params, "after": after, "limit": PAGE, "wait": WAIT}, PATIENCE
            )
            after = page["next"]
            print_entries(page["entries"], options, head=False)
    return DONE


def refuse_beside_number(options: Namespace) -> None:
    """Raises CallError `usage` for an option that chooses among entries, where one is named."""
    for name in CHOOSING:
        given = getattr(options, name)
        if given is not None and given is not False:  # no lines are 0
            message = f"--{name} means nothing beside the number of an entry"
            raise CallError("usage", message, f"mcpctl journal {options.entry}")


def conditions(options: Namespace) -> dict[str, object]:
    """The members of `journal.query` that the options are about. Raises CallError `usage`."""
    server, tool = options.server, options.tool
    if tool and "__" in tool and not server:
        server, _, tool = tool.partition("__")
    now = time.time()
    found = {
        "since": moment(options.since, now),
        "until": moment(options.until, now),
        "agent": "" if options.agent in OPERATOR else options.agent,
        "server": server,
        "tool": tool,
        "kinds": options.kind,
        "outcomes": options.outcome,
        "decision": options.decision,
        "risk": options.risk,
        "id": options.id,
        "text": options.text,
    }
    return {name: value for name, value in found.items() if value or (name == "agent" and value is not None)}


def newest(mcpd: Client, params: dict[str, object], count: int) -> tuple[list[Any], int]:
    """Up to `count` of the newest entries, oldest first, and the number behind which news begin."""
    found: list[Any] = []
    before = 0
    page = mcpd.call("journal.query", {"limit": 1}, QUICK)
    last = page["entries"][0]["id"] if page["entries"] else 0
    for problem in page["problems"]:
        output.note(problem)
    while len(found) < count:
        asked = {**params, "limit": min(PAGE, count - len(found)), "before": before or last + 1}
        page = mcpd.call("journal.query", asked, QUICK)
        found += page["entries"]
        before = page["next"]
        if not before:
            break
    return found[::-1], last


def entry(mcpd: Client, number: int) -> Any:
    """Raises CallError for a number that is not there."""
    page = mcpd.call("journal.query", {"after": number - 1, "limit": 1}, QUICK)
    if not page["entries"] or page["entries"][0]["id"] != number:
        raise CallError("no_such_entry", f"the journal has no entry {number}")
    return page["entries"][0]


def print_entries(entries: Sequence[Any], options: Namespace, *, head: bool = True) -> None:
    if options.json:
        for one in entries:
            output.say_json(json.dumps(one, ensure_ascii=False))
    elif options.follow:
        # Lines of their own: what comes later cannot widen the columns of what is there.
        for one in entries:
            output.say(output.cut(line(one), output.terminal_width()))
    elif entries:
        output.say(output.table(("NO", "TIME", "AGENT", "WHAT", "OUTCOME", "TOOK", "WHY"), map(row, entries)))
    elif head:
        output.note("nothing in the journal fits")


def row(one: Any) -> tuple[object, ...]:
    took = output.duration(one["duration"]) if one["kind"] == "request" else ""
    # An agent may ask for a tool of any name: what came of it stays in sight.
    about = output.cut(output.visible(what(one)), WIDE)
    return (one["id"], clock(one["at"]), who(one), about, outcome(one), took, why(one))


def line(one: Any) -> str:
    number, at, *told = (" ".join(str(cell).split()) for cell in row(one))
    return output.visible("  ".join([at, *filter(None, told), f"#{number}"]))


def who(one: Any) -> str:
    """In brackets what is no agent: one may well be called "operator"."""
    return str(one["agent"]) or (OPERATOR[1] if one["pid"] else "(mcpd)")


def what(one: Any) -> str:
    tool = "__".join(filter(None, (one["server"], one["tool"])))
    if one["kind"] in ("request", "decision"):
        kind = "" if one["kind"] == "request" else one["kind"]
        method = "" if one["method"] == "tools/call" else one["method"]
        return " ".join(filter(None, (kind, method, tool)))
    name = one["approval"] or one["grant"] if one["kind"] in ("approval", "grant") else one["method"]
    return " ".join(filter(None, (one["kind"], name, tool)))


def outcome(one: Any) -> str:
    proof = f" ({one['proof']})" if one["proof"] else ""
    said = one["outcome"] or one["decision"]
    asked = one["decision"] == "ask" and one["outcome"] not in ("", "pending")
    return f"{said}, asked{proof}" if asked else f"{said}{proof}"


def why(one: Any) -> str:
    """What was found, and of the chain of rules the end, which decided."""
    ended = one["kind"] in ("request", "decision", "approval")
    because = one["because"].rpartition("; ")[2] if ended else one["because"]
    text = "; ".join(filter(None, (one["findings"], because)))
    return text if len(text) <= BRIEF else text[: BRIEF - 1] + "…"


def show(one: Any, options: Namespace) -> int:
    """Everything about one entry."""
    if options.json:
        output.say_json(json.dumps(one, ensure_ascii=False))
        return DONE
    output.say(output.fields(full(one)))
    return DONE


def full(one: Any) -> Iterable[tuple[str, object]]:
    """Names and values; what is absent is left out."""
    for name, value in one.items():
        if name == "at":
            yield "time", clock(value)
        elif name == "because":
            yield "because", value.replace("; ", "\n")
        elif name in ("duration", "waited"):
            yield name, output.duration(value) if value else ""
        elif value not in ("", 0):
            yield name.replace("_", " "), value


def _journal(arguments: Arguments) -> None:
    add = arguments.add_argument
    add(
        "entry",
        nargs="?",
        type=whole(1),
        metavar="NO",
        help="show everything about the entry of this number; alone",
    )
    add("-f", "--follow", action="store_true", help="go on with what happens")
    add("-n", "--lines", type=whole(0), metavar="N", help="so many entries (default 50, with --follow 10)")
    add("--since", metavar="TIME", help="30m, 2h, 3d ago; 14:00; 2026-11-30; '2026-11-30 14:00'")
    add("--until", metavar="TIME")
    add("--agent", metavar="AGENT", help="may have * and ?, as the two below; - is the operator")
    add("--server", metavar="SERVER")
    add("--tool", metavar="TOOL", help="its own name, or SERVER__TOOL")
    add("--kind", action="append", choices=KINDS, help="may be given several times, as --outcome")
    add(
        "--outcome",
        action="append",
        choices=OUTCOMES,
        metavar="WORD",
        help="ok, tool_error, denied, pending, ...; a wrong one is answered with all there are",
    )
    add("--decision", choices=("allow", "ask", "deny"))
    add("--risk", choices=("low", "medium", "high"))
    add("--id", metavar="ID", help="of an approval, a grant or a session")
    add("--text", metavar="TEXT", help="somewhere in the words of the entry")


COMMANDS = (Command("journal", journal, _journal),)
