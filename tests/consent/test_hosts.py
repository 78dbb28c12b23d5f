"""Which processes are an agent's (n06): the attached one, and the host of a bridge behind its launchers."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from mcpd import processes
from mcpd.consent.hosts import REMEMBERED, Hosts, agents_own, host_above
from mcpd.processes import Link

TTY = 34816
BRIDGE = ("mcpctl", "python3 -I -m mcpctl bridge --agent coder")
BASH = ("bash", "bash", TTY)
CLAUDE = ("claude", "claude --resume")

#: Process and parents upward, each as name, command line, terminal -> those that are the agent's.
CHAINS: dict[str, tuple[list[tuple[str, ...] | tuple[str, str, int]], list[str]]] = {
    "an own script in a shell": ([("python3", "python3 agent.py", TTY), BASH], ["python3"]),
    "a host over HTTP": ([CLAUDE, BASH], ["claude"]),
    "a bridge and its host": ([BRIDGE, CLAUDE, BASH], ["mcpctl", "claude"]),
    "by the console script": (
        [("mcpctl", "/x/python /x/mcpctl bridge"), CLAUDE],
        ["mcpctl", "claude"],
    ),
    "by a shell": ([BRIDGE, ("sh", "sh -c mcpctl bridge"), CLAUDE, BASH], ["mcpctl", "sh", "claude"]),
    "by a login shell with a command": (
        [BRIDGE, ("zsh", "/bin/zsh -lc mcpctl bridge", TTY), ("code", "code"), BASH],
        ["mcpctl", "zsh", "code"],
    ),
    "by a script": ([BRIDGE, ("bash", "bash /x/run.sh", TTY), CLAUDE, BASH], ["mcpctl", "bash", "claude"]),
    "by uv": ([BRIDGE, ("uv", "uv run mcpctl bridge"), ("goose", "goose")], ["mcpctl", "uv", "goose"]),
    "by npx": (
        [BRIDGE, ("sh", "sh -c x"), ("node", "node /usr/bin/npx x"), ("node", "node /x/cli.js")],
        ["mcpctl", "sh", "node", "node"],
    ),
    "by npm, which names itself": (
        [BRIDGE, ("npm exec x", "npm exec x"), ("codex", "codex")],
        ["mcpctl", "npm exec x", "codex"],
    ),
    "a host that is a program of node's": ([BRIDGE, ("node", "node /x/claude.js"), BASH], ["mcpctl", "node"]),
    "a relay": ([("socat", "socat - UNIX-CONNECT:x"), CLAUDE], ["socat", "claude"]),
    "by hand in a shell": ([BRIDGE, BASH, ("tmux: server", "tmux")], ["mcpctl"]),
    "by hand in a login shell": ([BRIDGE, ("bash", "-bash", TTY), ("sshd", "sshd")], ["mcpctl"]),
    "by hand in a shell of an editor's": (
        [BRIDGE, ("bash", "bash --init-file /x/integration.sh -i", TTY), ("code", "code")],
        ["mcpctl"],
    ),
    "by a shell that reads its commands from a pipe": (
        [BRIDGE, ("bash", "bash"), ("claude", "claude"), BASH],
        ["mcpctl", "bash", "claude"],
    ),
    "as a command of tmux": ([BRIDGE, ("tmux: server", "tmux new mcpctl bridge")], ["mcpctl"]),
    "by the user's manager": ([BRIDGE, ("systemd", "/usr/lib/systemd/systemd --user")], ["mcpctl"]),
    "nobody": ([], []),
}


@pytest.mark.parametrize("case", CHAINS)
def test_which_processes_are_an_agents(case: str) -> None:
    above, expected = CHAINS[case]
    chain = [
        Link(100 + at, 1, name=str(name), argv=str(line).split(), terminal=int(rest[0]) if rest else 0)
        for at, (name, line, *rest) in enumerate(above)
    ]
    assert [link.name for link in agents_own(chain)] == expected


@pytest.fixture
def child() -> Iterator[int]:
    program = [sys.executable, "-I", "-S", "-c", "input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE) as process:
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()
        process.kill()


def ident(pid: int) -> processes.Ident:
    link = processes.look(pid)
    assert link is not None
    return link.ident


def test_an_agent_is_present_while_it_is_attached(child: int) -> None:
    hosts = Hosts(lambda session: False)
    hosts.attached("s1", child)
    assert hosts.present == {ident(child): "s1"}
    assert hosts.past == {}
    hosts.left("s1")
    assert hosts.present == {}
    assert hosts.past == {ident(child): "s1"}


def test_it_stays_present_while_a_question_of_its_lives(child: int) -> None:
    living = {"s1"}
    hosts = Hosts(living.__contains__)
    hosts.attached("s1", child)
    hosts.left("s1")
    assert hosts.present == {ident(child): "s1"}
    living.clear()
    assert hosts.present == {}


def test_several_processes_share_a_session(child: int) -> None:
    hosts = Hosts(lambda session: False)
    hosts.attached("s1", child)
    hosts.attached("s1", os.getpid())
    assert hosts.present.keys() == {ident(child), ident(os.getpid())}


def test_a_process_that_is_gone_or_unknown_is_nobody() -> None:
    hosts = Hosts(lambda session: False)
    hosts.attached("s1", 0)
    hosts.attached("s2", 2**22 + 1)
    assert hosts.present == {}


def test_of_very_many_only_the_living_are_kept(child: int) -> None:
    hosts = Hosts(lambda session: False)
    hosts.attached("living", child)
    hosts.left("living")
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as dying:
        for number in range(REMEMBERED):
            hosts.attached(f"s{number}", dying.pid)
            hosts.left(f"s{number}")
        dying.kill()
    hosts.attached("last", os.getpid())
    hosts.left("last")
    assert hosts.past.keys() == {ident(child), ident(os.getpid())}


def test_a_person_is_shown_who_is_behind_a_bridge() -> None:
    """These tests are the host of what they start."""
    program = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "mcpctl", "bridge"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as bridge:
        assert bridge.stdout is not None
        bridge.stdout.readline()  # by now it has its command line
        assert host_above(bridge.pid) == shlex.join(processes.chain(os.getpid())[0].argv)[:300]
        assert bridge.stdin is not None
        bridge.stdin.close()
    assert host_above(bridge.pid) == ""
    assert host_above(os.getpid()) == ""
