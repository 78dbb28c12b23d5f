"""`mcpctl passphrase`: the second factor for what widens, where nobody can be told from an agent (n06)."""

from __future__ import annotations

from mcpctl import factor, output
from mcpctl.commands import QUICK, Command, clock, reach
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from mcpctl.commands import Arguments

ACTIONS = ("status", "set", "remove")


def passphrase(options: Namespace) -> int:
    """Set a passphrase that is asked for before anything is widened from where agents can reach"""
    with reach(options) as mcpd:
        if options.action == "set":
            found, text = mcpd.request("passphrase.set", {"passphrase": chosen()}, QUICK)
        else:
            found, text = mcpd.request(f"passphrase.{options.action}", timeout=QUICK)
    if options.json:
        output.say_json(text)
    else:
        output.say(f"set since {clock(found['set_at'])}" if found["is_set"] else "none is set")
    return DONE


def chosen() -> str:
    """A new one, typed twice. Raises CallError."""
    first = factor.typed("new passphrase (8 characters or more): ")
    if factor.typed("once more: ") != first:
        raise CallError("usage", "the two are not the same")
    return first


def _passphrase(arguments: Arguments) -> None:
    arguments.add_argument(
        "action", nargs="?", choices=ACTIONS, default="status", help="what to do; without one, show the state"
    )


COMMANDS = (Command("passphrase", passphrase, _passphrase),)
