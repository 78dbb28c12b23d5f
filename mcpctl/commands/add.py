"""`mcpctl add`: one more server, and its first connection."""

from __future__ import annotations

import os

from mcpctl import output
from mcpctl.commands import QUICK, SLOW, Command, duration, place, reach
from mcpctl.commands.servers import report, verdict
from mcpctl.commands.tools import every_tool
from mcpctl.errors import DONE, CallError
from mcpctl.paths import config_folder, home

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.client import Client
    from mcpctl.commands import Arguments


def add(options: Namespace) -> int:
    """Add a server, connect it once and show its tools."""
    params = definition(options)
    where = place(options)
    if where.moved_by:
        output.note(f"using the daemon at {where.control}, as {where.moved_by} says")
    with reach(options) as mcpd:
        info, text = mcpd.request("servers.add", params, QUICK)
        if not options.json:
            output.say(output.visible(f'added "{info["name"]}" ({info["source"]})'))
            if info["instance"] == "agent":
                what = "it keeps a state of its caller's, so each agent gets an instance of its own"
                output.note(f'{what}; instance = "shared" in its file makes it one for all')
        if options.no_wait:
            if options.json:
                output.say_json(f'{{"server":{text},"test":null}}')
            return DONE
        return first_connection(mcpd, options, text)


def first_connection(mcpd: Client, options: Namespace, added: str) -> int:
    """Wait until the new server is connected, or could not be, and say so (c07)."""
    if not options.json:
        output.note_waiting(f"{options.name} to answer")
    found, text = mcpd.request("servers.test", {"server": options.name}, SLOW)
    if options.json:
        output.say_json(f'{{"server":{added},"test":{text}}}')
        return verdict(found)
    output.say(report(found))
    if not found["ok"]:
        if word := misplaced(options):
            where = f'"{word}" is in this folder, and the server runs in your home folder'
            again = f"mcpctl remove {options.name}, then add it with the full path or with --cwd ."
            output.note(output.visible(f"{where}: {again}"))
        return verdict(found)
    tools = every_tool(mcpd, {"server": options.name}, SLOW)
    # The report has the server's own warnings already; here its name stands before them.
    told = tuple(found["warnings"])
    tools.left_out = [reason for reason in tools.left_out if not reason.endswith(told)]
    tools.say()
    output.say(output.visible(f"next: {next_step(options.name, tools.entries)}"))
    return DONE


def misplaced(options: Namespace) -> str:
    """An argument that names a file from where the caller stands, but not from where the server runs."""
    words = [*options.words, *options.tail]
    if options.cwd or is_remote(options.transport, words):
        return ""
    own = home(os.environ)
    files = (word for word in words[1:] if os.path.exists(word) and not os.path.isabs(word))
    return next((word for word in files if not os.path.exists(os.path.join(own, word))), "")


def next_step(name: str, tools: list[Any]) -> str:
    """What a person would want to do with the new server."""
    usable = [tool["name"] for tool in tools if tool["approval"] == "never"]
    if usable:
        return f"mcpctl call {usable[0]} key=value   or: mcpctl describe {usable[0]}"
    return f"each call asks you first; if you believe what it says of its tools: mcpctl trust {name}"


def definition(options: Namespace) -> dict[str, object]:
    """The params of `servers.add`. Raises CallError `usage`."""
    refuse_values(options)
    words = [*options.words, *options.tail]
    pinned = {"risk": options.risk, "approval": options.approval, "timeout": options.call_timeout}
    policy = {name: value for name, value in pinned.items() if value is not None}
    return {
        "name": options.name,
        **(remote(options, words) if is_remote(options.transport, words) else local(options, words)),
        **({"start": options.start} if options.start else {}),
        **({"default_policy": policy} if policy else {}),
    }


def is_remote(transport: str | None, words: list[str]) -> bool:
    """Whether a URL was given, or must have been (b10). Raises CallError `usage` where both contradict."""
    by_url = bool(words) and words[0].lower().startswith(("http://", "https://"))
    if transport == "stdio" and by_url:
        raise CallError("usage", "--transport stdio contradicts a URL")
    if words and "://" in words[0] and not by_url:
        # Nobody names a command so; as one it would be stored and never found.
        raise CallError("usage", "a URL begins with http:// or https://", REMOTE_HINT)
    return by_url or transport in ("http", "sse")


def remote(options: Namespace, words: list[str]) -> dict[str, object]:
    """The params of a server that is reached by its URL; what it speaks is found out by asking it."""
    if not words or "://" not in words[0]:
        raise CallError("usage", f'no URL given for "{options.name}"', REMOTE_HINT)
    if len(words) > 1:
        raise CallError("usage", "a URL takes no arguments", REMOTE_HINT)
    for option, value in (("--cwd", options.cwd), ("--path", options.path)):
        if value:
            raise CallError("usage", f"{option} means nothing beside a URL", REMOTE_HINT)
    return {"url": words[0]}


def local(options: Namespace, words: list[str]) -> dict[str, object]:
    """The params of a server that is started by its command."""
    if not words or not words[0]:
        raise CallError("usage", f'no command given for "{options.name}"', ADD_HINT)
    command, folder = located(words[0], options.path)
    given = {
        "cwd": os.path.abspath(os.path.expanduser(options.cwd)) if options.cwd else None,
        "path": folder,
    }
    return {
        "command": command,
        "args": words[1:],
        **{name: value for name, value in given.items() if value},
    }


def refuse_values(options: Namespace) -> None:
    """Values cannot be kept in a secret store yet: name the file they go into (issue 2, scope 7)."""
    for option, table, values in (("--env", "env", options.env), ("--header", "headers", options.header)):
        if values:
            key = key_of(values[0])
            raise CallError(
                "usage",
                f'cannot store the value of "{option} {key}" yet',
                f'add the server without it, write "{key}" into the table "{table}" of '
                f"{config_folder(os.environ)}/servers.d/{options.name}.toml, then: mcpctl reload",
            )


def key_of(given: str) -> str:
    """The name in KEY=VALUE or `Key: value`. Nothing else is repeated: it may be a secret, and messages
    end up in logs; a text without either mark may be a value alone.
    """
    marks = [at for at in map(given.find, "=:") if at > 0]
    key = given[: min(marks, default=0)]
    return key if key and all(c.isascii() and (c.isalnum() or c in "_-.") for c in key) else "KEY"


def located(command: str, path: str | None) -> tuple[str, str]:
    """The command and the folder to search for it (b03), by the caller's PATH or the given one.

    A command with a slash is made absolute instead: the daemon runs in another folder.
    """
    if "/" in command:
        return os.path.abspath(os.path.expanduser(command)), path or ""
    if path:
        return command, path
    for folder in os.environ.get("PATH", os.defpath).split(":"):
        # Folders relative to wherever the caller stands mean nothing to the daemon.
        if folder.startswith("/") and runnable(os.path.join(folder, command)):
            return command, folder
    raise CallError(
        "usage", f'cannot find "{command}" in PATH', "give its full path, or the folder with --path"
    )


def runnable(file: str) -> bool:
    return os.path.isfile(file) and os.access(file, os.X_OK)


REMOTE_HINT = "mcpctl add NAME https://HOST/PATH"

ADD_HINT = "put -- before a server's command that has options of its own: mcpctl add NAME -- COMMAND ARGS..."


def _add(arguments: Arguments) -> None:
    arguments.add_argument("name", metavar="NAME", help="a name: a-z, 0-9, _ . -")
    arguments.add_argument(
        "words", metavar="COMMAND", nargs="*", help="the server's command and arguments, or its URL"
    )
    arguments.add_argument("--cwd", metavar="DIR", help="where it runs; default: the home folder")
    arguments.add_argument("--path", metavar="DIRS", help="folders to search for the command")
    arguments.add_argument("--start", choices=("lazy", "eager"), help="when it is connected")
    arguments.add_argument("--risk", choices=("low", "medium", "high"), help="pin the risk of its tools")
    arguments.add_argument(
        "--approval",
        choices=("never", "unless_auto_approved", "always", "deny"),
        help="pin when a person is asked",
    )
    arguments.add_argument(
        "--timeout",
        dest="call_timeout",
        type=duration,
        metavar="TIME",
        help="pin how long a call may take; 0: no limit",
    )
    arguments.add_argument(
        "--transport",
        choices=("stdio", "http", "sse"),
        help="default: what fits; sse is as http, what the server speaks is found out",
    )
    arguments.add_argument("--no-wait", action="store_true", help="do not wait for the first connection")
    arguments.add_argument(
        "--env", metavar="KEY=VALUE", action="append", help="not yet: names the file to edit"
    )
    arguments.add_argument("--header", metavar="KEY=VALUE", action="append", help="not yet, like --env")


COMMANDS = (
    Command(
        "add",
        add,
        _add,
        usage="mcpctl add NAME [options] [--] COMMAND [ARG ...]   or: mcpctl add NAME [options] URL",
        spread=True,
        hint=ADD_HINT,
    ),
)
