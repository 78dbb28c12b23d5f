"""Resources: list them with their templates, read one."""

from __future__ import annotations

import json

from mcpctl import output
from mcpctl.arguments import readable
from mcpctl.commands import Command, person, reach, waiting
from mcpctl.commands.pages import Listing, gist, show
from mcpctl.commands.saving import check, decoded, offer, save, saving
from mcpctl.commands.tools import GRACE, approving
from mcpctl.errors import DONE, CallError
from mcpctl.result import binary, note_cuts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import Any

    from mcpctl.commands import Arguments


HEAD = ("URI", "TYPE", "APPROVAL", "DESCRIPTION")


def row(entry: Any) -> Sequence[object]:
    kind = "template" if entry["template"] else entry["mime_type"] or "-"
    what = gist(entry["title"], entry["label"], entry["description"])
    return entry["name"], kind, entry["approval"], what


def resources(options: Namespace) -> int:
    """List resources and templates, or read one: mcpctl resources read URI."""
    if options.action == "read":
        return read(options)
    if options.output is not None or options.force:
        raise CallError("usage", "--output and --force are for read")
    if options.uri is not None:
        raise CallError("usage", f'cannot list "{options.uri}"', "mcpctl resources read URI")
    return show(Listing("resources", HEAD, row), options)


def read(options: Namespace) -> int:
    if options.uri is None:
        raise CallError("usage", "no resource named", "mcpctl resources lists them")
    if options.agent:
        raise CallError("usage", "--agent is for the list")
    check(options)
    params: dict[str, Any] = {"uri": readable(options.uri)}
    if options.server:
        params["server"] = readable(options.server)
    if options.timeout:
        params["timeout"] = options.timeout
    limit = options.timeout + (options.wait or 0) + GRACE if options.timeout else None
    with reach(options) as mcpd:
        members = json.dumps(params)[1:-1]
        found, answer = person.request(mcpd, "resources.read", members, limit, wait=options.wait)
    result = found["result"]
    if options.output is not None:
        save(whole(found), options)
        return DONE
    if options.json:
        output.say_json(answer)
    else:
        offer(options, say_contents(result))
    note_cuts(result, "contents")
    return DONE


def say_contents(result: Any) -> list[object]:
    """A ReadResourceResult for people: text as it is, all else in a line. Returns what was not text."""
    contents = result.get("contents")
    unseen: list[object] = []
    for part in contents if isinstance(contents, list) else ():
        part = part if isinstance(part, dict) else {}
        text = str(part["text"]) if "text" in part else binary(part.get("mimeType"), part.get("blob"))
        output.say(output.visible_block(text))
        unseen += [] if "text" in part else [part.get("blob")]
    return unseen


def whole(found: Any) -> bytes:
    """The bytes of the one part that a read has. Raises CallError."""
    if found["cut"]:
        hint = "max_result = 0 under [defaults] of config.toml lets it through, as does a larger one for text"
        raise CallError("too_large", "cannot save it: mcpd has left out what is beyond its limit", hint)
    contents = found["result"].get("contents")
    if not isinstance(contents, list) or len(contents) != 1 or not isinstance(contents[0], dict):
        count = len(contents) if isinstance(contents, list) else 0
        raise CallError("bad_answer", f"cannot save it: it has {count} parts", "--json prints them all")
    [part] = contents
    if isinstance(part.get("text"), str):
        return str(part["text"]).encode("utf-8", "surrogatepass")
    return decoded(part.get("blob"))


def _resources(arguments: Arguments) -> None:
    arguments.add_argument(
        "action", choices=("list", "read"), nargs="?", default="list", help="what to do; list if not said"
    )
    arguments.add_argument("uri", metavar="URI", nargs="?", help="the resource to read, as the list names it")
    arguments.add_argument(
        "--server", metavar="SERVER", help="only this server's; with read: URI is this server's own"
    )
    arguments.add_argument("--agent", metavar="AGENT", help="list only what this agent may read")
    saving(arguments, "what is read")
    waiting(arguments)
    approving(arguments)


COMMANDS = (Command("resources", resources, _resources),)
