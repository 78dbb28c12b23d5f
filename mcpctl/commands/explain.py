"""Why a call is allowed, asked for or denied, without calling (n10)."""

from __future__ import annotations

import json

from mcpctl import output
from mcpctl.arguments import arguments_text, guessed, readable
from mcpctl.commands import SLOW, Command, reach
from mcpctl.commands.tools import TOOL_HELP, argument_words, properties, tool_params, which
from mcpctl.errors import DONE, CallError
from mcpctl.verdict import verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.commands import Arguments

#: What stands for the operator, who calls by mcpctl.
OPERATOR = "-"


def explain(options: Namespace) -> int:
    """Explain what policy says about a call, which rule decides and what would change it."""
    words = argument_words(options)
    named = tool_params(options)
    params = {**named, "agent": "" if options.agent == OPERATOR else readable(options.agent)}
    if options.session:
        params["session"] = readable(options.session)
    limit = options.timeout or SLOW
    text = arguments_text(words)
    with reach(options) as mcpd:
        if guessed(words, text):
            text = arguments_text(words, properties(mcpd, named, limit))
        request = f'{json.dumps(params)[:-1]},"arguments":{text}}}'
        try:
            found, answer = mcpd.request("policy.explain", request, limit)
        except CallError as error:
            if error.kind in ("no_such_agent", "no_such_tool") and "__" in options.agent:
                error.hint = "the agent comes first: mcpctl explain AGENT TOOL"
            raise
    if options.json:
        output.say_json(answer)
    else:
        say(found)
    return DONE


def say(found: Any) -> None:
    output.say(verdict(found))
    for note in found["notes"]:
        output.note(note)


def _explain(arguments: Arguments) -> None:
    arguments.add_argument("agent", metavar="AGENT", help=f"whose call; {OPERATOR} is `mcpctl call`")
    arguments.add_argument("tool", metavar="TOOL", nargs="?", help=TOOL_HELP)
    arguments.add_argument(
        "arguments", metavar="KEY=VALUE", nargs="*", default=[], help="its arguments, as for `call`"
    )
    arguments.add_argument("--session", metavar="ID", help="count grants for this session too")
    which(arguments)


COMMANDS = (
    Command(
        "explain",
        explain,
        _explain,
        usage="mcpctl explain AGENT TOOL [options] [KEY=VALUE ... | JSON | -]",
        spread=True,
    ),
)
