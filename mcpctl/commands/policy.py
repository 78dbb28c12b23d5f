"""Policy before it counts: what is wrong with a file, what would be decided otherwise."""

from __future__ import annotations

import os
import sys

from mcpctl import output
from mcpctl.commands import QUICK, Command, reach, waiting
from mcpctl.errors import DONE, FAILED, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from mcpctl.client import Client
    from mcpctl.commands import Arguments

ACTIONS = ("check", "replay")

#: Bytes of a file that is checked; the daemon reads no larger ones.
MOST = 1 << 20


def policy(options: Namespace) -> int:
    """Check a file before it counts (exit code 1: something is wrong), or decide past requests anew."""
    if options.action == "replay":
        from mcpctl.commands.replay import replay

        if options.file is not None:
            raise CallError("usage", "replay takes no file: it decides by what counts now")
        return replay(options)
    for name in ("since", "until", "agent", "server"):
        if getattr(options, name) is not None:
            raise CallError("usage", f"--{name} is for replay")
    limit = options.timeout or QUICK
    with reach(options) as mcpd:
        file, text = asked(mcpd, options.file, limit)
        found, answer = mcpd.request("config.check", {"file": file, "text": text}, limit)
    if options.json:
        output.say_json(answer)
    else:
        for finding in found["findings"]:
            output.say(output.visible(line_of(finding, file, options.file or file)))
        if not found["findings"]:
            output.note(f"nothing is wrong with it as {found['taken_for']}")
    return FAILED if any(finding["certain"] for finding in found["findings"]) else DONE


def asked(mcpd: Client, name: str | None, limit: float) -> tuple[str, str]:
    """The absolute path and the text of the file to be checked; without a name the daemon's config.toml,
    which need not exist. Raises CallError."""
    if name == "-":
        return os.path.abspath("config.toml"), decoded(sys.stdin.buffer.read(MOST + 1), "standard input")
    if name is not None:
        return os.path.abspath(name), read(name)
    file = mcpd.call("daemon.status", timeout=limit)["config_file"]
    return file, read(file) if os.path.exists(file) else ""


def read(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            return decoded(opened.read(MOST + 1), file)
    except OSError as error:
        raise CallError("usage", f'cannot read "{file}": {error.strerror}') from None


def decoded(data: bytes, name: str) -> str:
    if len(data) > MOST:
        raise CallError("usage", f'cannot check "{name}": it is larger than {MOST} bytes')
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CallError("usage", f'cannot check "{name}": line {line} is not UTF-8 text') from None


def line_of(finding: Any, file: str, name: str) -> str:
    """As compilers write it, so that editors find the place."""
    where = name if finding["file"] == file else finding["file"]
    parts = [f"{where}:{finding['line']}" if finding["line"] else where]
    parts += [] if finding["certain"] else ["perhaps"]
    return ": ".join([*parts, *filter(None, [finding["place"]]), finding["message"]])


def _policy(arguments: Arguments) -> None:
    arguments.add_argument(
        "action",
        choices=ACTIONS,
        help="check: what is wrong with a file; replay: which past requests would be decided otherwise now",
    )
    arguments.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        help="config.toml or a draft of it, a file of agents.d or servers.d, - for standard input",
    )
    when = "replay: 30m, 2h, 3d ago; 14:00; 2026-11-30; '2026-11-30 14:00'"
    arguments.add_argument("--since", metavar="TIME", help=when)
    arguments.add_argument("--until", metavar="TIME", help=when)
    arguments.add_argument("--agent", metavar="AGENT", help="replay: only this agent's; - is `mcpctl call`")
    arguments.add_argument("--server", metavar="SERVER", help="replay: only to this server")
    waiting(arguments)


COMMANDS = (
    Command("policy", policy, _policy, usage="mcpctl policy check [FILE] | mcpctl policy replay [options]"),
)
