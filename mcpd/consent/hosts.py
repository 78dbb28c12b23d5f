"""Which processes are agents' own, so that none of them answers in the place of a person (n06).

An agent is what attached and, behind a bridge, the host that started it. Processes stay known when their
session is over: while something waits for an answer to them, nobody below them may give it; after that they
are told apart from strangers, as long as they live.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from mcpd import processes
from mcpd.processes import Ident, Link

#: Programs that only start another one. With options of their own before it, and under any of their names.
LAUNCHERS = frozenset(
    {
        *(
            "env",
            "nohup",
            "setsid",
            "nice",
            "ionice",
            "chrt",
            "taskset",
            "timeout",
            "stdbuf",
            "time",
            "xargs",
        ),
        *("strace", "script", "unbuffer", "sudo", "doas", "dotenv", "direnv", "mise", "asdf", "nix-shell"),
        *("npx", "npm", "pnpm", "yarn", "bunx", "uv", "uvx", "pipx", "poetry", "hatch", "pixi", "conda"),
        *("bwrap", "firejail", "flatpak", "systemd-inhibit", "dbus-run-session", "xvfb-run"),
    }
)
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "fish", "ksh", "mksh", "busybox", "nu", "xonsh"})
#: Scripts of node's that are launchers; node itself is what many hosts are.
NODE_LAUNCHERS = ("npx", "npx-cli.js", "npm", "npm-cli.js", "pnpm.cjs", "yarn.js")
#: What a person works in, and what starts everything else: never an agent's host.
PEOPLES = frozenset({"tmux", "screen", "zellij", "dtach", "abduco", "systemd", "init", "login", "sshd"})
#: Programs besides our own bridge that pump bytes for a host.
RELAYS = frozenset({"socat", "nc", "ncat", "netcat"})

#: Launchers that are skipped above a bridge.
SKIPPED = 8
#: Characters of a host's command line that a person is shown.
LONGEST = 300
#: Processes of sessions that are over; beyond it those that have ended are forgotten.
REMEMBERED = 256


#: Options of shells that take the next word, and give the shell nothing to run.
WITH_VALUE = frozenset({"--rcfile", "--init-file", "-O", "+O", "-o", "+o", "-C", "--init-command", "-d"})

Hosting = Mapping[Ident, str]
"""Process -> the session that it is an agent's process by."""


class Hosts:
    """The only owner of who is an agent's process. Reads /proc when a session begins."""

    def __init__(self, lives: Callable[[str], bool]) -> None:
        """`lives` tells whether a question or an unused one-time yes of that session's is there."""
        self._lives = lives
        self._attached: dict[str, Hosting] = {}
        """Session -> its processes."""
        self._gone: dict[str, Hosting] = {}
        """The same of sessions that are over."""

    def attached(self, session: str, pid: int) -> None:
        """A session has begun. Another process that shares it is told in the same way."""
        known = self._attached.get(session, {})
        if len(known) > REMEMBERED:
            known = _living(known)
        found = {link.ident: session for link in agents_own(processes.chain(pid))}
        self._attached[session] = _joined(known, found)

    def left(self, session: str) -> None:
        """A session is over."""
        gone = self._attached.pop(session, {})
        if gone:
            self._gone[session] = gone
        if len(self._gone) > REMEMBERED:
            living = {name: _living(hosting) for name, hosting in self._gone.items()}
            self._gone = {name: hosting for name, hosting in living.items() if hosting}

    @property
    def present(self) -> Hosting:
        """Those who are attached, and those whose question or one-time yes is still there."""
        waiting = [hosting for session, hosting in self._gone.items() if self._lives(session)]
        return _joined(*waiting, *self._attached.values())

    @property
    def past(self) -> Hosting:
        """Those who were attached once."""
        return _joined(*self._gone.values())


def _living(hosting: Hosting) -> Hosting:
    return {ident: session for ident, session in hosting.items() if processes.alive(ident)}


def _joined(*all_of_them: Hosting) -> Hosting:
    return {ident: session for hosting in all_of_them for ident, session in hosting.items()}


def agents_own(chain: Sequence[Link]) -> tuple[Link, ...]:
    """The processes of an agent's, from the chain of the one that attached: itself and, where it is a bridge,
    the launchers above it and the host, which is the first process above that is neither.

    A person's own shell and what it runs in are nobody's host: a bridge that was started from there has
    none. Pure.
    """
    if not chain:
        return ()
    peer, *above = chain
    if not is_bridge(peer):
        return (peer,)
    return (peer, *_host(above))


def host_above(pid: int) -> str:
    """What a bridge pumps bytes for, as a command line for a person; empty for a process that is none, or
    that has no host."""
    own = agents_own(processes.chain(pid))
    return (shlex.join(own[-1].argv) or own[-1].name)[:LONGEST] if len(own) > 1 else ""


def _host(above: Sequence[Link]) -> Iterator[Link]:
    for link in above[: SKIPPED + 1]:
        if is_persons(link):
            return
        yield link
        if not is_launcher(link):
            return


def is_bridge(link: Link) -> bool:
    """Whether this process only pumps bytes for another."""
    if _names(link) & RELAYS:
        return True
    words = link.argv
    return any("mcpctl" in word.split("/") and "bridge" in words[at + 1 :] for at, word in enumerate(words))


def is_launcher(link: Link) -> bool:
    """Whether the process is there only to start another."""
    names = _names(link)
    if "node" in names:
        return link.argv[1:] != () and link.argv[1].rpartition("/")[2] in NODE_LAUNCHERS
    return bool(names & SHELLS or names & LAUNCHERS)


def is_persons(link: Link) -> bool:
    """Whether a person works in it: a shell at a terminal that was given nothing to run, a multiplexer, a
    login, a manager."""
    names = _names(link)
    return bool(names & PEOPLES) or bool(names & SHELLS and link.terminal and _is_bare(link.argv[1:]))


def _is_bare(words: Sequence[str]) -> bool:
    """Whether these arguments of a shell give it neither a command nor a script."""
    rest = iter(words)
    for word in rest:
        if word in WITH_VALUE:
            next(rest, "")
        elif word[:1] not in ("-", "+") or (word[:2] != "--" and "c" in word) or word == "--command":
            return False
    return True


def _names(link: Link) -> set[str]:
    """What the process is called, by the kernel and by its first word: tmux is "tmux: server", npm
    "npm exec ...", a login shell "-bash"."""
    said = (link.name, link.argv[0].rpartition("/")[2] if link.argv else "")
    return {word.lstrip("-").replace(":", " ").partition(" ")[0] for word in said}
