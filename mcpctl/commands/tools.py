"""Tools: list, describe, call."""

from __future__ import annotations

import json
import sys

from mcpctl import output
from mcpctl.commands import SLOW, Command, person, reach, seconds, waiting
from mcpctl.commands.pages import Listing, gist, show
from mcpctl.errors import DONE, TOOL_ERROR, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping, Sequence
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
    words = [*options.arguments, *options.tail]
    if options.tool is None:
        if not words:
            raise CallError("usage", "no tool named", "mcpctl tools lists them")
        options.tool = words.pop(0)  # after `--`, since it begins with a dash
    params = tool_params(options)
    if options.timeout:
        params["timeout"] = options.timeout
    text = arguments_text(words)
    # The daemon's own limit ends the call in good order; this one is for a daemon that hangs.
    limit = options.timeout + GRACE if options.timeout else None
    with reach(options) as mcpd:
        if guessed(words, text):
            text = arguments_text(words, properties(mcpd, tool_params(options), options.timeout or SLOW))
        members = f'{json.dumps(params)[1:-1]},"arguments":{text}'
        try:
            found, answer = person.request(mcpd, "tools.call", members, limit, wait=options.wait)
        except CallError as error:
            if error.kind != "connection_lost":
                raise
            message = "mcpd ended during the call, which may or may not have taken effect"
            raise CallError("outcome_unknown", message) from None
    result = found["result"]
    if options.json:
        output.say_json(answer)
    else:
        say_result(result)
    note_cuts(result, "content")
    return TOOL_ERROR if result.get("isError") is True else DONE


def tool_params(options: Namespace) -> dict[str, Any]:
    """Which tool is meant. Raises CallError `usage`."""
    tool = readable(options.tool)
    return {"server": readable(options.server), "tool": tool} if options.server else {"name": tool}


def guessed(words: list[str], text: str) -> bool:
    """Whether a value of KEY=VALUE was taken for something else than a string: its schema may know better."""
    by_name = words != ["-"] and not is_object(words)
    return by_name and not all(isinstance(value, str) for value in json.loads(text).values())


def is_object(words: list[str]) -> bool:
    return len(words) == 1 and words[0].lstrip()[:1] == "{"


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


def wants_text(schema: object, value: object) -> bool:
    """Whether a JSON schema allows strings and not the type that `value` has."""
    allowed = types_of(schema)
    return "string" in allowed and not allowed & types_as(value)


def types_of(schema: object) -> set[str]:
    """The names of types that a schema allows, as far as it says them outright."""
    if not isinstance(schema, dict):
        return set()
    said = schema.get("type")
    found = {name for name in (said if isinstance(said, list) else [said]) if isinstance(name, str)}
    for word in ("anyOf", "oneOf"):
        choices = schema.get(word)
        found.update(*map(types_of, choices if isinstance(choices, list) else ()))
    return found


def types_as(value: object) -> set[str]:
    """The names by which a schema may mean the type of a decoded value."""
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, (int, float)):
        return {"number", "integer"}
    return {"object" if isinstance(value, dict) else "array" if isinstance(value, list) else "null"}


def arguments_text(words: list[str], schemas: Mapping[str, Any] | None = None) -> str:
    """The arguments as JSON text on one line: what was written, not what it decodes to (b29).

    `schemas`, by name, say which values of KEY=VALUE are text although they read as something else.
    Raises CallError `usage`.
    """
    schemas = schemas or {}
    if words == ["-"]:
        return json_object(sys.stdin.buffer.read() if sys.stdin else b"")
    if is_object(words):
        return json_object(words[0].encode("utf-8", "surrogateescape"))
    members: dict[str, str] = {}
    for word in words:
        name, equals, value = readable(word).partition("=")
        if not equals or not name:
            raise CallError("usage", f'cannot read "{word}": neither KEY=VALUE nor one JSON object')
        if name in members:
            raise CallError("usage", f'"{name}" is given twice')
        members[name] = json_value(value, schemas.get(name))
    return "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in members.items()) + "}"


def readable(word: str) -> str:
    """`word`, which can be written in JSON. Raises CallError `usage` where it is not UTF-8."""
    try:
        word.encode()
    except UnicodeEncodeError:
        shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise CallError("usage", f'cannot use "{shown}": it is not valid UTF-8') from None
    return word


def json_object(data: bytes) -> str:
    """JSON text of an object, on one line. What the daemon would refuse is said here in the writer's words.

    Raises CallError `usage`.
    """
    try:
        text = data.decode("utf-8")
        decoded = decode(text)
    except UnicodeDecodeError:
        raise CallError("usage", "cannot read the arguments: they are not valid UTF-8") from None
    except UnicodeEncodeError:
        raise CallError("usage", "cannot use the arguments: a surrogate stands alone in a string") from None
    except RecursionError:
        raise CallError("usage", "cannot read the arguments: they are nested too deeply") from None
    except ValueError as error:
        raise CallError("usage", f"cannot read the arguments as JSON: {error}") from None
    if not isinstance(decoded, dict):
        raise CallError("usage", "cannot use the arguments: they must be a JSON object")
    return one_line(text)


def json_value(text: str, schema: object = None) -> str:
    """`text` itself where it is JSON, else, or where the schema asks for one, `text` as a JSON string.

    Raises CallError `usage` for a number of which most readers would make infinity.
    """
    try:
        value = decode(text)
    except (ValueError, RecursionError):
        return json.dumps(text)
    if not isinstance(value, str) and wants_text(schema, value):
        return json.dumps(text)
    if isinstance(value, float) and abs(value) == float("inf"):
        raise CallError("usage", f'cannot use "{text}": too large for a number', f"as text: '\"{text}\"'")
    return one_line(text)


def decode(text: str) -> Any:
    """Raises ValueError, RecursionError; UnicodeEncodeError for surrogates without their other half."""
    value = json.loads(text, parse_constant=_no_constant)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def one_line(text: str) -> str:
    # Valid JSON has bare line ends between tokens only.
    return text.strip().replace("\r", " ").replace("\n", " ")


def say_result(result: Any) -> None:
    """A CallToolResult for people: text as it is, everything else in a line."""
    blocks = result.get("content")
    for block in blocks if isinstance(blocks, list) else ():
        output.say(output.visible_block(block_text(block) if isinstance(block, dict) else json.dumps(block)))
    if not blocks and "structuredContent" in result:
        output.say(output.visible_json(json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)))


def note_cuts(result: Any, member: str) -> None:
    """Say beside an answer what mcpd left out of it (a18)."""
    for reason in left_out(result.get(member)):
        setting = " (max_result in config.toml)" if "the limit is" in reason else ""
        output.note(f"the answer is cut: {reason}{setting}")


def left_out(parts: Any) -> list[str]:
    """What mcpd says that it left out, in texts of its own at the end: content blocks, the parts of a
    resource, messages of a prompt."""
    reasons: list[str] = []
    for part in parts[::-1] if isinstance(parts, list) else ():
        inner = part.get("content", part) if isinstance(part, dict) else None
        text = inner.get("text") if isinstance(inner, dict) else None
        if not isinstance(text, str) or not (text.startswith("[mcpd: ") and "left out" in text):
            break
        reasons.insert(0, text.removeprefix("[mcpd: ").removesuffix("]"))
    return reasons


def block_text(block: dict[str, Any]) -> str:
    kind = block.get("type")
    if kind == "text":
        return str(block.get("text", ""))
    if kind in ("image", "audio"):
        return binary(block.get("mimeType"), block.get("data"))
    if kind == "resource":
        inner = block.get("resource")
        inner = inner if isinstance(inner, dict) else {}
        return str(inner["text"]) if "text" in inner else binary(inner.get("mimeType"), inner.get("blob"))
    if kind == "resource_link":
        return f"[resource {block.get('uri')}]"
    return f"[{kind}]"


def binary(mime: object, data: object) -> str:
    """The summary of base64 data, with its decoded size (a17)."""
    text = str(data or "").rstrip("=")
    return f"[binary {mime or 'application/octet-stream'}: ~{len(text) * 3 // 4} bytes]"


def _tools(arguments: Arguments) -> None:
    arguments.add_argument("--server", metavar="SERVER", help="only this server's")
    arguments.add_argument("--agent", metavar="AGENT", help="only what this agent may use, in its spelling")
    waiting(arguments)


def _describe(arguments: Arguments) -> None:
    arguments.add_argument("tool", metavar="TOOL", help=TOOL_HELP)
    _which(arguments)


TOOL_HELP = "its name, as in `mcpctl tools`; behind -- if it begins with a dash"


def _which(arguments: Arguments) -> None:
    arguments.add_argument("--server", metavar="SERVER", help="TOOL is this server's own name for it")
    waiting(arguments)


def approving(arguments: Arguments) -> None:
    """Of what may have to be approved."""
    arguments.add_argument(
        "--wait",
        type=seconds,
        metavar="TIME",
        help="where a person has to approve it: wait so long for an answer from elsewhere",
    )


def _call(arguments: Arguments) -> None:
    arguments.add_argument("tool", metavar="TOOL", nargs="?", help=TOOL_HELP)
    _which(arguments)
    approving(arguments)
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
