"""Tools: list, describe, call."""

from __future__ import annotations

import json

from mcpctl import output
from mcpctl.arguments import arguments_text, guessed, readable
from mcpctl.commands import SLOW, Command, duration, person, reach, waiting
from mcpctl.commands.pages import Listing, gist, show
from mcpctl.commands.saving import check, decoded, offer, save, saving, to_stdout
from mcpctl.errors import DONE, TOOL_ERROR, CallError
from mcpctl.result import binary_of, note_cuts, say_result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from mcpctl.client import Client
    from mcpctl.commands import Arguments

#: Seconds that the daemon may take to end a call whose time is up.
GRACE = 2.0


def tool_listing() -> Listing:
    """Of `tools.list`."""
    return Listing("tools", ("TOOL", "RISK", "APPROVAL", "DESCRIPTION"), row)


def row(entry: Any) -> Sequence[object]:
    what = gist(entry["title"], entry["description"])
    return entry["name"], entry["risk"], "held" if entry.get("held") else entry["approval"], what


def every_tool(mcpd: Client, params: dict[str, str], limit: float) -> Listing:
    """`tools.list`, all pages."""
    listing = tool_listing()
    listing.read(mcpd, params, limit)
    return listing


def tools(options: Namespace) -> int:
    """List tools, with what policy says about them."""
    if options.of is not None:
        if options.server:
            raise CallError("usage", "the server is named twice", "mcpctl tools SERVER")
        options.server = options.of
    return show(tool_listing(), options)


def describe(options: Namespace) -> int:
    """Show one tool in full, with the rules that decide about it."""
    params = tool_params(options)
    with reach(options) as mcpd:
        found, text = mcpd.request("tools.describe", params, options.timeout or SLOW)
    if options.json:
        output.say_json(text)
        return DONE
    definition = found["definition"]
    output.say(
        output.fields(
            [
                ("name", found["name"]),
                ("server", found["server"]),
                ("tool", found["tool"]),
                ("title", definition.get("title")),
                ("risk", found["risk"]),
                ("approval", found["approval"]),
                ("timeout", output.duration(found["timeout"]) if found["timeout"] else "none"),
                ("because", "\n".join(found["because"])),
                ("held", found.get("held")),
                ("flags", "\n".join(found.get("flags", ()))),
                ("description", definition.get("description")),
            ]
        )
    )
    output.say(output.visible_json(json.dumps(definition.get("inputSchema"), indent=2, ensure_ascii=False)))
    return DONE


def call(options: Namespace) -> int:
    """Call a tool and print its answer; exit code 9 when the tool reports an error."""
    check(options)
    words = argument_words(options)
    params = tool_params(options)
    if options.timeout:
        params["timeout"] = options.timeout
    text = arguments_text(words)
    # The daemon's own limit ends the call in good order; this one is for a daemon that hangs.
    limit = options.timeout + (options.wait or 0) + GRACE if options.timeout else None
    with reach(options) as mcpd:
        if guessed(words, text):
            text = arguments_text(words, properties(mcpd, tool_params(options), options.timeout or SLOW))
        members = f'{json.dumps(params)[1:-1]},"arguments":{text}'
        try:
            found, answer = person.request(mcpd, "tools.call", members, limit, wait=options.wait)
        except CallError as error:
            if error.kind == "denied" and not error.hint and "approval" not in error.data:
                error.hint = f"what decided, and what would change it: mcpctl explain {explained(options)}"
            if error.kind != "connection_lost":
                raise
            message = "mcpd ended during the call, which may or may not have taken effect"
            raise CallError("outcome_unknown", message) from None
    result = found["result"]
    if options.json:
        output.say_json(answer)
    else:
        say_result(result, output.say_beside if to_stdout(options) else output.say)
        offer(options, binaries(result))
    note_cuts(result, "content")
    if result.get("isError") is True:
        return TOOL_ERROR
    if options.output is not None:
        save(only_binary(result), options)
    return DONE


def binaries(result: Any) -> list[object]:
    """The images, sounds and files that an answer has, as their base64."""
    content = result.get("content")
    return [data for block in content if (data := binary_of(block))] if isinstance(content, list) else []


def only_binary(result: Any) -> bytes:
    """The one image, sound or file that an answer has. Raises CallError."""
    found = binaries(result)
    if len(found) != 1:
        what = "nothing binary" if not found else f"{len(found)} binary parts"
        raise CallError("bad_answer", f"nothing is saved: the answer has {what}", "--json prints all of it")
    return decoded(found[0])


def explained(options: Namespace) -> str:
    """The words by which `mcpctl explain` finds this tool."""
    server = f" --server {readable(options.server)}" if options.server else ""
    return f"- {readable(options.tool)}{server} ..."


def argument_words(options: Namespace) -> list[str]:
    """The words behind the tool's name, which may be the first of them. Raises CallError `usage`."""
    words = [*options.arguments, *options.tail]
    if options.tool is None:
        if not words:
            raise CallError("usage", "no tool named", "mcpctl tools lists them")
        options.tool = words.pop(0)  # after `--`, since it begins with a dash
    if not options.server and "__" not in options.tool and words and is_plain(words[0]):
        hint = f"a tool is named SERVER__TOOL: {readable(options.tool)}__{readable(words[0])}"
        raise CallError("usage", f'cannot read "{words[0]}": neither KEY=VALUE nor one JSON object', hint)
    return words


def is_plain(word: str) -> bool:
    """A word that can be no argument; perhaps the tool's name, behind that of its server."""
    return word[:1] not in ("", "{", "-") and "=" not in word


def tool_params(options: Namespace) -> dict[str, Any]:
    """Which tool is meant. Raises CallError `usage`."""
    tool = readable(options.tool)
    return {"server": readable(options.server), "tool": tool} if options.server else {"name": tool}


def properties(mcpd: Client, params: dict[str, Any], limit: float) -> dict[str, Any]:
    """The schemas of the tool's arguments; empty where they cannot be known.

    Raises CallError where the call would fail in the same way: `timed_out`, `connection_lost`.
    """
    try:
        definition = mcpd.call("tools.describe", params, limit)["definition"]
        found = definition["inputSchema"]["properties"]
    except CallError as error:
        if error.kind in ("timed_out", "connection_lost"):
            raise
        return {}  # the call itself says what is wrong
    except (KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def _tools(arguments: Arguments) -> None:
    arguments.add_argument("of", metavar="SERVER", nargs="?", help="only this server's, as with --server")
    arguments.add_argument("--server", metavar="SERVER", help="only this server's")
    arguments.add_argument("--agent", metavar="AGENT", help="only what this agent may use, in its spelling")
    waiting(arguments)


def _describe(arguments: Arguments) -> None:
    arguments.add_argument("tool", metavar="TOOL", help=TOOL_HELP)
    which(arguments)


TOOL_HELP = "its name, as in `mcpctl tools`; behind -- if it begins with a dash"


def which(arguments: Arguments) -> None:
    """Of whose tool it is."""
    arguments.add_argument("--server", metavar="SERVER", help="TOOL is this server's own name for it")
    waiting(arguments)


def approving(arguments: Arguments) -> None:
    """Of what may have to be approved."""
    arguments.add_argument(
        "--wait",
        type=duration,
        metavar="TIME",
        help="where a person has to approve it: wait so long for an answer from elsewhere",
    )


def _call(arguments: Arguments) -> None:
    arguments.add_argument("tool", metavar="TOOL", nargs="?", help=TOOL_HELP)
    which(arguments)
    approving(arguments)
    saving(arguments, "the image, sound or file that is answered")
    arguments.add_argument(
        "arguments",
        metavar="KEY=VALUE",
        nargs="*",
        help="a VALUE that is JSON (2, true, null, [1]) is sent as that unless the tool's schema wants text, "
        "anything else as text; or one JSON object, or - to read it from stdin",
    )


COMMANDS = (
    Command("tools", tools, _tools),
    Command("describe", describe, _describe),
    Command("call", call, _call, usage="mcpctl call TOOL [options] [KEY=VALUE ... | JSON | -]", spread=True),
)
