"""Prompts: list them with their arguments, get one filled in."""

from __future__ import annotations

import json

from mcpctl import output
from mcpctl.arguments import decode, is_object, json_object, readable
from mcpctl.commands import Command, person, reach, waiting
from mcpctl.commands.pages import Listing, gist, show
from mcpctl.commands.tools import GRACE, approving
from mcpctl.errors import DONE, CallError
from mcpctl.result import block_text, note_cuts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from mcpctl.commands import Arguments


HEAD = ("PROMPT", "ARGUMENTS", "APPROVAL", "DESCRIPTION")


def row(entry: Any) -> Sequence[object]:
    arguments = " ".join(f"{each['name']}{'*' if each['required'] else ''}" for each in entry["arguments"])
    return entry["name"], arguments or "-", entry["approval"], gist(entry["title"], entry["description"])


def prompts(options: Namespace) -> int:
    """List prompts (* marks required arguments), or get one: mcpctl prompts get NAME KEY=VALUE."""
    if options.action == "get":
        return get(options)
    if options.prompt is not None or options.tail:
        raise CallError("usage", "the list takes no names", "mcpctl prompts get NAME KEY=VALUE")
    return show(Listing("prompts", HEAD, row), options)


def get(options: Namespace) -> int:
    words = [*options.arguments, *options.tail]
    if options.prompt is None:
        if not words:
            raise CallError("usage", "no prompt named", "mcpctl prompts lists them")
        options.prompt = words.pop(0)  # after `--`, since it begins with a dash
    if options.agent:
        raise CallError("usage", "--agent is for the list")
    name = readable(options.prompt)
    params: dict[str, Any] = {"arguments": arguments_of(words)}
    params |= {"server": readable(options.server), "prompt": name} if options.server else {"name": name}
    if options.timeout:
        params["timeout"] = options.timeout
    limit = options.timeout + (options.wait or 0) + GRACE if options.timeout else None
    with reach(options) as mcpd:
        members = json.dumps(params)[1:-1]
        found, answer = person.request(mcpd, "prompts.get", members, limit, wait=options.wait)
    result = found["result"]
    if options.json:
        output.say_json(answer)
    else:
        say_messages(result)
    note_cuts(result, "messages")
    return DONE


def arguments_of(words: list[str]) -> dict[str, str]:
    """KEY=VALUE words, or one JSON object of texts: a prompt takes nothing else. Raises CallError `usage`."""
    if is_object(words):
        given = decode(json_object(words[0].encode("utf-8", "surrogateescape")))
        for name, value in given.items():
            if not isinstance(value, str):
                raise CallError("usage", f'"{name}" is no text, and a prompt\'s arguments are texts')
        return dict(given)
    arguments: dict[str, str] = {}
    for word in words:
        name, equals, value = readable(word).partition("=")
        if not equals or not name:
            raise CallError("usage", f'cannot read "{word}": neither KEY=VALUE nor one JSON object')
        if name in arguments:
            raise CallError("usage", f'"{name}" is given twice')
        arguments[name] = value
    return arguments


def say_messages(result: Any) -> None:
    """A GetPromptResult for people, in the form of a19."""
    messages = result.get("messages")
    for message in messages if isinstance(messages, list) else ():
        message = message if isinstance(message, dict) else {}
        block = message.get("content")
        text = block_text(block) if isinstance(block, dict) else ""
        output.say(output.visible_block(f"[{message.get('role')}] {text}"))


def _prompts(arguments: Arguments) -> None:
    arguments.add_argument(
        "action", choices=("list", "get"), nargs="?", default="list", help="what to do; list if not said"
    )
    arguments.add_argument(
        "prompt", metavar="NAME", nargs="?", help="the prompt to get; behind -- if it begins with a dash"
    )
    arguments.add_argument(
        "arguments",
        metavar="KEY=VALUE",
        nargs="*",
        help="its arguments, all of them text; or one JSON object",
    )
    arguments.add_argument(
        "--server", metavar="SERVER", help="only this server's; with get: NAME is this server's own"
    )
    arguments.add_argument("--agent", metavar="AGENT", help="list only what this agent may get")
    waiting(arguments)
    approving(arguments)


COMMANDS = (
    Command(
        "prompts",
        prompts,
        _prompts,
        usage="mcpctl prompts [list | get NAME] [options] [KEY=VALUE ... | JSON]",
        spread=True,
    ),
)
