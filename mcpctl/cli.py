"""From words to a command, from an outcome to an exit code."""

from __future__ import annotations

import sys

from mcpctl import output
from mcpctl.commands import MODULES, Command, common, every_command, find
from mcpctl.errors import DONE, FAILED, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import NoReturn

#: Options that may stand before the verb, and whether a value follows.
BEFORE = {"--json": False, "--no-spawn": False, "--socket": True}


def main(words: list[str]) -> int:
    """Run one command line; returns its exit code."""
    code = outcome(words)
    output.settle()
    return code


def outcome(words: list[str]) -> int:
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = run(words)
        output.flush()
    except CallError as error:
        return refuse(error, as_json="--json" in up_to_dashes(words))
    except BrokenPipeError:
        return DONE  # the reader has seen enough
    except FileNotFoundError:
        # No answer meets this; what does is a relative path where nothing is relative to any more.
        output.note("cannot tell the current folder: it was removed")
        return FAILED
    except OSError as error:
        output.note(f"cannot write the answer: {error.strerror}")
        return FAILED
    return code


def refuse(error: CallError, *, as_json: bool) -> int:
    """Say what went wrong: to people on stderr, with `--json` to programs on stdout as well."""
    output.note(error.message)
    if error.hint:
        output.note(error.hint)
    if as_json:
        import json

        told = {"kind": error.kind, "message": error.message, "hint": error.hint}
        try:
            output.say_json(json.dumps({"error": {**error.data, **told}}))
            output.flush()
        except OSError:
            pass  # nobody takes it; the exit code stays
    return error.exit_code


def up_to_dashes(words: list[str]) -> list[str]:
    return words[: words.index("--")] if "--" in words else words


def run(words: list[str]) -> int:
    """Raises CallError, OSError of stdout."""
    leading, verb, rest = split(words)
    if verb == "help" or "--help" in leading or "-h" in leading:
        output.say(help_text())
        return DONE
    if "--version" in leading:
        leading.remove("--version")
        verb = "version"
    if not verb:
        from mcpctl.commands.daemon import overview

        return execute(Command("", overview), leading)
    if verb not in MODULES:
        import difflib

        near = difflib.get_close_matches(verb[:40], MODULES, 1, 0.6)
        meant = f', did you mean "{near[0]}"?' if near else ""
        raise CallError("usage", f'unknown command "{verb}"{meant}', "see: mcpctl --help")
    return execute(find(verb), leading + rest)


def split(words: list[str]) -> tuple[list[str], str, list[str]]:
    """Options before the verb, the verb, what follows it."""
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if BEFORE.get(words[at]) else 1
    return words[:at], "".join(words[at : at + 1]), words[at + 1 :]


def execute(command: Command, words: list[str]) -> int:
    tail: list[str] = []
    if command.spread:
        given, words = words, up_to_dashes(words)
        tail = given[len(words) + 1 :]
    parser = make_parser(command)
    try:
        options = parse(parser, command, words)
    except SystemExit:
        return DONE  # --help was given; all else is an error
    options.tail = tail
    return command.run(options)


def parse(parser: ArgumentParser, command: Command, words: list[str]) -> Namespace:
    return parser.parse_intermixed_args(words) if command.spread else parser.parse_args(words)


def make_parser(command: Command) -> ArgumentParser:
    """The parser of one command alone; making all of them would cost more than the command."""
    import argparse

    def formatter(prog: str) -> argparse.HelpFormatter:
        # argparse makes one for each argument, and without a width it imports shutil to find one.
        return argparse.HelpFormatter(prog, width=min(output.terminal_width(), 100))

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            self.print_usage(sys.stderr)
            raise CallError("usage", message, command.hint)

    parser = Parser(
        prog=f"mcpctl {command.name}".strip(),
        usage=command.usage or None,
        description=command.summary,
        formatter_class=formatter,
        allow_abbrev=False,
    )
    common(parser, json=command.json)
    if command.declare:
        command.declare(parser)
    return parser


def help_text() -> str:
    width = max(map(len, MODULES))
    lines = [f"  {command.name.ljust(width)}  {command.summary}" for command in every_command()]
    return HELP.format(commands="\n".join(lines))


HELP = """\
usage: mcpctl [--json] [--socket PATH] [--no-spawn] COMMAND ...

The command line of mcpd. Alone it shows the state and the next step.

{commands}

mcpctl COMMAND --help shows the options of one command. With --json answers go to stdout as JSON, and so do
errors: {{"error": {{"kind", "message", "hint", ...}}}}.

Exit codes: 0 done, 1 failed, 2 usage, 3 daemon not running, 4 refused, 5 approval needed or denied,
6 no such server, tool or agent, 7 timed out, 8 api mismatch, 9 the tool answered with an error,
10 try again, 11 login needed, 12 server unavailable, 130 interrupted"""
