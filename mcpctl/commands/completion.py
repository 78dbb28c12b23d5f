"""`mcpctl completion`: scripts for bash, zsh and fish, made from what the commands declare.

Names of servers and tools are asked from the daemon while completing. They come from servers, and shells
evaluate words, so only names of harmless characters are offered.
"""

from __future__ import annotations

from mcpctl import client, output
from mcpctl.commands import Command, common, every_command, place
from mcpctl.errors import DONE, CallError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable
    from typing import Any

    from mcpctl.commands import Arguments

#: Metavar -> what the daemon is asked for.
NAMES = {"SERVER": "servers", "TOOL": "tools", "AGENT": "agents"}

#: Seconds that a completion may wait for the daemon.
PATIENCE = 0.2

HARMLESS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")


class Option:
    """One option as completion sees it."""

    __slots__ = ("choices", "flags", "help", "names", "takes_value")

    def __init__(self, flags: tuple[str, ...], settings: dict[str, Any]) -> None:
        self.flags = flags
        self.help: str = settings.get("help", "")
        self.takes_value = settings.get("action") != "store_true"
        self.choices: tuple[str, ...] = tuple(settings.get("choices") or ())
        self.names = NAMES.get(settings.get("metavar", ""), "")


class Declared:
    """Reads what one command declares."""

    def __init__(self, command: Command) -> None:
        self.summary = command.summary
        self.options: list[Option] = []
        self.words: list[Option] = []
        common(self, json=command.json)
        if command.declare:
            command.declare(self)

    def add_argument(self, *names: str, **settings: Any) -> None:
        kind = self.options if names[0].startswith("-") else self.words
        kind.append(Option(names, settings))

    @property
    def flags(self) -> list[str]:
        return [flag for option in self.options for flag in option.flags]


def completion(options: Namespace) -> int:
    """Print a completion script for bash, zsh or fish."""
    if options.names:
        for name in names(options):
            output.say(name)
    elif options.shell:
        declared = {command.name: Declared(command) for command in every_command()}
        output.say({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](declared))
    else:
        raise CallError("usage", "no shell named: bash, zsh or fish")
    return DONE


def names(options: Namespace) -> list[str]:
    """Names that the daemon knows; none where it does not answer at once."""
    try:
        mcpd = client.try_open(place(options), PATIENCE)
        if mcpd is None:
            return []
        with mcpd:
            found = known(mcpd, options.names)
    except CallError:
        return []
    return [name for name in found if name and set(name) <= HARMLESS]


def known(mcpd: client.Client, kind: str) -> list[str]:
    if kind == "agents":
        return list(mcpd.call("daemon.status", timeout=PATIENCE)["agents"])
    return [str(entry["name"]) for entry in mcpd.call(f"{kind}.list", timeout=PATIENCE)[kind]]


def offers(option: Option) -> str:
    """Shell words that stand for the values of an option or word; empty: files."""
    if option.names:
        return f"$(mcpctl completion --names {option.names} 2>/dev/null)"
    return " ".join(option.choices)


def bash(declared: dict[str, Declared]) -> str:
    verbs = " ".join(declared)
    flags = "\n".join(f'    {verb}) flags="{" ".join(of.flags)}" ;;' for verb, of in declared.items())
    values = "\n".join(
        f"    {verb}:{'|'.join(f'{verb}:{flag}' for flag in option.flags).removeprefix(f'{verb}:')})"
        f' values="{offers(option)}" ;;'
        for verb, of in declared.items()
        for option in of.options
        if option.takes_value
    )
    words = "\n".join(
        f'    {verb}) values="{offers(of.words[0])}" ;;'
        for verb, of in declared.items()
        if of.words and offers(of.words[0])
    )
    return BASH.format(verbs=verbs, flags=flags, values=values, words=words)


#: Names from the daemon reach `compgen -W`, which expands its words: `names` lets harmless ones through only.
BASH = """\
_mcpctl() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} verb= word flags= values=
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $word == -* ]] || {{ verb=$word; break; }}
  done
  if [[ -z $verb ]]; then
    COMPREPLY=($(compgen -W "{verbs}" -- "$current"))
    return
  fi
  case $verb in
{flags}
  esac
  if [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
    return
  fi
  case $verb:$previous in
{values}
    *) case $verb in
{words}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$values" -- "$current"))
}}
complete -o default -F _mcpctl mcpctl"""


def zsh(declared: dict[str, Declared]) -> str:
    verbs = "\n".join(f"    {quote(f'{verb}:{of.summary}')}" for verb, of in declared.items())
    cases = "\n".join(
        f"    {verb}) _arguments {' '.join(zsh_specs(of))} && return ;;" for verb, of in declared.items()
    )
    return ZSH.format(verbs=verbs, cases=cases)


ZSH = """\
#compdef mcpctl
_mcpctl() {{
  local -a verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then
    _describe command verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
{cases}
  esac
}}
if [[ $funcstack[1] == _mcpctl ]]; then _mcpctl "$@"; else compdef _mcpctl mcpctl; fi"""


def zsh_specs(of: Declared) -> Iterable[str]:
    for option in of.options:
        for flag in option.flags:
            text = option.help.replace("[", "(").replace("]", ")").replace(":", "\\:")
            yield quote(f"*{flag}[{text}]" + (f":value:{zsh_action(option)}" if option.takes_value else ""))
    if of.words:
        yield quote(f"1:name:{zsh_action(of.words[0])}")
        yield quote("*:argument:_files")


def zsh_action(option: Option) -> str:
    values = offers(option)
    return f"({values})" if option.choices else f"{{compadd -- {values}}}" if values else "_files"


def fish(declared: dict[str, Declared]) -> str:
    lines = ["complete -c mcpctl -f"]
    for verb, of in declared.items():
        lines.append(f"complete -c mcpctl -n __fish_use_subcommand -a {verb} -d {quote(of.summary)}")
        seen = f"-n '__fish_seen_subcommand_from {verb}'"
        lines += [f"complete -c mcpctl {seen} {fish_spec(option)}" for option in of.options]
        lines += [
            f"complete -c mcpctl {seen} -a {quote(fish_words(word))}"
            if offers(word)
            else f"complete -c mcpctl {seen} -F"
            for word in of.words
        ]
    return "\n".join(lines)


def fish_spec(option: Option) -> str:
    flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
    value = ""
    if option.takes_value:
        value = f" -x -a {quote(fish_words(option))}" if offers(option) else " -r"
    return f"{flags}{value} -d {quote(option.help)}"


def fish_words(option: Option) -> str:
    # fish runs commands in parentheses when the completion is asked for.
    return offers(option).replace("$(", "(")


def quote(text: str) -> str:
    """`text` as one word; what this makes means the same to zsh and fish."""
    return "'" + text.replace("'", "'\\''") + "'"


def _completion(arguments: Arguments) -> None:
    arguments.add_argument("shell", nargs="?", choices=("bash", "zsh", "fish"), help="the shell")
    arguments.add_argument("--names", choices=tuple(NAMES.values()), help="print names that the daemon knows")


COMMANDS = (Command("completion", completion, _completion),)
